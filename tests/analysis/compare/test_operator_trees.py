"""Operators of one side as a tree: times, calls and kernels in steady steps, over the files of a run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.trace_tables import Event, by_hand, kernel, step

from perflog.analysis.compare.operator_trees import OperatorNode, merged, operator_tree, operators_by_run
from perflog.metrics.traces.steady_work import devices_by_run


def node(name: str, *inside: OperatorNode, own: float = 0.0, run: str = "r",
         kernels: dict[str, float] | None = None) -> OperatorNode:  # fmt: skip
    made = OperatorNode(name, "operator", None, {run: np.array([own])}, {run: 1.0}, kernels or {})
    made.inside = {each.key: each for each in inside}
    return made


def test_several_nodes_as_one() -> None:
    one = node("a", node("x", own=1.0, kernels={"k": 1.0}), node("y", own=2.0), own=4.0)
    two = node("a", node("x", own=8.0, kernels={"k": 2.0, "m": 4.0}), own=16.0, run="s")
    whole = merged([one, two])
    assert {run: times.tolist() for run, times in whole.inclusive.items()} == {"r": [15.0], "s": [16.0]}
    assert whole.all_kernels == {"k": 3.0, "m": 4.0} and whole.kernels == {}
    assert whole.calls == {"r": 1.0, "s": 1.0}
    assert [each.name for each in whole.inside.values()] == ["x", "y"]
    again = merged([one, one])
    assert again.inclusive["r"].tolist() == [14.0] and again.calls == {"r": 2.0}
    alone = merged([one])
    assert (alone.name, alone.inclusive["r"].tolist(), list(alone.inside)) == ("a", [7.0], list(one.inside))


def test_what_lies_in_alike_nodes_is_alike_too() -> None:
    one = node("a", node("x", node("z", own=1.0), own=2.0))
    two = node("a", node("x", node("z", own=4.0), node("w", own=8.0)))
    three = node("a", node("x", node("z", own=16.0)))
    (x,) = merged([one, two, three]).inside.values()
    assert {each.name: each.own["r"].tolist() for each in x.inside.values()} == {"z": [21.0], "w": [8.0]}
    assert x.own["r"].tolist() == [2.0] and x.calls == {"r": 3.0}
    twice = node("a", node("x", node("p", own=1.0)), node("y", node("q", own=2.0)))
    both = merged([twice, twice]).inside.values()
    assert [next(iter(each.inside.values())).own["r"].tolist() for each in both] == [[2.0], [4.0]]


def host(name: str, start: int, end: int, kind: str = "cpu", **more: Any) -> Event:
    usual = {"kind": kind, "device": None, "stream": None, "process": "9", "thread": "1"}
    return kernel(start, end, name, **(usual | more))


def launched(number: int, at: int, begin: int, length: int, name: str = "gemm", **more: Any) -> list[Event]:
    call = host("cudaLaunchKernel", at, at + 1, "runtime", correlation=number, **more)
    return [call, kernel(begin, begin + length, name, correlation=number, **more)]


def of_rank(rank: int, scale: int) -> list[Event]:
    """Two steps: in each linear launches one kernel, and mm inside of it another one; in the second, mm is twice."""
    more: dict[str, Any] = {"rank": rank, "part": rank}
    events = [step(n, 1000 * n, 1000 * n + 1000, **more) for n in (1, 2)]
    for n in (1, 2):
        at = 1000 * n
        events += [host("aten::linear", at + 10, at + 100, **more), host("aten::mm", at + 20, at + 30, **more)]
        events += launched(10 * n, at + 12, at + 200, 10 * scale, "add", **more)
        events += launched(10 * n + 1, at + 22, at + 300, 20 * scale, **more)
    events += [host("aten::mm", 2040, 2050, **more), *launched(50, 2042, 2400, 40 * scale, **more)]
    return events


def flat(node: OperatorNode, above: str = "") -> dict[str, OperatorNode]:
    found: dict[str, OperatorNode] = {}
    for each in node.inside.values():
        path = f"{above}/{each.name}"
        found |= {path: each} | flat(each, path)
    return found


@pytest.mark.parametrize("steps", [[1, 2], [2], None])
def test_the_tree_of_a_run_with_two_files(steps: list[int] | None) -> None:
    """Times are means over devices, calls means over ranks, both of a step."""
    tables = by_hand([*of_rank(0, 1), *of_rank(1, 3)])
    (trees,) = operators_by_run(tables).values()
    chosen = None if steps is None else np.array(steps)
    nodes = flat(operator_tree(trees, devices_by_run(tables)["r"], chosen))
    (mm,) = (node for path, node in nodes.items() if path.endswith("/aten::linear/aten::mm"))
    (linear,) = (node for path, node in nodes.items() if path.endswith("/aten::linear"))
    of_steps = {1: (10, 20, 1), 2: (10, 60, 2)}  # ns that linear and mm launch on rank 0, and the calls of mm
    parts = [[sum(x) for x in zip(*of_steps.values(), strict=True)]] if steps is None else [of_steps[n] for n in steps]
    assert (1e9 * linear.own["r"]).tolist() == pytest.approx([2 * own for own, _, _ in parts])
    assert (1e9 * mm.own["r"]).tolist() == pytest.approx([2 * own for _, own, _ in parts])
    number = 1 if steps is None else len(steps)
    assert mm.calls == {"r": sum(calls for *_, calls in parts) / number}
    assert 1e9 * mm.kernels["gemm"] == pytest.approx(2 * sum(own for _, own, _ in parts) / number)
    assert set(linear.all_kernels) == {"add", "gemm"}


def test_times_are_means_over_the_devices_of_a_file() -> None:
    """One process launches work on two devices: 10 and 30 ns."""
    other = kernel(50, 80, "gemm", device=1, correlation=2)
    call = host("cudaLaunchKernel", 3, 4, "runtime", correlation=2)
    tables = by_hand([host("aten::mm", 0, 10), *launched(1, 1, 20, 10), call, other])
    (trees,) = operators_by_run(tables).values()
    (mm,) = operator_tree(trees, devices_by_run(tables)["r"], None).inside.values()
    assert (1e9 * mm.inclusive["r"]).tolist() == pytest.approx([20])
    assert 1e9 * mm.all_kernels["gemm"] == pytest.approx(20)


def test_runs_without_operators_or_work_have_no_tree() -> None:
    assert operators_by_run(by_hand([kernel(0, 10)])) == {}
    assert operators_by_run(by_hand([host("aten::mm", 0, 10)])) == {}
    assert operators_by_run(by_hand([host("forward", 0, 10, "range"), *launched(1, 2, 20, 5)])) == {}
    assert list(operators_by_run(by_hand([host("aten::mm", 0, 10), *launched(1, 2, 20, 5)]))) == ["r"]
