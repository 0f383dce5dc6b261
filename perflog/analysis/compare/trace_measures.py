"""Measures of traces that are compared: times of devices per steady step by state, by kernel and by range."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from perflog.metrics.registry import Options, Tables
from perflog.metrics.traces.collective_bandwidth import KERNEL, collective_bandwidth
from perflog.metrics.traces.collective_volume import collective_volume
from perflog.metrics.traces.collective_wait import stragglers
from perflog.metrics.traces.counters import counters
from perflog.metrics.traces.critical_path import kinds_on_paths
from perflog.metrics.traces.device_memory import ALLOCATOR_TOTALS
from perflog.metrics.traces.device_ranges import range_trees
from perflog.metrics.traces.device_steps import StepWindows
from perflog.metrics.traces.device_time import device_time_columns
from perflog.metrics.traces.device_work import Ints, TraceDevice, seconds, trace_devices
from perflog.metrics.traces.host_operators import host_operators
from perflog.metrics.traces.idle_causes import DeviceIdle, idle_causes
from perflog.metrics.traces.input_shapes import shapes_text
from perflog.metrics.traces.memory import holders_of, memory_holders, memory_peak
from perflog.metrics.traces.operator_efficiency import operator_efficiency
from perflog.metrics.traces.operator_work import COMMUNICATION, PRODUCTS
from perflog.metrics.traces.path_walk import UNKNOWN_WAIT
from perflog.metrics.traces.work_tree import WorkTree
from perflog.statistics.samples import Floats
from perflog.tables.nulls import none_if_null

if TYPE_CHECKING:
    import pandas as pd

STATES = {
    "compute": "compute", "exposed_communication": "communication", "exposed_memory": "memory", "waiting": "waiting",
    "idle": "idle",
}  # fmt: skip
"""The states that a device's time divides into, each with its name in metric `device_time`."""

SHARES = ("busy", "overlap")
"""Shares that are compared too: busy time of all time, hidden communication of all communication."""


_UNNAMED = "<NA>"
_LEAST_OPERATOR = 1e-3  # of the time of all work
_IDLE = {
    "host": "host-bound idle", "sync": "idle after a synchronisation", "data": "idle while data is loaded",
    "launch": "idle while a launch arrives", "waiting": "idle with work queued",
}  # fmt: skip


def devices_by_run(tables: Tables) -> dict[str, list[TraceDevice]]:
    """Return the devices of each run that has a trace."""
    by_run: dict[str, list[TraceDevice]] = {}
    for device in trace_devices(tables) if tables.count("events") else ():
        if device.busy:
            by_run.setdefault(device.run, []).append(device)
    return by_run


def ranges_by_run(tables: Tables) -> dict[str, list[WorkTree]]:
    """Return the ranges of each run whose trace has work of a device and names more ranges than its steps."""
    by_run: dict[str, list[WorkTree]] = {}
    for tree in range_trees(tables) if tables.count("events") else ():
        if tree.work and any(kind not in (None, "step") for kind in tree.kinds):
            by_run.setdefault(tree.run, []).append(tree)
    return by_run


def idle_by_run(tables: Tables) -> dict[str, list[DeviceIdle]]:
    """Return the idle time of the devices of each run by cause."""
    by_run: dict[str, list[DeviceIdle]] = {}
    for idle in idle_causes(tables) if tables.count("events") else ():
        by_run.setdefault(idle.device.run, []).append(idle)
    return by_run


def steady_steps(members: list[TraceDevice], first: int | None, cut: int) -> Ints | None:
    """Return the steady steps that all devices of a run have: from step `first` on, or without the first `cut` steps.

    None where the devices have no annotated step in common.
    """
    common = members[0].steps.numbers
    for device in members[1:]:
        common = np.intersect1d(common, device.steps.numbers)
    if not len(common):
        return None
    return common[cut:] if first is None else common[common >= first]


def state_values(members: list[TraceDevice], steps: Ints | None) -> Iterator[tuple[str, Floats]]:
    """Yield the time of each state in each of these steps (mean over devices), then the shares `busy` and `overlap`.

    Without steps, the values are those of the whole trace.
    """
    divided_times = [device_time_columns(device, *_windows(device, steps)) for device in members]
    columns = STATES | {"span": "span", "busy": "busy"}
    means = {
        name: np.mean([times[f"{column}_s"] for times in divided_times], axis=0) for name, column in columns.items()
    }
    communicating = [times["communicating_s"] for times in divided_times]
    hidden = [np.nan_to_num(t["overlap"]) * total for t, total in zip(divided_times, communicating, strict=True)]
    yield from ((name, means[name]) for name in STATES)  # also states without time: the other side may have some
    if means["span"].all():
        yield "busy", means["busy"] / means["span"]
    total = np.sum(communicating, axis=0)
    if total.any():  # overlap is not defined for steps without communication
        yield "overlap", np.sum(hidden, axis=0)[total > 0] / total[total > 0]


def idle_times(idle: list[DeviceIdle], steps: Ints | None) -> Iterator[tuple[str, Floats]]:
    """Yield the idle time of each cause in each of these steps, the mean over devices; without steps, in the trace."""
    times = [_windows(each.device, steps) for each in idle]
    for cause, name in _IDLE.items():
        sums = [getattr(each, cause).inside(*window) for each, window in zip(idle, times, strict=True)]
        if np.any(sums):
            yield name, seconds(np.mean(sums, axis=0))


def collective_figures(tables: Tables) -> Iterator[tuple[str, str, str, float]]:
    """Yield run, name, unit and value of the figures of collectives: bus bandwidths, then the mean wait of a rank.

    Kernels of single ranks have their waiting in their time, so their bandwidth has a name of its own.
    """
    if not tables.count("events"):
        return
    rows = collective_bandwidth.table(tables, Options())
    rows = rows[rows["run"].notna() & (rows["busbw"] > 0)]
    keys = ["run", "op", "group", "group_ranks", "dtype", "timed"]
    for values, alike in rows.groupby(keys, dropna=False, sort=False):
        run, op, group, ranks, dtype, timed = map(none_if_null, values)
        where = None if group is None else f"group {group}"
        words = (f"{op} bus bandwidth", where, ranks, dtype, "with waiting" if timed == KERNEL else None)
        times = alike["bytes"].astype(float) / alike["busbw"].astype(float)
        yield run, ", ".join(word for word in words if word), "GB/s", float(alike["bytes"].sum() / times.sum())
    rows = stragglers.table(tables, Options())
    for run, of_run in rows[rows["collectives"] > 0].groupby("run", sort=False):
        yield str(run), "wait of a rank, mean", "s", float(of_run["wait_s"].sum() / of_run["collectives"].sum())


def operator_rates(tables: Tables) -> Iterator[tuple[str, str, str, float]]:
    """Yield run, name, unit and rate of operators with the same shapes and type, over the ranks of a run.

    The rate is that of products, else that of the memory. Collectives, which have figures of their own, and operators
    that take less than a thousandth of the time of all work are left out.
    """
    if not tables.count("events"):
        return
    rows = operator_efficiency.table(tables, Options())
    whole = rows[rows["by"] == "trace"].groupby("run")["time_s"].sum()
    rows = rows[(rows["by"] == "shape") & ~rows["class"].isin([COMMUNICATION, None])]
    rows = rows[rows["inputs"].notna() & rows["dtype"].notna()]
    for values, alike in rows.groupby(["run", "operator", "inputs", "dtype"], sort=False):
        run, *words, dtype = map(str, values)
        time = float(alike["time_s"].sum())
        if time > _LEAST_OPERATOR * whole[run]:
            is_product = alike["class"].isin(PRODUCTS).all()
            amount = alike["flop" if is_product else "bytes"].sum(skipna=False)
            unit, size = ("TFLOP/s", 1e12) if is_product else ("GB/s", 1e9)
            if amount > 0:
                yield run, f"{' '.join(words)} ({dtype})", unit, float(amount) / time / size


def paths_by_run(tables: Tables) -> dict[str, pd.DataFrame]:
    """Return the rows of metric `critical_path` by kind, of each run with a trace, without unknown waits."""
    if not tables.count("events"):
        return {}
    rows = kinds_on_paths(tables)
    rows = rows[rows["kind"] != UNKNOWN_WAIT]
    return {str(run): of_run for run, of_run in rows.groupby("run", sort=False)}


def path_times(rows: pd.DataFrame, steps: Ints | None) -> Iterator[tuple[str, Floats]]:
    """Yield the time of each kind on the critical path in each of these steps, the mean over devices.

    `rows`: those of a run by kind. Without steps, the times are those of the whole trace.
    """
    devices = len(rows[["rank", "device", "device_name"]].drop_duplicates())
    rows = rows[rows["part"] == ("trace" if steps is None else "step")]
    times = rows.assign(step=0 if steps is None else rows["step"].astype("int64"))
    times = times.pivot_table("time_s", "step", "kind", aggfunc="sum", fill_value=0.0, sort=False)
    times = times.reindex([0] if steps is None else steps.tolist(), fill_value=0.0)
    yield from ((str(kind), times[kind].to_numpy(np.float64) / devices) for kind in times if times[kind].any())


_MEMORY = {"peak": "peak allocated", "reserved_peak": "peak reserved", "growth": "growth a step"}
_LEAST_HELD = 0.01  # of the peak: smaller holders are not compared


def memory_figures(tables: Tables) -> Iterator[tuple[str, str, str | None, float]]:
    """Yield run, name, holder and bytes of the memory of each run: that of the device, or of the host, that needs most.

    First the peaks and the growth from step to step, without a holder; then what each holder had at the peak.
    """
    if not tables.count("events"):
        return
    peaks = memory_peak.table(tables, Options())
    holders = memory_holders.table(tables, Options())
    for (run, memory), rows in peaks.groupby(["run", "memory"], sort=False):
        largest = rows.loc[rows["peak"].astype(float).idxmax()]
        for column, name in _MEMORY.items():
            if len(values := rows[column].dropna().astype(float)):
                yield run, f"{memory} memory, {name}", None, float(values.max())
        own = holders_of(largest.to_dict(), holders)
        own = own[own["share"].astype(float) >= _LEAST_HELD]
        for holder, size in own.groupby("holder", sort=False)["bytes"].sum().items():
            yield run, f"{memory} memory, peak allocated", str(holder), float(size)


def counter_means(tables: Tables) -> Iterator[tuple[str, str, str, float]]:
    """Yield run, name, unit and mean of each counter of whole devices: of all readings on all devices.

    What allocators print is left out: `memory_figures` has it.
    """
    if not tables.count("counters"):
        return
    rows = counters.table(tables, Options())
    rows = rows[rows["subject"].isna() & rows["mean"].notna() & ~rows["counter"].isin(ALLOCATOR_TOTALS)]
    for (run, name, unit), alike in rows.groupby(["run", "counter", "unit"], dropna=False, sort=False):
        weights = alike["readings"].astype(float)
        yield run, name, none_if_null(unit) or "", float((alike["mean"].astype(float) * weights).sum() / weights.sum())


def operator_figures(tables: Tables) -> Iterator[tuple[str, str, str | None, str, float]]:
    """Yield run, name, the name that it is part of, unit and value of the figures of operators of the host.

    Where they are timed, the self time in seconds of all, of each operator and of each of its shapes; else bytes of
    tensors and of collectives, and calls.
    """
    if not tables.count("events"):
        return
    rows, volumes = host_operators.table(tables, Options()), collective_volume.table(tables, Options())
    for run, of_run in rows.groupby("run", sort=False):
        shaped = of_run[of_run["shapes"].notna()]
        shapes = (shapes_text(printed) or "" for printed in shaped["shapes"])
        shaped = shaped.assign(name=[" ".join(words).strip() for words in zip(shaped["operator"], shapes, strict=True)])
        if of_run["self_s"].notna().any():
            yield str(run), "all", None, "s", float(of_run["self_s"].sum())
            for name, own in of_run.groupby("operator", sort=False)["self_s"].sum().items():
                yield str(run), str(name), "all", "s", float(own)
            # They are no parts of their operator: the other side may have no shapes.
            for name, own in shaped.groupby("name", sort=False)["self_s"].sum().items():
                yield str(run), str(name), None, "s", float(own)
            continue
        if of_run["bytes"].notna().any():
            yield str(run), "tensors of all operators", None, "B", float(of_run["bytes"].sum())
        yield str(run), "calls of all operators", None, "", float(of_run["calls"].sum())
        sizes = volumes[(volumes["run"] == run) & volumes["bytes"].notna()].groupby("op", sort=False)["bytes"].sum()
        yield from ((str(run), f"messages of {op}", None, "B", float(size)) for op, size in sizes.items())
        for name, of_name in shaped.groupby("name", sort=False):
            calls, size = float(of_name["calls"].sum()), float(of_name["bytes"].sum())
            yield str(run), f"calls of {name}", None, "", calls
            if size:
                yield str(run), f"tensors of {name}", None, "B", size


def kernel_times(members: list[TraceDevice], steps: Ints | None) -> Mapping[str, Floats]:
    """Return the time of each kernel, copy or memset by name in each of these steps, the mean over devices.

    An event belongs to the step that launched it; if the trace does not state it, to the step in which it began.
    Without steps, the times are those of the whole trace.
    """
    sums: dict[str, Ints] = {}
    for device in members:
        names, words = device.work.rows.codes("name")
        distinct, codes = np.unique(names, return_inverse=True)
        for name, times in zip(distinct.tolist(), work_times(device, steps, codes, len(distinct)), strict=True):
            word = words[name] if name >= 0 else _UNNAMED
            sums[word] = sums[word] + times if word in sums else times
    return {name: seconds(sums[name]) / len(members) for name in sorted(sums)}


def range_times(
    trees: list[WorkTree], members: list[TraceDevice], steps: Ints | None
) -> Iterator[tuple[str, str | None, Floats]]:
    """Yield path and path of the parent of each range, and its GPU time in each of these steps, the mean over devices.

    The times are inclusive. What is launched in no range has a name of its own, as in metric `device_ranges`.
    """
    sums: dict[str, Ints] = {}
    around: dict[str, str | None] = {}
    for tree in trees:
        own = np.sum([work_times(device, steps, nodes, len(tree.names)) for device, nodes in tree.work], axis=0)
        paths = tree.paths()
        for path, parent, times in zip(paths, tree.parents.tolist(), tree.with_nested(own), strict=True):
            around[path] = paths[parent] if parent >= 0 else None
            sums[path] = sums[path] + times if path in sums else times
    yield from ((path, around[path], seconds(times) / len(members)) for path, times in sums.items() if times.any())


def _windows(device: TraceDevice, steps: Ints | None) -> tuple[Ints, Ints]:
    """Starts and ends of these steps of a device; without steps, of the whole trace."""
    if steps is None:
        busy = device.work.busy
        return busy.starts[:1], busy.ends[-1:]
    order = np.argsort(device.steps.numbers)
    places = order[np.searchsorted(device.steps.numbers[order], steps)]
    return device.steps.starts[places], device.steps.ends[places]


def work_times(device: TraceDevice, steps: Ints | None, codes: Ints, size: int) -> Ints:
    """Return the time in ns of the events of each code, in each of these steps; without steps, of the whole trace."""
    work, number = device.work, 1 if steps is None else len(steps)
    sums = np.zeros(size * number, np.int64)
    place = places_of_work(device, steps)
    inside = place >= 0
    np.add.at(sums, codes[inside] * number + place[inside], (work.ends - work.starts)[inside])
    return sums.reshape(size, number)


def places_of_work(device: TraceDevice, steps: Ints | None) -> Ints:
    """Return the place of the step of each event among these steps, -1 if it is in none; without steps, 0."""
    if steps is None:
        return np.zeros(len(device.work.starts), np.int64)
    return _places(_step_of_event(device), steps)


def _places(step: Ints, steps: Ints) -> Ints:
    """The place of each step among some steps, -1 if it is none of them."""
    if not len(steps):
        return np.full(len(step), -1, np.int64)
    order = np.argsort(steps)
    place = order[np.minimum(np.searchsorted(steps, step, sorter=order), len(steps) - 1)]
    return np.where(steps[place] == step, place, -1)


def _step_of_event(device: TraceDevice) -> Ints:
    """Return the step of each event; -1 outside of all steps."""
    work = device.work
    if work.rows.known("step").any():
        launched_by: Ints = work.rows["step"]
        return launched_by
    return step_at(device.steps, work.starts)


def step_at(steps: StepWindows, times: Ints) -> Ints:
    """Return the step in which each time lies; -1 outside of all steps."""
    last_begun = np.searchsorted(steps.starts, times, "right") - 1
    inside = (last_begun >= 0) & (times < np.append(steps.ends, 0)[last_begun])
    return np.where(inside, np.append(steps.numbers, -1)[last_begun], -1)
