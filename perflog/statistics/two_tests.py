"""A test of means combined with a rank test of the same two samples: one p-value, and one interval of the shift.

A single outlier makes the test of means lose its power; few values make the rank test lose its power. The two mostly
agree, so the limit for the smaller p-value is not Bonferroni's: it comes from the correlation of values and ranks.

Known limit: both statistics are taken as normal, which few values with heavy tails are not.
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

_LEAST = 1e-300  # below this, the normal distribution has no quantile for a p-value
_NODES = 64
_HALVINGS = 10


class TwoTests(Struct, frozen=True, dict=True):
    """The effect between two samples with the p-value of a test of means, combined with a Mann-Whitney U test.

    Under the null hypothesis, both statistics are sums over one sample, of values or of ranks, and nearly normal. Over
    all permutations of the values they are correlated as values and ranks are.
    """

    effect: Effect
    base: Floats
    side: Floats

    @cached_property
    def p_rank(self) -> float:
        """Two-sided p-value of the U test."""
        return mann_whitney(self.base, self.side)

    @cached_property
    def p(self) -> float:
        """The smaller p-value, adjusted for two tests. The U test counts only if it shows the same direction."""
        agrees = cliffs_delta(self.base, self.side) * self.effect.shift > 0
        return min(self._level(min(self.effect.p(), self.p_rank if agrees else 1.0)), 1.0)

    def interval(self, level: float) -> tuple[float, float]:
        """Return the interval of all shifts that neither test rejects. It excludes 0 if `p` is below 1 - `level`.

        Both tests have the same limit, so that they reject the true shift with probability 1 - `level`. The U test
        rejects no shift on the other side of the estimate.
        """
        limit = self.limit(level)
        low, high = self.effect.interval(1 - limit)
        by_ranks = shift_interval(self.base, self.side, limit)
        return max(low, min(by_ranks[0], self.effect.shift)), min(high, max(by_ranks[1], self.effect.shift))

    def limit(self, level: float) -> float:
        """Return the largest p-value at which a test counts: together the tests reject in at most 1 - `level`."""
        low, high = (1 - level) / 2, 1 - level
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._level(middle) <= 1 - level else (low, middle)
        return low

    def _level(self, limit: float) -> float:
        """Return the probability of p <= `limit` in either test under the null hypothesis.

        The U test of few values has few attainable p-values: its limit is the largest of them up to `limit`.
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
    """Return the probability that at least one of two correlated normals exceeds its two-sided limit.

    Given one normal, the other is normal too; the integral over the first is a Gauss-Legendre sum.

    Args:
        p: Probability that the first one does, greater than 0.
        p_other: Probability that the other one does, at most `p`: then the integrand is continuous.
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
    """Return the limit for two normal samples of `size` values each; see `TwoTests.limit`."""
    normal = NormalDist()
    values = np.array([normal.inv_cdf((k + 0.5) / (2 * size)) for k in range(2 * size)])
    return TwoTests(Effect(0.0, 0.0, 1.0), values[::2], values[1::2]).limit(level)
