"""Causes: what takes the time of a run or holds it up, ranked by what the run would win without it."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

from msgspec.structs import replace

from perflog.metrics.causes import job_causes, profile_causes, run_causes, step_causes, trace_causes
from perflog.metrics.causes.binding import binding
from perflog.metrics.causes.cause import SUBJECTS, Cause, Source
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables, computed_once

_SOURCES: tuple[tuple[str, Source], ...] = (
    ("runs", job_causes.stuck), ("runs", job_causes.slow_ranks), ("runs", job_causes.slowest_ranks),
    ("runs", job_causes.stragglers_by_replay), ("runs", step_causes.phases), ("phases", step_causes.slow_ranks),
    ("runs", step_causes.ideals),
    ("events", trace_causes.states), ("events", trace_causes.starts), ("events", trace_causes.late_ranks),
    ("events", trace_causes.unequal_stages),
    ("events", trace_causes.largest_kernels), ("kernels", profile_causes.categories),
    ("runs", job_causes.longest_stages), ("runs", run_causes.slow_steps), ("runs", run_causes.between_steps),
    ("runs", run_causes.outside_of_steps),
)  # fmt: skip
"""Each with the table without which it has no causes: most logs have no events, and empty tables take time too."""

COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("binds", meaning="whether this binds the whole: at most one cause of a run does", type="bool"),
    MetricColumn("of", meaning="the whole: a whole of metric breakdown, pipeline (its layers alone), run, or job"),
    MetricColumn("subject", meaning="; ".join(f"{subject}: {meaning}" for subject, meaning in SUBJECTS.items())),
    MetricColumn("name", meaning="which one: phase, kernel, direction of a stage, call that a rank lacks"),
    MetricColumn("rank", meaning="its rank", type="Int64"),
    MetricColumn("device", meaning="its device", type="Int64"),
    MetricColumn("dp_rank", meaning="its data-parallel rank", type="Int64"),
    MetricColumn("stage", meaning="its pipeline stage", type="Int64"),
    MetricColumn("time_s", "s", "lower", "its time in the whole"),
    MetricColumn("share", "1", None, "time_s / whole_s"),
    MetricColumn(
        "gain_s", "s", None, "time that the whole would be shorter without it; gains overlap and do not add up"
    ),
    MetricColumn("gain", "1", None, "gain_s / whole_s"),
    MetricColumn(
        "by", meaning="what the gain rests on: replay of the dependencies, a bound under the model, or sum: its time"
    ),
    MetricColumn("ratio", "", None, "its time / the mean time of its peers", type="float64"),
    MetricColumn("n", meaning="how often it happens in the whole or in the log", type="Int64"),
    MetricColumn("each_s", "s", "lower", "time of each: the mean", brief=False),
    MetricColumn("whole_s", "s", "lower", "time of the whole", brief=False),
    MetricColumn("model", meaning="what the gain assumes", brief=False),
    MetricColumn("metric", meaning="the metric that has more on it", brief=False),
)


@metric(
    title="causes: what binds the run",
    needs=("runs",),
    columns=COLUMNS,
    main="gain",
    formula="gain by replay: end of the replayed whole - its end without this cause; by bound: from a model; by sum: "
    "time_s. The first whole that the log divides is taken: job, step, phases, traced step, trace, profile, pipeline, "
    "run. Its cause with the largest gain binds. If a part of this cause explains half of it, the part binds: data "
    "instead of the host, kernels, communication or copies instead of the device. So does a rank that costs a tenth "
    "alone: its peers show that the device does not need this time",
    source="metrics breakdown, device_time, launches, replay, stragglers, whatif, stuck_ranks, ranks, named_ranks, "
    "stages, pauses, headroom",
)
def causes(tables: Tables, options: Options) -> MetricRows:
    """What takes the time of each run or holds it up: first the cause that binds it, then the others by their gain.

    Every sentence of the overview, of `diagnose` and of reports about what holds a run up is made from these rows.

    Example:
        >>> table = perflog.metrics.causes(perflog.find_runs("reference:nvprof.txt"))
        >>> table[["binds", "subject", "name", "share"]].head(2).round(2)
           binds  subject  name  share
        ...
    """
    return [
        {column.name: getattr(cause, column.name) for column in COLUMNS if column.name != "label"}
        for found in causes_by_run(tables, options).values()
        for cause in found
    ]


@computed_once
def causes_by_run(tables: Tables, options: Options) -> dict[str, Sequence[Cause]]:
    """Return the causes of each run that has any, in the order of the runs: first what binds it, then by gain."""
    found: dict[str, list[Cause]] = {run: [] for (run,) in tables.rows("runs").records("run")}
    for needed, source in _SOURCES:
        for cause in source(tables, options) if tables.count(needed) else ():
            found[cause.run].append(cause)
    return {run: _ranked(members) for run, members in found.items() if members}


def bound_by(tables: Tables, run: str, options: Options) -> Cause | None:
    """Return what binds a run; None if its log does not show it, or nothing takes enough of its time."""
    return next((cause for cause in causes_by_run(tables, options).get(run, ()) if cause.binds), None)


def bound_by_rank(tables: Tables, run: str, options: Options) -> bool:
    """Return whether a rank binds a run. All causes are computed only if there is a rank that may."""
    # The sources of causes with subject `rank`.
    rank_sources = (("phases", step_causes.slow_ranks), ("events", trace_causes.late_ranks))
    may_bind = any(
        cause.run == run and cause.may_bind
        for needed, source in rank_sources
        if tables.count(needed)
        for cause in source(tables, options)
    )
    cause = bound_by(tables, run, options) if may_bind else None
    return cause is not None and cause.subject == "rank"


def _ranked(members: Sequence[Cause]) -> list[Cause]:
    first = binding(members)
    causes = [replace(cause, binds=cause is first) for cause in members]
    return sorted(causes, key=lambda cause: (not cause.binds, isnan(cause.gain), -cause.gain))
