"""Series of numbers with known statistics."""

from __future__ import annotations

import math

import numpy as np

from perflog.arrays import Floats


def ar1(rng: np.random.Generator, n: int, rho: float) -> Floats:
    """A stationary AR(1) series of mean 0 and variance 1."""
    x = np.empty(n)
    last = rng.normal()
    for i in range(n):
        x[i] = last = rho * last + math.sqrt(1 - rho * rho) * rng.normal()
    return x
