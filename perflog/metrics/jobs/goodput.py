"""Goodput: which share of a job's wall time went into steps that count, and what took the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from perflog.metrics.jobs.job_intervals import DOWN, KINDS, REPEATED, TRAINING
from perflog.metrics.jobs.timeline import JobTimeline, job_timelines
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables
from perflog.metrics.step_series import steady_medians
from perflog.statistics.samples import median
from perflog.units import count

_NS = 1e9
_FIRST, _NOTICE, _NO_CAUSE = "first", "notice", "no failure reported"

_BADPUT = {
    "startup": "in Google's badput types accelerator initialisation, training preparation and checkpoint restore",
    "compile": "program start-up in Google's badput types",
    "checkpoint": "unproductive checkpoint save in Google's badput types",
    "data wait": "data loading in Google's badput types",
    "repeated": "wasted progress from disruption in Google's badput types",
    "down": "infrastructure recovery in Google's badput types",
}
"""Kinds of the timeline that Google's ml-goodput-measurement has too, with its names."""

_SECONDS = {kind: f"{kind.replace(' ', '_')}_s" for kind in KINDS}

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("attempts", meaning="number of attempts"),
    MetricColumn("clock", meaning="clock of the times, as in metric `timeline`", brief=False),
    MetricColumn("wall_s", "s", "lower", "from the first line to the last, between attempts too; of clock elapsed "
                 "since it began; null without a clock"),
    MetricColumn("goodput", "1", "higher", "training_s / wall_s; null if no clock covers all attempts"),
    MetricColumn("scheduling", "1", "higher", "share of the wall time in which the job ran: 1 - down_s / wall_s"),
    MetricColumn("runtime", "1", "higher", "share of that time in steps that count: training_s / (wall_s - down_s)"),
    MetricColumn("program", "1", "higher", "median MFU, if the log prints it"),
    MetricColumn("ml_productivity", "1", "higher", "scheduling x runtime x program"),
    *(
        MetricColumn(
            name, "s", "higher" if kind == TRAINING else "lower", _BADPUT.get(kind, f"time of kind {kind}"),
            brief=kind not in ("data wait", "unknown"),
        )
        for kind, name in _SECONDS.items()
    ),
    MetricColumn("steps", meaning="number of steps that count"),
    MetricColumn("steps_lost", meaning="number of steps that were done again"),
    MetricColumn("first_step_s", "s", "lower", "time to first step: from the first line until the first step is done"),
    MetricColumn("recover_s", "s", "lower", "time to recover, mean: from the end of an attempt to the first new step"),
    MetricColumn("lost_by", meaning="by cause: steps that were done again, and seconds until the first new step"),
)  # fmt: skip


@metric(
    title="goodput",
    needs=("steps",),
    columns=_COLUMNS,
    main="goodput",
    formula="goodput = time of the steps that count / wall time, from the intervals of metric `timeline`; a step that "
    "is done again counts once; ML productivity goodput = scheduling x runtime x program",
    source="Google, ML Productivity Goodput and ml-goodput-measurement; MegaScale's effective training time ratio is "
    "the same quotient (2402.15627)",
)
def goodput(tables: Tables, options: Options) -> MetricRows:
    """Goodput of each job, the seconds of each kind, time to the first step, time to recover, and what was lost.

    A job is a run, or the attempts that continue each other. `lost_by` names the first failure of each attempt that
    another one follows: the cause of the repeated steps, and of the time from its end to the first new step. If no
    clock covers all attempts, the seconds come from printed durations alone, and there is no goodput.

    Example:
        >>> table = perflog.metrics.goodput(perflog.find_runs("reference:moe_layer.txt"))
        >>> set(table["clock"])
        {'steps'}
    """
    utilisation = steady_medians(tables, "mfu", options.warmup)
    return [_row(tables, job, utilisation) for job in job_timelines(tables)]


def _row(tables: Tables, job: JobTimeline, utilisation: dict[str, float]) -> dict[str, Any]:
    seconds, wall = job.seconds, job.wall_s
    training, down = seconds.get(TRAINING, 0.0), seconds.get(DOWN, 0.0)
    row: dict[str, Any] = {"run": job.job, "attempts": len(job.runs), "clock": job.clock}
    row |= {name: seconds.get(kind, 0.0) for kind, name in _SECONDS.items()}
    row |= {"steps": _steps(job, TRAINING), "steps_lost": _steps(job, REPEATED)}
    row["first_step_s"] = _first_step(job) if job.is_stamped else None
    losses = losses_of(tables, job) if job.is_stamped else []
    row["recover_s"] = float(np.mean([loss.seconds for loss in losses])) if losses else None
    row["lost_by"] = (
        "; ".join(f"{each.cause}: {count(each.steps, 'step')}, {each.seconds:,.0f} s" for each in losses) or None
    )
    if job.whole and wall > 0:
        row |= {"wall_s": wall, "goodput": training / wall, "scheduling": 1 - down / wall}
        row["runtime"] = training / (wall - down)
        rates = [utilisation[run] for run in job.runs if run in utilisation]
        if rates:
            row["program"] = median(np.array(rates))
            row["ml_productivity"] = row["scheduling"] * row["runtime"] * row["program"]
    return row


def _steps(job: JobTimeline, kind: str) -> int:
    return sum(interval.steps for _, _, interval in job.intervals if interval.kind == kind)


def _first_step(job: JobTimeline) -> float | None:
    """Seconds from the first line until the first step is done, by the mean of the steps after it."""
    start = job.intervals[0][2].begin
    first = next((i for _, _, i in job.intervals if i.kind in (TRAINING, REPEATED)), None)
    return None if first is None else (first.begin - start + (first.end - first.begin) / max(first.steps, 1)) / _NS


class Loss(Struct, frozen=True):
    """What the end of an attempt cost: steps that were done again, and seconds from its end to the first new step."""

    run: str
    cause: str
    steps: int
    seconds: float


def losses_of(tables: Tables, job: JobTimeline) -> list[Loss]:
    """Return what was lost by the end of each attempt that another one follows."""
    found = []
    for number in range(1, len(job.runs)):
        own = [interval for _, attempt, interval in job.intervals if attempt == number and interval.kind != DOWN]
        later = [interval for _, attempt, interval in job.intervals if attempt > number]
        if not own or not later:
            continue
        again = sum(interval.steps for interval in own if interval.kind == REPEATED)
        last = max((i.last_step for i in own if i.last_step is not None), default=None)
        new = next((i for i in later if i.kind == TRAINING and (last is None or (i.last_step or 0) > last)), None)
        if new is None or new.first_step is None:
            continue
        done = 0 if last is None else max(0, last - new.first_step + 1)  # repeated steps among these
        begins = new.begin + (new.end - new.begin) * done / max(new.steps, 1)
        run = job.runs[number - 1]
        found.append(Loss(run, _cause(tables, run), again, (begins - own[-1].end) / _NS))
    return found


def _cause(tables: Tables, run: str) -> str:
    """The kind of the first failure of a run, in words. A notice is none: the program went on."""
    failures = tables.rows_of("failures", run)
    failures = failures.where(~failures.one_of("severity", [_NOTICE]))
    first = failures.where(failures.one_of("role", [_FIRST]))
    rows = first if len(first) else failures
    return str(rows["kind"][0]).replace("_", " ") if len(rows) else _NO_CAUSE
