"""Centre, interval, deviation and drift of a sample, held against sums over the binomial distribution."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.statistics.samples import (
    binomial,
    drift,
    half_difference,
    lower_median,
    mad,
    median,
    median_interval,
    medians,
    modified_z_scores,
)

FINITE = st.floats(-1e6, 1e6, allow_nan=False)


def test_the_interval_of_the_median_is_the_widest_pair_the_binomial_allows() -> None:
    for n in range(1, 60):
        below = list(accumulate(math.comb(n, k) / 2**n for k in range(n + 1)))  # P(k or fewer values below the median)
        inner = [k for k in range(n // 2) if below[k] <= 0.025]
        low, high = median_interval(np.arange(n, dtype=float))
        if not inner:
            assert math.isnan(low) and math.isnan(high)
        else:
            assert (low, high) == (inner[-1], n - 1 - inner[-1])


def test_six_values_are_the_fewest_for_95_percent() -> None:
    assert math.isnan(median_interval(np.arange(5.0))[0])
    assert median_interval(np.arange(6.0)) == (0.0, 5.0)


@given(st.lists(FINITE, min_size=6, max_size=60))
def test_the_interval_holds_the_median(values: list[float]) -> None:
    low, high = median_interval(np.array(values))
    assert low <= np.median(values) <= high


def test_scores_are_distances_in_scaled_mads() -> None:
    values = np.array([1.0, 2.0, 3.0, 4.0, 100.0])
    assert mad(values) == 1.0
    assert modified_z_scores(values)[-1] == pytest.approx(97 / 1.4826)


def test_a_sample_of_one_value_has_no_outlier_but_what_differs() -> None:
    assert modified_z_scores(np.ones(5)).tolist() == [0.0] * 5
    assert modified_z_scores(np.array([1.0, 2.0]), np.ones(5)).tolist() == [0.0, math.inf]


def test_a_sample_that_is_mostly_one_value_is_scaled_by_its_mean_deviation() -> None:
    """The mean deviation of 0, 0, 0, 4 is 1."""
    values = np.array([0.0, 0.0, 0.0, 4.0])
    assert modified_z_scores(values).tolist() == [0, 0, 0, pytest.approx(4 / 1.2533)]
    assert modified_z_scores(np.array([-1.0]), np.ones(5)).tolist() == [-math.inf]


def test_a_drift_is_between_the_halves() -> None:
    for values, ratio, difference in (
        ([1.0, 1, 1, 2, 2, 2], 1, 1),
        ([2.0, 2, 9, 1, 1], -0.5, -1),
        ([2.0, 4, 6, 6], 1, 3),
        ([0.0, 0, 1, 1], math.nan, 1),
        ([1.0, 1, 1], math.nan, math.nan),
    ):
        assert drift(np.array(values)) == pytest.approx(ratio, nan_ok=True)
        assert half_difference(np.array(values)) == pytest.approx(difference, nan_ok=True)


def test_the_lower_median_of_two_is_the_less() -> None:
    values = np.array([[4, 1], [2, 8], [3, 5], [9, 0]])
    assert lower_median(values).tolist() == [3, 1]
    assert lower_median(values[:3]).tolist() == [3, 5]


def test_medians_along_an_axis_are_without_nan() -> None:
    values = np.array([[1.0, 2.0, 6.0], [3.0, math.nan, math.nan]])
    assert medians(values, 1).tolist() == [2, 3]
    assert medians(values, 0).tolist() == [2, 2, 6]
    assert medians(values[:1], 1).tolist() == [2]
    rng = np.random.default_rng(3)
    many = np.where(rng.random((7, 8)) < 0.3, np.nan, rng.standard_normal((7, 8)))
    for axis in (0, 1):
        np.testing.assert_array_equal(medians(many, axis), np.nanmedian(many, axis))
    many[2] = np.nan
    assert np.isnan(medians(many, 1)).tolist() == [row == 2 for row in range(7)]


@given(st.lists(st.floats(allow_nan=True, allow_infinity=False, width=32), min_size=1, max_size=30))
def test_the_median_is_that_of_numpy(values: list[float]) -> None:
    np.testing.assert_array_equal(median(np.array(values)), np.median(np.array(values)))


def test_an_empty_sample_has_no_median() -> None:
    assert math.isnan(median(np.zeros(0)))


@pytest.mark.parametrize("p", [0.5, 0.1, 1 / 64])
def test_binomial_probabilities_are_those_of_exact_fractions(p: float) -> None:
    for n in (1, 5, 40):
        for k in range(n + 1):
            exact = math.comb(n, k) * Fraction(p) ** k * (1 - Fraction(p)) ** (n - k)
            assert binomial(k, n, p) == pytest.approx(float(exact), rel=1e-12)
