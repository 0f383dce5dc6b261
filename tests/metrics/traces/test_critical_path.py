"""The critical path: pieces that cover each window, walked and computed again event by event, and what it tells."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.field_logs import CORPUS, needs_corpus
from support.plain_path import Part, plain_path
from support.raw_traces import NS, category, chrome_json, span_of

import perflog
from perflog.metrics import Tables, critical_path
from perflog.metrics.traces.call_tree import NO_CALL
from perflog.metrics.traces.replays import replay
from perflog.metrics.traces.replays.critical_path import DevicePaths, critical_paths
from perflog.metrics.traces.replays.dependencies import NO_WORK, Dependencies
from perflog.metrics.traces.replays.path_walk import (
    DEVICE_KINDS,
    HOST_KINDS,
    HOST_TIME,
    LAUNCHES,
    CriticalPath,
    kinds_of,
)
from perflog.metrics.traces.replays.path_walk import WAITS as WAITING
from perflog.metrics.traces.replays.replay import ALL, Change, PieceKind, Replay, Replayed
from perflog.metrics.traces.replays.what_if import WhatIf
from perflog.tables.columns import NULL

US = 1000


def event(cat: str, name: str, start: float, length: float, tid: int = 1, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 9, "tid": tid, "ts": start, "dur": length, "args": args}


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


def traced(path: Path, *events: dict[str, Any]) -> perflog.Log:
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return perflog.read(path)


def pieces(path: CriticalPath) -> list[tuple[int, int, str, str | None]]:
    words, (codes, names) = kinds_of(path.dependencies), path.names()
    columns = zip(path.starts.tolist(), path.ends.tolist(), path.kinds.tolist(), codes.tolist(), strict=True)
    return [(start, end, words[kind], names[code]) for start, end, kind, code in columns]


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


def test_no_device_no_path(tmp_path: Path) -> None:
    log = traced(tmp_path / "a.json", event("cpu_op", "aten::mm", 0, 4))
    assert not len(critical_path(log))


# --- the same event by event -------------------------------------------------------------------------------------

call = st.tuples(
    st.integers(0, 6), st.integers(1, 8), st.sampled_from(["op", "7", "8", "copy", "sync", "python", "nested"]),
    st.integers(0, 20), st.integers(0, 12),
)  # fmt: skip
"""Pause before, length, what it does; of work: time from the begin of the call to its begin, length."""

awaiting = st.tuples(
    st.integers(0, 6), st.integers(1, 8),
    st.sampled_from(["op", "7", "8", "copy", "sync", "record", "wait", "event", "stream", "wait"]),
    st.integers(0, 20), st.integers(0, 12),
)  # fmt: skip
"""The same with calls that record events, and streams and calls that wait for them or for a stream."""

WAITS = {
    "wait": ("cudaStreamWaitEvent", "Stream Wait Event"), "event": ("cudaEventSynchronize", "Event Sync"),
    "stream": ("cudaStreamSynchronize", "Stream Sync"),
}  # fmt: skip


def synchronisation(
    does: str, at: int, length: int, tid: int, number: int, stream: int, record: tuple[int, int]
) -> list[dict[str, Any]]:
    """A call that waits or lets a stream wait, and what the profiler says of it. `record`: stream and number."""
    name, said = WAITS[does]
    args = {"device": 0, "stream": stream, "correlation": number}
    if does != "stream":
        args |= {"wait_on_stream": record[0], "wait_on_cuda_event_record_corr_id": record[1]}
    return [
        event("cuda_runtime", name, at, length, tid, correlation=number),
        event("cuda_sync", said, at, length, stream, **args) | {"pid": 0},
    ]


def made(threads: list[list[tuple[int, int, str, int, int]]]) -> list[dict[str, Any]]:
    """Events of threads of one process, each with its calls one after the other."""
    events, number = [], 0
    records = [(-1, -1)]  # stream and number of the events that were recorded; first one that is not known
    for tid, calls in enumerate(threads, 1):
        at = 0
        for pause, length, does, delay, lasts in calls:
            at += pause
            stream = 7 + lasts % 2
            if does == "record":
                number += 1
                records.append((stream, number))
                events.append(event("cuda_runtime", "cudaEventRecord", at, length, tid, correlation=number))
            elif does in WAITS:
                number += 1
                events += synchronisation(does, at, length, tid, number, stream, records[delay % len(records)])
            if does in ("7", "8", "copy", "nested"):
                number += 1
                stream = 8 if does == "8" else 7
                copies = does == "copy"
                name = "cudaMemcpyAsync" if copies else "cudaLaunchKernel"
                begin = at + (length >= 4) if does == "nested" else at
                if does == "nested":
                    events.append(event("cpu_op", "aten::mm", at, length, tid))
                events.append(
                    event(
                        "cuda_runtime",
                        name,
                        begin,
                        min(2, length) if does == "nested" else length,
                        tid,
                        correlation=number,
                    )
                )
                what = (
                    ("gpu_memcpy", "Memcpy HtoD")
                    if copies
                    else ("kernel", "relu" if stream == 8 else f"gemm{lasts % 2}")
                )
                work = event(*what, begin + delay, lasts, tid=stream, device=0, stream=stream, correlation=number)
                events.append(work | {"pid": 0})
            elif does == "sync":
                events.append(event("cuda_runtime", "cudaDeviceSynchronize", at, length, tid))
            else:
                cat, name = ("cpu_op", "aten::add") if does == "op" else ("python_function", "step.py: step")
                events.append(event(cat, name, at, length, tid))
            at += length
    return events


def length(of: Dependencies, start: int, end: int, thread: int = NO_CALL) -> int:
    """The length of the longest path of a window if all takes the time that it took."""
    return int(Replay(Replayed(of), [], start, end).ends(thread)[0]) - start


def check(log: perflog.Log, events: list[dict[str, Any]], steps: dict[int, tuple[int, int, Any]]) -> None:
    """Compare pieces and gains of the trace and of its steps with the oracle."""
    for paths in critical_paths(Tables(log)):
        oracle, of = plain_path(events), paths.trace.dependencies
        what_if, words = WhatIf(of, paths.walk), kinds_of(of)
        first, last = min(each.start for each in oracle.work), max(each.end for each in oracle.work)
        windows = [(first, last, None), *((start, end, main) for start, end, main in steps.values() if end > start)]
        assert of.usual_ns == oracle.usual
        for start, end, main in windows:
            thread = (
                NO_CALL if main is None else paths.walk.step_threads[list(steps.values()).index((start, end, main))]
            )
            path = paths.walk.path(start, end, thread)
            found = pieces(path)
            assert (found[0][0], found[-1][1]) == (start, end)
            assert all(one[1] == two[0] and one[0] < one[1] for one, two in pairwise(found))
            assert found == oracle.path(start, end, main)
            times: Counter[tuple[str, str | None]] = Counter()
            for begin, until, kind, name in found:
                times[kind, None] += until - begin
                if name is not None:
                    times[kind, name] += until - begin
            codes, names = path.names()
            code_of = {
                (words[kind], names[code]): (kind, code)
                for kind, code in zip(path.kinds.tolist(), codes.tolist(), strict=True)
            }
            times = Counter(dict(times.most_common(12)))  # the longest are all that there are in small traces
            removed = [(words.index(kind), ALL) if name is None else code_of[kind, name] for kind, name in times]
            whole = oracle.length(start, end, lambda kind, name: False, main)
            gains = what_if.gains(start, end, removed, thread).tolist()
            for (kind, name), gain in zip(times, gains, strict=True):
                zero = lambda k, n, kind=kind, name=name: k == kind and name in (None, n)  # noqa: E731 (short)
                assert gain == whole - oracle.length(start, end, zero, main)
                assert 0 <= gain <= times[kind, name]
            work = tuple(i for i, kind in enumerate(words) if kind in {each.kind for each in oracle.work})
            sets = [HOST_TIME, LAUNCHES, WAITING, work]
            gains = what_if.gains(start, end, [(some, ALL) for some in sets], thread).tolist()
            for some, gain in zip(sets, gains, strict=True):
                together = lambda k, n, kinds={words[i] for i in some}: k in kinds  # noqa: E731
                assert gain == whole - oracle.length(start, end, together, main)
            if found[0][2] != "unknown":
                assert whole == end - start
                assert length(of, start, end, thread if thread != NO_CALL else paths.walk.last_thread(end)) == whole


# A thread waits after the last call before it takes over; threads whose first launches are in another order.
@example(
    [
        [(3, 1, "op", 0, 0), (0, 8, "sync", 0, 0), (0, 1, "copy", 0, 1)],
        [(1, 6, "python", 0, 0), (2, 1, "python", 0, 0), (0, 1, "copy", 0, 0)],
    ],
    10,
    44,
    8192,
)
@example(
    [
        [(2, 2, "sync", 0, 0), (0, 1, "nested", 0, 0)],
        [(0, 5, "7", 0, 0)],
        [(5, 1, "op", 0, 0), (0, 1, "nested", 0, 1)],
    ],
    29,
    1,
    8192,
)
@given(
    st.lists(st.lists(call, max_size=8), min_size=1, max_size=3),
    st.integers(0, 40),
    st.integers(1, 60),
    st.sampled_from([1, 2, 5, 8192]),
)
def test_made_traces_event_by_event(
    tmp_path_factory: pytest.TempPathFactory,
    threads: list[list[tuple[int, int, str, int, int]]],
    begin: int,
    length: int,
    block: int,
) -> None:
    """`block`: works that are taken at once."""
    events = [*made(threads), event("user_annotation", "ProfilerStep#1", begin, length)]
    if not any(category(each) in ("kernel", "memcpy") and each["dur"] for each in events):
        return
    log = traced(tmp_path_factory.mktemp("made") / "a.json", *events)
    steps = {1: (begin * US, (begin + length) * US, (9, 1))}
    with mock.patch.object(replay, "_BLOCK", block):
        check(log, events, steps)


@given(st.lists(st.lists(awaiting, max_size=10), min_size=1, max_size=3), st.sampled_from([1, 2, 8192]))
def test_made_traces_with_recorded_waits(
    tmp_path_factory: pytest.TempPathFactory, threads: list[list[tuple[int, int, str, int, int]]], block: int
) -> None:
    events = made(threads)
    if not any(category(each) in ("kernel", "memcpy") and each["dur"] for each in events):
        return
    log = traced(tmp_path_factory.mktemp("made") / "a.json", *events)
    with mock.patch.object(replay, "_BLOCK", block):
        check(log, events, {})


def changed(paths: DevicePaths, kinds: tuple[str, ...], parts: bool) -> Change:
    """Some kinds take less time: of work a share, or only some of the work and of the calls."""
    of = paths.trace.dependencies
    codes = tuple(code for code, word in enumerate(kinds_of(of)) if word in kinds)
    shares = np.array([share_of(start, parts) for start in of.starts.tolist()])
    calls = [] if of.calls is None else [counts(start) for start in of.calls.starts.tolist()]
    free = (of.starts // US % 5 < 2) & ((of.before != NO_WORK) | (of.launched != NULL))
    return Change(
        codes, tasks=shares if parts else shares.astype(np.bool_), calls=np.array([*calls, counts(None)], np.bool_),
        free=free,
    )  # fmt: skip


def share_of(start: int, parts: bool) -> float:
    return (start // US % 3) / 2 if parts else float(start // US % 2)


def counts(start: int | None) -> bool:
    return start is None or start // US % 4 > 0


@given(
    st.lists(st.lists(awaiting, max_size=10), min_size=1, max_size=3),
    st.lists(st.sampled_from([*HOST_KINDS, *DEVICE_KINDS, "gemm", "elementwise", "memcpy"]), max_size=5, unique=True),
    st.booleans(),
    st.integers(0, 60),
    st.sampled_from([1, 2, 5, 8192]),
)
def test_replays_of_sets_event_by_event(
    tmp_path_factory: pytest.TempPathFactory,
    threads: list[list[tuple[int, int, str, int, int]]],
    kinds: list[str],
    parts: bool,
    host_end: int,
    block: int,
) -> None:
    """Several kinds together, whole or in part; the thread ends in the middle of the window."""
    events = made(threads)
    if not any(category(each) in ("kernel", "memcpy") and each["dur"] for each in events):
        return
    log, oracle = traced(tmp_path_factory.mktemp("made") / "a.json", *events), plain_path(events)
    with mock.patch.object(replay, "_BLOCK", block):
        for paths in critical_paths(Tables(log)):
            of, walk = paths.trace.dependencies, paths.walk
            start, end = int(of.starts.min()), int(of.ends.max())
            until = max(min(host_end * US, end), start)
            codes = tuple(code for code, word in enumerate(kinds_of(of)) if word in kinds)
            removed: list[PieceKind | Change] = [(codes, ALL), changed(paths, tuple(kinds), parts)]
            unchanged, ends = WhatIf(of, walk).ends(start, end, removed, walk.last_thread(end), until)
            zero = lambda kind, name: kind in kinds  # noqa: E731 (short)
            part = Part(
                lambda work: share_of(work.start, parts),
                lambda call: counts(None if call is None else call.start),
                lambda work: work.start // US % 5 < 2,
            )
            length = oracle.length(start, end, lambda kind, name: False, host_end=until)
            assert unchanged - start == length
            if length == end - start:
                assert unchanged == end
            found = [
                oracle.length(start, end, zero, host_end=until),
                oracle.length(start, end, zero, host_end=until, part=part),
            ]  # fmt: skip
            assert (ends - start).tolist() == found


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
