"""Figures: the numbers of a run that two sides are compared by, such as the median and the mean of its step times.

Each is one number per run. Effects between them (`perflog.statistics.effects`) are differences of their logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Literal
from zlib import crc32

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perflog.analysis.compare.verdicts import TESTED, VerdictRule
from perflog.arrays import Floats
from perflog.metrics.compared import STEP_TIME, Measure
from perflog.metrics.step_series import StepSeries
from perflog.statistics import bootstrap, effects, samples, sessions
from perflog.statistics.effects import Effect, Scatter, change_of
from perflog.statistics.sessions import Level
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
"""The statistic of runs that have one number only."""

STATISTICS: Mapping[str, Callable[[Floats], float]] = {
    "median": samples.median,
    "mean": _mean,
    "p99": _p99,
    VALUE: samples.median,
}
"""Statistic of a run's steady values, by name."""

TOTAL = "total"
"""Time of all steps from the first one, over runs that print the same steps: the warm-up counts too."""


def centre_of_runs(numbers: Floats) -> float:
    """Return the geometric mean of the runs' numbers; their mean if one is not above 0. That of one run is exact."""
    several = len(numbers) > 1 and bool((numbers > 0).all())
    return float(np.exp(np.log(numbers).mean())) if several else float(numbers.mean())


class SideFigure(Struct, frozen=True, dict=True):
    """A statistic of one side: one number per run, and the values of each run that it summarizes.

    `sessions`: the session of each run; empty if not known.
    """

    runs: Floats
    values: Sequence[Floats]
    statistic: str
    seed: tuple[int, int]
    draws: int
    sessions: tuple[str, ...] = ()

    @property
    def centre(self) -> float:
        """The centre of the runs' numbers."""
        return centre_of_runs(self.runs)

    @cached_property
    def drawn(self) -> Floats:
        """Bootstrap draws of the statistic of a single run."""
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
        """Return the interval of the centre; NaN if its error is unknown.

        The interval of a single run is within this run, unless `scatter` gives the scatter of its repeats.
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

    `scope`: "runs"; "history" where other repeats of few runs are known; else with one run per side "steps". `paired`:
    step by step, because both runs share a schedule. `scatter`: the scatter of the history. `with_ranks`:
    the effect with a rank test of the runs beside it, where there are enough. `sessions`: whether both sides have the
    "same" sessions; if not, whether the error includes the scatter between sessions: "held" or "left out"; None:
    unknown.
    """

    effect: Effect
    scope: str
    paired: bool = False
    drift: float = 0.0
    scatter: Scatter | None = None
    with_ranks: TwoTests | None = None
    sessions: Literal["same", "held", "left out"] | None = None
    session_scatter: float = math.nan

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


def side_figure(
    values: Sequence[Floats], statistic: str, rule: VerdictRule, name: str, sessions: tuple[str, ...] = ()
) -> SideFigure:
    """Return a statistic of a side. The random numbers depend only on `name`, not on other comparisons."""
    numbers = np.array([STATISTICS[statistic](run) for run in values])
    return SideFigure(numbers, values, statistic, (rule.seed, crc32(name.encode())), rule.draws, sessions)


def total_figures(
    series: Sequence[Sequence[StepSeries]], rule: VerdictRule, session_of_run: Mapping[str, str]
) -> list[SideFigure]:
    """Return the totals of all steps of each run, for the base, the other side, and groups of other repeats.

    Without the same steps in all runs of the first two groups, these are empty. Other repeats with other steps are left
    out.
    """
    both = [*series[0], *series[1]]
    same = print_same_steps(both)
    figures = []
    for group in series:
        runs = [run for run in group if same and print_same_steps([run, both[0]])]
        totals = np.array([run.values.sum() * max(run.averaged, 1) for run in runs])
        known = tuple(session_of_run.get(run.run, "") for run in runs)
        values = [run.values for run in runs]
        figures.append(SideFigure(totals, values, TOTAL, (rule.seed, 0), rule.draws, known if all(known) else ()))
    return figures


def print_same_steps(runs: Sequence[StepSeries]) -> bool:
    """Return whether all runs print the same steps; True if there are no runs."""
    return all(run.averaged == runs[0].averaged and np.array_equal(run.order, runs[0].order) for run in runs)


def estimate(
    base: SideFigure, side: SideFigure, history: Sequence[SideFigure] = (), has_base: bool = False
) -> Estimate:
    """Return the effect between two sides: between their runs, or inside them where each has a single one.

    Args:
        base: The statistic of the base.
        side: The statistic of the other side.
        history: The same statistic of groups of other repeats of these runs. They show the run-to-run variation.
        has_base: The runs of the base show it too, because they are a baseline.
    """
    if not ((base.runs > 0).all() and (side.runs > 0).all()):
        return Estimate(Effect(math.nan, math.nan, 1.0), "runs")
    groups = [group for group in history if len(group.runs) > 1 and (group.runs > 0).all()]
    several = len(base.runs) > 1 or len(side.runs) > 1
    has_base = has_base and len(base.runs) > 1 and min(len(base.runs), len(side.runs)) < TESTED
    is_tried = groups or has_base or (several and base.sessions and side.sessions)
    known = _with_history(base, side, groups, has_base) if is_tried else None
    if known is not None:
        return known
    estimated = _between_runs(base, side) if several else _within(base, side)
    return replace(estimated, sessions=_sessions_without_history(base, side))


def _between_runs(base: SideFigure, side: SideFigure) -> Estimate:
    """The effect between the runs of two sides, at least two on one of them."""
    logs = np.log(base.runs), np.log(side.runs)
    equal = any(np.ptp(side_logs) == 0 for side_logs in logs if len(side_logs) > 1)
    least = _least_error((*base.values, *side.values), base.centre) if equal else 0.0
    effect = effects.welch_effect(*logs, least)
    return Estimate(effect, "runs", with_ranks=TwoTests(effect, *logs) if min(map(len, logs)) >= TESTED else None)


def _with_history(base: SideFigure, side: SideFigure, groups: Sequence[SideFigure], has_base: bool) -> Estimate | None:
    """The effect with the scatter of other repeats, and with the scatter between sessions where it counts.

    None where only the runs of both sides show the run-to-run variation. A side that surely scatters more than the
    other repeats keeps its own scatter; the variation between sessions of the others still counts.
    """
    sides, others = _levels([base, side], groups)
    equal = all(np.ptp(level.logs) == 0 for level in (*sides, *others))
    least = _least_error([*base.values, *side.values], base.centre) if equal else 0.0
    is_known = bool(base.sessions and side.sessions)
    known, fresh = ([*sides[:1], *others], sides[1:]) if has_base else (others, sides)
    told = any(figure.sessions for figure in (*groups, *([base] if has_base else [])))
    if known and not told and sessions.are_noisier(known, fresh, least):
        sides, others, is_known = *_each_a_session(sides, others, has_base), True
        known, fresh = ([*sides[:1], *others], sides[1:]) if has_base else (others, sides)
    squares = sessions.mean_squares([*sides, *others], least)
    weight = sessions.session_weight(sides[0], sides[1])
    counts = weight > 0 and squares.between_freedom > 0
    together = any(level.sessions.count(name) > 1 for level in sides for name in level.sessions)
    if not known and not (counts and together):
        return None
    is_noisy = any(sessions.are_noisier([level], known, least) for level in fresh) if known else False
    if is_noisy and not counts:
        return None
    alone = effects.welch_effect(sides[0].logs, sides[1].logs, least) if is_noisy else None
    own = (alone.error**2, alone.freedom) if alone is not None else None
    more = _of_shorter_runs(base, side, groups)
    effect = sessions.effect_with_sessions(sides[0], sides[1], squares, own, more)
    if not effect.known:
        return None
    found: Literal["same", "held", "left out"] = "same" if not weight else "held" if counts else "left out"
    freedom = squares.between_freedom if counts else squares.within_freedom
    runs = sum(len(level.logs) for level in others)
    return Estimate(
        effect,
        "history" if known else "runs",
        drift=_within(base, side).drift if max(len(base.runs), len(side.runs)) == 1 else 0.0,
        scatter=Scatter(math.sqrt(squares.run_variance), max(freedom, 1), runs) if known else None,
        sessions=found if is_known or squares.between_freedom else None,
        session_scatter=math.sqrt(squares.session_variance) if squares.between_freedom else math.nan,
    )


def _levels(both: Sequence[SideFigure], groups: Sequence[SideFigure]) -> tuple[list[Level], list[Level]]:
    """The runs of both sides, and of each group of other repeats, with their sessions.

    A group with unknown sessions counts as one session: the scatter between its sessions is then taken for
    scatter within one, which makes the interval wider. Where the sessions of the sides are unknown but others are
    known, each side is a session of its own; where none is known, both sides are one session.
    """
    some = any(figure.sessions for figure in (*both, *groups))
    sides = [
        Level(np.log(figure.runs), figure.sessions or (f"side {k}" if some else "sides",) * len(figure.runs))
        for k, figure in enumerate(both)
    ]
    others = [
        Level(np.log(group.runs), group.sessions or (f"group {k}",) * len(group.runs)) for k, group in enumerate(groups)
    ]
    return sides, others


def _each_a_session(sides: Sequence[Level], others: Sequence[Level], has_base: bool) -> tuple[list[Level], list[Level]]:
    """The same runs with each side, and each of the other repeats (and runs of a baseline), as a session of its own.

    This applies where other repeats of unknown sessions surely scatter more than the runs of both sides: what
    makes them differ may make both sides differ too.
    """
    alone = [Level(level.logs, (f"side {k}",) * len(level.logs)) for k, level in enumerate(sides)]
    known = [*(sides[:1] if has_base else ()), *others]
    each = [Level(g.logs, tuple(f"group {k} run {i}" for i in range(len(g.logs)))) for k, g in enumerate(known)]
    return ([each[0], *alone[1:]], each[1:]) if has_base else (alone, each)


def _sessions_without_history(base: SideFigure, side: SideFigure) -> Literal["same", "held", "left out"] | None:
    """What the scatter of the runs of both sides says of their sessions."""
    if not (base.sessions and side.sessions):
        return None
    levels, _ = _levels([base, side], ())
    if not sessions.session_weight(levels[0], levels[1]):
        return "same"
    each = all(len(set(figure.sessions)) == len(figure.sessions) > 1 for figure in (base, side))
    return "held" if each else "left out"  # sessions of one run each: their scatter is the scatter between sessions


def _of_shorter_runs(base: SideFigure, side: SideFigure, groups: Sequence[SideFigure]) -> Iterator[tuple[float, float]]:
    """Yield the variance of single runs in excess of the repeats, with its degrees of freedom.

    The variance of a statistic within its run falls with the number of steps. For a run with half as many steps as
    the repeats, half of that variance is not in their scatter.
    """
    if not groups or base.statistic == TOTAL:
        return
    usual = 1 / float(np.mean([1 / len(run) for group in groups for run in group.values]))
    for figure in (base, side):
        if len(figure.runs) == 1 and len(figure.values[0]) < usual:
            own = float(np.log(figure.drawn).var()) * (1 - len(figure.values[0]) / usual)
            yield own, max(figure.units - 1, 1.0)


def _least_error(values: Sequence[Floats], centre: float) -> float:
    """The standard deviation of rounding, relative to the centre: equal printed values may hide that much."""
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
    effect = effects.bootstrap_effect(*drawn, shift, min(base.units, side.units), excess)
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
    effect = effects.bootstrap_effect(drawn, np.zeros(1), shift, bootstrap.independent_units(differences), excess)
    return Estimate(effect, "steps", paired=True, drift=abs(drift) if not math.isnan(drift) else 0.0)


def _excess(drift: float, error: float) -> float:
    """Drift in excess of independent steps: their halves differ by twice the error of the whole."""
    return math.sqrt(max(drift**2 - 4 * error**2, 0.0)) if not math.isnan(drift) else 0.0
