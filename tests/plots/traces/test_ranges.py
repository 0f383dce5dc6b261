"""Time of ranges: bars in the order of the tree."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from support.drawings import xs, ys
from support.plotted_logs import figure, panels, reference

import perflog
from perflog import metrics
from perflog.metrics import Tables
from perflog.plots import PLOTS
from perflog.plots.traces import ranges as module


def test_ranges_are_drawn_as_the_tree_says() -> None:
    (axes,) = panels(figure("nvprof", "ranges"))
    table = metrics.ranges(reference("nvprof"))
    widths = [bar.get_width() for bar in axes.containers[0]]
    assert np.allclose(widths, table["gpu_s"])
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert [(len(text) - len(text.lstrip())) // 3 for text in labels] == list(table["depth"])
    assert [text.strip() for text in labels] == list(table["range"])


def test_ranges_of_traces_are_drawn_in_a_panel_for_each_rank(tmp_path: Path) -> None:
    """The seconds of two kernels in one range of two, on two ranks."""
    for rank, length in enumerate((30, 60)):
        annotation = {"ph": "X", "cat": "user_annotation", "pid": 9, "tid": 1}
        call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 1, "ts": 2, "dur": 1}
        kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 9, "dur": length}
        events = [
            annotation | {"name": "step", "ts": 0, "dur": 9}, annotation | {"name": "forward", "ts": 1, "dur": 4},
            call | {"args": {"correlation": 5}}, kernel | {"args": {"correlation": 5, "device": 0, "stream": 7}},
        ]  # fmt: skip
        trace = {"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events}
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(trace))
    drawn = PLOTS["device_ranges"](Tables(perflog.read(tmp_path)))
    assert [axes.get_title(loc="left").rpartition(", ")[2] for axes in panels(drawn)] == ["rank 0", "rank 1"]
    bars = [[bar.get_width() for bar in axes.containers[0]] for axes in panels(drawn)]
    assert bars == [pytest.approx([30, 30]), pytest.approx([60, 60])]
    assert [text.get_text() for text in panels(drawn)[0].get_yticklabels()] == ["step", "   forward"]


def tree(*rows: tuple[str, int, float, float, float]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["range", "depth", "gpu_s", "exclusive_s", "host_s"])


def test_ranges_have_three_times_and_their_text_after_the_longest() -> None:
    axes = Figure().subplots()
    given = tree(("step", 0, 0.0301, 0.01, 0.05), ("forward", 1, 0.02, 0.02, math.nan))
    handles = module._draw_tree(axes, given, "GPU, exclusive")
    outer, inner = axes.containers
    assert [bar.get_width() for bar in outer] == pytest.approx([30.1, 20.0])
    assert [bar.get_width() for bar in inner] == pytest.approx([10.0, 20.0])
    assert ys(axes.lines[0]).tolist() == [0, 1] and xs(axes.lines[0])[0] == pytest.approx(50.0)
    assert [handle.get_label() for handle in handles] == ["GPU, inclusive", "GPU, exclusive", "host time"]  # type: ignore[attr-defined]
    assert [text.get_text() for text in axes.texts] == ["30.1 ms", "20 ms"]
    assert [text.xy[0] for text in axes.texts] == pytest.approx([50.0, 20.0])  # type: ignore[attr-defined]
    assert axes.get_xlim() == pytest.approx((0, 56.0)) and axes.get_ylim() == pytest.approx((1.6, -0.6))
    assert [label.get_text() for label in axes.get_yticklabels()] == ["step", "   forward"]


def test_the_longest_ranges_are_in_the_order_of_the_tree() -> None:
    most = module._MAX_RANGES
    rows = [(f"r{k}", 0, float(1 + k % 2), 0.0, 0.0) for k in range(2 * most)]
    found = module._longest(tree(*rows))
    assert list(found["range"]) == [f"r{k}" for k in range(1, 2 * most, 2)]
