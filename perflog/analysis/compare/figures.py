"""Figures: the numbers of a run that two sides are compared by, such as the median and the mean of its step times.

Each is one number per run. Effects between them (`perflog.statistics.effects`) are differences of their logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from zlib import crc32

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perflog.analysis.compare.verdicts import TESTED, VerdictRule
from perflog.arrays import Floats
from perflog.metrics.compared import STEP_TIME, Measure
from perflog.metrics.step_series import StepSeries
from perflog.statistics import bootstrap, effects, samples
from perflog.statistics.effects import Effect, Scatter, change_of
from perflog.statistics.two_tests import TwoTests

_TAIL_STEPS = 100
"""Steady steps a run needs for a 99th percentile: with fewer it would be the slowest step."""

_SAME_SCHEDULE = 0.5
"""Two runs share a schedule of step lengths if step by step they scatter at most this much as much as the steps do."""

_PAIRED_STEPS = 10


def _p99(values: Floats) -> float:
    return float(np.quantile(values, 0.99))


def _mean(values: Floats) -> float:
    return float(values.mean())


VALUE = "value"
"""The figure of runs that have one number only."""

STATISTICS: Mapping[str, Callable[[Floats], float]] = {
    "median": samples.median,
    "mean": _mean,
    "p99": _p99,
    VALUE: samples.median,
}
"""Figure of a run's steady values, by name."""

TOTAL = "total"
"""Time of all steps from the first one, over runs that print the same steps: the warm-up counts too."""


class SideFigure(Struct, frozen=True, dict=True):
    """A figure of one side: one number per run, and the values of each run that it summarizes."""

    runs: Floats
    values: Sequence[Floats]
    statistic: str
    seed: tuple[int, int]
    draws: int

    @property
    def centre(self) -> float:
        """The geometric mean of the runs' figures; their mean if one is not above 0."""
        return float(np.exp(np.log(self.runs).mean())) if (self.runs > 0).all() else float(self.runs.mean())

    @cached_property
    def drawn(self) -> Floats:
        """Bootstrap draws of the figure of a single run."""
        return self.draw(self.values[0])

    def draw(self, values: Floats) -> Floats:
        """Return bootstrap draws of the statistic of a series of steps."""
        rng = np.random.default_rng(self.seed)
        return bootstrap.block_draws(values, self.statistic, bootstrap.draws_for(values, self.draws), rng)

    @property
    def units(self) -> float:
        """The number of independent units in `drawn`."""
        return bootstrap.independent_units(self.values[0])

    def interval(self, level: float, scatter: Scatter | None = None) -> tuple[float, float]:
        """Return the interval of the centre; NaN where nothing tells its error.

        That of a single run is within this run, unless `scatter` tells how much its repeats differ.
        """
        if not (self.runs > 0).all():
            return math.nan, math.nan
        logs = np.log(self.runs)
        if scatter is not None and len(logs) == 1:
            own = Effect(float(logs[0]), scatter.deviation, scatter.freedom)
        elif len(logs) > 1:
            own = effects.mean_of_runs(logs)
        elif self.statistic != TOTAL and self.units > 1 and (self.drawn > 0).all():
            own = Effect(float(logs[0]), float(np.log(self.drawn).std()), max(self.units - 1, 1.0))
        else:
            return math.nan, math.nan
        low, high = own.interval(level)
        return 1 + change_of(low), 1 + change_of(high)


class Estimate(Struct, frozen=True):
    """The effect between two sides, and what it rests on.

    `scope`: "runs"; with one run a side "history", or "steps" if no other repeats of these runs are known. `paired`:
    step by step, because both runs share a schedule. `scatter`: that of the history. `with_ranks`:
    the effect with a rank test of the runs beside it, where there are enough.
    """

    effect: Effect
    scope: str
    paired: bool = False
    drift: float = 0.0
    scatter: Scatter | None = None
    with_ranks: TwoTests | None = None

    @property
    def p(self) -> float:
        """The p that verdicts take."""
        return self.with_ranks.p if self.with_ranks else self.effect.p()

    @property
    def p_rank(self) -> float:
        """The p of the rank test, NaN where there is none."""
        return self.with_ranks.p_rank if self.with_ranks else math.nan

    def interval(self, level: float) -> tuple[float, float]:
        """Return the confidence interval of the shift; NaN where nothing tells its error, as where no step scatters."""
        if self.scope == "steps" and self.effect.error == 0:
            return math.nan, math.nan
        return self.with_ranks.interval(level) if self.with_ranks else self.effect.interval(level)


def statistics_of(measure: Measure, runs: Sequence[Floats]) -> Iterator[str]:
    """Yield the names of the statistics that runs of both sides are compared by."""
    shortest = min(map(len, runs))
    if max(map(len, runs)) == 1:
        yield VALUE
        return
    yield "median"
    if measure == STEP_TIME:
        yield "mean"
        if shortest >= _TAIL_STEPS:
            yield "p99"


def side_figure(values: Sequence[Floats], statistic: str, rule: VerdictRule, name: str) -> SideFigure:
    """Return a figure of a side. The random numbers depend only on `name`, not on other comparisons."""
    numbers = np.array([STATISTICS[statistic](run) for run in values])
    return SideFigure(numbers, values, statistic, (rule.seed, crc32(name.encode())), rule.draws)


def total_figures(series: Sequence[Sequence[StepSeries]], rule: VerdictRule) -> list[SideFigure]:
    """Return the totals of all steps of each run, for the base, the other side, and groups of other repeats.

    Those of the first two are empty unless all their runs print the same steps. Other repeats that do not are left out.
    """
    both = [*series[0], *series[1]]
    same = print_same_steps(both)
    figures = []
    for group in series:
        runs = [run for run in group if same and print_same_steps([run, both[0]])]
        totals = np.array([run.values.sum() * max(run.averaged, 1) for run in runs])
        figures.append(SideFigure(totals, [run.values for run in runs], TOTAL, (rule.seed, 0), rule.draws))
    return figures


def print_same_steps(runs: Sequence[StepSeries]) -> bool:
    """Return whether all runs print the same steps; of none that is so."""
    return all(run.averaged == runs[0].averaged and np.array_equal(run.order, runs[0].order) for run in runs)


def estimate(base: SideFigure, side: SideFigure, history: Sequence[SideFigure] = ()) -> Estimate:
    """Return the effect between two sides: between their runs, or inside them where each has a single one.

    Args:
        base: The figure of the base.
        side: That of the other side.
        history: The same figure of groups of other repeats of these runs. They tell how much single runs differ.
    """
    if not ((base.runs > 0).all() and (side.runs > 0).all()):
        return Estimate(Effect(math.nan, math.nan, 1.0), "runs")
    if len(base.runs) > 1 or len(side.runs) > 1:
        logs = np.log(base.runs), np.log(side.runs)
        equal = any(np.ptp(of_side) == 0 for of_side in logs if len(of_side) > 1)
        least = _least_error((*base.values, *side.values), base.centre) if equal else 0.0
        effect = effects.effect_of_runs(*logs, least)
        return Estimate(effect, "runs", with_ranks=TwoTests(effect, *logs) if min(map(len, logs)) >= TESTED else None)
    within = _within(base, side)
    groups = [group for group in history if len(group.runs) > 1 and (group.runs > 0).all()]
    scatter = effects.pooled_scatter([np.log(group.runs) for group in groups])
    if scatter is None:
        return within
    if all(np.ptp(group.runs) == 0 for group in groups):
        scatter = replace(scatter, deviation=_least_error([*base.values, *side.values], base.centre))
    effect = _with_history(base, side, groups, scatter)
    return replace(within, effect=effect, scope="history", paired=False, scatter=scatter)


def _with_history(base: SideFigure, side: SideFigure, groups: Sequence[SideFigure], scatter: Scatter) -> Effect:
    """The effect between two single runs, with the scatter of other repeats.

    The variance of a figure within its run falls with the number of its steps. So of a run with half as many steps as
    the repeats have, half of that variance is not in their scatter.
    """
    usual = 1 / float(np.mean([1 / len(run) for group in groups for run in group.values]))
    shorter = [
        (float(np.log(figure.drawn).var()) * (1 - len(figure.values[0]) / usual), max(figure.units - 1, 1.0))
        for figure in (base, side)
        if len(figure.values[0]) < usual and figure.statistic != TOTAL
    ]
    return effects.effect_of_single_runs(float(np.log(side.runs[0] / base.runs[0])), scatter, shorter)


def _least_error(values: Sequence[Floats], centre: float) -> float:
    """The standard deviation of rounding, relative to the centre: figures that are all the same may hide that much."""
    step = max(map(effects.rounding, values))
    return step / math.sqrt(12) / centre if centre else 0.0


def _within(base: SideFigure, side: SideFigure) -> Estimate:
    """The effect between two single runs, with the error that their steps show."""
    shift = float(np.log(side.runs[0]) - np.log(base.runs[0]))
    a, b = base.values[0], side.values[0]
    if base.statistic == TOTAL or min(len(a), len(b)) < 2 or min(a.min(), b.min()) <= 0:
        return Estimate(Effect(shift, math.nan, 1.0), "steps")
    if base.statistic != "p99" and _share_schedule(a, b):
        return _paired(base, np.log(b) - np.log(a), shift)
    drawn = np.log(base.drawn), np.log(side.drawn)
    drifts = [samples.drift(run) for run in (a, b)]
    excess = math.hypot(*(_excess(d, float(draws.std())) for d, draws in zip(drifts, drawn, strict=True)))
    effect = effects.effect_within_runs(*drawn, shift, min(base.units, side.units), excess)
    return Estimate(effect, "steps", drift=max((abs(d) for d in drifts if not math.isnan(d)), default=0.0))


def _share_schedule(a: Floats, b: Floats) -> bool:
    """Whether both runs have long and short steps at the same places."""
    if len(a) != len(b) or len(a) < _PAIRED_STEPS:
        return False
    logs = np.log(a), np.log(b)
    scatter = min(map(samples.mad, logs))
    return scatter > 0 and samples.mad(logs[1] - logs[0]) <= _SAME_SCHEDULE * scatter


def _paired(base: SideFigure, differences: Floats, shift: float) -> Estimate:
    """The effect step by step: what both runs share cancels."""
    drawn = base.draw(differences)
    if base.statistic == "median":
        shift = samples.median(differences)
    drift = samples.half_difference(differences)
    excess = _excess(drift, float(drawn.std()))
    effect = effects.effect_within_runs(drawn, np.zeros(1), shift, bootstrap.independent_units(differences), excess)
    return Estimate(effect, "steps", paired=True, drift=abs(drift) if not math.isnan(drift) else 0.0)


def _excess(drift: float, error: float) -> float:
    """Drift beyond that of independent steps, whose halves differ by twice the error of the whole."""
    return math.sqrt(max(drift**2 - 4 * error**2, 0.0)) if not math.isnan(drift) else 0.0
