"""The step at which the named series of runs of different length are compared, beside their last values.

The last loss of 2,000 steps and that of 1,000 steps say little about which run learns faster.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from statistics import median_high

import numpy as np

from perflog.analysis.compare.printed_measures import LOSS, Figure, last_values
from perflog.analysis.compare.sides import Case, Side
from perflog.tables.columns import NULL, Ints, Rows

_REACHED = 0.5  # of its side's usual last step: a run that stopped before shortens no other run

EqualSteps = Mapping[str, int]
"""Step by name of the series."""


def equal_steps(sides: Sequence[Side], case: Case) -> dict[str, int]:
    """Return, for each series whose last step differs between runs of a case, the last step that all runs print.

    Runs that stopped early are left out. Series without such a step are left out too.
    """
    lasts = [{run: _last_steps(side, run) for run in runs} for side, runs in zip(sides, case.runs, strict=True)]
    steps = {}
    for series in dict.fromkeys(name for of_side in lasts for of_run in of_side.values() for name in of_run):
        of_sides = [{run: of_run[series] for run, of_run in of_side.items() if series in of_run} for of_side in lasts]
        if len({step for of_side in of_sides for step in of_side.values()}) < 2 or not all(of_sides):
            continue
        printed = [
            _steps(side, run, series)
            for side, of_side in zip(sides, of_sides, strict=True)
            for run in _reaching(of_side)
        ]
        if len(shared := reduce(np.intersect1d, printed)):
            steps[series] = int(shared[-1])
    return steps


def series_values(values: Rows, steps: Rows, at: EqualSteps, either_way: Collection[str] = ()) -> Iterator[Figure]:
    """Yield the last value of each series; before it the value at its step in `at`, if the run prints one there.

    Only of figures without a unit, such as losses: a rate at one step says nothing. `either_way`: see `last_values`.
    """
    shared: dict[str, Figure] = {}
    for step in set(at.values()):
        at_step = values.where(values["step"] == step), steps.where(steps["step"] == step)
        for figure in last_values(*at_step, either_way):
            name, unit, *_ = figure
            if at.get(name) == step and not unit:
                shared[name] = figure
    for last in last_values(values, steps, either_way):
        if (series := last[0]) in shared:
            yield f"{series} at step {at[series]}", *shared[series][1:]
        yield last


def _reaching(last_steps: Mapping[str, int]) -> Iterable[str]:
    """The runs of a side that did not stop early."""
    usual = median_high(last_steps.values())
    return (run for run, step in last_steps.items() if step >= _REACHED * usual)


def _last_steps(side: Side, run: str) -> dict[str, int]:
    """The last step of each series of a run."""
    values, steps = side.tables.rows_of("values", run), side.tables.rows_of("steps", run)
    lasts = {}
    losses = steps["step"][steps.known("step", "loss")]
    if len(losses):
        lasts[LOSS] = int(losses.max())
    if len(values):
        codes, words = values.codes("key")
        last = np.full(len(words) + 1, NULL)
        np.maximum.at(last, codes, values["step"])
        lasts |= {word: step for word, step in zip(words, last.tolist(), strict=False) if step != NULL}
    return lasts


def _steps(side: Side, run: str, series: str) -> Ints:
    """The steps at which a run prints a series."""
    values, steps = side.tables.rows_of("values", run), side.tables.rows_of("steps", run)
    of_values = values["step"][values.one_of("key", [series]) & values.known("step")]
    of_losses = steps["step"][steps.known("step", "loss")] if series == LOSS else of_values[:0]
    return np.unique(np.concatenate([of_values, of_losses]))
