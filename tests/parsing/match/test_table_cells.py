"""Cells under a header: the form that reads each cell, rows of the same shape together, and where the rows end."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from perflog.formats.families.cell_forms import CellForm
from perflog.formats.families.header_columns import DeclaredColumn
from perflog.formats.template import Template
from perflog.parsing.match.ordered.table_cells import read_rows

NUMBER = DeclaredColumn("n", (CellForm(Template("{n:d}")), CellForm(Template("{n:d} of {total:d}"))))
NAME = DeclaredColumn("name", (CellForm(Template("{name:w}")),))
TOTAL = DeclaredColumn("total", (CellForm(Template("{total:d}")),))


def read(columns: tuple[DeclaredColumn, ...], rows: Sequence[tuple[str, ...]], filled: tuple[str, ...] = ()) -> Any:
    """Shape, indices and values of the rows that parsed, and their number."""
    table = SimpleNamespace(must_fill=lambda column: column.name in filled)
    header: Any = SimpleNamespace(declared_columns=columns, table=table)
    found, count = read_rows(header, rows)
    shapes = [
        (shape, records.positions.tolist(), {
            name: column.to_pylist() if isinstance(column, pa.Array) else column.tolist()
            for name, column in records.columns.items()
        })
        for shape, records in found
    ]  # fmt: skip
    return shapes, count


def test_the_first_form_that_fits_reads_a_cell() -> None:
    rows = [("3", "a"), ("4 of 5", "b"), ("6", "c")]
    assert read((NUMBER, NAME), rows) == (
        [((0, 0), [0, 2], {"n": [3, 6], "name": ["a", "c"]}), ((1, 0), [1], {"n": [4], "total": [5], "name": ["b"]})], 3
    )  # fmt: skip


def test_shapes_are_in_the_order_of_their_first_rows() -> None:
    rows = [("4 of 5", "b"), ("3", "a"), ("", "c"), ("1 of 2", "d")]
    shapes, count = read((NUMBER, NAME), rows)
    assert [(shape, positions) for shape, positions, _ in shapes] == [((1, 0), [0, 3]), ((0, 0), [1]), ((-1, 0), [2])]
    assert count == 4


@pytest.mark.parametrize("cell", ["", "-", "N/A", "None"])
def test_a_cell_without_a_value_has_none_unless_it_must_be_filled(cell: str) -> None:
    rows = [("3", "a"), (cell, "b"), ("4", "c")]
    assert read((NUMBER, NAME), rows)[0][1] == ((-1, 0), [1], {"name": ["b"]})
    shapes, count = read((NUMBER, NAME), rows, ("n",))
    assert ([positions for _, positions, _ in shapes], count) == ([[0]], 1)


def test_the_first_row_with_a_cell_that_no_form_reads_ends_the_rows() -> None:
    rows = [("3", "a"), ("4", "b"), ("five", "c"), ("6", "d")]
    shapes, count = read((NUMBER, NAME), rows)
    assert ([positions for _, positions, _ in shapes], count) == ([[0, 1]], 2)
    assert read((NUMBER, NAME), rows[2:]) == ([], 0)


def test_of_two_columns_with_one_field_the_first_fills_it() -> None:
    assert read((NUMBER, TOTAL), [("4 of 5", "9")])[0] == [((1, 0), [0], {"n": [4], "total": [5]})]
    assert read((TOTAL, NUMBER), [("9", "4 of 5")])[0] == [((0, 1), [0], {"n": [4], "total": [9]})]
    assert read((NUMBER, TOTAL), [("4", "9")])[0] == [((0, 0), [0], {"n": [4], "total": [9]})]
