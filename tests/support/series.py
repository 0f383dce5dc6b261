"""Series of numbers with known statistics."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from perflog.arrays import Floats
from perflog.metrics.step_series import StepSeries
from perflog.statistics.warmup import Warmup


def ar1(rng: np.random.Generator, n: int, rho: float) -> Floats:
    """A stationary AR(1) series of mean 0 and variance 1."""
    x = np.empty(n)
    last = rng.normal()
    for i in range(n):
        x[i] = last = rho * last + math.sqrt(1 - rho * rho) * rng.normal()
    return x


def step_series_of(
    values: Sequence[float], run: str = "r", cut: int = 0, steps: Sequence[int] | None = None, averaged: int = 1
) -> StepSeries:
    """The step times of a run: of steps 1, 2, 3 ... if no others are given, printed on the lines of these numbers."""
    numbers = np.arange(1, len(values) + 1) if steps is None else np.array(steps, np.int64)
    times, warmup = np.array(values, np.float64), Warmup(cut, "")
    return StepSeries(run, None, "step_time_s", numbers, numbers, times, numbers, averaged, (), warmup)
