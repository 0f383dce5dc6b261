"""Rank tests and effect sizes of two samples without NaN: Mann-Whitney, Holm, Hodges-Lehmann, Cliff's delta.

`smaller_of_both` takes the better of a test of means and a rank test.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from perflog.statistics.samples import Floats

EXACT = 20
"""Up to this number of values a side, the Mann-Whitney test is exact."""

_LEAST = 1e-300  # below this, a p has no quantile of the normal
_NODES = 64

_PAIRS = 2000  # values of a side that Hodges-Lehmann pairs; longer sides are thinned evenly


def midranks(values: Floats) -> Floats:
    """Return ranks from 1; equal values share the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return ranks


def mann_whitney(a: Floats, b: Floats) -> float:
    """Return the two-sided p of the Mann-Whitney U test that `a` and `b` are drawn from one distribution.

    Up to EXACT values a side it counts all arrangements, with the ties as they are (Streitberg and Roehmel 1986).
    Beyond, it is the normal approximation with correction for ties and continuity. NaN if a side is empty.
    """
    if not len(a) or not len(b):
        return math.nan
    ranks = midranks(np.concatenate([a, b]))
    if max(len(a), len(b)) <= EXACT:
        return _exact(np.rint(2 * ranks).astype(np.int64), len(a))
    return _normal(ranks, len(a))


def _exact(doubled: npt.NDArray[np.int64], size: int) -> float:
    """Share of all choices of `size` ranks whose sum is at least as extreme as that of the first `size` ranks.

    Ranks are doubled, so that ties are integers too.
    """
    total = int(doubled.sum())
    ways = np.zeros((size + 1, total + 1), np.int64)  # ways[k, s]: choices of k ranks with the sum s; C(40, 20) fits
    ways[0, 0] = 1
    for rank in doubled.tolist():
        ways[1:, rank:] += ways[:-1, : total + 1 - rank].copy()
    counts, sums = ways[size], int(doubled[:size].sum())
    all_ways = int(counts.sum())
    below, above = int(counts[: sums + 1].sum()), int(counts[sums:].sum())
    return min(1.0, 2 * min(below, above) / all_ways)


def _normal(ranks: Floats, size: int) -> float:
    """Normal approximation of p, with correction for ties and continuity."""
    n, other = len(ranks), len(ranks) - size
    _, ties = np.unique(ranks, return_counts=True)
    ties = ties.astype(np.float64)
    variance = size * other / 12 * (n + 1 - float((ties**3 - ties).sum()) / (n * (n - 1)))
    if variance <= 0:  # all are equal
        return 1.0
    u = float(ranks[:size].sum()) - size * (size + 1) / 2
    z = max(abs(u - size * other / 2) - 0.5, 0.0) / math.sqrt(variance)
    return min(1.0, 2 * NormalDist().cdf(-z))


def smaller_of_both(p: float, p_rank: float, values: Floats) -> float:
    """Return the p of the smaller one of two tests of the same samples: of their means, and of their ranks.

    The test of means is lost where one value lies far away, the rank test where there are few values. If nothing
    differs, both statistics are sums over one sample, of values or of ranks, and nearly normal. Over all ways to deal
    the values to the samples they are correlated as values and ranks are. So the p is the probability that at least one
    of two such normals lies beyond the limit of the smaller p: between p and 2 p. Given one normal, the other is normal
    too; the integral over the first is a Gauss-Legendre sum.

    Args:
        p: Two-sided p of a test of means.
        p_rank: Two-sided p of the Mann-Whitney U test.
        values: The values of both samples.
    """
    smaller = min(p, p_rank)
    if smaller >= 1 or np.ptp(values) == 0:
        return smaller
    if smaller < _LEAST:
        return 2 * smaller
    correlation = float(np.corrcoef(values, midranks(values))[0, 1])
    spread = math.sqrt(max(1 - correlation**2, _LEAST))
    normal = NormalDist()
    limit = -normal.inv_cdf(smaller / 2)
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    only_other = sum(
        weight * normal.pdf(limit * node) * normal.cdf((correlation * node - 1) * limit / spread)
        for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True)
    )
    return min(smaller + 2 * limit * only_other, 2 * smaller, 1.0)


def holm_adjusted(p: Sequence[float]) -> list[float]:
    """Return p values adjusted for the number of tests (Holm 1979). NaN is no test and stays."""
    tested = sorted((value, i) for i, value in enumerate(p) if value == value)
    raised = (min(1.0, (len(tested) - k) * value) for k, (value, _) in enumerate(tested))
    adjusted = dict(zip((i for _, i in tested), accumulate(raised, max), strict=True))
    return [adjusted.get(i, math.nan) for i in range(len(p))]


def hodges_lehmann(a: Floats, b: Floats) -> float:
    """Return the Hodges-Lehmann shift from `a` to `b`: the median of all differences `b[i] - a[j]`."""
    a, b = _thinned(a), _thinned(b)
    return float(np.median(b[:, None] - a[None, :]))


def _thinned(values: Floats) -> Floats:
    return values[:: -(-len(values) // _PAIRS)] if len(values) else values


def cliffs_delta(a: Floats, b: Floats) -> float:
    """Return Cliff's delta: P(b > a) - P(b < a), from -1 (all of `b` below `a`) to 1."""
    ordered = np.sort(a)
    below, upto = np.searchsorted(ordered, b, "left"), np.searchsorted(ordered, b, "right")
    return float((below + upto - len(a)).sum()) / (len(a) * len(b))
