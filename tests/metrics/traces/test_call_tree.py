"""Calls of the host in traces: parents against a search through all pairs, launches against the numbers themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.metrics_logs import by_hand as metrics_by_hand

import perflog
from perflog.metrics import Tables
from perflog.metrics.traces.call_tree import NO_CALL, CallTree, _outer_first, _parents, call_trees
from perflog.metrics.traces.launches import launches_by_file

spans = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 30), st.integers(0, 12)), max_size=24)


def in_order(calls: list[tuple[int, int, int]], ns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Threads, starts and ends of calls, given as thread, start and length in so many ns."""
    thread, start, length = np.array(sorted(calls, key=lambda c: (c[0], c[1], -c[2])), np.int64).reshape(-1, 3).T
    first = 1_764_000_000_000_000_001  # ns since 1970: no double holds it
    return thread, first + start * ns, first + (start + length) * ns


@given(spans)
def test_the_parent_is_the_innermost_call_that_contains_a_call(calls: list[tuple[int, int, int]]) -> None:
    """Calls of a thread may overlap: what contains a call is looked for among all before it, the last first."""
    threads, starts, ends = in_order(calls, 10_000)  # far above what counts as rounding
    wanted = []
    for i in range(len(calls)):
        around = [j for j in range(i) if threads[j] == threads[i] and starts[j] <= starts[i] and ends[j] >= ends[i]]
        around = [j for j in around if max(ends[j], starts[j] + 1) > starts[i]]  # it is still open
        wanted.append(around[-1] if around else NO_CALL)
    assert _parents(threads, starts, ends).tolist() == wanted


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 9000), st.integers(0, 4000)), max_size=24))
def test_a_call_may_end_a_rounding_later_than_the_one_that_it_lies_in(calls: list[tuple[int, int, int]]) -> None:
    threads, starts, ends = in_order(calls, 1)
    wanted = []
    for i, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        least = max(max(end, start + 1) - 1000, start + 1)
        around = [j for j in range(i) if threads[j] == threads[i] and max(ends[j], starts[j] + 1) >= least]
        wanted.append(around[-1] if around else NO_CALL)
    assert _parents(threads, starts, ends).tolist() == wanted


def call(cat: str, name: str, start: float, length: float, tid: int = 1, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 9, "tid": tid, "ts": start, "dur": length, "args": args}


def kernel(name: str, start: float, **args: Any) -> dict[str, Any]:
    return call("kernel", name, start, 5, tid=7, device=0, stream=7, **args) | {"pid": 0}


def tree_of(path: Path, *events: dict[str, Any]) -> tuple[CallTree, list[str | None]]:
    """The tree, and the name of the innermost call around the launch of each kernel."""
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    tables = Tables(perflog.read(path))
    (tree,) = call_trees(tables)
    (_, [(_, launches)]) = next(launches_by_file(tables))
    names = [*tree.rows["name"], None]
    return tree, [names[index] for index in tree.around(launches)]


def test_launches_by_correlation_and_by_external_number(tmp_path: Path) -> None:
    tree, launched_by = tree_of(
        tmp_path / "a.json",
        call("user_annotation", "forward", 0, 100),
        call("cpu_op", "aten::mm", 10, 50, **{"External id": 3}),
        call("cuda_runtime", "first launch", 20, 5, correlation=11),
        call("cuda_runtime", "second launch", 30, 5, correlation=12),
        call("cuda_runtime", "other", 40, 5, tid=2, correlation=12),
        kernel("one", 200, correlation=11),
        kernel("two calls have its number", 210, correlation=12),
        kernel("old", 220, **{"External id": 3}),
        kernel("of nothing", 230),
    )
    assert launched_by == ["first launch", None, "aten::mm", None]
    names = tree.rows["name"].tolist()
    callers = [names[p] if p != NO_CALL else None for p in tree.parents]
    assert dict(zip(names, callers, strict=True)) == {
        "forward": None, "aten::mm": "forward", "first launch": "aten::mm", "second launch": "aten::mm", "other": None
    }  # fmt: skip


def test_whole_microseconds_of_old_traces_nest_in_spite_of_rounding(tmp_path: Path) -> None:
    """The inner call ends one microsecond behind the outer one, as truncated times may."""
    tree, _ = tree_of(
        tmp_path / "a.json",
        call("cpu_op", "outer", 10, 20),
        call("cpu_op", "inner", 12, 19),
        kernel("k", 100),
    )
    assert tree.rows["name"].tolist() == ["outer", "inner"]
    assert tree.parents.tolist() == [NO_CALL, 0]


def test_calls_can_be_chosen_by_kind_and_name(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    tree_of(
        path, call("cpu_op", "a", 0, 9), call("user_annotation", "b", 1, 5), call("cpu_op", "c", 2, 1), kernel("k", 50)
    )
    (tree,) = call_trees(Tables(perflog.read(path)), kinds=("cpu",), name=lambda _, name: name != "a")
    assert tree.rows["name"].tolist() == ["c"]


def test_of_calls_that_begin_together_the_longest_is_the_outer_one() -> None:
    """Of equals the one of the outer kind: a range is around an operator, and that around a call of the runtime."""
    rows = [("runtime", 0, 5), ("cpu", 0, 9), ("cpu", 0, 5), ("range", 0, 9), ("cpu", 20, 3), ("cpu", 10, 3)]
    calls = [
        {"kind": kind, "start_ns": start, "duration_ns": length, "process": "1", "thread": thread}
        for thread in ("1", "2")
        for kind, start, length in rows
    ]
    events = Tables(metrics_by_hand("events", calls)).rows("events")
    threads = np.repeat([0, 1], len(rows))
    order = _outer_first(events, threads, np.arange(len(calls)))
    assert order.tolist() == [3, 1, 2, 0, 5, 4, 9, 7, 8, 6, 11, 10]
