"""A header names the columns of the rows under it: what is a header, how a row is cut into cells, what its Line is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.paths import ROOT
from support.reading import read

from perflog.errors import FormatError
from perflog.formats.families.header_tables import Header, HeaderTable
from perflog.formats.loader.format_file import load
from perflog.formats.registry import known
from perflog.formats.sample_checks import check_samples
from perflog.units import UNITS

OWN = """
title  = "Own"
scopes = ["run", "section"]

[[table]]
name   = "own"
style  = {style}
units  = "row"
table  = "kernels"
opens  = "section"
needs  = ["Name", "Total Time ({{unit}})"]
unit   = {{ share = "%" }}
sample = '''
{sample}
'''
[table.columns]
"Name"                = "{{name:s}}"
"Time ({{unit}})"       = ["{{share:.1f}}", "{{share:.1f}}%"]
"Total Time ({{unit}})" = "{{time:,.1f}}"
"Av* ({{unit}})"        = "{{avg:,.1f}}"
"* Calls"             = "{{calls:,d}}"
"Total Calls"         = "{{_:d}}"
"Stream"              = ["{{_:d}}", "-"]
"Skipped"             = []
"""
SAMPLE = "Name  Total Time (ms)\nadd    1.5"
TEXT = '["blanks", "csv"]'


def table(folder: Path, style: str = TEXT, sample: str = SAMPLE, **changes: str) -> HeaderTable:
    text = OWN.format(style=style, sample=sample)
    for old, new in changes.items():
        text = text.replace(old, new)
    path = folder / "own.toml"
    path.write_text(text, encoding="utf-8")
    form = load(path)
    check_samples(form)
    found = form.families[0]
    assert isinstance(found, HeaderTable)
    return found


def head(of: HeaderTable, *lines: str) -> Header:
    """The header, and what stands under it before the first row."""
    found = of.header(lines[0])
    assert found is not None
    for line in lines[1:]:
        piece = found.part(line, True)
        assert piece is not None and not isinstance(piece, tuple)
        found = piece.header
    return found


def values(of: Header, text: str) -> dict[str, Any]:
    """What a row says, in the units of the header."""
    cells = of.part(text, True)
    assert isinstance(cells, tuple)
    shape: list[int] = []
    found: dict[str, Any] = {}
    for column, cell in zip(of.declared_columns, cells, strict=True):
        fits = [(k, got) for k, x in enumerate(column.forms) if (got := x.template.match(cell)) is not None]
        shape.append(fits[0][0] if fits else -1)
        found = (fits[0][1] if fits else {}) | found
    line = of.row(shape, text)
    assert set(line.template.names) <= set(found)
    return {n: found[n] * line.unit[n].factor if n in line.unit else found[n] for n in line.template.names}


def test_a_header_is_told_by_the_columns_it_names(tmp_path: Path) -> None:
    of = table(tmp_path)
    for text in ("Name  Total Time (us)", "  Total Time   Name ", "Name,Total Time (s)", '"Total Time","Other","Name"'):
        assert of.header(text) is not None, text
    for text in (
        "Name  Total Time (ms)  Skipped",
        "Name Total Time (ms)",
        "Names  Total Time (ms)",
        "Total Time (ms)",
        "",
    ):
        assert of.header(text) is None, text
    assert not of.lines("Total Time (ms)") and not of.lines("Name of what follows:  Total Time (ms)")


def test_a_header_is_one_line_however_wide_its_columns(tmp_path: Path) -> None:
    of = table(tmp_path)
    one, two = of.lines("   Name  Total Time (ms)"), of.lines("Name          Total Time (ms)   ")
    assert one[0].template.text == two[0].template.text == "{_:b}Name  {_:b}Total Time (ms)"
    for text in ("Name          Total Time (ms)", 'x{y},"Name","Total Time (ms)"'):
        line = of.lines(text)[0]
        assert line.opens == "section" and line.template.match(text) == {}


@pytest.mark.parametrize("unit", ["ns", "us", "µs", "ms", "s", "sec"])
def test_units_stand_in_the_names(tmp_path: Path, unit: str) -> None:
    of = head(table(tmp_path), f"Time(%)  Total Time ({unit})  Average  Num Calls  Name")
    factor = UNITS[unit].factor
    assert values(of, "50.0  1,234.5  12.5  1,000  add  two") == {
        "share": 0.5, "time": 1234.5 * factor, "calls": 1000, "name": "add  two"
    }  # fmt: skip


def test_without_a_unit_a_time_is_unknown(tmp_path: Path) -> None:
    """`units = "row"`, yet no row of units: the number says nothing."""
    assert values(head(table(tmp_path), "Name  Total Time"), "add  12.5") == {"name": "add"}
    known = table(tmp_path, **{'share = "%"': 'share = "%", time = "ns"'})
    assert values(head(known, "Name  Total Time"), "add  12.5") == {"name": "add", "time": 12.5 * 1e-9}
    assert values(head(known, "Name  Total Time (us)"), "add  12.5") == {"name": "add", "time": 12.5 * 1e-6}
    assert values(head(known, "Name  Total Time (furlongs)"), "add  12.5") == {"name": "add"}


def test_a_row_of_units(tmp_path: Path) -> None:
    of = head(table(tmp_path), '"Time(%)","Total Time","Avg","Num Calls","Name"', "%,ms,us,,")
    assert values(of, '70.5,302.5,50.2,6000,"f(int, char)"') == {
        "share": 0.705, "time": 302.5 * 1e-3, "avg": 50.2 * 1e-6, "calls": 6000, "name": "f(int, char)"
    }  # fmt: skip
    plain = head(table(tmp_path), "Name,Total Time")
    assert (
        plain.with_units("add,12.5") is None and plain.with_units(",") is None and plain.with_units("%,ms,us") is None
    )


def test_the_first_of_two_columns_of_a_field_counts(tmp_path: Path) -> None:
    of = head(table(tmp_path), "Name  Total Time (s)  Num Calls  Min Calls  Total Calls")
    assert values(of, "add  1.0  3  4  5") == {"name": "add", "time": 1.0, "calls": 3}


RULED = "Time (%)  Total Time (ns)  Av (ns)  Stream  Name", "--------  ---------------  -------  ------  ----------"


@pytest.mark.parametrize(
    ("row", "share", "name"),
    [
        ("    12.5                5      1.5       7  add", 0.125, "add"),
        ("                        5                -  at::n…  nn", None, "at::n…  nn"),
        ("    12.5                5      1.5          [ memcpy ]", 0.125, "[ memcpy ]"),
    ],
)
def test_rules_give_the_columns_in_characters(tmp_path: Path, row: str, share: float | None, name: str) -> None:
    of = head(table(tmp_path), *RULED)
    found = values(of, row)
    assert (found.get("share"), found["time"], found["name"]) == (share, 5 * 1e-9, name)


def test_a_text_in_front_may_be_wider_in_bytes(tmp_path: Path) -> None:
    of = head(table(tmp_path), "        Name  Total Time (s)  Stream", "------------  --------------  ------")
    assert values(of, "ein…ünf…vier             1.5       3") == {"name": "ein…ünf…vier", "time": 1.5}


def test_what_stands_between_the_columns_of_a_rule_is_read_by_its_gaps(tmp_path: Path) -> None:
    of = head(table(tmp_path), "Name  Total Time (s)  Stream", "----  --------------  ------")
    assert values(of, "a longer name than that  1.5  3") == {"name": "a longer name than that", "time": 1.5}
    assert of.part("a longer name  than that  1.5  3", True) == ("a longer name", "than that", "1.5  3")


def test_columns_that_begin_where_their_names_do(tmp_path: Path) -> None:
    left = table(tmp_path, '"left"', "Name     Total Time (s)  Stream\nadd      1.5             3")
    of = head(left, "Name     Total Time (s)  Num Calls")
    assert values(of, "add      1.5             3") == {"name": "add", "time": 1.5, "calls": 3}
    assert of.part("         1.5             3", True) == ("", "1.5", "3")


COLUMNS = ("Name", "Total Time (s)", "Num Calls", "Average (s)", "Other")


@examples(100)
@given(
    is_left=st.lists(st.booleans(), min_size=len(COLUMNS), max_size=len(COLUMNS)),
    rows=st.lists(
        st.lists(st.sampled_from(["", "7", "1,000", "123.5", "123456789012345678.5"]), min_size=5, max_size=5),
        min_size=1,
        max_size=6,
    ),
    framed=st.booleans(),
)
def test_a_row_that_lacks_cells_is_cut_by_the_names(
    tmp_path_factory: pytest.TempPathFactory, is_left: list[bool], rows: list[list[str]], framed: bool
) -> None:
    """Columns without a rule, each aligned with the left or the right end of its name."""
    widths = [max(map(len, column)) for column in zip(COLUMNS, *rows, strict=True)]

    def printed(cells: Iterable[str]) -> str:
        padded = zip(cells, widths, is_left, strict=True)
        text = "  ".join(cell.ljust(width) if left else cell.rjust(width) for cell, width, left in padded)
        return f"│ {text} │" if framed else text

    met = head(table(tmp_path_factory.mktemp("own")), printed(COLUMNS))
    for row in rows:
        cells = met.part(printed(row), True)
        if sum(map(bool, row)) > 1:
            assert cells == tuple(row[:4])  # the last one is not declared
        elif any(row):
            assert cells is None


def test_cells_under_no_name_are_no_row(tmp_path: Path) -> None:
    met = head(table(tmp_path), "Name       Total Time (s)  Num Calls")
    assert met.part("add" + " " * 32 + "7", True) == ("add", "", "7")
    for text in ("add    1.5", "     add           1.5", "add                     1.5", "           7"):
        assert met.part(text, True) is None, text


def test_cells_apart_by_commas(tmp_path: Path) -> None:
    of = head(table(tmp_path), 'Name,"Total Time (s)",Stream')
    assert values(of, '"f(a, ""b"")","1.5",3') == {"name": 'f(a, "b")', "time": 1.5}
    assert of.part("add,1.5", True) == ("add", "1.5", ""), "cells at the end may be missing"
    assert of.part("add,1.5,3,4", True) is None


@examples(60)
@given(
    names=st.lists(st.text("abc…é :<>(),", max_size=20).map(str.strip).filter(bool), min_size=1, max_size=6),
    data=st.data(),
)
def test_tables_as_programs_write_them_are_cut_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], data: st.DataObject
) -> None:
    """Right-aligned columns under a rule, in any order, a cell empty or not: each cell comes back."""
    of = table(tmp_path_factory.mktemp("own"))
    titles = data.draw(st.permutations(["Name", "Total Time (s)", "Num Calls", "Other"]))
    calls = st.sampled_from(["", "7", "1,000"])
    cells = [{"Name": n, "Total Time (s)": "1.5", "Num Calls": data.draw(calls), "Other": "x"} for n in names]
    widths = {t: max(len(t), *(len(row[t]) for row in cells)) for t in titles}
    lines = ["  ".join(t.rjust(widths[t]) for t in titles), "  ".join("-" * widths[t] for t in titles)]
    met = head(of, *lines)
    order = [t for t in titles if t != "Other"]
    for row in cells:
        text = "  ".join(row[t].rjust(widths[t]) for t in titles)
        assert met.part(text.rstrip(), True) == tuple(row[t] for t in order)


def test_the_example_of_the_grammar_is_right(tmp_path: Path) -> None:
    page = (ROOT / "parsers" / "README.md").read_text("utf-8")
    block = re.findall(r"```toml\n(.*?)```", page[page.index("## Tables") :], re.DOTALL)[0]
    device = '[[line]]\nname = "device"\ntext = "Device {_:d}"\nsample = "Device 0"\n'
    path = tmp_path / "own.toml"
    path.write_text(f'scopes = ["run", "section"]\n{device}{block}', encoding="utf-8")
    form = load(path)
    check_samples(form)
    found = form.families[0]
    assert isinstance(found, HeaderTable)
    header, rule, row = found.blocks[0].splitlines()
    assert values(head(found, header, rule), row) == {
        "share": 0.5, "time": 1234.5 * 1e-6, "calls": 3, "name": "void f<4>(float *)"
    }  # fmt: skip


# --- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"Name", "Total', '"Nam", "Total', "`needs` names `Nam`, which is not a column of the table"),
        ("{name:s}", "{name:d}", None),
        ("{name:s}", "{nam:s}", "string field `nam` has no column in table kernels"),
        ("{calls:,d}", "{calls:y}", "`y` is not a field type"),
        ('opens  = "section"', 'opens  = "step"', "unknown scope `step`"),
        ('units  = "row"', 'units  = "column"', "units are in a row under the header, or in its names"),
        ('share = "%"', 'shar = "%"', "`unit` names `shar`, which is not a field of the template"),
        ('"Skipped"             = []', '"Skipped" = 1', "a column is a template string, or a list of them"),
        ('"blanks"', '"blank"', "unknown style `blank`"),
        ("add    1.5", "add    fast", "no part of the table reads `add    fast`"),
        ("add    1.5", "", "no part of the table reads"),
    ],
)
def test_a_broken_table_is_one_error(tmp_path: Path, old: str, new: str, message: str | None) -> None:
    if message is None:
        table(tmp_path, sample="Name  Total Time (s)\n12  1.5", **{old: new})
        return
    with pytest.raises(FormatError) as error:
        table(tmp_path, **{old: new})
    assert message in error.value.reason and str(tmp_path / "own.toml") in error.value.where


def test_the_unit_in_the_name_of_a_column_of_strings_is_that_of_the_others() -> None:
    columns = "Name (time in us)      Mean      Rounds\n----\n"
    (mean,) = read(f"{columns}test_a[8]       1,250.0000 (1.0)      8\n".encode()).rows("values")[1:]
    assert (mean["key"], mean["value"], mean["unit"]) == ("mean", pytest.approx(0.00125), "s")
    (mean,) = read(f"{columns.replace('us', 'ms')}test_a   2.5000 (>1000.0)   8\n".encode()).rows("values")[1:]
    assert mean["value"] == pytest.approx(0.0025)


def test_a_share_beside_its_quantity_has_a_name_of_its_own() -> None:
    text = "Name       Self CUDA   Self CUDA %   Calls\n"
    text += "aten::mm     152.3ms         42.1%     258\naten::pow     12.4ms          3.4%      65\n"
    rows = {row["key"]: row["value"] for row in read(text.encode()).rows("values") if row["line"] == 2}
    assert rows["Self_CUDA"] == pytest.approx(0.1523) and rows["Self_CUDA_share"] == pytest.approx(0.421)


def test_times_of_julia_have_any_unit() -> None:
    text = " Time  (mean ± σ):   1.5 μs ± 50.0 ns  ┊ GC (mean ± σ):  0.00% ± 0.00%\n  1.5 ms (2 allocations: 8 bytes)\n"
    rows = read(f"julia> @benchmark f(x)\n{text}  0.25 seconds (1.5 k allocations: 4 MiB)\n".encode()).rows("values")
    times = {str(row["key"]): row["value"] for row in rows if row["unit"] == "s"}
    assert times == pytest.approx({"mean": 1.5e-6, "std": 5e-8, "min": 1.5e-3, "time": 0.25})


def test_each_header_of_a_known_format_has_a_string_by_which_it_is_found() -> None:
    """Without one, each unread line of each log would be tried."""
    families = (family for form in known().values() if not form.generic for family in form.families)
    tables = [family for family in families if isinstance(family, HeaderTable)]
    assert tables and not [table.name for table in tables if len(table.required_literal) < 3]
