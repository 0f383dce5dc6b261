"""Statistics of one sample: deviation, outliers, interval of the median, drift. Samples are 1-D, without NaN."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TypeVar

import numpy as np

from perflog.arrays import Floats, Ints

AnyNumbers = TypeVar("AnyNumbers", Ints, Floats)

NORMAL = 1.4826
"""Factor from the MAD to the standard deviation of a normal sample."""

OUTLIER = 3.5
"""A value is an outlier above this modified z-score (Iglewicz and Hoaglin 1993)."""


def median(values: Floats) -> float:
    """Return the median; NaN for an empty sample, and if a value is NaN.

    Equal to np.median, which takes ten times as long for short samples.
    """
    n = len(values)
    ordered = np.sort(values)
    if not n or math.isnan(ordered[-1]):  # NaN is sorted to the end
        return math.nan
    low, high = float(ordered[(n - 1) // 2]), float(ordered[n // 2])
    return (low + high) / 2 if n % 2 == 0 else low


def lower_median(values: AnyNumbers) -> AnyNumbers:
    """Return the medians along the first axis; of an even number of values the lower of the two in the middle.

    Half of the values are as small: of two ranks, the faster one.
    """
    found: AnyNumbers = np.sort(values, axis=0)[(len(values) - 1) // 2]
    return found


def medians(values: Floats, axis: int) -> Floats:
    """Return the medians along an axis of a matrix, without NaN; NaN where all are NaN.

    Equal to np.nanmedian, which takes ten times as long.
    """
    if not np.isnan(values).any():
        return np.asarray(np.median(values, axis), np.float64)
    ordered = np.sort(values, axis)  # NaN is sorted to the end
    known = np.count_nonzero(~np.isnan(values), axis, keepdims=True)
    low, high = (np.take_along_axis(ordered, index, axis) for index in (np.maximum(known - 1, 0) // 2, known // 2))
    return np.asarray(((low + high) / 2).squeeze(axis))


def mad(values: Floats) -> float:
    """Return the median absolute deviation (MAD), not scaled. NaN for an empty sample."""
    return median(np.abs(values - median(values)))


def modified_z_scores(values: Floats, of: Floats | None = None) -> Floats:
    """Return modified z-scores: distance from the median of `of` (default: the values) in scaled MADs.

    Iglewicz and Hoaglin 1993. If more than half of the sample is one value, the MAD is 0; then the scale is the mean
    absolute deviation, times 1.2533.
    """
    of = values if of is None else of
    centre = median(of)
    scale = NORMAL * mad(of) or 1.2533 * float(np.mean(np.abs(of - centre)))
    distance = values - centre
    if scale == 0:
        return np.where(distance == 0, 0.0, np.copysign(np.inf, distance))
    scored: Floats = distance / scale
    return scored


def median_interval(values: Floats, level: float = 0.95) -> tuple[float, float]:
    """Return the confidence interval of the median from order statistics, as benchstat computes it.

    https://pkg.go.dev/golang.org/x/perf/cmd/benchstat. It is exact for independent values of any continuous
    distribution. NaN if the sample is too small for the level: n < 6 for 95 %.
    """
    n = len(values)
    low = _outside_interval(n, level)
    if low < 0:
        return math.nan, math.nan
    ordered = np.sort(values)
    return float(ordered[low]), float(ordered[n - 1 - low])


@lru_cache(maxsize=4096)
def _outside_interval(n: int, level: float) -> int:
    """Return the number of ordered values outside each end of the interval; -1 if the sample is too small."""
    low, tail = -1, 0.0
    for k in range(n // 2):  # P(fewer than k + 1 of n below the median) must stay below half of 1 - level
        tail += binomial(k, n, 0.5)
        if tail > (1 - level) / 2:
            break
        low = k
    return low


def binomial(k: int, n: int, p: float) -> float:
    """Return the probability of k successes in n independent trials, each of probability p, 0 < p < 1."""
    ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(ways + k * math.log(p) + (n - k) * math.log1p(-p))


def drift(values: Floats) -> float:
    """Return the drift within a run: median of its second half / median of its first half - 1.

    NaN below 4 values, or if the first median is 0.
    """
    half = len(values) // 2
    before = median(values[:half]) if half >= 2 else 0.0
    return median(values[half:]) / before - 1 if before else math.nan


def half_difference(values: Floats) -> float:
    """Return the median of the second half minus the median of the first half. NaN below 4 values."""
    half = len(values) // 2
    return median(values[half:]) - median(values[:half]) if half >= 2 else math.nan
