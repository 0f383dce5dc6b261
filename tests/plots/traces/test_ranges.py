"""Time of ranges: bars in the order of the tree."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.plotted_logs import figure, panels, reference

import perflog
from perflog import metrics
from perflog.metrics import Tables
from perflog.plots import PLOTS


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
