"""The five logs that the facts are about, as text and as tables.

Their text lies beside the repository, not in it. Where it is missing, the logs are written back from the tables of the
reference runs, which hold every figure of them: the same facts are tested, of the same figures on the same lines.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.paths import ROOT, SHARED, SHARED_FOLDER
from support.relog import relog

import perflog

SEEDS = SHARED / "seeds"
FILES = {
    "moe_layer": "000_ca1fcef3d5de366d.txt",
    "moe_layer_early": "001_29816c293d78207d.txt",
    "training_sweep": "002_26bf590b3074c9de.txt",
    "nvprof": "003_b242c8ec621f16d2.txt",
    "pipeline_layers": "004_cbcb88115115ad29.txt",
}
HERE = all((SEEDS / name).is_file() for name in FILES.values())
needs_seeds = pytest.mark.skipif(not HERE, reason="needs the text of the five logs in ../shared/seeds")
"""For what the tables do not hold: the bytes of the logs themselves."""

MS = 1e-3


@cache
def path(name: str) -> Path:
    """The file of a log."""
    return SEEDS / FILES[name] if HERE else written_back(name)


def written_back(name: str) -> Path:
    """A log written back from the reference runs, once for all processes of a test run."""
    file = Path(os.environ[SHARED_FOLDER]) / f"{name}.txt"
    if not file.exists():
        part = file.with_suffix(f".{os.getpid()}")
        part.write_text(relog(stored(name)), encoding="utf-8")
        part.replace(file)
    return file


@cache
def stored(name: str) -> perflog.Log:
    """The runs of a log in the store of the reference runs."""
    store = perflog.load(ROOT / "reference_runs" / "store")
    return store.select(*[run for run in store.run_keys if run.log == f"{name}.txt"])


@cache
def lines(name: str) -> list[str]:
    """Lines of a log without their ends. Line n is `lines(name)[n - 1]`."""
    text = path(name).read_bytes().decode()
    assert text.endswith("\n")
    return text[:-1].split("\n")


@cache
def log(name: str) -> perflog.Log:
    return perflog.read(path(name))


@cache
def table(name: str, table: str) -> list[dict[str, Any]]:
    """Rows of a table, with the run's place in the log for its id. None of them is a guess."""
    place = {run.id: run.index for run in log(name).run_keys}
    rows = [row | {"run": place[row["run"]]} for row in log(name).arrow(table).to_pylist()]
    assert all(row.pop("read_by", None) is None for row in rows)
    return rows


def rows(name: str, of: str, /, **where: Any) -> list[dict[str, Any]]:
    return [r for r in table(name, of) if all(r[k] == v for k, v in where.items())]


class Hit(NamedTuple):
    """A line that a pattern of a test matches."""

    line: int
    groups: tuple[str, ...]


def hits(name: str, pattern: str) -> Iterator[Hit]:
    """Whole lines that match."""
    for number, text in enumerate(lines(name), 1):
        if match := re.fullmatch(pattern, text):
            yield Hit(number, match.groups())


KINDS = {
    "block_info": r"block_info (\d+) (\d+)",
    "process": r"cuda:(\d) process time:(\S+), a: (\S+), b: (\S+), c: (\S+), d: (\S+)",
    "wait": r"(\d) wait time: (\S+)",
    "count": r"(\d+)",
    "AG": r"AG, (\S+), (\S+), 0 ",
    "prep": r"perpare first forward gemm: (\S+),  fisrt gemm forward duration: (\S+)",
    "GA": r"GA, (\S+), (\S+), 0 ",
    "forward": r"forward:  (\S+)",
    "linear2": r"Linear 2 Backward: (\S+), second_gemm: (\S+)",
    "prep_back": r"perpare first backward gemm: (\S+),  fisrt gemm backward duration: (\S+),"
    r"  weight grad: (\S+),  other: (\S+)",
    "linear1": r"Linear 1 Backward:  (\S+)",
    "STEP": r"STEP-(\d+): step_time = (\S+) ms, foward_time = (\S+), backward_time = (\S+), perf = (\S+) tflops\.",
}
"""The line shapes of the MoE layer logs."""
