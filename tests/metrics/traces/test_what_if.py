"""What a window of a trace would be without some of its pieces, on events by hand; times in ns."""

from __future__ import annotations

from typing import Any

import pytest
from support.trace_tables import Event, by_hand, kernel

from perflog.metrics.traces.call_tree import NO_CALL
from perflog.metrics.traces.replays import what_if as module
from perflog.metrics.traces.replays.dependencies import dependencies
from perflog.metrics.traces.replays.path_walk import PathWalk, kinds_of
from perflog.metrics.traces.replays.replay import ALL, PieceKind
from perflog.metrics.traces.replays.what_if import WhatIf


def call(start: int, end: int, name: str = "cudaLaunchKernel", number: int | None = None, **more: Any) -> Event:
    usual: Event = {"kind": "runtime", "name": name, "process": "9", "thread": "1", "rank": 0, "correlation": number}
    return usual | {"start_ns": start, "duration_ns": end - start} | more


EVENTS = [
    call(0, 2, number=1), kernel(5, 55, correlation=1), call(10, 57, "cudaStreamSynchronize"), call(60, 62, number=2),
    kernel(65, 75, "relu", correlation=2),
]  # fmt: skip
"""A kernel of 50 ns that a call waits for, returning 2 ns after it; 3 ns later the launch of another one of 10."""


def made() -> WhatIf:
    [found] = dependencies(by_hand(EVENTS))
    return WhatIf(found, PathWalk(found))


def of(what_if: WhatIf, *kinds: str) -> list[PieceKind]:
    words = kinds_of(what_if.replayed.dependencies)
    return [(words.index(kind), ALL) for kind in kinds]


def test_gains_of_kinds() -> None:
    """Without the launches' time, or the host's, the second kernel begins so much earlier."""
    what_if = made()
    kinds = ["elementwise", "launch", "idle host", "synchronisation", "gap"]
    assert what_if.gains(5, 75, of(what_if, *kinds)).tolist() == [10, 5, 3, 2, 0]
    assert what_if.gains(5, 75, []).tolist() == []
    both: list[PieceKind] = [(tuple(kind for kind, _ in of(what_if, "launch", "idle host")), ALL)]  # type: ignore[misc]
    assert what_if.gains(5, 75, both).tolist() == [8]


@pytest.mark.parametrize("calls", [0, 1, 1000])
def test_kinds_of_the_host_are_replayed_a_few_at_a_time(calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    what_if = made()
    removed = of(what_if, "idle host", "elementwise", "runtime", "operator", "launch", "python")
    expected = what_if.gains(5, 75, removed).tolist()
    monkeypatch.setattr(module, "_CALLS_AT_ONCE", calls)
    assert what_if.gains(5, 75, removed).tolist() == expected


def test_a_window_ends_with_its_thread() -> None:
    what_if = made()
    assert what_if.ends(5, 75, of(what_if, "elementwise"), 0, 75)[0] == 75
    unchanged, ends = what_if.ends(5, 80, of(what_if, "elementwise"), 0)
    assert (unchanged, ends.tolist()) == (80, [80])  # the thread goes on until then
    unchanged, ends = what_if.ends(5, 80, of(what_if, "elementwise"), NO_CALL)
    assert (unchanged, ends.tolist()) == (75, [65])


def test_kinds_on_threads() -> None:
    what_if = made()
    kinds = ["idle host", "runtime", "operator", "python", "launch", "synchronisation", "gap", "gemm"]
    on_thread = [what_if._is_on_thread(kind) for kind, _ in of(what_if, *kinds)]
    assert on_thread == [True] * 4 + [False] * 4
    assert what_if._is_on_thread(tuple(kind for kind, _ in of(what_if, "gap", "runtime")))  # type: ignore[misc]
