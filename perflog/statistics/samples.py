"""Statistics of step times: centre, interval, warm-up. Plain numpy; a sample is one-dimensional and free of NaN."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

NORMAL = 1.4826
"""MAD times this estimates the standard deviation of a normal sample."""

OUTLIER = 3.5
"""Modified z-score from which a value is an outlier (Iglewicz and Hoaglin 1993)."""


def mad(values: Floats) -> float:
    """Median absolute deviation, not scaled."""
    return float(np.median(np.abs(values - np.median(values)))) if len(values) else math.nan


def modified_z_scores(values: Floats, of: Floats | None = None) -> Floats:
    """Modified z-scores: distance from the median of `of` (default: the values) in scaled MADs.

    Where more than half of the sample is one value, the scale is the mean absolute deviation (times 1.2533) instead.
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
    """Confidence interval of the median from order statistics, exact for any continuous distribution of independent
    values (benchstat); NaN where the sample is too small for the level (n < 6 for 95 %).
    """
    n = len(values)
    if n == 0:
        return math.nan, math.nan
    low, tail = -1, 0.0
    for k in range(n // 2):  # P(fewer than k + 1 of n below the median) must stay under half of what is left
        tail += math.exp(math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) - n * math.log(2))
        if tail > (1 - level) / 2:
            break
        low = k
    if low < 0:
        return math.nan, math.nan
    ordered = np.sort(values)
    return float(ordered[low]), float(ordered[n - 1 - low])


def drift(values: Floats) -> float:
    """How far a run moves inside itself: median of its second half over that of its first, less 1; NaN where there are
    fewer than 4 values, or the first median is 0.
    """
    half = len(values) // 2
    before = float(np.median(values[:half])) if half >= 2 else 0.0
    return float(np.median(values[half:])) / before - 1 if before else math.nan
