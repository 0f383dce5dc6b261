"""Hasty steps: lines that a program printed before the device had done the work that they count.

A program that does not wait for the device times only how long it takes to launch a step. So the first step after the
compilation of JAX, for example, claims the work of the others in a fraction of their time, at a far higher rate.
"""

from __future__ import annotations

import numpy as np

from perflog.arrays import Mask
from perflog.metrics.possible import RATES
from perflog.metrics.run_tables import Tables, computed_once
from perflog.statistics.groups import groups_of
from perflog.tables.columns import Rows

_TIMES = 5.0  # the median rate: no warm step is so much faster than the others
_SAME_WORK = 0.2  # relative difference of rate x time from the other steps, at most
_EARLY = 5  # printed steps at the start of a run, among which the launch is not yet throttled by the device
_FEWEST = 3  # steps from which the median shows the usual rate


@computed_once
def hasty_steps(tables: Tables) -> Mask:
    """Flag the rows of table `steps` with a time too short for the work that they report."""
    steps = tables.rows("steps")
    flags = np.zeros(len(steps), np.bool_)
    for rate in RATES[:3]:
        known = steps.known("step_time_s", rate, "step")
        if not known.any():
            continue
        known_rows, rows = np.flatnonzero(known), steps.where(known)
        for part in rows.stretches("run").values():
            flags[known_rows[part]] |= _first_steps(rows.where(part), rate)
    return flags


def _first_steps(rows: Rows, column: str) -> Mask:
    """Flag the first steps of a run with a rate far above the median, for the same work."""
    times, rates = rows["step_time_s"], rows[column]
    work = rates * times
    if len(rows) < _FEWEST or not (work > 0).all():
        return np.zeros(len(rows), np.bool_)
    usual = np.median(work)
    same: Mask = np.abs(work / usual - 1) <= _SAME_WORK
    if not same.any():
        return same
    fast: Mask = same & (rates > _TIMES * np.median(rates[same]))
    return fast & (groups_of(rows["step"]).inverse < _EARLY) if fast.any() else fast
