"""Host time of the steps of a trace without a device, by the ranges inside the steps."""

from __future__ import annotations

from perflog.metrics import Options, Tables, device_ranges
from perflog.metrics.traces.work_tree import OUTSIDE, PATH_MARK


def host_time_of_steps(tables: Tables, run: str, options: Options) -> tuple[float, dict[str, float]] | None:
    """Return the mean host time of a step in s, and of each range directly inside; the longest first.

    Returns:
        The times, with OUTSIDE for the rest of the step, last. None if the trace has device work, since its time shows
        more, or if no range lies in its steps.
    """
    rows = device_ranges.table(tables, options)
    rows = rows[rows["run"] == run]
    steps = rows[(rows["kind"] == "step") & (rows["depth"] == 0)]
    if not len(steps) or rows["gpu_s"].notna().any():
        return None
    entered = float(steps["entered"].sum())
    inside, names = rows[rows["depth"] == 1], set(steps["path"])
    inside = inside[[path.partition(PATH_MARK)[0] in names for path in inside["path"]]]
    if not len(inside):
        return None
    times = inside.groupby("range")["host_s"].sum().sort_values(ascending=False, kind="stable") / entered
    whole = float(steps["host_s"].sum()) / entered
    return whole, {**times.to_dict(), OUTSIDE: whole - float(times.sum())}
