"""Trees of work: calls of one name in one place are a node, with the work that they launched."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.trace_tables import Event, by_hand, kernel

from perflog.metrics.traces.call_tree import NO_CALL
from perflog.metrics.traces.device_work import trace_devices
from perflog.metrics.traces.work_tree import (
    OUTSIDE,
    UNKNOWN,
    Word,
    WorkTree,
    last_of_path,
    work_by_name,
    work_trees,
)


def host(kind: str, name: str, start: int, end: int, thread: str = "1", **more: Any) -> Event:
    usual = {"kind": kind, "device": None, "stream": None, "process": "9", "thread": thread}
    return kernel(start, end, name, **(usual | more))


def launch(at: int, number: int, thread: str = "1") -> Event:
    return host("runtime", "cudaLaunchKernel", at, at + 1, thread, correlation=number)


def word_of(kind: str, name: str, _shapes: str | None) -> Word | None:
    """Operators by name; of those that begin with an underscore none."""
    return None if name.startswith("_") else Word(name, kind)


def tree_of(*events: Event) -> WorkTree:
    (tree,) = work_trees(by_hand(list(events)), word_of)
    return tree


TWICE = [  # outer(0, 50) holds inner twice, and inner is alone once; all launch work of 10, 20, 30 ... ns
    host("cpu", "outer", 0, 50),
    host("cpu", "inner", 10, 20),
    launch(11, 1),
    host("cpu", "_hidden", 22, 29),
    launch(25, 2),
    host("cpu", "inner", 30, 40),
    launch(31, 3),
    host("cpu", "inner", 60, 70),
    launch(61, 4),
    launch(80, 5),
    *(kernel(1000 * n, 1000 * n + 10 * n, "gemm" if n % 2 else "add", correlation=n) for n in range(1, 6)),
    kernel(9000, 9060, None),  # type: ignore[arg-type]
]


def test_calls_of_one_path_are_a_node() -> None:
    tree = tree_of(*TWICE)
    assert len(tree.paths()) == 5
    of = {path: at for at, path in enumerate(tree.paths())}
    by_path = {
        path: (tree.kinds[at], int(tree.entered[at]), int(tree.host_ns[at]), tree.lines[at]) for path, at in of.items()
    }
    assert by_path == {
        "outer": ("cpu", 1, 50, 1), "outer > inner": ("cpu", 2, 20, 2), "inner": ("cpu", 1, 10, 8),
        OUTSIDE: (None, 0, 0, None), UNKNOWN: (None, 0, 0, None),
    }  # fmt: skip
    sums = tree.sums()
    own = {path: int(sums.own[at]) for path, at in of.items()}
    assert own == {"outer": 20, "outer > inner": 10 + 30, "inner": 40, OUTSIDE: 50, UNKNOWN: 60}
    assert sums.figures(of["outer"]) == pytest.approx(
        {"launched": 3, "gpu_s": 60e-9, "share": 60 / 210, "exclusive_s": 20e-9}
    )
    assert sums.total == 210 and tree.rank == 0
    ((device, nodes),) = tree.work
    found = {(tree.paths()[node], name): (time, number) for node, name, time, number in work_by_name(device, nodes)}
    assert found == {
        ("outer", "add"): (20, 1), ("outer > inner", "gemm"): (40, 2), ("inner", "add"): (40, 1),
        (OUTSIDE, "gemm"): (50, 1), (UNKNOWN, "-"): (60, 1),
    }  # fmt: skip
    some = work_by_name(device, nodes, device.work.starts < 2500)
    assert sorted(some) == sorted([(of["outer"], "add", 20, 1), (of["outer > inner"], "gemm", 10, 1)])


def test_the_largest_comes_first_and_what_has_no_name_last() -> None:
    tree = tree_of(*TWICE)
    paths = tree.paths()
    listed = [(paths[at], depth) for at, depth in tree.depth_first(tree.sums().inclusive)]
    assert listed == [("outer", 0), ("outer > inner", 1), ("inner", 0), (OUTSIDE, 0), (UNKNOWN, 0)]
    by_host = [paths[at] for at, _ in tree.depth_first(np.zeros(len(paths), np.int64))]
    assert by_host == ["outer", "outer > inner", "inner", OUTSIDE, UNKNOWN]  # of equal size: by time of the host
    size = np.array([{"inner": 9, UNKNOWN: 99}.get(path, 1) for path in paths])
    assert [paths[at] for at, _ in tree.depth_first(size)] == ["inner", "outer", "outer > inner", OUTSIDE, UNKNOWN]


def test_a_tree_without_other_work_has_no_other_nodes() -> None:
    one = tree_of(host("cpu", "outer", 0, 50), launch(11, 1), kernel(100, 110, correlation=1))
    assert one.names == ["outer"] and one.shapes == [None]
    outside = tree_of(host("cpu", "outer", 0, 5), launch(11, 1), kernel(100, 110, correlation=1))
    assert outside.names == ["outer", OUTSIDE]
    none = tree_of(host("cpu", "outer", 0, 5))
    assert (none.names, none.work, none.sums().figures(0)["share"]) == (["outer"], [], None)


def test_each_file_has_a_tree_with_its_rank() -> None:
    events = [event | {"part": part, "rank": part + 3} for part in (1, 0) for event in TWICE[:3]]
    events += [host("cpu", "more", 0, 5, rank=rank, part=2) for rank in (0, 1)]
    trees = work_trees(by_hand(events), word_of)
    assert [(tree.part, tree.rank) for tree in trees] == [(0, 3), (1, 4), (2, None)]


def test_shapes_of_inputs_distinguish_nodes() -> None:
    """If the word says so: shapes of one word are one node."""
    events = [host("cpu", "mm", 10 * k, 10 * k + 5, shapes=shapes) for k, shapes in enumerate(["a", "b", "a", None])]

    def by_shapes(kind: str, name: str, shapes: str | None) -> Word:
        return Word(name, kind, {"b": "a"}.get(shapes or "", shapes))

    (tree,) = work_trees(by_hand(events), by_shapes, with_shapes=True)
    assert {shapes: int(n) for shapes, n in zip(tree.shapes, tree.entered, strict=True)} == {"a": 3, None: 1}


CALLS: st.SearchStrategy[list[Any]] = st.recursive(
    st.just([]), lambda inside: st.lists(st.tuples(st.sampled_from("ab"), inside), max_size=3)
)


@given(CALLS, st.integers(1, 30))
def test_paths_of_made_calls(calls: list[Any], most: int) -> None:
    """Each call launches one kernel before those inside it do; against the calls one by one."""
    events: list[Event] = []
    expected: Counter[str] = Counter()

    def enter(path: str, inside: list[Any], at: int) -> int:
        number = sum(expected.values()) + 1
        expected[path] += 1
        call = host("cpu", last_of_path(path), at, at)
        events.extend([call, launch(at + 1, number), kernel(10_000 + number, 10_001 + number, correlation=number)])
        at += 3
        for name, more in inside:
            at = enter(f"{path} > {name}", more, at)
        call["duration_ns"] = at - call["start_ns"]
        return at + 1

    at = 0
    for name, inside in calls[:most]:
        at = enter(name, inside, at)
    if not calls:
        return
    tree = tree_of(*events)
    sums, paths = tree.sums(), tree.paths()
    assert dict(zip(paths, tree.entered.tolist(), strict=True)) == expected
    assert dict(zip(paths, sums.own.tolist(), strict=True)) == expected
    for path, launched in zip(paths, sums.launched.tolist(), strict=True):
        assert launched == sum(n for each, n in expected.items() if f"{each} > ".startswith(f"{path} > "))
    for at, parent in enumerate(tree.parents.tolist()):
        assert parent < at and paths[at].rpartition(" > ")[0] == ("" if parent == NO_CALL else paths[parent])


def test_work_of_nodes_by_name() -> None:
    """Node 4 launches two gemms of 5 and 7 ns and a kernel without a name, node 6 a gemm and a copy."""
    work: list[tuple[Any, int]] = [("gemm", 5), ("gemm", 7), (None, 2), ("gemm", 11), ("copy", 3)]
    (device,) = trace_devices(by_hand([kernel(100 * k, 100 * k + time, name) for k, (name, time) in enumerate(work)]))
    nodes = np.array([4, 4, 4, 6, 6])
    found = [(4, "gemm", 12, 2), (4, "-", 2, 1), (6, "gemm", 11, 1), (6, "copy", 3, 1)]
    assert sorted(work_by_name(device, nodes)) == sorted(found)
    assert sorted(work_by_name(device, nodes, nodes == 6)) == sorted(found[2:])
