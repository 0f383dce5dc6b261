"""What families share: unique names of fields on a line, which columns take which numbers, reasons."""

from __future__ import annotations

from typing import Any

import pytest

from perflog.formats.expressions import Expression
from perflog.formats.families.base import (
    FamilyShape,
    FieldNames,
    UniqueNames,
    ValueForm,
    column_of_number,
    counted,
    fits,
    look_up,
    reasons,
    spec_of,
)
from perflog.formats.model import MIN_LETTERS, Line
from perflog.formats.template import DECLARED_DROPPED, UNNAMED, Template
from perflog.units import UNITS


def test_equal_names_are_numbered() -> None:
    names = UniqueNames(["loss_2"])
    assert [names.take("loss") for _ in range(3)] == ["loss", "loss_3", "loss_4"]
    assert names.is_taken("loss_2")
    assert not names.is_taken("loss_5")


def test_many_equal_names_take_linear_time() -> None:
    names = UniqueNames()
    assert [names.take("x") for _ in range(20_000)][-1] == "x_20000"  # minutes, if each began to count at 2


def test_dropped_fields_share_their_name() -> None:
    names = FieldNames("values")
    assert [names.declared(UNNAMED), names.declared(UNNAMED), names.declared("a"), names.declared("a")] == [
        UNNAMED,
        UNNAMED,
        "a",
        "a_2",
    ]


@pytest.mark.parametrize(
    ("field", "unit", "is_taken"),
    [
        ("step_time", "ms", True),
        ("step_time", "", False),
        ("step_time", "GB", False),
        ("loss", "", True),
        ("loss", "ms", False),
        ("printed", "", True),  # a date
        ("no_column", "", True),
        ("no_column", "ms", False),
    ],
)
def test_a_column_takes_numbers_in_its_unit(field: str, unit: str, is_taken: bool) -> None:
    assert fits(column_of_number("steps", field), UNITS.get(unit)) == is_taken


def test_a_declared_unit_is_for_numbers_without_one() -> None:
    column = column_of_number("steps", "step_time")
    assert fits(column, None, UNITS["ms"])
    assert not fits(column, UNITS["GB"], UNITS["ms"])
    assert fits(None, None, UNITS["kWh"])
    assert not fits(None, UNITS["kWh"], UNITS["kWh"])


def test_settings_fill_no_column() -> None:
    assert column_of_number("runs", "world_size") is None
    assert column_of_number(None, "loss") is None


def test_a_whole_number_keeps_its_zeros() -> None:
    assert [counted("n", digits) for digits in ("7", "0", "07", "007", "10")] == [
        "{n:d}", "{n:d}", "{n:02d}", "{n:03d}", "{n:d}"
    ]  # fmt: skip


def test_the_own_entry_of_a_key_comes_before_the_first_glob_that_fits() -> None:
    rows = {"a": 1, "b*": 2, "*": 3, "bc": 4}
    assert [look_up(rows, key) for key in ("a", "bd", "bc", "d")] == [("a", 1), ("b*", 2), ("bc", 4), ("*", 3)]
    assert look_up({"a": 1, "b*": 2}, "ab") is None


def test_a_name_from_a_key_begins_with_no_digit() -> None:
    names = FieldNames("values")
    assert [names.from_key(key) for key in ("3d loss", "loss", "loss", "%")] == ["_3d_loss", "loss", "loss_2", "key_2"]


def test_a_name_from_a_key_fills_only_a_column_of_numbers_without_a_unit() -> None:
    names = FieldNames("steps")
    assert [names.from_key(key) for key in ("loss", "step_time_s", "rank")] == ["loss", "step_time_s_2", "rank_2"]
    assert [FieldNames("values").from_key(key) for key in ("unit", "value")] == ["unit_2", "value_2"]


def test_reasons_of_all_dropped_fields() -> None:
    assert reasons({}) == {}
    assert reasons({"a": "x", "b": "x", "c": "y"}) == {DECLARED_DROPPED: "x; y"}
    assert reasons({"*": "all"}) == {DECLARED_DROPPED: "all", UNNAMED: "all"}


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("2.50", ".2f"),
        ("3", ".0f"),
        ("1,234.5", ",.1f"),
        ("2.5e-05", ".1e"),
        ("2.5E-05", ".1E"),
        (".5", "r"),
        ("nan", "r"),
    ],
)
def test_the_spec_of_a_number_prints_it_again(text: str, spec: str) -> None:
    assert spec_of(text) == spec


def test_a_path_of_several_keys_is_the_name_that_is_shown() -> None:
    names = FieldNames("values")
    assert [names.from_path(path) for path in ("a.b", "loads[3]", "step", "3x", "$")] == [
        "a_b", "loads_3", "step_2", "key_3x", "key_2"
    ]  # fmt: skip
    assert names.paths == {"a_b": "a.b", "loads_3": "loads[3]", "step_2": "step", "key_3x": "3x", "key_2": "key"}


def test_a_path_of_one_key_fills_the_column_of_that_name() -> None:
    names = FieldNames("steps")
    assert [names.from_path(path) for path in ("loss", "a.loss", "grad_norm")] == ["loss", "a_loss", "grad_norm"]
    assert names.paths == {"a_loss": "a.loss"} and names.from_keys == {"loss", "grad_norm"}


def test_numbers_of_phases_are_times() -> None:
    names = FieldNames("steps")
    names.phases |= {"a", "b"}
    assert names.phases_of(Template("{a:f} {b:s} {c:f}")) == {"a"}


# --- forms of values --------------------------------------------------------------------------------------------------


def test_a_form_of_a_value_names_its_fields_after_the_key() -> None:
    def named(text: str, key: str = "loss") -> str:
        return ValueForm.of(text).template_text(FieldNames("values"), key)

    assert named("{*:f}") == "{loss:f}"
    assert named("{*.0:f}/{*.1:f}") == "{loss_0:f}/{loss_1:f}"
    assert named("{test_*:f} {*_mean:f}") == "{test_loss:f} {loss_mean:f}"
    assert named("{own:f} {_:d}") == "{own:f} {_:d}"
    assert ValueForm.of("{*:f} {_:d}").template_text(FieldNames("values"), "x", "__") == "{x:f} {__:d}"


def test_the_declared_fields_of_a_form() -> None:
    assert [field.name for field in ValueForm.of("{*:f} {own:d} {_:d}").fields] == ["own"]


def test_a_form_between_strings_and_with_blanks_before_it() -> None:
    form = ValueForm.of("{*:d}")
    assert form.between("{", "}").template.text.startswith("{{{") and not form.between("a", "b").has_texts
    more = form.followed_by(" {_:s}")
    assert more.has_texts and more.between("(", ")").has_texts and more.fits("3 x") and not form.fits("3 x")
    assert form.fits("3") and form.fits("3", 2) and not form.fits("x", 2)


# --- what lines of a family share -------------------------------------------------------------------------------------


def shape_of(*heads: str, tail: str = "", table: str | None = "steps", **more: Any) -> FamilyShape:
    line = Line("own", Template(""), table=table, **more.pop("line", {}))
    return FamilyShape(line, tuple(map(Template, heads)), Template(tail), **more)


def test_the_begin_of_a_family_is_its_first_head() -> None:
    heads = ("train {step:d} ", "val {step:d} ", "test ")
    begins = [shape_of(*heads[:count]).begins for count in (1, 2, 3)]
    more = ("", " (or 1 other head)", " (or 2 other heads)")
    assert begins == [heads[0] + text for text in more]


def test_the_literal_of_a_family_is_in_all_its_lines() -> None:
    assert shape_of("train {step:d} ").required_literal == b"train"
    assert shape_of("own train {step:d} ", "train {x:d} ").required_literal == b"train"
    assert shape_of("a {x:d}", "b {x:d}").required_literal == b""
    assert shape_of("a {x:d}", "b {x:d}", tail=" of all").required_literal == b"of all"


def test_the_letters_of_a_family_are_those_of_its_shortest_head() -> None:
    shape = shape_of("train {step:d} ", "val {step:d} ")
    assert shape.letters == 3
    assert not shape.proves_format(MIN_LETTERS - 4) and shape.proves_format(MIN_LETTERS - 3)
    telling = [shape_of("x", line={"telling": telling}).proves_format(0) for telling in (True, False)]
    assert telling == [True, False]


def test_known_heads_are_openings() -> None:
    assert [opening.literal for opening in shape_of("val {x:d} ", "train {x:d} ").openings] == [b"train"]
    assert shape_of("train ", tail=" end").end.search(b"x end") and not shape_of("t", tail=" end").end.search(b"end x")


def test_which_values_of_a_family_are_rows() -> None:
    rows = {
        table: (shape_of("x", table=table).text_rows, shape_of("x", table=table).number_rows)
        for table in ("values", "steps", "summaries", "phases", None)
    }
    assert rows == {
        "values": (True, True), "steps": (True, True), "summaries": (False, True), "phases": (False, False),
        None: (False, False),
    }  # fmt: skip


def test_a_line_has_the_units_of_its_fields() -> None:
    shape = shape_of("x", units={"t": UNITS["ms"], "*_time": UNITS["s"], "size": UNITS["B"], "none": UNITS["B"]})
    line = shape.line_of(Template("{t:f} {io_time:f} {other_time:f} {size:q} {none:s}"), ["io_time"])
    assert line.unit == {"t": UNITS["ms"], "io_time": UNITS["s"], "size": UNITS["B"]}  # `other_time` is declared
    paths = shape_of("x", units={"a.b": UNITS["ms"], "*.c": UNITS["s"]})
    line = paths.line_of(Template("{a_b:f} {x_c:f}"), [], {"a_b": "a.b", "x_c": "x.c"})
    assert line.unit == {"x_c": UNITS["s"]}  # of a path by a glob alone
    named = shape.line_of(Template("{t:f} {x:f}"), [], named_units={"t": UNITS["s"], "x": UNITS["us"], "y": UNITS["s"]})
    assert named.unit == {"t": UNITS["ms"], "x": UNITS["us"]}  # a declared unit comes first


def test_a_line_leaves_out_what_is_declared_of_other_fields() -> None:
    declared = {
        "run": ("a", "b"), "unknown": {"a": -1.0, "c": 0.0}, "check": ("c", Expression("a + b")),
        "compute": {"sum": Expression("a + b"), "all": Expression("a + c")},
    }  # fmt: skip
    line = shape_of("x", line=declared, dropped={"d": "why"}).line_of(Template("{b:d} {a:d} {s:s}"), [], settings=["s"])
    assert (line.run, line.unknown, line.check, [*line.compute]) == (("b", "a", "s"), {"a": -1.0}, None, ["sum"])
    assert line.dropped == {DECLARED_DROPPED: "why"} and line.samples == ()


def test_a_line_after_a_prefix() -> None:
    shape, names = shape_of("x"), FieldNames("steps")
    line = shape.line_after(b"10:00:00 loss 2.5", 9, "loss {loss:f}", names, {"loss": UNITS["ms"]})
    assert line is not None and line.template.text == "{_:p}loss {loss:f}" and line.unit == {"loss": UNITS["ms"]}
    assert shape.line_after(b"loss x", 0, "loss {loss:f}", names, {}) is None
    assert shape.dropped_field("a") == UNNAMED
    assert shape_of("x", dropped={"a*": "why"}).dropped_field("ab") == DECLARED_DROPPED
