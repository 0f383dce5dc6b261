"""The rows of a table of a SQLite file as numpy columns, decoded from its pages.

A row is a record: a header with the type of each cell, then the cells. Rows with one header have their cells at the
same offsets, so that a column is one load of eight bytes for each row. What occurs rarely is refused, and SQLite reads
it: rows that go on on other pages, rows with fewer cells than the table has columns, strings that are no UTF-8.

Source: "Database File Format", https://www.sqlite.org/fileformat2.html, sections 1.6 and 2.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from perflog.arrays import Bytes, Ints, Mask
from perflog.readers.databases.sqlite_pages import LEAF_OF_TABLE
from perflog.readers.events.event_columns import MISSING
from perflog.tables.arrow import number_array

SLACK = 256
"""Bytes after the pages: what is loaded from the last row may go beyond it."""

INTEGER, REAL, TEXT = "integer", "real", "text"
"""What a column holds."""

_Words = npt.NDArray[np.uint64]
_Flags = Mask

_HEADER = 8  # bytes of the header of a page
_LARGEST_PAGE = 65536  # bytes
_LARGEST_HEADER = 127  # of a record: its size is one byte
_BEYOND = 35  # a record that is less than so much smaller than a page goes on on another one
_SIZES = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)  # of a cell by its type; larger ones are blobs (even) and strings (odd)
_NULL, _DOUBLE, _ZERO, _ONE, _RESERVED, _FIRST_BLOB = 0, 7, 8, 9, (10, 11), 12
_TOP_BITS = np.uint64(0x8080808080808080)
_MIXERS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(29))
_BUCKET_BITS = 16
_MANY_SHAPES, _ROWS_OF_SHAPE = 1024, 16  # in a batch: more shapes than this take longer than SQLite
_MOST_SHAPES_KEPT = 1 << 14


class UnusualRowsError(Exception):
    """Rows that SQLite has to read. `rest`: the page itself is odd, so that it is not known where its rows end."""

    def __init__(self, *, rest: bool) -> None:
        super().__init__()
        self.rest = rest


class Cells(Struct, frozen=True):
    """Cells of some rows of a table.

    `columns` are the wanted ones, `odd` counts the cells of another type in each row (None: there are none), `values`
    states for each column of the table how many of the rows have a value.
    """

    count: int
    columns: dict[str, pa.Array]
    odd: Ints | None
    values: Ints

    def __len__(self) -> int:
        return self.count


class _Shape(Struct, frozen=True):
    """Where the cells of rows with one header are, from its begin, and their types; `size`: of header and cells."""

    places: list[int]
    types: list[int]
    size: int


class RecordReader:
    """Decodes rows of one table.

    Args:
        columns: Number of columns of the table.
        wanted: For each wanted column its index in the table, and what it holds.
        page_size: Bytes of a page.
        usable: Bytes of a page that SQLite uses.
    """

    def __init__(self, columns: int, wanted: Mapping[str, tuple[int, str]], page_size: int, usable: int) -> None:
        self._columns, self._wanted = columns, wanted
        self._page_size, self._usable = page_size, usable
        self._shapes: dict[bytes, _Shape | None] = {}

    def read(self, data: Bytes) -> Cells:
        """Return the cells of the rows of some pages, which follow one another in `data`, before `SLACK`.

        Raises:
            UnusualRowsError: If SQLite has to read the rows.
        """
        cells, page_ends = self._cells(data)
        heads, sizes = _heads(data, cells)
        too_long = (sizes > self._usable - _BEYOND).any() or (heads + sizes > page_ends).any()
        if too_long or int(sizes.sum()) > len(data):  # else rows that share their bytes take memory without bound
            raise UnusualRowsError(rest=False)
        shapes, shape_of = self._shapes_of(data, heads)
        if (np.array([shape.size for shape in shapes], np.int64)[shape_of] != sizes).any():
            raise UnusualRowsError(rest=False)
        types, places = (np.array([getattr(shape, of) for shape in shapes], np.int64) for of in ("types", "places"))
        counts = np.bincount(shape_of, minlength=len(shapes))
        odd = np.zeros(len(shapes), np.int64)
        columns: dict[str, pa.Array] = {}
        for name, (place, kind) in self._wanted.items():
            column = _Column(data, heads, places[:, place], types[:, place], shape_of)
            odd += column.odd(kind)
            columns[name] = column.texts() if kind == TEXT else column.numbers(kind)
        return Cells(len(heads), columns, odd[shape_of] if odd.any() else None, counts @ (types != _NULL))

    def count(self, data: Bytes) -> int:
        """Return the number of rows of some pages.

        Raises:
            UnusualRowsError: If a page is not a page of rows.
        """
        return len(self._cells(data)[0])

    def last_row(self, data: Bytes) -> int:
        """Return the number of the last row of some pages.

        Raises:
            UnusualRowsError: If a page is not a page of rows.
        """
        cells, _ = self._cells(data)
        text = data[int(cells[-1]) :][: 2 * 9].tobytes()
        _, rest = _varint(text)
        number, _ = _varint(rest)
        return number - (1 << 64) if number >> 63 else number

    def _cells(self, data: Bytes) -> tuple[Ints, Ints]:
        """Return where each row begins, and where its page ends."""
        size = self._page_size
        pages = data[: (len(data) - SLACK) // size * size].reshape(-1, size)
        counts = pages[:, 3].astype(np.int64) << 8 | pages[:, 4]
        if (pages[:, 0] != LEAF_OF_TABLE).any() or not counts.any() or int(counts.max()) > (size - _HEADER) // 2:
            raise UnusualRowsError(rest=True)
        pointers = np.ascontiguousarray(pages[:, _HEADER : _HEADER + 2 * int(counts.max())]).view(">u2")
        places = pointers[np.arange(pointers.shape[1]) < counts[:, None]].astype(np.int64)
        first, begins = (np.repeat(x, counts) for x in (_HEADER + 2 * counts, np.arange(len(pages)) * size))
        if (places < first).any() or (places > self._usable - 4).any():
            raise UnusualRowsError(rest=True)
        return places + begins, begins + self._usable

    def _shapes_of(self, data: Bytes, heads: Ints) -> tuple[list[_Shape], npt.NDArray[np.intp]]:
        """Return the shapes of the rows, and for each row the index of its shape."""
        header_sizes = data[heads]
        if int(header_sizes.max()) > _LARGEST_HEADER or int(header_sizes.min()) <= self._columns:
            raise UnusualRowsError(rest=False)
        first, shape_of = _distinct_headers(data, heads, header_sizes)
        if len(first) > _MANY_SHAPES + len(heads) // _ROWS_OF_SHAPE:
            raise UnusualRowsError(rest=False)  # SQLite is faster
        if len(self._shapes) > _MOST_SHAPES_KEPT:
            self._shapes.clear()
        shapes = []
        for place in heads[first].tolist():
            header = data[place : place + int(data[place])].tobytes()
            if header not in self._shapes:
                self._shapes[header] = _shape(header, self._columns)
            shape = self._shapes[header]
            if shape is None:
                raise UnusualRowsError(rest=False)
            shapes.append(shape)
        return shapes, shape_of


def _heads(data: Bytes, cells: Ints) -> tuple[Ints, Ints]:
    """Return where the record of each row begins, and its size: after its size and its number, of one byte or more.

    The last byte of each such number has no top bit.
    """
    words = _loaded(data, cells, "<u8").view(np.uint64)
    ends = ~words & _TOP_BITS
    ends_of_number = ends & (ends - np.uint64(1))
    lowest = ends & (~ends + np.uint64(1))
    is_long = lowest > np.uint64(0x80)
    if (lowest > np.uint64(0x8000)).any() or (ends_of_number == 0).any():
        raise UnusualRowsError(rest=False)  # large pages, or 2^35 rows
    low, high = words & np.uint64(0x7F), words >> np.uint64(8) & np.uint64(0x7F)
    sizes = np.where(is_long, low << np.uint64(7) | high, low)
    lowest = ends_of_number & (~ends_of_number + np.uint64(1))
    lengths = (np.bitwise_count(lowest - np.uint64(1)) >> 3) + 1
    return cells + lengths, sizes.astype(np.int64)


def _loaded(data: Bytes, places: Ints, dtype: str) -> Ints:
    """Return the eight bytes at each offset."""
    return np.ndarray((len(data) - 7,), dtype, data, strides=(1,))[places]


def _distinct_headers(data: Bytes, heads: Ints, sizes: Bytes) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the first row of each distinct header, and for each row the index of its header among them.

    Headers count as equal if they agree in a hash of 64 bits. No header is read beyond the bytes of the data.
    """
    hashes = np.zeros(len(heads), np.uint64)
    sizes_left = sizes.astype(np.int64)
    multiplier, shift = _MIXERS
    for word in range((int(sizes.max()) + 7) // 8):
        words = _loaded(data, heads + 8 * word, "<u8").view(np.uint64)
        if int(sizes_left.min()) < 8:
            words = words & _MASKS[np.clip(sizes_left, 0, 8)]
        hashes = (hashes ^ words) * multiplier
        hashes ^= hashes >> shift
        sizes_left -= 8
    if (hashes[1:] == hashes[:-1]).all():
        return np.zeros(1, np.intp), np.zeros(len(heads), np.intp)
    buckets = (hashes >> np.uint64(64 - _BUCKET_BITS)).astype(np.intp)
    row_of = np.full(1 << _BUCKET_BITS, -1, np.intp)
    row_of[buckets] = np.arange(len(buckets))
    if (hashes[row_of[buckets]] != hashes).any():  # two headers in one bucket
        _, first, index = np.unique(hashes, return_index=True, return_inverse=True)
        return first, index
    filled = np.flatnonzero(row_of >= 0)
    code_of = np.zeros(len(row_of), np.intp)
    code_of[filled] = np.arange(len(filled))
    return row_of[filled], code_of[buckets]


_MASKS = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)
"""Masks of the first bytes of a word, by their number."""


def _shape(header: bytes, columns: int) -> _Shape | None:
    """Return where a header says that the cells are; None if they are not as many as the columns, or beyond a page."""
    place, rest = len(header), header[1:]
    places, types = [], []
    while rest:
        kind, rest = _varint(rest)
        if kind < 0 or kind in _RESERVED:
            return None
        places.append(place)
        types.append(kind)
        place += _SIZES[kind] if kind < _FIRST_BLOB else (kind - _FIRST_BLOB) // 2
        if place > _LARGEST_PAGE:
            return None
    return _Shape(places, types, place) if len(types) == columns else None


def _varint(text: bytes) -> tuple[int, bytes]:
    """Return the number at the begin of some bytes, and the bytes after it; -1 if they end within it."""
    number = 0
    for place, byte in enumerate(text[:9]):
        if place == 8:
            return number << 8 | byte, text[9:]
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            return number, text[place + 1 :]
    return -1, b""


class _Column:
    """One column of some rows: their heads, and for each shape the offset and type of its cell."""

    def __init__(self, data: Bytes, heads: Ints, places: Ints, types: Ints, shape_of: npt.NDArray[np.intp]) -> None:
        self._data, self._heads, self._places, self._types, self._shape_of = data, heads, places, types, shape_of

    def odd(self, kind: str) -> _Flags:
        """Flag the shapes with a cell of another type than the column."""
        types = self._types
        if kind == TEXT:
            blob: _Flags = (types >= _FIRST_BLOB) & (types % 2 == 0)
            return blob
        odd: _Flags = types >= _FIRST_BLOB
        return odd | (types == _DOUBLE) if kind == INTEGER else odd

    def numbers(self, kind: str) -> pa.Array:
        """Return the column as integers, or as doubles; null where a cell is no number."""
        is_double = self._types == _DOUBLE
        null = (self._types == _NULL) | self.odd(kind)
        known = None if not null.any() else self._by_row(~null)
        values = self._integers(null | is_double)
        if kind == INTEGER:
            return number_array(values, known)
        reals = values.astype(np.float64)
        if is_double.any():
            rows = self._by_row(is_double)
            reals[rows] = _loaded(self._data, self._cells()[rows], ">f8")
        return number_array(reals, known)

    def _integers(self, other: _Flags) -> Ints:
        """Return the integers of the rows; MISSING for rows of `other` shapes."""
        constants = np.select([other, self._types == _ONE], [MISSING, 1], 0)
        sizes = np.where(other, 0, np.array(_SIZES, np.int64)[np.minimum(self._types, len(_SIZES) - 1)])
        if not sizes.any():
            return self._by_row(constants)
        values = _loaded(self._data, self._cells(), ">i8").astype(np.int64)
        values >>= self._each(64 - np.maximum(sizes, 1) * 8)
        if not sizes.all():
            values &= self._by_row(np.where(sizes > 0, -1, 0))
            values |= self._by_row(constants)
        return values

    def texts(self) -> pa.Array:
        """Return the column as strings, the empty one where a cell is null or a blob.

        Raises:
            UnusualRowsError: If a cell is a number or no UTF-8.
        """
        is_text = (self._types >= _FIRST_BLOB) & (self._types % 2 == 1)
        if (~is_text & (self._types != _NULL) & (self._types < _FIRST_BLOB)).any():
            raise UnusualRowsError(rest=False)
        lengths = self._by_row(np.where(is_text, (self._types - _FIRST_BLOB) // 2, 0))
        offsets = np.zeros(len(lengths) + 1, np.int32)
        np.cumsum(lengths, out=offsets[1:])
        places = np.repeat(self._cells() - offsets[:-1], lengths)
        places += np.arange(len(places))
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self._data[places])]
        texts = pa.Array.from_buffers(pa.string(), len(lengths), buffers)
        try:
            texts.validate(full=True)
        except pa.ArrowInvalid as error:
            raise UnusualRowsError(rest=False) from error
        return texts

    def _cells(self) -> Ints:
        return self._heads + self._each(self._places)

    def _each(self, values_by_shape: Ints) -> Ints:
        """Return a number of each shape for each row; one number where all shapes have the same."""
        return values_by_shape[:1] if (values_by_shape == values_by_shape[0]).all() else self._by_row(values_by_shape)

    def _by_row(self, values_by_shape: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return for each row the value of its shape."""
        return values_by_shape.take(self._shape_of)
