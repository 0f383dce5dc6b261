"""Device time as it is drawn: the shares of the metric, one bar for each trace and step."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text
from support.drawings import bars
from support.field_logs import needs_corpus
from support.trace_tables import by_hand, kernel, real, reduce, step

from perflog import plots
from perflog.metrics import Options, Tables, critical_path, device_time, trace_timeline
from perflog.plots.drawing.sketch import Spans
from perflog.tables.schema import TABLES


def tables(ranks: int = 2, steps: int = 2) -> Tables:
    """Rank r computes 300 + 100 r of 1000 ns, moves 300 ns of which 100 are hidden, and copies 50."""
    events = []
    for r in range(ranks):
        who = {"rank": r, "part": r, "device": r}
        for s in range(steps):
            at = 1000 * s
            events += [step(s, at, at + 1000, rank=r, part=r), kernel(at, at + 300 + 100 * r) | who]
            events.append(reduce(at + 200 + 100 * r, at + 500 + 100 * r) | who)
            events.append(kernel(at + 950, at + 1000, "Memcpy DtoH (Device -> Pinned)", kind="memcpy") | who)
    return by_hand(events)


def test_bars_are_the_shares_of_the_metric() -> None:
    given = tables()
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
    drawn = plots.device_time(tables(ranks=3, steps=20))
    (axes,) = drawn.axes
    assert len(axes.get_yticklabels()) == 40
    assert any("40 of 63 bars are shown" in " ".join(text.get_text().split()) for text in drawn.findobj(Text))


def test_many_critical_paths_are_capped_with_a_note() -> None:
    given = tables(ranks=3, steps=20)
    drawn = plots.critical_path(given)
    (axes,) = drawn.axes
    assert len(axes.get_yticklabels()) == 40
    assert any("40 of 63 bars are shown" in " ".join(text.get_text().split()) for text in drawn.findobj(Text))
    found = critical_path(given)
    found = found[(found["by"] == "kind") & (found["kind"] == "gemm")].head(40)
    products = [bar.get_width() for bar in bars(axes) if bar.get_gid() == "gemm"]
    assert len(products) == 40 and products == pytest.approx(list(found["share"] * 100))


def test_devices_with_names_alone_have_lines_of_their_own() -> None:
    readings = [
        {"name": "sm", "device_name": name, "start_ns": at * 1000, "value": value + at}
        for name, value in (("GPU A", 1.0), ("GPU B", 50.0))
        for at in range(5)
    ]
    filled = [{"run": "r", "line": line, "part": 0} | reading for line, reading in enumerate(readings, 1)]
    frame = pd.DataFrame(filled, columns=[column.name for column in TABLES["counters"]])
    (axes,) = plots.counters(Tables(dict(by_hand([kernel(0, 10)])) | {"counters": frame})).axes
    drawn = {line.get_label(): list(np.asarray(line.get_ydata(), float)) for line in axes.lines}
    assert drawn == {"GPU A": [1.0, 2.0, 3.0, 4.0, 5.0], "GPU B": [50.0, 51.0, 52.0, 53.0, 54.0]}


@needs_corpus
def test_each_run_has_its_panel() -> None:
    drawn = plots.device_time(real(0, 1, apart=True))
    assert [axes.get_title(loc="left") for axes in drawn.axes] == ["r0", "r1"]


def test_the_time_of_a_timeline_begins_with_the_first_event() -> None:
    """A step of the host begins 700 ns before the first work."""
    drawn = plots.trace_timeline(by_hand([step(0, 300, 2000), kernel(1000, 1500), kernel(1600, 1900)]))
    for axes in drawn.axes:
        lefts = [path.get_extents().x0 for each in axes.collections for path in each.get_paths()]
        assert (axes.get_xlim()[0], min(lefts)) == (0.0, pytest.approx(0.0, abs=1e-9))


def test_spans_of_a_timeline_are_the_rows_of_the_metric() -> None:
    given = tables()
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
