"""Cells of rows under one header -> records: which piece of its column reads each cell, and the values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from perflog.formats.families.header_tables import NO_VALUE, DeclaredColumn, Header
from perflog.formats.template import Template, fits_64
from perflog.parsing.match.numeric import Ints
from perflog.parsing.match.records import Column as Values
from perflog.parsing.match.records import Records
from perflog.parsing.match.scanner import typed
from perflog.tables.arrow import index_array, mask_of, text_array, valid_mask

Shape = tuple[int, ...]
"""Of each declared column of a header the piece that its cell is printed as, -1 where it has no value."""


@dataclass
class _Read:
    """Cells of one column that one piece reads: their rows, ascending, and the values of its fields there."""

    rows: Ints
    values: dict[str, Values]

    def take(self, rows: Ints) -> dict[str, Values]:
        return Records(self.rows, self.values).take(np.searchsorted(self.rows, rows)).columns


def read(head: Header, rows: Sequence[Sequence[str]]) -> tuple[list[tuple[Shape, Records]], int]:
    """Rows by shape, their places being their indices; and how many rows stand in front of the first that the pieces
    of its columns do not read.
    """
    codes = np.full((len(rows), len(head.declared_columns)), -1, np.int64)
    good = np.ones(len(rows), np.bool_)
    found: dict[tuple[int, int], _Read] = {}
    for k, (c, texts) in enumerate(zip(head.declared_columns, zip(*rows, strict=True), strict=True)):
        needed = c.name in head.table.needs
        empty = np.fromiter((not needed and text in NO_VALUE for text in texts), np.bool_, len(rows))
        for piece, part in _column(c, text_array(texts).cast(pa.binary()), np.flatnonzero(~empty)):
            codes[part.rows, k] = piece
            found[k, piece] = part
        good &= (codes[:, k] >= 0) | empty
    count = len(rows) if good.all() else int(np.argmin(good))
    return [(shape, _records(found, shape, at)) for shape, at in _alike(codes[:count])], count


def _column(column: DeclaredColumn, texts: pa.Array, left: Ints) -> Iterator[tuple[int, _Read]]:
    """The cells `left` that each piece reads, of those that no piece before it does."""
    for k, piece in enumerate(column.forms):
        if not len(left):
            return
        hits, values = _piece(piece, texts.take(index_array(left)))
        if len(hits):
            yield k, _Read(left[hits], values)
            left = np.delete(left, hits)


def _piece(piece: Template, texts: pa.Array) -> tuple[Ints, dict[str, Values]]:
    """Which of the texts a piece reads, and its values there."""
    pattern, fields = f"^(?s:{piece.pattern})$", [f for f in piece.fields if f.name != "_"]
    if not fields:
        return np.flatnonzero(mask_of(pc.match_substring_regex(texts, pattern))), {}
    captured = pc.extract_regex(texts, pattern)
    hits = np.flatnonzero(valid_mask(captured))
    values = _values(piece, captured.take(index_array(hits)))
    if any(x is None for x in values.values()):  # an integer of more than 64 bits: its cell is not read
        whole = [f.name for f in fields if f.type == "d"]
        hits = hits[[all(fits_64(row[n]) for n in whole) for row in captured.take(index_array(hits)).to_pylist()]]
        values = _values(piece, captured.take(index_array(hits)))
    return hits, values


def _values(piece: Template, captured: pa.StructArray) -> dict[str, Values]:
    return {f.name: typed(f, captured) for f in piece.fields if f.name != "_"}


def _alike(codes: npt.NDArray[np.int64]) -> Iterator[tuple[Shape, Ints]]:
    """Rows of the same codes, in the order of their first."""
    shapes, first, inverse = np.unique(codes, axis=0, return_index=True, return_inverse=True)
    for k in np.argsort(first).tolist():
        yield tuple(shapes[k].tolist()), np.flatnonzero(inverse.ravel() == k)


def _records(found: dict[tuple[int, int], _Read], shape: Shape, rows: Ints) -> Records:
    """Rows of one shape. A field that two columns have is that of the first."""
    values: dict[str, Values] = {}
    for k, piece in enumerate(shape):
        if piece >= 0:
            values = found[k, piece].take(rows) | values
    return Records(rows, values)
