"""The scatter of values, estimated from many short series: a series of eight values hardly shows its own scatter.

Empirical Bayes (Smyth 2004, doi:10.2202/1544-6115.1027). The variances of the series have a prior, a scaled inverse
chi-square, estimated from the moments of their logarithms. The variance of a series is the mean of its own variance and
the prior's, weighted by their degrees of freedom. Its own variance comes from the differences of neighbours: a change
of level affects few of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from perflog.arrays import Floats
from perflog.statistics.samples import NORMAL, median

_FEWEST = 8  # series from which the prior is estimated
_FREEDOM = 0.4  # degrees of freedom of a median of differences, for each difference: by simulation of 8 to 40 values
_MOST = 100.0  # degrees of freedom of a prior: with more, the variance is as good as known


class SharedScatter(Struct, frozen=True):
    """Variance that the series of a kind have in common, and its degrees of freedom in each of them."""

    variance: float
    freedom: float

    def for_series(self, values: Floats, least: float = 0.0) -> SharedScatter:
        """Return the variance of the values of a series and its degrees of freedom: prior and own scatter combined.

        Args:
            values: Values in the order of time, two or more.
            least: Lower bound of the standard deviation of a value: that from its rounding.
        """
        own, freedom = _neighbour_variance(values)
        total = self.freedom + freedom
        return SharedScatter(max((self.freedom * self.variance + freedom * own) / total, least**2), total)


def shared_scatter(series: Sequence[Floats]) -> SharedScatter | None:
    """Return the prior that many series have in common; None for fewer than eight that scatter.

    Args:
        series: Values in the order of time, two or more in each series.
    """
    known = [found for values in series if (found := _neighbour_variance(values))[0] > 0]
    if len(known) < _FEWEST:
        return None
    logs = np.log([variance for variance, _ in known])
    by_chance = float(np.mean([_trigamma(freedom / 2) for _, freedom in known]))
    beyond = float(logs.var(ddof=1)) - by_chance
    freedom = min(2 * _inverse_trigamma(beyond), _MOST) if beyond > 0 else _MOST
    return SharedScatter(math.exp(median(logs)), freedom)


def _neighbour_variance(values: Floats) -> tuple[float, float]:
    """Return the variance by the median difference of neighbours, and its degrees of freedom."""
    differences = np.abs(np.diff(values))
    return (NORMAL * median(differences)) ** 2 / 2, _FREEDOM * len(differences)


def _trigamma(x: float) -> float:
    """The derivative of the digamma function: recurrence up to 6, then the asymptotic series."""
    value = 0.0
    while x < 6:
        value += 1 / x**2
        x += 1
    return value + 1 / x + 1 / (2 * x**2) + 1 / (6 * x**3) - 1 / (30 * x**5) + 1 / (42 * x**7)


def _inverse_trigamma(value: float) -> float:
    """Solve trigamma(x) = `value` by Newton's method on 1 / trigamma, which is nearly linear (Smyth 2004)."""
    x = 0.5 + 1 / value
    for _ in range(50):
        now, step = _trigamma(x), 1e-4 * x
        slope = (_trigamma(x + step) - _trigamma(x - step)) / (2 * step)
        change = now * (1 - now / value) / slope
        x += change
        if abs(change) < 1e-9 * x:
            break
    return x
