"""Ranks without a label: processes that print each step into one log, in lines that do not name their rank.

A step that one process prints again has the same values, or comes far after the first printing, after a restart. Ranks
print a step at about the same time, and with rates and memory of their own. They are as many as the run has ranks, or
print the same loss.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perflog.arrays import Ints, Mask
from perflog.metrics.run_tables import Tables, computed_once
from perflog.metrics.step_counters import runs_in_parts
from perflog.statistics.groups import groups_of
from perflog.tables.columns import NULL, Rows

_OWN = ("tokens_per_s", "step_time_s", "samples_per_s", "tflops", "mfu", "memory_bytes", "forward_s", "backward_s")
"""Columns that each rank measures itself."""

_MEASURED = (*_OWN, "loss", "perplexity", "grad_norm", "learning_rate")

_MOST, _USUAL, _HALF = 0.9, 0.6, 0.5  # shares of the steps
_NEAR = 3  # printings of a step are among so many times their number of lines


@computed_once
def unlabelled_ranks(tables: Tables) -> dict[str, int]:
    """Return how many ranks print each step, by run, if several do and their lines do not name them."""
    rows = tables.rows("steps")
    if not (rows["copy"] > 1).any():
        return {}
    rows = rows.where(rows.known("step"))
    found = {
        run: _ranks_of(run_steps, tables.rows_of("runs", run)["world_size"].tolist())
        for run, run_steps in rows.by("run").items()
        if (run_steps["copy"] > 1).any()
    }
    return {run: number for run, number in found.items() if number > 1}


@computed_once
def printings(tables: Tables) -> Ints:
    """Return column `copy` of table `steps`, with 1 for each rank without a label, and for each part of a step."""
    steps = tables.rows("steps")
    copies: Ints = steps["copy"]
    if not (copies > 1).any():
        return copies
    runs = {*unlabelled_ranks(tables), *runs_in_parts(tables)}
    return np.where(steps.one_of("run", runs) | _add_columns(steps), 1, copies)


def _add_columns(steps: Rows) -> Mask:
    """Return which rows print columns that no other row of their step has: its loss and its time in two lines."""
    step = groups_of(
        steps.codes("run")[0], steps.codes("source")[0], steps["rank"], steps["epoch"], steps["step"]
    )  # fmt: skip
    adds, shares = np.zeros((2, len(steps)), np.bool_)
    for column in _MEASURED:
        known = ~np.isnan(steps[column])
        is_shared = (np.bincount(step.inverse, known, len(step.sizes)) > 1)[step.inverse]
        adds |= known
        shares |= known & is_shared
    return adds & ~shares & steps.known("step")


def _ranks_of(rows: Rows, world_sizes: Sequence[int]) -> int:
    """The number of ranks that print each step without a label, over all named pods; 1 if nothing proves several."""
    rows = rows.where(np.lexsort((rows["part"], rows["line"])))
    names = rows.codes("source")[0]
    epochs = np.where(rows["epoch"] == NULL, -1, rows["epoch"])
    ranks = np.where(rows["rank"] == NULL, -1, rows["rank"])
    steps = groups_of(ranks, names, epochs, rows["step"])
    number = int(np.bincount(steps.sizes).argmax())
    if number < 2 or np.mean(steps.sizes == number) < _USUAL or np.mean(steps.sizes > 1) < _MOST:
        return 1
    several = steps.sizes > 1
    places = np.arange(len(rows))
    first, last = _ends(places, steps.inverse, len(steps.sizes))
    members = len(groups_of(ranks, names).sizes)
    near = last - first < _NEAR * members * steps.sizes
    low, high = _ends(rows["loss"], steps.inverse, len(steps.sizes))
    differs = np.zeros(len(steps.sizes), np.bool_)
    for column in _OWN:
        least, most = _ends(rows[column], steps.inverse, len(steps.sizes))
        differs |= least < most
    is_alike = (low == high) | (number * members in world_sizes)
    are_ranks = all(map(_holds, (near, is_alike, differs), (_MOST, _MOST, _HALF), (several,) * 3))
    return number * members if are_ranks else 1


def _holds(flags: Mask, share: float, among: Mask) -> bool:
    """Whether at least a share of the steps is flagged."""
    return bool(np.mean(flags[among]) >= share)


def _ends(values: Ints, inverse: Ints, count: int) -> tuple[Ints, Ints]:
    """The smallest and the largest known value of each group; NaN where a float has none."""
    if values.dtype == np.float64:
        low, high = np.full(count, np.nan), np.full(count, np.nan)
    elif (values == NULL).all():
        return np.zeros(count, np.int64), np.zeros(count, np.int64)
    else:
        low, high = np.full(count, np.iinfo(np.int64).max), np.full(count, NULL)
    np.fmin.at(low, inverse, values)
    np.fmax.at(high, inverse, values)
    return low, high
