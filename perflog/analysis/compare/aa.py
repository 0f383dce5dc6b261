"""A/A test: how often a comparison is wrong where nothing differs.

Its sides are parts of one run, or repeats of one configuration, so every difference it reports is a false positive.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict

from perflog.analysis.compare.figures import VALUE, Estimate, estimate, side_figure, statistics_of
from perflog.analysis.compare.rows import family
from perflog.analysis.compare.sides import Side, load_side
from perflog.analysis.compare.verdicts import (
    DEFAULT_RULE,
    TESTED,
    Evidence,
    Verdict,
    VerdictRule,
    decide,
)
from perflog.arrays import Floats
from perflog.errors import UsageError
from perflog.metrics.compared import STEP_TIME
from perflog.metrics.directions import Better
from perflog.metrics.registry import column, columns_of
from perflog.metrics.step_series import StepSeries, cut_alike, step_series
from perflog.settings.run_settings import incidental_test
from perflog.statistics import bootstrap, effects, rank_tests, two_tests
from perflog.tables.nulls import nullable_frame

if TYPE_CHECKING:
    import pandas as pd

    from perflog.log import Log


class RateRow(Struct, frozen=True):
    """How often comparisons of runs with themselves were wrong."""

    split: Annotated[str, column("how the two sides were made")]
    test: Annotated[str, column("what was tried on them")]
    runs: Annotated[int, column("number of runs that were split")]
    trials: Annotated[int, column("number of comparisons")]
    wrong: Annotated[int, column("comparisons that called the sides different")]
    slower: Annotated[int, column("of these, those that called the second side slower (of halves, the later one)")]
    faster: Annotated[int, column("those that called it faster: the gate with the sides exchanged")]
    rate: Annotated[float, column("wrong / trials", "1", "lower")]
    rate_low: Annotated[
        float, column("binomial interval (Wilson 1927), lower end; trials on one run share its steps", "1")
    ]
    rate_high: Annotated[float, column("binomial interval, upper end", "1")]


class PowerRow(Struct, frozen=True):
    """What a number of runs per side finds with a threshold."""

    runs: Annotated[int, column("runs per side")]
    threshold: Annotated[float, column("least change of a regression or improvement", "1")]
    change: Annotated[
        float, column("least true change of the mean step time that is found in 9 of 10 cases", "1", "lower")
    ]
    twice_found: Annotated[
        float, column("share of the cases in which a true change of twice the threshold is found", "1", "higher")
    ]
    scatter: Annotated[float, column("standard deviation of the logarithms of the runs' mean step times", "1", "lower")]
    repeats: Annotated[int, column("number of runs that it was estimated from, in groups of one configuration")]


COLUMNS, POWER_COLUMNS = columns_of(RateRow), columns_of(PowerRow)

SPLITS = {
    "halves": "first half of a run against its second half",
    "stretches": "two adjacent stretches of a run, of random length and position",
    "blocks": "blocks of a run's steps, assigned to the sides at random",
    "repeats": "runs of one configuration, assigned to the sides at random",
}
TESTS = {
    "gate": "a regression that fails the gate; faster: with the sides exchanged",
    "verdict": "a verdict of regression or improvement, exploratory or not",
    "interval": "the interval of the change excludes 0",
    "u-test": "Mann-Whitney U test of the steps, p < 1 - level",
}
_FEWEST = 16  # steady steps of a run that is split
_SIZES = (2, 3, 5, 10)  # runs per side for which the power is computed
_THRESHOLDS = (0.01, 0.02, 0.05)  # for which it is computed, besides the threshold of the caller
OFTEN = 0.9
"""Share of the cases in which a change should be found."""

TwoSides = tuple[list[Floats], list[Floats]]
"""The values of the runs of two sides."""


class Trial(Struct, frozen=True):
    """An A/A comparison: the way the runs were split, the runs, and the values of both sides."""

    split: str
    runs: tuple[str, ...]
    sides: TwoSides


def aa(  # noqa: PLR0913 (all are keywords that a user sees in `help`)
    *runs: str | os.PathLike[str] | Log,
    store: str | os.PathLike[str] | None = None,
    trials: int = 100,
    warmup: int | None = None,
    repeats: bool = False,
    threshold: float = DEFAULT_RULE.threshold,
    level: float = DEFAULT_RULE.level,
    draws: int = 1000,
    seed: int = DEFAULT_RULE.seed,
) -> pd.DataFrame:
    """Measure the false-positive rates of comparisons of step times, and of a U test of the steps.

    Args:
        *runs: Logs, runs, folders, stores or `Log`s, as in `perflog.compare`. Each run is compared with itself.
        store: Folder of the store in which run ids and labels are looked up.
        trials: Number of random splits of each kind, for each run.
        warmup: Number of steps to cut at the start of each run. Default: found.
        repeats: Whether all runs are repeats of one configuration. Default: runs with the same label and settings are.
        threshold: Least change of a regression or improvement.
        level: Confidence level of the intervals.
        draws: Bootstrap draws of an interval. 1000 are enough for rates.
        seed: Seed of the splits and of the bootstrap.

    Returns:
        One row per split and test: split, test, runs, trials, wrong, rate (wrong / trials), rate_low, rate_high.

    Raises:
        UsageError: No run has enough steps with a time.
    """
    import pandas as pd

    rule = VerdictRule(threshold, level, draws, seed)
    side = load_side(runs, store)
    steady = _steady(side, warmup)
    if not steady:
        help = f"a run needs {_FEWEST} steady steps to be split"
        raise UsageError("no run has enough step times", side.name, help)
    rng = np.random.default_rng(seed)
    outcomes: dict[tuple[str, str], list[int]] = {}
    split_runs: dict[str, set[str]] = {}
    groups = _repeat_groups(side, steady, repeats)
    for k, trial in enumerate(_trials(steady, groups, trials, rng)):
        split_runs.setdefault(trial.split, set()).update(trial.runs)
        for test, wrong in _judge(trial.sides, rule, k).items():
            outcomes.setdefault((trial.split, test), []).append(wrong)
    rows = [_row(split, test, len(split_runs[split]), wrong) for (split, test), wrong in outcomes.items()]
    return nullable_frame(pd.DataFrame([*map(asdict, rows)], columns=[c.name for c in COLUMNS]))


def power(
    *runs: str | os.PathLike[str] | Log,
    store: str | os.PathLike[str] | None = None,
    warmup: int | None = None,
    repeats: bool = False,
    threshold: float = DEFAULT_RULE.threshold,
    level: float = DEFAULT_RULE.level,
) -> pd.DataFrame:
    """Return the changes of the mean step time that a comparison of such runs finds in 9 of 10 cases.

    Args:
        *runs: Repeats, as in `aa`.
        store: Folder of the store in which run ids and labels are looked up.
        warmup: Number of steps to cut at the start of each run. Default: found.
        repeats: Whether all runs are repeats of one configuration. Default: runs with the same label and settings are.
        threshold: Least change of a regression or improvement.
        level: Confidence level of the intervals.

    Returns:
        One row per threshold (the argument first) and number of runs per side: runs, threshold, change,
        twice_found, scatter, repeats. Empty if no run has a repeat: the run-to-run variation is then unknown.
    """
    import pandas as pd

    side = load_side(runs, store)
    steady = _steady(side, warmup)
    groups = _repeat_groups(side, steady, repeats)
    scatter = effects.pooled_scatter([np.log([run.mean() for run in group.values()]) for group in groups])
    rows: list[dict[str, object]] = []
    if scatter is None:
        return nullable_frame(pd.DataFrame(rows, columns=[c.name for c in POWER_COLUMNS]))
    for limit in dict.fromkeys((threshold, *_THRESHOLDS)):
        margin = VerdictRule(limit, level).margin
        for size in _SIZES:
            test_level = 1 - two_tests.limit_of_normal(size, level) if size >= TESTED else level
            shift = effects.least_found(scatter.deviation, size, test_level, margin, OFTEN)
            twice = effects.power(math.log1p(2 * limit), scatter.deviation, size, test_level, margin)
            row = PowerRow(size, limit, effects.change_of(shift), twice, scatter.deviation, scatter.runs)
            rows.append(asdict(row))
    return nullable_frame(pd.DataFrame(rows, columns=[c.name for c in POWER_COLUMNS]))


def _steady(side: Side, warmup: int | None) -> dict[str, StepSeries]:
    """The step times of each run that has enough steady ones."""
    return {s.run: s for s in step_series(side.tables, warmup=warmup) if len(s.steady) >= _FEWEST}


def _repeat_groups(side: Side, steady: Mapping[str, StepSeries], repeats: bool) -> list[dict[str, Floats]]:
    """The steady step times of the runs of each configuration that has several, of all of them with one warm-up."""
    groups = [[steady[run] for run in group] for group in _configurations(side, steady, repeats)]
    return [{series.run: series.steady for series in cut_alike(group)} for group in groups]


def _configurations(side: Side, steady: Iterable[str], repeats: bool) -> list[list[str]]:
    """Groups of several runs of one configuration: same label and settings, since a log need not print all settings."""
    if repeats:
        runs = list(steady)
        return [runs] if len(runs) > 1 else []
    labels = {run.id: run.label for run in side.log.run_keys}
    incidental = incidental_test(side.settings.values())
    groups: dict[tuple[str, str], list[str]] = {}
    for run in steady:
        if label := labels[run]:
            settings = str(sorted((k, v) for k, v in side.settings[run].items() if not incidental(k)))
            groups.setdefault((label, settings), []).append(run)
    return [runs for runs in groups.values() if len(runs) > 1]


def _trials(
    steady: Mapping[str, StepSeries], groups: Sequence[Mapping[str, Floats]], trials: int, rng: np.random.Generator
) -> Iterator[Trial]:
    for run, series in steady.items():
        values = series.steady
        half = len(values) // 2
        yield Trial("halves", (run,), ([values[:half]], [values[half:]]))
        for _ in range(trials):
            yield Trial("stretches", (run,), _stretches(values, rng))
            yield Trial("blocks", (run,), _blocks(values, rng))
    for group in groups:
        runs = list(group)
        for _ in range(trials):
            dealt = [group[runs[i]] for i in rng.permutation(len(runs))]
            half = len(runs) // 2
            yield Trial("repeats", tuple(runs), (dealt[:half], dealt[half : 2 * half]))


def _stretches(values: Floats, rng: np.random.Generator) -> TwoSides:
    n = len(values)
    length = int(rng.integers(n // 4, n // 2 + 1))
    start = int(rng.integers(0, n - 2 * length + 1))
    middle = start + length
    return [values[start:middle]], [values[middle : middle + length]]


def _blocks(values: Floats, rng: np.random.Generator) -> TwoSides:
    """Whole blocks of the length that the bootstrap takes, half of them on each side, in their order."""
    length = bootstrap.block_length(values)
    whole = values[: len(values) // (2 * length) * 2 * length].reshape(-1, length)
    first = np.isin(np.arange(len(whole)), rng.permutation(len(whole))[: len(whole) // 2])
    return [whole[first].ravel()], [whole[~first].ravel()]


def _judge(sides: TwoSides, rule: VerdictRule, k: int) -> dict[str, int]:
    """Return for each test whether it calls the second side slower (1), faster (-1) or not different (0)."""
    tested = step_time_tests(sides, rule, f"{k}")
    judged = verdicts(tested, rule)
    words = {verdict.decision for verdict in judged}
    low, high = tested["mean"].estimate.interval(rule.level)
    base, other = map(np.concatenate, sides)
    differ = rank_tests.mann_whitney(base, other) < 1 - rule.level
    return {
        "gate": _direction(*(any(v.fails for v in of) for of in (judged, verdicts(tested, rule, "higher")))),
        "verdict": _direction("regression" in words, "improvement" in words),
        "interval": _direction(low > 0, high < 0),
        "u-test": _direction(differ and bool(np.median(other) >= np.median(base)), differ),
    }


def _direction(slower: bool, faster: bool) -> int:
    return 1 if slower else -1 if faster else 0


class StepTimeTest(NamedTuple):
    """The test of a statistic of step times. `p`: adjusted. `runs`: their number on both sides."""

    estimate: Estimate
    p: float
    runs: tuple[int, int]


def step_time_tests(
    sides: tuple[Sequence[Floats], Sequence[Floats]],
    rule: VerdictRule,
    name: str,
    history: Sequence[Floats] = (),
    sessions: Sequence[tuple[str, ...]] = ((), (), ()),
) -> dict[str, StepTimeTest]:
    """Return the tests of the step times of two sides by statistic (mean, median, ...), as `compare` makes them.

    Args:
        sides: The steady step times of each run of the base, and of each run of the other side.
        rule: The confidence level, the least change that counts, and the number of draws.
        name: Seed of the bootstrap, with the seed of the rule.
        history: The steady step times of more repeats, for the run-to-run variation of sides with few runs.
        sessions: The sessions of the runs of the base, of the side, and of the history; empty where they are not known.
    """
    estimates = {}
    for statistic in statistics_of(STEP_TIME, [*sides[0], *sides[1]]):
        base, other = (side_figure(runs, statistic, rule, f"{name}/{k}", sessions[k]) for k, runs in enumerate(sides))
        known = [side_figure(history, statistic, rule, name, sessions[2])] if len(history) else []
        estimates[statistic] = estimate(base, other, known)
    adjusted: dict[str, float] = {}
    # A family is tested together, so its p values are adjusted together.
    for tested_together in {family(STEP_TIME, statistic) for statistic in estimates}:
        members = [statistic for statistic in estimates if family(STEP_TIME, statistic) == tested_together]
        p = rank_tests.holm_adjusted([estimates[statistic].p for statistic in members])
        adjusted |= dict(zip(members, p, strict=True))
    runs = len(sides[0]), len(sides[1])
    return {statistic: StepTimeTest(each, adjusted[statistic], runs) for statistic, each in estimates.items()}


def verdicts(tests: Mapping[str, StepTimeTest], rule: VerdictRule, better: Better = "lower") -> list[Verdict]:
    """Return the verdicts on figures of step times; with `better` "higher" as if the sides were exchanged."""
    return [
        decide(found.effect, better, p, evidence, rule)
        for statistic, (found, p, runs) in tests.items()
        for evidence in [Evidence(runs, found.interval(rule.level), found.scope, statistic == VALUE, found.sessions)]
    ]


def _row(split: str, test: str, runs: int, directions: Sequence[int]) -> RateRow:
    slower, faster = (directions.count(direction) for direction in (1, -1))
    wrong, trials = slower + faster, len(directions)
    low, high = wilson(wrong, trials)
    return RateRow(split, test, runs, trials, wrong, slower, faster, wrong / trials, low, high)


def wilson(hits: int, trials: int, level: float = 0.95) -> tuple[float, float]:
    """Return the confidence interval of a rate (Wilson 1927)."""
    z = NormalDist().inv_cdf(0.5 + level / 2)
    rate = hits / trials
    middle = (rate + z * z / (2 * trials)) / (1 + z * z / trials)
    arm = z / (1 + z * z / trials) * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials**2))
    return middle - arm if hits else 0.0, middle + arm if hits < trials else 1.0
