"""Metrics over versions: dots, levels, marks and changes are those of the rows."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from support.drawings import xs, ys
from support.plotted_logs import by_gid

from perflog.plots.benchmarks import history as module


def versions(*values: float, **more: Any) -> pd.DataFrame:
    """Rows of the metric: the step times of versions v0, v1 and so on, of one level each three."""
    usual = {
        "history": "nightly", "figure": "step_time_s", "unit": "s", "at": None, "stands_out": None, "change": None,
        "cause": None, "level": [k // 3 for k in range(len(values))],
    }  # fmt: skip
    names = [f"v{k}" for k in range(len(values))]
    rows = pd.DataFrame({"version": names, "value": values}).assign(**usual)
    rows["level_value"] = rows.groupby("level")["value"].transform("mean")
    return rows.assign(**more)


def drawn(rows: pd.DataFrame) -> tuple[Any, dict[str, Any]]:
    axes, handles = Figure().subplots(), dict[str, Any]()
    module._draw(axes, rows, handles)
    return axes, handles


def test_each_version_is_a_dot_and_each_level_a_line() -> None:
    axes, handles = drawn(versions(1.0, 1.2, 1.1, 2.0, 2.2, 2.1))
    (dots,) = by_gid(axes, "version")
    assert (list(xs(dots)), list(ys(dots))) == ([0, 1, 2, 3, 4, 5], [1.0, 1.2, 1.1, 2.0, 2.2, 2.1])
    levels = by_gid(axes, "level")
    assert [list(xs(line)) for line in levels] == [[0, 2], [3, 5]]
    assert [height for line in levels for height in ys(line)] == pytest.approx([1.1, 1.1, 2.1, 2.1])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("version", "step time (s)")
    assert [label.get_text() for label in axes.get_xticklabels()] == [f"v{k}" for k in range(6)]
    assert set(handles) == {"version", "level"}


def test_outliers_and_an_unconfirmed_version_are_marked() -> None:
    axes, handles = drawn(versions(1.0, 5.0, 1.0, 1.0, 2.0, stands_out=[None, "outlier", None, None, "not confirmed"]))
    assert [list(xs(line)) for line in by_gid(axes, "outlier")] == [[1]]
    assert [list(ys(line)) for line in by_gid(axes, "not confirmed")] == [[2.0]]
    assert set(handles) == {"version", "level", "outlier", "not confirmed"}


def test_a_change_is_written_where_its_level_begins() -> None:
    """Dotted if the machine changed with it."""
    changes = [None, None, None, 0.5, None, None, -0.2]
    causes = [None, None, None, "program", None, None, "machine and program"]
    axes, handles = drawn(versions(1, 1, 1, 1.5, 1.5, 1.5, 1.2, change=changes, cause=causes))
    assert [(text.get_text(), text.xy) for text in axes.texts] == [
        ("+50.0 %", (3, pytest.approx(1.5))), ("-20.0 % (machine)", (6, pytest.approx(1.2)))
    ]  # fmt: skip
    assert [list(xs(line)) for line in by_gid(axes, "machine")] == [[6, 6]] and "machine" in handles


def test_the_axis_covers_a_tenth_of_the_largest_value_at_least() -> None:
    """Values that differ little must not look different."""
    for values, limits in (((10.0, 10.0), (9.5, 11.0)), ((9.9, 10.0), (9.45, 10.9)), ((5.0, 10.0), (4.75, 10.5))):
        assert drawn(versions(*values))[0].get_ylim() == pytest.approx(limits)


@pytest.mark.parametrize(
    ("dates", "are_shown"),
    [
        (["2026-01-01", "2026-01-03T12:00"], True), (["2026-01-01", None], False), (["2026-01-01", "soon"], False),
        (["2026-01-01", "2026-01-01"], False),
    ],
)  # fmt: skip
def test_versions_are_over_their_dates_if_all_have_one(dates: list[str | None], are_shown: bool) -> None:
    axes = Figure().subplots()
    places = module._places(axes, versions(1.0, 2.0, at=dates))
    if are_shown:
        assert places.tolist() == [datetime(2026, 1, 1), datetime(2026, 1, 3, 12)]  # noqa: DTZ001
    else:
        assert places.tolist() == [0, 1]
    assert axes.get_xlabel() == ("date of the version" if are_shown else "version")


def test_of_many_versions_eight_are_named() -> None:
    axes = Figure().subplots()
    module._places(axes, versions(*np.ones(50)))
    assert list(axes.get_xticks()) == [0, 7, 14, 21, 28, 35, 42, 49]
