"""Definitions of step statistics, written out once more without perflog: the oracles of its screens.

Source: METRICS C2, and the sources that `perflog analyze LOG steps` names. Times are in seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import comb
from statistics import median, pvariance

OUTLIER, NORMAL = 3.5, 1.4826


def mad(values: Sequence[float]) -> float:
    """Median absolute deviation from the median."""
    centre = median(values)
    return median(abs(value - centre) for value in values)


def warm_up(values: Sequence[float]) -> int:
    """Number of values at the start that are warm-up: see `warm_up_parts`."""
    return sum(warm_up_parts(values))


def warm_up_parts(values: Sequence[float]) -> tuple[int, int]:
    """Number of leading values beyond the scatter of the second half, and of those that MSER-5 cuts behind them.

    First all leading values over 3.5 scaled MADs above the median of the second half. Of what is left, values further
    away than that count as that far away. Then the batches of five that MSER-5 cuts, if that lowers its estimate by a
    tenth, and if their median is not within 1.645 scaled MADs of that of the rest. At most half of the values.
    """
    half = len(values) // 2
    late = values[half:]
    centre, reach = median(late), OUTLIER * NORMAL * mad(late)
    cut = 0
    while cut < half and values[cut] - centre > reach:
        cut += 1
    left = values[cut:]
    if len(left) < 20:
        return cut, 0
    clipped = [min(max(value, centre - reach), centre + reach) for value in left]
    batches = [sum(clipped[i : i + 5]) / 5 for i in range(0, len(clipped) - 4, 5)]
    estimates = [pvariance(batches[i:]) / (len(batches) - i) for i in range(max(len(batches) // 2, 1))]
    least = estimates.index(min(estimates))
    more = min(5 * least, half - cut)
    if not more or estimates[least] >= 0.9 * estimates[0]:
        return cut, 0
    is_apart = abs(median(left[:more]) - median(left[more:])) > 1.645 * NORMAL * mad(left[more:])
    return cut, more if is_apart else 0


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """95 % interval of the median: the outermost order statistics of which each side misses it in at most 2.5 %."""
    n, below, outside = len(values), Fraction(0), -1
    for k in range(n):
        below += Fraction(comb(n, k), 2**n)
        if below > Fraction(1, 40):
            break
        outside = k
    assert outside >= 0, "too few values"
    ordered = sorted(values)
    return ordered[outside], ordered[n - 1 - outside]


def half_interval(values: Sequence[float]) -> float:
    """Half of the interval of the median, as a share of the median."""
    low, high = median_interval(values)
    return (high - low) / 2 / median(values)


def outliers(values: Sequence[float]) -> tuple[float, list[int]]:
    """Ten MADs, and the places of values further than that above the median, and over 2 % above it."""
    centre, scatter = median(values), 10 * mad(values)
    limit = max(centre + scatter, 1.02 * centre)
    return scatter, [place for place, value in enumerate(values) if value > limit]
