"""Launches of traces: idle time by cause nanosecond by nanosecond, the queue by counting, delays and calls."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.field_logs import CORPUS, needs_corpus
from support.made_traces import event, traced
from support.raw_traces import NS, category, chrome_json, span_of
from support.trace_tables import in_ns, small

import perflog
from perflog.metrics import launch_queue, launches
from perflog.metrics.traces.idle_causes import CAUSES, is_wait
from perflog.metrics.traces.launch_delays import _time_after

US = 1000


def launched(
    call: float, start: float, length: float, number: int, tid: int = 1, lasts: float = 2
) -> list[dict[str, Any]]:
    """A kernel, and the call that launches it, which lasts 2 us if nothing else is given."""
    work = event("kernel", "gemm", start, length, tid=7, device=0, stream=7, correlation=number) | {"pid": 0}
    return [event("cuda_runtime", "cudaLaunchKernel", call, lasts, tid, correlation=number), work]


def test_shares_of_a_period(tmp_path: Path) -> None:
    """Kernels from 5 to 15 and from 105 to 205 us; the second is launched at 95: the trace has periods of 1 us."""
    log = traced(tmp_path / "a.json", *launched(0, 5, 10, 1), *launched(95, 105, 100, 2))
    curve = launch_queue(log)
    assert len(curve) == 200 and curve["at_s"].tolist() == pytest.approx([1e-6 * k for k in range(200)])
    busy, waiting, queue = (curve[name].tolist() for name in ("busy_share", "host_share", "queue"))
    assert busy == [1.0] * 10 + [0.0] * 90 + [1.0] * 100
    assert waiting == [0.0] * 10 + [1.0] * 80 + [0.0] * 110
    assert queue == [0.0] * 90 + [1.0] * 10 + [0.0] * 100


@pytest.mark.parametrize(("length", "share"), [(1, 1.0), (2, 0.0), (3, 0.0)])
def test_work_that_is_shorter_than_its_call(tmp_path: Path, length: int, share: float) -> None:
    (row,) = launches(traced(tmp_path / "a.json", *launched(0, 5, length, 1, lasts=2))).to_dict("records")
    assert row["short_share"] == share


def test_nothing_is_known_without_launches(tmp_path: Path) -> None:
    kernels = [event("kernel", "a", at, 5, tid=7, device=0, stream=7) | {"pid": 0} for at in (0, 10)]
    log = traced(tmp_path / "a.json", *kernels)
    (row,) = launches(log).to_dict("records")
    assert round(row["unknown_s"] * 1e6) == round(row["idle_s"] * 1e6) == 5
    assert all(pd.isna(row[name]) for name in ("host_s", "launches", "queue", "latency_s", "short_share"))
    assert not len(launch_queue(log))


# --- the same, nanosecond by nanosecond --------------------------------------------------------------------------

work = st.tuples(st.integers(0, 40), st.integers(0, 30), st.integers(1, 12), st.integers(0, 20))
"""Time of the call, time from there to the begin, length, length of the call."""


@given(st.lists(work, min_size=1, max_size=8), st.integers(0, 60), st.integers(1, 30))
def test_made_traces_nanosecond_by_nanosecond(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[tuple[int, int, int, int]], wait: int, length: int
) -> None:
    events = [
        each
        for number, (call, delay, length_of_work, length_of_call) in enumerate(pieces, 1)
        for each in launched(call, call + delay, length_of_work, number, lasts=length_of_call)
    ]
    events.append(event("cuda_runtime", "cudaStreamSynchronize", wait, length))
    log = traced(tmp_path_factory.mktemp("made") / "a.json", *events)
    (row,) = launches(log).to_dict("records")
    begun = [(call + delay, call + delay + runs, call, call + calls) for call, delay, runs, calls in pieces]
    begun.sort(key=lambda each: each[0])  # of those that begin at one time, the first in the file counts
    first, last = begun[0][0], max(end for _, end, *_ in begun)
    busy = {us for start, end, *_ in begun for us in range(start, end)}
    ends = [us for us in range(first, last) if us not in busy and us - 1 in busy]
    gaps = [(us, next(start for start, *_ in begun if start > us)) for us in ends]
    next_call = [next((call, returns) for start, _, call, returns in begun if start == end) for _, end in gaps]
    late = [end - call for (begin, end), (call, _) in zip(gaps, next_call, strict=True) if call >= begin]
    usual = 3 * (median(late) if late else 0)
    times: Counter[str] = Counter()
    for (begin, end), (call, returns) in zip(gaps, next_call, strict=True):
        for half in range(2 * begin, 2 * end):  # the median of two may be half a microsecond
            us = half / 2
            cause = "launch" if us < call + usual else "host" if us < returns else "waiting"
            if us < call:
                cause = "sync" if begin <= wait + length <= call else "host"
            times[cause] += 1
    assert {cause: row[f"{cause}_s"] * 2e6 for cause in CAUSES} == pytest.approx({c: times[c] for c in CAUSES})
    waiting = sum(max(min(start, last) - max(call, first), 0) for start, _, call, _ in begun)
    assert row["queue"] == pytest.approx(waiting / (last - first))
    counts = [sum(call <= us < start for start, _, call, _ in begun) for us in range(first, last)]
    assert row["queue_max"] == max(counts)
    curve = launch_queue(log)
    lengths = curve["at_s"].diff().shift(-1).fillna((last - first) * 1e-6 - curve["at_s"].iloc[-1])
    assert (curve["queue"] * lengths).sum() * 1e6 == pytest.approx(waiting, abs=1e-6)


@needs_corpus
@pytest.mark.parametrize("rank", [0, 1])
def test_real_traces_gap_by_gap(rank: int) -> None:
    """Each gap of the busy time, walked through one by one in whole nanoseconds."""
    path = CORPUS / f"torchtrace/facebookresearch__HolisticTraceAnalysis__sampled_rank-{rank}.json.gz"
    events = [each for each in chrome_json(path)["traceEvents"] if each.get("ph") == "X"]  # type: ignore[attr-defined]
    calls: dict[Any, list[dict[str, Any]]] = {}
    for each in events:
        if category(each) in ("runtime", "driver") and "correlation" in each["args"]:
            calls.setdefault(each["args"]["correlation"], []).append(each)
    waits = [each for each in events if category(each) in ("runtime", "driver") and is_wait(each["name"])]
    loading = [span_of(each) for each in events if category(each) in ("user_annotation", "cpu_op", "operator")
               and "data_load" in each["name"].lower()]  # fmt: skip
    found = [each for each in events if category(each) in ("kernel", "memcpy", "memset")]
    found.sort(key=lambda each: span_of(each)[0])
    gaps, reach = [], span_of(found[0])[1]
    for each in found[1:]:
        start, end = span_of(each)
        if start > reach:
            gaps.append((reach, start, calls[each["args"]["correlation"]][0]))
        reach = max(reach, end)
    usual = 3 * median(end - span_of(call)[0] for begin, end, call in gaps if span_of(call)[0] >= begin)
    times: Counter[str] = Counter()
    for begin, end, call in gaps:
        at = min(max(span_of(call)[0], begin), end)
        started = min(max(span_of(call)[0] + round(usual), at), end)
        data = sum(max(min(stop, at) - max(start, begin), 0) for start, stop in loading)
        waited = any(wait["tid"] == call["tid"] and begin <= span_of(wait)[1] <= span_of(call)[0] for wait in waits)
        times["data"] += data
        times["sync" if waited else "host"] += at - begin - data
        times["launch"] += started - at
        returned = min(max(span_of(call)[1], started), end)
        data = sum(max(min(stop, returned) - max(start, started), 0) for start, stop in loading)
        times["data"] += data
        times["host"] += returned - started - data
        times["waiting"] += end - returned
    row = launches(perflog.read(path)).to_dict("records")[0]
    assert {cause: row[f"{cause}_s"] for cause in CAUSES} == pytest.approx({c: times[c] * NS for c in CAUSES})
    delays = [span_of(each)[0] - span_of(calls[each["args"]["correlation"]][0])[0] for each in found]
    assert row["delay_s"] == pytest.approx(median(delays) * NS)
    assert row["launches"] == len(found)


def test_a_comparison_tells_which_idle_time_is_longer(tmp_path: Path) -> None:
    """Six steps of two kernels; on one side the host launches the second 30 us later, and all that follows."""
    runs = []
    for name, later in (("a", 0), ("b", 30)):
        events = []
        for step in range(6):
            at = (1000 + later) * step
            events += [
                event("user_annotation", f"ProfilerStep#{step}", at, 1000 + later),
                *launched(at + 10, at + 15, 100, 2 * step + 1),
            ]
            events += launched(at + 150 + later, at + 155 + later, 100, 2 * step + 2)
        runs.append(traced(tmp_path / f"{name}.json", *events))
    parts = {p.part: p for p in perflog.compare(*runs).attribution_records if p.kind == "step"}
    assert parts["host-bound idle"].difference_s == pytest.approx(30e-6)
    assert parts["host-bound idle"].of == "idle"
    assert parts["idle while a launch arrives"].difference_s == pytest.approx(0, abs=1e-9)


def test_times_after_a_window_begins_are_exact() -> None:
    """By plain integers, also where sums of 64 bits would overflow, and where nothing is launched."""
    for times, scale in (([], 1), ([3, 5, 5, 9], 1), ([3, 5, 5, 9, 11, 12], 1 << 59)):
        long = np.array([time * scale // 4 for time in times], np.int64)
        starts, ends = (np.array(each, np.int64) * scale // 4 for each in ([0, 4, 5, 9, 12], [4, 9, 12, 9, 12]))
        wanted = [
            sum(max(int(end) - max(int(start), time), 0) for time in long.tolist())
            for start, end in zip(starts, ends, strict=True)
        ]
        assert _time_after(long, starts, ends).tolist() == pytest.approx(wanted, rel=1e-15)


def test_all_columns_of_a_small_trace() -> None:
    """The gap to 360 ends with a launch after a synchronisation, the one to 520 with a late launch."""
    device = {"rank": 0, "device": 0, "device_name": "H100"}
    no_time = {"data_s": 0, "waiting_s": 0, "unknown_s": 0, "latency_s": 20, "short_share": 0}
    assert in_ns(launches(small())) == [
        device | no_time | more
        for more in (
            {"part": "trace", "step": None, "span_s": 650, "idle_s": 200, "sync_s": 40, "host_s": 120, "launch_s": 40,
             "launches": 6, "delay_s": 25, "call_s": 10, "work_s": 80, "queue": 230 / 650, "queue_max": 2,
             "first_line": 5},
            {"part": "step", "step": 1, "span_s": 400, "idle_s": 130, "sync_s": 40, "host_s": 40, "launch_s": 50,
             "launches": 4, "delay_s": 25, "call_s": 10, "work_s": 75, "queue": 110 / 400, "queue_max": 1,
             "first_line": 5},
            {"part": "step", "step": 2, "span_s": 600, "idle_s": 420, "sync_s": 0, "host_s": 400, "launch_s": 20,
             "launches": 2, "delay_s": 75, "call_s": 5, "work_s": 90, "queue": 150 / 600, "queue_max": 2,
             "first_line": 17},
        )
    ]  # fmt: skip
    periods = in_ns(launch_queue(small()))
    assert [row["period"] for row in periods] == list(range(1, 201))
    assert periods[140] == device | {  # 505 to 508: the fifth launch waits, the sixth is not there yet
        "period": 141, "at_s": 455, "queue": 1.0, "busy_share": 0.0, "host_share": 0.0,
    }  # fmt: skip
