"""Shifts: power on steps that are planted, and how often noise, slopes, periods and stalls are taken for one."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest

from perflog.arrays import Floats
from perflog.statistics.shifts import FEWEST, _running_medians, shifts


def noise(rng: np.random.Generator, n: int, dependence: float = 0.0, heavy: bool = False) -> Floats:
    """Noise of standard deviation 1, each value depending on the one before."""
    draws = rng.standard_t(3, n) / np.sqrt(3) if heavy else rng.normal(size=n)
    values = draws.copy()
    for i in range(1, n):
        values[i] = dependence * values[i - 1] + np.sqrt(1 - dependence**2) * draws[i]
    return np.asarray(values)


@pytest.mark.parametrize("n", [40, 200, 1000])
@pytest.mark.parametrize(("change", "scatter"), [(0.05, 0.005), (0.1, 0.01), (0.5, 0.03)])
def test_a_step_is_found_where_it_is(n: int, change: float, scatter: float) -> None:
    rng = np.random.default_rng(n)
    found = 0
    for _ in range(10):
        cut = int(rng.integers(n // 4, 3 * n // 4))
        values = np.exp(scatter * noise(rng, n, 0.3, heavy=True))
        values[cut:] *= 1 + change
        values[rng.random(n) < 0.02] *= 5  # pauses
        levels = shifts(values)
        found += len(levels) == 2 and abs(levels[1].start - cut) <= 2
    assert found >= 9


@pytest.mark.parametrize("dependence", [0.0, 0.5, 0.8])
@pytest.mark.parametrize("heavy", [False, True])
def test_noise_is_one_level(dependence: float, heavy: bool) -> None:
    rng = np.random.default_rng(7)
    alarms = 0
    for n in (100, 300, 1000):
        alarms += sum(len(shifts(np.exp(0.03 * noise(rng, n, dependence, heavy)))) > 1 for _ in range(20))
    assert alarms <= 1


def test_a_slope_a_period_and_a_stall_are_no_shift() -> None:
    rng = np.random.default_rng(3)
    steady = np.exp(0.01 * noise(rng, 300, 0.3))
    slope = steady * np.exp(np.linspace(0, 0.3, 300))
    period, stall = steady.copy(), steady.copy()
    period[::10] *= 3
    stall[150:153] *= 30
    assert [len(shifts(values)) for values in (steady, slope, period, stall)] == [1, 1, 1, 1]


def test_a_level_between_two_others_is_found() -> None:
    steady = np.exp(0.005 * noise(np.random.default_rng(5), 300))
    steady[100:160] *= 1.4
    assert [(level.start, level.stop) for level in shifts(steady)] == [(0, 100), (100, 160), (160, 300)]


def test_levels_cover_all_values_once() -> None:
    rng = np.random.default_rng(11)
    for n in (0, 1, FEWEST, 61, 500):
        levels = shifts(np.exp(0.2 * noise(rng, n)) * np.where(np.arange(n) < n // 2, 1, 3))
        assert (levels[0].start, levels[-1].stop) == (0, n)
        assert all(one.stop == other.start for one, other in pairwise(levels))


def test_values_that_have_no_logarithm_are_one_level() -> None:
    assert len(shifts(np.append(np.zeros(40), np.ones(40)))) == 1


def test_the_windows_of_a_long_series_are_not_copied() -> None:
    """All windows of 100,000 values would take 1.3 GB."""
    values = np.exp(0.01 * np.random.default_rng(13).normal(size=100_000))
    values[60_000:] *= 1.1
    tracemalloc.start()
    try:
        levels = shifts(values)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [level.start for level in levels] == [0, 60_000]
    assert peak < 30 << 20


def test_the_windows_of_a_long_series_have_the_medians_of_each_alone() -> None:
    values = np.random.default_rng(17).normal(size=20_000).round(2)
    medians = _running_medians(values, 400)
    assert len(medians) == len(values) - 399
    assert all(medians[i] == np.median(values[i : i + 400]) for i in (0, 1, 777, 12_345, len(medians) - 1))
