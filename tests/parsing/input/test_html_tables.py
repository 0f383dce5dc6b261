"""Tables in HTML become rows of Markdown."""

from __future__ import annotations

from perflog.parsing.input.html_tables import markdown_rows


def test_rows_with_a_rule_under_the_first() -> None:
    cells = "<tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr><tr><td></td><td>3</td></tr>"
    expected = ["| a | b |", "| --- | --- |", "| 1 | 2 |", "|  | 3 |", ""]
    assert list(markdown_rows(f"<p>words</p><table>{cells}</table>")) == expected


def test_cells_are_one_line_of_text_without_bars() -> None:
    page = "<table><tr><td> a<b>b</b>\n c </td><td>x|y</td></tr><tr></tr></table>"
    assert list(markdown_rows(page)) == ["| ab c | x y |", "| --- | --- |", ""]


def test_several_tables_and_what_is_outside_of_them() -> None:
    page = "<tr><td>no</td></tr><table></table>a<table>b<tr>c<td>d</td></tr></table>e"
    assert list(markdown_rows(page)) == ["", "| d |", "| --- |", ""]
