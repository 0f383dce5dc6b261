"""How much figures scatter, learned from many short series: one of eight figures hardly shows its own scatter.

The variances of the series have a prior, a scaled inverse chi-square, by the moments of their logarithms (Smyth 2004).
A series then counts with its own variance and that of the prior, weighted by their degrees of freedom. The variance
of a series is that of neighbours: levels change few of their differences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from perflog.arrays import Floats
from perflog.statistics.samples import NORMAL, median

_FEWEST = 8  # series that tell how much their variances differ
_FREEDOM = 0.4  # degrees of freedom of a median of differences, for each difference: by simulation of 8 to 40 figures
_MOST = 100.0  # degrees of freedom of a prior: more is as good as known


class SharedScatter(Struct, frozen=True):
    """Variance that the series of a kind have, and how many degrees of freedom it counts in each of them."""

    variance: float
    freedom: float

    def of_series(self, figures: Floats, least: float = 0.0) -> SharedScatter:
        """Return the variance of the figures of a series and its degrees of freedom, with what it shows itself.

        Args:
            figures: Figures in the order of time, two or more.
            least: Least standard deviation of a figure: that of its rounding.
        """
        own, freedom = _of_neighbours(figures)
        total = self.freedom + freedom
        return SharedScatter(max((self.freedom * self.variance + freedom * own) / total, least**2), total)


def shared_scatter(series: Sequence[Floats]) -> SharedScatter | None:
    """Return the scatter that many series have in common; None for fewer than eight that scatter.

    Args:
        series: Figures in the order of time, two or more of each.
    """
    known = [found for figures in series if (found := _of_neighbours(figures))[0] > 0]
    if len(known) < _FEWEST:
        return None
    logs = np.log([variance for variance, _ in known])
    by_chance = float(np.mean([_trigamma(freedom / 2) for _, freedom in known]))
    beyond = float(logs.var(ddof=1)) - by_chance
    freedom = min(2 * _inverse_trigamma(beyond), _MOST) if beyond > 0 else _MOST
    return SharedScatter(math.exp(median(logs)), freedom)


def _of_neighbours(figures: Floats) -> tuple[float, float]:
    """The variance by the median difference of neighbours, and its degrees of freedom."""
    differences = np.abs(np.diff(figures))
    return (NORMAL * median(differences)) ** 2 / 2, _FREEDOM * len(differences)


def _trigamma(x: float) -> float:
    """The derivative of the digamma function: recurrence up to 6, then the asymptotic series."""
    value = 0.0
    while x < 6:
        value += 1 / x**2
        x += 1
    return value + 1 / x + 1 / (2 * x**2) + 1 / (6 * x**3) - 1 / (30 * x**5) + 1 / (42 * x**7)


def _inverse_trigamma(value: float) -> float:
    """The x whose trigamma is `value`, by Newton's method on 1 / trigamma, which is nearly linear (Smyth 2004)."""
    x = 0.5 + 1 / value
    for _ in range(50):
        now, step = _trigamma(x), 1e-4 * x
        slope = (_trigamma(x + step) - _trigamma(x - step)) / (2 * step)
        change = now * (1 - now / value) / slope
        x += change
        if abs(change) < 1e-9 * x:
            break
    return x
