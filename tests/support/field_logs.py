"""Real logs of the field. They lie beside the repository, not in it; cut-downs lie in tests/data/field."""

from __future__ import annotations

import csv
import json
import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support.paths import SHARED, SHARED_FOLDER
from support.reading import DATA, Reading, read

import perflog

CORPUS = SHARED / "corpus"
HERE = (CORPUS / "index.tsv").is_file()
needs_corpus = pytest.mark.skipif(not HERE, reason="needs the real logs in ../shared/corpus")
both = pytest.mark.parametrize("whole", [pytest.param(True, marks=needs_corpus), False], ids=["whole", "cut-down"])
"""A claim about a real log, and the same about its cut-down."""


@cache
def index() -> dict[str, dict[str, Any]]:
    """What each real log should give, as it was counted by hand, by the log's place in the corpus."""
    csv.field_size_limit(1 << 20)
    with (CORPUS / "index.tsv").open(encoding="utf-8", newline="") as rows:
        every = {r["local"]: r["expected"] for r in csv.DictReader(rows, delimiter="\t")}
    return {name: json.loads(expected) for name, expected in every.items() if expected.startswith("{")}


def local(start: str) -> str:
    """The one log of the corpus whose place starts so."""
    found = [name for name in index() if name.startswith(start)]
    assert len(found) == 1, found
    return found[0]


@cache
def corpus(start: str) -> Reading:
    """A real log, read."""
    return read((CORPUS / local(start)).read_bytes())


def stored(trace: Path) -> perflog.Log:
    """A real trace in a store, read once for all processes of a test run: the largest one takes seconds."""
    store = Path(os.environ[SHARED_FOLDER]) / trace.name
    if not store.exists():
        part = store.with_name(f"{trace.name}.{os.getpid()}")
        perflog.ingest(trace, store=part)
        with suppress(OSError):  # another process was first
            part.rename(store)
    return perflog.load(store)


@cache
def cut(name: str) -> Reading:
    """A cut-down of tests/data/field, read."""
    return read((DATA / "field" / f"{name}.txt").read_bytes())


def rows(reading: Reading, table: str, /, **where: Any) -> list[dict[str, Any]]:
    """Rows of a table in the order of the log, those that are as `where` says."""
    found = [r for r in reading.rows(table) if all(r[k] == v for k, v in where.items())]
    return sorted(found, key=lambda r: (r["line"], r["part"]))


def unread_figures(log: Reading) -> int:
    """The number of figures that no table takes and no format declares dropped."""
    return log.done.figures["unread"]


def unread(reading: Reading) -> dict[str, int]:
    """Shapes of lines that nothing reads, and how many there are. What is read and what is not add up."""
    assert reading.balances()
    return {r["shape"]: r["count"] for r in reading.rows("lines") if r["status"] == "unread"}


def config(reading: Reading, run: int = 0) -> dict[str, Any]:
    """All that a log says of one of its runs."""
    found: dict[str, Any] = json.loads(reading.rows("runs")[run]["config"])
    return found


def column(reading: Reading, table: str, name: str, /, **where: Any) -> list[Any]:
    """A column of a table, of the rows that are as `where` says."""
    return [r[name] for r in rows(reading, table, **where)]
