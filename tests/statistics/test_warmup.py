"""Facts about the warm-up of a run: MSER-5 against exact fractions, and series with nothing to cut."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.statistics.warmup import Warmup, _mser, warm_up


def exact_mser(values: list[int]) -> list[Fraction]:
    """MSER of each truncation by whole batches of five, at most half of them, of whole numbers."""
    batches = [Fraction(sum(values[i : i + 5]), 5) for i in range(0, len(values) // 5 * 5, 5)]
    found = []
    for cut in range(max(len(batches) // 2, 1)):
        left = batches[cut:]
        mean = sum(left, Fraction(0)) / len(left)
        found.append(sum(((x - mean) ** 2 for x in left), Fraction(0)) / len(left) ** 2)
    return found


@given(st.lists(st.integers(0, 30), min_size=5, max_size=60), st.sampled_from([1.0, 0.1, 1e-3, 1e6]))
def test_the_truncation_is_the_shortest_of_the_least_mser(values: list[int], unit: float) -> None:
    exact = exact_mser(values)
    least = min(exact)
    cut, _ = _mser(np.array(values) * unit)
    assert exact[cut // 5] - least <= Fraction(1, 10**12)
    assert cut // 5 <= exact.index(least)


@pytest.mark.parametrize("value", [0.1, 0.3, 0.7, 1 / 3])
@pytest.mark.parametrize("steps", [20, 227, 5000])
def test_equal_times_have_no_warm_up(value: float, steps: int) -> None:
    assert warm_up(np.full(steps, value)).cut == 0  # the rounded variance of the rest is now 0 and now 1e-33


def test_equal_times_after_a_slow_start_begin_where_it_ends() -> None:
    slow = np.full(1_000_000, 0.25)
    slow[:200_000] += np.arange(200_000) % 7 * 1e-5
    assert _mser(slow) == (200_000, True)


def test_almost_half_of_a_run_may_be_slow() -> None:
    assert _mser(np.repeat([2.0, 1.0], [45, 55])) == (45, True)
    assert _mser(np.repeat([2.0, 1.0], [50, 50]))[0] < 50
    assert [_mser(np.repeat([2.0, 1.0], [5, rest]))[0] for rest in (5, 10, 15)] == [0, 0, 5]


def steady(seed: int, n: int = 100) -> np.ndarray:
    return np.random.default_rng(seed).normal(10.0, 0.2, n)


def test_a_cold_first_step_is_cut() -> None:
    values = steady(1)
    values[0] = 37.0
    assert warm_up(values).cut == 1


def test_a_slow_start_of_many_steps_is_cut() -> None:
    values = steady(2)
    values[:20] += 0.75  # within the reach of no single outlier test
    assert 15 <= warm_up(values).cut <= 25


def test_a_late_outlier_is_no_warm_up() -> None:
    values = steady(3)
    values[40] = 90.0
    assert warm_up(values).cut == 0


def test_steady_runs_are_left_whole() -> None:
    cuts = [warm_up(steady(seed)).cut for seed in range(300)]
    assert np.mean(np.array(cuts) > 0) < 0.02


def test_slow_swings_are_no_warm_up() -> None:
    noise = np.random.default_rng(4).normal(0, 0.1, (50, 200))
    swing = np.cumsum(noise, axis=1) * 0.1 + noise + 10
    assert np.mean([warm_up(x).cut > 50 for x in swing]) < 0.1


def test_growth_over_a_whole_run_is_no_warm_up() -> None:
    assert warm_up(steady(1, 600) * np.linspace(0.5, 0.75, 600)).cut == 0
    assert warm_up(steady(1, 600) * np.linspace(0.75, 0.5, 600)).cut < 100


def test_never_more_than_half_is_cut() -> None:
    assert warm_up(np.arange(100.0)[::-1]).cut <= 50


def test_the_users_number_is_taken_as_it_is() -> None:
    assert warm_up(steady(5), 7).cut == 7
    assert warm_up(steady(5, 3), 7).cut == 3


@given(st.lists(st.floats(-1e6, 1e6), max_size=40))
def test_any_values_give_a_cut_within_the_half(values: list[float]) -> None:
    assert 0 <= warm_up(np.array(values)).cut <= len(values) // 2


def test_the_reason_says_what_was_cut() -> None:
    """2 and 40 are far from the other values; the six after them, by MSER-5, are clipped."""
    calm = [1.0, 1.01, 0.99, 1.02, 0.98] * 8
    leading = "beyond the scatter of the second half (modified z > 3.5)"
    for values, chosen, expected in (
        (calm, None, Warmup(0, "none found")),
        ([40.0, *calm], None, Warmup(1, f"1 leading step {leading}")),
        ([40.0, 2.0, *calm], None, Warmup(2, f"2 leading steps {leading}")),
        ([40.0, 1.0, 2.0, *calm], None, Warmup(1, f"1 leading step {leading}")),
        ([1.03] * 10 + calm, None, Warmup(10, "10 leading steps by the MSER-5 rule")),
        ([40.0] + [1.03] * 10 + calm, None, Warmup(11, f"1 leading step {leading}, and 10 by the MSER-5 rule")),
        ([9.0, 1.0, 1.0], None, Warmup(0, "too few steps")),
        ([9.0, 1.0, 1.0, 1.0], None, Warmup(1, f"1 leading step {leading}")),
        ([9.0, 9.0, 9.0, 1.0, 1.0, 1.0], None, Warmup(3, f"3 leading steps {leading}")),  # half of them
        (calm, 3, Warmup(3, "given")),
        (calm[:2], 3, Warmup(2, "given")),
    ):
        assert warm_up(np.array(values), chosen) == expected, values
