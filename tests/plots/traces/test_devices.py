"""Bars of devices: their names, and the thin bars of all communication."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from support.drawings import bars
from support.field_logs import needs_corpus
from support.plotted_logs import traced_ranks
from support.trace_tables import real

from perflog import plots
from perflog.metrics import device_time
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


def test_bars_are_the_shares_of_the_metric() -> None:
    given = traced_ranks()
    found = device_time(given)
    (axes,) = plots.device_time(given).axes
    drawn = {
        name: [b for b in bars(axes) if b.get_gid() == name]
        for name in ("compute", "communication", "memory", "idle", "all")
    }
    for name in ("compute", "communication", "memory", "idle"):
        assert [b.get_width() for b in drawn[name]] == pytest.approx(list(found[f"{name}_share"] * 100))
    ends = [b.get_x() + b.get_width() for b in drawn["idle"]]
    assert ends == pytest.approx([100.0] * len(found))
    moved = [(b.get_x(), b.get_x() + b.get_width()) for b in drawn["all"]]  # 100 ns hidden, 200 ns exposed
    assert moved[2] == pytest.approx((20.0, 50.0)) and moved[4] == pytest.approx((30.0, 60.0))
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "rank 0, trace", "rank 1, trace", "rank 0, step 0", "rank 0, step 1", "rank 1, step 0", "rank 1, step 1",
    ]  # fmt: skip


def test_many_bars_are_capped_with_a_note() -> None:
    drawn = plots.device_time(traced_ranks(ranks=3, steps=20))
    (axes,) = drawn.axes
    assert len(axes.get_yticklabels()) == 40
    assert any("40 of 63 bars are shown" in " ".join(text.get_text().split()) for text in drawn.findobj(Text))


@needs_corpus
def test_each_run_has_its_panel() -> None:
    drawn = plots.device_time(real(0, 1, apart=True))
    assert [axes.get_title(loc="left") for axes in drawn.axes] == ["r0", "r1"]
