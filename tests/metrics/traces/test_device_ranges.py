"""GPU time by range: against a walk through the events of the file, one by one; sums; names that stand for many."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support.field_logs import CORPUS, needs_corpus
from support.raw_traces import AUTOGRAD, time_by_range
from support.trace_tables import by_hand, in_ns, small
from support.trace_tables import kernel as work

import perflog
from perflog.metrics import Tables, device_ranges
from perflog.metrics.compared import ALL, Steady
from perflog.metrics.traces.device_work import trace_devices
from perflog.metrics.traces.operators.device_ranges import BACKWARD, _samples, range_of, range_trees
from perflog.metrics.traces.work_tree import OUTSIDE, UNKNOWN


def event(cat: str, name: str, start: float, length: float, tid: int = 1, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 9, "tid": tid, "ts": start, "dur": length, "args": args}


def kernel(start: float, length: float, correlation: int) -> dict[str, Any]:
    given = event("kernel", "gemm", start, length, tid=7, device=0, stream=7, correlation=correlation)
    return given | {"pid": 0}


def launch(start: float, correlation: int, tid: int = 1) -> dict[str, Any]:
    return event("cuda_runtime", "cudaLaunchKernel", start, 2, tid=tid, correlation=correlation)


def step_of_training(at: float, number: int, first: int) -> list[dict[str, Any]]:
    """A step with a forward of two modules, and a backward in a thread of autograd; 1 ms is 1000."""
    return [
        event("user_annotation", f"ProfilerStep#{number}", at, 100),
        event("user_annotation", "forward", at + 1, 40),
        event("python_function", "train.py(3): step", at, 99),
        event("python_function", "nn.Module: Linear_0", at + 2, 10),
        event("python_function", "nn.Module: Linear_1", at + 20, 10),
        launch(at + 3, first),
        launch(at + 21, first + 1),
        launch(at + 35, first + 2),
        event("cpu_op", AUTOGRAD + "MmBackward0", at + 50, 10, tid=2),
        event("cpu_op", AUTOGRAD + "AddBackward0", at + 62, 10, tid=2),
        launch(at + 51, first + 3, tid=2),
        launch(at + 63, first + 4, tid=2),
        launch(at + 150, first + 5),
        *(kernel(at + 200 + 10 * i, i + 1, first + i) for i in range(6)),
    ]


def traced(path: Path, *events: dict[str, Any]) -> perflog.Log:
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return perflog.read(path)


def test_the_tree_of_two_steps(tmp_path: Path) -> None:
    log = traced(
        tmp_path / "a.json", *step_of_training(0, 4, 10), *step_of_training(1000, 5, 20), kernel(3000, 100, 99)
    )
    rows = device_ranges(log)
    us = [(name, depth, round(s * 1e6), round(own * 1e6)) for name, depth, s, own in
          rows[["range", "depth", "gpu_s", "exclusive_s"]].to_numpy()]  # fmt: skip
    assert us == [
        ("backward (autograd)", 0, 18, 18), ("ProfilerStep#N", 0, 12, 0), ("forward", 1, 12, 6), ("Linear_1", 2, 4, 4),
        ("Linear_0", 2, 2, 2), (OUTSIDE, 0, 12, 12), (UNKNOWN, 0, 100, 100),
    ]  # fmt: skip
    assert rows["entered"].fillna(0).tolist() == [4, 2, 2, 2, 2, 0, 0]
    assert rows["launched"].tolist() == [4, 6, 6, 2, 2, 2, 1]
    assert rows["share"].iloc[0] == pytest.approx(18 / 142)
    assert rows["host_s"].iloc[2] == pytest.approx(80e-6)
    assert rows["path"].iloc[3] == "ProfilerStep#N > forward > Linear_1"


def test_the_gpu_time_is_null_without_a_device(tmp_path: Path) -> None:
    log = traced(tmp_path / "a.json", event("user_annotation", "load", 0, 5), event("cpu_op", "aten::mm", 1, 2))
    (row,) = device_ranges(log).to_dict("records")
    assert (row["range"], row["host_s"]) == ("load", pytest.approx(5e-6))
    assert pd.isna(row["gpu_s"])
    assert pd.isna(row["launched"])


def test_a_trace_without_ranges_has_no_rows(tmp_path: Path) -> None:
    assert not len(device_ranges(traced(tmp_path / "a.json", launch(0, 1), kernel(5, 5, 1))))


@pytest.mark.parametrize(
    ("kind", "name", "meant"),
    [
        ("range", "ProfilerStep#12", ("ProfilerStep#N", "step")),
        ("range", "iteration 3", ("iteration N", "step")),
        ("range", "layer 3", ("layer 3", "range")),
        ("python", "nn.Module: Block_0", ("Block_0", "module")),
        ("cpu", AUTOGRAD + "MmBackward0", (BACKWARD, "autograd")),
        ("cpu", "ProfilerStep#1", ("ProfilerStep#N", "step")),
        ("cpu", "aten::mm", None),
        ("runtime", "cudaLaunchKernel", None),
    ],
)
def test_which_calls_are_ranges(kind: str, name: str, meant: tuple[str, str] | None) -> None:
    assert range_of(kind, name) == meant


# --- the same, by walking through the file -----------------------------------------------------------------------


@needs_corpus
@pytest.mark.parametrize("rank", [0, 1])
def test_real_traces_against_the_walk(rank: int) -> None:
    path = CORPUS / f"torchtrace/facebookresearch__HolisticTraceAnalysis__sampled_rank-{rank}.json.gz"
    rows = device_ranges(perflog.read(path))
    found = {path: round(s * 1e9) for path, s in rows[["path", "exclusive_s"]].to_numpy() if s}
    assert found == dict(time_by_range(path))
    assert len(found) > 20


def test_made_steps_against_the_walk(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    traced(path, *(each for n in range(5) for each in step_of_training(1000 * n, n, 10 * n)), kernel(9000, 3, 777))
    rows = device_ranges(perflog.read(path))
    assert {p: round(s * 1e9) for p, s in rows[["path", "exclusive_s"]].to_numpy() if s} == dict(time_by_range(path))


def test_exclusive_times_add_up_to_all_work(tmp_path: Path) -> None:
    log = traced(tmp_path / "a.json", *step_of_training(0, 1, 10), kernel(900, 7, 55))
    tables = Tables(log)
    (tree,) = range_trees(tables)
    total = sum(int((device.work.ends - device.work.starts).sum()) for device in trace_devices(tables))
    assert round(device_ranges(log)["exclusive_s"].sum() * 1e9) == total
    assert sum(len(nodes) for _, nodes in tree.work) == 7


def test_the_overview_names_the_ranges_inside_the_steps(tmp_path: Path) -> None:
    """What autograd launched takes 9 of 21 parts, the forward 6, the rest is in no range."""
    log = traced(tmp_path / "a.json", *step_of_training(0, 1, 10), *step_of_training(1000, 2, 20))
    told = next(text for text in perflog.overview(log).reasons if text.startswith("GPU time by range"))
    assert told == "GPU time by range: backward (autograd) 43 %, forward 29 %, (outside of ranges) 29 %."


def test_a_comparison_tells_which_range_took_longer(tmp_path: Path) -> None:
    """Each kernel of the backward takes 40 us longer: 80 us a step, and nothing else changes."""
    runs = []
    for name, more in (("a", 0), ("b", 40)):
        events = [each for n in range(6) for each in step_of_training(2000 * n, n, 10 * n)]
        for each in events:
            if each["cat"] == "kernel" and each["args"]["correlation"] % 10 in (3, 4):
                each["dur"] += more
        runs.append(traced(tmp_path / f"{name}.json", *events))
    parts = [p for p in perflog.compare(*runs).attribution_records if p.kind == "range"]
    us = {part.part: round(part.difference_s * 1e6) for part in parts if part.depth}
    assert us.pop(BACKWARD) == 80
    assert "ProfilerStep#N > forward > Linear_1" in us
    assert not any(us.values())
    assert [(p.depth, p.of) for p in parts if p.part == "ProfilerStep#N > forward > Linear_1"] == [
        (3, "ProfilerStep#N > forward")
    ]


def test_ranges_of_a_trace_without_steps_are_compared() -> None:
    """A gemm of 30 ns is launched in the range `forward`, and a copy of 10 ns in none."""
    call = {"kind": "runtime", "name": "launch", "process": "1", "thread": "1", "device": None, "stream": None}
    events = [
        work(0, 20) | call | {"kind": "range", "name": "forward"},
        work(5, 6, correlation=1) | call, work(50, 51, correlation=2) | call,
        work(100, 130, "gemm", correlation=1), work(130, 140, "copy", correlation=2),
    ]  # fmt: skip
    found = list(_samples(by_hand(events), Steady({"r": 0}, {})))
    assert [(measure.name, run, round(values.item() * 1e9)) for measure, run, values in found] == [
        (ALL, "r", 40), ("forward", "r", 30), (OUTSIDE, "r", 10),
    ]  # fmt: skip


def test_all_columns_of_a_small_trace() -> None:
    names = (
        "range",
        "depth",
        "kind",
        "entered",
        "launched",
        "gpu_s",
        "share",
        "exclusive_s",
        "host_s",
        "path",
        "first_line",
    )
    assert in_ns(device_ranges(small())) == [
        {"rank": 0} | dict(zip(names, row, strict=True))
        for row in (
            ("ProfilerStep#N", 0, "step", 2, 6, 470, 1, 470, 1000, "ProfilerStep#N", 1),
            ("load", 1, "range", 1, 0, 0, 0, 0, 80, "ProfilerStep#N > load", 14),
        )
    ]
