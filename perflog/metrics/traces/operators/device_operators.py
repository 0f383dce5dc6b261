"""Work of devices by operators: the tree of operators, ranges and modules around the calls that launched it.

An operator is identified by its name, the shapes of its inputs where the trace prints them, and all that is around it.
"""

from __future__ import annotations

from collections.abc import Mapping

from perflog.metrics.options import Options
from perflog.metrics.profiles.kernel_names import short_kernel
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables, computed_once
from perflog.metrics.traces.call_tree import NO_CALL
from perflog.metrics.traces.device_work import seconds
from perflog.metrics.traces.input_shapes import nvtx_operator, shapes_text
from perflog.metrics.traces.operators.device_ranges import range_of
from perflog.metrics.traces.work_tree import (
    OUTSIDE,
    PATH_MARK,
    UNKNOWN,
    Word,
    WorkTree,
    work_by_name,
    work_trees,
)
from perflog.units import first_few

OPERATOR = "operator"
"""The kind of a call that is no range and no module."""

_KERNELS = 3  # that a row names

Launched = Mapping[str, tuple[int, int]]
"""Kernels, copies and memsets by name: their time in ns, and their number."""

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("rank", meaning="rank of the trace", type="Int64"),
    MetricColumn(
        "operator",
        meaning="name of the operator, range or module, depth first, the longest first; N replaces the numbers of "
        f"steps; {OUTSIDE}, {UNKNOWN}: all other work",
    ),
    MetricColumn("shapes", meaning="shapes of its inputs that are tensors; null: not printed"),
    MetricColumn("depth", meaning="number of operators and ranges around it", type="Int64"),
    MetricColumn("kind", meaning="operator, step, range, module, autograd", brief=False),
    MetricColumn("calls", meaning="number of its calls", type="Int64"),
    MetricColumn("launched", meaning="number of kernels, copies and memsets launched in it, in nested operators too",
                 type="Int64"),
    MetricColumn("gpu_s", "s", "lower", "inclusive GPU time: sum of all work launched in it, in nested operators too"),
    MetricColumn("share", "1", None, "gpu_s / sum of the times of all work of the file's devices"),
    MetricColumn("exclusive_s", "s", "lower", "GPU time of the work launched outside of nested operators"),
    MetricColumn("host_s", "s", "lower", "time of the host between its begin and end"),
    MetricColumn("kernels", meaning="short names of what it launched, the longest first"),
    MetricColumn(
        "path", meaning=f"names of what is around it and its own, with `{PATH_MARK.strip()}` in between", brief=False
    ),
    MetricColumn("first_line", meaning="line of its first call in the trace's file", brief=False, type="Int64"),
)  # fmt: skip


@metric(
    title="device operators: GPU time by operator",
    needs=("events",),
    columns=_COLUMNS,
    main="gpu_s",
    formula="exclusive = sum of the work launched by calls in the operator and in none inside it; inclusive = "
    "exclusive + inclusive of the operators inside; the exclusive times add up to the time of all work",
    source="the launching call is the one with the correlation number of the work, or the operator with its external "
    "number; operators and ranges by the thread and the time of that call",
)
def device_operators(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """The tree of operators, ranges and modules of each trace, with the GPU time of what was launched in them.

    Operators of one name with different shapes of their inputs have separate rows. An operator without work of a device
    is left out. Traces without operators have the tree of their ranges.

    Example:
        >>> table = perflog.metrics.device_operators(perflog.read("trace.json"))
        >>> table[["operator", "depth", "calls", "gpu_s"]].head(2).round(6)
                operator  depth  calls     gpu_s
        ...
    """
    return [row for tree in operator_trees(tables) for row in _rows(tree)]


@computed_once
def operator_trees(tables: Tables) -> list[WorkTree]:
    """Return the operators, ranges and modules of all files of traces that have any, as trees."""
    return work_trees(tables, operator_word, with_shapes=True)


def operator_word(kind: str, name: str, shapes: str | None) -> Word | None:
    """Return the word of a call of the host in a tree of operators; None for a Python function that is no module."""
    if kind == "range" and (operator := nvtx_operator(name)):
        kind, (name, shapes) = "cpu", operator
    if found := range_of(kind, name):
        return Word(*found)
    return Word(name, OPERATOR, shapes_text(shapes)) if kind == "cpu" else None


def launched_by_name(tree: WorkTree) -> list[Launched]:
    """Return the work launched in each node and the nodes inside it, by name."""
    sums: list[dict[str, tuple[int, int]]] = [{} for _ in tree.names]
    for device, nodes in tree.work:
        for node, name, time, number in work_by_name(device, nodes):
            _add(sums[node], {name: (time, number)})
    for index in range(len(sums) - 1, -1, -1):
        if (parent := int(tree.parents[index])) != NO_CALL:
            _add(sums[parent], sums[index])
    return list(sums)


def _add(sums: dict[str, tuple[int, int]], more: Launched) -> None:
    for name, (time, number) in more.items():
        known = sums.get(name, (0, 0))
        sums[name] = known[0] + time, known[1] + number


def kernels_text(times: Mapping[str, float]) -> str | None:
    """Return the short names of kernels, the longest time first; None if there are none."""
    shorts = dict.fromkeys(short_kernel(name) for name in sorted(times, key=lambda name: (-times[name], name)))
    return first_few(shorts, _KERNELS) or None


def _rows(tree: WorkTree) -> list[dict[str, object]]:
    """Rows of the metric, depth first, the longest first. All other work comes last."""
    sums, paths, by_name = tree.sums(), tree.paths(), launched_by_name(tree)
    rows = []
    for index, depth in tree.depth_first(sums.inclusive):
        if not sums.launched[index]:
            continue
        named = tree.kinds[index] is not None
        rows.append(
            {
                "run": tree.run, "rank": tree.rank, "operator": tree.names[index],
                "shapes": tree.shapes[index], "depth": depth, "kind": tree.kinds[index],
                "calls": int(tree.entered[index]) if named else None, **sums.figures(index),
                "host_s": float(seconds(tree.host_ns[index])) if named else None,
                "kernels": kernels_text({name: time for name, (time, _) in by_name[index].items()}),
                "path": paths[index], "first_line": tree.lines[index],
            }
        )  # fmt: skip
    return rows
