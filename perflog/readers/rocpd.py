"""rocpd databases, what rocprofv3 writes unless told otherwise since ROCm 7.0: kernels, copies, calls, ROCTX ranges.

A process has a set of tables, told apart by the end of their names; merged files have several sets. Since schema 4 the
process, thread and device of an event stand in its track. Columns that a table lacks are null.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from perflog.errors import InputError
from perflog.parsing.input.source import Source
from perflog.readers.columns import NONE, WORDS, Columns, between
from perflog.readers.database import Database, integers, reading, unpacked
from perflog.readers.filling import STEP, Filling, picked
from perflog.readers.kinds import CODE, ON_DEVICE
from perflog.readers.out import Out
from perflog.readers.ranks import numbered
from perflog.readers.records import CALLS, kind_of
from perflog.readers.rocpdtables import EVENTS, NUMBERS, Set, sets
from perflog.readers.rows import Who, events
from perflog.readers.vocabulary import Vocabulary
from perflog.tables.sink import IngestResult, RunLabels, Sink

NAME = "rocpd_sqlite"
TITLE = "rocpd database of rocprofv3"
SOURCE = "rocprofv3 of ROCm 7.0 and later, `rocprofv3 --output-format rocpd`, `rocpd merge`"

_SCHEMA = re.compile(rb"CREATE TABLE\s+[\"`\[]?rocpd_")
_HEAD = 1 << 20  # bytes in which the schema stands, which is written before all rows
_RANGE, _MARK = CODE["range"], CODE["mark"]
_ON_DEVICE = sorted(ON_DEVICE)

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int64]


def sees(source: Source) -> bool:
    """Whether this is a SQLite file with tables of rocpd."""
    return source.start(16).startswith(b"SQLite format 3\0") and _SCHEMA.search(source.start(_HEAD)) is not None


def proof(source: Source) -> list[tuple[int, str, str]]:
    """Place, name and rows of each table of events."""
    with _opened(source) as (_, found):
        told, place = [], 1
        for one in found:
            for name in one.present:
                count = one.count(name)
                told += [(place, name, f"{count} rows")] if count else []
                place += count
        return told


def read(
    source: Source,
    sink: Sink,
    label: RunLabels,
    threads: int,  # noqa: ARG001  # one reads, one makes rows, one writes
    progress: Callable[[int], None] | None,
    processes: bool,  # noqa: ARG001
) -> IngestResult:
    """Read a database into a sink."""
    with reading(source, NAME, sink, _opened) as ((db, found), out):
        rows = _Reading(db, out, source)
        for one in found:
            one.learn()
            rows.all(one)
        out.account(0, rows.shapes)
        if progress is not None:
            progress(source.size())
        return out.end(label, rows.place, _config(source, found), **_columns(found))


@contextmanager
def _opened(source: Source) -> Iterator[tuple[Database, list[Set]]]:
    with unpacked(source) as path, closing(Database(path, source.name)) as db:
        found = sets(db)
        if not any(one.count(name) for one in found for name in one.present):
            help = "ask rocprofv3 for a trace, such as --runtime-trace"
            raise InputError("a rocpd database without kernels, copies or calls", source.name, help)
        yield db, found


class _Reading:
    """One database on its way into tables."""

    def __init__(self, db: Database, out: Out, source: Source) -> None:
        self.db, self.out = db, out
        self.place = 0  # of the last row that was read
        self.shapes: dict[tuple[str, str], list[Any]] = {}
        self.texts = {name: Vocabulary() for name in (*WORDS, "range")}
        rank, rule = numbered([(source.name, {})])[0]
        self.who = Who(out.run, 0, rank, rule)

    def all(self, one: Set) -> None:
        """Read a set of tables, its ranges twice: only when all are known it is known what lies in them."""
        filling = Filling(self._ranges(one), self.texts)
        for table, batch in self.db.arrays([(t, one.query(t)) for t in one.present]):
            rows = self._rows(one, table, batch)
            kept = np.ones(len(rows["kind"]), np.bool_) if table != "sample" else rows["kind"] >= 0
            self._account("read", table, rows["place"][kept])
            self._account("context", f"{table} of no call", rows["place"][~kept])
            rows = {name: column[kept] for name, column in rows.items()}
            calls = np.isin(rows["kind"], [CODE[kind] for kind in CALLS])
            if calls.any():
                filling.called({name: column[calls] for name, column in rows.items()})
            filled = filling.filled(rows)
            unknown = (filled["range"] < 0) & np.isin(rows["kind"], _ON_DEVICE)
            filled["range"] = np.where(unknown, filled.pop("region"), filled["range"])
            self.out.events(events(self.who, filled, self.texts))
        self.out.steps([(self.who, *step) for step in filling.printed])
        if counters := one.count("pmc_event"):
            self._account("context", "pmc_event", np.arange(self.place + 1, self.place + 1 + counters))
            self.place += counters

    def _ranges(self, one: Set) -> list[Columns]:
        ranges, place, names = [], self.place, self.texts["name"].texts
        queries = [("region", one.query("region", only_ranges=True))] if "region" in one.present else []
        for table, batch in self.db.arrays(queries):
            rows = self._rows(one, table, batch)
            steps = [c for c in np.unique(rows["name"]).tolist() if c >= 0 and STEP.match(names[c])]
            ranges.append(picked(rows, np.array(steps, np.int32))[0])
        self.place = place
        return ranges

    def _account(self, status: str, shape: str, places: Any) -> None:
        if len(places):
            self.shapes.setdefault((status, shape), [0, int(places[0]), ""])[0] += len(places)

    def _rows(self, one: Set, table: str, batch: pa.RecordBatch) -> Columns:
        """Rows of a batch, as columns. Their place counts on over all tables."""
        given, count = dict(zip(batch.schema.names, batch.columns, strict=True)), batch.num_rows
        number = {n: integers(given[n]) if n in given else np.full(count, NONE, np.int64) for n in NUMBERS}
        kind, name = self._named(one, table, number, given.get("text"))
        start, end = number["start"], number["end"]
        lasted = np.where(kind == _MARK, NONE, between(start, end))
        instant = np.where((kind == _MARK) | (table != "sample"), NONE, 0)
        on_device = np.isin(kind, _ON_DEVICE)
        category = self._mapped("category", number["category"], one.categories)
        rows = {
            "place": np.arange(self.place + 1, self.place + 1 + count), "kind": kind, "name": name,
            "category": np.where(category < 0, self.texts["category"].code(table), category),
            "start": start, "duration": np.where(lasted == NONE, instant, lasted),
            "device": np.where(on_device, _devices(one, number), NONE), "stream": number["stream"],
            "process": self._mapped("process", number["pid"], one.pids, own=True),
            "thread": np.where(on_device, -1, self._mapped("thread", number["tid"], one.tids, own=True)),
            "correlation": np.where(number["internal"] == 0, NONE, number["internal"]),
            "external": np.where(number["external"] == 0, NONE, number["external"]),
            "bytes": number["bytes"], "region": self._mapped("range", number["region"], one.strings),
        }  # fmt: skip
        self.place += count
        return rows

    def _named(self, one: Set, table: str, number: Columns, text: pa.Array | None) -> tuple[Codes, Codes]:
        """Codes of kinds and of names. A marker's own name is what it does: its message is its name."""
        what = EVENTS[table]
        if what == "kernel":
            return np.full(len(number["start"]), CODE[what]), self._mapped("name", number["kernel"], one.kernels)
        name = self._mapped("name", number["name"], one.strings)
        said = np.full(len(name), -1)
        if text is not None and pa.types.is_string(text.type):
            words = text.dictionary_encode()
            codes = [self.texts["name"].code(word) if word else -1 for word in words.dictionary.to_pylist()]
            said = np.array(codes, np.int64)[words.indices.to_numpy()]
        if what is not None:
            return np.full(len(name), CODE[what]), name
        kinds = {
            n: CODE.get(kind_of(one.categories.get(n, "")) or "", -1) for n in np.unique(number["category"]).tolist()
        }
        kind = np.array([kinds[n] for n in number["category"].tolist()])
        marker = kind == _RANGE
        doing = [c for c in np.unique(name[marker]).tolist() if c >= 0]
        calls = [c for c in doing if self.texts["name"].texts[c].startswith("roctx")]
        marks = [c for c in doing if "mark" in self.texts["name"].texts[c].lower()]
        kind[marker & (said < 0) & np.isin(name, calls)] = CODE["library"]  # such as pausing the profiler
        kind[marker & (np.isin(name, marks) | (table == "sample")) & (kind == _RANGE)] = _MARK
        return kind, np.where(said >= 0, said, name)

    def _mapped(self, column: str, numbers: Ints, names: Mapping[int, str], own: bool = False) -> Codes:
        """Codes of the texts of numbers. `own`: a number that nothing names is its own name."""
        found, index = np.unique(numbers, return_inverse=True)
        texts = [names.get(n, str(n) if own and n != NONE else "") for n in found.tolist()]
        return np.array([self.texts[column].code(text) if text else -1 for text in texts], np.int64)[index]


def _devices(one: Set, number: Columns) -> Ints:
    """The device that worked: of a copy the one it went to, or where that is none the one it came from."""
    found = np.full(len(number["start"]), NONE, np.int64)
    for way in ("agent", "to", "since"):
        agents, index = np.unique(number[way], return_inverse=True)
        given = np.array([one.devices.get(agent, NONE) for agent in agents.tolist()], np.int64)[index]
        found = np.where(found == NONE, given, found)
    return found


# --- what is said of the run --------------------------------------------------------------------------------------


def _config(source: Source, found: list[Set]) -> dict[str, Any]:
    file = {"name": os.path.basename(source.name), "sha256": source.digest(), "sets": [one.said() for one in found]}
    return {"clock": "trace", "files": [file]}


def _columns(found: list[Set]) -> dict[str, Any]:
    """Columns of the run's row."""
    gpus = [agent for one in found for agent in one.agents if agent.get("type") == "GPU"]
    names = (agent.get("product_name") or agent.get("model_name") or agent.get("name") for agent in gpus)
    programs = [p["command"] for one in found for p in one.said()["processes"] if p.get("command")]
    return {"device": ", ".join(dict.fromkeys(n for n in names if n)) or None, "program": next(iter(programs), None)}
