"""Reads the cells of rows under one header, column by column: the form that reads each cell, and the values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from msgspec import Struct

from perflog.arrays import Ints
from perflog.formats.families.header_columns import DeclaredColumn
from perflog.formats.families.header_tables import Header
from perflog.formats.families.missing_values import NO_VALUE
from perflog.parsing.match.captures import capture
from perflog.parsing.match.records import Column, Records
from perflog.tables.arrow import index_array, text_array

RowShape = tuple[int, ...]
"""For each declared column of a header the number of the form that reads the cell; -1 for a cell without a value."""


class _CellMatches(Struct):
    """Cells of one column that one form reads: their rows, ascending, and the values of its fields there."""

    rows: Ints
    columns: dict[str, Column]

    def take(self, rows: Ints) -> dict[str, Column]:
        return Records(self.rows, self.columns).take(np.searchsorted(self.rows, rows)).columns


def read_rows(header: Header, rows: Sequence[Sequence[str]]) -> tuple[list[tuple[RowShape, Records]], int]:
    """Read rows of cells.

    Returns:
        The rows by shape, with their indices as positions, and the number of leading rows that parsed. The first row
        with a cell that no form of its column reads ends them.
    """
    forms = np.full((len(rows), len(header.declared_columns)), -1, np.int64)
    parsed = np.ones(len(rows), np.bool_)
    matches: dict[tuple[int, int], _CellMatches] = {}  # by column and form
    for k, (column, texts) in enumerate(zip(header.declared_columns, zip(*rows, strict=True), strict=True)):
        may_be_empty = not header.table.must_fill(column)
        empty = np.fromiter((may_be_empty and text in NO_VALUE for text in texts), np.bool_, len(rows))
        for form, cells in _match_column(column, text_array(texts).cast(pa.binary()), np.flatnonzero(~empty)):
            forms[cells.rows, k] = form
            matches[k, form] = cells
        parsed &= (forms[:, k] >= 0) | empty
    count = len(rows) if parsed.all() else int(np.argmin(parsed))
    return [(shape, _records(matches, shape, positions)) for shape, positions in _by_shape(forms[:count])], count


def _match_column(column: DeclaredColumn, texts: pa.Array, left: Ints) -> Iterator[tuple[int, _CellMatches]]:
    """The cells that each form reads, of those cells in `left` that no form before it reads."""
    for number, form in enumerate(column.forms):
        if not len(left):
            return
        rows, columns = capture(form.template, texts.take(index_array(left)))
        if len(rows):
            yield number, _CellMatches(left[rows], columns)
            left = np.delete(left, rows)


def _by_shape(forms: Ints) -> Iterator[tuple[RowShape, Ints]]:
    """Rows of the same shape together; shapes in the order of their first row."""
    shapes, first, inverse = np.unique(forms, axis=0, return_index=True, return_inverse=True)
    for k in np.argsort(first).tolist():
        yield tuple(shapes[k].tolist()), np.flatnonzero(inverse.ravel() == k)


def _records(matches: Mapping[tuple[int, int], _CellMatches], shape: RowShape, rows: Ints) -> Records:
    """Rows of one shape. If two columns have the same field, the first column fills it."""
    columns: dict[str, Column] = {}
    for k, form in enumerate(shape):
        if form >= 0:
            columns = matches[k, form].take(rows) | columns
    return Records(rows, columns)
