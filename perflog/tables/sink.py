"""Sinks, into which a reader of logs or traces puts its tables, and the summary of a read log.

In: rows, as Arrow tables in the columns of the schema. Out: a `Sink` that takes them (in memory here, on disk in
`store`), and an `IngestResult`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from msgspec import Struct, field

from perflog.tables.arrow import (
    Where,
    joined,
    number_array,
    picked_words,
    rows_where,
    text_array,
    with_runs,
)
from perflog.tables.row_order import put_in_order
from perflog.tables.schema import arrow_schema

RUN_ID = 12
"""Hex digits of the log's SHA-256 in a run id; the number of the run in the log follows."""

LOG_ID = 16
"""Hex digits of the log's SHA-256 in the names of its files in a store."""

_BLOCK = 1 << 18  # rows of a table that is looked through chunk by chunk
_FEW = 8  # times as many rows are there as those that are copied rather than the table

RunLabels = str | Callable[[], Mapping[int, str | None]] | None
"""The label of a log's runs, or a function that returns their labels by number of the run; None: as printed."""


class Sink(Protocol):
    """Takes tables, part by part."""

    def add(self, table: str, data: pa.Table) -> None:
        """Append rows to a table."""


class MemorySink:
    """A sink that keeps tables in memory. `tables` are those that it has already, part by part.

    Attributes:
        runs: Ids of all runs, in the order of their rows; by default in the order in which they were added.
            Rows in the order of their reader need not be sorted, which would be a second copy of each table.
    """

    def __init__(self, tables: Mapping[str, list[pa.Table]] | None = None) -> None:
        self.tables: dict[str, list[pa.Table]] = dict(tables or {})
        self.runs: Sequence[str] = ()
        self._whole: set[str] = set()  # tables with all rows in one part
        self._in_order: set[str] = set()  # of these, the tables with rows in the order of run, line and part

    def add(self, table: str, data: pa.Table) -> None:
        """Append rows to a table."""
        self.tables.setdefault(table, []).append(data)
        self._whole.discard(table)
        self._in_order.discard(table)

    def replace(self, table: str, data: pa.Table) -> None:
        """Replace all rows of a table."""
        self.tables.pop(table, None)
        self.add(table, data)

    def reset(self) -> MemorySink:
        """Forget all rows and return the sink: a log may be read twice."""
        self.tables.clear()
        return self

    def fetch(
        self,
        name: str,
        runs: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        where: Where | None = None,
    ) -> pa.Table:
        """Return the rows of a table, of all runs or only of those with these ids; all its columns or only these."""
        parts = self.tables.get(name, [])
        if parts and name not in self._whole:
            if len(parts) > 1 or self.runs:
                parts[:] = [pa.concat_tables(parts).unify_dictionaries()]
            self._whole.add(name)
        tests = where if runs is None else with_runs(where or {}, runs)
        if parts and columns is None and self.runs and name not in self._in_order:  # whoever takes all wants an order
            columns_left, schema = parts[0].columns, parts[0].schema
            parts.clear()
            parts.append(put_in_order(columns_left, schema, self.runs))
            self._in_order.add(name)
        elif parts and columns is None:
            _join(parts, None)
        elif parts and columns is not None and tests is not None:  # columns alone stay in the chunks that were read
            read = {*columns, *tests}
            if (few := _few_rows(parts[0], read, tests)) is not None:
                return few.select(columns)
            _join(parts, read)
        # empty_table() imports pandas
        table = parts[0] if parts else pa.Table.from_batches([], arrow_schema(name))
        if tests is not None:
            rows = table.select(dict.fromkeys([*(columns or table.column_names), *tests]))
            table = rows_where(rows, tests, share=True)
        return table if columns is None else table.select(columns)


def _join(parts: list[pa.Table], names: Collection[str] | None) -> None:
    """Make one chunk of each of these columns of the only part of a table; those that nobody asks for are not copied.

    Columns of nulls are made all at once, because they share their memory.
    """
    schema, columns = parts[0].schema, dict(zip(parts[0].column_names, parts[0].columns, strict=True))
    left = {
        name: column
        for name, column in columns.items()
        if column.num_chunks > 1 and (names is None or name in names or column.null_count == len(column))
    }
    if left:
        columns |= dict.fromkeys(left)
        parts.clear()  # or both forms of a column would be in memory
        fields = pa.schema([schema.field(name) for name in left])
        columns_left = [left.pop(name) for name in fields.names]
        columns |= dict(zip(fields.names, joined(columns_left, fields).columns, strict=True))
        parts.append(pa.Table.from_arrays(list(columns.values()), schema=schema))


def _few_rows(table: pa.Table, names: Collection[str], tests: Where) -> pa.Table | None:
    """Return these columns of the rows that pass, if these are few of a table in chunks, which stays as it is."""
    rows = table.select(sorted(names))
    if rows.num_rows < _BLOCK or all(column.num_chunks < 2 for column in rows.columns):
        return None
    chosen, left = [], rows.num_rows // _FEW
    for batch in rows.to_batches():
        chosen.append(rows_where(pa.Table.from_batches([batch]), tests))
        left -= chosen[-1].num_rows
        if left < 0:
            return None
    return pa.concat_tables(chosen)


def run_id(sha256: str, index: int) -> str:
    """Return the id of a run: the first digits of the SHA-256 of its log, and the number of the run in the log."""
    return f"{sha256[:RUN_ID]}-{index}"


class IngestResult(Struct):
    """Summary of a log that was read.

    In `lines`, total = read + context + unread; in `figures`, total = stored + dropped + unread. Readers of traces and
    databases count events instead of lines, and the values of their arguments or columns as figures. `figures` is empty
    if a reader does not account for them.
    """

    log: str
    sha256: str
    formats: list[str] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)  # run, label, index, format of each
    tables: dict[str, int] = field(default_factory=dict)  # rows of each table
    lines: dict[str, int] = field(default_factory=lambda: {"total": 0, "read": 0, "context": 0, "unread": 0})
    unread: tuple[int, str] | None = None  # number and content of the first unread line
    figures: dict[str, int] = field(default_factory=dict)
    unread_figures: tuple[int, str] | None = None  # number and content of the first line with unread figures
    warnings: list[str] = field(default_factory=list)
    grown_by: int | None = None  # bytes since the earlier state in the store; None if it had none
    others: list[str] = field(default_factory=list)  # ids of other logs in the store that came from the same path

    def add_shape(self, status: str, count: int, figures: tuple[int, int, int], first_line: int, sample: str) -> None:
        """Add the lines of one shape, and how many of their figures are stored, dropped and unread, to the accounts."""
        self.lines[status] += count
        self.lines["total"] += count
        if status == "unread" and count and (self.unread is None or first_line < self.unread[0]):
            self.unread = first_line, sample
        if any(figures) or not self.figures:
            for name, number in zip(("total", "stored", "dropped", "unread"), (sum(figures), *figures), strict=True):
                self.figures[name] = self.figures.get(name, 0) + number
        if figures[2] and (self.unread_figures is None or first_line < self.unread_figures[0]):
            self.unread_figures = first_line, sample


def table_from_columns(name: str, columns: Sequence[Sequence[Any]]) -> pa.Table:
    """Return a table from the values of its columns, in the order of the schema; None is null."""
    schema = arrow_schema(name)
    arrays = [_array(field, values) for field, values in zip(schema, columns, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def column_of(table: str, name: str, values: Sequence[Any]) -> pa.Array:
    """Return values as a column of a table; None is null."""
    return _array(arrow_schema(table).field(name), values)


def _array(field: pa.Field, values: Sequence[Any]) -> pa.Array:
    """Return values as an array of the type of a field. pa.array would import pandas."""
    if pa.types.is_dictionary(field.type):
        return picked_words(np.arange(len(values)), values)
    if pa.types.is_string(field.type):
        return text_array(values)
    dtype = {pa.int64(): np.int64, pa.int32(): np.int32, pa.float64(): np.float64}[field.type]
    known = np.array([v is not None for v in values], np.bool_) if field.nullable else None
    return number_array(np.array([v if v is not None else 0 for v in values], dtype), known)
