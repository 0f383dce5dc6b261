"""Causes between the steps of a run: pauses, steps that take far longer, time in which it does no step."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from perflog.metrics.causes.cause import RUN, Cause
from perflog.metrics.causes.slow_steps import SLOW_STEPS, far_longer, parts_of_slow_steps
from perflog.metrics.jobs.pauses import pauses
from perflog.metrics.options import Options
from perflog.metrics.run_tables import Tables
from perflog.metrics.step_series import StepSeries, step_series
from perflog.tables.columns import Rows
from perflog.tables.nulls import row_dicts

_MOSTLY = 0.5  # of the steps done
_FEWEST = 2  # steps


def slow_steps(tables: Tables, options: Options) -> Iterator[Cause]:
    """Yield what steps over twice the median cost, such as those with an evaluation or a checkpoint inside.

    The whole is the time of the printed steps. If these are less than half of the steps done, the time of the others is
    not known, and the cause may not bind.
    """
    parts = parts_of_slow_steps(tables, options.warmup)
    for series in step_series(tables, warmup=options.warmup):
        if not len(series.steady):
            continue
        part = parts.get(series.run)
        times, slow = series.steady, far_longer(series)
        centre = float(np.median(times))
        cost = float((times[slow] - centre).sum())
        if cost > 0:
            yield Cause(
                run=series.run, of=RUN, subject=SLOW_STEPS, name=part.name if part else None,
                rank=part.rank if part else None,
                whole_s=float(times.sum()),
                time_s=float(times[slow].sum()), gain_s=cost, model="they take the median", n=int(slow.sum()),
                each_s=float(times[slow].mean()), metric="steps", may_bind=covers_most(series),
            )  # fmt: skip


def covers_most(series: StepSeries) -> bool:
    """Return whether the printed steady steps are at least half of the steps done in that time."""
    done = int(series.order[-1] - series.order[series.warmup.cut])
    return max(series.averaged, 1) * (len(series.steady) - 1) >= _MOSTLY * done


def between_steps(tables: Tables, options: Options) -> Iterator[Cause]:
    """Yield validations and checkpoints, as shares of the run's time."""
    if not pauses.has_rows(tables, options):
        return
    rows = pauses.table(tables, options)
    for row in row_dicts(rows[rows["share"].notna()]):
        for kind in ("validation", "checkpoint"):
            if kind in row["kind"]:
                yield Cause(
                    run=row["run"], of=RUN, subject=kind, name=row["kind"], whole_s=float(row["run_s"]),
                    time_s=float(row["total_s"]), gain_s=float(row["total_s"]), n=int(row["n"]),
                    each_s=float(row["mean_s"]), metric="pauses",
                )  # fmt: skip
                break


def outside_of_steps(tables: Tables, options: Options) -> Iterator[Cause]:  # noqa: ARG001 (all sources take the same)
    """Yield the time of a run's clock in which it did no step, if the step lines cover all steps.

    One step is no evidence: a log may show one of many.
    """
    for run, total in tables.rows("runs").records("run", "elapsed_s"):
        if total is None or not total > 0:
            continue
        steps = tables.rows_of("steps", run)
        steps = steps.where((steps["copy"] == 1) & steps.known("step_time_s") & ~steps.known("step_time_by"))
        numbers = steps["step"][steps.known("step")]
        if len(set(numbers.tolist())) < _FEWEST or _may_lack_steps(steps):
            continue
        covered = np.where(steps.known("steps_averaged"), steps["steps_averaged"], 0)
        outside = total - float(covered @ steps["step_time_s"])
        if covered.sum() >= int(numbers.max()) - int(numbers.min()) + 1 and outside > 0:
            yield Cause(
                run=run, of=RUN, subject="outside of steps", whole_s=float(total), time_s=outside, gain_s=outside,
                metric="steps",
            )  # fmt: skip


def _may_lack_steps(steps: Rows) -> bool:
    """Return whether the clock may have begun before the first of these steps: the log may lack the steps before it."""
    first = steps.where(steps.known("step") & steps.known("elapsed_s"))
    if not len(first["step"]):
        return False
    k = int(np.argmin(first["step"]))
    covered = int(first["steps_averaged"][k]) if first.known("steps_averaged")[k] else 1
    before = int(first["step"][k]) - covered
    return before > 0 and float(first["elapsed_s"][k]) >= _MOSTLY * before * float(np.median(steps["step_time_s"]))
