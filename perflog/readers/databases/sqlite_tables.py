"""Long queries for columns of one table of a SQLite file: rows are read from the pages of the file.

SQLite gives row by row and cell by cell, which takes several times as long. It reads what the pages alone do not give,
and what `sqlite_records` refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from msgspec import Struct, field

from perflog.readers.databases.sqlite_pages import Pages
from perflog.readers.databases.sqlite_records import INTEGER, REAL, SLACK, TEXT, Cells, RecordReader, UnusualRowsError
from perflog.tables.arrow import number_array

ODD = "odd_cells"
"""Column with the number of cells of another type in a row; only batches of rows with such cells have it."""

_REALS = ("value", "payload_real")
"""Columns of long queries that are reals, by name. Others are integers, if the caller does not name them as strings."""

_ROW_NUMBER = "_rowid_"  # as SQLite calls it, if no column has that name
_REAL_WORDS = ("REAL", "FLOA", "DOUB")  # in the declared type of a column: SQLite may store its doubles as integers
_MOST_BYTES = 1 << 24  # of the pages of a batch
_OUT_OF_ORDER = "the numbers of its rows are out of order"

ShortQuery = Callable[..., list[tuple[Any, ...]]]
"""Runs a query with its values, and returns its rows."""


class TableQuery(Struct, frozen=True):
    """Columns of a table, each under the name that the caller gives it; `expressions` are SQL.

    A column of strings has no nulls: they are empty strings.
    """

    table: str
    columns: Mapping[str, str]
    expressions: Mapping[str, str] = field(default_factory=dict)

    def sql(self, texts: Container[str], where: str = "") -> str:
        """Return the query as SQL."""
        chosen = []
        for name, column in self.columns.items():
            value = quote_name(column)
            value = f"ifnull({value}, '')" if name in texts else value
            chosen.append(f"{value} AS {quote_name(name)}")
        chosen += [f"{value} AS {quote_name(name)}" for name, value in self.expressions.items()]
        return f"SELECT {', '.join(chosen)} FROM {quote_name(self.table)}{where}"


def quote_name(name: str) -> str:
    """Return the name of a table or column as SQL."""
    return '"' + name.replace('"', '""') + '"'


def type_of(name: str, texts: Container[str]) -> str:
    """Return what a column of a query holds."""
    return TEXT if name in texts else REAL if name in _REALS else INTEGER


def pages_of(pages: Pages, query: TableQuery, texts: Container[str], rows: ShortQuery) -> TablePages | None:
    """Return the rows of a query in the pages of its table; None if the pages alone do not give them.

    They do not if the query computes, if the number of a row is a column or has no name, if columns are computed, if
    SQLite makes doubles of integers, if strings are not in UTF-8, and if a table is stored as an index.
    """
    facts = rows(f"PRAGMA table_xinfo({quote_name(query.table)})")
    names = [name for _, name, *_ in facts]
    wanted = {name: (names.index(column), type_of(name, texts)) for name, column in query.columns.items()}
    kinds = [kind.upper() for _, _, kind, *_ in facts]
    if (
        query.expressions
        or any(hidden for *_, hidden in facts)
        or any(key and kind == "INTEGER" for kind, (*_, key, _) in zip(kinds, facts, strict=True))
        or any(name.lower() == _ROW_NUMBER for name in names)
        or any(word in kinds[place] for place, of in wanted.values() if of == INTEGER for word in _REAL_WORDS)
        or (any(of == TEXT for _, of in wanted.values()) and rows("PRAGMA encoding") != [("UTF-8",)])
    ):
        return None
    (root,) = rows("SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = ?", query.table)[0]
    leaves = pages.leaves(root)
    if leaves is None:
        return None
    return TablePages(pages, query, texts, leaves, names, RecordReader(len(names), wanted, pages.size, pages.usable))


class TablePages(Struct):
    """The rows of a query, in the pages of its table.

    `columns`: all of the table. `values` counts the rows that have a value in each of them, in what was read until now.
    """

    pages: Pages
    query: TableQuery
    texts: Container[str]
    leaves: Sequence[int]
    columns: Sequence[str]
    records: RecordReader
    values: dict[str, int] = field(default_factory=dict)

    def batches(self, batch_rows: int, read: Callable[[str], Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        """Give the rows in batches of about so many rows. `read` gives the rows of SQL.

        Raises:
            ValueError: If SQLite would miss rows that it is asked for, since their numbers are out of order.
        """
        self.values = dict.fromkeys(self.columns, 0)
        place, number, most = 0, 1, _MOST_BYTES // self.pages.size
        last: int | None = None
        while place < len(self.leaves):
            leaves = self.leaves[place : place + number]
            data, before = self.pages.read(leaves, SLACK), last
            place += len(leaves)
            try:
                last = self.records.last_row(data)
                if before is not None and last <= before:
                    raise ValueError(_OUT_OF_ORDER)
                cells = self.records.read(data)
            except UnusualRowsError as unusual:
                limits = [] if before is None else [f"{_ROW_NUMBER} > {before}"]
                limits += [] if unusual.rest else [f"{_ROW_NUMBER} <= {last}"]
                count = 0
                for batch in self._by_sql(" AND ".join(limits), read):
                    count += batch.num_rows
                    yield batch
                if unusual.rest:
                    return
                if count != self.records.count(data):
                    raise ValueError(_OUT_OF_ORDER) from unusual
                number = min(2 * number, most)
                continue
            self._count(cells.values.tolist())
            yield _batch(cells)
            number = max(1, min(batch_rows * len(leaves) // len(cells), most))

    def _by_sql(self, where: str, read: Callable[[str], Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        """Give the rows that SQLite reads."""
        where = f" WHERE {where}" if where else ""
        yield from read(self.query.sql(self.texts, where))
        counts = (f"count({quote_name(name)}) AS {quote_name(str(i))}" for i, name in enumerate(self.columns))
        for counted in read(f"SELECT {', '.join(counts)} FROM {quote_name(self.query.table)}{where}"):
            self._count([column[0].as_py() for column in counted.columns])

    def _count(self, values: Iterable[int]) -> None:
        for name, count in zip(self.columns, values, strict=True):
            self.values[name] += count


def _batch(cells: Cells) -> pa.RecordBatch:
    columns = dict(cells.columns)
    if cells.odd is not None:
        columns[ODD] = number_array(cells.odd)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
