"""The timeline of traces: it draws the spans, tracks and colours of the rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from support.plotted_logs import traced_ranks
from support.trace_tables import by_hand, kernel, step

from perflog import plots
from perflog.metrics import Options, trace_timeline
from perflog.metrics.traces.replays.path_walk import DEVICE_KINDS, HOST_KINDS
from perflog.plots.drawing.sketch import Spans
from perflog.plots.traces import trace_timeline as module


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


@pytest.mark.parametrize(
    ("kinds", "group"),
    [
        (("compute",), "compute"), (("communication",), "communication"), (("memory", "memcpy", "memset"), "memory"),
        (("gemm", "attention"), "matrix products, attention"), (("elementwise", "other"), "other computation"),
        (("waiting", "wait", "idle: waiting"), "waiting"), (("idle: host", "idle: data", "idle: sync"), "host"),
        (("idle: unknown", "idle: launch"), "idle"), (("range",), "range"),
        (HOST_KINDS, "host"), (tuple(kind for kind in DEVICE_KINDS if kind != "waiting"), "idle"),
    ],
)  # fmt: skip
def test_kinds_of_a_group_have_its_colour(kinds: tuple[str, ...], group: str) -> None:
    assert {module._group(kind) for kind in kinds} == {group}
    assert group in module._COLORS


def spans(*given: tuple[str, str, float, float, float], part: str = "trace", **more: Any) -> pd.DataFrame:
    """Rows of the metric: track, kind, begin, span and time of the kind in ms."""
    usual = {"run": "r", "part": part, "step": pd.NA, "rank": 2, "device": 1, "device_name": None, "name": None}
    rows = pd.DataFrame(given, columns=["track", "kind", "begin_s", "span_s", "time_s"])
    times = ["begin_s", "span_s", "time_s"]
    return rows.assign(**{name: rows[name] / 1e3 for name in times}, events=1, **(usual | more))


def test_a_merged_span_is_pale_where_its_kind_takes_little_of_it() -> None:
    """Three quarters of it and more are whole; from two fifths on it is half pale."""
    axes = Figure().subplots()
    shares = (1.0, 0.75, 0.74, 0.4, 0.39, 0.0)
    rows = spans(*(("a", "gemm", 10.0 * k, 10.0, 10 * share) for k, share in enumerate(shares)))
    handles = dict[str, Any]()
    module._draw(axes, rows, ["b", "a"], handles, 0.0)
    boxes = [(path.get_extents(), each.get_alpha()) for each in axes.collections for path in each.get_paths()]
    opacity = {round(box.x0): alpha for box, alpha in boxes}
    assert opacity == {0: 1.0, 10: 1.0, 20: 0.65, 30: 0.65, 40: 0.35, 50: 0.35}
    assert {(round(box.y0, 9), round(box.y1, 9)) for box, _ in boxes} == {(0.6, 1.4)}  # the second track
    assert list(handles) == ["matrix products, attention"]
    assert axes.get_xlim() == (0.0, 60.0) and axes.get_ylim() == (1.6, -0.6)
    assert axes.get_xlabel() == "time since the first event (ms)"


def test_a_part_begins_at_its_time() -> None:
    axes = Figure().subplots()
    module._draw(axes, spans(("a", "gemm", 30.0, 5.0, 5.0), part="step"), ["a"], {}, 0.02)
    (path,) = axes.collections[0].get_paths()
    assert (path.get_extents().x0, path.get_extents().x1) == pytest.approx((10.0, 15.0))
    assert axes.get_xlim() == pytest.approx((0.0, 15.0)) and axes.get_xlabel() == "time in this part (ms)"


def test_the_legend_shows_a_whole_span_of_each_group() -> None:
    """If one is drawn whole anywhere, that one; groups are in the order of their colours."""
    axes, handles = Figure().subplots(), dict[str, Any]()
    rows = spans(*(("a", "gemm", begin, 10.0, time) for begin, time in ((0.0, 2.0), (10.0, 10.0), (20.0, 5.0))))
    module._draw(axes, rows, ["a"], handles, 0.0)
    assert [handle.get_alpha() for handle in handles.values()] == [1.0]


@pytest.mark.parametrize(
    ("part", "row", "title"),
    [
        ("devices", {}, "all devices"), ("trace", {}, "rank 2, device 1, the whole trace"),
        ("step", {"step": 7}, "rank 2, device 1, step 7"),
        ("middle", {"rank": None}, "device 1, the middle of the trace"),
        ("trace", {"device": None}, "rank 2, the whole trace"),
        ("trace", {"rank": None, "device": None, "device_name": "H100"}, "H100, the whole trace"),
        ("trace", {"rank": None, "device": None}, "device, the whole trace"),
    ],
)  # fmt: skip
def test_titles_of_parts(part: str, row: dict[str, Any], title: str) -> None:
    (given,) = (each for _, each in spans(("a", "gemm", 0.0, 1.0, 1.0), **row).iterrows())
    assert module._title(given, part) == title


def test_what_was_merged_is_said() -> None:
    rows = spans(("a", "gemm", 0.0, 1.0, 1.0)).assign(grain_s=0.0)
    assert module._merged_note(rows) == ""
    merged = pd.concat([rows, rows.assign(grain_s=2.5e-6)])
    assert module._merged_note(merged).startswith("Events shorter than 2.5 us are merged")


def test_at_most_four_runs_are_drawn() -> None:
    """Each has its name and its parts; time 0 is its own first event."""
    events = [
        each | {"run": f"r{k}"}
        for k in range(5)
        for each in (step(0, 300 + k, 1000), kernel(400 + 50 * k, 900), step(1, 1000, 2000), kernel(1100, 1900))
    ]
    drawn = plots.trace_timeline(by_hand(events))
    titles = [axes.get_title(loc="left") for axes in drawn.axes]
    assert list(dict.fromkeys(title.partition(":")[0] for title in titles)) == ["r0", "r1", "r2", "r3"]
    assert "4 of 5 runs are shown" in " ".join(" ".join(t.get_text().split()) for t in drawn.findobj(Text))
    for axes in drawn.axes:
        lefts = [path.get_extents().x0 for each in axes.collections for path in each.get_paths()]
        assert min(lefts) == pytest.approx(0.0, abs=1e-9)
