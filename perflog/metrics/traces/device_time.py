"""Exposed communication and overlap: device time of traces divided into what the device does, waiting and idle time.

Communication is exposed while a communication kernel runs and no kernel computes. The sets of time are defined in
`exposed_of` in `device_work`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.arrays import Ints
from perflog.grouping import grouped
from perflog.metrics.compared import STEP_TIME, Measure, Sample, Steady
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables
from perflog.metrics.traces.device_work import (
    COMMUNICATION,
    COMPUTE,
    DEVICE_COLUMNS,
    MEMORY,
    WAITING,
    DeviceWork,
    TraceDevice,
    exposed_of,
    seconds,
    trace_devices,
)
from perflog.metrics.traces.intervals import union
from perflog.metrics.traces.steady_work import steady_devices, windows
from perflog.tables.nulls import none_if_null

if TYPE_CHECKING:
    import pandas as pd

_LARGEST = 1 << 62  # ns: fits into int64 with room to spare

_COLUMNS = (
    *RUN_COLUMNS,
    *DEVICE_COLUMNS,
    MetricColumn("part", meaning="trace: from the device's first event to its last; step: an annotated step, else an "
                 "iteration that its kernels repeat"),
    MetricColumn("step", meaning="number of the step; null for the whole trace", type="Int64"),
    MetricColumn("span_s", "s", "lower", "time of the part: a step starts with its begin on the host, or later if work "
                 "from before still runs, and ends when the host has left it and the work that it launched is done, or "
                 "when work of a later step begins"),
    MetricColumn("compute_s", "s", None, "time in which at least one kernel computes"),
    MetricColumn("communication_s", "s", "lower", "exposed communication: it runs and no kernel computes"),
    MetricColumn("memory_s", "s", "lower", "exposed copies and memsets: no kernel computes or communicates"),
    MetricColumn("waiting_s", "s", "lower", "time in which all that runs only waits: for an event, the host, a rank"),
    MetricColumn("idle_s", "s", "lower", "time in which nothing runs; these five times add up to span_s"),
    MetricColumn("busy_s", "s", None, "time in which anything works: span_s - idle_s - waiting_s", brief=False),
    MetricColumn("compute_share", "1", "higher", "compute_s / span_s"),
    MetricColumn("communication_share", "1", "lower", "communication_s / span_s"),
    MetricColumn("memory_share", "1", "lower", "memory_s / span_s", brief=False),
    MetricColumn("waiting_share", "1", "lower", "waiting_s / span_s", brief=False),
    MetricColumn("idle_share", "1", "lower", "idle_s / span_s"),
    MetricColumn("communicating_s", "s", None, "time of communication kernels, exposed or not, with their waiting"),
    MetricColumn("overlap", "1", "higher", "overlap ratio: communicating and computing / communicating; null if none"),
    MetricColumn("waiting_kernels_s", "s", "lower", "sum over the streams of the kernels that only wait, exposed or "
                 "not", brief=False),
    MetricColumn("outside_s", "s", None, "busy time of work that the step launched and that runs before or after it; "
                 "null if the trace does not link launches with kernels"),
    MetricColumn("events", meaning="number of kernels, copies and memsets that start in the part", type="Int64"),
    MetricColumn("first_line", meaning="line of the first of these events", brief=False, type="Int64"),
)  # fmt: skip


STATES = {
    "compute": "compute", "exposed_communication": "communication", "exposed_memory": "memory", "waiting": "waiting",
    "idle": "idle",
}  # fmt: skip
"""The states that a device's time divides into, by their name in comparisons."""


def _samples(tables: Tables, steady: Steady) -> Iterator[Sample]:
    """The time of each state in each steady step (mean over devices), then the shares `busy` and `overlap`.

    States without time count too: another side may have some. `busy`: of all time; `overlap`: hidden communication of
    all communication, not defined for steps without communication.
    """
    for steady_device in steady_devices(tables, steady):
        divided = [
            device_time_columns(device, *windows(device, steady_device.steps)) for device in steady_device.devices
        ]
        columns = STATES | {"span": "span", "busy": "busy"}
        means = {name: np.mean([times[f"{column}_s"] for times in divided], axis=0) for name, column in columns.items()}
        for name in STATES:
            yield (
                Measure("device", name, of=None if steady_device.steps is None else STEP_TIME.name),
                steady_device.run,
                means[name],
            )
        if means["span"].all():
            yield (
                Measure("device", "busy", "1", "higher", derived=True),
                steady_device.run,
                means["busy"] / means["span"],
            )
        communicating = [times["communicating_s"] for times in divided]
        hidden = [np.nan_to_num(t["overlap"]) * total for t, total in zip(divided, communicating, strict=True)]
        total = np.sum(communicating, axis=0)
        if total.any():
            overlap = np.sum(hidden, axis=0)[total > 0] / total[total > 0]
            yield Measure("device", "overlap", "1", "higher"), steady_device.run, overlap


@metric(
    title="device time",
    needs=("events",),
    columns=_COLUMNS,
    main="communication_share",
    formula="exact sets of time: compute + (communication - compute) + (copies - communication - compute) + "
    "(waiting - all these) + idle = span; overlap = |communication and compute| / |communication|; sync events and "
    "images of ranges are no work",
    source="overlap: Holistic Trace Analysis; exposed communication: TraceLens; categories of kernels: their names; "
    "what waits: perflog/metrics/profiles/waiting_kernels.toml",
    compares=(_samples,),
)
def device_time(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """Time of each device that computes, communicates, copies, waits or idles, in the trace and in each step.

    Example:
        >>> table = perflog.metrics.device_time(perflog.read("trace.json"))
        >>> table[["part", "span_s", "compute_s", "communication_s", "idle_s"]].head(1).round(6)
            part    span_s  compute_s  communication_s    idle_s
        ...
    """
    by_run = grouped((device.run, device) for device in trace_devices(tables))
    return [part for devices in by_run.values() for part in _parts([device for device in devices if device.span])]


def wholes_of_traces(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that represent all of each run: of the annotated steps, else of the traces.

    The steps of a run count where all its devices have some, and work in them. `rows`: of this metric or `launches`.
    """
    is_step = (rows["part"] == "step").to_numpy(bool)
    if not is_step.any():
        return rows
    work_in_step = is_step & (rows["span_s"] > rows["idle_s"]).to_numpy(bool)
    runs = rows["run"].tolist()
    columns = (map(none_if_null, rows[name].tolist()) for name in ("rank", "device", "device_name"))
    in_steps = grouped(zip(zip(runs, *columns, strict=True), work_in_step.tolist(), strict=True))
    by_steps = grouped((run, any(flags)) for (run, *_), flags in in_steps.items())
    counts_steps = {run: all(each) for run, each in by_steps.items()}
    return rows[is_step == np.array([counts_steps[run] for run in runs], np.bool_)]


def _parts(devices: Sequence[TraceDevice]) -> list[pd.DataFrame]:
    """Rows of the devices of a run: first of their whole traces, then of the annotated steps."""
    import pandas as pd

    traces, in_steps = [], []
    for device in devices:
        busy, steps = device.work.busy, device.steps
        starts, ends = np.append(busy.starts[:1], steps.starts), np.append(busy.ends[-1:], steps.ends)
        rows = pd.DataFrame(device_time_columns(device, starts, ends))
        traces.append(rows[:1].assign(part="trace", step=pd.NA, outside_s=np.nan))
        if len(steps.numbers):
            in_steps.append(rows[1:].assign(part="step", step=steps.numbers, outside_s=_outside(device)))
    return traces + in_steps


def device_time_columns(device: TraceDevice, starts: Ints, ends: Ints) -> dict[str, Any]:
    """Return the columns of the metric for windows [start, end) of a device, in ns."""
    work = device.work
    spans = ends - starts
    busy, states = work.busy.inside(starts, ends), work.states()
    times = {state: exposed.inside(starts, ends) for state, exposed in exposed_of(states).items()}
    moving, computing = states[COMMUNICATION], states[COMPUTE]
    moved, both = moving.inside(starts, ends), (moving & computing).inside(starts, ends)
    first, last = (np.searchsorted(work.starts, edge) for edge in (starts, ends))
    lines = np.append(work.rows["line"], 0)
    columns = {"compute": times[COMPUTE], "communication": times[COMMUNICATION], "memory": times[MEMORY]}
    columns |= {"waiting": times[WAITING], "idle": spans - busy}
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = {f"{name}_share": ns / spans for name, ns in columns.items()}
        overlap = both / moved
    row: dict[str, Any] = {"run": device.run, "rank": device.rank, "device": device.device}
    row["device_name"] = device.device_name
    row |= {f"{name}_s": seconds(ns) for name, ns in columns.items()} | shares
    row |= {
        "span_s": seconds(spans),
        "busy_s": seconds(busy - times[WAITING]),
        "communicating_s": seconds(moved),
        "overlap": overlap,
    }
    row["waiting_kernels_s"] = seconds(_waiting(work, starts, ends))
    return row | {"events": last - first, "first_line": np.where(last > first, lines[first], lines[:1])}


def _waiting(work: DeviceWork, starts: Ints, ends: Ints) -> Ints:
    """Sum of the times of work that only waits in each window; on a stream they do not overlap."""
    codes, streams = work.waiting, work.rows["stream"]
    if not codes.any():
        return np.zeros(len(starts), np.int64)
    stream_masks = [codes & (streams == stream) for stream in np.unique(streams[codes])]
    sums = np.zeros(len(starts), np.int64)
    for at in stream_masks:
        sums += union(work.starts[at], work.ends[at]).inside(starts, ends)
    return sums


def _outside(device: TraceDevice) -> Any:
    """Busy time, outside of each step, of the work that the step launched.

    The work of each step is shifted to a separate interval of time, so that one union serves all steps.
    """
    steps, work = device.annotated, device.work
    launched = work.rows["step"]
    if not work.rows.known("step").any():
        return np.nan
    order = np.argsort(steps.numbers)
    match = np.minimum(np.searchsorted(steps.numbers[order], launched), len(order) - 1)
    has_step = steps.numbers[order][match] == launched
    first = work.starts.min()
    stretch = int(work.ends.max() - first) + 1
    if stretch > _LARGEST // len(order):  # the timestamps make no sense
        return np.nan
    shift = order[match[has_step]] * stretch - first
    ran = union(work.starts[has_step] + shift, work.ends[has_step] + shift)
    begin = np.arange(len(order)) * stretch
    low, high = (np.clip(times - first, 0, stretch) + begin for times in (steps.starts, steps.ends))
    return seconds(ran.inside(begin, begin + stretch) - ran.inside(low, high))
