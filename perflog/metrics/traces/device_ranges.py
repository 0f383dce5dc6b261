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
from perflog.metrics.traces.device_work import STEP_NAME, TraceDevice, seconds
from perflog.metrics.traces.launches import Launches, launches_by_file
from perflog.statistics.groups import groups_of
from perflog.tables.columns import NULL

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

_KINDS = ("range", "python", "cpu")

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
    part: int
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
    found = {(calls.run, calls.part): calls for calls in call_trees(tables, "rank", kinds=_KINDS, name=_is_range)}
    labels = dict(tables.rows("runs").records("run", "label"))
    trees = [
        _range_tree(found.pop(place), labels[place[0]], devices)
        for place, devices in launches_by_file(tables)
        if place in found
    ]
    trees += [_range_tree(calls, labels[calls.run], []) for calls in found.values()]
    return sorted(trees, key=lambda tree: (tree.run, tree.part))


def _is_range(kind: str, name: str) -> bool:
    return range_of(kind, name) is not None


def last_of_path(path: str) -> str:
    """Return the name of the range that a path leads to."""
    return path.rpartition(PATH_MARK)[2]


def range_of(kind: str, name: str) -> tuple[str, str] | None:
    """Return name and kind of the range that a call of the host is, or None if it is none.

    Example:
        >>> range_of("range", "ProfilerStep#7"), range_of("cpu", "aten::mm")
        (('ProfilerStep#N', 'step'), None)
    """
    if kind == "python" and name.startswith(_MODULE):
        return name.removeprefix(_MODULE), "module"
    if kind == "cpu" and name.startswith(_AUTOGRAD):
        return BACKWARD, "autograd"
    if (step := STEP_NAME.fullmatch(name)) and (kind == "range" or name.startswith(_PROFILER_STEP)):
        return name[: step.start(2)] + "N", "step"
    return (name, "range") if kind == "range" else None


def _range_tree(calls: CallTree, label: str | None, devices: Sequence[tuple[TraceDevice, Launches]]) -> RangeTree:
    """The tree of the ranges of a file: those of one name and one path are one."""
    (kind, kinds), (name, names) = calls.rows.codes("kind"), calls.rows.codes("name")
    pairs = groups_of(kind, name)
    texts = [range_of(kinds[kind[call]], names[name[call]]) or ("", "") for call in pairs.first.tolist()]
    words = list(dict.fromkeys(texts))
    codes = np.array([words.index(text) for text in texts], np.int64)[pairs.of_row]
    node, parents, of_node = _joined(calls.parents, codes)
    entered, host = np.bincount(node, minlength=len(parents)), np.zeros(len(parents), np.int64)
    np.add.at(host, node, calls.ends - calls.starts)
    lines = np.full(len(parents), np.iinfo(np.int64).max)
    np.minimum.at(lines, node, calls.rows["line"])
    outside, unknown = len(parents), len(parents) + 1
    launched = []
    for device, launches in devices:
        around = np.append(node, outside)[calls.around(launches)]  # the last is that of NO_CALL
        launched.append((device, np.where(launches.starts == NULL, unknown, around)))
    other = range(max((int(nodes.max(initial=0)) for _, nodes in launched), default=0) + 1 - outside)
    ranks = np.unique(calls.rows["rank"])
    return RangeTree(
        run=calls.run,
        part=calls.part,
        label=label,
        rank=int(ranks[0]) if len(ranks) == 1 and ranks[0] != NULL else None,
        names=[*(words[code][0] for code in of_node), *((OUTSIDE, UNKNOWN)[i] for i in other)],
        kinds=[*(words[code][1] for code in of_node), *(None for _ in other)],
        parents=np.array([*parents, *(NO_CALL for _ in other)], np.int64),
        entered=np.append(entered, [0 for _ in other]).astype(np.int64),
        host_ns=np.append(host, [0 for _ in other]).astype(np.int64),
        lines=[*lines.tolist(), *(None for _ in other)],
        work=launched,
    )


def _joined(parents: Ints, codes: Ints) -> tuple[Ints, list[int], list[int]]:
    """Join the calls of one code that lie in joined calls.

    Returns:
        The node of each call; and for each node the node around it, or NO_CALL, and its code. Parents come first.
    """
    node = np.full(len(parents), NO_CALL, np.int64)
    around: list[int] = []
    of_node: list[int] = []
    level = np.flatnonzero(parents == NO_CALL)
    while len(level):
        above = np.append(node, NO_CALL)[parents[level]]
        joined = groups_of(above, codes[level])
        node[level] = joined.of_row + len(around)
        around += above[joined.first].tolist()
        of_node += codes[level[joined.first]].tolist()
        is_above = np.zeros(len(parents) + 1, np.bool_)
        is_above[level] = True
        level = np.flatnonzero(is_above[parents])
    return node, around, of_node


def _rows(tree: RangeTree) -> list[dict[str, Any]]:
    """Rows of the metric, depth first, the longest first. All other work comes last."""
    own, number = np.zeros(len(tree.names), np.int64), np.zeros(len(tree.names), np.int64)
    for device, nodes in tree.work:
        np.add.at(own, nodes, device.work.ends - device.work.starts)
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
