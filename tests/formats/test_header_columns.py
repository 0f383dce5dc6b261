"""Columns of printed tables: which names are a header, and which declared column a name belongs to."""

from __future__ import annotations

import pytest

from perflog.formats.families.base import KEY_FIELD
from perflog.formats.families.cell_forms import CellForm
from perflog.formats.families.header_columns import DeclaredColumn, has_needs, is_header, match_names, names_percentiles
from perflog.formats.model import Line
from perflog.formats.template import Template


def column(name: str, *forms: str, **more: frozenset[str]) -> DeclaredColumn:
    return DeclaredColumn(name, tuple(CellForm(Template(form)) for form in forms), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("names", "are_names"),
    [
        (["m", "n"], True), (["", "m", "n"], True), (["", "", "m", "n"], True), (["m"], False), ([], False),
        (["m", "m"], False), (["m", ""], False), (["m", "1.5"], False), (["m", "a: b"], False), (["m", "a:"], False),
        (["m", "b=2"], False), (["m", "done."], False), (["m", "12:30"], False), (["m", "(M", "N)"], False),
        (["m", "Box(P"], True), (["m", "n" * 80], True), (["m", "n" * 81], False),
    ],
)  # fmt: skip
def test_names_of_columns_are_words_and_none_twice(names: list[str], are_names: bool) -> None:
    assert is_header(names, []) is are_names
    assert is_header(names, [], is_proved=True)


def test_a_header_has_the_columns_that_its_table_needs() -> None:
    assert is_header(["Size (B)", "n"], ["size"]) and is_header(["m", "n"], ["q|n", "m"])
    assert not is_header(["m", "n"], ["q"]) and not is_header(["m", "n"], ["q"], is_proved=True)
    assert has_needs(["a", "b"], ["a", "c|b"]) and has_needs([], []) and not has_needs(["a"], ["b|c"])


def test_a_column_of_quantities_beside_percentiles() -> None:
    assert names_percentiles(["Metric", "50%", "99%"]) and names_percentiles(["KPIs", "99.9%", "1%"])
    others: list[list[str]] = [["x", "50%", "99%"], ["Metric", "50%"], ["Metric", "50%", "avg"], []]
    assert not any(map(names_percentiles, others))


@pytest.mark.parametrize(
    ("name", "named", "others", "longest"),
    [
        ("time ({unit})", ["time", "time (ms)", "time(ms)"], ["times", "time (ms) x"], "time"),
        ("*_time", ["a_time", "_time"], ["time"], "_time"),
        ("a*bc", ["abc", "axbc"], ["axb"], "bc"),
        ("Name (in {unit})", ["Name (in ms)"], ["Name", "Name (in )"], "Name (in "),
        ("a.b", ["a.b"], ["axb"], "a.b"),
    ],
)
def test_the_name_of_a_column_may_have_a_star_and_a_unit(
    name: str, named: list[str], others: list[str], longest: str
) -> None:
    declared = column(name, "{t:f}")
    assert all(map(declared.is_named, named)) and not any(map(declared.is_named, others))
    assert declared.longest == longest
    assert declared.may_have_unit is name.endswith(" ({unit})") and declared.has_unit_of_others is ("(in" in name)


def test_a_column_may_have_other_names_or_that_of_the_header() -> None:
    assert column("x", "{x:f}", names=frozenset("ab")).is_named("a")
    assert not column("x", "{x:f}", names=frozenset("ab")).is_named("x")
    assert column("*", f"{{{KEY_FIELD}:f}}").is_named_by_header and column("*").is_cell and not column("x").is_cell
    assert column("t", "{_:d} {t:f} {a:f}", f"{{{KEY_FIELD}:f}}").declared_fields == {"t", "a"}


def test_a_time_of_day_is_a_duration_only_below_a_name_of_one() -> None:
    declared = column("*", f"{{{KEY_FIELD}:h}}", f"{{{KEY_FIELD}:w}}")
    texts = {
        name: [form.template.text for form in declared.with_name("x", name, {}).forms] for name in ("Elapsed", "at")
    }
    assert texts == {"Elapsed": ["{x:h}", "{x:w}"], "at": ["{x:w}"]}


def test_a_printed_name_belongs_to_the_first_column_that_fits() -> None:
    first, second, named = column("time ({unit})", "{t:f}"), column("time*", "{u:f}"), column("*", f"{{{KEY_FIELD}:f}}")
    line = Line("own", Template(""), table="values")
    found = match_names(["time (ms)", "times", "loss", "loss %"], [first, second, named], line)
    assert [(each.name, unit) for each, unit in found if each is not None] == [
        ("time ({unit})", "ms"), ("time*", ""), ("*", ""), ("*", "")
    ]  # fmt: skip
    assert found[2][0] is not None and [form.template.text for form in found[2][0].forms] == ["{loss:f}"]
    assert match_names(["x"], [first], line) == [(None, "")]
