"""SQLite files that Nsight Systems exports: kernels, copies, calls, NVTX ranges.

An export has no empty tables, and columns came and went with its schema: missing columns are null.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from perflog.errors import InputError
from perflog.parsing.input.source import Source
from perflog.readers.event_columns import (
    KIND_CODE,
    MISSING,
    EventColumns,
    Int64s,
    durations_between,
    shift_starts,
)
from perflog.readers.event_context import EventContext, select_ranges, step_codes
from perflog.readers.event_table import EventAccount, EventOrigin, RunWriter, event_rows
from perflog.readers.interface import RankInfo, ReadOptions
from perflog.readers.rank_files import rank_of_file
from perflog.readers.spill_file import decompressed_path
from perflog.readers.sqlite import (
    Database,
    columns_of,
    integers,
    is_sqlite,
    open_with_writer,
    quote_name,
    text_codes,
)
from perflog.readers.string_interning import Codes, new_interners
from perflog.tables.sink import IngestResult, Sink

if TYPE_CHECKING:
    import pyarrow as pa

_MARK, _PUSH_POP, _START_END = 34, 59, 60  # eventType of NVTX_EVENTS: a point, ranges; other types name things
_ID_BITS = 24  # of a process and of a thread in globalPid and globalTid


class NsysReader:
    """Reads SQLite exports of Nsight Systems."""

    name = "nsys_sqlite"
    title = "SQLite export of Nsight Systems"
    source = "`nsys export --type sqlite`, and `nsys stats`, which leaves one beside the report"

    def detect(self, source: Source) -> bool:
        """Accept any SQLite file: if it is no export, `read` names the missing parts."""
        return is_sqlite(source)

    def proof(self, source: Source) -> list[tuple[int, str, str]]:
        """Return place, name and number of rows of each table of events."""
        with _open_export(source) as db:
            proof, place = [], 1
            for table in _tables_in(db):
                count = db.count(table.name)
                proof.append((place, table.name, f"{count} rows"))
                place += count
            return proof

    def rank_info(self, source: Source) -> RankInfo | None:  # noqa: ARG002
        """Each export is a run of its own."""
        return None

    def read(self, source: Source, sink: Sink, options: ReadOptions) -> IngestResult:
        """Read an export into a sink. One thread reads, one makes rows, one writes."""
        with open_with_writer(source, self.name, sink, _open_export) as (db, writer):
            session, export = Session(db), _Export(db, writer, source)
            export.read()
            if not export.place:
                help = "ask Nsight Systems for a trace, such as --trace=cuda,nvtx"
                raise InputError("no events in this export of Nsight Systems", source.name, help)
            if options.progress is not None:
                options.progress(source.size())
            config = session.config(os.path.basename(source.name), source.digest())
            return writer.write_run(options.label, export.place, config, **session.run_columns())


@contextmanager
def _open_export(source: Source) -> Iterator[Database]:
    with decompressed_path(source) as path, closing(Database(path, source.name)) as db:
        if not _tables_in(db):
            help = "perflog reads exports of Nsight Systems, `nsys export --type sqlite`, and databases of rocprofv3"
            raise InputError("a SQLite file without tables of GPU activity, calls or ranges", source.name, help)
        yield db


# --- tables -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExportTable:
    """A table of an export that holds events of one kind, and how its events are named."""

    name: str
    kind: str
    name_column: str  # holds a number, which StringIds or `label_table` explains
    event_name: str = ""  # of all its events; `{}` stands for a label of `label_table`
    label_table: str = ""  # with columns id and label


_ACTIVITY = "CUPTI_ACTIVITY_KIND_"
# Calls and ranges come first: work on a device is in the range of the call that started it.
_EXPORT_TABLES = (
    ExportTable("NVTX_EVENTS", "range", "textId"),
    ExportTable(f"{_ACTIVITY}RUNTIME", "runtime", "nameId"),
    ExportTable(f"{_ACTIVITY}DRIVER", "runtime", "nameId"),
    ExportTable(f"{_ACTIVITY}KERNEL", "kernel", "demangledName"),
    ExportTable(f"{_ACTIVITY}MEMCPY", "memcpy", "copyKind", "Memcpy {}", "ENUM_CUDA_MEMCPY_OPER"),
    ExportTable(f"{_ACTIVITY}MEMSET", "memset", "", "Memset"),
    ExportTable(f"{_ACTIVITY}SYNCHRONIZATION", "sync", "syncType", "{}", "ENUM_CUPTI_SYNC_TYPE"),
    ExportTable("CUDNN_EVENTS", "library", "nameId"),
    ExportTable("CUBLAS_EVENTS", "library", "nameId"),
    ExportTable("MPI_P2P_EVENTS", "library", "textId"),
    ExportTable("MPI_COLLECTIVES_EVENTS", "library", "textId"),
    ExportTable("MPI_OTHER_EVENTS", "library", "textId"),
    ExportTable("OSRT_API", "os", "nameId"),
    ExportTable("PROFILER_OVERHEAD", "overhead", "nameId"),
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
"""Numbers of an event, and the columns that may hold them."""

_COPY_KINDS = {1: "Host-to-Device", 2: "Device-to-Host", 8: "Device-to-Device", 9: "Host-to-Host", 10: "Peer-to-Peer"}
_TIME_COLUMNS = {"start", "timestamp", "rawTimestamp", "startedAt"}

_NO_EVENT = -2  # instead of a kind: rows of NVTX_EVENTS that only name a domain or a category
_NOT_LOOKED_UP = -3  # instead of the code of a name


def _tables_in(db: Database) -> list[ExportTable]:
    return [table for table in _EXPORT_TABLES if {"start", "end"} & set(db.tables.get(table.name, ()))]


class _Export:
    """Reads the events of one export and writes them."""

    def __init__(self, db: Database, writer: RunWriter, source: Source) -> None:
        self.db, self.writer = db, writer
        self.place = 0  # of the last event that was read
        self.account = EventAccount()
        self.interners = new_interners()
        self.origin = EventOrigin(writer.run, 0, *rank_of_file(source.name))
        self._name_codes: dict[str, Codes] = {}  # table -> code of the name at index (number + 1)
        self._epoch = Session(db).epoch() or 0

    def read(self) -> None:
        """Read all tables, the ranges twice: the contents of a range are known only when all ranges are."""
        tables = _tables_in(self.db)
        context = EventContext(self._ranges([table for table in tables if table.kind == "range"]), self.interners)
        for table, batch in self.db.batches([(table, self._query(table)) for table in tables]):
            rows = self._rows(table, batch)
            self._count(table, rows)
            if table.kind == "runtime":
                context.add_calls(rows)
            elif table.kind == "range":
                rows = {name: column[rows["kind"] != _NO_EVENT] for name, column in rows.items()}
            rows = context.fill(rows)
            rows |= {"start": shift_starts(rows["start"], self._epoch), "correlation": _printed_correlation(rows)}
            self.writer.write_events(event_rows(self.origin, rows, self.interners))
        self.writer.write_steps([(self.origin, *step) for step in context.host_steps])
        self._count_other_tables(tables)
        self.writer.write_account(0, self.account)

    def _ranges(self, tables: list[ExportTable]) -> list[EventColumns]:
        ranges: list[EventColumns] = []
        for table, batch in self.db.batches([(table, self._query(table)) for table in tables]):
            rows = self._rows(table, batch)
            ranges.append(select_ranges(rows, step_codes(rows["name"], self.interners["name"].texts)))
        self.place = 0
        return ranges

    def _query(self, table: ExportTable) -> str:
        present = self.db.tables[table.name]
        columns = {number: next((c for c in ways if c in present), None) for number, ways in _NUMBERS.items()}
        columns |= {"name": table.name_column, "type": "eventType"}
        chosen = [f"{quote_name(column)} AS {quote_name(n)}" for n, column in columns.items() if column in present]
        if "text" in present:
            chosen.append('ifnull("text", \'\') AS "text"')
        return f"SELECT {', '.join(chosen)} FROM {quote_name(table.name)}"

    def _rows(self, table: ExportTable, batch: pa.RecordBatch) -> EventColumns:
        """Return a batch as columns. Places run on over all tables."""
        columns, count = columns_of(batch), batch.num_rows
        numbers = {name: integers(columns.get(name), count) for name in (*_NUMBERS, "name", "type")}
        start, owner = numbers["start"], numbers["owner"]
        process, thread = owner >> _ID_BITS & (1 << _ID_BITS) - 1, owner & (1 << _ID_BITS) - 1
        has_thread = "globalTid" in self.db.tables[table.name]
        rows = {
            "place": np.arange(self.place + 1, self.place + 1 + count),
            "kind": _kinds(table, numbers["type"]),
            "name": self._names(table, numbers["name"], columns.get("text")),
            "category": np.full(count, self.interners["category"].code(table.name), np.int32),
            "start": start,
            "duration": durations_between(start, numbers["end"]),
            "process": self.interners["process"].codes_of_numbers(np.where(owner == MISSING, MISSING, process)),
            "thread": self.interners["thread"].codes_of_numbers(
                np.where(has_thread & (owner != MISSING), thread, MISSING)
            ),
            **{name: numbers[name] for name in ("device", "stream", "bytes")},
        }
        # Each process has correlation numbers of its own: the process goes into the upper 32 bits of the number.
        known = (numbers["correlation"] != MISSING) & (owner != MISSING)
        unique = process << 32 | numbers["correlation"] & 0xFFFFFFFF
        rows["correlation"] = np.where(known, unique, numbers["correlation"])
        rows["duration"][rows["kind"] == KIND_CODE["mark"]] = MISSING
        self.place += count
        return rows

    def _names(self, table: ExportTable, numbers: Int64s, text: pa.Array | None) -> Codes:
        """Return the codes of the events' names: the text of the event itself, else what its number stands for."""
        codes = self._names_of_numbers(table, numbers)
        texts = text_codes(text, self.interners["name"])
        return codes if texts is None else np.where(texts >= 0, texts, codes)

    def _names_of_numbers(self, table: ExportTable, numbers: Int64s) -> Codes:
        """Return the codes of the names that numbers stand for. Each number is looked up once in the database."""
        numbers = np.maximum(numbers, -1)
        codes = self._name_codes.setdefault(table.name, np.full(1, self._name_code(table, -1), np.int32))
        if (size := int(numbers.max()) + 2) > len(codes):
            codes = np.append(codes, np.full(2 * size - len(codes), _NOT_LOOKED_UP, np.int32))
            self._name_codes[table.name] = codes
        names = codes[numbers + 1]
        if (names == _NOT_LOOKED_UP).any():
            for number in np.unique(numbers[names == _NOT_LOOKED_UP]).tolist():
                codes[number + 1] = self._name_code(table, number)
            names = codes[numbers + 1]
        return names

    def _name_code(self, table: ExportTable, number: int) -> int:
        """Return the code of the name that a number stands for."""
        interner, pattern = self.interners["name"], table.event_name
        if pattern and "{}" not in pattern:
            return interner.code(pattern)
        if number == -1:
            return -1
        home, column = (table.label_table, "label") if pattern else ("StringIds", "value")
        rows = []
        if column in self.db.tables.get(home, ()):
            rows = self.db.rows(f"SELECT {column} FROM {home} WHERE id = ?", number)
        text = rows[0][0] if rows else _COPY_KINDS.get(number, f"kind {number}") if pattern else None
        if text is None:
            return -1
        return interner.code(pattern.format(text) if pattern else str(text))

    def _count(self, table: ExportTable, rows: EventColumns) -> None:
        no_event = rows["kind"] == _NO_EVENT
        self.account.add_places("read", table.name, rows["place"][~no_event])
        self.account.add_places("context", f"{table.name} names", rows["place"][no_event])

    def _count_other_tables(self, read: list[ExportTable]) -> None:
        """Count tables of samples and switches as context: they have times, but hold no events with a duration."""
        known = {table.name for table in read}
        for name, columns in self.db.tables.items():
            if name not in known and _TIME_COLUMNS & set(columns) and (count := self.db.count(name)):
                self.account.add("context", name, count, self.place + 1)
                self.place += count


def _kinds(table: ExportTable, types: Int64s) -> npt.NDArray[np.int8]:
    kinds = np.full(len(types), KIND_CODE[table.kind], np.int8)
    if table.kind == "range" and len(types) and types[0] != MISSING:
        kinds[types == _MARK] = KIND_CODE["mark"]
        kinds[~np.isin(types, (_MARK, _PUSH_POP, _START_END))] = _NO_EVENT
    return kinds


def _printed_correlation(rows: EventColumns) -> Int64s:
    """Return correlation numbers as the export has them, without the process."""
    return np.where(rows["correlation"] == MISSING, MISSING, rows["correlation"] & 0xFFFFFFFF)


# --- the session --------------------------------------------------------------------------------------------------

_EXPORT_KEYS = ("EXPORT_PRODUCT_NAME", "EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION")


class Session:
    """Metadata of an export: its session, its clock and its devices."""

    def __init__(self, db: Database) -> None:
        self.db = db

    def epoch(self) -> int | None:
        """Return the zero of the export's clock in nanoseconds since 1970; None where the export does not state it."""
        if self._values("META_DATA_EXPORT").get("EXPORT_PARAM_TIME_NORMALIZE") == "true":
            return 0
        table = "TARGET_INFO_SESSION_START_TIME"
        if "utcEpochNs" not in self.db.tables.get(table, ()):
            return None
        rows = self.db.rows(f"SELECT utcEpochNs FROM {table} WHERE utcEpochNs IS NOT NULL")
        return rows[0][0] if len(rows) == 1 and isinstance(rows[0][0], int) else None

    def run_columns(self) -> dict[str, Any]:
        """Return columns of the run's row."""
        names = dict.fromkeys(str(gpu["name"]) for gpu in self._gpus() if gpu.get("name"))
        command = self._values("META_DATA_CAPTURE").get("PROCESS_0:COMMAND")
        return {"device": ", ".join(names) or None, "program": None if command is None else str(command)}

    def config(self, name: str, sha256: str) -> dict[str, Any]:
        """Return the run's config. Values that differ between exports of the same program go to `files`."""
        clock = "trace" if self.epoch() is None else "epoch"
        export = self._values("META_DATA_EXPORT")
        common = {key: export.pop(key) for key in _EXPORT_KEYS if key in export}
        return common | {"clock": clock, "devices": self._gpus(), "files": [{"name": name, "sha256": sha256} | export]}

    def _values(self, table: str) -> dict[str, str]:
        if not {"name", "value"} <= set(self.db.tables.get(table, ())):
            return {}
        return dict(self.db.rows(f"SELECT name, value FROM {table}"))

    def _gpus(self) -> list[dict[str, Any]]:
        table = "TARGET_INFO_GPU"
        wanted = ("id", "cuDevice", "name", "totalMemory", "smCount")
        columns = [column for column in wanted if column in self.db.tables.get(table, ())]
        rows = self.db.rows(f"SELECT {', '.join(columns)} FROM {table}") if columns else []
        return [dict(zip(columns, row, strict=True)) for row in rows]
