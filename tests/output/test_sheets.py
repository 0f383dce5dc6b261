"""Sheets in each format, on values with known texts."""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa
import pytest

from perflog.output import sheets as module
from perflog.output.sheets import (
    Mark,
    Quantity,
    Sheet,
    SheetColumn,
    cell,
    csv,
    escaped,
    join,
    json_text,
    markdown,
    pairs,
    quantity,
    result_sheet,
    sheet,
    table_sheet,
    text,
)
from perflog.tables.schema import TABLES, arrow_schema
from perflog.units import UTC


def lines(*sheets: Sheet, width: int | None = None) -> list[str]:
    return [line.text for line in text(sheets, width)]


SMALL = sheet(
    "small", "name value# why~ good!", [("a", 1, "x", "yes"), ("bcd", 12, None, "no")], "Title", "Note 1\nNote 2"
)


def test_columns_are_named_in_one_string() -> None:
    assert SMALL.columns == (
        SheetColumn("name"), SheetColumn("value", number=True), SheetColumn("why", role="detail"),
        SheetColumn("good", role="verdict"),
    )  # fmt: skip
    assert sheet("x", "n#~", []).columns == (SheetColumn("n", number=True, role="detail"),)


def test_text_is_aligned() -> None:
    assert lines(SMALL) == [
        "Title", "  name  value  why  good", "  a         1  x    yes", "  bcd      12  -    no",
        "  Note 1", "  Note 2",
    ]  # fmt: skip
    assert lines(SMALL, SMALL)[6] == "" and len(lines(SMALL, SMALL)) == 13
    plain = sheet("x", "a", [(1,)])
    assert lines(plain, plain) == ["a", "1", "a", "1"]
    assert lines(plain, SMALL)[2:4] == ["", "Title"] and lines(SMALL, plain)[6:8] == ["", "a"]
    assert lines(sheet("x", "a b", [], "Title")) == ["Title"]
    shown = list(text([SMALL]))
    assert [line.bold for line in shown] == [5, 0, 0, 0, 0, 0]
    assert [line.dim for line in shown] == [False, True, False, False, True, True]


def test_pairs_are_names_with_their_values() -> None:
    made = pairs("x", [("a", 1), ("long", None), ("bc", Quantity(0.5, "s"))], "Title")
    assert made.rows == [("a", 1), ("bc", Quantity(0.5, "s"))]
    assert lines(made) == ["Title", "  a   1", "  bc  500 ms"]
    inline = pairs("x", made.rows, "Title", inline=True)
    assert lines(inline, inline) == ["Title  a 1, bc 500 ms"] * 2
    assert [line.bold for line in text([inline])] == [5]
    narrow = lines(pairs("x", [("a" * 12, "one two three four")]), width=18)
    assert narrow == ["aaaa…aaaa  one two", "           three", "           four"]
    assert [len(line) for line in lines(pairs("x", [("a", "b" * 99)]), width=18)] == [18, 18, 15]  # three lines


@pytest.mark.parametrize(
    ("number", "role", "place", "need"),
    [
        (False, "", 0, (40, 16, 0)),  # a text may be cut; the first one stays
        (False, "", 3, (40, 16, 1)),
        (True, "", 1, (40, 40, 0)),  # a number is whole; the first one stays
        (True, "", 4, (40, 40, 2)),
        (False, "detail", 2, (40, 16, 3)),
        (True, "detail", 2, (40, 40, 3)),
        (False, "verdict", 3, (40, 40, 0)),
    ],
)
def test_what_a_column_needs(number: bool, role: Any, place: int, need: tuple[int, int, int]) -> None:
    """Its longest value, to how much it may be cut, and how early it is left out."""
    others = [SheetColumn("text"), SheetColumn("one", number=True), SheetColumn("why", role="detail")]
    columns = [*others, SheetColumn("text 2"), SheetColumn("two", number=True)]
    columns[place] = SheetColumn("x", number=number, role=role)
    assert module._need(place, columns, 40) == need


@pytest.mark.parametrize(
    ("titles", "inline", "blank"),
    [
        (("", ""), (False, False), False), (("a", ""), (False, False), True), (("", "b"), (False, False), True),
        (("a", "b"), (True, True), False), (("a", "b"), (True, False), True), (("a", "b"), (False, True), True),
    ],
)  # fmt: skip
def test_a_blank_line_is_between_sheets_with_a_title(
    titles: tuple[str, str], inline: tuple[bool, bool], blank: bool
) -> None:
    """Except between those that are one line each."""
    made = [pairs("x", [("n", 1)], title, inline=is_inline) for title, is_inline in zip(titles, inline, strict=True)]
    assert lines(*made).count("") == blank
    three = [pairs("x", [("n", 1)], "t", inline=True), *made]
    assert lines(*three).count("") == blank + (not inline[0])


def test_sentences_are_broken_into_lines() -> None:
    prose = Sheet("x", (SheetColumn("text"),), [("word " * 30,)], prose=True)
    assert [len(line) for line in lines(prose)] == [109, 41] and lines(prose)[1].startswith("  word")
    assert max(map(len, lines(prose, width=40))) <= 40
    assert list(markdown([prose])) == [f"- {'word ' * 30}"]


def test_what_has_no_room_is_named() -> None:
    wide = sheet("x", "name one# two# why~", [("n" * 20, 1111111, 2222222, "because")])
    assert lines(wide, width=30) == [
        "name                      one", "nnnnnnnnnnnnnnnnnnnn  1111111", "no room for two, why: --wide", "  shows all"
    ]  # fmt: skip


def test_marks_replace_names_of_runs_where_the_room_is_limited() -> None:
    marks = {"run-1": Mark("A", "run-1, batch 8"), "run-2": Mark("B", "run-2"), "side": Mark("S", "the side")}
    columns = (SheetColumn("run", role="run"), SheetColumn("side", role="run"), SheetColumn("other"))
    made = Sheet("x", columns, [("run-1", "run-2", "other"), ("run-1", "else", "z")], marks=marks)
    assert lines(made, width=60) == [
        "run  S      other", "A    run-2  other", "A    else   z", "S: the side", "A: run-1, batch 8",
    ]  # fmt: skip
    assert lines(made)[1] == "run-1  run-2  other"


def test_markdown_is_a_pipe_table() -> None:
    assert list(markdown([SMALL, sheet("x", "a", [("p|q_r*",)])])) == [
        "## Title\n", "| name | value | why | good |", "| --- | ---: | --- | --- |", "| a | 1 | x | yes |",
        "| bcd | 12 | - | no |", "\nNote 1  \nNote 2", "", "| a |", "| --- |", "| p\\|q_r\\* |",
    ]  # fmt: skip
    assert escaped("_a_ b_c `x` <i> [l] ~ & \\") == "\\_a\\_ b_c \\`x\\` \\<i> \\[l\\] \\~ \\& \\\\"


def test_csv_has_raw_values() -> None:
    rows = [("=1+1", Quantity(0.5, "s")), ("-", None), ("-1.5 %", 2), (" @x", 3), ("a,b", 4)]
    made = sheet("x", "name v#", rows)
    assert list(csv([made])) == ["name,v", "'=1+1,0.5", "-,", "-1.5 %,2", "' @x,3", '"a,b",4']
    assert list(csv([made], raw=True))[1] == "=1+1,0.5"
    both = list(csv([pairs("p", [("a", 1)]), sheet("t", "b c", [(2, 3)])]))
    assert both == ["section,row,name,value", "p,,a,1", "t,1,b,2", "t,1,c,3"]


def test_json_has_values_in_base_units_and_no_nan() -> None:
    def read(*sheets: Sheet) -> dict[str, Any]:
        document: dict[str, Any] = json.loads("\n".join(json_text(sheets)))
        assert isinstance(document.pop("schema_version"), int)
        return document

    odd = sheet("t", "a b", [(Quantity(0.5, "s"), math.nan), (math.inf, "x")])
    rows = [{"a": 0.5, "b": None}, {"a": None, "b": "x"}]
    assert read(odd) == {"table": "t", "rows": rows}
    assert read(pairs("p", [("n", 1)])) == {"p": {"n": 1}}
    assert read(pairs("p", [("n", 1)]), odd, sheet("e", "a", [])) == {"p": {"n": 1}, "t": rows, "e": []}


def test_sheets_with_the_same_columns_are_joined() -> None:
    assert join([]) == []
    assert [made.rows for made in join([sheet("x", "a", [(1,)]), sheet("x", "a", [(2,), (3,)])])] == [
        [(1,), (2,), (3,)]
    ]


def test_numbers_have_four_digits_and_integers_all() -> None:
    for value, unit, shown in (
        (math.nan, "s", "nan"), (0.0, "", "0"), (123456.0, "", "123456"), (12345.678, "", "12346"),
        (1234.5678, "", "1235"),
        (1e15, "", "1e+15"), (-2.0, "", "-2"), (1234567.0, "ns", "1234567 ns"), (12345.6, "W", "12,346 W"),
        (9999.4, "W", "9999 W"), (12345.6, "1/s", "12,346 1/s"), (0.01234567, "s", "12.35 ms"),
        (math.inf, "W", "inf W"),
    ):  # fmt: skip
        assert quantity(value, unit) == shown
    assert quantity(-12345.6, "J") == "-12,346 J" and quantity(math.inf, "") == "inf"


def test_other_values_are_on_one_line() -> None:
    for value, shown in (
        (None, "-"), (True, "True"), (5, "5"), (2.5, "2.5"), ("a\nb\tc", "a b c"), ([1, "ä"], '[1, "ä"]'),
        ({"a": None}, '{"a": null}'), (Quantity(None, "s"), "-"), (Quantity(0.5, "s"), "500 ms"),
    ):  # fmt: skip
        assert cell(value) == shown
    assert cell("2026-03-01T09:30:15Z", UTC) == "2026-03-01 09:30" and cell(5, "s") == "5 s"
    assert cell(True, "s") == "True"


def test_a_table_in_text_leaves_out_what_is_the_same_in_every_row() -> None:
    blank = {c.name: None for c in TABLES["values"]}
    rows = [blank | {"run": "r", "line": n, "part": 0, "key": f"k{n}", "value": n / 2, "unit": "s"} for n in (1, 2, 3)]
    table = pa.Table.from_pylist(rows, arrow_schema("values"))
    shown = table_sheet("values", table, "text", limit=2)
    assert [column.name for column in shown.columns] == ["line", "key", "value"]
    assert list(shown.rows) == [(1, "k1", Quantity(0.5, "s")), (2, "k2", Quantity(1.0, "s"))]
    first, same, empty = shown.note.split("\n")
    assert first == "1 more row: --limit 0 shows all 3" and same == "in every row: run r, part 0"
    assert empty.startswith("no values: ") and "read_by" not in empty and "unit" not in empty
    for format, limit, count in (("text", None, 3), ("text", 0, 3), ("text", 3, 3), ("json", None, 3), ("json", 1, 1)):
        assert len(list(table_sheet("values", table, format, limit).rows)) == count
        assert ("more rows" in table_sheet("values", table, format, limit).note) == (count < 3)
    assert [column.name for column in table_sheet("values", table, "json").columns] == table.column_names
    long = pa.concat_tables([table] * 14)
    assert (
        len(list(table_sheet("values", long, "text").rows)) == 40 < len(list(table_sheet("values", long, "csv").rows))
    )
    one = table_sheet("values", table[:1], "text")
    assert [column.name for column in one.columns] == ["run", "line", "part", "key", "value"]
    steps = {column.name: column for column in table_sheet("steps", pa.table({
        name: pa.array([1.0]) for name in ("step_time_s", "tokens_per_s", "memory_bytes", "step")
    }), "json").columns}  # fmt: skip
    assert [(each.title, each.unit, each.number) for each in steps.values()] == [
        ("step_time", "s", True), ("tokens_per_s", "1/s", True), ("memory", "B", True), ("step", "", True)
    ]  # fmt: skip


def test_the_result_of_a_query_has_no_units() -> None:
    table = pa.table({"n": [1, 2], "x": [0.5, None], "d": pa.array([0, 1], pa.date32()), "t": ["a", "b"]})
    shown = result_sheet(table, "text", 1)
    assert [(column.name, column.number) for column in shown.columns] == [
        ("n", True),
        ("x", True),
        ("d", False),
        ("t", False),
    ]
    assert list(shown.rows) == [[1, 0.5, "1970-01-01", "a"]] and shown.note == "1 more row: --limit 0 shows all 2"
    for format, limit in (("text", None), ("json", None), ("text", 2), ("text", 0)):
        whole = result_sheet(table, format, limit)
        assert (len(list(whole.rows)), whole.note) == (2, "")
    assert len(list(result_sheet(pa.table({"n": range(50)}), "md").rows)) == 40
