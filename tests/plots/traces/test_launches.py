"""Idle time by cause, and launches that wait."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.drawings import xs, ys
from support.plotted_logs import panels

import perflog
from perflog.metrics import Tables
from perflog.plots import PLOTS


def test_idle_time_is_drawn_by_cause(tmp_path: Path) -> None:
    """Three kernels of 10 us: idle for 30 us before the launch of the second, and for 5 us behind each launch."""
    events = []
    for number, at in enumerate((0, 45, 60)):
        call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 1, "ts": at, "dur": 2}
        kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": at + 5, "dur": 10}
        events += [
            call | {"args": {"correlation": number + 1}},
            kernel | {"args": {"correlation": number + 1, "device": 0, "stream": 7}},
        ]
    (tmp_path / "a.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    tables = Tables(perflog.read(tmp_path / "a.json"))
    (axes,) = panels(PLOTS["launches"](tables))
    widths = {bars.get_label(): bars[0].get_width() for bars in axes.containers}
    assert {label: round(width * 0.7) for label, width in widths.items() if width} == {
        "host-bound": 30, "while a launch arrives": 10
    }  # fmt: skip
    (axes,) = panels(PLOTS["launch_queue"](tables))
    (line,) = axes.get_lines()
    assert xs(line)[0] == 0
    assert max(ys(line)) == pytest.approx(1)
    assert np.mean(ys(line)) * 70 == pytest.approx(10)  # the trace begins with the first kernel
