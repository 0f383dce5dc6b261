"""Effects: the difference between the runs of two sides, and its standard error.

Each run contributes one statistic, such as the median of its step times. Effects are differences of logarithms, so that
a change and its inverse are equally large; `exp(shift) - 1` is the change. Between runs: Welch 1947,
doi:10.1093/biomet/34.1-2.28 (`welch_effect`); within one run a side: the bootstrap (`bootstrap_effect`).

Known limits: two or three runs a side show little of their scatter, so Welch's test is adjusted for them. Steps of one
run a side show nothing of the variation between runs.
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

_BLOCK = 1 << 18  # values that are scaled at a time
_EXACT = 1e9
"""Above this, the decimals of a number do not show how many decimals a log prints."""


class Effect(Struct, frozen=True):
    """The difference log(side) - log(base), its standard error, and the degrees of freedom of the error.

    The error is NaN if it is unknown, and 0 if all statistics of a side are equal.
    """

    shift: float
    error: float
    freedom: float

    def interval(self, level: float) -> tuple[float, float]:
        """Return the confidence interval of the shift."""
        arm = t_quantile(0.5 + level / 2, self.freedom) * self.error if self.known else math.nan
        return self.shift - arm, self.shift + arm

    def p(self) -> float:
        """Return the two-sided p-value of the null hypothesis that the shift is 0; NaN without an error."""
        return 2 * min(self.p_above(0), self.inverse.p_above(0)) if self.known else math.nan

    def p_above(self, limit: float) -> float:
        """Return the one-sided p-value of the null hypothesis that shift <= `limit`; NaN without an error."""
        if not self.known:
            return math.nan
        distance = self.shift - limit
        if self.error == 0:
            return 0.5 if distance == 0 else float(distance < 0)
        return t_tail(distance / self.error, self.freedom)

    def p_outside(self, margin: float) -> float:
        """Return the p-value of the null hypothesis that the shift lies outside ± `margin`.

        Two one-sided tests (TOST), Schuirmann 1987, doi:10.1007/BF01068419.
        """
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
    """Return the relative change for a shift of logarithms; infinity above the largest float."""
    return math.inf if shift > _LARGEST else math.expm1(shift)


def shift_of(change: float) -> float:
    """Return the shift of logarithms for a relative change; -infinity for -1."""
    return math.log1p(change) if change != -1 else -math.inf


def mean_of_runs(logs: Floats) -> Effect:
    """Return the mean of the logarithms of run statistics, with its standard error, which is NaN for one run."""
    error = float(logs.std(ddof=1)) / math.sqrt(len(logs)) if len(logs) > 1 else math.nan
    return Effect(float(logs.mean()), error, len(logs) - 1)


def welch_effect(base: Floats, side: Floats, least_error: float = 0.0) -> Effect:
    """Return the effect between the runs of two sides, at least two runs on one of them.

    Welch 1947, doi:10.1093/biomet/34.1-2.28. With two or three runs on a side, Welch's error and degrees of freedom are
    adjusted, so that 95 % confidence intervals cover 90 to 98 %. If both sides have as many runs, the degrees of
    freedom are the mean of Welch's and Student's. If not, the variance is the mean of Welch's and Student's, because
    the smaller side may scatter little by chance. A side with one run has the scatter of the other side.

    Args:
        base: Logarithms of the statistics of the base, one per run.
        side: Logarithms of the statistics of the other side.
        least_error: Lower bound of the standard deviation of a statistic: the rounding of the log, if all statistics
            are equal.
    """
    shift = float(side.mean() - base.mean())
    if min(len(base), len(side)) < 2:
        several = base if len(base) > 1 else side
        deviation = max(float(several.std(ddof=1)), least_error)
        return Effect(shift, deviation * math.sqrt(1 / len(base) + 1 / len(side)), len(several) - 1)
    sides = (base, side)
    run_variances = [max(float(logs.var(ddof=1)), least_error**2) for logs in sides]
    mean_variances = [variance / len(logs) for variance, logs in zip(run_variances, sides, strict=True)]
    free = [len(logs) - 1 for logs in sides]
    variance, student = sum(mean_variances), sum(free)
    if variance == 0:
        return Effect(shift, 0.0, 2 * min(free))
    welch = variance**2 / sum(v**2 / f for v, f in zip(mean_variances, free, strict=True))
    if min(len(base), len(side)) > _FEW:
        return Effect(shift, math.sqrt(variance), welch)
    if free[0] == free[1]:
        return Effect(shift, math.sqrt(variance), (welch + student) / 2)
    pooled = sum(v * f for v, f in zip(run_variances, free, strict=True)) / student
    return Effect(shift, math.sqrt((variance + pooled * (1 / len(base) + 1 / len(side))) / 2), welch)


def bootstrap_effect(base: Floats, side: Floats, shift: float, units: float, excess: float = 0.0) -> Effect:
    """Return the effect between one run a side, with the standard error of both statistics within these runs.

    Args:
        base: Bootstrap draws of the logarithm of the base's statistic.
        side: Bootstrap draws of the logarithm of the other side's statistic.
        shift: Difference of the logarithms of both statistics.
        units: Number of independent units that the error comes from: the blocks of the run with fewer blocks.
        excess: Slow change of the level within the runs, beyond what their scatter explains. It widens the error:
            another section of the same run may differ as much.
    """
    error = math.sqrt(_variance(base) + _variance(side) + excess**2)
    return Effect(shift, error if units > 1 else math.nan, max(units - 1, 1.0))


def _variance(values: Floats) -> float:
    """Return the variance; 0 if all values are equal: their computed mean may have a rounding error."""
    return float(values.var()) if np.ptp(values) else 0.0


class Scatter(Struct, frozen=True):
    """Scatter of repeats: the standard deviation of the logarithms of their statistics.

    `freedom`: degrees of freedom of this estimate. `runs`: number of runs that it comes from.
    """

    deviation: float
    freedom: float
    runs: int


def pooled_scatter(groups: Sequence[Floats]) -> Scatter | None:
    """Return the scatter of repeats within their groups; None if no group has two runs.

    The variance is the mean square within groups of a one-way analysis of variance (Fisher 1925): the sum of squares
    about the mean of each group, divided by the sum of the groups' degrees of freedom.

    Args:
        groups: Logarithms of the statistics of repeats, one array for each group.
    """
    several = [group for group in groups if len(group) > 1]
    freedom = sum(len(group) - 1 for group in several)
    if not freedom:
        return None
    squares = sum(float(((group - group.mean()) ** 2).sum()) for group in several)
    return Scatter(math.sqrt(squares / freedom), freedom, sum(map(len, several)))


def usual_freedom(runs: int) -> float:
    """Return the average degrees of freedom of `welch_effect` if both sides have the same variance.

    Welch's are (n - 1) / (b^2 + (1 - b)^2). b, the share of one side in the variance, has the mean 1/2 and the variance
    1 / 4n (a beta distribution). With the mean of the denominator they are 2n (n - 1) / (n + 1).
    """
    welch = 2 * runs * (runs - 1) / (runs + 1)
    return welch if runs > _FEW else (welch + 2 * runs - 2) / 2


def power(shift: float, deviation: float, runs: int, level: float, margin: float = 0.0) -> float:
    """Return the power of the test: the probability of p < 1 - level and an estimate of at least `margin`.

    Tail of the noncentral t distribution (Johnson and Welch 1940, doi:10.1093/biomet/31.3-4.362) with 2n - 2 degrees of
    freedom, above the critical value of the test.

    Args:
        shift: True difference of the logarithms, above 0.
        deviation: Standard deviation of the logarithm of a run's statistic.
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
    """Return the smallest true shift that the test detects with probability `often`; see `power`."""
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
    """Return the resolution of printed numbers: 0.001 if all have at most three decimals; 0 if unknown."""
    largest = float(np.abs(values).max(initial=0.0))
    for decimals in range(16):
        if largest * 10.0**decimals > _EXACT:
            break
        if 0 < largest * 10.0**decimals < 0.5:  # all numbers would round to 0
            continue
        blocks = (values[first : first + _BLOCK] * 10.0**decimals for first in range(0, len(values), _BLOCK))
        if all(np.allclose(scaled, np.rint(scaled), rtol=0, atol=1e-4) for scaled in blocks):
            return float(10.0**-decimals)
    return 0.0
