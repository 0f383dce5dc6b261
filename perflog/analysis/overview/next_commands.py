"""The commands that answer the next question about some runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from shlex import join

from perflog.analysis.overview.run_groups import RunGroup
from perflog.log import Log
from perflog.metrics import (
    Options,
    Tables,
    cases,
    collectives,
    curves,
    device_kernels,
    device_ranges,
    factors,
    history,
    host_operators,
    kernels,
    phases,
    scaling,
    serving,
    stages,
    steps,
    stuck_ranks,
    throughput,
    whatif,
)
from perflog.metrics.attempts import jobs
from perflog.metrics.jobs.stuck_ranks import jobs_of_dumps
from perflog.metrics.registry import Metric
from perflog.metrics.step_time.phases import have_phases
from perflog.metrics.traces.device_work import trace_devices
from perflog.metrics.what_if.step_replay import OPERATIONS
from perflog.parsing.failures.kinds import NOTICE


def next_commands(
    names: Sequence[str],
    log: Log,
    groups: Sequence[RunGroup],
    tables: Tables,
    has_figures: bool,
    metric_of_folder: str | None = None,
    in_common: bool = True,
) -> list[str]:
    """Return the commands that answer the next question about these runs; without figures, how to read more of them.

    `in_common`: whether rows have a metric in common.
    """
    names = [again(name) for name in names]
    shown, commands = join(names), []
    if diagnosis := diagnosis_of(names, tables):
        commands.append(diagnosis)
    if not has_figures:
        return [*commands, *_how_to_read_more(join(names[:1]), tables)]
    runs_by_job = jobs(tables)
    if runs_by_job and sum(map(len, runs_by_job.values())) == len(log):
        return [*commands, f"perflog report {shown}"]
    varied = [name for name in groups[0].settings if name != "model"] if groups else []
    folders = [group.name for group in groups]
    if len(names) > 1 and len(groups) > 1:
        commands.append(f"perflog compare {shown}")
    elif len(groups) == 2 and all(len(group.runs) > 1 for group in groups) and len(set(folders)) == 2:
        commands.append("perflog compare " + join([os.path.join(names[0], folder) for folder in folders]))
    elif in_common and len(groups) > 1 and _may_be_pooled(varied, metric_of_folder):
        commands.append(f"perflog compare {shown} --by {varied[0]}")
    elif len(groups) > 3 and len(varied) > 1 and metric_of_folder != scaling.name and have_factors(varied, tables):
        commands.append(f"perflog analyze {shown} factors")
    elif (
        len(groups) > 1
        and all(group.mark.startswith("#") for group in groups)
        and _measure_the_same(tables, groups[:2])
    ):
        commands.append("perflog compare " + join([f"{names[0]}:{group.mark[1:]}" for group in groups[:2]]))
    metric = _metric_of(tables) if len(log) == 1 else metric_of_folder
    if metric:
        commands.append(f"perflog track {shown}" if metric == history.name else f"perflog analyze {shown} {metric}")
    return [*commands, f"perflog report {shown}"]


def again(name: str) -> str:
    """Return the name of a log as the next command takes it: standard input cannot be read again."""
    return "LOG" if name == "-" else name


def diagnosis_of(names: Sequence[str], tables: Tables) -> str | None:
    """Return the command that shows what ended these runs; None if they report no failure."""
    failures = tables.rows("failures")
    failed = any(failures.known("kind") & ~failures.one_of("severity", [NOTICE]))
    return f"perflog diagnose {join(names)}" if failed else None


def _may_be_pooled(varied: Sequence[str], metric_of_folder: str | None) -> bool:
    """Return whether runs with the same value of the only setting in which they differ may be taken together.

    Runs of a scaling study may not: the settings do not have their sizes. Nor may versions of different speed.
    """
    return len(varied) == 1 and varied != ["format"] and metric_of_folder not in (scaling.name, history.name)


def have_factors(varied: Sequence[str], tables: Tables) -> bool:
    """Return whether metric `factors` says what a setting does. Runs of several programs are no sweep."""
    return "format" not in varied and bool(factors.table(tables, Options())["change"].notna().any())


def _how_to_read_more(name: str, tables: Tables) -> list[str]:
    """Return the next command for runs without a metric that ranks them: counters are read already."""
    if tables.count("counters"):
        return [f"perflog show {name} counters"]
    return [f"perflog formats suggest {name}", f"perflog show {name}"]


def _measure_the_same(tables: Tables, groups: Sequence[RunGroup]) -> bool:
    """Return whether groups of runs have a collective of one operation and size in common, if they have collectives."""
    rows = tables.rows("collectives")
    measured = [set(rows.where(rows.one_of("run", group.runs)).records("op", "bytes")) for group in groups]
    return not any(measured) or bool(set.intersection(*measured))


def _metric_of(tables: Tables) -> str | None:
    """Return the metric that says most about one log. It has an answer."""
    if jobs_of_dumps(tables):
        return stuck_ranks.name
    rows = whatif.table(tables, Options())
    if (rows["rests_on"] == OPERATIONS).any():
        return whatif.name
    if tables.count("collectives") and collectives.has_rows(tables, Options()):
        return collectives.name
    if tables.count("events"):
        return _metric_of_trace(tables)
    tried = (kernels, stages, phases, steps, throughput)  # each has rows only where its table has what it needs
    for metric in tried:
        if tables.count(metric.needs[0]) and _has_rows(metric, tables):
            return metric.name
    for metric in (serving, scaling, cases):
        if _has_rows(metric, tables):
            return metric.name
    return curves.name if (curves.table(tables, Options())["of"] == "curve").any() else None


def _has_rows(metric: Metric, tables: Tables) -> bool:
    if metric is phases:  # of many ranks its rows take time
        return have_phases(tables, Options())
    return metric.has_rows(tables, Options())


def _metric_of_trace(tables: Tables) -> str:
    if trace_devices(tables):
        return device_kernels.name
    if (device_ranges.table(tables, Options())["kind"] != "step").any():  # what the host did is all that it shows
        return device_ranges.name
    return host_operators.name if host_operators.has_rows(tables, Options()) else device_kernels.name
