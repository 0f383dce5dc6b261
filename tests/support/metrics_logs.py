"""Logs for the tests of metrics: the reference runs, the real logs, and tables made by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from support.paths import ROOT
from support.seeds import lines, log, stored

from perflog.metrics import Tables
from perflog.tables.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

REFERENCE = ROOT / "reference_runs" / "store"
BOTH = ["reference", "seed"]
"""A log read from the store of reference runs, and from its text."""


@cache
def tables(name: str, where: str = "reference") -> Tables:
    """Tables of one of the five logs."""
    if where == "seed":
        return Tables(log(name))
    return Tables(stored(name))


def runs(name: str, where: str = "reference") -> list[str]:
    """Run ids in the order of the log."""
    return list(tables(name, where)["runs"]["run"])


def rows(table: pd.DataFrame, **where: Any) -> list[dict[str, Any]]:
    """Rows with these values, None for null."""
    return [r for r in _python(table) if all(r[k] == v for k, v in where.items())]


def _python(table: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """The rows; column by column, as pandas takes long for a few rows."""
    names = table.columns.tolist()
    columns = ([None if _is_null(value) else value for value in table[name].tolist()] for name in names)
    yield from (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))


def _is_null(value: Any) -> bool:
    import pandas as pd

    return value is None or value is pd.NA or value != value


def row(table: pd.DataFrame, **where: Any) -> dict[str, Any]:
    (one,) = rows(table, **where)
    return one


def by_hand(name: str, values: Sequence[dict[str, Any]], world: int | None = None) -> dict[str, pd.DataFrame]:
    """Tables of one run of no known format, with these rows in table `name`, or in the one that a row names."""
    import pandas as pd

    run = {c.name: None for c in TABLES["runs"]} | {
        "run": "r",
        "index": 1,
        "world_size": world,
        "config": json.dumps({}),
    }
    made: dict[str, list[dict[str, Any]]] = {"runs": [run], name: []}
    for at, value in enumerate(values, 1):
        table = value.get("table", name)
        empty = {c.name: None for c in TABLES[table]}
        usual = {"copy": 1, "steps_averaged": 1} if table == "steps" else {}
        one = empty | {"run": "r", "line": at, "part": 0} | usual | {k: v for k, v in value.items() if k != "table"}
        made.setdefault(table, []).append(one)
    return {table: pd.DataFrame(of, columns=[c.name for c in TABLES[table]]) for table, of in made.items()}


def two_waiting_ranks() -> dict[str, pd.DataFrame]:
    """Tables of four steps of 10 s on lines 1 to 4; of a forward of 4 s, two ranks wait 1 and 3 s, on lines 5 to 12."""
    waits = [
        {"table": "phases", "phase": "wait", "step": step, "rank": rank, "occurrence": 1, "time_s": 1.0 + 2 * rank}
        for step in range(1, 5)
        for rank in (0, 1)
    ]
    steps = [{"step": step, "step_time_s": 10.0, "forward_s": 4.0, "backward_s": 5.0} for step in range(1, 5)]
    made = by_hand("steps", [*steps, *waits], world=2)
    made["runs"]["format"] = "moe_layer"
    return made


# --- the MoE benchmark's text, read by other means than the reader's -------------------------------------------------


@dataclass
class Step:
    """Milliseconds, as printed in one step."""

    process: dict[int, list[float]] = field(default_factory=dict)  # rank -> P, a, b, c, d
    wait: dict[int, float] = field(default_factory=dict)
    gather: list[tuple[str, float]] = field(default_factory=list)  # share as printed, time
    forward: list[float] = field(default_factory=list)
    linear2: list[tuple[float, float]] = field(default_factory=list)
    linear1: list[float] = field(default_factory=list)
    inside1: list[list[float]] = field(default_factory=list)
    step: tuple[float, float, float] = (0.0, 0.0, 0.0)


@cache
def printed() -> list[list[Step]]:
    """Runs and their steps."""
    found: list[list[Step]] = []
    now = Step()
    for text in lines("moe_layer"):
        numbers = [float(x) for x in re.findall(r"-?\d+\.\d+(?:e-\d+)?|(?<![\w.])\d+(?![\w.])", text)]
        if text.startswith("[Benchmark]"):
            found.append([])
        elif match := re.match(r"cuda:(\d) process time:", text):
            now.process[int(match[1])] = [float(x) for x in re.findall(r"[:] ?([\d.e-]+)(?:,|$)", text)]
        elif " wait time: " in text:
            now.wait[int(text[0])] = numbers[-1]
        elif text.startswith("AG, "):
            now.gather.append((text.split(", ")[1], float(text.split(", ")[2])))
        elif text.startswith("forward:  "):
            now.forward.append(numbers[-1])
        elif text.startswith("Linear 2 Backward"):
            now.linear2.append((float(text.split()[3][:-1]), float(text.split()[-1])))
        elif text.startswith("Linear 1 Backward"):
            now.linear1.append(float(text.split()[-1]))
        elif text.startswith("perpare first backward"):
            now.inside1.append([float(x) for x in re.findall(r": ([\d.e-]+)", text)])
        elif match := re.match(r"STEP-\d+: step_time = (\S+) ms, foward_time = (\S+), backward_time = (\S+), ", text):
            now.step = (float(match[1]), float(match[2]), float(match[3]))
            found[-1].append(now)
            now = Step()
    return found
