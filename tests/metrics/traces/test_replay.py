"""Replays of windows of made traces, and their critical paths, against an oracle that goes event by event."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest import mock

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from support.made_traces import AWAITING, PLAIN, US, Call, check, event, made, random_threads, traced
from support.plain_path import Part, plain_path
from support.raw_traces import category

from perflog.metrics import Tables
from perflog.metrics.traces.replays import replay
from perflog.metrics.traces.replays.critical_path import DevicePaths, critical_paths
from perflog.metrics.traces.replays.dependencies import NO_WORK
from perflog.metrics.traces.replays.path_walk import (
    DEVICE_KINDS,
    HOST_KINDS,
    kinds_of,
)
from perflog.metrics.traces.replays.replay import ALL, Change, PieceKind
from perflog.metrics.traces.replays.what_if import WhatIf
from perflog.tables.columns import NULL

if TYPE_CHECKING:
    import pytest

PLAIN_THREADS = st.integers(0, 10**9).map(lambda seed: random_threads(seed, PLAIN))
AWAITING_THREADS = st.integers(0, 10**9).map(lambda seed: random_threads(seed, AWAITING))


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
    PLAIN_THREADS,
    st.integers(0, 40),
    st.integers(1, 60),
    st.sampled_from([1, 2, 5, 8192]),
)
def test_made_traces_event_by_event(
    tmp_path_factory: pytest.TempPathFactory,
    threads: list[list[Call]],
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


@given(AWAITING_THREADS, st.sampled_from([1, 2, 8192]))
def test_made_traces_with_recorded_waits(
    tmp_path_factory: pytest.TempPathFactory, threads: list[list[Call]], block: int
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
    AWAITING_THREADS,
    st.lists(st.sampled_from([*HOST_KINDS, *DEVICE_KINDS, "gemm", "elementwise", "memcpy"]), max_size=5, unique=True),
    st.booleans(),
    st.integers(0, 60),
    st.sampled_from([1, 2, 5, 8192]),
)
def test_replays_of_sets_event_by_event(
    tmp_path_factory: pytest.TempPathFactory,
    threads: list[list[Call]],
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
