"""The timeline of traces: spans, tracks and colours are those of the rows."""

from __future__ import annotations

from collections import Counter

import pytest
from support.plotted_logs import traced_ranks
from support.trace_tables import by_hand, kernel, step

from perflog import plots
from perflog.metrics import Options, trace_timeline
from perflog.plots.drawing.sketch import Spans


def test_the_time_of_a_timeline_begins_with_the_first_event() -> None:
    """A step of the host begins 700 ns before the first work."""
    drawn = plots.trace_timeline(by_hand([step(0, 300, 2000), kernel(1000, 1500), kernel(1600, 1900)]))
    for axes in drawn.axes:
        lefts = [path.get_extents().x0 for each in axes.collections for path in each.get_paths()]
        assert (axes.get_xlim()[0], min(lefts)) == (0.0, pytest.approx(0.0, abs=1e-9))


def test_spans_of_a_timeline_are_the_rows_of_the_metric() -> None:
    given = traced_ranks()
    found, drawn = trace_timeline(given), plots.trace_timeline(given)
    assert len(drawn.axes) == found["part"].nunique() == 3
    for axes, (_, rows) in zip(drawn.axes, found.groupby("part", sort=False), strict=True):
        spans = [path.get_extents() for each in axes.collections for path in each.get_paths()]
        assert len(spans) == len(rows)
        assert [label.get_text() for label in axes.get_yticklabels()] == list(dict.fromkeys(rows["track"]))
        unit = {"us": 1e6, "ns": 1e9}[axes.get_xlabel().rpartition("(")[2].rstrip(")")]
        assert sorted(span.width for span in spans) == pytest.approx(sorted(rows["span_s"] * unit))
    sketch = plots.trace_timeline.sketched(found, given, Options())
    for panel, axes in zip(sketch.axes, drawn.axes, strict=True):
        marks = [mark for mark in panel.marks if isinstance(mark, Spans)]
        ours = Counter(gid for mark in marks for gid in [mark.gid] * len(mark.left))
        theirs = Counter(gid for each in axes.collections for gid in [each.get_gid()] * len(each.get_paths()))
        assert ours == theirs
        assert panel.get_xlim() == pytest.approx(axes.get_xlim())
