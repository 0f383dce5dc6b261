"""Rows of tables `events`, `counters` and `values`, and the writer that sends the run of a trace to a sink."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
from msgspec import Struct, field
from msgspec.structs import replace

from perflog.arrays import Ints
from perflog.readers.events.event_columns import KINDS, MISSING, EventColumns
from perflog.readers.events.string_interning import Interners
from perflog.tables.arrow import null_array, number_array, repeated_word, word_array, zero_array
from perflog.tables.schema import arrow_schema
from perflog.tables.sink import IngestResult, MemorySink, RunLabels, Sink, run_id, table_from_columns

_ROWS_PER_WRITE = 100_000
_MAX_QUEUED_WRITES = 2
BY_PROCESS = "process"
"""The rule that proves a rank by the process of its file."""

_INT32_RANGE = (-(1 << 31), (1 << 31) - 1)


class EventOrigin(Struct, frozen=True):
    """The origin of events: run, file of the run (from 0), rank of the file, and the rule that proves the rank.

    `source`: what distinguishes steps of a file with several processes without a rank.
    """

    run: str
    part: int
    rank: int | None
    rank_by: str | None
    source: str | None = None


def event_rows(origin: EventOrigin, columns: EventColumns, interners: Interners, table: str = "events") -> pa.Table:
    """Return rows of table `events`, or of table `counters`.

    Args:
        origin: run, file and rank of all these events.
        columns: numbers (MISSING is null) and codes into `interners` (-1 is null), by the names of the table's columns;
            `start` and `duration` without their unit; `place` becomes column `line`. An absent column is null. A column
            `rank` replaces the rank of the origin, if the processes of a file are ranks.
        interners: the strings of the columns that hold codes.
        table: name of the table.
    """
    count = len(columns["place"])
    special: dict[str, Callable[[], Any]] = {
        "run": lambda: repeated_word(0, (origin.run,), count),
        "line": lambda: number_array(columns["place"].astype(np.int64)),
        "part": lambda: number_array(np.full(count, origin.part, np.int32)) if origin.part else zero_array(count),
        "rank": lambda: number_array(np.full(count, origin.rank, np.int32)),
        "rank_by": lambda: repeated_word(0, (origin.rank_by or "",), count),
        "kind": lambda: word_array(columns["kind"], KINDS),
    }
    unknown = {name for name in ("rank", "rank_by") if getattr(origin, name) is None}
    if "rank" in columns:
        unknown = set()
        special["rank"] = lambda: _number_array(columns["rank"], pa.int32())
        special["rank_by"] = lambda: word_array(np.where(columns["rank"] == MISSING, -1, 0), (BY_PROCESS,))
    arrays = []
    schema = arrow_schema(table)
    for column in schema:
        name = column.name.removesuffix("_ns")
        if name not in columns and (column.name not in special or name in unknown):
            arrays.append(null_array(column.type, count))
        elif column.name in special:
            arrays.append(special[column.name]())
        elif name in interners:
            arrays.append(word_array(columns[name], interners[name].arrow()))
        elif column.type == pa.float64():
            arrays.append(number_array(columns[name], ~np.isnan(columns[name])))
        else:
            arrays.append(_number_array(columns[name], column.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def value_rows(origin: EventOrigin, values: Sequence[tuple[int, str, float | str]]) -> pa.Table:
    """Return rows of table `values`, each from the position of its event, its key, and its number or string."""
    rows = [
        {"run": origin.run, "line": place, "part": origin.part, "rank": origin.rank, "rank_by": origin.rank_by}
        | {"key": key, ("text" if isinstance(value, str) else "value"): value}
        for place, key, value in values
    ]
    return table_from_columns("values", [[row.get(name) for row in rows] for name in arrow_schema("values").names])


def _number_array(values: Ints, dtype: pa.DataType) -> pa.Array:
    known = values != MISSING
    if dtype == pa.int32():
        known &= (values >= _INT32_RANGE[0]) & (values <= _INT32_RANGE[1])
        return number_array(np.where(known, values, 0).astype(np.int32), known)
    return number_array(values, known)


def _combined(tables: Sequence[pa.Table]) -> pa.Table:
    """Return tables as one without chunks. Columns of nulls, most of a trace's, are made new: that is not a copy."""
    if len(tables) == 1:
        return tables[0]
    table = pa.concat_tables(tables)
    names = [name for name in table.column_names if table[name].null_count < len(table)]
    filled = table.select(names).unify_dictionaries().combine_chunks()
    columns = [filled[f.name] if f.name in names else null_array(f.type, len(table)) for f in table.schema]
    return pa.Table.from_arrays(columns, schema=table.schema)


def by_process(origins: Sequence[EventOrigin], processes: Sequence[int], names: Sequence[str]) -> list[EventOrigin]:
    """Return the origins of steps with their process as source, where several processes without a rank have steps.

    Args:
        origins: Origin of each step.
        processes: Code of the process of each, -1 for none.
        names: Names of the processes.
    """
    if len(set(processes)) < 2:
        return list(origins)
    return [
        replace(origin, source=f"process {names[process]}") if origin.rank is None and process >= 0 else origin
        for origin, process in zip(origins, processes, strict=True)
    ]


class EventShape(Struct):
    """Number of events of one shape, the position of the first, and its content, which may be empty."""

    count: int
    first: int
    sample: str


class FigureCount(Struct):
    """Figures of one argument or column of events: in a table, dropped for a reason, or unread; where the first is."""

    first: int
    sample: str = ""
    because: str = ""
    stored: int = 0
    dropped: int = 0
    unread: int = 0


class EventAccount(Struct):
    """Counts every event of a file by status (read, context, unread) and shape, for table `lines`.

    `figures`: what becomes of the arguments of events, or of the columns of their table, by name.
    """

    shapes: dict[tuple[str, str], EventShape] = field(default_factory=dict)
    figures: dict[str, FigureCount] = field(default_factory=dict)

    def add(self, status: str, shape: str, count: int, first: int, sample: str = "") -> None:
        """Count events of a shape; a negative count takes them back. `first` and `sample` matter for a new shape."""
        entry = self.shapes.setdefault((status, shape), EventShape(0, first, sample))
        entry.count += count
        if not entry.count:
            del self.shapes[status, shape]

    def figures_of(self, name: str, first: int, sample: str = "", because: str = "") -> FigureCount:
        """Return the count of an argument or column. The other arguments matter for a new one."""
        return self.figures.setdefault(name, FigureCount(first, sample, because))

    def add_places(self, status: str, shape: str, places: Ints) -> None:
        """Count the events at these positions; nothing where there are none."""
        if len(places):
            self.add(status, shape, len(places), int(places[0]))


class RunWriter:
    """Writes the run of a trace or database to a sink: events in large batches, in a thread parallel to the reading.

    Use it as a context manager. `run` is the id of the run.
    """

    def __init__(self, log: str, sha256: str, format: str, sink: Sink) -> None:
        self.ingested = IngestResult(log, sha256, [format])
        self.begin(1)
        self._sink = sink
        self._thread = ThreadPoolExecutor(1)
        self._writes: deque[Future[None]] = deque()
        self._pending: list[pa.Table] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if kind is None:
            self._flush()
        while self._writes:
            write = self._writes.popleft()
            if kind is None:
                write.result()
            else:
                write.cancel()
        self._thread.shutdown()

    def begin(self, index: int) -> None:
        """Begin the run of a number in a file of several runs. The rows of the one before are written."""
        self.index, self.run = index, run_id(self.ingested.sha256, index)

    def write_events(self, rows: pa.Table) -> None:
        """Write rows of table `events`."""
        if len(rows):
            self._pending.append(rows)
        if sum(map(len, self._pending)) >= _ROWS_PER_WRITE:
            self._flush()

    def write_rows(self, table: str, rows: pa.Table) -> None:
        """Write rows of another table, such as `counters` or `values`."""
        self._write(table, rows)

    def write_dicts(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows of a table, each by the names of its columns; absent ones are null."""
        if rows:
            self._write_rows(table, rows)

    def write_steps(self, steps: Sequence[tuple[EventOrigin, int, int, int, int]], base: int = 0) -> None:
        """Write rows of table `steps`: each from its origin, step number, position, duration and start in nanoseconds.

        `base` is the zero of the clock of the starts.
        """
        copies: dict[tuple[int, int | None, str | None, int], int] = {}
        rows = []
        for origin, step, place, duration, start in steps:
            key = origin.part, origin.rank, origin.source, step
            copies[key] = copies.get(key, 0) + 1
            rows.append(
                {
                    "run": self.run, "line": place, "part": origin.part, "step": step, "rank": origin.rank,
                    "rank_by": origin.rank_by, "source": origin.source, "copy": copies[key], "steps_averaged": 1,
                    "step_time_s": duration / 1e9, "printed_ns": base + start + duration,
                }
            )  # fmt: skip
        if rows:
            self._write_rows("steps", rows)

    def write_account(self, part: int, account: EventAccount) -> None:
        """Write the account of one file as rows of table `lines`."""
        rows, ingested = [], self.ingested
        for (status, shape), entry in sorted(account.shapes.items(), key=lambda item: item[1].first):
            ingested.lines[status] += entry.count
            ingested.lines["total"] += entry.count
            if status == "unread" and ingested.unread is None:
                ingested.unread = entry.first, entry.sample or shape
            rows.append(
                {"run": self.run, "line": entry.first, "part": part, "status": status, "shape": shape,
                 "count": entry.count, "first_line": entry.first, "sample": entry.sample or None}
            )  # fmt: skip
        rows += self._figure_rows(part, account)
        if rows:
            self._write_rows("lines", rows)

    def _figure_rows(self, part: int, account: EventAccount) -> list[dict[str, object]]:
        """Return the account of figures as rows of table `lines`: they count figures, and no events."""
        rows = []
        for name, entry in account.figures.items():
            counts = entry.stored, entry.dropped, entry.unread
            self.ingested.add_shape("read", 0, counts, entry.first, entry.sample or name)
            rows.append(
                {"run": self.run, "line": entry.first, "part": part, "status": "read", "shape": name, "count": 0,
                 "first_line": entry.first, "sample": entry.sample or name, "figures_stored": entry.stored,
                 "figures_dropped": entry.dropped, "figures_unread": entry.unread,
                 "dropped_because": entry.because or None}
            )  # fmt: skip
        return rows

    def write_run(self, label: RunLabels, last: int, config: Mapping[str, object], **columns: Any) -> IngestResult:
        """Write the row of table `runs`. `last`: position of the last event; `columns`: further columns of the row."""
        ingested = self.ingested
        name = label if isinstance(label, str) or label is None else label().get(self.index)
        row: dict[str, object] = {"log": ingested.log, "log_sha256": ingested.sha256, "format": ingested.formats[0]}
        row |= {
            "run": self.run,
            "index": self.index,
            "label": name,
            "line": 1,
            "part": 0,
            "first_line": 1,
            "last_line": last,
        }
        text = json.dumps(config, ensure_ascii=False, default=str)
        self._write_rows("runs", [row | {"config": text} | columns])
        ingested.runs.append({key: row[key] for key in ("run", "label", "index", "format")})
        return ingested

    def _flush(self) -> None:
        if not self._pending:
            return
        # In memory all chunks become one when the table is asked for.
        rows = pa.concat_tables(self._pending) if isinstance(self._sink, MemorySink) else _combined(self._pending)
        self._pending = []
        self._write("events", rows)
        while len(self._writes) > _MAX_QUEUED_WRITES:
            self._writes.popleft().result()

    def _write_rows(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        columns = [[row.get(name) for row in rows] for name in arrow_schema(table).names]
        self._write(table, table_from_columns(table, columns))

    def _write(self, table: str, rows: pa.Table) -> None:
        if len(rows):
            self.ingested.tables[table] = self.ingested.tables.get(table, 0) + len(rows)
            self._writes.append(self._thread.submit(self._sink.add, table, rows))
