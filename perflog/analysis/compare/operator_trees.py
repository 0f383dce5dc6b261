"""Operators of one side: a tree with the GPU time of each in each steady step, its calls and its kernels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from perflog.arrays import Floats, Ints
from perflog.grouping import grouped
from perflog.metrics.run_tables import Tables
from perflog.metrics.traces.call_tree import NO_CALL
from perflog.metrics.traces.device_work import TraceDevice, seconds
from perflog.metrics.traces.operators.device_operators import OPERATOR, operator_trees
from perflog.metrics.traces.steady_work import places_of_work, step_at, work_times
from perflog.metrics.traces.work_tree import WorkTree, work_by_name

Key = tuple[str, str | None, str | None]
"""Name, shapes and kind of an operator, range or module."""


_NS = 1e9  # in a second


@dataclass
class OperatorNode:
    """An operator, range or module at one position of the tree, over some runs.

    `own`: GPU time of what it launched outside of the nodes inside it, in s, in each steady step, by run; the mean over
    devices. `calls`: mean number of its calls in a step of a rank, by run. `kernels`: GPU time in a step by the name of
    what it launched itself, summed over the runs.
    """

    name: str
    kind: str | None
    shapes: str | None = None
    own: dict[str, Floats] = field(default_factory=dict)
    calls: dict[str, float] = field(default_factory=dict)
    kernels: dict[str, float] = field(default_factory=dict)
    inside: dict[Key, OperatorNode] = field(default_factory=dict)
    _totals: tuple[dict[str, Floats], dict[str, float]] | None = field(default=None, init=False, repr=False)

    @property
    def key(self) -> Key:
        return self.name, self.shapes, self.kind

    @property
    def inclusive(self) -> dict[str, Floats]:
        """GPU time, with the nodes inside, in each steady step, by run."""
        return self._with_inside()[0]

    @property
    def all_kernels(self) -> dict[str, float]:
        """GPU time in a step by the name of what it and the nodes inside it launched."""
        return self._with_inside()[1]

    def _with_inside(self) -> tuple[dict[str, Floats], dict[str, float]]:
        """Sums over the node and those inside, kept in each: in a loop, since ranges may lie in thousands of others."""
        order, open_ = [], [self]
        while open_:
            node = open_.pop()
            if node._totals is None:
                order.append(node)
                open_ += node.inside.values()
        for node in reversed(order):
            totals = [each._with_inside() for each in node.inside.values()]
            node._totals = (
                _sum_by_run([node.own, *(times for times, _ in totals)]),
                _sums([node.kernels, *(kernels for _, kernels in totals)]),
            )
        assert self._totals is not None
        return self._totals


def merged(nodes: Sequence[OperatorNode]) -> OperatorNode:
    """Return several nodes as one: the nodes inside them that have one key are one too."""
    whole = _merged_alone(nodes)
    open_ = [(whole, nodes)]
    while open_:
        made, parts = open_.pop()
        alike = grouped((key, each) for part in parts for key, each in part.inside.items())
        for key, inner in alike.items():
            made.inside[key] = inner[0] if len(inner) == 1 else _merged_alone(inner)
            open_ += [(made.inside[key], inner)] if len(inner) > 1 else []
    return whole


def _merged_alone(nodes: Sequence[OperatorNode]) -> OperatorNode:
    """Several nodes as one, without those inside them."""
    first = nodes[0]
    return OperatorNode(
        first.name,
        first.kind,
        first.shapes,
        _sum_by_run(node.own for node in nodes),
        _sums(node.calls for node in nodes),
        _sums(node.kernels for node in nodes),
    )


def _sum_by_run(parts: Iterable[dict[str, Floats]]) -> dict[str, Floats]:
    sums: dict[str, Floats] = {}
    for part in parts:
        for run, times in part.items():
            sums[run] = sums[run] + times if run in sums else times
    return sums


def _sums(parts: Iterable[dict[str, float]]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for part in parts:
        for name, number in part.items():
            sums[name] = sums.get(name, 0.0) + number
    return sums


def operators_by_run(tables: Tables) -> dict[str, list[WorkTree]]:
    """Return the operators of each run with a trace that has device work and names operators."""
    return grouped(
        (tree.run, tree)
        for tree in (operator_trees(tables) if tables.count("events") else ())
        if tree.work and OPERATOR in tree.kinds
    )


def operator_tree(trees: Sequence[WorkTree], members: Sequence[TraceDevice], steps: Ints | None) -> OperatorNode:
    """Return the operators of a run in these steps as one tree; its ranks are one, and so are numbered ranges.

    Args:
        trees: The trees of the files of the run.
        members: The devices of the run.
        steps: Numbers of the steps; None: the whole trace.
    """
    roots = [_tree_of_file(tree, len(members), len(trees), steps) for tree in trees]
    return merged(roots)


def _tree_of_file(tree: WorkTree, devices: int, files: int, steps: Ints | None) -> OperatorNode:
    number, size = 1 if steps is None else max(len(steps), 1), len(tree.names)
    own = np.zeros((size, 1 if steps is None else len(steps)), np.int64)
    kernels: list[dict[str, float]] = [{} for _ in range(size)]
    for device, nodes in tree.work:
        own += work_times(device, steps, nodes, size)
        for node, name, time, _ in work_by_name(device, nodes, places_of_work(device, steps) >= 0):
            kernels[node][name] = kernels[node].get(name, 0.0) + time / _NS / devices / number
    calls = _calls(tree, steps, size) / files / number
    times = seconds(own) / devices
    root = OperatorNode("", None)
    made: list[OperatorNode] = []
    for index, parent in enumerate(tree.parents.tolist()):
        around = root if parent == NO_CALL else made[parent]
        made.append(
            OperatorNode(
                tree.names[index], tree.kinds[index], tree.shapes[index], {tree.run: times[index]},
                {tree.run: float(calls[index])}, kernels[index],
            )
        )  # fmt: skip
        around.inside[made[-1].key] = made[-1]
    return root


def _calls(tree: WorkTree, steps: Ints | None, size: int) -> Ints:
    """Number of calls of each node that begin in these steps."""
    nodes, starts = tree.calls
    if steps is not None:
        nodes = nodes[np.isin(step_at(tree.work[0][0].steps, starts), steps)]
    return np.bincount(nodes, minlength=size)
