"""Curves of hardware counters: the readings in each of 200 periods."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.metrics_logs import by_hand, rows

from perflog.metrics import counter_curve


def reading(at: int, value: float | None, **more: Any) -> dict[str, Any]:
    return {"table": "counters", "start_ns": at, "value": value, "name": "power", "device": 0} | more


def curve(*readings: dict[str, Any]) -> list[dict[str, Any]]:
    return rows(counter_curve(by_hand("counters", readings)))


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(-9, 9)), min_size=3, max_size=30))
def test_periods_against_the_readings_one_by_one(readings: list[tuple[int, int]]) -> None:
    first, last = min(readings)[0], max(readings)[0]
    length = max(last - first, 1)
    expected: dict[int, list[tuple[int, int]]] = {}
    for line, (at, value) in enumerate(readings, 1):
        expected.setdefault((at - first) * 200 // (length + 1), []).append((line, value))
    found = curve(*(reading(at, value) for at, value in readings))
    assert [round(row["at_s"] * 1e9) for row in found] == [k * (length + 1) // 200 for k in sorted(expected)]
    for row, period in zip(found, sorted(expected), strict=True):
        values = [value for _, value in expected[period]]
        assert row["mean"] == pytest.approx(sum(values) / len(values))
        assert (row["min"], row["max"], row["readings"]) == (min(values), max(values), len(values))
        assert row["first_line"] == expected[period][0][0]
    assert max(expected) < 200


def test_each_counter_of_each_device_has_a_curve_from_three_readings_on() -> None:
    three = [reading(at, at) for at in (0, 100, 200)]
    assert len(curve(*three)) == 3 and not curve(*three[:2])
    others = [each | more for more in ({"device": 1}, {"rank": 2}, {"subject": "port 1"}, {"name": "clock"},
                                       {"device": None, "device_name": "A100"}) for each in three]  # fmt: skip
    found = curve(*others, *three, reading(300, 5, device=7))
    names = ("rank", "device", "device_name", "counter", "subject")
    assert list(dict.fromkeys(tuple(row[name] for name in names) for row in found)) == [
        (None, 1, None, "power", None), (2, 0, None, "power", None), (None, 0, None, "power", "port 1"),
        (None, 0, None, "clock", None), (None, None, "A100", "power", None), (None, 0, None, "power", None),
    ]  # fmt: skip
    assert len(found) == 18 and {row["run"] for row in found} == {"r"}


def test_each_file_has_curves_of_its_own() -> None:
    found = curve(*(reading(at, at + 10 * part, part=part) for part in (0, 1) for at in (0, 100, 200)))
    assert [row["max"] for row in found] == [0, 100, 200, 10, 110, 210]
    named = curve(reading(0, 1), reading(1, 2, device_name="A100"), reading(2, 3, subject="port"), reading(3, 4),
                  reading(4, 5))  # fmt: skip
    assert [(row["device_name"], row["subject"], row["max"]) for row in named] == [
        (None, None, 1), (None, None, 4), (None, None, 5),
    ]  # fmt: skip


def test_units_become_base_units() -> None:
    found = curve(*(reading(at, 2.0, unit="MiB") for at in (0, 1, 2)))
    assert {(row["mean"], row["min"], row["max"], row["unit"]) for row in found} == {(2.0 * 2**20,) * 3 + ("B",)}
    assert {row["unit"] for row in curve(*(reading(at, 2.0, unit="parrots") for at in (0, 1, 2)))} == {"parrots"}
    assert {row["unit"] for row in curve(*(reading(at, 2.0) for at in (0, 1, 2)))} == {None}


@pytest.mark.parametrize("more", [{"correlation": 5}, {"calls": 2}, {"start_ns": None}, {"value": None}])
def test_what_is_no_reading_over_time(more: dict[str, Any]) -> None:
    three = [reading(at, at) for at in (0, 100, 200)]
    assert [row["max"] for row in curve(*three, reading(50, 9) | more)] == [0, 100, 200]
    assert not curve(*(each | more for each in three))


def test_readings_of_one_moment_are_one_period() -> None:
    (row,) = curve(*(reading(7, value) for value in (1, 2, 6)))
    assert (row["at_s"], row["mean"], row["readings"]) == (0.0, 3.0, 3)
