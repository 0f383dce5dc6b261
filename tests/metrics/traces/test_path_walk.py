"""The critical path of a window, walked over events by hand; times in ns."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from support.trace_tables import Event, by_hand, kernel, step

from perflog.metrics.traces.call_tree import NO_CALL
from perflog.metrics.traces.replays import path_walk as module
from perflog.metrics.traces.replays.dependencies import Dependencies, dependencies
from perflog.metrics.traces.replays.path_walk import CriticalPath, PathWalk, is_host, kinds_of

Piece = tuple[int, int, str, str | None]


def call(start: int, end: int, name: str = "cudaLaunchKernel", number: int | None = None, **more: Any) -> Event:
    usual: Event = {"kind": "runtime", "name": name, "process": "9", "thread": "1", "rank": 0, "correlation": number}
    return usual | {"start_ns": start, "duration_ns": end - start} | more


def operator(start: int, end: int, name: str = "aten::mm", **more: Any) -> Event:
    return call(start, end, name, kind="cpu") | more


def launched(
    at: int, start: int, length: int, number: int, name: str = "gemm", stream: int = 7, **more: Any
) -> list[Event]:
    """Work, and the call of 2 ns that launches it."""
    return [
        call(at, at + 2, number=number) | more,
        kernel(start, start + length, name, stream=stream, correlation=number),
    ]


def recorded(does: str, at: int, end: int, number: int, stream: int, awaited: int, record: int) -> list[Event]:
    """A call that waits or lets a stream wait, and what the profiler records of it."""
    said = kernel(at, end, "sync", kind="sync", stream=stream, correlation=number)
    return [call(at, end, does, number), said | {"waits_for_stream": awaited, "waits_for_record": record}]


def made(*events: Event) -> PathWalk:
    [found] = dependencies(by_hand(list(events)))
    return PathWalk(found)


def pieces(path: CriticalPath) -> list[Piece]:
    words, (codes, names) = kinds_of(path.dependencies), path.names()
    columns = zip(path.starts.tolist(), path.ends.tolist(), path.kinds.tolist(), codes.tolist(), strict=True)
    return [(start, end, words[kind], names[code]) for start, end, kind, code in columns]


def whole(*events: Event) -> list[Piece]:
    walk = made(*events)
    of: Dependencies = walk.dependencies
    return pieces(walk.path(int(of.starts.min()), int(of.ends.max())))


def test_a_late_launch_is_on_the_path_and_what_the_host_did_before() -> None:
    """The second kernel is launched 40 ns after the first one began; the operator around the launch began at 30."""
    assert whole(*launched(0, 5, 10, 1), operator(30, 50), *launched(40, 45, 10, 2)) == [
        (5, 30, "idle host", None), (30, 40, "operator", "aten::mm"), (40, 45, "launch", None),
        (45, 55, "gemm", "gemm"),
    ]  # fmt: skip


LATE = [
    *launched(0, 5, 10, 1), *launched(20, 25, 10, 2), *launched(22, 26, 40, 3, "ncclDevKernel_AllReduce", 8),
    *launched(24, 67, 10, 4, "relu"),
]  # fmt: skip
"""The last kernel begins 32 ns after the work before on its stream; a launch takes 5, and 15 are not unusual."""


def test_work_that_begins_long_after_its_launch_waited_for_another_stream() -> None:
    assert whole(*LATE)[-4:] == [
        (22, 26, "launch", None), (26, 66, "communication", "ncclDevKernel_AllReduce"), (66, 67, "gap", None),
        (67, 77, "elementwise", "relu"),
    ]  # fmt: skip


@pytest.mark.parametrize(("delay", "kind"), [(15, "gap"), (16, "waiting")])
def test_a_gap_is_no_longer_than_a_launch_takes(delay: int, kind: str) -> None:
    early = [event for at in (0, 20, 40) for event in launched(at, at + 5, 5, at)]
    assert (50, 50 + delay, kind, None) in whole(*early, *launched(46, 50 + delay, 10, 4))


def test_a_window_cuts_the_path_at_both_ends() -> None:
    walk = made(*LATE)
    for start, end in ((24, 70), (26, 66), (30, 60), (66, 67), (5, 15), (6, 77), (0, 80)):
        path = pieces(walk.path(start, end, 0))
        assert (path[0][0], path[-1][1]) == (start, end)
        assert all(one[1] == two[0] and one[0] < one[1] for one, two in pairwise(path))
        times, numbers = walk.kinds(start, end, 0)
        assert times.sum() == end - start and numbers.sum() == len(path)
        by_kind = dict(zip(kinds_of(walk.dependencies), times.tolist(), strict=True))
        assert by_kind["communication"] == sum(to - since for since, to, kind, _ in path if kind == "communication")
    assert pieces(walk.path(67, 67)) == []
    assert pieces(walk.path(30, 60, 0)) == [(30, 60, "communication", "ncclDevKernel_AllReduce")]


def test_the_path_ends_in_the_work_that_runs_longest_over_the_end() -> None:
    """Else in the thread of the step; else in the thread that launched last."""
    walk = made(
        *launched(0, 10, 20, 1), *launched(2, 12, 30, 2, "relu", 8), *launched(60, 61, 5, 3, thread="2"),
        operator(50, 58, "aten::add", thread="2"), operator(50, 59, "aten::cat"),
    )  # fmt: skip
    assert pieces(walk.path(15, 30))[-1] == (15, 30, "elementwise", "relu")  # the gemm ends at 30
    assert pieces(walk.path(15, 42))[-1][3] == "relu"
    other = made(*launched(0, 10, 20, 1, stream=8), *launched(2, 12, 30, 2, "relu"), *launched(60, 61, 5, 3))
    assert pieces(other.path(15, 30)) == [(15, 30, "elementwise", "relu")]
    assert pieces(walk.path(50, 58, 1)) == [(50, 58, "operator", "aten::add")]
    assert pieces(walk.path(50, 58)) == [(50, 58, "operator", "aten::cat")]
    assert (walk.last_thread(58), walk.last_thread(61), walk.last_thread(70), walk.last_thread(10)) == (
        0,
        0,
        1,
        NO_CALL,
    )
    assert pieces(walk.path(2, 8)) == [(2, 8, "unknown", None)]


def test_a_synchronisation_goes_over_to_the_work_that_it_waited_for() -> None:
    events = [*launched(0, 5, 50, 1), call(10, 57, "cudaStreamSynchronize"), *launched(60, 65, 10, 2)]
    assert whole(*events) == [
        (5, 55, "gemm", "gemm"), (55, 57, "synchronisation", "cudaStreamSynchronize"), (57, 60, "idle host", None),
        (60, 65, "launch", None), (65, 75, "gemm", "gemm"),
    ]  # fmt: skip
    walk = made(*events)
    assert pieces(walk.path(56, 65, 0))[0] == (56, 57, "synchronisation", "cudaStreamSynchronize")
    assert pieces(walk.path(57, 61, 0)) == [(57, 60, "idle host", None), (60, 61, "runtime", "cudaLaunchKernel")]


def test_recorded_waits_of_streams() -> None:
    """The collective that ended last is not waited for; without the record it would be the most likely one."""
    events = [
        *launched(0, 5, 10, 1), *launched(20, 25, 30, 2, "ncclDevKernel_AllReduce", 8),
        call(23, 24, "cudaEventRecord", 3), *launched(24, 55, 11, 4, "ncclDevKernel_Broadcast", 8),
        *recorded("cudaStreamWaitEvent", 27, 28, 5, 7, 8, 3), *launched(28, 72, 10, 6, "relu"),
    ]  # fmt: skip
    assert whole(*events)[-3:] == [
        (25, 55, "communication", "ncclDevKernel_AllReduce"), (55, 72, "waiting", None),
        (72, 82, "elementwise", "relu"),
    ]  # fmt: skip
    assert whole(*(event for event in events if event["kind"] != "sync"))[-3:] == [
        (55, 66, "communication", "ncclDevKernel_Broadcast"), (66, 72, "gap", None), (72, 82, "elementwise", "relu"),
    ]  # fmt: skip


def test_work_is_late_for_an_unknown_reason_where_waits_are_recorded() -> None:
    """A stream waits for work of another device: what ended last here is not what it waited for."""
    found = whole(
        *launched(0, 5, 10, 1), call(12, 13, "cudaEventRecord", 2),
        *recorded("cudaStreamWaitEvent", 14, 15, 3, 8, 7, 2), *launched(20, 25, 40, 4, "ncclDevKernel_AllReduce", 8),
        *launched(22, 67, 10, 5, "relu"),
    )  # fmt: skip
    assert found[-3:] == [(22, 37, "launch", None), (37, 67, "waiting", None), (67, 77, "elementwise", "relu")]


def test_work_without_launches_is_walked_by_streams() -> None:
    found = whole(kernel(0, 5), kernel(6, 11, "relu", stream=8), kernel(20, 25))
    assert found == [
        (0, 5, "gemm", "gemm"), (5, 6, "unknown", None), (6, 11, "elementwise", "relu"), (11, 20, "unknown", None),
        (20, 25, "gemm", "gemm"),
    ]  # fmt: skip
    overlapping = whole(kernel(0, 12), kernel(8, 20, "relu"), kernel(20, 30))
    assert overlapping == [(0, 8, "gemm", "gemm"), (8, 20, "elementwise", "relu"), (20, 30, "gemm", "gemm")]


AUTOGRAD = [
    operator(0, 4), *launched(1, 5, 2, 1), operator(10, 18, "evaluate_function", thread="2"),
    *launched(12, 16, 2, 2, thread="2"), operator(25, 31, "aten::add_"), *launched(27, 32, 5, 3),
]  # fmt: skip


def test_the_path_follows_autograd_to_its_thread_and_back() -> None:
    assert whole(*AUTOGRAD) == [
        (5, 10, "idle host", None), (10, 12, "operator", "evaluate_function"), (12, 14, "runtime", "cudaLaunchKernel"),
        (14, 18, "operator", "evaluate_function"), (18, 25, "idle host", None), (25, 27, "operator", "aten::add_"),
        (27, 32, "launch", None), (32, 37, "gemm", "gemm"),
    ]  # fmt: skip
    walk = made(*AUTOGRAD)
    assert pieces(walk.path(11, 26, 0))[0] == (11, 12, "operator", "evaluate_function")
    assert pieces(walk.path(19, 26, 0)) == [(19, 25, "idle host", None), (25, 26, "operator", "aten::add_")]


@pytest.mark.parametrize("block", [1, 2, 3])
def test_pieces_are_made_a_few_at_a_time(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    walk = made(*AUTOGRAD)
    expected, sums = pieces(walk.path(5, 37)), walk.kinds(5, 37)
    monkeypatch.setattr(module, "_BLOCK", block)
    assert pieces(walk.path(5, 37)) == expected
    assert [each.tolist() for each in walk.kinds(5, 37)] == [each.tolist() for each in sums]


def test_ranges_around_the_pieces() -> None:
    """Of a piece of work the range around its launch; the innermost one."""
    walk = made(
        *launched(0, 5, 10, 1), call(19, 50, "layer", kind="range"), call(18, 60, "forward", kind="range"),
        call(61, 75, "x", kind="range") | {"name": None},
        operator(30, 48), *launched(40, 45, 10, 2), call(52, 58, "cudaMalloc"), *launched(62, 70, 5, 3),
    )  # fmt: skip
    path = walk.path(5, 75)
    codes, words = path.ranges()
    assert [(start, words[code]) for (start, *_), code in zip(pieces(path), codes.tolist(), strict=True)] == [
        (5, None), (18, "forward"), (19, "layer"), (30, "layer"), (40, "layer"), (42, "layer"), (48, "layer"),
        (50, "forward"), (52, "forward"), (58, "forward"), (60, None), (61, None), (62, None), (70, None),
    ]  # fmt: skip


def test_threads_of_steps() -> None:
    own = {"process": "9", "thread": "1"}
    events = [*launched(0, 5, 10, 1), *launched(40, 45, 10, 2, thread="2")]
    walk = made(*events, step(1, 30, 60, **own, line=70), step(0, 0, 20, **own | {"thread": "2"}, line=71),
                step(2, 60, 80, **own | {"thread": "3"}, line=72))  # fmt: skip
    assert walk.step_threads.tolist() == [1, 0, NO_CALL]  # in order of time; thread 3 launches nothing
    assert made(kernel(0, 5), step(1, 0, 10)).step_threads.tolist() == [NO_CALL]


def test_sums_of_lengths_are_exact() -> None:
    lengths, kinds = np.array([1 << 53, 1, 1, 5]), np.array([0, 0, 0, 2], np.int16)
    assert module._sums(lengths, kinds, 4).tolist() == [(1 << 53) + 2, 0, 5, 0]
    assert module._sums(lengths[1:], kinds[1:], 3).tolist() == [2, 0, 5]


def test_kinds_of_host_and_device() -> None:
    assert is_host("launch") and is_host("idle host") and not is_host("gap") and not is_host("gemm")
