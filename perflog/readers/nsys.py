"""SQLite files that Nsight Systems exports: kernels, copies, calls, NVTX ranges.

Tables that would be empty are not in an export, columns came and went with its schema: all that is missing is null.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from perflog.errors import InputError
from perflog.parsing.input.source import Source
from perflog.readers.columns import NONE, WORDS, Columns, between
from perflog.readers.database import Database, integers, quoted, reading, unpacked
from perflog.readers.filling import STEP, Filling, picked, since
from perflog.readers.kinds import CODE
from perflog.readers.out import Out
from perflog.readers.ranks import numbered
from perflog.readers.rows import Who, events
from perflog.readers.session import Session
from perflog.readers.vocabulary import Vocabulary
from perflog.tables.sink import IngestResult, RunLabels, Sink

NAME = "nsys_sqlite"
TITLE = "SQLite export of Nsight Systems"
SOURCE = "`nsys export --type sqlite`, and `nsys stats`, which leaves one beside the report"

_ACTIVITY = "CUPTI_ACTIVITY_KIND_"
_MARK, _PUSH_POP, _START_END = 34, 59, 60  # eventType of NVTX_EVENTS: a point, ranges; others name things
_BITS = 24  # of a process and of a thread in globalPid and globalTid


@dataclass(frozen=True)
class Table:
    """A table of events. `name`: the column that tells the name, by a number that StringIds or `labels` explains."""

    table: str
    kind: str
    name: str
    fixed: str = ""  # the name of all its events; `{}` stands for a label of `labels`
    labels: str = ""  # table with id and label


# Calls and ranges come first: what ran on a device lies where the call lies that started it.
_TABLES = (
    Table("NVTX_EVENTS", "range", "textId"),
    Table(f"{_ACTIVITY}RUNTIME", "runtime", "nameId"),
    Table(f"{_ACTIVITY}DRIVER", "runtime", "nameId"),
    Table(f"{_ACTIVITY}KERNEL", "kernel", "demangledName"),
    Table(f"{_ACTIVITY}MEMCPY", "memcpy", "copyKind", fixed="Memcpy {}", labels="ENUM_CUDA_MEMCPY_OPER"),
    Table(f"{_ACTIVITY}MEMSET", "memset", "", fixed="Memset"),
    Table(f"{_ACTIVITY}SYNCHRONIZATION", "sync", "syncType", fixed="{}", labels="ENUM_CUPTI_SYNC_TYPE"),
    Table("CUDNN_EVENTS", "library", "nameId"),
    Table("CUBLAS_EVENTS", "library", "nameId"),
    Table("MPI_P2P_EVENTS", "library", "textId"),
    Table("MPI_COLLECTIVES_EVENTS", "library", "textId"),
    Table("MPI_OTHER_EVENTS", "library", "textId"),
    Table("OSRT_API", "os", "nameId"),
    Table("PROFILER_OVERHEAD", "overhead", "nameId"),
)
_NUMBERS = {
    "start": ("start",),
    "end": ("end",),
    "device": ("deviceId",),
    "stream": ("streamId",),
    "correlation": ("correlationId",),
    "bytes": ("bytes", "size"),
    "owner": ("globalTid", "globalPid"),
}
_NAMING = -2  # in place of a kind: rows of NVTX_EVENTS that only name a domain or a category
_NEW = -3  # in place of the code of a name: not looked up yet
_COPIES = {1: "Host-to-Device", 2: "Device-to-Host", 8: "Device-to-Device", 9: "Host-to-Host", 10: "Peer-to-Peer"}


def sees(source: Source) -> bool:
    """Any SQLite file: `read` says what it lacks if it is no export."""
    return source.start(16).startswith(b"SQLite format 3\0")


def proof(source: Source) -> list[tuple[int, str, str]]:
    """Place, name and rows of each table of events."""
    with _opened(source) as db:
        found, place = [], 1
        for table in _present(db):
            count = _count(db, table.table)
            found.append((place, table.table, f"{count} rows"))
            place += count
        return found


def read(
    source: Source,
    sink: Sink,
    label: RunLabels,
    threads: int,  # noqa: ARG001  # one reads, one makes rows, one writes
    progress: Callable[[int], None] | None,
    processes: bool,  # noqa: ARG001
) -> IngestResult:
    """Read an export into a sink."""
    with reading(source, NAME, sink, _opened) as (db, out):
        session, export = Session(db), _Export(db, out, source)
        export.all()
        if not export.place:
            help = "ask Nsight Systems for a trace, such as --trace=cuda,nvtx"
            raise InputError("no events in this export of Nsight Systems", source.name, help)
        if progress is not None:
            progress(source.size())
        config = session.config(os.path.basename(source.name), source.digest())
        return out.end(label, export.place, config, **session.columns())


@contextmanager
def _opened(source: Source) -> Iterator[Database]:
    with unpacked(source) as path, closing(Database(path, source.name)) as db:
        if not _present(db):
            help = "perflog reads exports of Nsight Systems, `nsys export --type sqlite`, and databases of rocprofv3"
            raise InputError("a SQLite file without tables of GPU activity, calls or ranges", source.name, help)
        yield db


def _present(db: Database) -> list[Table]:
    return [t for t in _TABLES if {"start", "end"} & set(db.tables.get(t.table, ()))]


def _count(db: Database, table: str) -> int:
    return int(db.rows(f"SELECT count(*) FROM {quoted(table)}")[0][0])


class _Export:
    """One export on its way into tables."""

    def __init__(self, db: Database, out: Out, source: Source) -> None:
        self.db, self.out = db, out
        self.place = 0  # of the last event that was read
        self.shapes: dict[tuple[str, str], list[Any]] = {}
        self.texts = {name: Vocabulary() for name in (*WORDS, "range")}
        rank, rule = numbered([(source.name, {})])[0]
        self.who = Who(out.run, 0, rank, rule)
        self._ids: dict[str, npt.NDArray[np.int32]] = {}
        self._base = Session(db).epoch() or 0

    def all(self) -> None:
        """Read all tables, the ranges twice: only when all are known it is known what lies in them."""
        present = _present(self.db)
        filling = Filling(self._ranges([t for t in present if t.kind == "range"]), self.texts)
        for table, batch in self.db.arrays([(t, self._query(t)) for t in present]):
            rows = self._rows(table, batch)
            self._account(table, rows)
            if table.kind == "runtime":
                filling.called(rows)
            elif table.kind == "range":
                rows = {name: column[rows["kind"] != _NAMING] for name, column in rows.items()}
            filled = filling.filled(rows)
            told = {"start": since(rows["start"], self._base), "correlation": _number(rows)}
            self.out.events(events(self.who, filled | told, self.texts))
        self.out.steps([(self.who, *step) for step in filling.printed])
        self._others(present)
        self.out.account(0, self.shapes)

    def _ranges(self, tables: list[Table]) -> list[Columns]:
        ranges: list[Columns] = []
        names = self.texts["name"].texts
        for table, batch in self.db.arrays([(t, self._query(t)) for t in tables]):
            rows = self._rows(table, batch)
            steps = [c for c in np.unique(rows["name"]).tolist() if c >= 0 and STEP.match(names[c])]
            ranges.append(picked(rows, np.array(steps, np.int32))[0])
        self.place = 0
        return ranges

    def _query(self, table: Table) -> str:
        have = self.db.tables[table.table]
        columns = {name: next((w for w in ways if w in have), None) for name, ways in _NUMBERS.items()}
        columns |= {"name": table.name, "type": "eventType"}
        chosen = [f"{quoted(column)} AS {quoted(name)}" for name, column in columns.items() if column in have]
        if "text" in have:
            chosen.append('ifnull("text", \'\') AS "text"')
        return f"SELECT {', '.join(chosen)} FROM {quoted(table.table)}"

    def _rows(self, table: Table, batch: pa.RecordBatch) -> Columns:
        """Rows of a batch, as columns. Their place counts on over all tables."""
        given, count = dict(zip(batch.schema.names, batch.columns, strict=True)), batch.num_rows
        nothing = np.full(count, NONE, np.int64)
        numbers = {n: integers(given[n]) if n in given else nothing for n in (*_NUMBERS, "name", "type")}
        start, end, owner = numbers["start"], numbers["end"], numbers["owner"]
        threaded = "globalTid" in self.db.tables[table.table]
        rows = {
            "place": np.arange(self.place + 1, self.place + 1 + count),
            "kind": self._kinds(table, numbers["type"]),
            "name": self._names(table, numbers["name"], given.get("text")),
            "category": np.full(count, self.texts["category"].code(table.table), np.int32),
            "start": start,
            "duration": between(start, end),
            "process": self._coded("process", np.where(owner == NONE, NONE, owner >> _BITS & (1 << _BITS) - 1)),
            "thread": self._coded("thread", np.where(threaded & (owner != NONE), owner & (1 << _BITS) - 1, NONE)),
            **{name: numbers[name] for name in ("device", "stream", "bytes")},
        }  # fmt: skip
        # Correlation numbers are each process's own; that of a process fits into what a process's number leaves.
        known = (numbers["correlation"] != NONE) & (owner != NONE)
        process = (owner >> _BITS & (1 << _BITS) - 1) << 32
        rows["correlation"] = np.where(known, process | numbers["correlation"] & 0xFFFFFFFF, numbers["correlation"])
        rows["duration"][rows["kind"] == CODE["mark"]] = NONE
        self.place += count
        return rows

    def _kinds(self, table: Table, types: npt.NDArray[np.int64]) -> npt.NDArray[np.int8]:
        kinds = np.full(len(types), CODE[table.kind], np.int8)
        if table.kind == "range" and len(types) and types[0] != NONE:
            kinds[types == _MARK] = CODE["mark"]
            kinds[~np.isin(types, (_MARK, _PUSH_POP, _START_END))] = _NAMING
        return kinds

    def _coded(self, column: str, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """Codes of the texts of numbers, of which there are few."""
        if len(numbers) and bool((numbers == numbers[0]).all()):
            found, index = numbers[:1], np.zeros(len(numbers), np.int64)
        else:
            found, index = np.unique(numbers, return_inverse=True)
        codes = [-1 if n == NONE else self.texts[column].code(str(n)) for n in found.tolist()]
        return np.array(codes, np.int32)[index]

    def _names(self, table: Table, ids: npt.NDArray[np.int64], text: pa.Array | None) -> npt.NDArray[np.int32]:
        codes = self._labelled(table, ids)
        if text is not None and pa.types.is_string(text.type):
            words = text.dictionary_encode()
            own = np.array([self.texts["name"].code(t) if t else -1 for t in words.dictionary.to_pylist()], np.int32)
            given = own[np.frombuffer(words.indices.buffers()[1], np.int32, len(words))]
            codes = np.where(given >= 0, given, codes)
        return codes

    def _labelled(self, table: Table, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """Codes of the names that numbers stand for, by a list of those met before."""
        ids = np.maximum(ids, -1)
        known = self._ids.setdefault(table.table, np.full(1, self._text(table, -1), np.int32))
        if (least := int(ids.max()) + 2) > len(known):
            known = np.append(known, np.full(2 * least - len(known), _NEW, np.int32))
            self._ids[table.table] = known
        codes = known[ids + 1]
        if (codes == _NEW).any():
            for number in np.unique(ids[codes == _NEW]).tolist():
                known[number + 1] = self._text(table, number)
            codes = known[ids + 1]
        return codes

    def _text(self, table: Table, number: int) -> int:
        """The code of the name that a number stands for."""
        if table.fixed and "{}" not in table.fixed:
            return self.texts["name"].code(table.fixed)
        if number == -1:
            return -1
        home, column = (table.labels, "label") if table.fixed else ("StringIds", "value")
        rows = []
        if column in self.db.tables.get(home, ()):
            rows = self.db.rows(f"SELECT {column} FROM {home} WHERE id = ?", number)
        text = rows[0][0] if rows else _COPIES.get(number, f"kind {number}") if table.fixed else None
        return -1 if text is None else self.texts["name"].code(table.fixed.format(text) if table.fixed else str(text))

    def _account(self, table: Table, rows: Columns) -> None:
        naming = rows["kind"] == _NAMING
        for status, shape, chosen in (("read", table.table, ~naming), ("context", f"{table.table} names", naming)):
            places = rows["place"][chosen]
            if len(places):
                self.shapes.setdefault((status, shape), [0, int(places[0]), ""])[0] += len(places)

    def _others(self, present: list[Table]) -> None:
        """Tables of samples and switches: they have times, and are no events of their own."""
        known = {t.table for t in present}
        for name, columns in self.db.tables.items():
            if name not in known and {"start", "timestamp", "rawTimestamp", "startedAt"} & set(columns):
                count = _count(self.db, name)
                if count:
                    self.shapes["context", name] = [count, self.place + 1, ""]
                    self.place += count


def _number(rows: Columns) -> npt.NDArray[np.int64]:
    """The correlation number as the export has it."""
    return np.where(rows["correlation"] == NONE, NONE, rows["correlation"] & 0xFFFFFFFF)
