"""Work of devices by the named ranges and modules of the program that launched it, as a tree.

Ranges are those that the program names (`record_function`, NVTX, roctx), and modules of a model that the profiler names
(`nn.Module: Linear_0`). Work belongs to the innermost range around the call that launched it, whenever it ran. Autograd
launches the work of a backward in a thread of its own, which does not see the ranges of the program: its functions
there count as a range, BACKWARD. Numbered steps are one range: `ProfilerStep#7` is `ProfilerStep#N`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, Options, Tables, cached, metric
from perflog.metrics.traces.call_tree import NO_CALL, CallTree, Ints, call_trees
from perflog.metrics.traces.device_work import STEP_NAME, TraceDevice, integers, seconds, trace_devices
from perflog.tables.nulls import int_or_none

if TYPE_CHECKING:
    import pandas as pd

BACKWARD = "backward (autograd)"
"""The range of all functions that autograd runs."""

OUTSIDE, UNKNOWN = "(outside of ranges)", "(launch not known)"
"""In place of a range: the launch is in no range; the trace does not tell which call launched the work."""

PATH_MARK = " > "
"""Between the names of a path."""

# In 2021 the profiler wrote its steps as operators.
_PROFILER_STEP, _MODULE, _AUTOGRAD = "ProfilerStep#", "nn.Module: ", "autograd::engine::evaluate_function: "

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("rank", meaning="rank of the trace"),
    MetricColumn(
        "range",
        meaning="name of the range or module, depth first, the longest first; N stands for the numbers of steps; "
        f"{OUTSIDE}, {UNKNOWN}: all other work",
    ),
    MetricColumn("depth", meaning="number of ranges around it"),
    MetricColumn(
        "kind", meaning="step: all numbered ranges of a name; range; module; autograd: all functions of a backward"
    ),
    MetricColumn("entered", meaning="number of times that it was entered"),
    MetricColumn("launched", meaning="number of kernels, copies and memsets launched in it, in nested ranges too"),
    MetricColumn("gpu_s", "s", "lower", "inclusive GPU time: sum of all work launched in it, in nested ranges too"),
    MetricColumn("share", "1", None, "gpu_s / sum of the times of all work of the file's devices"),
    MetricColumn("exclusive_s", "s", "lower", "GPU time of the work launched outside of nested ranges"),
    MetricColumn("host_s", "s", "lower", "time of the host between its begin and end"),
    MetricColumn(
        "path", meaning=f"names of the ranges around it and its own, with `{PATH_MARK.strip()}` in between", brief=False
    ),
    MetricColumn("first_line", meaning="line of its first entry in the trace's file", brief=False),
)


@dataclass(frozen=True, eq=False)
class RangeTree:
    """The ranges of one file of a run. All sequences and arrays have an entry for each range, parents before children.

    `parents`: index of the range around, or NO_CALL. `host_ns`: host time. `work`: each device of the file with the
    index of the range that launched each piece of its work.
    """

    run: str
    label: str | None
    rank: int | None
    names: Sequence[str]
    kinds: Sequence[str | None]
    parents: Ints
    entered: Ints
    host_ns: Ints
    lines: Sequence[int | None]
    work: Sequence[tuple[TraceDevice, Ints]]

    def paths(self) -> list[str]:
        """The path of each range."""
        paths: list[str] = []
        for name, parent in zip(self.names, self.parents.tolist(), strict=True):
            paths.append(name if parent == NO_CALL else f"{paths[parent]}{PATH_MARK}{name}")
        return paths

    def with_nested(self, own: Ints) -> Ints:
        """Sums over each range and the ranges inside it. `own`: numbers by range, in the first dimension."""
        sums = own.copy()
        for index in range(len(sums) - 1, -1, -1):
            if self.parents[index] != NO_CALL:
                sums[self.parents[index]] += sums[index]
        return sums


@metric(
    title="device ranges: GPU time by range and module",
    needs=("events",),
    columns=_COLUMNS,
    main="gpu_s",
    formula="exclusive = sum of the work whose launching call lies in the range and in no range inside it; inclusive = "
    "exclusive + inclusive of the ranges inside; the exclusive times add up to the time of all work",
    source="the launching call is the one with the correlation number of the work, or the operator with its external "
    "number; ranges by the thread and the time of that call",
)
def device_ranges(tables: Tables, options: Options) -> pd.DataFrame:  # noqa: ARG001 (all metrics take the same)
    """The tree of the ranges and modules of each trace, with the GPU time of what was launched in them.

    Work is counted where it was launched, whenever it ran: a range that ends before its work has run has all of it.
    Times of several streams add up, so the sum may be above the time in which the device is busy. `gpu_s` is null
    where the trace has no work of a device.

    Example:
        >>> table = perflog.metrics.device_ranges(perflog.read("trace.json"))
        >>> table[["range", "depth", "gpu_s", "host_s"]].head(2).round(3)
                    range  depth  gpu_s  host_s
        ...
    """
    import pandas as pd

    rows = [row for tree in range_trees(tables) for row in _rows(tree)]
    whole = dict.fromkeys(("rank", "depth", "entered", "launched", "first_line"), "Int64")
    figures = dict.fromkeys(("gpu_s", "share", "exclusive_s", "host_s"), "float64")
    return pd.DataFrame(rows, columns=[c.name for c in _COLUMNS]).astype(whole | figures)


def range_trees(tables: Tables) -> list[RangeTree]:
    """Return the ranges of all files of traces that have any."""
    return cached(tables, "ranges of traces", lambda: _range_trees(tables))


def _range_trees(tables: Tables) -> list[RangeTree]:
    devices: dict[tuple[str, int], list[TraceDevice]] = {}
    for device in trace_devices(tables):
        devices.setdefault((device.run, device.part), []).append(device)
    labels = dict(zip(tables["runs"]["run"], tables["runs"]["label"], strict=True))
    trees = (
        _range_tree(calls, labels[calls.run], devices.get((calls.run, calls.part), []))
        for calls in call_trees(tables, "rank", name=lambda kind, name: kind != "python" or name.startswith(_MODULE))
    )
    return [tree for tree in trees if tree is not None]


def last_of_path(path: str) -> str:
    """Return the name of the range that a path leads to."""
    return path.rpartition(PATH_MARK)[2]


def range_of(kind: str, name: str) -> tuple[str, str] | None:
    """Return name and kind of the range that a call of the host is, or None if it is none.

    Example:
        >>> range_of("range", "ProfilerStep#7"), range_of("cpu", "aten::mm")
        (('ProfilerStep#N', 'step'), None)
    """
    if kind == "python":
        return name.removeprefix(_MODULE), "module"
    if kind == "cpu" and name.startswith(_AUTOGRAD):
        return BACKWARD, "autograd"
    if (step := STEP_NAME.fullmatch(name)) and (kind == "range" or name.startswith(_PROFILER_STEP)):
        return name[: step.start(2)] + "N", "step"
    return (name, "range") if kind == "range" else None


def _range_tree(calls: CallTree, label: str | None, devices: Sequence[TraceDevice]) -> RangeTree | None:
    """The ranges among the calls of a file; None if there are none."""
    pairs = list(zip(calls.kinds, calls.rows["name"], strict=True))
    named = {(kind, name): range_of(kind, name) for kind, name in dict.fromkeys(pairs)}
    distinct = {each: code for code, each in enumerate(dict.fromkeys(filter(None, named.values())))}
    if not distinct:
        return None
    code_of = {pair: NO_CALL if each is None else distinct[each] for pair, each in named.items()}
    codes = np.array([code_of[pair] for pair in pairs], np.int64)
    around = calls.nearest(codes != NO_CALL)
    ranges = np.flatnonzero(codes != NO_CALL)
    outer = np.where(calls.parents[ranges] == NO_CALL, NO_CALL, around[calls.parents[ranges]])
    node = np.full(len(calls) + 1, NO_CALL, np.int64)  # the last is that of NO_CALL
    parents: list[int] = []
    texts: list[tuple[str, str]] = []
    words = list(distinct)
    level = ranges[outer == NO_CALL]
    while len(level):
        above = np.where(calls.parents[level] == NO_CALL, NO_CALL, node[around[calls.parents[level]]])
        keys, of_key = np.unique(above * len(words) + codes[level], return_inverse=True)
        node[level] = of_key + len(parents)
        parents += (keys // len(words)).tolist()
        texts += [words[code] for code in (keys % len(words)).tolist()]
        level = ranges[np.isin(outer, level)]
    entered, host = np.zeros(len(parents), np.int64), np.zeros(len(parents), np.int64)
    np.add.at(entered, node[ranges], 1)
    np.add.at(host, node[ranges], calls.ends[ranges] - calls.starts[ranges])
    lines = np.full(len(parents), np.iinfo(np.int64).max)
    np.minimum.at(lines, node[ranges], integers(calls.rows["line"])[ranges])
    ranks = calls.rows["rank"].dropna().unique()
    outside = len(parents)
    launched = []
    for device in devices:
        call = calls.launches(device.rows)
        known = node[np.where(call == NO_CALL, NO_CALL, around[call])]
        launched.append((device, np.where(call == NO_CALL, outside + 1, np.where(known == NO_CALL, outside, known))))
    other = range(max((int(nodes.max(initial=0)) for _, nodes in launched), default=0) + 1 - outside)
    return RangeTree(
        run=calls.run,
        label=label,
        rank=int_or_none(ranks[0]) if len(ranks) == 1 else None,
        names=[*(name for name, _ in texts), *((OUTSIDE, UNKNOWN)[i] for i in other)],
        kinds=[*(kind for _, kind in texts), *(None for _ in other)],
        parents=np.array([*parents, *(NO_CALL for _ in other)], np.int64),
        entered=np.append(entered, [0 for _ in other]).astype(np.int64),
        host_ns=np.append(host, [0 for _ in other]).astype(np.int64),
        lines=[*lines.tolist(), *(None for _ in other)],
        work=launched,
    )


def _rows(tree: RangeTree) -> list[dict[str, Any]]:
    """Rows of the metric, depth first, the longest first. All other work comes last."""
    own, number = np.zeros(len(tree.names), np.int64), np.zeros(len(tree.names), np.int64)
    for device, nodes in tree.work:
        np.add.at(own, nodes, device.ends - device.starts)
        np.add.at(number, nodes, 1)
    inclusive, launched, total = tree.with_nested(own), tree.with_nested(number), int(own.sum())
    paths, has_work = tree.paths(), bool(tree.work)
    rows = []
    for index, depth in _depth_first(tree, inclusive):
        named = tree.kinds[index] is not None
        if not named and not number[index]:
            continue
        row: dict[str, Any] = {
            "run": tree.run, "label": tree.label, "rank": tree.rank, "range": tree.names[index], "depth": depth,
            "kind": tree.kinds[index], "path": paths[index], "first_line": tree.lines[index],
        }  # fmt: skip
        if named:
            row |= {"entered": int(tree.entered[index]), "host_s": float(seconds(tree.host_ns[index]))}
        if has_work:
            row |= {
                "launched": int(launched[index]),
                "gpu_s": float(seconds(inclusive[index])),
                "share": inclusive[index] / total if total else None,
                "exclusive_s": float(seconds(own[index])),
            }
        rows.append(row)
    return rows


def _depth_first(tree: RangeTree, size: Ints) -> list[tuple[int, int]]:
    """Index and depth of the ranges, each after its parent, the largest first: by GPU time, then by host time."""
    inside: dict[int, list[int]] = {}
    for index in np.lexsort((tree.host_ns, size)).tolist():  # the largest is last, and taken first
        inside.setdefault(int(tree.parents[index]), []).append(index)
    other = [index for index in inside.get(NO_CALL, []) if tree.kinds[index] is None]
    named = [index for index in inside.get(NO_CALL, []) if tree.kinds[index] is not None]
    stack = [(index, 0) for index in sorted(other, reverse=True) + named]
    order = []
    while stack:
        index, depth = stack.pop()
        order.append((index, depth))
        stack += [(each, depth + 1) for each in inside.get(index, [])]
    return order
