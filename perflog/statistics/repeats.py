"""Determines whether runs can be repeats of one configuration, by the largest spread that repeats have.

The bound is of the range of normal values with the scatter of repeats on shared machines, by Bonferroni over all pairs.

Known limit: few runs of different code may differ by less than repeats do, and then count as repeats.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from perflog.arrays import Floats

BETWEEN_RUNS, BETWEEN_RESULTS = 0.05, 0.1
"""Standard deviation of repeats on a shared machine, in logarithms: of step times, and of other results."""

_CHANCE = 1e-3  # probability of rejecting true repeats
_ONE_OUTLIER, _OUTLIERS = 5, 8  # fewest runs with one allowed outlier; runs for each further outlier


def widest_spread(runs: int, noise: float) -> float:
    """Return the upper bound of the spread of repeats: logarithm of the largest value over the smallest.

    Bonferroni's bound over all pairs of normal values.

    Args:
        runs: Number of runs, at least 2.
        noise: Standard deviation of repeats, in logarithms.
    """
    pairs = runs * (runs - 1) / 2
    return math.sqrt(2) * NormalDist().inv_cdf(1 - _CHANCE / (2 * pairs)) * noise


def are_repeats(values: Floats, noise: float) -> bool:
    """Return whether the positive values of runs differ by no more than repeats with this `noise` do.

    Outliers do not make another configuration: of five runs, the one farthest from the median is left out; of sixteen
    runs, two.
    """
    logs = np.log(values)
    if len(logs) < 2:
        return True
    outliers = max(len(logs) // _OUTLIERS, 1) if len(logs) >= _ONE_OUTLIER else 0
    near = logs[np.argsort(np.abs(logs - np.median(logs)), kind="stable")][: len(logs) - outliers]
    return float(near.max() - near.min()) <= widest_spread(len(near), noise)
