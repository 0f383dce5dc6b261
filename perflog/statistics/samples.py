"""Statistics of step times: centre, interval, warm-up. Plain numpy; a sample is one-dimensional and free of NaN."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

NORMAL = 1.4826
"""MAD times this estimates the standard deviation of a normal sample."""

OUTLIER = 3.5
"""Modified z-score from which a value is an outlier (Iglewicz and Hoaglin 1993)."""

_BATCH = 5  # of MSER-5
_PAYS = 0.9  # a longer warm-up must lower MSER to this part of what it was ...
_APART = 1.645  # ... and be another level: its median beyond 90 % of what follows, if that were normal


@dataclass(frozen=True)
class Warmup:
    """How many values at the start are left out, and why."""

    cut: int
    reason: str


def mad(values: Floats) -> float:
    """Median absolute deviation, not scaled."""
    return float(np.median(np.abs(values - np.median(values)))) if len(values) else math.nan


def scores(values: Floats, of: Floats | None = None) -> Floats:
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


def _mser(values: Floats) -> Floats:
    """MSER-5 of each truncation by whole batches of five: variance of what is left over its number of batches."""
    batches = values[: len(values) // _BATCH * _BATCH].reshape(-1, _BATCH).mean(axis=1)
    return np.array([np.var(batches[d:]) / (len(batches) - d) for d in range(max(len(batches) // 2, 1))])


def warm_up(values: Floats, given: int | None = None) -> Warmup:
    """The warm-up: leading outliers against the second half (modified z > 3.5), then, if it pays, the truncation of
    least MSER-5 (White 1997), outliers clipped. At most half of the values. MSER alone takes slow swings for warm-up:
    on the steady half of real runs it cuts a third of the steps.

    `given` is the user's own number and is taken as it is.
    """
    n = len(values)
    if given is not None:
        return Warmup(min(given, n), "given")
    if n < 4:
        return Warmup(0, "too few steps to tell")
    late = values[n // 2 :]
    high = scores(values, late) > OUTLIER
    cut = 0
    while cut < n // 2 and high[cut]:
        cut += 1
    reason = f"{cut} leading step{'s' * (cut != 1)} beyond the scatter of the second half (modified z > {OUTLIER})"
    rest = values[cut:]
    if len(rest) >= 4 * _BATCH:
        spread = OUTLIER * (NORMAL * mad(late))
        centre = float(np.median(late))
        found = _mser(np.clip(rest, centre - spread, centre + spread))
        best = int(np.argmin(found))
        more = min(best * _BATCH, n // 2 - cut)
        level = abs(float(np.median(rest[:more])) - float(np.median(rest[more:]))) if more else 0.0
        if level > _APART * NORMAL * mad(rest[more:]) and found[best] < _PAYS * found[0]:
            reason = f"{reason}, and {more} by MSER-5" if cut else f"{more} steps by MSER-5"
            return Warmup(cut + more, reason)
    return Warmup(cut, reason if cut else "none found")
