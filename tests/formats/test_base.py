"""What families share: unique names of fields on a line, which columns take which numbers, reasons."""

from __future__ import annotations

import pytest

from perflog.formats.families.base import (
    FieldNames,
    UniqueNames,
    column_of_number,
    counted,
    fits,
    look_up,
    reasons,
)
from perflog.formats.template import DECLARED_DROPPED, UNNAMED
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
