"""Block bootstrap of the statistics of one run: successive step times are correlated.

Künsch 1989, doi:10.1214/aos/1176347265, in its circular form (Politis and Romano 1992). A sample is one-dimensional:
the values of a run in step order, without NaN.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from perflog.arrays import Floats, Ints
from perflog.statistics.samples import median

_CELLS = 1 << 16  # positions of samples at a time: they fit into a cache
_ONE = np.int32(1)
_ERRORS = 8  # of a rank that are looked at on both sides
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
    if statistic == "mean":
        return block_means(values, block, draws, rng)
    position = 0.99 * (len(values) - 1)  # linear between two values, Hyndman and Fan's type 7
    first = min(int(position), max(len(values) - 2, 0))
    low, high = _order_statistics(values, block, (first, min(first + 1, len(values) - 1)), draws, rng)
    return low + (high - low) * (position - first)


def block_medians(values: Floats, block: int, draws: int, rng: np.random.Generator) -> Floats:
    """Return the medians of `draws` circular block bootstrap samples (Politis and Romano 1992)."""
    low, high = _order_statistics(values, block, ((len(values) - 1) // 2, len(values) // 2), draws, rng)
    return (low + high) / 2


def block_means(values: Floats, block: int, draws: int, rng: np.random.Generator) -> Floats:
    """Return the means of `draws` circular block bootstrap samples, from the sums of blocks."""
    n, centre = len(values), float(values.mean())  # sums of differences lose no digits
    sums = np.concatenate([[0.0], np.cumsum(np.resize(values - centre, n + block))])
    return centre + np.concatenate([_sums(sums, starts, block) / n for starts in _samples(n, block, draws, rng)])


def _samples(n: int, block: int, draws: int, rng: np.random.Generator) -> Iterator[Ints]:
    """Yield the first positions of the blocks of some samples at a time, shape (samples, blocks).

    A sample is n values from blocks of neighbouring values, concatenated; the last block may be cut. The first value
    follows the last.
    """
    chunk = max(1, _CELLS // n)
    for first in range(0, draws, chunk):
        yield rng.integers(0, n, (min(chunk, draws - first), -(-n // block)))


def _ends(starts: Ints, block: int, n: int) -> Ints:
    """Return the position after each block of samples of n values."""
    ends = starts + block
    ends[:, -1] = starts[:, -1] + n - (starts.shape[1] - 1) * block
    return ends


def _sums(sums: npt.NDArray[Any], starts: Ints, block: int) -> npt.NDArray[Any]:
    """Return the sum over each sample, from the sums of all values before each position."""
    ends = _ends(starts, block, len(sums) - block - 1)
    return np.asarray((sums[ends] - sums[starts]).sum(axis=1))


def _order_statistics(
    values: Floats, block: int, ranks: tuple[int, int], draws: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return the values of two neighbouring ranks in each of `draws` circular block bootstrap samples.

    Samples are not made: a value is in a sample as often as blocks cover its position. Only values of ranks near the
    wanted ones are looked at, and those below are counted by blocks. The error of a rank is at most that of blocks of
    equal values.
    """
    n = len(values)
    order = np.argsort(values)
    share = (ranks[0] + 0.5) / n
    reach = math.ceil(_ERRORS * math.sqrt(n * block * share * (1 - share)))
    low, high = max(ranks[0] - reach, 0), min(ranks[1] + reach + 1, n)
    is_below = np.zeros(n, np.int32)
    is_below[order[:low]] = 1
    below = np.cumsum(np.append(0, np.resize(is_below, n + block)), dtype=np.int32)
    found = []
    for starts in _samples(n, block, draws, rng):
        cover, begin = _cover(starts, block, n), low
        near = _running_sums(cover, order[low:high])
        if low or high < n:
            numbers = _sums(below, starts, block)
            near += numbers[:, None]
            if (numbers > ranks[0]).any() or (near[:, -1] <= ranks[1]).any():
                near, begin = _running_sums(cover, order), 0
        # The last of the sums is above both ranks, so the first one above a rank has as many before it.
        found.append(begin + np.array([np.argmax(near > rank, axis=1) for rank in ranks]))
    first, second = np.concatenate(found, axis=1)
    return values[order[first]], values[order[second]]


def _running_sums(cover: npt.NDArray[np.int32], order: Ints) -> npt.NDArray[np.int32]:
    """Return the number of values of each sample up to each position in an order."""
    near = np.take(cover, order, axis=1)
    return np.cumsum(near, axis=1, out=near)


def _cover(starts: Ints, block: int, n: int) -> npt.NDArray[np.int32]:
    """Return the number of blocks of each sample that cover each position, shape (samples, n)."""
    size = n + block + 1
    edges = np.zeros(len(starts) * size, np.int32)
    rows = size * np.arange(len(starts))[:, None]
    np.add.at(edges, (rows + starts).ravel(), _ONE)  # with a number of another type it takes twenty times as long
    np.subtract.at(edges, (rows + _ends(starts, block, n)).ravel(), _ONE)
    cover = np.cumsum(edges.reshape(-1, size), axis=1, dtype=np.int32)
    cover[:, :block] += cover[:, n : n + block]
    return cover[:, :n]


def draws_for(values: Floats, draws: int) -> int:
    """Return the number of bootstrap samples of a run. Long runs have narrow intervals, so they get fewer samples."""
    return max(min(draws, _WORK // max(len(values), 1)), min(draws, _FEWEST))


def independent_units(values: Floats) -> float:
    """Return the number of independent units of a run: the number of its blocks."""
    return len(values) / block_length(values)
