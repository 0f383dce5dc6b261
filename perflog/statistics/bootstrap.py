"""Bootstrap of medians: blocks of dependent steps, runs of a side, confidence intervals. Samples hold no NaN.

A sample is one-dimensional: the values of a run in the order of its steps, or one value per run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from perflog.statistics.samples import Floats
from perflog.statistics.students_t import t_quantile

_CELLS = 1 << 16  # values resampled at a time: they fit into a cache
_WORK = 1 << 22  # values resampled in total: long or many runs get fewer draws
_FEWEST = 500  # draws that every side gets

# --- dependence of steps ------------------------------------------------------------------------------------------


def autocorrelation(values: Floats, lags: int) -> Floats:
    """Return the autocorrelation at lags 0 to `lags`, by mean and variance of the whole sample; 0 if constant."""
    n = len(values)
    centred = values - values.mean()
    power = float(centred @ centred)
    if power == 0:
        return np.concatenate([[1.0], np.zeros(lags)])
    return np.array([float(centred[: n - k] @ centred[k:]) / power if k < n else 0.0 for k in range(lags + 1)])


def block_length(values: Floats) -> int:
    """Return the block length of a circular bootstrap of the median.

    Politis and White (2004), corrected by Patton, Politis and White (2009), computed from the signs about the median,
    because these determine the median's error. At least the cube root of n, since dependence that is too weak to detect
    in so few steps still widens intervals. At most a third of n.
    """
    n = len(values)
    least, most = max(round(math.cbrt(n)), 1), max(n // 3, 1)
    if n < 8:
        return min(least, most)
    quiet = max(5, math.ceil(math.sqrt(math.log10(n))))  # number of lags in a row that must be insignificant
    reach = min(math.ceil(math.sqrt(n)) + quiet, n - 1)
    rho = autocorrelation(np.sign(values - np.median(values)), reach)
    loud = np.abs(rho) > 2 * math.sqrt(math.log10(n) / n)
    last = next(m for m in range(reach + 1) if not loud[m + 1 : m + 1 + quiet].any())
    if last == 0:
        return min(least, most)
    lags = np.arange(1, min(2 * last, reach) + 1)
    tapered = np.minimum(1.0, 2 * (1 - lags / (lags[-1] + 0.0))) * rho[lags]  # flat-top: 1 up to half of the lags
    spectrum = 1 + 2 * float(tapered.sum())  # at frequency 0, in units of the variance
    slope = 2 * float(lags @ tapered)
    if spectrum <= 0:
        return least
    length = math.cbrt(1.5 * slope**2 / spectrum**2 * n)  # 2 G^2 / D with D = 4/3 g(0)^2
    return min(max(round(length), least), most)


# --- bootstrap ----------------------------------------------------------------------------------------------------


def block_medians(values: Floats, block: int, draws: int, rng: np.random.Generator) -> Floats:
    """Return the medians of `draws` circular block bootstrap samples (Politis and Romano 1992).

    A sample is n values from blocks of neighbouring values laid end to end; the last value is followed by the first.
    """
    n = len(values)
    order = np.argsort(values)
    ranks = np.empty(n, np.int32)  # quicker to select from than floats
    ranks[order] = np.arange(n)
    ranks = np.resize(ranks, n + block)
    middle = np.empty((2, draws), np.int32)  # ranks of the two middle values
    chunk = max(1, _CELLS // n)
    for first in range(0, draws, chunk):
        starts = rng.integers(0, n, (min(chunk, draws - first), -(-n // block), 1))
        drawn = ranks[starts + np.arange(block)].reshape(len(starts), -1)[:, :n]
        drawn = np.partition(drawn, (n - 1) // 2, axis=1)
        middle[:, first : first + chunk] = drawn[:, (n - 1) // 2], drawn[:, n // 2 :].min(axis=1)
    medians: Floats = values[order][middle].mean(axis=0)
    return medians


def draws_for(runs: Sequence[Floats], draws: int) -> int:
    """Return the number of bootstrap samples for a side: fewer for long runs, whose intervals are narrow anyway."""
    return max(min(draws, _WORK // max(sum(map(len, runs)), 1)), min(draws, _FEWEST))


def median_of_medians(runs: Sequence[Floats]) -> float:
    """Return the centre of a side: the median of its runs' medians."""
    return float(np.median([np.median(run) for run in runs]))


def side_medians(runs: Sequence[Floats], draws: int, rng: np.random.Generator) -> Floats:
    """Return bootstrap values of `median_of_medians`: runs are drawn with replacement, then blocks of steps in each."""
    medians = np.stack([block_medians(run, block_length(run), draws, rng) for run in runs])  # (run, draw)
    if len(runs) == 1:
        only: Floats = medians[0]
        return only
    chosen = rng.integers(0, len(runs), medians.shape)
    # A run drawn twice gives two samples of its steps: its second comes from another draw.
    shifted = (np.arange(draws) + rng.integers(0, draws, (len(runs), 1))) % draws
    drawn: Floats = np.median(medians[chosen, shifted], axis=0)
    return drawn


def independent_units(runs: Sequence[Floats]) -> float:
    """Return the number of independent units of a side: its runs, or the blocks of a single run."""
    return len(runs) if len(runs) > 1 else len(runs[0]) / block_length(runs[0])


def bootstrap_interval(draws: Floats, count: float, level: float = 0.95) -> tuple[float, float]:
    """Return the expanded percentile interval (Hesterberg 2015) of bootstrap draws. NaN if `count` < 2.

    Few units scatter too little. So the percentiles are moved outwards as far as Student's t with `count` - 1 degrees
    of freedom exceeds the normal, times sqrt(count / (count - 1)).
    """
    if count < 2:
        return math.nan, math.nan
    reach = math.sqrt(count / (count - 1)) * t_quantile(0.5 + level / 2, count - 1)
    tail = NormalDist().cdf(-reach)
    low, high = np.quantile(draws, [tail, 1 - tail])
    return float(low), float(high)
