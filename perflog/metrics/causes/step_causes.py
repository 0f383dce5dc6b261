"""Causes inside the steps of a log: its timed phases, what no timer covers, and what could be ideal."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import nan
from typing import TYPE_CHECKING

import numpy as np

from perflog.metrics.causes.cause import BOUND, Cause
from perflog.metrics.options import Options
from perflog.metrics.run_tables import Tables
from perflog.metrics.skew.imbalance import imbalance
from perflog.metrics.step_time.breakdown import UNTIMED, breakdown, without_pauses
from perflog.metrics.step_time.headroom import at_plain_products, at_the_peak, equal_ranks
from perflog.metrics.step_time.phase_table import runs_of_slowest_ranks, times_on_ranks
from perflog.metrics.step_time.phases import rows_with_wholes
from perflog.statistics.groups import groups_of

if TYPE_CHECKING:
    import pandas as pd

_SUBJECTS = {UNTIMED: UNTIMED, "data": "data", "wait": "waiting", "communication": "communication"}
_MOSTLY = 0.5  # of the whole: one part that takes more binds it
_HELD_UP = ("wait", "communication", UNTIMED)
"""Kinds of parts in which ranks may wait for another one."""

_ALWAYS = 0.8  # of the steps: a rank that is the slowest in fewer is not slower than the others
_LEAST = 1e-3  # of the slowest rank: times that are a thousand times shorter have no telling ratio
_MATTERS = 0.03  # of the step: what the slowest rank takes longer than the mean, at least
_CLEARLY = 0.1  # of the mean, or of the step: a rank that takes so much longer
_IDEALS = {"unequal ranks": equal_ranks, "slow products": at_plain_products, "below the peak": at_the_peak}


def phases(tables: Tables, options: Options) -> Iterator[Cause]:
    """Yield each innermost phase, and the untimed rest.

    A phase can bind if it takes over half of the whole, or if no more time is untimed than the second longest takes.
    """
    if not breakdown.has_rows(tables, options):
        return
    rows = breakdown.table(tables, options)
    rows = rows[rows["of"].isin(["step", "phases"])]
    for (run, of), parts_of_run in rows.groupby(["run", "of"], sort=False):
        parts = without_pauses(parts_of_run, tables, options)
        timed = parts["share"][parts["kind"] != UNTIMED]
        untimed = float(parts["share"][parts["kind"] == UNTIMED].sum())
        second = float(timed.iloc[1]) if len(timed) > 1 else nan
        is_known = len(timed) > 0 and (float(timed.iloc[0]) > _MOSTLY or untimed < second)
        columns = zip(*(parts[name] for name in ("part", "kind", "time_s", "whole_s")), strict=True)
        is_slowest = run in runs_of_slowest_ranks(tables)
        for part, kind, time_s, whole_s in columns:
            where = "" if not is_slowest else " beside the slowest ranks" if kind == UNTIMED else " of the slowest rank"
            yield Cause(
                run=str(run), of=str(of), subject=_SUBJECTS.get(kind, "phase"), name=f"{part}{where}",
                time_s=float(time_s), gain_s=float(time_s), whole_s=float(whole_s), metric="phases",
                may_bind=is_known and kind != UNTIMED,
            )  # fmt: skip


def slow_ranks(tables: Tables, options: Options) -> Iterator[Cause]:
    """Yield the ranks that take longer than the others for a phase in nearly all steps.

    The others wait for such a rank: no longer than the step is untimed, waits or communicates, nor than the rank works
    longer in all. A rank that takes longer for one phase and less for another waits in the first, or holds up nobody.
    """
    if not breakdown.has_rows(tables, options):
        return
    parts = breakdown.table(tables, options)
    inner = parts[(parts["of"] == "step") & ~parts["kind"].isin(_HELD_UP)]
    if not len(inner):
        return
    rows = imbalance.table(tables, options)
    rows = rows[(rows["of"] == "phase") & (rows["over"] == "rank") & (rows["largest_share"] >= _ALWAYS)]
    rows = rows[(rows["members"] > 1) & (rows["imbalance"] >= _CLEARLY)]
    for (run, name), phases_of_run in rows[rows["run"].isin(set(inner["run"]))].groupby(["run", "name"], sort=False):
        step = parts[(parts["run"] == run) & (parts["of"] == "step")]
        if float((phases_of_run["max"] - phases_of_run["mean"]).sum()) < _MATTERS * float(step["whole_s"].iloc[0]):
            continue  # nobody waits for long; what follows takes time
        step = without_pauses(step, tables, options)
        work = set(step["part"][~step["kind"].isin(_HELD_UP)])
        if name not in work or phases_of_run["largest"].nunique() != 1:
            continue
        longer = _works_longer(tables, str(run), work, int(phases_of_run["largest"].iloc[0]), options)
        if longer > 0:
            yield _slow_rank(str(run), str(name), phases_of_run, step, longer)


def _works_longer(tables: Tables, run: str, work: Collection[str], rank: int, options: Options) -> float:
    """Return how much longer a rank works in a step than the mean of the others, all phases with work together, in s.

    0 if the others are not known.
    """
    (table,) = rows_with_wholes(tables.only([run]), options.warmup)
    is_work = np.isin(table.phase, [code for code, name in enumerate(table.names) if name in work])
    rows = table.where(is_work)
    _, step, ranks, times = times_on_ranks(rows, rows.rank)
    steps = groups_of(step[ranks != rank])
    own, others = times[ranks == rank], steps.means(times[ranks != rank])
    return float(np.median(own) - np.median(others)) if len(own) and len(others) else 0.0


def _slow_rank(run: str, name: str, phases_of_run: pd.DataFrame, step: pd.DataFrame, longer: float) -> Cause:
    """Return the rank that is the slowest in each occurrence of a phase, against the mean of the other ranks.

    `longer`: how much longer it works in all phases together.
    """
    slowest, mean = (float(phases_of_run[column].sum()) for column in ("max", "mean"))
    n = int(phases_of_run["members"].iloc[0])
    others = (n * mean - slowest) / (n - 1)
    whole = float(step["whole_s"].iloc[0])
    may_wait = float(step["time_s"][step["kind"].isin(_HELD_UP)].sum()) * n / (n - 1)  # of the others: a mean over all
    gain = min(slowest - others, may_wait, longer)
    return Cause(
        run=run, of="step", subject="rank", name=name, rank=int(phases_of_run["largest"].iloc[0]), time_s=slowest,
        gain_s=gain, whole_s=whole, by=BOUND, model="it takes as long as the others, which wait for it after the phase",
        ratio=slowest / others if others > _LEAST * slowest else None, metric="imbalance",
        may_bind=gain >= _CLEARLY * whole,
    )  # fmt: skip


def ideals(tables: Tables, options: Options) -> Iterator[Cause]:
    """Yield what a step would win if its ranks were equal, or its work ran at a rate that the device can reach."""
    for subject, gains in _IDEALS.items():
        for gain in gains(tables, options):
            if gain.gain_s > 0:
                yield Cause(
                    run=gain.run, of=gain.of, subject=subject, name=gain.ideal, whole_s=gain.time_s,
                    gain_s=gain.gain_s, by=BOUND, model=gain.model, metric="headroom", may_bind=False,
                )  # fmt: skip
