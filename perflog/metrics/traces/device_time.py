"""Device time of traces: computing, exposed communication and copies, idle, in the whole trace and in each step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, Options, Tables, metric
from perflog.metrics.traces.device_work import COMMUNICATION, COMPUTE, MEMORY, Ints, TraceDevice, seconds, trace_devices
from perflog.metrics.traces.intervals import union

if TYPE_CHECKING:
    import pandas as pd

_MOST = 1 << 62  # ns that int64 holds, with room

DEVICE_COLUMNS = (
    MetricColumn("rank", meaning="rank of the trace"),
    MetricColumn("device", meaning="device, as the trace numbers it"),
)
"""The columns that tell whose device it is."""

_COLUMNS = (
    *RUN_COLUMNS,
    *DEVICE_COLUMNS,
    MetricColumn(
        "part", meaning="trace: from the device's first event to the end of its last; step: an annotated step"
    ),
    MetricColumn("step", meaning="the step, where the part is one"),
    MetricColumn("span_s", "s", "lower", "time of the part; of a step on the host's clock"),
    MetricColumn("compute_s", "s", None, "time in which at least one kernel computes"),
    MetricColumn(
        "communication_s", "s", "lower", "exposed communication: a communication kernel runs and none computes"
    ),
    MetricColumn(
        "memory_s", "s", "lower", "exposed copies and memsets: they run, and nothing computes or communicates"
    ),
    MetricColumn("idle_s", "s", "lower", "time in which nothing runs; the four add up to span_s"),
    MetricColumn("busy_s", "s", None, "time in which anything runs: span_s - idle_s", brief=False),
    MetricColumn("compute_share", "1", "higher", "compute_s / span_s"),
    MetricColumn("communication_share", "1", "lower", "communication_s / span_s"),
    MetricColumn("memory_share", "1", "lower", "memory_s / span_s", brief=False),
    MetricColumn("idle_share", "1", "lower", "idle_s / span_s"),
    MetricColumn(
        "communicating_s", "s", None, "time in which a communication kernel runs, exposed or not; waiting is in it"
    ),
    MetricColumn(
        "overlap", "1", "higher", "overlap ratio: communicating and computing / communicating; null without any"
    ),
    MetricColumn(
        "outside_s",
        "s",
        None,
        "busy time of what the step launched that lies before or behind the step; null if "
        "the trace does not join launches and kernels",
    ),
    MetricColumn("events", meaning="kernels, copies and memsets that begin in the part"),
    MetricColumn("first_line", meaning="first of its events in the trace's file", brief=False),
)


@metric(
    title="device time",
    needs=("events",),
    columns=_COLUMNS,
    main="communication_share",
    formula="exact sets of time: compute + (communication - compute) + (copies - communication - compute) + idle = "
    "span; overlap = |communication and compute| / |communication|. Sync events and images of ranges are no work",
    source="overlap: Holistic Trace Analysis; exposed communication: TraceLens; what a kernel does: its name",
)
def device_time(tables: Tables, options: Options) -> pd.DataFrame:  # noqa: ARG001 (all metrics take the same)
    """What each device of a run did all the time: in the whole trace, then in each annotated step."""
    import pandas as pd

    names = [c.name for c in _COLUMNS]
    by_run: dict[str, list[TraceDevice]] = {}
    for one in trace_devices(tables):
        by_run.setdefault(one.run, []).append(one)
    found = [part(one) for mine in by_run.values() for part in (_whole, _steps) for one in mine if one.span]
    found = [part for part in found if len(part)]
    table = pd.concat(found, ignore_index=True)[names] if found else pd.DataFrame(columns=names)
    return table.astype(dict.fromkeys(("rank", "device", "step", "events", "first_line"), "Int64"))


def _whole(device: TraceDevice) -> pd.DataFrame:
    import pandas as pd

    whole = device_time_columns(device, device.busy.starts[:1], device.busy.ends[-1:])
    return pd.DataFrame(whole | {"part": "trace", "step": pd.NA, "outside_s": np.nan})


def _steps(device: TraceDevice) -> pd.DataFrame:
    import pandas as pd

    steps = device.steps
    if not len(steps.numbers):
        return pd.DataFrame()
    each = device_time_columns(device, steps.starts, steps.ends)
    return pd.DataFrame(each | {"part": "step", "step": steps.numbers, "outside_s": _outside(device)})


def device_time_columns(device: TraceDevice, starts: Ints, ends: Ints) -> dict[str, Any]:
    """The columns of the metric for these windows of a device."""
    spans = ends - starts
    busy = device.busy.inside(starts, ends)
    times = {state: exposed.inside(starts, ends) for state, exposed in device.exposed.items()}
    moving, computing = (device.states[state] for state in (COMMUNICATION, COMPUTE))
    moved, both = moving.inside(starts, ends), (moving & computing).inside(starts, ends)
    first, last = (np.searchsorted(device.starts, edge) for edge in (starts, ends))
    lines = np.append(device.rows["line"].to_numpy(np.int64), 0)
    columns = {"compute": times[COMPUTE], "communication": times[COMMUNICATION], "memory": times[MEMORY]}
    columns |= {"idle": spans - busy}
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = {f"{name}_share": ns / spans for name, ns in columns.items()}
        overlap = both / moved
    found: dict[str, Any] = {"run": device.run, "label": device.label, "rank": device.rank, "device": device.device}
    found |= {f"{name}_s": seconds(ns) for name, ns in columns.items()} | shares
    found |= {"span_s": seconds(spans), "busy_s": seconds(busy), "communicating_s": seconds(moved), "overlap": overlap}
    return found | {"events": last - first, "first_line": np.where(last > first, lines[first], lines[:1])}


def _outside(device: TraceDevice) -> Any:
    """Busy time of what each step launched, outside of the step. Each step's work is moved to a stretch of its own, so
    that one union serves all.
    """
    steps, launched = device.steps, device.rows["step"].to_numpy(np.float64, na_value=np.nan)
    if np.isnan(launched).all():
        return np.nan
    order = np.argsort(steps.numbers)
    place = np.minimum(np.searchsorted(steps.numbers[order], launched), len(order) - 1)
    mine = steps.numbers[order][place] == launched
    first = device.starts.min()
    stretch = int(device.ends.max() - first) + 1
    if stretch > _MOST // len(order):  # clocks run mad
        return np.nan
    shift = order[place[mine]] * stretch - first
    work = union(device.starts[mine] + shift, device.ends[mine] + shift)
    at = np.arange(len(order)) * stretch
    low, high = (np.clip(times - first, 0, stretch) + at for times in (steps.starts, steps.ends))
    return seconds(work.inside(at, at + stretch) - work.inside(low, high))
