"""Lasting changes of the speed during compared runs: on which side and since which step, and the sides around it.

Where runs drift, with no change at one step, the sides are compared in the first and in the last tenth of the steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

import numpy as np
from msgspec import Struct

from perflog.analysis.compare.sides import Case, Side
from perflog.metrics.compared import STEP_TIME
from perflog.metrics.jobs.step_drifts import run_drifts
from perflog.metrics.jobs.step_levels import SPEEDS, RunLevels, changes_with, run_levels
from perflog.metrics.registry import column, columns_of
from perflog.metrics.step_series import StepSeries, step_series
from perflog.statistics.samples import median

_FEWEST = 5  # values of a run in a section
_NEAR = 0.05  # of the steps: changes that are as near to each other are one, and the steps between are in no section


class SpeedSection(Struct, frozen=True):
    """One side between two changes of the speed on any side of a case."""

    case: Annotated[str, column("the configuration that the sides share")]
    side: Annotated[str, column("name of the side")]
    figure: Annotated[str, column("what shows the speed: step_time, a rate, or a time by name")]
    unit: Annotated[str, column("its unit")]
    first_step: Annotated[int, column("first step of the section")]
    last_step: Annotated[int, column("last step of the section")]
    value: Annotated[float, column("median over the section; of several runs the geometric mean of these")]
    against_base: Annotated[float | None, column("value / value of the base - 1; null for the base", "1")]
    changed_runs: Annotated[int, column("number of runs of this side that have a new level from the first step on")]
    runs: Annotated[int, column("number of runs of this side")]
    before: Annotated[float | None, column("the level of these runs before: the geometric mean")]
    after: Annotated[float | None, column("the new level of these runs: the geometric mean")]
    with_it: Annotated[str | None, column("what else changed in the first of these runs")]

    @property
    def change(self) -> float | None:
        """The new level relative to the level before."""
        return None if self.before is None or self.after is None else self.after / self.before - 1


COLUMNS = columns_of(SpeedSection)


def speed_changes(sides: Sequence[Side], cases: Sequence[Case]) -> list[SpeedSection]:
    """Return a row per case, section and side, for cases in which a run changes its speed; the base first.

    The changes are the levels of metric `levels`. Nothing is returned where runs show their speed by different figures.
    """
    return [row for case in cases for row in _of_case(case, sides)]


class _Change(Struct, frozen=True):
    """A new level of one run."""

    side: int
    levels: RunLevels
    number: int  # of the level

    @property
    def steps(self) -> tuple[int, int]:
        """The last step before, and the first step of the level."""
        start = self.levels.levels[self.number].start
        return int(self.levels.series.steps[start - 1]), int(self.levels.series.steps[start])


def _of_case(case: Case, sides: Sequence[Side]) -> Iterator[SpeedSection]:
    levels = [run_levels(side.tables) for side in sides]
    changes = [
        _Change(k, of[run], number)
        for k, (of, runs) in enumerate(zip(levels, case.runs, strict=True))
        for run in runs
        if run in of and np.array_equal(of[run].series.steps, of[run].series.order)  # a step number names one step
        for number in range(1, len(of[run].levels))
    ]
    figures = {(each.levels.series.column, each.levels.unit) for each in changes}
    if not figures:
        yield from _of_drifts(case, sides)
    if len(figures) != 1:
        return
    ((figure, unit),) = figures
    series = [
        _series(side, runs, {run: each.series for run, each in of.items()}, figure)
        for side, runs, of in zip(sides, case.runs, levels, strict=True)
    ]
    begin = min(int(each.levels.series.steps[each.levels.levels[0].start]) for each in changes)
    end = max(int(each.steps[-1]) for runs in series for each in runs)
    together = list(_near_to_each_other(changes, _NEAR * (end - begin)))
    ends = [(min(each.steps[0] for each in near), max(each.steps[1] for each in near)) for near in together]
    sections = zip([begin, *(first for _, first in ends)], [*(last for last, _ in ends), end], strict=True)
    for (first, last), near in zip(sections, [[], *together], strict=True):
        values = [_geometric_mean([_median(each, first, last) for each in runs]) for runs in series]
        for k, (side, value) in enumerate(zip(sides, values, strict=True)):
            if value is not None:
                own = [each for each in near if each.side == k]
                base = values[0] if k else None
                name = figure.removesuffix("_s") if figure == STEP_TIME.column else figure
                yield SpeedSection(
                    case.name, side.name, name, unit, first, last, value, value / base - 1 if base else None,
                    len({each.levels.series.run for each in own}), len(case.runs[k]),
                    _geometric_mean([each.levels.medians[each.number - 1] for each in own]),
                    _geometric_mean([each.levels.medians[each.number] for each in own]),
                    (changes_with(side.tables, own[0].levels, own[0].number) or None) if own else None,
                )  # fmt: skip


def _of_drifts(case: Case, sides: Sequence[Side]) -> Iterator[SpeedSection]:
    """Yield each side in the first and in the last tenth of the steps that all runs have, if a run drifts."""
    drifts = [
        drift
        for side, runs in zip(sides, case.runs, strict=True)
        for run, drift in run_drifts(side.tables).items()
        if run in runs
    ]
    figures = {(each.series.column, each.unit) for each in drifts}
    if len(figures) != 1:
        return
    ((figure, unit),) = figures
    drifting = {each.series.run: each.series for each in drifts}
    series = [_series(side, runs, drifting, figure) for side, runs in zip(sides, case.runs, strict=True)]
    every = [each for runs in series for each in runs if np.array_equal(each.steps, each.order)]
    if len(every) < sum(map(len, case.runs)):
        return
    begin = max(int(each.steps[each.warmup.cut]) for each in every)
    end = min(int(each.steps[-1]) for each in every)
    tenth = (end - begin) // 10
    name = figure.removesuffix("_s") if figure == STEP_TIME.column else figure
    for first, last in ((begin, begin + tenth), (end - tenth, end)):
        values = [_geometric_mean([_median(each, first, last) for each in runs]) for runs in series]
        for k, (side, value) in enumerate(zip(sides, values, strict=True)):
            if value is not None:
                against, number = value / values[0] - 1 if k and values[0] else None, len(case.runs[k])
                yield SpeedSection(
                    case.name, side.name, name, unit, first, last, value, against, 0, number, None, None, None
                )


def _series(side: Side, runs: Sequence[str], known: Mapping[str, StepSeries], figure: str) -> list[StepSeries]:
    """Return the series of the runs of a side; of runs that do not change only where the figure is a column."""
    others = step_series(side.tables, figure) if figure in SPEEDS else []
    by_run = {each.run: each for each in others} | dict(known)
    return [by_run[run] for run in runs if run in by_run]


def _near_to_each_other(changes: Sequence[_Change], distance: float) -> Iterator[list[_Change]]:
    """Yield the changes in the order of their steps; if they are near to each other, in one list."""
    near: list[_Change] = []
    for change in sorted(changes, key=lambda each: each.steps[1]):
        if near and change.steps[1] - near[0].steps[1] > distance:
            yield near
            near = []
        near.append(change)
    yield near


def _median(series: StepSeries, first: int, last: int) -> float | None:
    """Return the median over the steps from the first to the last one; None of a few."""
    values = series.values[(series.steps >= first) & (series.steps <= last)]
    return median(values) if len(values) >= _FEWEST else None


def _geometric_mean(values: Sequence[float | None]) -> float | None:
    """Return the geometric mean; None if a value is missing or not above 0, or if there are none."""
    known = [value for value in values if value is not None and value > 0]
    return float(np.exp(np.mean(np.log(known)))) if known and len(known) == len(values) else None
