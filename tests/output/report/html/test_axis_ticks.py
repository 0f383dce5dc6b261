"""Ticks of an axis: which places they have, and how these are written."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.output.report.html.axis_ticks import dates_between, round_numbers, ticks_of
from perflog.plots.drawing.sketch import Axis

DAY = 86_400.0


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def ticks(ends: tuple[float, float], **fields: Any) -> list[tuple[Any, str]]:
    axis = Axis("x")
    for name, value in fields.items():
        setattr(axis, name, value)
    return [(pytest.approx(place), name) for place, name in ticks_of(axis, ends)]


@pytest.mark.parametrize(
    ("low", "high", "whole", "places"),
    [
        (0, 10, False, [0, 2, 4, 6, 8, 10]),
        (0, 6, False, [0, 1, 2, 3, 4, 5, 6]),
        (0, 6.5, False, [0, 2, 4, 6]),
        (0.3, 2.6, False, [0.5, 1.0, 1.5, 2.0, 2.5]),
        (0, 60, False, [0, 10, 20, 30, 40, 50, 60]),
        (-3, 3, False, [-3, -2, -1, 0, 1, 2, 3]),
        (0, 2, False, [0, 0.5, 1, 1.5, 2]),
        (0, 2, True, [0, 1, 2]),
        (0, 0.03, False, [0, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03]),
    ],
)
def test_round_numbers(low: float, high: float, whole: bool, places: list[float]) -> None:
    assert round_numbers(low, high, whole) == pytest.approx(places)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_ticks_are_few_round_and_inside(low: float, size: float) -> None:
    high = low + size
    places = round_numbers(low, high)
    assert 2 <= len(places) <= 7
    assert all(low - size * 1e-6 <= place <= high + size * 1e-6 for place in places)
    assert np.diff(places) == pytest.approx(places[1] - places[0], rel=1e-3)


@pytest.mark.parametrize(
    ("low", "high", "dates"),
    [
        ("2026-01-01 10:00:30", "2026-01-01 10:06", [f"2026-01-01 10:0{minute}" for minute in range(1, 7)]),
        ("2026-01-01 10:00", "2026-01-01 10:06:01", ["2026-01-01 10:00"]),
        ("2026-01-01 10:05", "2026-01-01 10:45", [f"2026-01-01 10:{minute}" for minute in (10, 20, 30, 40)]),
        ("2026-01-01 10:05", "2026-01-01 13:45", [f"2026-01-01 {hour}:00" for hour in (11, 12, 13)]),
        ("2026-01-01 10:05", "2026-01-02 04:45", ["2026-01-01 12:00", "2026-01-01 18:00", "2026-01-02"]),
        ("2025-12-30 12:00", "2026-01-03", ["2025-12-31", "2026-01-01", "2026-01-02", "2026-01-03"]),
        ("2026-01-01", "2026-01-09", [f"2026-01-0{day}" for day in (1, 3, 5, 7, 9)]),
        ("2026-01-01", "2026-01-26", [f"2026-01-{day}" for day in ("02", "07", "12", "17", "22")]),
        ("2026-01-01", "2026-02-20", ["2026-01-07", "2026-01-17", "2026-01-27", "2026-02-06", "2026-02-16"]),
        ("2025-11-15", "2026-03-02", ["2025-12-01", "2026-01-01", "2026-02-01", "2026-03-01"]),
        ("2025-01-15", "2026-01-02", [f"2025-{month:02}-01" for month in (3, 5, 7, 9, 11)] + ["2026-01-01"]),
        ("2025-01-15", "2026-03-15", ["2025-04-01", "2025-07-01", "2025-10-01", "2026-01-01"]),
        ("2020-02-01", "2025-12-01", [f"{year}-01-01" for year in range(2021, 2026)]),
        ("2020-02-01", "2026-06-01", [f"{year}-01-01" for year in (2022, 2024, 2026)]),
    ],
)
def test_dates(low: str, high: str, dates: list[str]) -> None:
    """Whole minutes, hours or days; of several months their beginnings."""
    assert dates_between(at(low), at(high)) == [at(date) for date in dates]


@given(st.floats(3e8, 4e9), st.floats(1, 3e8))
def test_dates_on_an_axis_are_few_and_inside(low: float, span: float) -> None:
    places = dates_between(low, low + span)
    assert len(places) <= 8 and all(low <= place <= low + span for place in places)
    assert all(place % 60 == 0 for place in places)
    assert places or span < 20 * 366 * DAY


def test_dates_of_more_than_two_days_have_no_time_of_day() -> None:
    begin = at("2026-01-01")
    of_two, of_three = (ticks((begin, begin + days * DAY), dates=True) for days in (2, 3))
    assert [name for _, name in of_two] == ["01-01 00:00", "01-02 00:00", "01-03 00:00"]
    assert [name for _, name in of_three] == ["2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04"]


@pytest.mark.parametrize(
    ("ends", "base", "places"),
    [
        ((1, 1000), 10, [1, 10, 100, 1000]),
        ((2, 64), 2, [2, 4, 8, 16, 32, 64]),
        ((1, 64), 2, [1, 4, 16, 64]),  # every second one
        ((5, 7), 2, []),
        ((3, 7), 2, [4]),
        ((2, 50), 10, [2, 3, 5, 10, 20, 30, 50]),  # one power alone is no scale
        ((20, 60), 10, [20, 30, 50]),
    ],
)
def test_powers_on_a_logarithmic_axis(ends: tuple[float, float], base: float, places: list[float]) -> None:
    assert [place for place, _ in ticks(ends, base=base)] == places


def test_places_that_a_plot_asks_for() -> None:
    """Those inside of the axis, whose ends may come in either order."""
    places = np.array([0.0, 1.0, 2.0, 3.0])
    assert ticks((2, 1), places=places) == [(1.0, "1"), (2.0, "2")]
    assert ticks((1, 3), places=places, names=list("abcd")) == [(1.0, "b"), (2.0, "c"), (3.0, "d")]


@pytest.mark.parametrize(
    ("ends", "names"),
    [
        ((0, 2), ["0", "0.5", "1", "1.5", "2"]),
        ((0, 4000), ["0", "1,000", "2,000", "3,000", "4,000"]),
        ((0, 2e6), ["0", "5e+05", "1e+06", "1.5e+06", "2e+06"]),
        ((0, 999_000), ["0", "200,000", "400,000", "600,000", "800,000"]),
        ((0, 2e-4), ["0", "5e-05", "0.0001", "0.00015", "0.0002"]),
        ((-0.3, 0.3), ["-0.3", "-0.2", "-0.1", "0", "0.1", "0.2", "0.3"]),  # 0 is no rest of a sum
        ((-2e6, 0), ["-2e+06", "-1.5e+06", "-1e+06", "-5e+05", "0"]),
    ],
)
def test_numbers_of_an_axis(ends: tuple[float, float], names: list[str]) -> None:
    assert [name for _, name in ticks(ends)] == names


def test_a_plot_writes_its_numbers() -> None:
    assert [name for _, name in ticks((0, 2), format="{:.0%}".format, integer=True)] == ["0%", "100%", "200%"]
