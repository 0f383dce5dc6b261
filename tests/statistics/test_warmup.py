"""Facts about the warm-up of a run: MSER-5 against exact fractions, and series with nothing to cut."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.statistics.warmup import _mser, warm_up


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
