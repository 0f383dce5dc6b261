"""Block bootstrap of the statistics of one run: successive step times are correlated.

Künsch 1989, doi:10.1214/aos/1176347265, in its circular form (Politis and Romano 1992). A sample is one-dimensional:
the values of a run in step order, without NaN.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from perflog.arrays import Floats
from perflog.statistics.samples import median

_CELLS = 1 << 16  # values resampled at a time: they fit into a cache
_WORK = 1 << 22  # values resampled in total: long or many runs get fewer draws
_FEWEST = 500  # draws that every side gets
_FIRST_LAGS = 32  # of the autocorrelation

# --- dependence of steps ------------------------------------------------------------------------------------------


def autocorrelation(values: Floats, lags: int) -> Floats:
    """Return the autocorrelation at lags 0 to `lags`, with the mean and variance of the whole sample; 0 if constant."""
    n = len(values)
    centred = values - values.mean()
    power = float(centred @ centred)
    if power == 0:
        return np.concatenate([[1.0], np.zeros(lags)])
    return np.array([float(centred[: n - k] @ centred[k:]) / power if k < n else 0.0 for k in range(lags + 1)])


def block_length(values: Floats) -> int:
    """Return the block length of a circular bootstrap of the median.

    Politis and White (2004, doi:10.1081/ETC-120028836), corrected by Patton, Politis and White (2009,
    doi:10.1080/07474930802459016), computed from the signs about the median, because these determine the error of the
    median. At least the cube root of n, since dependence that is too weak to detect in so few steps still widens
    intervals. At most a third of n.
    """
    n = len(values)
    least, most = max(round(math.cbrt(n)), 1), max(n // 3, 1)
    if n < 8:
        return min(least, most)
    quiet = max(5, math.ceil(math.sqrt(math.log10(n))))  # number of lags in a row that must be insignificant
    reach = min(math.ceil(math.sqrt(n)) + quiet, n - 1)
    rho, last = _significant(np.sign(values - median(values)), reach, quiet)
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


def _significant(values: Floats, reach: int, quiet: int) -> tuple[Floats, int]:
    """Return the autocorrelation and its last significant lag: the first one that `quiet` insignificant lags follow.

    The autocorrelation has at least twice as many lags, or `reach`. Few lags are computed first: a long run has
    hundreds, and most runs need only a few.
    """
    n = len(values)
    lags = min(_FIRST_LAGS, reach)
    while True:
        rho = autocorrelation(values, lags)
        loud = np.abs(rho) > 2 * math.sqrt(math.log10(n) / n)
        last = next(m for m in range(lags + 1) if not loud[m + 1 : m + 1 + quiet].any())
        if lags == reach or max(2 * last, last + quiet) <= lags:
            return rho, last
        lags = min(4 * lags, reach)


# --- bootstrap ----------------------------------------------------------------------------------------------------


def block_draws(values: Floats, statistic: str, draws: int, rng: np.random.Generator) -> Floats:
    """Return a statistic of `draws` circular block bootstrap samples of a run: `median`, `mean` or `p99`."""
    block = block_length(values)
    if statistic == "median":
        return block_medians(values, block, draws, rng)
    statistics = [
        drawn.mean(axis=1) if statistic == "mean" else np.quantile(drawn, 0.99, axis=1)
        for drawn in _block_samples(values, block, draws, rng)
    ]
    return np.concatenate(statistics)


def block_medians(values: Floats, block: int, draws: int, rng: np.random.Generator) -> Floats:
    """Return the medians of `draws` circular block bootstrap samples (Politis and Romano 1992)."""
    n = len(values)
    order = np.argsort(values)
    ranks = np.empty(n, np.int32)  # quicker to select from than floats
    ranks[order] = np.arange(n)
    middle = []  # ranks of the two middle values
    for drawn in _block_samples(ranks, block, draws, rng):
        parted = np.partition(drawn, (n - 1) // 2, axis=1)
        middle.append(np.stack([parted[:, (n - 1) // 2], parted[:, n // 2 :].min(axis=1)]))
    medians: Floats = values[order][np.concatenate(middle, axis=1)].mean(axis=0)
    return medians


def _block_samples(items: npt.NDArray[Any], block: int, draws: int, rng: np.random.Generator) -> Iterator[Any]:
    """Yield bootstrap samples in chunks, shape (samples, n).

    A sample is n items from blocks of neighbouring items, concatenated. The first item follows the last.
    """
    n = len(items)
    closed = np.resize(items, n + block)
    chunk = max(1, _CELLS // n)
    for first in range(0, draws, chunk):
        starts = rng.integers(0, n, (min(chunk, draws - first), -(-n // block), 1))
        yield closed[starts + np.arange(block)].reshape(len(starts), -1)[:, :n]


def draws_for(values: Floats, draws: int) -> int:
    """Return the number of bootstrap samples of a run. Long runs have narrow intervals, so they get fewer samples."""
    return max(min(draws, _WORK // max(len(values), 1)), min(draws, _FEWEST))


def median_of_medians(runs: Sequence[Floats]) -> float:
    """Return the centre of a side: the median of the medians of its runs."""
    return median(np.array([median(run) for run in runs]))


def independent_units(values: Floats) -> float:
    """Return the number of independent units of a run: the number of its blocks."""
    return len(values) / block_length(values)
