"""Bars of the parts of a step."""

from __future__ import annotations

import pytest
from matplotlib.patches import Rectangle
from support.plotted_logs import MS, by_gid, figure, panels, tables

from perflog import metrics


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
