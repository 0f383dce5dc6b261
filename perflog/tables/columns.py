"""Rows of a table as numpy columns: what the linter, the comparison and the series of steps compute with.

A column is converted when it is first asked for, once for all runs. In a column of numbers null is NaN, of integers
NULL, of words and strings None.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from perflog.arrays import Floats, Ints, Keys, Mask
from perflog.tables.arrow import numbers_of, valid_mask
from perflog.tables.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Array = npt.NDArray[Any]
Codes = npt.NDArray[np.int32]

_BLOCK = 1 << 18  # rows that are counted together

NULL = np.iinfo(np.int64).min
"""An integer that is null."""


class Columns:
    """All rows of a table.

    Args:
        size: The number of rows.
        read: Returns the column of a name as an Arrow array.
    """

    def __init__(self, size: int, read: Callable[[str], pa.Array]) -> None:
        self.size = size
        self._read = read
        self._arrays: dict[str, Array] = {}
        self._words: dict[str, tuple[Codes, list[str]]] = {}
        self._objects: dict[str, npt.NDArray[np.object_]] = {}  # the words, and None for null
        self._nans: dict[str, Mask] = {}

    def array(self, name: str) -> Array:
        """Return a column of numbers or of strings."""
        if name not in self._arrays:
            if self._has_words(name):  # eight bytes for each are made when they are asked for
                return self._objects_of(name)[self._words[name][0]]
            self._arrays[name] = column_numbers(self._read(name))
        return self._arrays[name]

    def part(self, name: str, index: slice | Ints) -> Array:
        """Return some values of a column. Of a column of strings no more than these are made."""
        if self._has_words(name):
            return self._objects_of(name)[self._words[name][0][index]]
        return self.array(name)[index]

    def known(self, name: str, index: slice | Ints) -> Mask:
        """Flag, among some rows, those that have a value in a column."""
        if self._has_words(name):
            return self._words[name][0][index] >= 0
        values = self.part(name, index)
        return ~np.isnan(values) if values.dtype == np.float64 else values != NULL

    def keys(self, name: str, index: slice | Ints) -> Array:
        """Return some words of a column as codes, or some of its integers: equal values have equal keys."""
        values = self.part(name, slice(0, 0) if name in self._words else index)
        return self._words[name][0][index] if name in self._words else values

    def nans(self, name: str) -> Mask:
        """Flag the numbers of a column that are NaN and not null."""
        if name not in self._nans:
            flags = np.isnan(self.array(name))
            if flags.any():
                flags &= valid_mask(self._read(name))
            self._nans[name] = flags
        return self._nans[name]

    def words(self, name: str, values: pa.Array | None = None) -> tuple[Codes, list[str]]:
        """Return a column of strings as codes, -1 for null, and the strings of the codes."""
        if name not in self._words:
            values = self._read(name) if values is None else values
            encoded = values if hasattr(values, "indices") else values.dictionary_encode()
            codes = numbers_of(encoded.indices)
            if encoded.null_count == len(codes):  # as most columns of a wide table are: they take no memory
                codes = np.broadcast_to(np.int32(-1), len(codes))
            elif encoded.null_count:
                codes = np.where(valid_mask(encoded.indices), codes, np.int32(-1))
            self._words[name] = codes, encoded.dictionary.to_pylist()
        return self._words[name]

    def _has_words(self, name: str) -> bool:
        """Return whether a column is one of strings; `_words` has it then."""
        if name not in self._words and name not in self._arrays and is_text(values := self._read(name)):
            self.words(name, values)
        return name in self._words

    def _objects_of(self, name: str) -> npt.NDArray[np.object_]:
        """Return the words of a column of strings, and None for the code -1."""
        if name not in self._objects:
            self._objects[name] = np.array([*self._words[name][1], None], object)
        return self._objects[name]


class Rows:
    """Some rows of a table: `rows["line"]` is a column of them.

    Args:
        columns: The whole table.
        index: The rows, as a slice with both ends or as their indices.
    """

    __slots__ = ("_columns", "_index", "_size")

    def __init__(self, columns: Columns, index: slice | Ints) -> None:
        self._columns, self._index = columns, index
        self._size = index.stop - index.start if isinstance(index, slice) else len(index)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, name: str) -> Array:
        return self._columns.part(name, self._index)

    def codes(self, name: str) -> tuple[Codes, list[str]]:
        """Return a column of words as codes, -1 for null, and the words of the whole table."""
        codes, words = self._columns.words(name)
        return codes[self._index], words

    def first_word(self, name: str) -> str | None:
        """Return the word of the first row."""
        codes, words = self.codes(name)
        return words[codes[0]] if codes[0] >= 0 else None

    def keys(self, name: str) -> Array:
        """Return a column of words or integers as integers that are equal where the values are, to group rows by."""
        return self._columns.keys(name, self._index)

    def floats(self, name: str) -> Floats:
        """Return a column of numbers as float64, with NaN for null."""
        values = self[name]
        return values if values.dtype == np.float64 else np.where(values == NULL, np.nan, values.astype(np.float64))

    def known(self, *names: str) -> Mask:
        """Flag the rows that have a value in all of these columns."""
        flags = np.ones(self._size, np.bool_)
        for name in names:
            flags &= self._columns.known(name, self._index)
        return flags

    def nans(self, name: str) -> Mask:
        """Flag the rows with a number printed as NaN, which `known` does not distinguish from null."""
        return self._columns.nans(name)[self._index]

    def counts(self, name: str) -> dict[str, int]:
        """Return the number of rows of each word, in the order of its first row."""
        codes, words = self.codes(name)
        counts, found = np.zeros(len(words), np.int64), dict[int, None]()
        for first in range(0, len(codes), _BLOCK):  # the count of millions of codes would copy them all
            block = codes[first : first + _BLOCK]
            block = block[block >= 0]
            block_counts = np.bincount(block, minlength=len(words))
            if ((block_counts > 0) & (counts == 0)).any():
                found |= dict.fromkeys(block[np.append(True, block[1:] != block[:-1])].tolist())
            counts += block_counts
        return {words[code]: int(counts[code]) for code in found}

    def one_of(self, name: str, words: Collection[str]) -> Mask:
        """Flag the rows with one of these words."""
        codes, all_words = self.codes(name)
        chosen = np.array([*(word in words for word in all_words), False], np.bool_)
        return chosen[codes]

    def where(self, chosen: Mask | Ints | slice) -> Rows:
        """Return some of these rows, by flag, index or slice with both ends."""
        if isinstance(chosen, slice):
            return self._part(chosen)
        if chosen.dtype != np.bool_:
            return self._part(np.asarray(chosen, np.int64))
        return self if chosen.all() else self._part(np.flatnonzero(chosen))

    def records(self, *names: str) -> Iterator[tuple[Any, ...]]:
        """Yield the values of some columns row by row, as Python objects; a null integer is NULL."""
        return zip(*(self[name].tolist() for name in names), strict=True)

    def dicts(self, *names: str) -> Iterator[dict[str, Any]]:
        """Yield the rows as dicts of some columns, with None for null."""
        columns = [self[name].astype(object) for name in names]  # a copy
        for name, values in zip(names, columns, strict=True):
            values[~self.known(name)] = None
        return (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))

    def by(self, name: str) -> dict[str, Rows]:
        """Return the rows by a word, in the order of its first row; rows without it are left out."""
        return {word: self._part(index) for word, index in self.stretches(name).items()}

    def stretches(self, name: str) -> dict[str, slice | Ints]:
        """Return the indices of the rows of each word, in the order of its first row: a slice if they are together."""
        codes, words = self.codes(name)
        if not len(codes):
            return {}
        starts = np.flatnonzero(np.append(True, codes[1:] != codes[:-1])).tolist()
        part_codes = codes[starts].tolist()
        if len(set(part_codes)) == len(part_codes):
            parts = zip(part_codes, map(slice, starts, [*starts[1:], len(codes)]), strict=True)
            return {words[code]: part for code, part in parts if code >= 0}
        order = np.argsort(codes, kind="stable")
        cuts = np.flatnonzero(np.diff(codes[order])) + 1
        places = {int(codes[part[0]]): part for part in np.split(order, cuts)}
        return {words[code]: places[code] for code in dict.fromkeys(part_codes) if code >= 0}

    def _part(self, part: slice | Ints) -> Rows:
        if not isinstance(self._index, slice):
            return Rows(self._columns, self._index[part])
        if isinstance(part, slice):
            start = self._index.start
            return Rows(self._columns, slice(start + part.start, start + part.stop))
        return Rows(self._columns, part + self._index.start)


class RowColumns(Struct, frozen=True):
    """Columns with a value for each row, some by name. Fields that are neither arrays nor rows hold for all of them."""

    def where(self, chosen: Mask | Ints | slice) -> Self:
        """Return some of the rows, by flag, index or part; themselves if all are flagged."""
        if isinstance(chosen, np.ndarray) and chosen.dtype == np.bool_ and chosen.all():
            return self
        fields = (getattr(self, name) for name in self.__struct_fields__)
        return type(self)(*(self._some(field, chosen) for field in fields))

    @staticmethod
    def _some(field: Any, chosen: Mask | Ints | slice) -> Any:
        if isinstance(field, Rows):
            return field.where(chosen)
        if isinstance(field, dict):
            return {name: taken(values, chosen) for name, values in field.items()}
        return taken(field, chosen) if isinstance(field, np.ndarray) else field


def taken(values: Array, chosen: Mask | Ints | slice) -> Array:
    """Return some values of a column; a column with one value for all rows takes no memory, nor does a part."""
    if isinstance(chosen, slice) or values.strides != (0,) or not len(values):
        return values[chosen]
    size = int(np.count_nonzero(chosen)) if chosen.dtype == np.bool_ else len(chosen)
    return np.broadcast_to(values[0], size)


def rows_from_arrow(table: pa.Table) -> Rows:
    """Return the rows of an Arrow table in the types of the schema."""
    import pyarrow as pa

    def read(name: str) -> pa.Array:
        column = table[name]
        if column.num_chunks == 1:
            return column.chunk(0)
        if not column.num_chunks:  # combine_chunks() would import pandas
            return pa.nulls(0, column.type)
        whole = column.combine_chunks()
        return whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole

    return Rows(Columns(table.num_rows, read), slice(0, table.num_rows))


def rows_from_frame(frame: pd.DataFrame, table: str) -> Rows:
    """Return the rows of a DataFrame. A column of the schema that it lacks is null; other columns are numbers."""
    columns = Columns(len(frame), lambda name: _column_of_frame(frame, table, name))
    return Rows(columns, slice(0, len(frame)))


def arrow_of_frame(frame: pd.DataFrame, table: str, names: Collection[str]) -> pa.Table:
    """Return columns of a DataFrame as an Arrow table in the types of the schema; strings are words."""
    import pyarrow as pa

    columns = {name: _column_of_frame(frame, table, name) for name in names}
    return pa.table({name: c.dictionary_encode() if is_text(c) else c for name, c in columns.items()})


def _column_of_frame(frame: pd.DataFrame, table: str, name: str) -> pa.Array:
    import pyarrow as pa

    numbers = {"int64": pa.int64(), "int32": pa.int64(), "float64": pa.float64()}
    types = {column.name: numbers.get(column.type, pa.string()) for column in TABLES[table]}
    dtype = types.get(name, pa.float64())
    if name not in frame:
        return pa.nulls(len(frame), dtype)
    column = frame[name]
    return pa.array(column.astype(object) if dtype == pa.string() else column, dtype, from_pandas=True)


def is_text(values: pa.Array) -> bool:
    """Return whether a column is one of words or strings."""
    import pyarrow as pa

    return bool(pa.types.is_dictionary(values.type) or pa.types.is_string(values.type))


def is_float(values: pa.Array) -> bool:
    """Return whether a column is one of floating-point numbers."""
    import pyarrow as pa

    return bool(pa.types.is_floating(values.type))


def joined(parts: Sequence[Array]) -> Array:
    """Return parts of a column as one. One value for all rows takes no memory."""
    filled = [part for part in parts if len(part)]
    firsts = [part[0] for part in filled if part.strides == (0,)]
    if len(firsts) == len(filled) and len(np.unique(firsts)) == 1:
        return np.broadcast_to(firsts[0], sum(map(len, filled)))
    return filled[0] if len(filled) == 1 else np.concatenate(filled or parts)


def compact(integers: Keys) -> Keys:
    """Return integers in fewer bytes. One value for all rows takes no memory.

    Differences and sums of two of them still fit.
    """
    if not len(integers):
        return integers
    least, most = int(integers.min()), int(integers.max())
    fitting = (dtype for dtype in (np.int16, np.int32) if max(most, -least) <= np.iinfo(dtype).max // 2)
    dtype = next(fitting, integers.dtype)
    return np.broadcast_to(integers[0].astype(dtype), len(integers)) if least == most else integers.astype(dtype)


def column_numbers(values: pa.Array) -> Array:
    """Return Arrow numbers as float64 or int64; nobody writes to columns.

    A column of nulls takes no memory, nor does one of an int32 that repeats, such as the part of each row.
    """
    if values.null_count == len(values):
        return np.broadcast_to(np.nan if is_float(values) else np.int64(NULL), len(values))
    numbers = numbers_of(values)
    if numbers.dtype == np.int32:
        if not values.null_count and (numbers == numbers[0]).all():
            return np.broadcast_to(np.int64(numbers[0]), len(numbers))
        numbers = numbers.astype(np.int64)
    if values.null_count:
        return np.where(valid_mask(values), numbers, NULL if numbers.dtype == np.int64 else np.nan)
    return numbers
