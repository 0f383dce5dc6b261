"""Bars of devices: their names, and the thin bars of all communication."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure

from perflog.plots.traces import devices as module


@pytest.mark.parametrize(
    ("row", "name"),
    [
        ({"rank": 3}, "rank 3, step 7"),
        ({"rank": 3, "part": "trace"}, "rank 3, trace"),
        ({"device": 1, "device_name": "H100"}, "device 1, step 7"),
        ({"device_name": "H100"}, "H100, step 7"),
        ({}, "step 7"),
    ],
)
def test_names_of_bars(row: dict[str, Any], name: str) -> None:
    unknown = {"rank": pd.NA, "device": pd.NA, "device_name": pd.NA, "part": "step", "step": 7}
    assert module.bar_name(unknown | row) == name


def test_all_communication_ends_where_its_exposed_part_ends() -> None:
    axes = Figure().subplots()
    row = {"communicating_s": 3.0, "span_s": 10.0, "compute_share": 0.5, "communication_share": 0.1}
    module._draw_communication(axes, [row, row | {"communicating_s": 0.0, "span_s": 0.0}])
    patches: Any = axes.patches
    first, second = patches
    assert (first.get_x(), first.get_x() + first.get_width()) == pytest.approx((30.0, 60.0))
    assert second.get_width() == 0 and second.get_y() - first.get_y() == pytest.approx(1)
    assert first.get_y() > 0.1 and first.get_y() + first.get_height() < 0.4  # below the middle of the bar
