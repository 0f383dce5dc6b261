"""Effects: how far the figures of one side lie from those of another, with the error of that estimate.

A figure is one number of a run, such as the median of its step times. Effects are differences of logarithms, so that a
change and its inverse are equally large; `exp(shift) - 1` is the change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from perflog.arrays import Floats
from perflog.statistics.students_t import noncentral_t_tail, t_quantile, t_tail

_FEW = 3
"""Up to this number of runs on a side, Welch's test does not keep its level."""

_HALVINGS = 30

_LARGEST = 700.0  # exp of more is no float

_BLOCK = 1 << 18  # values that are looked at together
_EXACT = 1e9
"""Beyond this, decimals of a number say nothing about what a log prints."""


class Effect(Struct, frozen=True):
    """The difference log(side) - log(base), its standard error, and the degrees of freedom of the error.

    The error is NaN where nothing tells it, and 0 where the figures of a side do not differ at all.
    """

    shift: float
    error: float
    freedom: float

    def interval(self, level: float) -> tuple[float, float]:
        """Return the confidence interval of the shift."""
        arm = t_quantile(0.5 + level / 2, self.freedom) * self.error if self.known else math.nan
        return self.shift - arm, self.shift + arm

    def p(self) -> float:
        """Return the two-sided p of the hypothesis that the shift is 0; NaN without an error."""
        return 2 * min(self.p_above(0), self.inverse.p_above(0)) if self.known else math.nan

    def p_above(self, limit: float) -> float:
        """Return the one-sided p of the hypothesis that the shift is at most `limit`; NaN without an error."""
        if not self.known:
            return math.nan
        distance = self.shift - limit
        if self.error == 0:
            return 0.5 if distance == 0 else float(distance < 0)
        return t_tail(distance / self.error, self.freedom)

    def p_outside(self, margin: float) -> float:
        """Return the p that the shift lies outside ± `margin` (two one-sided tests, Schuirmann 1987)."""
        return max(self.p_above(-margin), self.inverse.p_above(-margin))

    @property
    def inverse(self) -> Effect:
        """The effect of the base against the side."""
        return Effect(-self.shift, self.error, self.freedom)

    @property
    def known(self) -> bool:
        """Whether the error of the shift is known."""
        return not (math.isnan(self.shift) or math.isnan(self.error) or math.isnan(self.freedom))


def change_of(shift: float) -> float:
    """Return the change that a shift of logarithms is; endless where nothing bounds it."""
    return math.inf if shift > _LARGEST else math.expm1(shift)


def shift_of(change: float) -> float:
    """Return the shift of logarithms that a change is."""
    return math.log1p(change) if change != -1 else -math.inf


def mean_of_runs(logs: Floats) -> Effect:
    """Return the mean of the logarithms of run figures, with its standard error; NaN for one run."""
    error = float(logs.std(ddof=1)) / math.sqrt(len(logs)) if len(logs) > 1 else math.nan
    return Effect(float(logs.mean()), error, len(logs) - 1)


def effect_of_runs(base: Floats, side: Floats, least_error: float = 0.0) -> Effect:
    """Return the effect between the figures of the runs of two sides, at least two on one of them (Welch 1947).

    The error and its degrees of freedom are those of Welch's test, but with two or three runs on a side, where they
    make intervals of 95 % cover 90 to 98 %. If both sides have as many, the degrees are the mean of Welch's and
    Student's. If not, the variance is the mean of both: the smaller side may seem to scatter little by chance. A side
    with one run takes the scatter of the other side.

    Args:
        base: Logarithms of the figures of the base, one per run.
        side: Those of the other side.
        least_error: Least standard deviation of a figure: the rounding of the log where all figures are the same.
    """
    shift = float(side.mean() - base.mean())
    if min(len(base), len(side)) < 2:
        several = base if len(base) > 1 else side
        deviation = max(float(several.std(ddof=1)), least_error)
        return Effect(shift, deviation * math.sqrt(1 / len(base) + 1 / len(side)), len(several) - 1)
    sides = (base, side)
    of_runs = [max(float(figures.var(ddof=1)), least_error**2) for figures in sides]
    of_means = [variance / len(figures) for variance, figures in zip(of_runs, sides, strict=True)]
    free = [len(figures) - 1 for figures in sides]
    variance, student = sum(of_means), sum(free)
    if variance == 0:
        return Effect(shift, 0.0, 2 * min(free))
    welch = variance**2 / sum(v**2 / f for v, f in zip(of_means, free, strict=True))
    if min(len(base), len(side)) > _FEW:
        return Effect(shift, math.sqrt(variance), welch)
    if free[0] == free[1]:
        return Effect(shift, math.sqrt(variance), (welch + student) / 2)
    pooled = sum(v * f for v, f in zip(of_runs, free, strict=True)) / student
    return Effect(shift, math.sqrt((variance + pooled * (1 / len(base) + 1 / len(side))) / 2), welch)


def effect_within_runs(base: Floats, side: Floats, shift: float, units: float, excess: float = 0.0) -> Effect:
    """Return the effect between one run a side, with the error of both figures inside these runs.

    Args:
        base: Bootstrap draws of the logarithm of the base's figure.
        side: Those of the other side.
        shift: The difference of the logarithms of both figures.
        units: Number of independent units that the error is from: the blocks of the run that has fewer.
        excess: Slow change of the level inside the runs beyond what their scatter explains. It widens the error:
            another stretch of the same run could lie as far away.
    """
    error = math.sqrt(_variance(base) + _variance(side) + excess**2)
    return Effect(shift, error if units > 1 else math.nan, max(units - 1, 1.0))


def _variance(values: Floats) -> float:
    """The variance; 0 of equal values, whose mean may differ from them by a rounding error."""
    return float(values.var()) if np.ptp(values) else 0.0


class Scatter(Struct, frozen=True):
    """How much repeats differ: the standard deviation of the logarithms of their figures.

    `freedom`: degrees of freedom of this estimate. `runs`: number of runs that it comes from.
    """

    deviation: float
    freedom: float
    runs: int


def pooled_scatter(groups: Sequence[Floats]) -> Scatter | None:
    """Return how much repeats differ inside their groups; None if no group has two runs.

    The variance is the mean square within groups of a one-way analysis of variance (Fisher 1925): the sum of squares
    about the mean of each group, divided by the sum of the groups' degrees of freedom.

    Args:
        groups: Logarithms of the figures of repeats, one array for each group.
    """
    several = [group for group in groups if len(group) > 1]
    freedom = sum(len(group) - 1 for group in several)
    if not freedom:
        return None
    squares = sum(float(((group - group.mean()) ** 2).sum()) for group in several)
    return Scatter(math.sqrt(squares / freedom), freedom, sum(map(len, several)))


def usual_freedom(runs: int) -> float:
    """Return the degrees of freedom that `effect_of_runs` has on average where both sides scatter alike.

    Welch's are (n - 1) / (b^2 + (1 - b)^2); b, the share of one side in the variance, has the mean 1/2 and the variance
    1 / 4n (a beta distribution). With the mean of the denominator they are 2n (n - 1) / (n + 1).
    """
    welch = 2 * runs * (runs - 1) / (runs + 1)
    return welch if runs > _FEW else (welch + 2 * runs - 2) / 2


def power(shift: float, deviation: float, runs: int, level: float, margin: float = 0.0) -> float:
    """Return the probability that a true shift is found: p below 1 - level, and at least `margin` is seen.

    The noncentral t (Johnson and Welch 1940) with the degrees of freedom of the scatter, 2n - 2, beyond the limit of
    the test.

    Args:
        shift: True difference of the logarithms, above 0.
        deviation: Standard deviation of the logarithm of a run's figure.
        runs: Number of runs a side, at least 2.
        level: Confidence level of the test.
        margin: Least shift that counts.
    """
    if deviation == 0:
        return float(shift >= margin)
    error = deviation * math.sqrt(2 / runs)
    limit = t_quantile(0.5 + level / 2, usual_freedom(runs))
    return noncentral_t_tail(limit, 2 * runs - 2, shift / error, margin / error)


def least_found(deviation: float, runs: int, level: float, margin: float = 0.0, often: float = 0.9) -> float:
    """Return the least true shift that is found in a share `often` of all cases; see `power`."""
    if deviation == 0:
        return margin
    low, high = margin, margin + deviation
    while power(high, deviation, runs, level, margin) < often:
        high *= 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if power(middle, deviation, runs, level, margin) < often else (low, middle)
    return high


def rounding(values: Floats) -> float:
    """Return the step between the numbers that a log prints: 0.001 if all have at most three decimals; 0 if unknown."""
    largest = float(np.abs(values).max(initial=0.0))
    for decimals in range(16):
        if largest * 10.0**decimals > _EXACT:
            break
        if 0 < largest * 10.0**decimals < 0.5:  # no number would be printed as another one than 0
            continue
        blocks = (values[first : first + _BLOCK] * 10.0**decimals for first in range(0, len(values), _BLOCK))
        if all(np.allclose(scaled, np.rint(scaled), rtol=0, atol=1e-4) for scaled in blocks):
            return float(10.0**-decimals)
    return 0.0
