"""Work of devices by the named ranges and modules of the program that launched it, as a tree.

Ranges are those that the program names (`record_function`, NVTX, roctx), and modules of a model that the profiler names
(`nn.Module: Linear_0`). Work belongs to the innermost range around the call that launched it, whenever it ran. Autograd
launches the work of a backward in a thread of its own, which does not see the ranges of the program: its functions
there count as a range, BACKWARD. Numbered steps are one range: `ProfilerStep#7` is `ProfilerStep#N`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from perflog.arrays import Floats, Ints
from perflog.metrics.compared import ALL, Measure, Sample, Steady
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables, computed_once
from perflog.metrics.traces.device_work import STEP_NAME, seconds
from perflog.metrics.traces.operators.device_kernels import times_by_name
from perflog.metrics.traces.steady_work import SteadyDevices, steady_devices, work_times
from perflog.metrics.traces.work_tree import OUTSIDE, PATH_MARK, UNKNOWN, Word, WorkTree, work_trees

BACKWARD = "backward (autograd)"
"""The range of all functions that autograd runs."""

# In 2021 the profiler wrote its steps as operators.
_PROFILER_STEP, _MODULE, _AUTOGRAD = "ProfilerStep#", "nn.Module: ", "autograd::engine::evaluate_function: "

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("rank", meaning="rank of the trace", type="Int64"),
    MetricColumn(
        "range",
        meaning="name of the range or module, depth first, the longest first; N replaces the numbers of steps; "
        f"{OUTSIDE}, {UNKNOWN}: all other work",
    ),
    MetricColumn("depth", meaning="number of ranges around it", type="Int64"),
    MetricColumn(
        "kind", meaning="step: all numbered ranges of a name; range; module; autograd: all functions of a backward"
    ),
    MetricColumn("entered", meaning="number of times that it was entered", type="Int64"),
    MetricColumn(
        "launched", meaning="number of kernels, copies and memsets launched in it, in nested ranges too", type="Int64"
    ),
    MetricColumn("gpu_s", "s", "lower", "inclusive GPU time: sum of all work launched in it, in nested ranges too"),
    MetricColumn("share", "1", None, "gpu_s / sum of the times of all work of the file's devices"),
    MetricColumn("exclusive_s", "s", "lower", "GPU time of the work launched outside of nested ranges"),
    MetricColumn("host_s", "s", "lower", "time of the host between its begin and end"),
    MetricColumn(
        "path", meaning=f"names of the ranges around it and its own, with `{PATH_MARK.strip()}` in between", brief=False
    ),
    MetricColumn("first_line", meaning="line of its first entry in the trace's file", brief=False, type="Int64"),
)


def _samples(tables: Tables, steady: Steady) -> Iterator[Sample]:
    """Yield the inclusive GPU time of each range in each steady step, the mean over devices, all work first.

    Only runs with a trace that names more ranges than its steps. Work launched in no range has a name of its own.
    """
    by_run: dict[str, list[WorkTree]] = {}
    for tree in range_trees(tables):
        if tree.work and any(kind not in (None, "step") for kind in tree.kinds):
            by_run.setdefault(tree.run, []).append(tree)
    for steady_device in steady_devices(tables, steady):
        if steady_device.run in by_run and (steady_device.steps is None or len(steady_device.steps)):
            total = np.sum(list(times_by_name(tables, steady_device).values()), axis=0)
            yield Measure("range", ALL), steady_device.run, total
            for path, around, times in _times_by_path(by_run[steady_device.run], steady_device):
                yield Measure("range", path, of=around or ALL), steady_device.run, times


def _times_by_path(trees: Sequence[WorkTree], devices: SteadyDevices) -> Iterator[tuple[str, str | None, Floats]]:
    """Yield the path of each range, the path of the range around it, and its times."""
    sums: dict[str, Ints] = {}
    around: dict[str, str | None] = {}
    for tree in trees:
        own = np.sum([work_times(device, devices.steps, nodes, len(tree.names)) for device, nodes in tree.work], axis=0)
        paths = tree.paths()
        for path, parent, times in zip(paths, tree.parents.tolist(), tree.with_nested(own), strict=True):
            around[path] = paths[parent] if parent >= 0 else None
            sums[path] = sums[path] + times if path in sums else times
    for path, times in sums.items():
        if times.any():
            yield path, around[path], seconds(times) / len(devices.devices)


@metric(
    title="device ranges: GPU time by range and module",
    needs=("events",),
    columns=_COLUMNS,
    main="gpu_s",
    formula="exclusive = sum of the work launched by calls in the range and in no range inside it; inclusive = "
    "exclusive + inclusive of the ranges inside; the exclusive times add up to the time of all work",
    source="the launching call is the one with the correlation number of the work, or the operator with its external "
    "number; ranges by the thread and the time of that call",
    compares=(_samples,),
)
def device_ranges(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
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
    return [row for tree in range_trees(tables) for row in _rows(tree)]


@computed_once
def range_trees(tables: Tables) -> list[WorkTree]:
    """Return the ranges of all files of traces that have any, as a tree."""
    return work_trees(tables, _range_word)


def _range_word(kind: str, name: str, shapes: str | None) -> Word | None:  # noqa: ARG001 (all words take the same)
    found = range_of(kind, name)
    return Word(*found) if found else None


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


def _rows(tree: WorkTree) -> list[dict[str, object]]:
    """Rows of the metric, depth first, the longest first. All other work comes last."""
    sums, paths, has_work = tree.sums(), tree.paths(), bool(tree.work)
    rows = []
    for index, depth in tree.depth_first(sums.inclusive):
        named = tree.kinds[index] is not None
        if not named and not sums.launched[index]:
            continue
        row: dict[str, object] = {
            "run": tree.run, "rank": tree.rank, "range": tree.names[index], "depth": depth,
            "kind": tree.kinds[index], "path": paths[index], "first_line": tree.lines[index],
        }  # fmt: skip
        if named:
            row |= {"entered": int(tree.entered[index]), "host_s": float(seconds(tree.host_ns[index]))}
        if has_work:
            row |= sums.figures(index)
        rows.append(row)
    return rows
