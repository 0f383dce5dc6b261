"""Causes inside the steps of a log: its timed phases, what no timer covers, and what could be ideal."""

from __future__ import annotations

from collections.abc import Iterator
from math import nan

from perflog.metrics.causes.cause import BOUND, Cause
from perflog.metrics.options import Options
from perflog.metrics.run_tables import Tables
from perflog.metrics.step_time.breakdown import UNTIMED, breakdown
from perflog.metrics.step_time.headroom import at_plain_products, at_the_peak, equal_ranks

_SUBJECTS = {UNTIMED: UNTIMED, "data": "data", "wait": "waiting", "communication": "communication"}
_MOSTLY = 0.5  # of the whole: one part that takes more binds it
_IDEALS = {"unequal ranks": equal_ranks, "slow products": at_plain_products, "below the peak": at_the_peak}


def phases(tables: Tables, options: Options) -> Iterator[Cause]:
    """Yield each innermost phase, and the untimed rest.

    A phase can bind if it takes over half of the whole, or if no more time is untimed than the second longest takes.
    """
    rows = breakdown.table(tables, options)
    if not len(rows):
        return
    rows = rows[rows["of"].isin(["step", "phases"])]
    for (run, of), parts in rows.groupby(["run", "of"], sort=False):
        timed = parts["share"][parts["kind"] != UNTIMED]
        untimed = float(parts["share"][parts["kind"] == UNTIMED].sum())
        second = float(timed.iloc[1]) if len(timed) > 1 else nan
        is_known = len(timed) > 0 and (float(timed.iloc[0]) > _MOSTLY or untimed < second)
        columns = zip(*(parts[name] for name in ("part", "kind", "time_s", "whole_s")), strict=True)
        for part, kind, time_s, whole_s in columns:
            yield Cause(
                run=str(run), of=str(of), subject=_SUBJECTS.get(kind, "phase"), name=part, time_s=float(time_s),
                gain_s=float(time_s), whole_s=float(whole_s), metric="phases", may_bind=is_known and kind != UNTIMED,
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
