"""One SQLite export of Nsight Systems: its kernels, copies, calls, NVTX ranges and readings of counters.

An export has no empty tables, and columns came and went with its schema: missing columns are null.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from perflog.arrays import Codes, Ints
from perflog.readers.databases.sqlite import (
    Database,
    columns_of,
    integers,
    odd_rows,
    query_of,
    text_codes,
    values_of_rows,
)
from perflog.readers.events.event_columns import (
    KIND_CODE,
    MISSING,
    EventColumns,
    distinct_rows,
    distinct_tuples,
    durations_between,
    shift_starts,
)
from perflog.readers.events.event_context import EventContext, select_ranges, step_codes
from perflog.readers.events.event_table import (
    BY_PROCESS,
    EventAccount,
    EventOrigin,
    RunWriter,
    event_rows,
    value_rows,
)
from perflog.readers.events.string_interning import new_interners
from perflog.readers.nsys.collectives import CollectiveLaunches
from perflog.readers.nsys.counters import COUNTER_NUMBERS, CounterReader, counter_tables
from perflog.readers.nsys.memory import MEMORY_COLUMNS, copy_names, memory_columns, memory_labels, pool_readings
from perflog.readers.nsys.payloads import PAYLOAD_TEXTS, RANK, RANKS, SIZE, Fields, PayloadReader
from perflog.readers.nsys.session import ID_BITS, Session, process_of
from perflog.readers.nsys.tables import (
    COPY_ENDS,
    DROPPED_COLUMNS,
    EVENT_NUMBERS,
    LAUNCH_SIZES,
    NUMBERS,
    OTHER_COLUMNS,
    REGISTERS,
    SHARED_MEMORY,
    UNREAD_SAMPLES,
    ExportTable,
    event_tables,
    other_tables,
)
from perflog.readers.nsys.waits import EventRecords
from perflog.tables.arrow import index_array

if TYPE_CHECKING:
    import pyarrow as pa


_TEXTS = ("text", *PAYLOAD_TEXTS)  # columns of queries
_LAUNCH_COLUMNS = (*(column for columns in LAUNCH_SIZES.values() for column in columns), REGISTERS, *SHARED_MEMORY)
_COLUMNS_OF_KINDS = {
    "kernel": _LAUNCH_COLUMNS, "memory": MEMORY_COLUMNS, "memcpy": COPY_ENDS, "sync": EVENT_NUMBERS,
}  # fmt: skip
_MARK, _PUSH_POP, _START_END = 34, 59, 60  # eventType of NVTX_EVENTS: a point, ranges; other types name things
_DOMAIN = 75  # eventType: the name of a domain
_KINDS_OF_SYNCS = {1: "Event sync", 2: "Stream wait sync", 3: "Stream sync", 4: "Context sync"}
_COPY_KINDS = {1: "Host-to-Device", 2: "Device-to-Host", 8: "Device-to-Device", 9: "Host-to-Host", 10: "Peer-to-Peer"}
_USUAL_LABELS = {"memcpy": _COPY_KINDS, "sync": _KINDS_OF_SYNCS}  # of exports without the table of labels

_NO_EVENT = -2  # instead of a kind: rows of NVTX_EVENTS that only name a domain or a category
_NOT_LOOKED_UP = -3  # in the codes of names by id
_LARGEST_NAME_ID = 1 << 24  # up to which the codes of names are an array by id


class Export:
    """Reads the events of one export and writes them, the ranges twice: what is inside a range is known only when all
    ranges are.
    """

    writer: RunWriter
    origin: EventOrigin

    def __init__(self, db: Database, session: Session) -> None:
        self.db, self.session = db, session
        self.place = 0  # of the last event that was read
        self._odd: dict[str, dict[int, int]] = {}  # by table: rows with a cell of another type, and their values
        self.account = EventAccount()
        self.interners = new_interners()
        self._name_codes: dict[str, Codes] = {}  # by table: the code of the name of each id, at index id + 1
        self._epoch = session.epoch() or 0
        self._memory_labels = memory_labels(db)
        self._records = EventRecords(db)
        self._payloads = PayloadReader(db, self.interners)
        self._launches = CollectiveLaunches(self._payloads)
        self._domains = self._domain_names()
        self._ranks: dict[str, int] = {str(process): rank for process, rank in session.mpi_ranks().items()}

    def context(self) -> EventContext:
        """Read the ranges."""
        tables = [table for table in event_tables(self.db) if table.kind == "range"]
        return EventContext(self._ranges(tables), self.interners)

    def read(self, context: EventContext, writer: RunWriter, origin: EventOrigin) -> None:
        """Read all tables and write their events."""
        self.writer, self.origin = writer, origin
        tables = event_tables(self.db)
        places = {table.name: 0 for table in tables}
        for table, batch in self.db.batches([(table, self._query(table)) for table in tables], _TEXTS):
            places[table.name] = places[table.name] or self.place + 1
            batch, rows = self._even_rows(table, batch, self._rows(table, batch))
            self._count_taken(table, batch, places[table.name])
            self._count(table, rows)
            if table.kind == "runtime":
                self._launches.add_calls(rows)
            elif table.kind == "kernel":
                self._launches.fill(rows)
            elif table.kind == "range":
                values = self._payloads.read(batch, rows)
                self.writer.write_rows("values", value_rows(self.origin, values))
                rows = {name: column[rows["kind"] != _NO_EVENT] for name, column in rows.items()}
            rows = context.fill(rows, calls=table.kind == "runtime")
            if table.kind == "memory":
                for readings in pool_readings(batch, rows, self.interners):
                    readings["start"] = shift_starts(readings["start"], self._epoch)
                    self._write(readings, "counters")
            rows |= {"start": shift_starts(rows["start"], self._epoch), "correlation": _printed_correlation(rows)}
            self._write(rows, "events")
        for name, odd in self._odd.items():
            shape = f"{name}: a cell of another type"
            self.account.add("unread", shape, len(odd), min(odd))
            self.account.figures_of(shape, min(odd)).unread += sum(odd.values())
        for table in tables:
            self._count_figures(table.name, places[table.name], set(self._taken(table).values()), OTHER_COLUMNS)
        self._write_steps(context)
        self._read_counters()
        self._count_other_tables()
        self.writer.write_account(origin.part, self.account)

    def _write(self, rows: EventColumns, table: str) -> None:
        if self._ranks:
            processes = [self._ranks.get(text, MISSING) for text in self.interners["process"].texts]
            rows = rows | {"rank": np.array([*processes, MISSING], np.int64)[rows["process"]]}
        made = event_rows(self.origin, rows, self.interners, table)
        if table == "events":
            self.writer.write_events(made)
        else:
            self.writer.write_rows(table, made)

    def _write_steps(self, context: EventContext) -> None:
        """Write the steps, each with the rank of its process."""
        texts, processes = self.interners["process"].texts, context.host_step_processes
        ranks = [self._ranks.get(texts[process]) if process >= 0 else None for process in processes]
        origins = [
            self.origin if rank is None else replace(self.origin, rank=rank, rank_by=BY_PROCESS) for rank in ranks
        ]
        self.writer.write_steps(context.steps_of(origins), self._epoch)

    def _read_counters(self) -> None:
        """Read the readings of counters after all events."""
        for name in counter_tables(self.db):
            read = {"value", *(way for ways in COUNTER_NUMBERS.values() for way in ways)}
            self._count_figures(name, self.place + 1, set(), read)
        for name, rows, odd in CounterReader(self.db, self.session, self.interners).batches():
            count = len(rows["start"])
            rows |= {"place": np.arange(self.place + 1, self.place + 1 + count)}
            rows["start"] = shift_starts(rows["start"], self._epoch)
            self.account.add_places("read", name, rows["place"][~odd])
            self.account.add_places("unread", f"{name}: a cell of another type", rows["place"][odd])
            rows = {column: values[~odd] for column, values in rows.items()}
            self.writer.write_rows("counters", event_rows(self.origin, rows, self.interners, "counters"))
            self.place += count

    def _ranges(self, tables: list[ExportTable]) -> list[EventColumns]:
        ranges: list[EventColumns] = []
        communicators: dict[str, tuple[int, int]] = {}
        for table, batch in self.db.batches([(table, self._query(table)) for table in tables], _TEXTS):
            batch, rows = self._even_rows(table, batch, self._rows(table, batch))
            ranges.append(select_ranges(rows, step_codes(rows["name"], self.interners["name"].texts)))
            for index, fields in self._payloads.fields(batch, SIZE):
                self._launches.add_ranges(rows, index, fields)
            for index, fields in self._payloads.fields(batch, RANKS):
                self._note_rank(communicators, fields, rows["process"][index].tolist())
        if not self._ranks and len({rank for _, rank in communicators.values()}) == len(communicators):
            self._ranks = {process: rank for process, (_, rank) in communicators.items()}
        self.place = 0
        return ranges

    def _note_rank(self, communicators: dict[str, tuple[int, int]], fields: Fields, processes: list[int]) -> None:
        """Remember the rank of processes in the largest communicator that they made: it has all ranks."""
        size, rank = fields.get(RANKS), fields.get(RANK)
        if isinstance(size, int) and isinstance(rank, int):
            for code in set(processes) - {-1}:
                process = self.interners["process"].texts[code]
                if size > communicators.get(process, (0, 0))[0]:
                    communicators[process] = size, rank

    def _domain_names(self) -> dict[tuple[int, int], str]:
        """Return the names of NVTX domains by process and number."""
        columns = self.db.tables.get("NVTX_EVENTS", ())
        if not {"eventType", "domainId"} <= set(columns):
            return {}
        owner, text, number = (c if c in columns else "NULL" for c in ("globalTid", "text", "textId"))
        query = f"SELECT {owner}, domainId, {text}, {number} FROM NVTX_EVENTS WHERE eventType = ?"
        names: dict[tuple[int, int], str] = {}
        for owner_id, domain, name, text_id in self.db.rows(query, _DOMAIN):
            if name is None and text_id is not None and "value" in self.db.tables.get("StringIds", ()):
                name = next((row[0] for row in self.db.rows("SELECT value FROM StringIds WHERE id = ?", text_id)), None)
            if name is not None and domain is not None:
                names[process_of(owner_id or 0), domain] = str(name)
        return names

    def _taken(self, table: ExportTable) -> dict[str, str]:
        """Return the columns of a table that are read, by what they hold."""
        present = self.db.tables[table.name]
        columns = {number: next((c for c in ways if c in present), None) for number, ways in NUMBERS.items()}
        columns |= {"name": table.name_column, "type": "eventType"}
        if not self._domains:
            del columns["domain"]
        return {name: column for name, column in columns.items() if column in present}

    def _query(self, table: ExportTable) -> str:
        present = self.db.tables[table.name]
        columns = self._taken(table)
        more = _COLUMNS_OF_KINDS.get(table.kind, ())
        columns |= {name: name for name in more if name in present}
        if "text" in present:
            columns["text"] = "text"
        return query_of(table.name, columns, _TEXTS, self._payloads.columns() if table.kind == "range" else {})

    def _even_rows(
        self, table: ExportTable, batch: pa.RecordBatch, rows: EventColumns
    ) -> tuple[pa.RecordBatch, EventColumns]:
        """Return a batch and its columns without the rows in which a cell has another type, which are unread."""
        odd = odd_rows(batch)
        if not odd.any():
            return batch, rows
        self._odd.setdefault(table.name, {}).update(
            zip(rows["place"][odd].tolist(), values_of_rows(batch, odd, (*self._taken(table), *_TEXTS)), strict=True)
        )
        return batch.take(index_array(~odd)), {name: column[~odd] for name, column in rows.items()}

    def _rows(self, table: ExportTable, batch: pa.RecordBatch) -> EventColumns:
        """Return a batch as columns. Places run on over all tables."""
        columns, count = columns_of(batch), batch.num_rows
        numbers = {name: integers(columns.get(name), count) for name in (*NUMBERS, "name", "type")}
        start, owner = numbers["start"], numbers["owner"]
        process, thread = owner >> ID_BITS & (1 << ID_BITS) - 1, owner & (1 << ID_BITS) - 1
        has_thread = "globalTid" in self.db.tables[table.name]
        rows: EventColumns = {
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
            **{name: numbers[name] for name in ("context", "stream", "bytes") if name in columns},
        }
        if table.kind == "kernel":
            rows |= self._launch(columns, count)
        if "device" in columns:
            rows |= self._devices(numbers["device"], owner, rows["process"])
        if table.kind == "memory":
            rows |= memory_columns(batch, numbers, rows)
        if table.kind == "memcpy":
            rows["name"] = copy_names(batch, rows["name"], self._memory_labels, self.interners)
        if table.kind == "sync":
            rows |= self._records.awaited(batch, numbers)
        if "domain" in columns:
            rows["domain"] = self._domain_codes(numbers["domain"], owner, rows["process"])
        # Each process has correlation numbers of its own: the process goes into the upper 32 bits of the number.
        known = (numbers["correlation"] != MISSING) & (owner != MISSING)
        unique = process << 32 | numbers["correlation"] & 0xFFFFFFFF
        rows["correlation"] = np.where(known, unique, numbers["correlation"])
        rows["duration"][rows["kind"] == KIND_CODE["mark"]] = MISSING
        self.place += count
        return rows

    def _launch(self, columns: dict[str, pa.Array], count: int) -> EventColumns:
        """Return grid, block, registers and shared memory of kernels."""
        rows: EventColumns = {}
        for name, directions in LAUNCH_SIZES.items():
            sizes = [integers(columns.get(column), count) for column in directions]
            first, index = distinct_tuples(sizes)
            triples = zip(*(size[first].tolist() for size in sizes), strict=True)
            texts = [f"[{x}, {y}, {z}]" if min(x, y, z) >= 0 else "" for x, y, z in triples]
            codes = [self.interners[name].code(text) if text else -1 for text in texts]
            rows[name] = np.array(codes, np.int32)[index]
        static, dynamic = (integers(columns.get(name), count) for name in SHARED_MEMORY)
        both = (static != MISSING) & (dynamic != MISSING)
        shared = np.where(both, static + dynamic, np.maximum(static, dynamic))  # MISSING is the least number
        return rows | {"registers": integers(columns.get(REGISTERS), count), "shared_bytes": shared}

    def _devices(self, device: Ints, owner: Ints, process: Codes) -> EventColumns:
        """Return the GPU of each event and its name, by the device as its process numbers it."""
        first, index = distinct_rows(_pair(device, process))
        gpus = []
        for number, owning in zip(device[first].tolist(), owner[first].tolist(), strict=True):
            gpus.append(self.session.gpu_of_device.get((process_of(owning), number), number))
        names = [self.session.gpu_names.get(gpu, "") for gpu in gpus]
        codes = [self.interners["device_name"].code(name) if name else -1 for name in names]
        return {"device": np.array(gpus, np.int64)[index], "device_name": np.array(codes, np.int32)[index]}

    def _domain_codes(self, domain: Ints, owner: Ints, process: Codes) -> Ints:
        """Return the codes of the names of domains; -1 for the default domain."""
        first, index = distinct_rows(_pair(domain, process))
        pairs = zip(owner[first].tolist(), domain[first].tolist(), strict=True)
        names = [self._domains.get((process_of(owning), number), "") for owning, number in pairs]
        return np.array([self.interners["domain"].code(name) if name else -1 for name in names], np.int64)[index]

    def _names(self, table: ExportTable, ids: Ints, text: pa.Array | None) -> Codes:
        """Return the codes of the events' names: the event's own string, else the name of its id."""
        codes = self._codes_of_name_ids(table, ids)
        texts = text_codes(text, self.interners["name"])
        return codes if texts is None else np.where(texts >= 0, texts, codes)

    def _codes_of_name_ids(self, table: ExportTable, ids: Ints) -> Codes:
        """Return the codes of the names of ids, -1 for none. Each id is looked up once in the database."""
        ids = np.maximum(ids, -1)
        if int(ids.max()) > _LARGEST_NAME_ID:
            distinct, index = np.unique(ids, return_inverse=True)
            return np.array([self._name_code(table, id) for id in distinct.tolist()], np.int32)[index]
        codes = self._name_codes.setdefault(table.name, np.full(1, self._name_code(table, -1), np.int32))
        if (size := int(ids.max()) + 2) > len(codes):
            codes = np.append(codes, np.full(2 * size - len(codes), _NOT_LOOKED_UP, np.int32))
            self._name_codes[table.name] = codes
        names = codes[ids + 1]
        if (names == _NOT_LOOKED_UP).any():
            for id in np.unique(ids[names == _NOT_LOOKED_UP]).tolist():
                codes[id + 1] = self._name_code(table, id)
            names = codes[ids + 1]
        return names

    def _name_code(self, table: ExportTable, id: int) -> int:
        """Return the code of the name of an id."""
        interner, pattern = self.interners["name"], table.event_name
        if pattern and "{}" not in pattern:
            return interner.code(pattern)
        if id == -1:
            return -1
        if pattern and not table.label_table:
            return interner.code(pattern.format(id))
        home, column = (table.label_table, "label") if pattern else ("StringIds", "value")
        rows = []
        if column in self.db.tables.get(home, ()):
            rows = self.db.rows(f"SELECT {column} FROM {home} WHERE id = ?", id)
        guess = _USUAL_LABELS.get(table.kind, {}).get(id)
        text = rows[0][0] if rows else (guess or f"kind {id}") if pattern else None
        if text is None:
            return -1
        return interner.code(pattern.format(text) if pattern else str(text))

    def _count(self, table: ExportTable, rows: EventColumns) -> None:
        no_event = rows["kind"] == _NO_EVENT
        self.account.add_places("read", table.name, rows["place"][~no_event])
        self.account.add_places("context", f"{table.name} names", rows["place"][no_event])

    def _count_taken(self, table: ExportTable, batch: pa.RecordBatch, first: int) -> None:
        """Count the values of a batch that are read."""
        columns = columns_of(batch)
        for name, column in self._taken(table).items():
            figures = self.account.figures_of(f"{table.name}.{column}", first)
            figures.stored += batch.num_rows - columns[name].null_count

    def _count_figures(self, table: str, first: int, counted: Container[str], taken: Container[str]) -> None:
        """Count the values of the other columns of a table: stored, if they are taken too, dropped or unread."""
        for column, count in self.db.counts_of_values(table, counted).items():
            if not count or column in counted:
                continue
            stored = column in taken
            reason = "" if stored else DROPPED_COLUMNS.get(column, "")
            figures = self.account.figures_of(f"{table}.{column}", first, because=reason)
            figures.stored, figures.dropped = (count, 0) if stored else (0, count if reason else 0)
            figures.unread = count - figures.stored - figures.dropped

    def _count_other_tables(self) -> None:
        """Count the rows with times that no table takes: as context where it is declared what they hold."""
        for name, count, holds in other_tables(self.db):
            shape = name if holds is None else f"{name}: {holds}"
            self.account.add("unread" if holds is None else "context", shape, count, self.place + 1)
            reason = "" if name == UNREAD_SAMPLES else holds or ""
            figures = self.account.figures_of(f"{name}.*", self.place + 1, because=reason)
            values = sum(self.db.counts_of_values(name).values())
            if reason:
                figures.dropped += values
            else:
                figures.unread += values
            self.place += count


def _kinds(table: ExportTable, types: Ints) -> npt.NDArray[np.int8]:
    kinds = np.full(len(types), KIND_CODE.get(table.kind, -1), np.int8)
    if table.kind == "range" and len(types) and types[0] != MISSING:
        kinds[types == _MARK] = KIND_CODE["mark"]
        kinds[~np.isin(types, (_MARK, _PUSH_POP, _START_END))] = _NO_EVENT
    return kinds


def _pair(number: Ints, process: Codes) -> Ints:
    """Return a number within a process, and the process, as one number."""
    number = np.maximum(number, -1) + 1
    bits = 10 if len(number) and int(number.max()) < 1 << 10 else 40  # close numbers are distinguished without sorting
    pair: Ints = number + (process.astype(np.int64) << bits)
    return pair


def _printed_correlation(rows: EventColumns) -> Ints:
    """Return correlation numbers as the export has them, without the process."""
    return np.where(rows["correlation"] == MISSING, MISSING, rows["correlation"] & 0xFFFFFFFF)
