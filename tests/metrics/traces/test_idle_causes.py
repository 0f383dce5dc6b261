"""Idle time of traces against plain sums of intervals over their raw JSON, which share no code with perflog."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from support.field_logs import CORPUS, needs_corpus, stored
from support.made_traces import event, traced
from support.metrics_logs import rows

import perflog
from perflog.metrics import device_time, launches, waterfall
from perflog.metrics.traces.idle_causes import CAUSES, is_wait

Window = tuple[float, float]

DEVICE = {"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset", "mtia_ccp_events"}
"""Categories of torch.profiler that are work of a device."""

LARGE = 3_000_000  # bytes: more of the same takes longer and tells no more
REAL = [path for path in sorted((CORPUS / "torchtrace").glob("*.json.gz")) if path.stat().st_size < LARGE]


def busy(work: Iterable[Window], window: Window) -> float:
    """Time of a window in which any of the work runs."""
    total, reach = 0.0, window[0]
    for start, end in sorted(work):
        if min(end, window[1]) > max(start, reach):
            total += min(end, window[1]) - max(start, reach)
            reach = min(end, window[1])
    return total


def check(path: Path, log: perflog.Log) -> None:
    """Compare the trace, and each step with the work that it launched."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    events = [each for each in json.loads(text)["traceEvents"] if each.get("ph") == "X" and each["dur"] >= 0]
    zero = min(each["ts"] for each in events)  # doubles of long times lose the nanoseconds
    span = [(each["ts"] - zero, each["ts"] - zero + each["dur"]) for each in events]
    calls: dict[Any, list[float]] = {}
    steps: dict[int, Window] = {}
    for each, (start, end) in zip(events, span, strict=True):
        if each.get("cat", "").lower() in ("cuda_runtime", "cuda_driver", "runtime"):
            calls.setdefault(each.get("args", {}).get("correlation"), []).append(start)
        elif (match := re.fullmatch(r"ProfilerStep#(\d+)", each["name"])) and each["cat"] != "gpu_user_annotation":
            steps[int(match[1])] = start, end
    work, launched = [], []
    for each, (start, end) in zip(events, span, strict=True):
        if each.get("cat", "").lower() in DEVICE:
            found = calls.get(each["args"].get("correlation"), [])
            at = found[0] if len(found) == 1 else None
            step = next((number for number, (a, b) in steps.items() if at is not None and a <= at < b), None)
            work.append((start, end))
            launched.append((start, end, step))
    whole = min(start for start, _ in work), max(end for _, end in work)
    windows: dict[int | None, Window] = {None: whole} | windowed(steps, launched)
    table = rows(device_time(log))
    assert {row["step"] for row in table} == set(windows)
    for row in table:
        begin, end = windows[row["step"]]
        idle = end - begin - busy(work, (begin, end))
        assert row["span_s"] * 1e6 == pytest.approx(end - begin, rel=1e-2)
        assert row["idle_share"] == pytest.approx(idle / (end - begin), abs=1e-2)
        five = ("compute", "communication", "memory", "waiting", "idle")
        assert sum(row[f"{state}_share"] for state in five) == pytest.approx(1)


def windowed(steps: dict[int, Window], launched: list[tuple[float, float, int | None]]) -> dict[int, Window]:
    """The steps on the device, in order of time: from their begin to the end of their work.

    A step begins no earlier than the step before ends, or than work of others ends that still runs. It ends no earlier
    than on the host, and no later than work of a later step begins.
    """
    found: dict[int, Window] = {}
    for step, (begin, end) in sorted(steps.items(), key=lambda item: item[1]):
        own = [(a, b) for a, b, of in launched if of == step]
        later = min((a for a, _, of in launched if of is not None and steps[of][0] > begin), default=float("inf"))
        until = max(end, min(max((b for _, b in own), default=end), later))
        before = [b for a, b, of in launched if of is None and a < begin < b]
        still = min([max(before, default=begin), *(a for a, _ in own)])
        found[step] = max([begin, still, *(b for _, b in found.values())]), until
    return found


@needs_corpus
@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name[:60])
def test_real_traces(path: Path) -> None:
    check(path, stored(path))


def test_a_made_trace(tmp_path: Path) -> None:
    """Idle before the first kernel, between kernels of two streams and behind the last; work behind its step."""
    events: list[dict[str, Any]] = []
    for number, (call, start, length, stream) in enumerate(
        [(40, 60, 20, 7), (42, 70, 25, 8), (90, 150, 30, 7), (140, 190, 40, 7), (230, 260, 15, 8), (262, 280, 60, 7)]
    ):
        common = {"ph": "X", "pid": 9, "tid": 1, "args": {"correlation": number}}
        events.append({**common, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": call, "dur": 2})
        args = {"correlation": number, "stream": stream, "device": 0}
        events.append({**common, "cat": "kernel", "name": "gemm", "pid": 0, "tid": stream, "ts": start, "dur": length,
                       "args": args})  # fmt: skip
    for number, (start, end) in enumerate([(0, 200), (200, 270), (270, 420)], 1):
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{number}", "pid": 9, "tid": 1,
                       "ts": start, "dur": end - start, "args": {}})  # fmt: skip
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    check(path, perflog.read(path))


# --- causes -----------------------------------------------------------------------------------------------------------


def launched(call: float, start: float, length: float, number: int, lasts: float = 2) -> list[dict[str, Any]]:
    """A kernel, and the call that launches it, which lasts 2 us if nothing else is given."""
    work = event("kernel", "gemm", start, length, tid=7, device=0, stream=7, correlation=number) | {"pid": 0}
    return [event("cuda_runtime", "cudaLaunchKernel", call, lasts, correlation=number), work]


def in_us(row: dict[str, Any]) -> dict[str, int]:
    return {cause: round(row[f"{cause}_s"] * 1e6) for cause in CAUSES}


def test_each_cause_of_idle_time(tmp_path: Path) -> None:
    """Launches that find the device idle take 5, 5 and 5 us: up to 15 us count as launch."""
    log = traced(
        tmp_path / "a.json",
        *launched(0, 5, 10, 1),  # until 15
        *launched(25, 30, 10, 2),  # idle from 15: 10 host, 5 launch
        event("cuda_runtime", "cudaStreamSynchronize", 32, 10),  # returns at 42
        *launched(50, 55, 5, 3),  # idle from 40: 10 after a wait, 5 launch
        event("user_annotation", "DataLoader.next", 60, 30),
        *launched(100, 105, 5, 4),  # idle from 60: 30 data, 10 host, 5 launch
        *launched(106, 140, 10, 5),  # idle from 110, launched before: 11 launch, 19 waiting
        event("kernel", "lost", 170, 5, tid=7, device=0, stream=7) | {"pid": 0},  # idle from 150: unknown
    )
    (row,) = launches(log).to_dict("records")
    assert in_us(row) == {"data": 30, "sync": 10, "host": 20, "launch": 26, "waiting": 19, "unknown": 20}
    assert round(row["idle_s"] * 1e6) == 125
    assert (row["launches"], row["latency_s"], row["call_s"]) == (5, pytest.approx(5e-6), pytest.approx(2e-6))
    assert row["delay_s"] == pytest.approx(5e-6)
    assert row["queue"] == pytest.approx((4 * 5 + 34 - 5) / 170)  # the trace begins when the first one does
    assert row["queue_max"] == 1
    shares = waterfall(log).set_index("bar")["share"]
    assert shares["host-bound idle"] == pytest.approx(30 / 170)
    assert shares["idle with work queued"] == pytest.approx(45 / 170)


def test_a_wait_of_another_thread_is_no_reason(tmp_path: Path) -> None:
    log = traced(
        tmp_path / "a.json",
        *launched(0, 5, 10, 1),
        event("cuda_runtime", "cudaDeviceSynchronize", 6, 12, tid=2),
        *launched(25, 30, 10, 2),
    )
    (row,) = launches(log).to_dict("records")
    assert in_us(row)["sync"] == 0


@pytest.mark.parametrize(
    ("name", "waits"),
    [
        ("cudaDeviceSynchronize", True), ("cuStreamSynchronize", True), ("hipEventSynchronize", True),
        ("cudaMemcpy", True), ("hipMemcpyWithStream", True), ("cudaMemcpyAsync", False),
        ("cudaStreamWaitEvent", False), ("cudaEventQuery", False), ("cudaLaunchKernel", False),
    ],
)  # fmt: skip
def test_which_calls_wait_for_the_device(name: str, waits: bool) -> None:
    assert is_wait(name) == waits


def test_a_launch_that_takes_long_is_time_of_the_host(tmp_path: Path) -> None:
    """A call that loads the code of its kernel: it returns at 132, the kernel begins at 135."""
    usual = [each for number in range(4) for each in launched(20 * number, 20 * number + 5, 10, number)]
    log = traced(tmp_path / "a.json", *usual, *launched(80, 135, 5, 9, lasts=52))  # idle from 75
    (row,) = launches(log).to_dict("records")
    assert in_us(row) == {
        "data": 0,
        "sync": 0,
        "host": 3 * 5 + 5 + 37,
        "launch": 3 * 5 + 15,
        "waiting": 3,
        "unknown": 0,
    }
