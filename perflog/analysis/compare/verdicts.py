"""The verdict on a ratio in words: regression, improvement, equivalent or inconclusive; its reason; the gate.

This is the only place that decides. `perflog.output` only prints the words found here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from perflog.units import show

REPEATS = 3
"""Runs a side needs for a verdict that is not exploratory."""

TESTED = 4
"""Runs a side needs for a rank test that can reach p < 0.05: 2 of C(8, 4) arrangements give p = 0.029."""

RANKING = ("regression", "inconclusive (drift)", "inconclusive", "improvement", "equivalent")
"""Verdicts without `exploratory`, the most severe first."""

_EXPLORATORY = "exploratory "


@dataclass(frozen=True)
class VerdictRule:
    """The limits behind a verdict.

    `threshold`: least |ratio - 1| of a regression or improvement (as in asv and pytest-benchmark). `equivalence`: an
    interval inside 1 ± this is equivalent. `level` of the intervals. `draws` of the bootstrap, and its `seed`.
    """

    threshold: float = 0.05
    equivalence: float = 0.02
    level: float = 0.95
    draws: int = 4000
    seed: int = 0


@dataclass(frozen=True)
class Ratio:
    """Ratio of a side to the base (above 1: better), with its interval.

    `drift`: largest drift within a run. `runs`: number of runs of the side that has fewer.
    """

    value: float
    low: float
    high: float
    drift: float
    runs: int


@dataclass(frozen=True)
class Verdict:
    """A verdict in words, the reason, and whether it fails a gate on regressions."""

    words: str
    reason: str
    fails: bool = False


def decide(ratio: Ratio, rule: VerdictRule) -> Verdict:
    """Return the verdict on a ratio.

    Regression or improvement: the interval excludes 1, |ratio - 1| reaches the threshold, and no run drifts by half of
    that or more. Equivalent: the interval lies inside the equivalence, and so does the drift. With fewer than
    REPEATS runs on a side these are `exploratory`; then a regression fails a gate only if the whole interval lies
    beyond the threshold.
    """
    gap = abs(ratio.value - 1)
    if math.isnan(ratio.low) or math.isnan(ratio.value):
        return Verdict("inconclusive", "too few values for an interval")
    few = ratio.runs < REPEATS
    prefix, runs = (_EXPLORATORY, f"; {_count_runs(ratio.runs)} a side") if few else ("", "")
    drifts = f"a run drifts by {show(ratio.drift, '1', 2)} from its first half to its second"
    excludes = not ratio.low <= 1 <= ratio.high
    if 1 - rule.equivalence <= ratio.low and ratio.high <= 1 + rule.equivalence:
        if ratio.drift > rule.equivalence:
            return Verdict("inconclusive (drift)", f"{drifts}, more than the equivalence limit")
        return Verdict(f"{prefix}equivalent", f"the interval lies inside 1 ± {show(rule.equivalence, '1')}{runs}")
    if excludes and gap >= rule.threshold:
        if ratio.drift >= gap / 2:
            return Verdict("inconclusive (drift)", f"{drifts}, at least half of the difference")
        words = "improvement" if ratio.value > 1 else "regression"
        fails = words == "regression" and (not few or ratio.high <= 1 - rule.threshold)
        reason = f"the interval excludes 1 and |ratio - 1| is at least {show(rule.threshold, '1')}{runs}"
        return Verdict(prefix + words, reason, fails)
    if excludes:
        return Verdict("inconclusive", f"the interval excludes 1, but |ratio - 1| is under {show(rule.threshold, '1')}")
    return Verdict("inconclusive", "the interval includes 1 and reaches beyond the equivalence limit")


def without_exploratory(words: str) -> str:
    """Return a verdict without the word `exploratory`."""
    return words.removeprefix(_EXPLORATORY)


def _count_runs(runs: int) -> str:
    return f"{runs} run" if runs == 1 else f"{runs} runs"
