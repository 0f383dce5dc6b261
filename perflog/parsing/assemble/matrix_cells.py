"""The cells of a matrix as records: each with the labels of its row and column, the fields of the title, its number.

In: the rows of a matrix, as `AttributedRows`. Out: for each column the fields of its cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct

from perflog.arrays import Ints, Mask
from perflog.formats.model import Cells
from perflog.parsing.assemble.attributed_rows import AttributedRows
from perflog.parsing.assemble.column_values import scaled
from perflog.tables.arrow import index_array, text_array
from perflog.units import Unit


class CellRecords(Struct):
    """The cells of one column that have the same fields.

    Attributes:
        rows: The rows of the matrix that contain them.
        position: The index of the column among the cells.
        fields: By name the values of each field: numbers, or strings of Arrow. The number of the cell comes last.
        unit: The unit of that number.
    """

    rows: Ints
    position: int
    fields: dict[str, Any]
    unit: Unit | None


def names_of_fields(cells: Cells) -> tuple[str, ...]:
    """Return the names of all fields that records of cells may have."""
    return tuple(filter(None, (*cells.title, cells.row, cells.column, cells.number, cells.diagonal)))


def records_of_cells(rows: AttributedRows, cells: Cells) -> Iterator[CellRecords]:
    """Yield the records of the rows of a matrix, column by column. A cell with an unknown number is no record."""
    for column_index, (name, label) in enumerate(cells.labels.items()):
        numbers = rows.records.columns[name].astype(np.float64)
        is_known = numbers != cells.unknown if cells.unknown is not None else np.ones(len(numbers), np.bool_)
        on_diagonal = _on_diagonal(rows, cells, label)
        for number, is_meant in ((cells.number, ~on_diagonal), (cells.diagonal, on_diagonal)):
            chosen = np.flatnonzero(is_known & is_meant)
            if len(chosen):
                unit = rows.line.unit.get(name)
                fields = _labels(rows, cells, label, chosen) | {number: scaled(numbers[chosen], unit)}
                yield CellRecords(chosen, column_index, fields, unit)


def _on_diagonal(rows: AttributedRows, cells: Cells, label: str) -> Mask:
    """Return the rows with the label of a column, if such cells have a name of their own."""
    row_labels = rows.records.columns.get(cells.row)
    if not cells.diagonal or not isinstance(row_labels, np.ndarray) or not label.isdecimal():
        return np.zeros(len(rows), np.bool_)
    is_diagonal: Mask = row_labels == int(label)
    return is_diagonal


def _labels(rows: AttributedRows, cells: Cells, label: str, chosen: Ints) -> dict[str, object]:
    """Return the fields before the number of some cells of a column."""
    fields: dict[str, object] = {}
    for name in cells.title:
        fields[name] = rows.inherited[name].cast(pa.string()).take(index_array(chosen))
    if cells.row:
        row_labels = rows.records.columns[cells.row]
        is_number = isinstance(row_labels, np.ndarray)
        fields[cells.row] = row_labels[chosen].astype(np.float64) if is_number else row_labels.take(index_array(chosen))
    is_number = label.isdecimal()
    fields[cells.column] = np.full(len(chosen), float(label)) if is_number else text_array([label] * len(chosen))
    return fields
