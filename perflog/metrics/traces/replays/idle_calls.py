"""What the host is in while a device idles because the next work is not launched."""

from __future__ import annotations

from collections.abc import Iterator

from perflog.grouping import grouped
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables, cached
from perflog.metrics.traces.device_work import DEVICE_COLUMNS, are_in_steps, seconds, trace_devices
from perflog.metrics.traces.intervals import union
from perflog.metrics.traces.replays.dependencies import Dependencies, dependencies
from perflog.metrics.traces.replays.own_time import idle_time

_COLUMNS = (
    *RUN_COLUMNS,
    *DEVICE_COLUMNS,
    MetricColumn("name", meaning="the innermost range that the host is in, which is no step, or call that allocates "
                 "memory; else the outermost operator or call of the runtime; null: the host is in none of these"),
    MetricColumn("time_s", "s", "lower", "idle time of the device before the next work is launched"),
    MetricColumn("share", "1", "lower", "time_s / span_s"),
    MetricColumn("span_s", "s", "lower", "time of the steps, else from the first to the last event", brief=False),
)  # fmt: skip


@metric(
    title="idle calls: what the host is in while the device idles",
    needs=("events",),
    columns=_COLUMNS,
    main="time_s",
    formula="a gap in the work of the device until the launch of the work that ends it, divided by what the thread of "
    "that launch is in",
    source="own; launches as in `launches`",
)
def idle_calls(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """What the host does in the time in which each device has no work, the longest first.

    A device has rows where the launches of its work are known. Where it has annotated steps, their time counts.
    """
    return rows_of_idle_calls(tables)


def rows_of_idle_calls(tables: Tables, found: list[dict[str, object]] | None = None) -> list[dict[str, object]]:
    """Return the rows of the metric. `found`: the same, if the caller has already gone through the dependencies."""
    return cached(tables, "idle calls", lambda: _all_rows(tables) if found is None else found)


def _all_rows(tables: Tables) -> list[dict[str, object]]:
    in_steps = runs_in_steps(tables)
    return [row for each in dependencies(tables) for row in idle_calls_of(each, each.device.run in in_steps)]


def runs_in_steps(tables: Tables) -> set[str]:
    """Return the runs of traces that are represented by their steps."""
    by_run = grouped((device.run, device) for device in trace_devices(tables) if device.span)
    return {run for run, devices in by_run.items() if are_in_steps(devices)}


def idle_calls_of(device_graph: Dependencies, in_steps: bool) -> Iterator[dict[str, object]]:
    """Yield the rows of a device, of its steps or of the whole trace."""
    device, busy = device_graph.device, device_graph.device.work.busy
    inside = union(device.steps.starts, device.steps.ends) if in_steps else union(busy.starts[:1], busy.ends[-1:])
    if device_graph.calls is None or not inside.length:
        return
    for each in sorted(idle_time(device_graph, inside), key=lambda each: -each.ns):
        yield {
            "run": device.run, "rank": device.rank, "device": device.device, "device_name": device.device_name,
            "name": each.name, "time_s": float(seconds(each.ns)), "share": each.ns / inside.length,
            "span_s": float(seconds(inside.length)),
        }  # fmt: skip
