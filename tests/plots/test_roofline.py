"""The roofline: each point against the rows of the metric, the lines against the peaks of the GPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import perflog
from perflog import metrics
from perflog.errors import UsageError
from perflog.plots import PLOTS

CALLS = [
    ("aten::mm", [[4096, 4096], [4096, 4096]], "c10::BFloat16", 400),
    ("aten::mm", [[4096, 4096], [4096, 1]], "float", 60),
    ("aten::add", [[4096, 4096], [4096, 4096]], "float", 150),
    ("aten::mm", [[8192, 8192], [8192, 8192]], "c10::BFloat16", 1),  # whose kernel the trace lost
    ("mine::op", [[4096, 4096]], "float", 50),
]


def traced(path: Path, calls: list[tuple[str, Any, str, int]] = CALLS) -> perflog.Log:
    events: list[dict[str, Any]] = []
    for number, (name, dims, dtype, length) in enumerate(calls):
        at = number * 1000
        args = {"Input Dims": dims, "Input type": [dtype] * len(dims)}
        kernel = {"correlation": number, "device": 0, "stream": 7}
        events += [
            {"ph": "X", "cat": cat, "name": what, "pid": 9, "tid": 1, "ts": ts, "dur": dur, "args": more}
            for cat, what, ts, dur, more in (
                ("cpu_op", name, at, 20, args),
                ("cuda_runtime", "cudaLaunchKernel", at + 5, 2, {"correlation": number}),
                ("kernel", "gemm", at + 10, length, kernel),
            )
        ]
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return perflog.read(path)


def points(axes: Any) -> dict[str, list[tuple[float, float]]]:
    return {each.get_gid(): sorted(map(tuple, np.asarray(each.get_offsets()).tolist())) for each in axes.collections}


def test_points_are_the_rows_of_the_metric_and_lines_the_roofs(tmp_path: Path) -> None:
    log = traced(tmp_path / "a.json")
    (axes,) = PLOTS["roofline"](log, gpu="H100 SXM").axes
    rows = metrics.operator_efficiency(log, gpu="H100 SXM")
    rows = rows[(rows["by"] == "shape") & rows["intensity"].notna() & ~rows["impossible"].eq(True).fillna(False)]
    for kind, drawn in points(axes).items():
        of_kind = rows[rows["class"] == kind]
        wanted = sorted(zip(of_kind["intensity"].astype(float), of_kind["tflops"].astype(float), strict=True))
        assert drawn == [pytest.approx(pair) for pair in wanted]
    assert {kind: len(drawn) for kind, drawn in points(axes).items()} == {"matmul": 2, "elementwise": 1}
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    roofs = [line for line in axes.get_lines() if line.get_gid() == "roof"]
    assert {float(np.max(line.get_ydata())) for line in roofs} == {66.9, 989.4}
    for line in roofs:
        x, y = (np.asarray(values, float) for values in line.get_data())
        assert y == pytest.approx(np.minimum(x * 3.35, y[-1]))


def test_no_roof_without_a_gpu(tmp_path: Path) -> None:
    figure = PLOTS["roofline"](traced(tmp_path / "a.json"))
    (axes,) = figure.axes
    assert not [line for line in axes.get_lines() if line.get_gid() == "roof"]
    assert len(points(axes)["matmul"]) == 2  # the third is faster than any GPU
    assert "No roof: the GPU" in figure.get_supxlabel()


def test_nothing_to_draw_without_known_work(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to draw for `roofline`"):
        PLOTS["roofline"](traced(tmp_path / "a.json", [("mine::op", [[4]], "float", 50)]))


def test_many_operators_are_counted_in_a_note(tmp_path: Path) -> None:
    many = [("aten::mm", [[8, n], [n, 8]], "float", 5) for n in range(1, 450)]
    figure = PLOTS["roofline"](traced(tmp_path / "a.json", many))
    assert "400 of 449 operators of a run are shown" in figure.get_supxlabel()
