"""The commands that answer the next question about some runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from shlex import join

from perflog.analysis.overview.run_groups import RunGroup
from perflog.log import Log
from perflog.metrics import Options, Tables, curves, device_ranges, host_operators
from perflog.metrics.stuck_ranks import jobs_of_dumps
from perflog.metrics.traces.device_work import trace_devices

_METRICS = (
    ("collectives", "collectives"),
    ("events", "device_kernels"),
    ("kernels", "kernels"),
    ("layers", "stages"),
    ("phases", "phases"),
    ("steps", "steps"),
)
"""The metric that says most about a log with rows in a table, the table first."""


def next_commands(
    names: Sequence[str],
    log: Log,
    groups: Sequence[RunGroup],
    tables: Tables,
    has_figures: bool,
    metric_of_folder: str | None = None,
) -> list[str]:
    """Return the commands that answer the next question about these runs; without figures, how to read more of them."""
    shown, commands = join(names), []
    if not has_figures:
        return [f"perflog formats suggest {join(names[:1])}", f"perflog show {join(names[:1])}"]
    varied = [name for name in groups[0].settings if name != "model"] if groups else []
    folders = [group.name for group in groups]
    if len(names) > 1 and len(groups) > 1:
        commands.append(f"perflog compare {shown}")
    elif len(groups) == 2 and all(len(group.runs) > 1 for group in groups) and len(set(folders)) == 2:
        commands.append("perflog compare " + join([os.path.join(names[0], folder) for folder in folders]))
    elif len(groups) > 1 and len(varied) == 1 and varied != ["format"]:
        commands.append(f"perflog compare {shown} --by {varied[0]}")
    elif len(groups) > 3 and len(varied) > 1 and tables.count("steps"):
        commands.append(f"perflog analyze {shown} factors")
    elif len(groups) > 1 and all(group.mark.startswith("#") for group in groups):
        commands.append("perflog compare " + join([f"{names[0]}:{group.mark[1:]}" for group in groups[:2]]))
    metric = _metric_of(tables) if len(log) == 1 else metric_of_folder
    if metric:
        commands.append(f"perflog analyze {shown} {metric}")
    return [*commands, f"perflog report {shown}"]


def _metric_of(tables: Tables) -> str | None:
    """Return the metric that says most about one log."""
    tables_and_metrics = (("counters", "stuck_ranks"), *_METRICS) if jobs_of_dumps(tables) else _METRICS
    metric = next((metric for table, metric in tables_and_metrics if tables.count(table)), None)
    if metric is None and (curves.table(tables, Options())["of"] == "curve").any():
        return "curves"
    if metric == "device_kernels" and not trace_devices(tables):  # what the host did is all that it shows
        if (device_ranges.table(tables, Options())["kind"] != "step").any():
            return device_ranges.name
        return host_operators.name if len(host_operators.table(tables, Options())) else metric
    return metric
