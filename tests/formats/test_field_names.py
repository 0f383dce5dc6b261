"""Names of fields: unique ones on a line, and which columns take which numbers."""

from __future__ import annotations

import pytest

from perflog.formats.families.base import FieldNames, UniqueNames, column_of_number, fits
from perflog.formats.template import UNNAMED
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
