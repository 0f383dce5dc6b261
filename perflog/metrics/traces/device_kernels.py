"""What each device spends its time on, from a trace: by name and by category, as shares of three different wholes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, Options, Tables, metric
from perflog.metrics.traces.device_time import DEVICE_COLUMNS
from perflog.metrics.traces.device_work import TraceDevice, seconds, trace_devices
from perflog.metrics.traces.intervals import union

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = (
    *RUN_COLUMNS,
    *DEVICE_COLUMNS,
    MetricColumn("by", meaning="name: as the trace prints it; category: what the names do"),
    MetricColumn("calls", meaning="number of calls"),
    MetricColumn("time_s", "s", "lower", "total time"),
    MetricColumn("share_kernel", "1", None, "time / sum of the times of all kernels, copies and memsets of the device"),
    MetricColumn(
        "share_busy", "1", None, "time / time in which the device is busy; above 1 in sum where streams overlap"
    ),
    MetricColumn(
        "share_step",
        "1",
        None,
        "part of the annotated steps' time: time inside of them / their time; null without annotated steps",
    ),
    MetricColumn("avg_s", "s", "lower", "time / calls"),
    MetricColumn("median_s", "s", "lower", "median of the calls", brief=False),
    MetricColumn("min_s", "s", "lower", "shortest call", brief=False),
    MetricColumn("max_s", "s", "lower", "longest call"),
    MetricColumn("state", meaning="what it counts as in metric device_time: compute, communication or memory"),
    MetricColumn("category", meaning="what it does, told from its name"),
    MetricColumn("name", meaning="name as printed, or category"),
    MetricColumn("first_line", meaning="first of its calls in the trace's file", brief=False),
)


@metric(
    title="kernels of traces",
    needs=("events",),
    columns=_COLUMNS,
    main="share_busy",
    formula="share_kernel = time / sum of all times; share_busy = time / |union of all|; share_step = time inside the "
    "annotated steps / time of the steps",
    source="share_kernel: nvprof Time(%), nsys Time (%); what a name does: perflog/metrics/kernel_categories.py",
)
def device_kernels(tables: Tables, options: Options) -> pd.DataFrame:  # noqa: ARG001 (all metrics take the same)
    """Time of kernels, copies and memsets on each device by category, then by name; the longest first."""
    import pandas as pd

    names = [c.name for c in _COLUMNS]
    found = [_shares(device, by) for by in ("does", "name") for device in trace_devices(tables)]
    table = pd.concat(found, ignore_index=True)[names] if found else pd.DataFrame(columns=names)
    whole = dict.fromkeys(("rank", "device", "calls", "first_line"), "Int64")
    return table.astype(whole | dict.fromkeys(("state", "category", "name"), object))


def _shares(device: TraceDevice, by: str) -> pd.DataFrame:
    rows = device.rows
    inside = union(device.steps.starts, device.steps.ends)
    lengths = {"ns": device.ends - device.starts, "in_steps": inside.inside(device.starts, device.ends)}
    kept = rows[["line", "state", "does", "name"]].assign(key=rows[by], **lengths)
    found = kept.groupby("key", sort=False, observed=True, dropna=False).agg(
        calls=("ns", "size"), ns=("ns", "sum"), in_steps=("in_steps", "sum"), median=("ns", "median"),
        min=("ns", "min"), max=("ns", "max"), state=("state", "first"), category=("does", "first"),
        first_line=("line", "first"),
    ).reset_index(names="name")  # fmt: skip
    found = found.sort_values("ns", ascending=False, kind="stable")
    whole = {"kernel": int(found["ns"].sum()), "busy": device.busy.length, "step": inside.length}
    times = {"kernel": found["ns"], "busy": found["ns"], "step": found["in_steps"]}
    shares = {f"share_{name}": of / (whole[name] or float("nan")) for name, of in times.items()}
    in_s = {f"{name}_s": seconds(found[name]) for name in ("median", "min", "max")}
    return found.assign(
        run=device.run, label=device.label, rank=device.rank, device=device.device,
        by="category" if by == "does" else by, time_s=seconds(found["ns"]),
        avg_s=seconds(found["ns"]) / found["calls"], **shares, **in_s,
    )  # fmt: skip
