"""Clocks of ranks: which ranks of a run print the time of another clock, as on a node with a clock that is off.

The ranks of a job end a step together. So if one rank ends each step as long after another, far longer than a step
takes, then their clocks differ, and a time of one is no time of the other.
"""

from __future__ import annotations

import numpy as np

from perflog.metrics.run_tables import Tables, computed_of_all
from perflog.statistics.samples import mad, median
from perflog.tables.columns import NULL, Rows

_NS = 1e9
_FEW = 8  # steps that two ranks print
_LEAST_S, _LEAST_STEPS = 1.0, 2.0  # clocks that differ: in seconds, and in steps
_STEADY = 0.1  # of the difference: scatter of the difference


@computed_of_all
def clock_offsets(tables: Tables, run: str) -> dict[int, float]:
    """Return the ranks with another clock than the lowest rank: how many seconds it is ahead."""
    return _offsets(tables.rows_of("steps", run))


def on_first_clock(tables: Tables, run: str, rows: Rows) -> Rows:
    """Return the rows of a run that have the clock of its lowest rank. A row without a rank has that of a step nearby.

    Args:
        tables: All tables.
        run: The run.
        rows: Rows of the run with `line` and `rank`.
    """
    offsets = clock_offsets(tables, run)
    if not offsets or not len(rows):
        return rows
    steps = tables.whole.rows_of("steps", run)
    order = np.argsort(steps["line"], kind="stable")
    near = np.clip(np.searchsorted(steps["line"][order], rows["line"], "right") - 1, 0, None)
    ranks = np.where(rows["rank"] == NULL, steps["rank"][order][near], rows["rank"])
    return rows.where(~np.isin(ranks, list(offsets)))


def _offsets(steps: Rows) -> dict[int, float]:
    steps = steps.where(steps.known("step", "rank", "printed_ns", "clock") & (steps["copy"] == 1))
    ranks = np.unique(steps["rank"])
    if len(ranks) < 2 or len(steps.counts("clock")) > 1:
        return {}
    numbers, times, epochs = steps["step"], steps["printed_ns"], np.where(steps.known("epoch"), steps["epoch"], 0)
    places = numbers + epochs * (int(numbers.max()) + 1)
    own = steps["rank"] == ranks[0]
    first_places, firsts = np.unique(places[own], return_index=True)
    first_times = times[own][firsts]
    if len(first_places) < _FEW:
        return {}
    step_s = median(np.diff(first_times) / _NS)
    found = {}
    for rank in ranks[1:].tolist():
        here = steps["rank"] == rank
        _, mine, theirs = np.intersect1d(first_places, places[here], return_indices=True)
        if len(mine) < _FEW:
            continue
        ahead = (times[here][theirs] - first_times[mine]) / _NS
        offset = median(ahead)
        if abs(offset) >= max(_LEAST_S, _LEAST_STEPS * step_s) and mad(ahead) <= _STEADY * abs(offset):
            found[rank] = offset
    return found
