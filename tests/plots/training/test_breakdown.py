"""Bars of the parts of a step."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from support.drawings import bars
from support.plotted_logs import MS, by_gid, figure, panels, tables

from perflog import metrics
from perflog.metrics.step_time.breakdown import UNTIMED
from perflog.plots.training import breakdown as module


def test_bars_of_the_breakdown_end_at_the_step() -> None:
    """Each bar is as long as its run's mean step; a part is as long as in the metric."""
    table = metrics.breakdown(tables("moe_layer"))
    (axes,) = panels(figure("moe_layer", "breakdown"))
    ends: dict[int, float] = {}
    for bar in axes.patches:
        assert isinstance(bar, Rectangle)
        place = round(bar.get_y() + bar.get_height() / 2)
        ends[place] = max(ends.get(place, 0.0), bar.get_x() + bar.get_width())
    wholes = table.groupby("run", sort=False)["whole_s"].first() * MS
    assert [ends[i] for i in range(4)] == pytest.approx(wholes.tolist(), rel=1e-9)
    waits = table[table["part"] == "wait"]["time_s"] * MS
    assert [bar.get_width() for bar in by_gid(axes, "wait")] == pytest.approx(waits.tolist(), rel=1e-9)


def parts(**times: list[float]) -> pd.DataFrame:
    """Rows of the metric: the times of a part in runs `a`, `b` and so on."""
    rows = [("abc"[k], name, time) for name, of in times.items() for k, time in enumerate(of) if time == time]
    return pd.DataFrame(rows, columns=["run", "name", "time_s"])


def test_the_largest_parts_come_first_and_small_ones_together() -> None:
    """A run without a part has 0 of it; equal parts are in the order of their names."""
    found = module._times(parts(x=[1.0, 5.0], z=[math.nan, 9.0], y=[1.0, 1.0]))
    assert (list(found.columns), list(found.index)) == (["z", "x", "y"], ["a", "b"])
    assert found.to_numpy().tolist() == [[0.0, 1.0, 1.0], [9.0, 5.0, 1.0]]
    most = module._MAX_PARTS
    for number in (most + 1, most + 2):
        found = module._times(parts(**{f"p{k:02}": [float(100 - k)] for k in range(number)}))
        assert len(found.columns) == most + 1
    assert list(found.columns)[-2:] == [f"p{most - 1:02}", module._OTHERS]
    assert found.to_numpy()[0, -1] == sum(100 - k for k in range(most, most + 2))


def test_bars_have_no_part_below_zero_and_untimed_parts_last() -> None:
    axes = Figure().subplots()
    times = pd.DataFrame({f"{UNTIMED} in forward": [0.02], "forward": [0.03], "odd": [-0.01]}, index=["a"])
    fills = dict.fromkeys(times.columns, ("k", ""))
    handles = module._draw_bars(axes, times, fills, ["a"], "step time")
    drawn = [(bar.get_gid(), bar.get_x(), bar.get_width()) for bar in bars(axes)]
    expected = [("forward", 0.0, 30.0), ("odd", 30.0, 0.0), (f"{UNTIMED} in forward", 30.0, 20.0)]
    assert [name for name, *_ in drawn] == [name for name, *_ in expected] == list(handles)
    for (_, *place), (_, *wanted) in zip(drawn, expected, strict=True):
        assert place == pytest.approx(wanted)
    assert axes.get_xlim() == pytest.approx((0, 51.0)) and axes.get_xlabel() == "step time (ms)"
