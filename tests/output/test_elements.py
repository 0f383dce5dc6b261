"""HTML elements: what a log prints is escaped, and sorted by its value."""

from __future__ import annotations

import math

from perflog.output.report.cells import HeaderCell
from perflog.output.report.html.elements import (
    Html,
    as_html,
    breakable,
    folded,
    join,
    link,
    number_cell,
    shortened,
    sortable_table,
    tag,
    text_cell,
    with_code,
)
from perflog.output.sheets import Quantity


def test_strings_are_escaped_once() -> None:
    assert as_html('<b a="1">&') == "&lt;b a=&quot;1&quot;&gt;&amp;"
    assert as_html(as_html("<")) == "&lt;" and as_html(Html("<b>")) == "<b>"
    assert as_html("a\x1bb\nc\td") == "a·b\nc·d" and as_html("µs – 1") == "µs – 1"
    assert as_html(7) == "7" and isinstance(as_html(7), Html)
    assert join(["<", Html("<br>"), 1], "&") == "&lt;&amp;<br>&amp;1"


def test_elements() -> None:
    assert tag("p", "a<", tag("b", 1)) == "<p>a&lt;<b>1</b></p>"
    assert tag("td", "x", data_value=0.5, class_="a&b") == '<td data-value="0.5" class="a&amp;b">x</td>'
    assert tag("p", id=None, hidden=False, open=True, tabindex=0) == '<p open tabindex="0"></p>'
    assert tag("wbr") == "<wbr>" and tag("img", src="a") == '<img src="a">'
    assert link("a", "b", class_="c") == '<a href="#a" class="c">b</a>'
    assert folded(Html("<h2>a</h2>"), "b", "c") == "<details><summary><h2>a</h2></summary>bc</details>"


def test_names_may_be_broken_before_words() -> None:
    assert breakable("all_reduce.dp-rank/x1_2_a") == "all_<wbr>reduce.<wbr>dp-<wbr>rank/x1_2_a"
    assert breakable("a_<b_cd") == "a_&lt;b_<wbr>cd"
    assert with_code("use `a<b` or `c`") == "use <code>a&lt;b</code> or <code>c</code>"


def test_long_strings_are_cut() -> None:
    assert shortened("a" * 400) == "a" * 400 and shortened("a" * 401) == "a" * 400 + "..."
    assert shortened("<<<", 2) == "&lt;&lt;..."
    assert shortened("a -> b") == 'a <span class="arrow">-&gt;</span> b'
    assert (shortened(True), shortened(False), shortened(None), shortened([1, 2])) == ("yes", "no", "-", "[1, 2]")


def test_cells_of_numbers_are_sorted_by_their_value() -> None:
    assert number_cell(0.0125, "s") == '<td data-value="0.0125">12.5 ms</td>'
    assert number_cell(Quantity(0.0125, "s"), "x") == '<td data-value="0.0125">12.5 ms</td>'
    assert number_cell(1 / 3, text="a third") == '<td data-value="0.333333333">a third</td>'
    assert number_cell(12345678901) == '<td data-value="12345678901">12345678901</td>'
    assert (
        number_cell(None) == number_cell(math.nan, "s") == number_cell(Quantity(None, "s")) == "<td data-value>-</td>"
    )


def test_cells_of_long_strings_are_broken() -> None:
    assert text_cell("a" * 40) == f"<td>{'a' * 40}</td>"
    assert text_cell("a" * 41) == f'<td class="text">{"a" * 41}</td>'
    assert text_cell(Html(f"<b>{'a' * 41}</b>")) == f"<td><b>{'a' * 41}</b></td>"


def test_a_sortable_table() -> None:
    heads = [HeaderCell("a_name"), HeaderCell("time", number=True, tooltip="in s", meaning="time_s")]
    rows = [tag("tr", text_cell("x")), tag("tr", text_cell("y"))]
    assert sortable_table("all", heads, rows, "2 more", class_="own") == (
        '<div class="scroll" tabindex="0" role="region" aria-label="all"><table class="sortable own"><thead><tr>'
        '<th scope="col"><button type="button">a_<wbr>name</button></th>'
        '<th scope="col" data-of="time_s" class="number"><button type="button" title="in s">time</button></th>'
        "</tr></thead><tbody><tr><td>x</td></tr>\n<tr><td>y</td></tr></tbody></table></div>"
        '<p class="more">2 more</p>'
    )
    for columns, wide in ((12, False), (13, True)):
        text = sortable_table("all", [HeaderCell("a")] * columns, [])
        assert (' class="sortable wide"' in text) == wide and not text.endswith("</p>")
