"""Shifts: power on steps that are planted, and how often noise, slopes, periods and stalls are taken for one."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest

from perflog.arrays import Floats
from perflog.statistics.shifts import (
    FEWEST,
    _block_scatter,
    _differences,
    _grade,
    _moved,
    _running_medians,
    _slope,
    _steepness,
    _without_single,
    shifts,
)


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
    for n in (40, 100, 300, 1000):
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


@pytest.mark.parametrize("number", [4, 5, 6, 8])
@pytest.mark.parametrize("n", [240, 1000])
def test_levels_that_alternate(number: int, n: int) -> None:
    """A search for one cut after the other finds 1 of 3, and none of 7: changes cancel each other."""
    edges = np.linspace(0, n, number + 1).astype(int)
    is_slow = np.searchsorted(edges, np.arange(n), "right") % 2 == 0
    values = np.where(is_slow, 1.2, 1.0) * np.exp(0.01 * noise(np.random.default_rng(n), n))
    assert [level.start for level in shifts(values)] == edges[:-1].tolist()


@pytest.mark.parametrize(("number", "found"), [(6, 6), (8, 8), (12, 12), (13, 1)])
def test_a_series_of_more_than_twelve_levels_drifts(number: int, found: int) -> None:
    steps = np.repeat(1.3 ** np.arange(number), 60)
    assert len(shifts(steps * np.exp(0.003 * np.random.default_rng(5).normal(size=len(steps))))) == found


def test_a_short_level_of_a_short_series_is_found() -> None:
    rng, found = np.random.default_rng(2), 0
    for _ in range(10):
        start = int(rng.integers(12, 36))
        values = np.exp(0.02 * noise(rng, 59, 0.3, heavy=True))
        values[start : start + 10] *= 1.4
        levels = shifts(values)
        found += len(levels) == 3 and abs(levels[1].start - start) <= 2 and abs(levels[2].start - start - 10) <= 2
    assert found >= 8


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


def test_a_single_block_far_from_both_neighbours_is_replaced_by_their_mean() -> None:
    for blocks, expected in (
        ([0.0, 0, 9, 2, 0], [0, 0, 1, 2, 0]),
        ([0.0, 0, -9, 2, 0], [0, 0, 1, 2, 0]),
        ([0.0, 0, 5, 0, 0], [0, 0, 5, 0, 0]),  # five times the noise
        ([0.0, 0, 5.1, 0, 0], [0, 0, 0, 0, 0]),
        ([0.0, 0, 9, 9, 0], [0, 0, 9, 9, 0]),
        ([0.0, 0, 9, 18, 18], [0, 0, 9, 18, 18]),  # a slope
        ([9.0, 0, 0, 0, 9], [9, 0, 0, 0, 9]),
    ):
        assert _without_single(np.array(blocks), 1.0).tolist() == expected


def test_a_cut_moves_to_where_the_level_changes_within_two_blocks() -> None:
    steps = np.repeat([0.0, 1.0, 3.0], [20, 20, 20])
    for cuts in ([17, 43], [23, 37], [20, 40], [14, 46]):
        assert _moved(steps, [0, *cuts, 60], 3) == [0, 20, 40, 60], cuts
    for cuts in ([10, 40], [50, 55]):
        moved = _moved(steps, [0, *cuts, 60], 3)
        assert moved == sorted(set(moved))
        assert all(abs(a - b) <= 6 for a, b in zip(moved[1:-1], cuts, strict=True))


def test_the_parts_of_a_grade() -> None:
    """Medians of halves, scaled MADs of the medians of blocks, and differences between neighbouring windows."""
    values = np.array([1.0, 1, 1, 2, 2, 2, 4, 4, 4, 9])
    assert _slope(values) == 4 - 1
    assert _block_scatter(values, 3) == pytest.approx(1.4826)  # of 1, 2 and 4
    assert _block_scatter(values[:8], 3) == 0
    assert _differences(values, 3).tolist() == [1, 1, 2, 2, 2]
    assert _differences(values[:5], 3).tolist() == []


def test_a_jump_is_compared_with_the_jumps_elsewhere() -> None:
    """1.6 times their 95 % quantile, and more in a series of few values: 1 + 16 / n."""
    left, right = np.tile([0.0, 0, 0, 1, 1, 1], 3), np.full(18, 9.0)
    usual = np.concatenate([_differences(left, 3), _differences(right, 3)])
    jump = 9.0 - 1.0
    assert _steepness(left, right, 2, 36) == pytest.approx(jump / (1.6 * (1 + 16 / 36) * np.quantile(usual, 0.95)))
    assert _steepness(right, right + 1, 2, 36) == np.inf
    assert _steepness(left[:4], right[:4], 2, 8) == np.inf


def test_the_grade_is_its_smallest_part() -> None:
    def grade(left: Floats, right: Floats, noise: float = 1e-12) -> float:
        logs = np.concatenate([left, right])
        return _grade(logs, 0, len(left), len(logs), 3, noise)

    flat = np.zeros(20)
    assert grade(flat, flat[:7] + 1) == 0  # too short
    assert grade(flat, flat[:8] + 1) > 1
    assert grade(flat, flat + 1) == pytest.approx(1 / 0.6)  # the whole change is at the cut
    assert grade(flat, flat + 0.01) == pytest.approx(0.01 / np.log(1.02))
    assert grade(flat, flat + 1, noise=0.5) == pytest.approx(1 / (4 * 0.5))
    sloping = np.repeat([0.0, 0.8], 10)
    assert grade(sloping, flat + 3) <= 0.5 * (3 - 0.4) / 0.8
    assert grade(flat, flat) == 0
