"""Rank tests and effect sizes, against arrangements that are counted one by one and against figures by hand."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.statistics.rank_tests import (
    _near_median,
    attainable_p,
    cliffs_delta,
    hodges_lehmann,
    holm_adjusted,
    mann_whitney,
    midranks,
    shift_interval,
)


def numbers(*values: float) -> Any:
    return np.array(values, np.float64)


def test_equal_values_share_their_ranks() -> None:
    assert midranks(numbers(3, 1, 3, 2)).tolist() == [3.5, 1, 3.5, 2]
    assert midranks(numbers(5, 5, 5)).tolist() == [2, 2, 2]


VALUES = st.lists(st.integers(0, 5).map(float), min_size=1, max_size=5)


@given(VALUES, VALUES)
def test_the_exact_test_counts_all_arrangements(a: list[float], b: list[float]) -> None:
    ranks = midranks(numbers(*a, *b)).tolist()
    sums = [sum(choice) for choice in combinations(ranks, len(a))]
    observed = sum(ranks[: len(a)])
    tails = sum(each <= observed for each in sums), sum(each >= observed for each in sums)
    p = mann_whitney(numbers(*a), numbers(*b))
    assert p == pytest.approx(min(1, 2 * min(tails) / len(sums)), rel=1e-12)
    possible = attainable_p(numbers(*a), numbers(*b))
    assert possible is not None
    assert possible.tolist() == sorted(set(possible.tolist()))
    assert p in possible.tolist() and possible[-1] <= 1


def two_sided(z: float) -> float:
    """The p-value of a standard normal variable."""
    return math.erfc(z / math.sqrt(2))


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (range(5), range(5, 10), 2 / 252),
        (range(20), range(20, 40), 2 / math.comb(40, 20)),
        (range(20), [20], 2 / 21),  # the last that is exact
        (range(21), [21], two_sided((10.5 - 0.5) / math.sqrt(21 / 12 * 23))),
        ([21], range(21), two_sided((10.5 - 0.5) / math.sqrt(21 / 12 * 23))),
        (range(21), [21, 22], two_sided((21 - 0.5) / math.sqrt(42 / 12 * 24))),
        ([0] * 21, [0, 1], two_sided((10.5 - 0.5) / math.sqrt(42 / 12 * (24 - (22**3 - 22) / (23 * 22))))),
        ([7] * 21, [7] * 3, 1),
        ([*range(21)], [10], 1),  # in the middle
        ([], [1, 2], math.nan),
        ([1, 2], [], math.nan),
    ],
)
def test_p_values(a: Any, b: Any, expected: float) -> None:
    assert mann_whitney(numbers(*a), numbers(*b)) == pytest.approx(expected, rel=1e-12, nan_ok=True)


def test_attainable_p_values() -> None:
    five = attainable_p(numbers(*range(5)), numbers(*range(5, 10)))
    assert five is not None
    assert five[:4].tolist() == pytest.approx([2 / 252, 4 / 252, 8 / 252, 14 / 252]) and five[-1] == 1
    assert attainable_p(numbers(1), numbers(*range(20))) is not None
    assert attainable_p(numbers(1), numbers(*range(21))) is None
    assert attainable_p(numbers(*range(21)), numbers(1)) is None


@pytest.mark.parametrize(
    ("p", "expected"),
    [
        (0.05, (7, 13)),  # three arrangements of 252 at each end have p of at most 0.05
        (8 / 252, (7, 13)),
        (0.01, (6, 14)),
        (0.005, (-math.inf, math.inf)),  # no arrangement is so rare
        (1, (10, 10)),
    ],
)
def test_the_interval_of_a_shift_of_few_values(p: float, expected: tuple[float, float]) -> None:
    """Differences 6 to 14, 1, 2, 3, 4, 5, 4, 3, 2, 1 times."""
    assert shift_interval(numbers(*range(5)), numbers(*range(10, 15)), p) == expected


@pytest.mark.parametrize(
    ("size", "other", "p", "expected"),
    [
        (20, 20, 0.01, (-5, 5)),  # exact: 106 values of U, as in printed tables; by the normal distribution 105
        (21, 21, 0.05, (-4, 4)),  # 220 - 1.96 * 39.75: the 143rd of 441 differences
        (21, 1, 0.12, (-20, 0)),  # 10 - 1.55 * 6.34 = 0.14: the first of 21
        (21, 1, 0.1, (-math.inf, math.inf)),  # 10 - 1.64 * 6.34 < 0
    ],
)
def test_the_interval_of_a_shift_of_many_values(size: int, other: int, p: float, expected: tuple[float, float]) -> None:
    assert shift_interval(numbers(*range(size)), numbers(*range(other)), p) == expected


def test_p_values_of_several_tests() -> None:
    assert holm_adjusted([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    adjusted = holm_adjusted([math.nan, 0.5, 0.6, 0.01])
    assert math.isnan(adjusted[0]) and adjusted[1:] == pytest.approx([1, 1, 0.03])
    assert holm_adjusted([0.7, 0.6]) == [1, 1]
    assert holm_adjusted([]) == []


def test_the_shift_is_the_median_of_all_differences() -> None:
    assert hodges_lehmann(numbers(1, 2, 4), numbers(11, 13)) == 9.5
    assert hodges_lehmann(numbers(11, 13), numbers(1, 2, 4)) == -9.5


@pytest.mark.parametrize(("size", "expected"), [(2000, 999.5), (4001, 1999.5)])
def test_a_long_sample_is_thinned_evenly(size: int, expected: float) -> None:
    """Of 4001 values each third: 0, 3, ... 3999. The median of all is 2000."""
    values = np.arange(size, dtype=np.float64)
    assert hodges_lehmann(numbers(0), values) == expected
    assert hodges_lehmann(values, numbers(0)) == -expected


def test_the_median_of_many_differences_is_found_among_those_near_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As from all differences. Of values at two levels, the median may not be among those near it."""
    monkeypatch.setattr("perflog.statistics.rank_tests._AT_ONCE", 200)
    rng = np.random.default_rng(3)
    for a, b in (
        (rng.normal(size=40), rng.normal(size=31)),
        (rng.normal(size=40).round(1), rng.normal(size=41).round(1)),
        (numbers(*range(50)), numbers(*range(30))),
        (np.full(30, 3.0), np.full(20, 3.0)),
        (numbers(0), rng.normal(size=500)),
        (np.repeat([0.0, 1e6], 20) + rng.normal(size=40), np.repeat([0.0, 1e6], 15) + rng.normal(size=30)),
    ):
        assert hodges_lehmann(a, b) == np.median(np.subtract.outer(b, a))
    monkeypatch.setattr("perflog.statistics.rank_tests._AT_ONCE", 50_000)
    for size in (300, 301):  # an even number of differences, and an odd one
        a, b = rng.normal(size=401), rng.normal(size=size)
        assert _near_median(a, b) == np.median(np.subtract.outer(b, a))


def test_cliffs_delta_counts_pairs() -> None:
    assert cliffs_delta(numbers(1, 2, 3), numbers(2, 4)) == 0.5
    assert cliffs_delta(numbers(2, 4), numbers(1, 2, 3)) == -0.5
    assert cliffs_delta(numbers(1, 2), numbers(3, 4)) == 1
    assert cliffs_delta(numbers(1, 1), numbers(1)) == 0
