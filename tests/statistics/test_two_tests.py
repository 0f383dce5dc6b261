"""A test of means and a rank test of the same samples, taken together."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.arrays import Floats
from perflog.statistics import effects, rank_tests
from perflog.statistics.two_tests import TwoTests, either_beyond, limit_of_normal


def both_tests(base: Floats, side: Floats) -> TwoTests:
    return TwoTests(effects.welch_effect(base, side), base, side)


@pytest.mark.parametrize(("p", "p_other"), [(0.5, 0.5), (0.05, 0.05), (0.01, 0.01), (0.05, 0.03), (0.2, 0.01)])
@pytest.mark.parametrize("correlation", [0.5, 0.95])
def test_the_share_of_correlated_normals_beyond_a_limit(correlation: float, p: float, p_other: float) -> None:
    first, other = np.random.default_rng(0).normal(size=(2, 200_000))
    second = correlation * first + math.sqrt(1 - correlation**2) * other
    limits = [-NormalDist().inv_cdf(share / 2) for share in (p, p_other)]
    share = float(((abs(first) >= limits[0]) | (abs(second) >= limits[1])).mean())
    assert either_beyond(p, p_other, correlation) == pytest.approx(share, rel=0.03)


@given(st.floats(1e-12, 1), st.floats(0, 1), st.floats(0, 1))
def test_two_tests_err_at_least_as_often_as_one_and_at_most_as_both(p: float, part: float, correlation: float) -> None:
    assert p <= either_beyond(p, part * p, correlation) <= (1 + part) * p
    assert either_beyond(p, 0.0, correlation) == p


def test_the_limit_of_the_rank_test_is_a_p_that_it_can_give() -> None:
    """Of five values a side it gives 0.0317 and 0.0556, so at 0.05 it adds less than it would without these steps."""
    a, b = np.arange(5.0), np.arange(5.0) + 0.5
    p = rank_tests.attainable_p(a, b)
    assert p is not None and p[:4] * 252 == pytest.approx([2, 4, 8, 14])
    assert rank_tests.attainable_p(np.ones(5), np.ones(5)) == 1  # all are equal
    assert rank_tests.attainable_p(np.arange(21.0), b) is None
    least = both_tests(a, a + 100)  # Welch's p is far below the least of the rank test: nothing is added
    assert least.p == least.effect.p() < 1e-4


def test_an_outlier_does_not_hide_a_shift_of_all_other_values() -> None:
    """Four of five values are larger than all of the base, the fifth is twice as large: Welch's p is 0.24.

    The rank test gives 2 / 252. It counts only in the direction of the means.
    """
    base, shifted = np.log([20.0, 20.1, 19.9, 20.05, 19.95]), np.log([21.0, 21.1, 20.9, 21.05, 40.0])
    found = both_tests(base, shifted)
    assert found.effect.p() == pytest.approx(0.239, abs=0.001)
    assert found.p_rank == pytest.approx(2 / 252)
    assert found.p_rank < found.p < 2 * found.p_rank
    low, high = found.interval(0.95)
    assert 0 < low < found.effect.shift < high
    other_way = both_tests(base, np.log([19.0, 19.1, 18.9, 19.05, 60.0]))
    assert other_way.effect.shift > 0 and other_way.p >= other_way.effect.p()


@pytest.mark.parametrize(("size", "other", "outside"), [(4, 4, 1), (5, 5, 3), (6, 6, 6), (8, 8, 14), (10, 10, 24)])
def test_the_interval_of_shifts_ends_at_differences(size: int, other: int, outside: int) -> None:
    """It leaves out as many differences on each side as the critical value of U at 5 % says, less one."""
    rng = np.random.default_rng(size)
    a, b = rng.normal(size=size), rng.normal(size=other)
    differences = np.sort(np.subtract.outer(b, a).ravel())
    expected = differences[outside - 1], differences[-outside]
    assert rank_tests.shift_interval(a, b, 0.05) == pytest.approx(expected)


def test_three_values_a_side_exclude_no_shift() -> None:
    assert rank_tests.shift_interval(np.arange(3.0), np.arange(3.0), 0.05) == (-math.inf, math.inf)


@pytest.mark.parametrize("size", [20, 21])
def test_intervals_of_many_values_are_near_those_of_the_count(size: int) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, size))
    low, high = rank_tests.shift_interval(a, b, 0.05)
    effect = effects.welch_effect(a, b)
    assert (low, high) == pytest.approx(effect.interval(0.95), abs=0.12)


@given(st.integers(0, 10_000), st.sampled_from([4, 5, 7, 21]), st.floats(-1, 1), st.booleans())
def test_the_interval_excludes_no_change_where_both_tests_find_one(
    seed: int, size: int, shift: float, outlier: bool
) -> None:
    a, b = np.random.default_rng(seed).normal(size=(2, size))
    b = b + 3 * shift + 20 * outlier * (np.arange(size) == 0)
    both = both_tests(a, b)
    low, high = both.interval(0.95)
    assert low <= both.effect.shift <= high
    if abs(both.p - 0.05) > 1e-3:  # the limit is found to four digits
        assert (low <= 0 <= high) == (both.p > 0.05)


def test_an_outlier_does_not_widen_the_interval() -> None:
    a = np.array([0.0, 0.1, -0.1, 0.05, -0.05, 0.02])
    b = np.array([1.0, 1.1, 0.9, 1.05, 0.95, 9.0])
    both = both_tests(a, b)
    low, high = both.interval(0.95)
    welch = both.effect.interval(0.95)
    assert welch[0] < 0 < 0.8 < low and high > both.effect.shift


@pytest.mark.parametrize(("size", "outlier", "most"), [(4, 0, 0.975), (5, 0, 0.975), (4, 10, 0.99), (10, 10, 0.99)])
def test_intervals_cover_with_and_without_an_outlier(size: int, outlier: float, most: float) -> None:
    """Welch's cover 99 to 100 % with one."""
    rng = np.random.default_rng(size)
    covered = 0
    for _ in range(400):
        values = rng.normal(size=2 * size)
        values[rng.integers(2 * size)] += outlier
        low, high = both_tests(values[:size], values[size:]).interval(0.95)
        covered += low <= 0 <= high
    assert 0.93 <= covered / 400 <= most


def test_the_limit_of_normal_values_is_little_under_the_level() -> None:
    """Values and ranks agree there, and the rank test of four values a side gives no p from 0.03 to 0.05."""
    assert limit_of_normal(4, 0.95) == pytest.approx(0.05, abs=0.0005)
    assert 0.04 < limit_of_normal(20, 0.95) < limit_of_normal(6, 0.95) < 0.05


def test_equal_values_say_nothing() -> None:
    both = both_tests(np.ones(5), np.ones(5))
    assert both.p == 1 and both.interval(0.95) == (0, 0)
