"""Columns of a table of millions of rows that stays in the chunks in which it was read.

In: an Arrow table in chunks, and the order of its rows. Out: the same `Rows` as `columns` makes of a table in one
chunk. Only the values that somebody asks for are copied: of a log of millions of steps, each column of a table in one
chunk takes as much memory as all that the reader itself holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from perflog.arrays import Ints, Mask
from perflog.tables.arrow import index_array, numbers_of, valid_mask
from perflog.tables.columns import Array, Codes, Columns, Rows, all_rows, column_numbers, is_float
from perflog.tables.row_order import order_of

if TYPE_CHECKING:
    import pyarrow as pa

_BLOCK = 1 << 17  # rows that are copied at a time
_FAR = 8  # times its rows: a block that spreads over more is not read as one piece
_SPREAD = 8  # the same, on average: a table with rows farther from their order is sorted as a whole

Places = npt.NDArray[np.integer[Any]]


class Chunks(Protocol):
    """A table in chunks: an Arrow table, or one of which each column is read when it is asked for."""

    @property
    def num_rows(self) -> int:
        """The number of rows."""

    def select(self, names: list[str], /) -> pa.Table:
        """Return some columns."""

    def __getitem__(self, name: str, /) -> pa.ChunkedArray:
        """Return a column."""


def rows_of_chunks(table: Chunks, runs: Sequence[str]) -> Rows | None:
    """Return the rows of a table in chunks by the order of the runs, then by line and part.

    None if the table has other runs too, or if its order is so far from this one that nothing would be won.
    """
    order = order_of(table.select(["run", "line", "part"]), runs)
    if order is not None:
        if len(order) != table.num_rows:
            return None
        spread = sum(int(np.ptp(order[first : first + _BLOCK])) + 1 for first in range(0, len(order), _BLOCK))
        if spread > _SPREAD * len(order):
            return None
    return all_rows(_ChunkedColumns(table, order))


class _ChunkedColumns(Columns):
    """All rows of a table in chunks; `order`: the index of each row in the order, None if they are in order."""

    def __init__(self, table: Chunks, order: Places | None) -> None:
        super().__init__(table.num_rows, self._column)
        self._table, self._order = table, order
        self._columns: dict[str, pa.ChunkedArray] = {}  # those that were asked for, but for words: their codes are kept
        self._shared: WeakValueDictionary[str, Array] = WeakValueDictionary()  # whole columns, while somebody has them

    def _column(self, name: str) -> pa.ChunkedArray:
        if name not in self._columns:
            self._columns[name] = self._table[name]
        return self._columns[name]

    def array(self, name: str) -> Array:
        values = self._shared.get(name)
        if values is None:
            if self._has_words(name):
                return super().array(name)
            values = self._shared[name] = self._numbers(name, slice(0, self.size))
        return values

    def part(self, name: str, index: slice | Ints) -> Array:
        size = index.stop - index.start if isinstance(index, slice) else len(index)
        if name in self._shared or size == self.size:
            return self.array(name)[index]
        if self._has_words(name):
            return super().part(name, index)
        return self._numbers(name, index)

    def known(self, name: str, index: slice | Ints) -> Mask:
        if self._has_words(name):
            return self.words(name)[0][index] >= 0
        column = self._read(name)
        if column.null_count == self.size or not (column.null_count or is_float(column)):
            size = index.stop - index.start if isinstance(index, slice) else len(index)
            return np.full(size, not column.null_count)
        return super().known(name, index)

    def nans(self, name: str) -> Mask:
        if name not in self._nans:
            column = self._read(name)
            flags = np.zeros(self.size, np.bool_)
            for places, rows in self._blocks(slice(0, self.size)) if column.null_count < self.size else ():
                flags[places] = self._picked(column, rows, _nans)
            self._nans[name] = flags
        return self._nans[name]

    def words(self, name: str, values: pa.Array | None = None) -> tuple[Codes, list[str]]:  # noqa: ARG002
        if name not in self._words:
            column = self._read(name)
            column = column.unify_dictionaries() if hasattr(column.type, "index_type") else column.dictionary_encode()
            words = column.chunk(0).dictionary.to_pylist()
            least = {int(_codes(chunk).min()) for chunk in column.chunks if len(chunk)}
            most = {int(_codes(chunk).max()) for chunk in column.chunks if len(chunk)}
            if least == most and len(least) == 1:  # one word, or none
                codes = np.broadcast_to(np.int32(least.pop()), self.size)
            else:
                codes = np.empty(self.size, np.int32)
                for places, rows in self._blocks(slice(0, self.size)):
                    codes[places] = self._picked(column, rows, _codes)
            self._words[name] = codes, words
            self._columns.pop(name, None)
        return self._words[name]

    def _numbers(self, name: str, index: slice | Ints) -> Array:
        """Return some numbers of a column."""
        column = self._read(name)
        size = index.stop - index.start if isinstance(index, slice) else len(index)
        if column.null_count == self.size:
            return np.broadcast_to(column_numbers(column.chunk(0).slice(0, 1)), size)
        if isinstance(index, slice) and self._order is None:
            return np.concatenate([column_numbers(chunk) for chunk in column.slice(index.start, size).chunks])
        values: Array = np.empty(size, np.float64 if is_float(column) else np.int64)
        for places, rows in self._blocks(index):
            values[places] = self._picked(column, rows, column_numbers)
        return values

    def _blocks(self, index: slice | Ints) -> Iterator[tuple[slice, Places]]:
        """Yield the rows of the table that an index means, block by block, with their positions in the index."""
        size = index.stop - index.start if isinstance(index, slice) else len(index)
        for first in range(0, size, _BLOCK):
            end = min(first + _BLOCK, size)
            rows: Places
            if not isinstance(index, slice):
                rows = index[first:end] if self._order is None else self._order[index[first:end]]
            elif self._order is not None:
                rows = self._order[index.start + first : index.start + end]
            else:
                rows = np.arange(index.start + first, index.start + end)
            yield slice(first, end), rows

    def _picked(self, column: pa.ChunkedArray, rows: Places, convert: Any) -> Array:
        """Return what `convert` makes of some rows of a column."""
        low, high = int(rows.min()), int(rows.max())
        if high - low < _FAR * len(rows):
            piece = column.slice(low, high - low + 1)
            together = np.concatenate([convert(chunk) for chunk in piece.chunks])
            return together if len(together) == len(rows) and (rows[1:] > rows[:-1]).all() else together[rows - low]
        ends = np.cumsum([len(chunk) for chunk in column.chunks])  # columns of a table can be cut in different chunks
        chunk_by_row = np.searchsorted(ends, rows, "right")
        values: Array | None = None
        for number in np.unique(chunk_by_row).tolist():
            chosen = chunk_by_row == number
            chunk = column.chunk(number)
            found = convert(chunk.take(index_array(rows[chosen] - (ends[number] - len(chunk)))))
            values = np.empty(len(rows), found.dtype) if values is None else values
            values[chosen] = found
        assert values is not None
        return values


def _codes(chunk: pa.DictionaryArray) -> Codes:
    codes = numbers_of(chunk.indices)
    return np.where(valid_mask(chunk.indices), codes, np.int32(-1)) if chunk.null_count else codes


def _nans(chunk: pa.Array) -> Mask:
    flags: Mask = np.isnan(numbers_of(chunk))
    return flags & valid_mask(chunk) if chunk.null_count else flags
