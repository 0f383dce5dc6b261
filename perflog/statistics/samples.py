"""Statistics of one sample: deviation, outliers, interval of the median, drift. Samples are flat, without NaN."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

NORMAL = 1.4826
"""Factor from the MAD to the standard deviation of a normal sample."""

OUTLIER = 3.5
"""A value is an outlier above this modified z-score (Iglewicz and Hoaglin 1993)."""


def mad(values: Floats) -> float:
    """Median absolute deviation (MAD), not scaled. NaN for an empty sample."""
    return float(np.median(np.abs(values - np.median(values)))) if len(values) else math.nan


def modified_z_scores(values: Floats, of: Floats | None = None) -> Floats:
    """Return modified z-scores: distance from the median of `of` (default: the values) in scaled MADs.

    If more than half of the sample is one value, the MAD is 0; then the scale is the mean absolute deviation, times
    1.2533.
    """
    of = values if of is None else of
    centre = float(np.median(of))
    scale = NORMAL * mad(of) or 1.2533 * float(np.mean(np.abs(of - centre)))
    distance = values - centre
    if scale == 0:
        return np.where(distance == 0, 0.0, np.copysign(np.inf, distance))
    scored: Floats = distance / scale
    return scored


def median_interval(values: Floats, level: float = 0.95) -> tuple[float, float]:
    """Return the confidence interval of the median from order statistics (benchstat).

    It is exact for independent values of any continuous distribution. NaN if the sample is too small for the level:
    n < 6 for 95 %.
    """
    n = len(values)
    if n == 0:
        return math.nan, math.nan
    low, tail = -1, 0.0
    for k in range(n // 2):  # P(fewer than k + 1 of n below the median) must stay below half of 1 - level
        tail += math.exp(math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) - n * math.log(2))
        if tail > (1 - level) / 2:
            break
        low = k
    if low < 0:
        return math.nan, math.nan
    ordered = np.sort(values)
    return float(ordered[low]), float(ordered[n - 1 - low])


def drift(values: Floats) -> float:
    """Return the drift inside a run: median of its second half / median of its first half - 1.

    NaN below 4 values, or if the first median is 0.
    """
    half = len(values) // 2
    before = float(np.median(values[:half])) if half >= 2 else 0.0
    return float(np.median(values[half:])) / before - 1 if before else math.nan


def half_difference(values: Floats) -> float:
    """Return the median of the second half less that of the first. NaN below 4 values."""
    half = len(values) // 2
    return float(np.median(values[half:]) - np.median(values[:half])) if half >= 2 else math.nan
