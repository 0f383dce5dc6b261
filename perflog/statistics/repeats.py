"""Whether runs can be repeats of one configuration: how far repeats lie apart at most."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from perflog.arrays import Floats

BETWEEN_RUNS, BETWEEN_RESULTS = 0.05, 0.1
"""Standard deviation of repeats on a machine that others share, in logarithms: of step times, and of other results."""

_CHANCE = 1e-3  # that equal runs are taken for different ones
_ONE_OUTLIER, _OUTLIERS = 5, 8  # runs of which one may be an outlier, and of which one in so many may be


def widest_spread(runs: int, noise: float) -> float:
    """Return how far repeats lie apart at most: logarithm of the largest over the smallest.

    By Bonferroni's bound over all pairs of normal values.

    Args:
        runs: Number of runs, at least 2.
        noise: Standard deviation of repeats, in logarithms.
    """
    pairs = runs * (runs - 1) / 2
    return math.sqrt(2) * NormalDist().inv_cdf(1 - _CHANCE / (2 * pairs)) * noise


def are_repeats(values: Floats, noise: float) -> bool:
    """Return whether values of runs, all positive, lie no farther apart than those of repeats with this `noise`.

    Of five runs the farthest from the median of all does not count, of sixteen the two farthest: an outlier is no other
    configuration.
    """
    logs = np.log(values)
    if len(logs) < 2:
        return True
    outliers = max(len(logs) // _OUTLIERS, 1) if len(logs) >= _ONE_OUTLIER else 0
    near = logs[np.argsort(np.abs(logs - np.median(logs)), kind="stable")][: len(logs) - outliers]
    return float(near.max() - near.min()) <= widest_spread(len(near), noise)
