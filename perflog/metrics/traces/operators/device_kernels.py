"""Kernels of traces: time on each device by name and by category, as shares of three different totals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from perflog.arrays import Floats, Ints, Keys
from perflog.metrics.compared import ALL, Measure, Sample, Steady
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables, cached
from perflog.metrics.traces.device_work import DEVICE_COLUMNS, TraceDevice, seconds, trace_devices
from perflog.metrics.traces.intervals import union
from perflog.metrics.traces.steady_work import SteadyDevices, steady_devices, work_times
from perflog.tables.columns import NULL, Rows

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = (
    *RUN_COLUMNS,
    *DEVICE_COLUMNS,
    MetricColumn("by", meaning="name: as the trace prints it; category: what the names do"),
    MetricColumn("calls", meaning="number of calls", type="Int64"),
    MetricColumn("time_s", "s", "lower", "total time"),
    MetricColumn("share_kernel", "1", None, "time / sum of the times of all kernels, copies and memsets of the device"),
    MetricColumn("share_busy", "1", None, "time / busy time of the device; the sum is above 1 if streams overlap"),
    MetricColumn("share_step", "1", None, "time inside the annotated steps / their time; null without annotated steps"),
    MetricColumn("avg_s", "s", "lower", "time / calls"),
    MetricColumn("median_s", "s", "lower", "median of the calls", brief=False),
    MetricColumn("min_s", "s", "lower", "shortest call", brief=False),
    MetricColumn("max_s", "s", "lower", "longest call"),
    MetricColumn("tflops", "TFLOP/s", "higher", "FLOP that the trace states / time of these calls; null if none do"),
    MetricColumn("gbps", "GB/s", "higher", "bytes that the trace states / time of these calls; null if none do"),
    MetricColumn(
        "state", meaning="its state in metric device_time: compute, communication, memory or waiting", type="object"
    ),
    MetricColumn("category", meaning="what it does, derived from its name", type="object"),
    MetricColumn("name", meaning="name as printed, or category", type="object"),
    MetricColumn("first_line", meaning="line of its first call in the trace's file", brief=False, type="Int64"),
)

_UNNAMED = "<NA>"
_MOST_BY_RADIX = (1 << 16) - 2  # codes that fit into two bytes, which numpy sorts by radix


def _samples(tables: Tables, steady: Steady) -> Iterator[Sample]:
    """The time of all kernels, copies and memsets in each steady step, then of each name."""
    for steady_device in steady_devices(tables, steady):
        times = times_by_name(tables, steady_device)
        yield Measure("kernel", ALL), steady_device.run, np.sum(list(times.values()), axis=0)
        for name, values in times.items():
            yield Measure("kernel", name, of=ALL), steady_device.run, values


def times_by_name(tables: Tables, devices: SteadyDevices) -> Mapping[str, Floats]:
    """Return the time of each kernel, copy or memset by name in each steady step of a run, the mean over devices."""
    steps = None if devices.steps is None else devices.steps.tobytes()
    return cached(tables, ("times by name", devices.run, steps), lambda: _times_by_name(devices))


def _times_by_name(devices: SteadyDevices) -> Mapping[str, Floats]:
    sums: dict[str, Ints] = {}
    for device in devices.devices:
        names, words = device.work.rows.codes("name")
        distinct, codes = np.unique(names, return_inverse=True)
        for name, times in zip(distinct.tolist(), work_times(device, devices.steps, codes, len(distinct)), strict=True):
            word = words[name] if name >= 0 else _UNNAMED
            sums[word] = sums[word] + times if word in sums else times
    return {name: seconds(sums[name]) / len(devices.devices) for name in sorted(sums)}


@metric(
    title="kernels of traces",
    needs=("events",),
    columns=_COLUMNS,
    main="share_busy",
    formula="share_kernel = time / sum of all times; share_busy = time / |union of all|; share_step = time inside the "
    "annotated steps / time of the steps",
    source="share_kernel: nvprof Time(%), nsys Time (%); categories: perflog/metrics/profiles/kernel_categories.py",
    compares=(_samples,),
)
def device_kernels(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """Time of kernels, copies and memsets on each device by category, then by name; the longest first.

    Example:
        >>> table = perflog.metrics.device_kernels(perflog.read("trace.json"))
        >>> table.query("by == 'category'")[["name", "calls", "time_s", "share_busy"]].head(1).round(6)
           name  calls    time_s  share_busy
        ...
    """
    devices = [device for device in trace_devices(tables) if len(device.work.does)]
    return [_shares(device, by) for by in ("does", "name") for device in devices]


def _shares(device: TraceDevice, by: str) -> pd.DataFrame:
    """Rows of one device by column `by` of its work."""
    import pandas as pd

    work = device.work
    keys, words = (work.does, [*work.categories]) if by == "does" else work.rows.codes("name")
    inside = union(device.steps.starts, device.steps.ends)
    lengths = work.ends - work.starts
    in_steps = inside.inside(work.starts, work.ends) if len(inside.starts) else np.zeros(len(keys), np.int64)
    rows = []
    for code, index in _by_first_place(keys):
        ns = lengths[index]
        rates = (_rate(work.rows, column, ns, index) for column in ("flops", "bytes"))
        rows.append(
            (code, len(ns), ns.sum(), in_steps[index].sum(), np.median(ns), ns.min(), ns.max(), *rates, index[0])
        )
    rows.sort(key=lambda row: -int(row[2]))
    codes, calls, ns, ns_in_steps, medians, least, most, tflops, gbps, first = map(np.array, zip(*rows, strict=True))
    does = work.does[first]
    totals = {"kernel": int(ns.sum()), "busy": work.busy.length, "step": inside.length}
    times = {"kernel": ns, "busy": ns, "step": ns_in_steps}
    in_ns = {"time": ns, "median": medians, "min": least, "max": most}
    return pd.DataFrame({
        "run": device.run, "label": device.label, "rank": device.rank, "device": device.device,
        "device_name": device.device_name, "by": "category" if by == "does" else by,
        "name": np.array([*words, pd.NA], object)[codes], "category": np.array(work.categories, object)[does],
        "state": np.array(work.state_of, object)[does], "calls": calls, "avg_s": seconds(ns) / calls,
        "tflops": tflops / 1e12, "gbps": gbps / 1e9, "first_line": work.rows["line"][first],
        **{f"share_{name}": of / (totals[name] or float("nan")) for name, of in times.items()},
        **{f"{name}_s": seconds(of) for name, of in in_ns.items()},
    })  # fmt: skip


def _by_first_place(codes: Keys) -> Iterator[tuple[int, Ints]]:
    """Yield each code, in the order of its first index, with its indices in order."""
    few = len(codes) and int(codes.max()) < _MOST_BY_RADIX
    order = np.argsort((codes + 1).astype(np.uint16) if few else codes, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
    yield from sorted(((int(codes[index[0]]), index) for index in groups if len(index)), key=lambda group: group[1][0])


def _rate(rows: Rows, column: str, lengths: Ints, index: Ints) -> float:
    """Return the sum of a column / the time of the rows that have it, in 1/s; NaN if none has it.

    `lengths`: times in ns of the rows at `index`.
    """
    amounts = rows[column][index]
    known = amounts != NULL
    amount, time = float(amounts[known].sum(dtype=np.float64)), float(lengths[known].sum())
    return amount / (time * 1e-9) if amount > 0 and time > 0 else np.nan
