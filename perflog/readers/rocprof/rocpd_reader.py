"""rocpd databases, the default output of rocprofv3 since ROCm 7.0: kernels, copies, calls, ROCTX ranges.

Each process has a set of tables, identified by the suffix of their names; merged files have several sets. Since
schema 4 the track of an event holds its process, thread and device. Columns that a table does not have are null.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from perflog.arrays import Ints
from perflog.errors import InputError
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.input.source import Source
from perflog.readers.databases.sqlite import (
    Database,
    columns_of,
    integers,
    is_sqlite,
    odd_rows,
    open_with_writer,
    reals,
    text_codes,
)
from perflog.readers.events.event_columns import (
    KIND_CODE,
    MISSING,
    EventColumns,
    distinct_values,
    durations_between,
    on_device,
)
from perflog.readers.events.event_context import EventContext, select_ranges, step_codes
from perflog.readers.events.event_table import EventAccount, EventOrigin, RunWriter, event_rows
from perflog.readers.events.spill_file import decompressed_path
from perflog.readers.events.string_interning import new_interners
from perflog.readers.interface import RankInfo, Reader, ReadOptions, proof_by_counts
from perflog.readers.rank_files import ranks_of_files
from perflog.readers.rocprof.kinds import CALL_KINDS, kind_of
from perflog.readers.rocprof.tables import COUNTERS, EVENT_TABLES, NUMBERS, TEXTS, TableSet, table_sets
from perflog.tables.sink import IngestResult, Sink

if TYPE_CHECKING:
    import pyarrow as pa

_SCHEMA = lazy_pattern(rb"CREATE TABLE\s+[\"`\[]?rocpd_")
_HEAD = 1 << 20  # bytes that hold the schema: it is written before all rows
_RANGE, _MARK = KIND_CODE["range"], KIND_CODE["mark"]
_CALLS = [KIND_CODE[kind] for kind in CALL_KINDS]


class RocpdReader(Reader):
    """Reads rocpd databases."""

    name = "rocpd_sqlite"
    title = "rocpd database of rocprofv3"
    source = "rocprofv3 of ROCm 7.0 and later, `rocprofv3 --output-format rocpd`, `rocpd merge`; ranks are one run"

    def detect(self, source: Source) -> bool:
        """Return whether this is a SQLite file with tables of rocpd."""
        return is_sqlite(source) and _SCHEMA.search(source.first_bytes(_HEAD)) is not None

    def proof(self, source: Source) -> list[tuple[int, str, str]]:
        """Return position, name and number of rows of each table of events."""
        with _open_table_sets(source) as opened:
            counts = [(name, tables.count(name)) for _, sets in opened for tables in sets for name in tables.numbered]
            return proof_by_counts(counts, "rows")

    def rank_info(self, source: Source) -> RankInfo | None:
        """State nothing: only the name of a file contains its rank. None if a database has several processes."""
        with _open_table_sets(source) as ((_, sets),):
            return RankInfo() if len(sets) == 1 else None

    def read(self, source: Source, sink: Sink, options: ReadOptions) -> IngestResult:
        """Read the databases of a log into a sink. One thread reads, one makes rows, one writes."""
        with open_with_writer(source, self.name, sink, _open_table_sets) as (opened, new_writer):
            writer = new_writer()
            ranks = ranks_of_files([(part.name, RankInfo()) for part in source.parts])
            last = 0
            for part, ((db, sets), rank) in enumerate(zip(opened, ranks, strict=True)):
                database = _RocpdDatabase(db, writer, EventOrigin(writer.run, part, *rank))
                database.read(sets)
                writer.write_account(part, database.account)
                last = max(last, database.place)
            options.done(source)
            files = zip(source.parts, opened, ranks, strict=True)
            config = _config([(part, sets, rank) for part, (_, sets), (rank, _) in files])
            columns = _run_columns([tables for _, sets in opened for tables in sets])
            return writer.write_run(options.label, last, config, **columns)


@contextmanager
def _open_table_sets(source: Source) -> Iterator[list[tuple[Database, list[TableSet]]]]:
    """Give each database of a log with its sets of tables."""
    with ExitStack() as stack:
        opened = []
        for part in source.parts:
            path = stack.enter_context(decompressed_path(part))
            db = stack.enter_context(closing(Database(path, part)))
            sets = table_sets(db)
            if not any(tables.count(name) for tables in sets for name in tables.present):
                help = "ask rocprofv3 for a trace, such as --runtime-trace"
                raise InputError("a rocpd database without kernels, copies or calls", part.name, help)
            opened.append((db, sets))
        yield opened


class _RocpdDatabase:
    """Reads the events of one database and writes them."""

    def __init__(self, db: Database, writer: RunWriter, origin: EventOrigin) -> None:
        self.db, self.writer, self.origin = db, writer, origin
        self.place = 0  # of the last row that was read
        self.account = EventAccount()
        self.interners = new_interners()

    def read(self, sets: Sequence[TableSet]) -> None:
        """Read all sets of tables."""
        for tables in sets:
            tables.load_names()
        hosts = {tables.host for tables in sets}
        for tables in sets:
            if len(hosts) > 1:  # each node numbers its devices from 0
                names = {device: f"{name} of {tables.host}" for device, name in tables.device_names.items()}
                tables.device_names = names
            origin = self.origin
            if len(sets) > 1 and origin.rank is None:
                origin = replace(origin, source=f"process {tables.pid}")
            self._read_set(tables, origin)

    def _read_set(self, tables: TableSet, origin: EventOrigin) -> None:
        """Read a set of tables, its ranges twice: what is inside a range is known only when all ranges are."""
        context = EventContext(self._ranges(tables), self.interners)
        first = self.place + 1
        for table in tables.numbered:
            self._count_figures(tables, table, first)
            first += tables.count(table)
        for table, batch in self.db.batches([(table, tables.query(table)) for table in tables.present], TEXTS):
            rows, odd = self._rows(tables, table, batch), odd_rows(batch)
            no_call = ~odd & (rows["kind"] < 0) if table == "sample" else np.zeros(len(odd), np.bool_)
            is_event = ~odd & ~no_call
            self.account.add_places("read", table, rows["place"][is_event])
            self.account.add_places("context", f"{table} of no call", rows["place"][no_call])
            self.account.add_places("unread", f"{table}: a cell of another type", rows["place"][odd])
            rows = {name: column[is_event] for name, column in rows.items()}
            is_call = np.isin(rows["kind"], _CALLS)
            if is_call.any():
                context.add_calls({name: column[is_call] for name, column in rows.items()})
            rows = context.fill(rows)
            # A kernel also holds the name of the range of its launch: it is known even if no calls were traced.
            unknown = (rows["range"] < 0) & on_device(rows["kind"])
            rows["range"] = np.where(unknown, rows.pop("region"), rows["range"])
            self.writer.write_events(event_rows(origin, rows, self.interners))
        self.writer.write_steps([(origin, *step) for step in context.host_steps])
        self._read_counters(tables)

    def _count_figures(self, tables: TableSet, table: str, first: int) -> None:
        """Count the values of each column of a table: stored, dropped for a reason, or unread."""
        for column, count, reason in tables.figures(table):
            figures = self.account.figures_of(f"{table}.{column}", first, because=reason or "")
            figures.stored += count if reason is None else 0
            figures.dropped += count if reason else 0
            figures.unread += count if reason == "" else 0

    def _read_counters(self, tables: TableSet) -> None:
        """Read the readings of counters after the events of a set."""
        query = tables.counter_query()
        if query is None:
            return
        for name, batch in self.db.batches([(COUNTERS, query)]):
            columns, count = columns_of(batch), batch.num_rows
            numbers = {number: integers(columns.get(number), count) for number in (*NUMBERS, "counter")}
            counters = {number: text for number, (text, _) in tables.counters.items()}
            units = {number: unit for number, (_, unit) in tables.counters.items()}
            rows = {
                "place": np.arange(self.place + 1, self.place + 1 + count),
                "name": self._codes("name", numbers["counter"], counters, number_as_name=True),
                "unit": self._codes("unit", numbers["counter"], units),
                "subject": self._codes("subject", numbers["kernel"], tables.kernels),
                "device": (devices := _devices(tables, numbers)),
                "device_name": self._codes("device_name", devices, tables.device_names),
                "process": self._codes("process", numbers["pid"], tables.pids, number_as_name=True),
                "start": numbers["start"],
                "duration": durations_between(numbers["start"], numbers["end"]),
                "correlation": np.where(numbers["internal"] == 0, MISSING, numbers["internal"]),
                "value": reals(columns.get("value"), count),
            }
            odd = odd_rows(batch)
            self.account.add_places("read", name, rows["place"][~odd])
            self.account.add_places("unread", f"{name}: a cell of another type", rows["place"][odd])
            rows = {column: values[~odd] for column, values in rows.items()}
            self.writer.write_rows("counters", event_rows(self.origin, rows, self.interners, "counters"))
            self.place += count

    def _ranges(self, tables: TableSet) -> list[EventColumns]:
        ranges, place = [], self.place
        queries = [("region", tables.query("region", only_ranges=True))] if "region" in tables.present else []
        for table, batch in self.db.batches(queries, TEXTS):
            even = ~odd_rows(batch)
            rows = {name: column[even] for name, column in self._rows(tables, table, batch).items()}
            ranges.append(select_ranges(rows, step_codes(rows["name"], self.interners["name"].texts)))
            self.place = place
        return ranges

    def _rows(self, tables: TableSet, table: str, batch: pa.RecordBatch) -> EventColumns:
        """Return a batch as columns. Places run on over all tables."""
        columns, count = columns_of(batch), batch.num_rows
        numbers = {name: integers(columns.get(name), count) for name in NUMBERS}
        kind, name = self._kinds_and_names(tables, table, numbers, columns.get("text"))
        start = numbers["start"]
        duration = np.where(kind == _MARK, MISSING, durations_between(start, numbers["end"]))
        if table == "sample":  # a point in time: only a mark has no duration
            duration = np.where((duration == MISSING) & (kind != _MARK), 0, duration)
        device = on_device(kind)
        devices = np.where(device, _devices(tables, numbers), MISSING)
        category = self._codes("category", numbers["category"], tables.categories)
        process = self._codes("process", numbers["pid"], tables.pids, number_as_name=True)
        thread = self._codes("thread", numbers["tid"], tables.tids, number_as_name=True)
        rows = {
            "place": self._places(numbers["ordinal"]), "kind": kind, "name": name,
            "category": np.where(category < 0, self.interners["category"].code(table), category),
            "start": start, "duration": duration,
            "device": devices, "device_name": self._codes("device_name", devices, tables.device_names),
            "stream": numbers["stream"], "process": process, "thread": np.where(device, -1, thread),
            "correlation": np.where(numbers["internal"] == 0, MISSING, numbers["internal"]),
            "external": np.where(numbers["external"] == 0, MISSING, numbers["external"]),
            "bytes": numbers["bytes"], "region": self._codes("range", numbers["region"], tables.strings),
        }  # fmt: skip
        for launch_size in ("grid", "block"):
            sizes = text_codes(columns.get(launch_size), self.interners[launch_size])
            rows |= {} if sizes is None else {launch_size: sizes}
        rows |= {"shared_bytes": integers(columns["shared"], count)} if "shared" in columns else {}
        self.place += count
        return rows

    def _places(self, ordinal: Ints) -> Ints:
        """Return the positions of the rows of a batch; `ordinal` counts them where a query leaves some rows out."""
        count = len(ordinal)
        if count and ordinal[0] != MISSING:
            return self.place + ordinal
        return np.arange(self.place + 1, self.place + 1 + count)

    def _kinds_and_names(
        self, tables: TableSet, table: str, numbers: EventColumns, text: pa.Array | None
    ) -> tuple[Ints, Ints]:
        """Return the codes of kinds and of names. A marker is named by its message, not by the function that set it."""
        table_kind = EVENT_TABLES[table]
        if table_kind == "kernel":
            names = self._codes("name", numbers["kernel"], tables.kernels)
            return np.full(len(names), KIND_CODE[table_kind]), names
        function = self._codes("name", numbers["name"], tables.strings)
        message = text_codes(text, self.interners["name"])
        if message is None:
            message = np.full(len(function), -1, np.int32)
        if table_kind is not None:
            return np.full(len(function), KIND_CODE[table_kind]), function
        distinct, index = distinct_values(numbers["category"])
        kinds = [KIND_CODE.get(kind_of(tables.categories.get(n, "")) or "", -1) for n in distinct.tolist()]
        kind = np.array(kinds, np.int64)[index]
        marker = kind == _RANGE
        texts = self.interners["name"].texts
        functions = [code for code in np.unique(function[marker]).tolist() if code >= 0]
        roctx = [code for code in functions if texts[code].startswith("roctx")]
        marking = [code for code in functions if "mark" in texts[code].lower()]
        kind[marker & (message < 0) & np.isin(function, roctx)] = KIND_CODE["library"]  # such as pausing the profiler
        kind[marker & (np.isin(function, marking) | (table == "sample")) & (kind == _RANGE)] = _MARK
        return kind, np.where(message >= 0, message, function)

    def _codes(self, column: str, numbers: Ints, names: Mapping[int, str], number_as_name: bool = False) -> Ints:
        """Return the codes of the names of numbers. `number_as_name`: a number without a name is its own name."""
        distinct, index = distinct_values(numbers)
        texts = [names.get(n, str(n) if number_as_name and n != MISSING else "") for n in distinct.tolist()]
        return np.array([self.interners[column].code(text) if text else -1 for text in texts], np.int64)[index]


def _devices(tables: TableSet, numbers: EventColumns) -> Ints:
    """Return the device that worked: for a copy its destination, or its source if that is no device."""
    devices = np.full(len(numbers["start"]), MISSING, np.int64)
    for agent in ("agent", "destination", "origin"):
        distinct, index = distinct_values(numbers[agent])
        candidates = np.array([tables.devices.get(n, MISSING) for n in distinct.tolist()], np.int64)[index]
        devices = np.where(devices == MISSING, candidates, devices)
    return devices


def _config(files: Sequence[tuple[Source, list[TableSet], int | None]]) -> dict[str, object]:
    entries: list[dict[str, object]] = []
    for source, sets, rank in files:
        entry: dict[str, object] = {"name": os.path.basename(source.name), "sha256": source.digest()}
        entry |= {"rank": rank} if len(files) > 1 else {}
        entries.append(entry | {"sets": [tables.config() for tables in sets]})
    return {"clock": "trace", "files": entries}


def _run_columns(sets: list[TableSet]) -> dict[str, Any]:
    """Return columns of the run's row."""
    gpus = [agent for tables in sets for agent in tables.agents if agent.get("type") == "GPU"]
    names = (gpu.get("product_name") or gpu.get("model_name") or gpu.get("name") for gpu in gpus)
    commands = [p["command"] for tables in sets for p in tables.config()["processes"] if p.get("command")]
    return {
        "device": ", ".join(dict.fromkeys(str(name) for name in names if name)) or None,
        "program": next(map(str, commands), None),
    }
