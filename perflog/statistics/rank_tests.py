"""Rank tests and effect sizes of two samples without NaN.

Mann and Whitney 1947, doi:10.1214/aoms/1177730491; Holm 1979, jstor.org/stable/4615733; Hodges and Lehmann 1963,
doi:10.1214/aoms/1177704172; Cliff 1993, doi:10.1037/0033-2909.114.3.494.

Known limit: with fewer than four values a side, no arrangement of ranks has p < 0.05.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from statistics import NormalDist

import numpy as np

from perflog.arrays import Floats

EXACT = 20
"""Up to this number of values a side, the Mann-Whitney test is exact."""

_PAIRS = 2000  # values of a side in the pairwise differences; a longer side is thinned evenly
_AT_ONCE = 1 << 17  # pairwise differences that are in memory together
_NEAR = 0.05  # share of a sample of the differences, on each side of the median: the median of all is among these


def midranks(values: Floats) -> Floats:
    """Return ranks from 1; equal values share the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return ranks


def mann_whitney(a: Floats, b: Floats) -> float:
    """Return the two-sided p-value of the Mann-Whitney U test that `a` and `b` have the same distribution.

    Mann and Whitney 1947, doi:10.1214/aoms/1177730491. Up to EXACT values a side, all arrangements are counted, with
    ties (Streitberg and Roehmel 1986). Above, it is the normal approximation, corrected for ties and continuity. NaN if
    a side is empty.
    """
    if not len(a) or not len(b):
        return math.nan
    ranks = midranks(np.concatenate([a, b]))
    if max(len(a), len(b)) > EXACT:
        return _normal(ranks, len(a))
    doubled = _doubled(ranks)
    return float(_p_by_sum(tuple(sorted(doubled)), len(a))[sum(doubled[: len(a)])])


def attainable_p(a: Floats, b: Floats) -> Floats | None:
    """Return all p-values that the U test can give for these values, ascending; None above EXACT values a side.

    Few values have few arrangements: of 5 and 5 without ties, p is 0.0079, 0.0159, 0.0317, 0.0556 and so on.
    """
    if max(len(a), len(b)) > EXACT:
        return None
    by_sum = _p_by_sum(tuple(sorted(_doubled(midranks(np.concatenate([a, b]))))), len(a))
    return np.unique(by_sum[by_sum <= 1])


def shift_interval(a: Floats, b: Floats, p: float) -> tuple[float, float]:
    """Return the confidence interval of the shift from `a` to `b`: shifts that the U test does not reject at level `p`.

    Its ends are differences `b[i] - a[j]` (Hodges and Lehmann 1963, doi:10.1214/aoms/1177704172; Bauer 1972,
    doi:10.1080/01621459.1972.10481279). They are infinite if the samples are too small to reject any shift.
    """
    outside = _differences_outside(len(a), len(b), p)
    if not outside:
        return -math.inf, math.inf
    differences = _differences(a, b)
    last = len(differences) - 1
    first = min(round((outside - 1) / (len(a) * len(b)) * len(differences)), last // 2)
    ordered = np.partition(differences, (first, last - first))
    return float(ordered[first]), float(ordered[last - first])


def _differences_outside(size: int, other: int, p: float) -> int:
    """Return the number of values of U, from 0 on, with a two-sided p-value up to `p`, in samples without ties."""
    if max(size, other) <= EXACT:
        by_sum = _p_by_sum(tuple(range(2, 2 * (size + other) + 2, 2)), size)
        by_u = by_sum[size * (size + 1) :: 2][: size * other // 2]
        return int((by_u <= p).sum())
    deviation = math.sqrt(size * other * (size + other + 1) / 12)
    return max(math.floor(size * other / 2 - 0.5 + NormalDist().inv_cdf(p / 2) * deviation) + 1, 0)


def _doubled(ranks: Floats) -> list[int]:
    """Return twice the ranks: the midranks of ties become integers too."""
    doubled: list[int] = np.rint(2 * ranks).astype(np.int64).tolist()
    return doubled


@lru_cache(maxsize=256)
def _p_by_sum(doubled: tuple[int, ...], size: int) -> Floats:
    """Return the two-sided p-value of each sum of `size` of these ranks, over all choices; infinity for other sums."""
    total = sum(doubled)
    ways = np.zeros((size + 1, total + 1), np.int64)  # ways[k, s]: choices of k ranks with the sum s; C(40, 20) fits
    ways[0, 0] = 1
    for rank in doubled:
        ways[1:, rank:] += ways[:-1, : total + 1 - rank].copy()
    below = np.cumsum(ways[size])
    above = below[-1] - below + ways[size]
    p: Floats = np.minimum(2 * np.minimum(below, above) / below[-1], 1.0)
    return np.where(ways[size] > 0, p, math.inf)


def _normal(ranks: Floats, size: int) -> float:
    """Return the p-value by the normal approximation, corrected for ties and continuity."""
    n, other = len(ranks), len(ranks) - size
    _, ties = np.unique(ranks, return_counts=True)
    ties = ties.astype(np.float64)
    variance = size * other / 12 * (n + 1 - float((ties**3 - ties).sum()) / (n * (n - 1)))
    if variance <= 0:  # all are equal
        return 1.0
    u = float(ranks[:size].sum()) - size * (size + 1) / 2
    z = max(abs(u - size * other / 2) - 0.5, 0.0) / math.sqrt(variance)
    return 2 * NormalDist().cdf(-z)


def holm_adjusted(p: Sequence[float]) -> list[float]:
    """Return the p-values adjusted for the number of tests (Holm 1979, jstor.org/stable/4615733). NaN stays NaN."""
    tested = sorted((value, i) for i, value in enumerate(p) if value == value)
    raised = (min(1.0, (len(tested) - k) * value) for k, (value, _) in enumerate(tested))
    adjusted = dict(zip((i for _, i in tested), accumulate(raised, max), strict=True))
    return [adjusted.get(i, math.nan) for i in range(len(p))]


def hodges_lehmann(a: Floats, b: Floats) -> float:
    """Return the Hodges-Lehmann shift from `a` to `b`: the median of all differences `b[i] - a[j]`."""
    near = _near_median(_thinned(a), _thinned(b)) if len(a) * len(b) > _AT_ONCE else None
    return float(np.median(_differences(a, b), overwrite_input=True)) if near is None else near


def _near_median(a: Floats, b: Floats) -> float | None:
    """Return the median of all differences `b[i] - a[j]`, without keeping them all in memory.

    Quantiles of a sample bound the median. Of each part of the differences, only those within the bounds are kept, and
    those below them are counted. None if the median is not within the bounds.
    """
    count, sampled = len(a) * len(b), max(len(a) * len(b) // _AT_ONCE, 1)
    low, high = np.quantile(np.subtract.outer(b[::sampled], a[::sampled]), (0.5 - _NEAR, 0.5 + _NEAR))
    below, near = 0, list[Floats]()
    for few in np.array_split(b, sampled):
        differences = np.subtract.outer(few, a).ravel()
        below += int((differences < low).sum())
        near.append(differences[(differences >= low) & (differences <= high)])
    middle = (count - 1) // 2 - below, count // 2 - below  # equal for an odd number of differences
    if middle[0] < 0 or middle[1] >= sum(map(len, near)):
        return None
    return float(np.partition(np.concatenate(near), middle)[[*middle]].mean())


def _differences(a: Floats, b: Floats) -> Floats:
    differences: Floats = np.subtract.outer(_thinned(b), _thinned(a)).ravel()
    return differences


def _thinned(values: Floats) -> Floats:
    return values[:: -(-len(values) // _PAIRS)] if len(values) else values


def cliffs_delta(a: Floats, b: Floats) -> float:
    """Return Cliff's delta: P(b > a) - P(b < a), from -1 (all of `b` below `a`) to 1.

    Cliff 1993, doi:10.1037/0033-2909.114.3.494.
    """
    ordered = np.sort(a)
    below, upto = np.searchsorted(ordered, b, "left"), np.searchsorted(ordered, b, "right")
    return float((below + upto - len(a)).sum()) / (len(a) * len(b))
