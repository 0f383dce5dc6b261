"""The critical path of traces: its kinds, their times and gains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.field_logs import CORPUS, needs_corpus
from support.made_traces import US, check, event, length, pieces, synchronisation, traced
from support.raw_traces import NS, chrome_json, span_of
from support.trace_tables import by_hand, in_ns, kernel, small

import perflog
from perflog.metrics import Tables, critical_path
from perflog.metrics.compared import Steady
from perflog.metrics.traces.replays.critical_path import _samples, critical_paths


def launched(
    call: float, start: float, length: float, number: int, tid: int = 1, name: str = "gemm", stream: int = 7
) -> list[dict[str, Any]]:
    """A kernel, and the call of 2 us that launches it."""
    args = {"device": 0, "stream": stream, "correlation": number}
    work = event("kernel", name, start, length, tid=stream, **args) | {"pid": 0}
    return [event("cuda_runtime", "cudaLaunchKernel", call, 2, tid, correlation=number), work]


def launched_in(took: float, call: float, start: float, length: float, number: int) -> list[dict[str, Any]]:
    """A kernel, and the call that launches it, of some length."""
    launch, work = launched(call, start, length, number)
    return [{**launch, "dur": took}, work]


def in_us(log: perflog.Log) -> list[tuple[int, int, str, str | None]]:
    (paths,) = critical_paths(Tables(log))
    return [(start // US, end // US, kind, name) for start, end, kind, name in pieces(paths.trace)]


def of_kinds(log: perflog.Log, **where: Any) -> dict[str, dict[str, Any]]:
    table = critical_path(log)
    table = table[(table["by"] == "kind") & (table["part"] == where.pop("part", "trace"))]
    return {row["kind"]: row for row in table.to_dict("records")}


def test_a_device_that_is_always_busy_is_the_path(tmp_path: Path) -> None:
    log = traced(
        tmp_path / "a.json", *launched(0, 5, 20, 1), *launched(3, 26, 10, 2), *launched(6, 36, 10, 3, name="relu")
    )
    assert in_us(log) == [
        (5, 25, "gemm", "gemm"), (25, 26, "gap", None), (26, 36, "gemm", "gemm"), (36, 46, "elementwise", "relu"),
    ]  # fmt: skip
    rows = of_kinds(log)
    assert rows["gemm"]["time_s"] == pytest.approx(30e-6)
    assert rows["gemm"]["gain_s"] == pytest.approx(25e-6)  # the third is launched at 6 and begins 5 us later
    assert rows["gemm"]["share"] == pytest.approx(30 / 41)
    assert (rows["gemm"]["pieces"], rows["gemm"]["where"]) == (2, "device")


def test_a_synchronisation_goes_over_to_the_work_that_it_waited_for(tmp_path: Path) -> None:
    log = traced(
        tmp_path / "a.json",
        *launched(0, 5, 50, 1),
        event("cuda_runtime", "cudaStreamSynchronize", 10, 47),  # returns 2 us after the kernel
        *launched(60, 65, 10, 2),
    )
    assert in_us(log) == [
        (5, 55, "gemm", "gemm"), (55, 57, "synchronisation", "cudaStreamSynchronize"), (57, 60, "idle host", None),
        (60, 65, "launch", None), (65, 75, "gemm", "gemm"),
    ]  # fmt: skip
    gains = {kind: row["gain_s"] * 1e6 for kind, row in of_kinds(log).items()}
    # Without the kernels, the call that waits takes no time: what is left are the launches and 3 us of the host.
    assert gains["gemm"] == pytest.approx(52 + 10 - 5)
    assert gains["idle host"] == pytest.approx(3)


def test_a_gain_ends_where_the_next_path_is_the_longest(tmp_path: Path) -> None:
    """A gemm of 50 us and, on another stream, a collective of 45 us, which ends 8 us before; both are waited for."""
    log = traced(
        tmp_path / "a.json",
        *launched(0, 5, 50, 1),
        *launched(2, 5, 42, 2, name="ncclDevKernel_AllReduce", stream=8),
        event("cuda_runtime", "cudaDeviceSynchronize", 10, 46),
        *launched(60, 65, 10, 3, name="relu"),
    )
    rows = of_kinds(log)
    assert rows["gemm"]["time_s"] == pytest.approx(50e-6)
    assert "communication" not in rows
    # The thread waits for the last work alone: nothing holds it up once that takes no time, but its own calls.
    assert rows["gemm"]["gain_s"] < rows["gemm"]["time_s"]


def test_a_call_waits_for_the_stream_or_event_that_the_trace_records(tmp_path: Path) -> None:
    events = [
        *launched(0, 5, 20, 1),
        event("cuda_runtime", "cudaEventRecord", 3, 1, correlation=2),
        *launched(4, 10, 30, 3, name="ncclDevKernel_AllReduce", stream=8),
        *synchronisation("event", 8, 42, 1, 4, 7, (7, 2)),
        *launched(60, 65, 10, 5, name="relu"),
    ]
    log = traced(tmp_path / "a.json", *events)
    assert ("gemm", 20) in [(kind, end - start) for start, end, kind, _ in in_us(log)]
    assert "communication" not in of_kinds(log)
    events[-4:-2] = synchronisation("stream", 8, 42, 1, 4, 8, (-1, -1))
    assert "communication" in of_kinds(traced(tmp_path / "b.json", *events))


def test_the_path_follows_autograd_to_its_thread_and_back(tmp_path: Path) -> None:
    log = traced(
        tmp_path / "a.json",
        event("cpu_op", "aten::mm", 0, 4),
        *launched(1, 5, 2, 1),
        event("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 10, 8, tid=2),
        *launched(12, 16, 2, 2, tid=2),
        event("cpu_op", "aten::add_", 25, 6),
        *launched(27, 32, 5, 3),
    )
    table = critical_path(log)
    assert in_us(log) == [
        (5, 10, "idle host", None), (10, 12, "operator", "autograd::engine::evaluate_function: MmBackward0"),
        (12, 14, "runtime", "cudaLaunchKernel"),
        (14, 18, "operator", "autograd::engine::evaluate_function: MmBackward0"),
        (18, 25, "idle host", None), (25, 27, "operator", "aten::add_"), (27, 32, "launch", None),
        (32, 37, "gemm", "gemm"),
    ]  # fmt: skip
    ranges = table[table["by"] == "range"].set_index("range")["time_s"] * 1e6
    assert ranges["backward (autograd)"] == pytest.approx(8)


def test_launches_that_find_the_queue_full_are_no_work_of_the_host(tmp_path: Path) -> None:
    """3000 launches of 2 us; once 1000 wait, each takes as long as a kernel: without kernels, all would take 2 us."""
    events, at, begin = [], 0, 5
    for number in range(1, 3001):
        took = 2 if number - begin_count(begin, at) < 1010 else 20
        events += [
            event("cuda_runtime", "cudaLaunchKernel", at, took, correlation=number),
            event("kernel", "gemm", begin, 20, tid=7, device=0, stream=7, correlation=number) | {"pid": 0},
        ]
        at, begin = at + took, begin + 20
    step = event("user_annotation", "ProfilerStep#1", 0, at)
    log = traced(tmp_path / "a.json", *events, step)
    rows = of_kinds(log, part="step")
    assert rows["gemm"]["share"] > 0.99
    assert rows["gemm"]["gain"] > 0.5
    (paths,) = critical_paths(Tables(log))
    start, end = int(paths.trace.starts[0]), int(paths.trace.ends[-1])
    assert length(paths.trace.dependencies, start, end) == end - start


def test_a_thread_that_a_full_queue_held_up_goes_on_when_it_did(tmp_path: Path) -> None:
    """1500 kernels of 20 us, of which 1024 may wait; then the host loads for 40 ms, and launches one more."""
    events, begins, at = [], [0], 0
    for number in range(1, 1501):
        begins.append(max(begins[-1] + 20 * (number > 1), at + 5))
        until = max(at + 2, begins[number - 1024]) if number > 1024 else at + 2
        events += launched_in(until - at, at, begins[number], 20, number)
        at = until
    events.append(event("cpu_op", "load", at, 40_000))
    log = traced(tmp_path / "a.json", *events, *launched(at + 40_000, at + 40_005, 10, 1501))
    (paths,) = critical_paths(Tables(log))
    start, end = int(paths.trace.starts[0]), int(paths.trace.ends[-1])
    assert length(paths.trace.dependencies, start, end) == end - start
    saved = (end - start) / US - 1500 * 20 - 10  # without the load, the last kernel follows the one before at once
    assert of_kinds(log)["operator"]["gain_s"] == pytest.approx(saved * 1e-6, abs=20e-6)


def test_the_launch_of_a_graph_is_one_launch(tmp_path: Path) -> None:
    """A queue that gets full; then graphs of 400 kernels each, whose calls take longer than a usual launch."""
    events, begin, at = [], 5, 0
    for number in range(1, 3001):
        begin = max(begin, at + 5)
        events += launched_in(3, at, begin, 2, number)
        at, begin = at + 3, begin + 2
    for number in range(3001, 3011):
        begin = max(begin, at + 10)
        call, kernel = launched_in(100, at, begin, 2, number)
        events += [call, *({**kernel, "ts": begin + 2 * i} for i in range(400))]
        at, begin = at + 100, begin + 800
    events.append(event("cpu_op", "load", at, 20_000))
    log = traced(tmp_path / "a.json", *events, *launched(at + 20_000, at + 20_005, 2, 4000))
    (paths,) = critical_paths(Tables(log))
    start, end = int(paths.trace.starts[0]), int(paths.trace.ends[-1])
    assert length(paths.trace.dependencies, start, end) == end - start
    assert of_kinds(log)["operator"]["gain_s"] > 0.01


def test_a_wait_inside_another_one_that_waits_for_nothing_counts_not(tmp_path: Path) -> None:
    outer = event("cuda_runtime", "cudaDeviceSynchronize", 10, 70)
    inner = event("cuda_runtime", "cudaStreamSynchronize", 72, 4)
    events = [*launched(0, 5, 60, 1), outer, inner, *launched(90, 95, 10, 2)]
    times = {kind: row["time_s"] for kind, row in of_kinds(traced(tmp_path / "a.json", *events)).items()}
    assert times["gemm"] == pytest.approx(70e-6)
    assert times["synchronisation"] == pytest.approx(15e-6)


def test_an_operator_without_a_name_has_not_the_gain_of_all_operators(tmp_path: Path) -> None:
    unnamed = event("cpu_op", "x", 0, 10)
    del unnamed["name"]
    events = [unnamed, event("cpu_op", "aten::mm", 10, 30), *launched(0, 5, 2, 1), *launched(38, 45, 10, 2)]
    rows = critical_path(traced(tmp_path / "a.json", *events))
    rows = rows[(rows["by"] == "name") & (rows["kind"] == "operator")]
    assert rows["name"].isna().any()
    assert rows["gain_s"].isna().tolist() == rows["name"].isna().tolist()


def begin_count(begin: int, at: int) -> int:
    return max(at - 5, 0) // 20


def test_comparisons_read_the_known_kinds_of_the_path_of_a_run() -> None:
    """Nobody knows what the device waited for between its kernels."""
    events = []
    for run, end in (("r", 40), ("s", 70)):
        events += [each | {"run": run} for each in (kernel(10, end), kernel(80, 90, "ncclDevKernel_AllReduce"))]
    found = list(_samples(by_hand(events), Steady({"r": 0, "s": 0}, {})))
    assert [(measure.name.partition(" ")[0], run, values.tolist()) for measure, run, values in found] == [
        ("gemm", "r", [pytest.approx(30e-9)]), ("communication", "r", [pytest.approx(10e-9)]),
        ("gemm", "s", [pytest.approx(60e-9)]), ("communication", "s", [pytest.approx(10e-9)]),
    ]  # fmt: skip
    assert {measure.kind for measure, _, _ in found} == {"path"}


def test_comparisons_take_the_mean_of_the_devices() -> None:
    events = [kernel(10, 40), kernel(10, 20, rank=1, part=1, device=1)]
    ((measure, _, values),) = _samples(by_hand(events), Steady({"r": 0}, {}))
    assert measure.name == "gemm on the critical path" and values.tolist() == [pytest.approx(20e-9)]


def test_no_device_no_path(tmp_path: Path) -> None:
    log = traced(tmp_path / "a.json", event("cpu_op", "aten::mm", 0, 4))
    assert not len(critical_path(log))


@needs_corpus
def test_a_real_trace_event_by_event() -> None:
    path = CORPUS / "torchtrace/facebookresearch__HolisticTraceAnalysis__sampled_rank-1.json.gz"
    events = [each for each in chrome_json(path)["traceEvents"] if each.get("ph") == "X"]  # type: ignore[attr-defined]
    log = perflog.read(path)
    steps = {int(each["name"][13:]): (*span_of(each), (each["pid"], each["tid"]))
             for each in events if each["name"].startswith("ProfilerStep#")}  # fmt: skip
    check(log, events, steps)
    table = critical_path(log)
    for (_, _), rows in table.groupby(["part", "step"], dropna=False):
        for by in ("kind", "name", "range"):
            some = rows[rows["by"] == by]
            assert some["time_s"].sum() == pytest.approx(rows["span_s"].iloc[0], abs=NS / 2)
            assert some["share"].sum() == pytest.approx(1)


def test_kinds_of_a_small_trace_that_does_not_begin_at_0() -> None:
    """From the first kernel at 50 to the end of the last at 700."""
    found = [row for row in in_ns(critical_path(small())) if (row["part"], row["by"]) == ("trace", "kind")]
    assert {(row["rank"], row["device"], row["device_name"], row["span_s"]) for row in found} == {(0, 0, "H100", 650)}
    times = {"idle host": (230, 6), "communication": (120, 1), "elementwise": (120, 1), "gemm": (60, 1),
             "launch": (40, 2), "runtime": (30, 2), "operator": (30, 3), "synchronisation": (20, 1)}  # fmt: skip
    assert {row["kind"]: (row["time_s"], row["pieces"]) for row in found} == times
    assert {row["kind"]: row["share"] for row in found} == pytest.approx({k: t / 650 for k, (t, _) in times.items()})
