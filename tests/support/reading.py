"""Reads bytes into tables that can be compared, and makes logs of parts of the samples."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

from support.paths import TESTS

from perflog.ingestion.pipeline import ingest
from perflog.parsing.input.source import Source, open_source
from perflog.readers.registry import find_reader
from perflog.tables.schema import TABLES
from perflog.tables.sink import IngestResult, MemorySink

DATA = TESTS / "data"
NAMES = ("moe_layer", "moe_layer_early", "training_sweep", "nvprof", "pipeline_layers")
LABELS = (b"%d: ", b" %d: ", b"[default%d]:", b"[rank%d]:", b"[1,%d]<stdout>:")

_FOLDER = tempfile.mkdtemp(prefix="perflog-tests-")
atexit.register(shutil.rmtree, _FOLDER, ignore_errors=True)

Row = tuple[tuple[str, str], ...]


@cache
def sample(name: str) -> bytes:
    """A log cut down to what makes it one: every kind of its lines, several steps of several ranks."""
    return (DATA / f"{name}.txt").read_bytes()


@cache
def sample_lines(name: str) -> tuple[bytes, ...]:
    return tuple(sample(name).splitlines())


def labelled(data: bytes, label: bytes, ranks: Sequence[int] = (5,)) -> bytes:
    """The log with a rank label in front of every line, that of each rank in turn."""
    return b"".join(
        label % rank + line + b"\n" for rank, line in zip(cycle(ranks), data.split(b"\n")[:-1], strict=False)
    )


@dataclass
class Reading:
    """What was read: the account, and the tables."""

    done: IngestResult
    kept: MemorySink
    _counted: dict[tuple[str, ...], dict[str, Counter[Row]]] = field(default_factory=dict, compare=False)
    _rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict, compare=False)

    def rows(self, table: str) -> list[dict[str, Any]]:
        if table not in self._rows:
            self._rows[table] = self.kept.fetch(table).to_pylist()
        return list(map(dict, self._rows[table]))  # a test may change its own

    def tables(self, *without: str) -> dict[str, Counter[Row]]:
        """The rows of each table, whatever their order. Floats are compared to the last bit."""
        if without not in self._counted:
            counted = {name: Counter(_row(r, without) for r in self.rows(name)) for name in TABLES}
            self._counted[without] = {name: rows for name, rows in counted.items() if rows}
        return self._counted[without]

    def balances(self) -> bool:
        lines = self.done.lines
        counted: int = sum(r["count"] for r in self.rows("lines"))
        return lines["total"] == lines["read"] + lines["context"] + lines["unread"] == counted


def _row(row: dict[str, Any], without: tuple[str, ...]) -> Row:
    if row.get("config"):
        row = row | {"config": dict(sorted(json.loads(row["config"]).items()))}
    return tuple((name, repr(value)) for name, value in row.items() if name not in without)


def write(data: bytes) -> Source:
    """The bytes as a log of always the same name, so that readings of the same bytes can be equal."""
    path = Path(_FOLDER) / "log"
    path.write_bytes(data)
    return Source("log", str(path))


def read(data: bytes, **options: Any) -> Reading:
    """The bytes, read as a log. Raises what `ingest` raises."""
    kept = MemorySink()
    return Reading(ingest(write(data), kept.reset, **options), kept)


def proof_of(path: str | Path) -> list[tuple[int, str, str]]:
    """What proves the format of a file that is no log of lines: position, name and content of some events."""
    with open_source(str(path)) as source:
        reader = find_reader(source)
        assert reader is not None
        return reader.proof(source)


def physical_lines(data: bytes) -> int:
    return sum(chunk.lines for chunk in write(data).chunks())


def differences(one: dict[str, Counter[Row]], two: dict[str, Counter[Row]]) -> list[str]:
    """A few rows that only one of two readings has; empty if they are the same."""
    found = []
    for name in dict.fromkeys([*one, *two]):
        a, b = one.get(name, Counter()), two.get(name, Counter())
        for sign, rows in (("-", a - b), ("+", b - a)):
            found += [f"{name} {sign} {dict(row)}" for row in list(rows)[:2]]
    return found
