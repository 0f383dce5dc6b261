"""What may be said of a ratio."""

from __future__ import annotations

import math
from dataclasses import dataclass

from perflog.units import show

REPEATS = 3
"""Runs a side needs for a verdict that is not exploratory."""

TESTED = 4
"""Runs a side needs for a rank test that can reach p < 0.05: 2 of C(8, 4) arrangements are 0.029."""

RANKING = ("regression", "inconclusive (drift)", "inconclusive", "improvement", "equivalent")
"""Verdicts, the gravest first, without `exploratory`."""

_EXPLORATORY = "exploratory "


@dataclass(frozen=True)
class Rule:
    """How a verdict is reached.

    `threshold`: least |ratio - 1| of a regression or improvement (asv, pytest-benchmark). `equivalence`: an interval
    inside 1 ± this is equivalent. `level` of the intervals, from so many bootstrap `draws` with the `seed`.
    """

    threshold: float = 0.05
    equivalence: float = 0.02
    level: float = 0.95
    draws: int = 4000
    seed: int = 0


@dataclass(frozen=True)
class Ratio:
    """How many times better a side is than the base, its interval, the drift inside runs, and the runs of the side
    that has fewer. Above 1 the side is better.
    """

    value: float
    low: float
    high: float
    drift: float
    runs: int


@dataclass(frozen=True)
class Verdict:
    """In words, and why; `fails`: it fails a gate on regressions."""

    words: str
    reason: str
    fails: bool = False


def decide(ratio: Ratio, rule: Rule) -> Verdict:
    """The verdict on a ratio.

    Regression or improvement: the interval excludes 1, |ratio - 1| reaches the threshold, and no run drifts by half
    of that or more. Equivalent: the interval lies inside the equivalence, and so does the drift. With fewer than
    REPEATS runs on a side these are `exploratory`; then a regression fails a gate only if the whole interval lies
    beyond the threshold.
    """
    gap = abs(ratio.value - 1)
    if math.isnan(ratio.low) or math.isnan(ratio.value):
        return Verdict("inconclusive", "too few values for an interval")
    few = ratio.runs < REPEATS
    prefix, runs = (_EXPLORATORY, f"; {_count(ratio.runs)} a side") if few else ("", "")
    drifts = f"a run drifts by {show(ratio.drift, '1', 2)} from its first half to its second"
    excludes = not ratio.low <= 1 <= ratio.high
    if 1 - rule.equivalence <= ratio.low and ratio.high <= 1 + rule.equivalence:
        if ratio.drift > rule.equivalence:
            return Verdict("inconclusive (drift)", f"{drifts}, which is more than the equivalence")
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
    return Verdict("inconclusive", "the interval includes 1 and reaches beyond the equivalence")


def plain(words: str) -> str:
    """A verdict without `exploratory`."""
    return words.removeprefix(_EXPLORATORY)


def _count(runs: int) -> str:
    return f"{runs} run" if runs == 1 else f"{runs} runs"
