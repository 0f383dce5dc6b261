"""The waterfall: work and losses one behind the other, down to the whole."""

from __future__ import annotations

import pytest
from support.drawings import bars, xs

import perflog
from perflog import metrics, plots


@pytest.mark.parametrize("source", ["reference:moe_layer.txt", "reference:pipeline_layers.txt"])
def test_each_bar_begins_where_the_one_above_ends_and_the_last_is_the_whole(source: str) -> None:
    log = perflog.find_runs(source)
    rows = metrics.waterfall(log)
    panels = plots.waterfall(log).axes
    of_runs = [of_run for _, of_run in rows.groupby(["run", "of"], sort=False)]
    assert len(panels) == len(of_runs)
    for axes, of_run in zip(panels, of_runs, strict=True):
        *parts, whole = bars(axes)
        factor = whole.get_width() / of_run["whole_s"].iloc[0]
        assert [bar.get_width() for bar in parts] == pytest.approx(list(of_run["time_s"] * factor))
        ends = [bar.get_x() + bar.get_width() for bar in parts]
        assert [bar.get_x() for bar in parts] == pytest.approx([0.0, *ends[:-1]])
        assert ends[-1] == pytest.approx(whole.get_width())
        assert [label.get_text() for label in axes.get_yticklabels()] == [*of_run["bar"], "whole"]
        assert [bool(bar.get_hatch()) for bar in parts] == list(of_run["doubt"].notna())


def test_marks_in_the_whole_are_the_largest_gains() -> None:
    log = perflog.find_runs("reference:moe_layer.txt#1")
    figure = plots.waterfall(log)
    (axes,) = figure.axes
    gains = metrics.headroom(log).head(2)
    marks = [line for line in axes.lines if line.get_gid() == "headroom"]
    *_, whole = bars(axes)
    seconds = [xs(mark)[0] * metrics.waterfall(log)["whole_s"].iloc[0] / whole.get_width() for mark in marks]
    assert seconds == pytest.approx(list(gains["ideal_s"]))
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [f"at best, with {name}" for name in gains["ideal"]]
