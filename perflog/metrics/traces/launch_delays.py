"""Launches of traces: idle time by cause, how late work begins, how many pieces wait."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from perflog.arrays import Floats, Ints
from perflog.grouping import grouped
from perflog.metrics.compared import Measure, Sample, Steady
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables
from perflog.metrics.traces.device_work import DEVICE_COLUMNS, seconds
from perflog.metrics.traces.idle_causes import CAUSES, DeviceIdle, idle_causes
from perflog.metrics.traces.steady_work import steady_devices, windows
from perflog.tables.columns import NULL

if TYPE_CHECKING:
    import pandas as pd


_BINS = 200
"""Periods of the queue's curve."""

_LARGEST_SUM = 1 << 60  # of times in ns: a few of them are added up in int64

_COLUMNS = (
    *RUN_COLUMNS,
    *DEVICE_COLUMNS,
    MetricColumn("part", meaning="trace: from the device's first event to its last; step: an annotated step, else an "
                 "iteration that its kernels repeat"),
    MetricColumn("step", meaning="number of the step; null for the whole trace", type="Int64"),
    MetricColumn("span_s", "s", "lower", "time of the part, as in metric device_time"),
    MetricColumn("idle_s", "s", "lower", "time in which nothing runs"),
    *(MetricColumn(f"{cause}_s", "s", "lower", f"idle: {meaning}") for cause, meaning in CAUSES.items()),
    MetricColumn(
        "launches", meaning="number of kernels, copies and memsets with a known launch that begin in it", type="Int64"
    ),
    MetricColumn("latency_s", "s", "lower", "median time from a launch to its work, where it found the device idle"),
    MetricColumn("delay_s", "s", None, "median time from a launch to its work, of all"),
    MetricColumn("call_s", "s", "lower", "median time of the call that launches", brief=False),
    MetricColumn("work_s", "s", None, "median time of the launched work", brief=False),
    MetricColumn("short_share", "1", "lower", "share of the launches with work shorter than their call"),
    MetricColumn(
        "queue", "", None, "mean number of pieces of work that are launched and have not begun", type="float64"
    ),
    MetricColumn("queue_max", "", None, "largest number of them", brief=False, type="Int64"),
    MetricColumn("first_line", meaning="line of the first of this work", brief=False, type="Int64"),
)  # fmt: skip


_COMPARED = {
    "host": "host-bound idle", "sync": "idle after a synchronisation", "data": "idle while data is loaded",
    "launch": "idle while a launch arrives", "waiting": "idle with work queued",
}  # fmt: skip
"""Causes that are compared."""


def _samples(tables: Tables, steady: Steady) -> Iterator[Sample]:
    """The idle time of each cause in each steady step, the mean over devices."""
    by_run = grouped((idle.device.run, idle) for idle in idle_causes(tables))
    for steady_device in steady_devices(tables, steady):
        members = by_run.get(steady_device.run, [])
        times = [windows(each.device, steady_device.steps) for each in members]
        for cause, name in _COMPARED.items():
            sums = [getattr(each, cause).inside(*window) for each, window in zip(members, times, strict=True)]
            if np.any(sums):
                whole = None if steady_device.steps is None else "idle"
                yield Measure("idle", name, of=whole), steady_device.run, seconds(np.mean(sums, axis=0))


@metric(
    title="launches: idle time by cause, delays and queue",
    needs=("events",),
    columns=_COLUMNS,
    main="host_s",
    formula="a gap in the device's work is divided at the launch of the work that ends it: before it data, sync or "
    "host; after it launch and waiting; they add up to idle_s. queue = sum of the times from launch to begin / span",
    source="launches by correlation numbers; causes: HolisticTraceAnalysis' idle time breakdown, of a device instead "
    "of a stream; queue: Little's law",
    compares=(_samples,),
)
def launches(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """Why each device idles, in the trace and in each step; how late launched work begins, and how much of it waits.

    A launch is known if exactly one call of the runtime has the correlation number of the work.

    Example:
        >>> table = perflog.metrics.launches(perflog.read("trace.json"))
        >>> table[["part", "idle_s", "host_s", "launch_s", "queue"]].head(1).round(6)
            part    idle_s    host_s  launch_s     queue
        ...
    """
    rows = [row for idle in idle_causes(tables) for row in (*_trace(idle), *_steps(idle))]
    rows.sort(key=lambda row: (row["run"], row["part"] == "step"))
    return rows


def _trace(idle: DeviceIdle) -> Iterator[dict[str, object]]:
    busy = idle.device.work.busy
    yield from _rows(idle, busy.starts[:1], busy.ends[-1:], [{"part": "trace"}])


def _steps(idle: DeviceIdle) -> Iterator[dict[str, object]]:
    steps = idle.device.steps
    named = [{"part": "step", "step": number} for number in steps.numbers.tolist()]
    yield from _rows(idle, steps.starts, steps.ends, named)


def _rows(idle: DeviceIdle, starts: Ints, ends: Ints, named: list[dict[str, object]]) -> Iterator[dict[str, object]]:
    """Rows of the windows [start, end) of a device, in ns."""
    device, work = idle.device, idle.device.work
    spans = ends - starts
    times = {f"{cause}_s": getattr(idle, cause).inside(starts, ends) for cause in CAUSES}
    times |= {"span_s": spans, "idle_s": sum(times.values())}
    known = np.flatnonzero((idle.launches.starts != NULL) & ~idle.launches.is_operator)
    launched, begun = idle.launches.starts[known], work.starts[known]
    queue = _Queue(launched, begun)
    waiting = queue.waiting(starts, ends)
    for i, name in enumerate(named):
        row: dict[str, object] = {
            "run": device.run, "rank": device.rank, "device": device.device,
            "device_name": device.device_name, **name,
            **{column: float(seconds(ns[i])) for column, ns in times.items()},
        }  # fmt: skip
        first, last = np.searchsorted(begun, (starts[i], ends[i]))
        if not len(known):
            row |= dict.fromkeys(f"{cause}_s" for cause in CAUSES if cause != "unknown")
        elif spans[i]:
            row |= {"launches": int(last - first), "queue": float(waiting[i] / spans[i])}
            row |= {"queue_max": queue.longest(int(starts[i]), int(ends[i]))}
        if last > first:
            inside = known[first:last]
            calls = idle.launches.ends[inside] - launched[first:last]
            lengths = work.ends[inside] - begun[first:last]
            row |= {
                "delay_s": float(seconds(np.median(begun[first:last] - launched[first:last]))),
                "call_s": float(seconds(np.median(calls))), "work_s": float(seconds(np.median(lengths))),
                "short_share": float((lengths < calls).mean()), "first_line": int(work.rows["line"][inside[0]]),
            }  # fmt: skip
            if idle.latency_ns is not None:
                row["latency_s"] = float(seconds(idle.latency_ns))
        yield row


class _Queue:
    """Pieces of work from launch to begin. Times in ns."""

    def __init__(self, launched: Ints, begun: Ints) -> None:
        self._launched = np.sort(launched, kind="stable")  # merges parts that ascend, as most are
        self._begun = np.sort(np.maximum(launched, begun), kind="stable")

    def waiting(self, starts: Ints, ends: Ints) -> Floats:
        """Sum, over the pieces of work, of their time in the queue inside each window."""
        return _time_after(self._launched, starts, ends) - _time_after(self._begun, starts, ends)

    def longest(self, start: int, end: int) -> int:
        """The largest number of pieces of work that wait at any time of a window."""
        first, last = np.searchsorted(self._launched, (start, end))
        moments = np.append(self._launched[first:last], start)
        waiting = np.searchsorted(self._launched, moments, "right") - np.searchsorted(self._begun, moments, "right")
        return int(waiting.max())


def _time_after(times: Ints, starts: Ints, ends: Ints) -> Floats:
    """Sum, over sorted times, of the part of each window that lies after them."""
    first, last = np.searchsorted(times, starts), np.searchsorted(times, ends)
    origin = int(times[0]) if len(times) else 0
    edges = np.concatenate([starts, ends, times[-1:], [origin]])
    farthest = max(int(edges.max()) - origin, origin - int(edges.min()))
    # All sums fit into the 64 bits of an integer, or of the mantissa of the largest floats, which take much longer.
    dtype = np.int64 if farthest * (len(times) + 1) < _LARGEST_SUM else np.longdouble
    before = np.concatenate([np.zeros(1, dtype), np.cumsum((times - origin).astype(dtype))])
    inside = (last - first) * (ends - origin).astype(dtype) - (before[last] - before[first])
    sums: Floats = (inside + first * (ends - starts).astype(dtype)).astype(np.float64)
    return sums


_QUEUE_COLUMNS = (
    *RUN_COLUMNS,
    *DEVICE_COLUMNS,
    MetricColumn(
        "period", meaning=f"number of the period, from 1: the trace is divided into {_BINS} of one length", type="Int64"
    ),
    MetricColumn("at_s", "s", None, "begin of the period since the device's first event"),
    MetricColumn("queue", "", None, "mean number of pieces of work that are launched and have not begun"),
    MetricColumn("busy_share", "1", "higher", "share of the period in which anything runs"),
    MetricColumn("host_share", "1", "lower", "share of it in which the device idles and the next work is not launched"),
)


@metric(
    title="launch queue over time",
    needs=("events",),
    columns=_QUEUE_COLUMNS,
    main="queue",
    formula="queue = time from launch to begin of all work, inside the period / length of the period",
    source="as in metric launches",
)
def launch_queue(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """How many launched pieces of work wait for each device, over the time of the trace.

    A queue near zero means that the device takes work as soon as the host launches it: the host is the bottleneck.

    Example:
        >>> table = perflog.metrics.launch_queue(perflog.read("trace.json"))
        >>> table[["period", "queue", "busy_share"]].head(1).round(3)
           period  queue  busy_share
        ...
    """
    return [part for idle in idle_causes(tables) if (part := _periods(idle)) is not None]


def _periods(idle: DeviceIdle) -> pd.DataFrame | None:
    """Return the rows of metric `launch_queue` for a device, one for each period; None if no launch is known."""
    import pandas as pd

    device, work = idle.device, idle.device.work
    known = (idle.launches.starts != NULL) & ~idle.launches.is_operator  # an operator begins before it launches
    if not known.any():
        return None
    begin = int(work.busy.starts[0])
    edges = begin + np.arange(_BINS + 1) * device.span // _BINS
    starts, ends = edges[:-1], edges[1:]
    lengths = np.where(ends > starts, ends - starts, 1)  # a period of length 0 is left out below
    waiting = _Queue(idle.launches.starts[known], work.starts[known]).waiting(starts, ends)
    not_launched = idle.data.inside(starts, ends) + idle.sync.inside(starts, ends) + idle.host.inside(starts, ends)
    return pd.DataFrame({
        "run": device.run, "rank": device.rank, "device": device.device,
        "device_name": device.device_name, "period": np.arange(1, _BINS + 1), "at_s": seconds(starts - begin),
        "queue": waiting / lengths, "busy_share": work.busy.inside(starts, ends) / lengths,
        "host_share": not_launched / lengths,
    })[ends > starts]  # fmt: skip
