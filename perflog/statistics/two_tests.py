"""A test of means and a rank test of the same two samples, taken together: one p, and one interval of the shift.

The test of means is lost where one value lies far away, the rank test where there are few values.
"""

from __future__ import annotations

import math
from functools import cached_property
from statistics import NormalDist

import numpy as np
from msgspec import Struct

from perflog.arrays import Floats
from perflog.statistics.effects import Effect
from perflog.statistics.rank_tests import attainable_p, cliffs_delta, mann_whitney, midranks, shift_interval
from perflog.statistics.students_t import gauss_legendre

_LEAST = 1e-300  # below this, a p has no quantile of the normal
_NODES = 64
_HALVINGS = 10


class TwoTests(Struct, frozen=True, dict=True):
    """The effect between two samples, whose p is that of a test of means, and a Mann-Whitney U test beside it.

    If nothing differs, both statistics are sums over one sample, of values or of ranks, and nearly normal. Over all
    ways to deal the values to the samples they are correlated as values and ranks are.
    """

    effect: Effect
    base: Floats
    side: Floats

    @cached_property
    def p_rank(self) -> float:
        """Two-sided p of the U test."""
        return mann_whitney(self.base, self.side)

    @cached_property
    def p(self) -> float:
        """The smaller p, adjusted because there are two. The U test counts only if it shows the same direction."""
        agrees = cliffs_delta(self.base, self.side) * self.effect.shift > 0
        return min(self._level(min(self.effect.p(), self.p_rank if agrees else 1.0)), 1.0)

    def interval(self, level: float) -> tuple[float, float]:
        """Return the interval of all shifts that neither test excludes. It excludes 0 if `p` is below 1 - `level`.

        Both tests get one limit, at which they exclude the true shift in 1 - `level` of the cases. The U test excludes
        no shift on the other side of the estimate.
        """
        limit = self.limit(level)
        low, high = self.effect.interval(1 - limit)
        by_ranks = shift_interval(self.base, self.side, limit)
        return max(low, min(by_ranks[0], self.effect.shift)), min(high, max(by_ranks[1], self.effect.shift))

    def limit(self, level: float) -> float:
        """Return the largest p that makes either of both tests count, so that they err in at most 1 - `level`."""
        low, high = (1 - level) / 2, 1 - level
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._level(middle) <= 1 - level else (low, middle)
        return low

    def _level(self, limit: float) -> float:
        """The probability that a test gives a p up to `limit` if nothing differs.

        The U test gives only some p: so few values count as its limit the largest one that there is.
        """
        if limit >= 1 or limit < _LEAST:
            return limit
        p_of_ranks = limit
        if self._attainable is not None:
            below = int(np.searchsorted(self._attainable, limit, "right"))
            p_of_ranks = float(self._attainable[below - 1]) if below else 0.0
        return either_beyond(limit, p_of_ranks, self._correlation)

    @cached_property
    def _attainable(self) -> Floats | None:
        return attainable_p(self.base, self.side)

    @cached_property
    def _correlation(self) -> float:
        values = np.concatenate([self.base, self.side])
        return float(np.corrcoef(values, midranks(values))[0, 1]) if np.ptp(values) else 1.0


def either_beyond(p: float, p_other: float, correlation: float) -> float:
    """Return the probability that at least one of two correlated normals lies beyond its two-sided limit.

    Given one normal, the other is normal too; the integral over the first is a Gauss-Legendre sum.

    Args:
        p: Probability that the first one does, above 0.
        p_other: Probability that the other one does, at most `p`, so that what is integrated has no jump.
        correlation: Their correlation, at least 0.
    """
    if p_other < _LEAST:
        return p
    limit, other = (-NormalDist().inv_cdf(share / 2) for share in (p, p_other))
    spread = math.sqrt(max(2 * (1 - correlation**2), _LEAST))
    nodes, weights = gauss_legendre(_NODES)
    z = limit * nodes
    density = weights * np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    beyond = [math.erfc(distance) / 2 for distance in ((other - correlation * z) / spread).tolist()]
    return min(p + 2 * limit * float(density @ np.array(beyond)), p + p_other)


def limit_of_normal(size: int, level: float) -> float:
    """Return the limit of both tests of two samples of `size` values each that look normal; see `TwoTests.limit`."""
    normal = NormalDist()
    values = np.array([normal.inv_cdf((k + 0.5) / (2 * size)) for k in range(2 * size)])
    return TwoTests(Effect(0.0, 0.0, 1.0), values[::2], values[1::2]).limit(level)
