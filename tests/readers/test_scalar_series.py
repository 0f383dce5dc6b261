"""Scalars that a program logs by step become rows of values, and of steps where their names are known."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from perflog.readers.events.event_table import EventOrigin
from perflog.readers.trackers.scalar_series import Scalar, _column, _columns, step_rows, value_rows

ORIGIN = EventOrigin("run", 0, 3, "file")


def scalars(*logged: tuple[str, int | None, Any, float | None]) -> list[Scalar]:
    return [Scalar(place, step, key, value, elapsed) for place, (key, step, value, elapsed) in enumerate(logged, 1)]


def rows(*logged: tuple[str, int | None, Any, float | None], began: float | None = None) -> list[dict[str, Any]]:
    return step_rows(ORIGIN, scalars(*logged), began)


def test_each_scalar_is_a_value() -> None:
    found = value_rows(ORIGIN, scalars(("loss", 1, 2.5, 0.5), ("note", None, "x", None)))
    assert [(r["key"], r.get("value"), r.get("text"), r["step"], r["elapsed_s"], r["line"]) for r in found] == [
        ("loss", 2.5, None, 1, 0.5, 1),
        ("note", None, "x", None, None, 2),
    ]
    assert {(r["run"], r["rank"], r["rank_by"]) for r in found} == {("run", 3, "file")}


def test_a_row_for_each_step_of_the_series_that_leads() -> None:
    """The loss leads, whatever has more numbers; others join the row of their step."""
    found = rows(
        ("lr", 1, 0.5, 1.0), ("loss", 1, 2.5, 1.0), ("lr", 2, 0.25, 2.0), ("lr", 3, 0.125, 3.0), ("loss", 3, 1.5, 3.0)
    )
    assert [(r["step"], r["loss"], r["learning_rate"], r["copy"]) for r in found] == [
        (1, 2.5, 0.5, 1),
        (3, 1.5, 0.125, 1),
    ]


def test_step_times_are_differences() -> None:
    found = rows(
        ("loss", 10, 2.5, 1.0),
        ("loss", 20, 2.0, 6.0),
        ("loss", 30, 1.5, None),
        ("loss", 30, 1.5, 9.0),
        ("loss", 25, 1.0, 10.0),
    )
    assert [(r.get("step_time_s"), r["steps_averaged"], r.get("step_time_from")) for r in found] == [
        (None, None, None),
        (0.5, 10, 1),
        (None, None, None),  # not timed
        (None, None, None),  # nor the one before
        (None, None, None),  # the counter went back
    ]
    assert found[1]["step_time_by"] == "clock"
    assert rows(("loss", 1, 2.5, 5.0), ("loss", 2, 2.0, 4.0))[1].get("step_time_s") is None  # the clock went back


def test_a_printed_step_time_is_kept() -> None:
    found = rows(
        ("loss", 1, 2.5, 1.0), ("loss", 2, 2.0, 9.0), ("step_time_ms", 1, 250.0, 1.0), ("step_time_ms", 2, 500.0, 9.0)
    )
    assert [(r["step_time_s"], r.get("step_time_by")) for r in found] == [(pytest.approx(0.25), None), (0.5, None)]


def test_a_step_that_is_logged_twice_has_two_rows() -> None:
    found = rows(("loss", 1, 2.5, 1.0), ("loss", 1, 2.0, 2.0), ("lr", 1, 0.5, 2.0))
    assert [(r["step"], r["copy"], r["loss"], r.get("learning_rate")) for r in found] == [
        (1, 1, 2.5, 0.5),
        (1, 2, 2.0, None),
    ]


def test_other_data_leads_no_steps() -> None:
    found = rows(*[("val/loss", k, 9.0, None) for k in range(5)], ("train/loss", 1, 2.5, None))
    assert [(r["step"], r["loss"]) for r in found] == [(1, 2.5)]


def test_of_several_names_of_a_column_the_longest_series_fills_it() -> None:
    found = rows(("loss", 1, 2.5, None), ("train/loss", 1, 7.5, None), ("train/loss", 2, 6.5, None))
    assert [(r["step"], r["loss"]) for r in found] == [(1, 7.5), (2, 6.5)]


def test_without_known_names_the_longest_series_leads() -> None:
    found = rows(("odd", 1, 2.5, 1.0), ("strange", 1, 1.0, 1.0), ("strange", 2, 1.0, 3.0))
    assert [(r["step"], r.get("step_time_s")) for r in found] == [(1, None), (2, 2.0)]
    assert rows(("note", 1, "x", None), ("odd", None, 2.5, None)) == []


@pytest.mark.parametrize(
    ("key", "column"),
    [
        ("loss", ("loss", 1.0)),
        ("train/loss", ("loss", 1.0)),
        ("step_time (ms)", ("step_time_s", 1e-3)),
        ("step_time (MB)", None),  # in a unit of something else
        ("odd", None),
        ("epoch", None),
    ],
)
def test_the_column_of_a_series(key: str, column: tuple[str, float] | None) -> None:
    assert _column(key) == column


def test_times_of_the_calendar_need_the_start_of_the_run() -> None:
    assert [r["printed_ns"] for r in rows(("loss", 1, 2.5, 1.5), began=100.0)] == [101_500_000_000]
    assert "printed_ns" not in rows(("loss", 1, 2.5, 1.5))[0]
    assert rows(("loss", 1, 2.5, 1e300), began=100.0)[0]["printed_ns"] is None


def test_of_several_series_for_a_column_the_longest_fills_it() -> None:
    """Of equals the one with the shortest name."""
    assert _columns(Counter({"loss": 9, "train/loss": 5})) == {"loss": ("loss", 1.0)}
    assert _columns(Counter({"loss": 5, "train/loss": 9})) == {"train/loss": ("loss", 1.0)}
    assert _columns(Counter({"train/loss": 9, "loss": 9})) == {"loss": ("loss", 1.0)}
    assert _columns(Counter({"no such column": 9})) == {}
