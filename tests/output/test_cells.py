"""Cells of the tables of a report."""

from __future__ import annotations

import math

from perflog.output.report.cells import AnswerTable, Cell, HeaderCell, Number, Part, change_cell, number


def test_numbers_are_shown_as_in_all_tables() -> None:
    assert number(0.0125, "s") == Number(0.0125, "12.5 ms")
    assert number(0.0125, "s", text="short") == Number(0.0125, "short")
    assert number(12.0) == Number(12.0, "12") and number(0.0) == Number(0.0, "0")
    assert number(None, "s") == number(math.nan, "s", "text") == Number(None, "-")
    assert change_cell(0.06) == Number(0.06, "+6.0 %") and change_cell(None) == Number(None, "-")


def test_what_is_not_said_of_a_cell() -> None:
    assert (HeaderCell("a").number, Part("a").depth, AnswerTable("", [], []).has_long_names) == (False, 0, False)


def test_columns_without_a_value_are_left_out() -> None:
    """A zero and an empty string are values."""
    heads = [HeaderCell(name) for name in "abcde"]
    rows: list[list[Cell]] = [["x", None, Number(None, "-"), number(0.0), ""], ["y", None, None, None, None]]
    table = AnswerTable("title", heads, rows, "note", has_long_names=True).without_empty_columns()
    assert [head.name for head in table.heads] == ["a", "d", "e"]
    assert table.rows == [["x", Number(0.0, "0"), ""], ["y", None, None]]
    assert (table.title, table.note, table.has_long_names) == ("title", "note", True)
