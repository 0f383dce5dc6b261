"""The scatter that many short series share, against made series whose scatter is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from perflog.arrays import Floats
from perflog.statistics.levels import course
from perflog.statistics.shared_scatter import SharedScatter, _inverse_trigamma, _trigamma, shared_scatter


def series(number: int, spread: float, seed: int = 1) -> list[Floats]:
    """Series of 8 to 12 figures that scatter by 2 %, times a factor whose logarithm scatters by `spread`."""
    rng = np.random.default_rng(seed)
    return [0.02 * math.exp(rng.normal(0, spread)) * rng.normal(size=rng.integers(8, 13)) for _ in range(number)]


def test_equal_scatter_is_known_and_unequal_scatter_hardly() -> None:
    equal, unequal = shared_scatter(series(200, 0.0)), shared_scatter(series(200, 1.0))
    assert equal is not None and unequal is not None
    assert math.sqrt(equal.variance) == pytest.approx(0.02, rel=0.1)
    assert math.sqrt(unequal.variance) == pytest.approx(0.02, rel=0.25)
    assert equal.freedom > 20 > 3 > unequal.freedom


def test_few_series_or_equal_figures_tell_nothing() -> None:
    assert shared_scatter(series(7, 0.0)) is None
    assert shared_scatter([np.ones(9)] * 20) is None


def test_trigamma_at_known_points_and_its_inverse() -> None:
    assert _trigamma(1.0) == pytest.approx(math.pi**2 / 6)
    assert _trigamma(0.5) == pytest.approx(math.pi**2 / 2)
    assert _trigamma(1.0) == pytest.approx(math.pi**2 / 6, rel=5e-9)  # ten times as exact as with a term fewer
    for x in (0.05, 0.7, 3.0, 40.0):
        assert _inverse_trigamma(_trigamma(x)) == pytest.approx(x)


def test_the_scatter_of_a_series_is_its_own_and_the_shared_one_by_their_freedom() -> None:
    """Neighbours differ by 1: a variance of 1.4826 ** 2 / 2. Each difference has 0.4 degrees of freedom."""
    series = np.array([0.0, 1.0, 0.0, 1.0, 0.0, 1.0])
    own, shared = 1.4826**2 / 2, SharedScatter(3.0, 6.0)
    found = shared.for_series(series)
    assert found.freedom == pytest.approx(6 + 0.4 * 5)
    assert found.variance == pytest.approx((6 * 3.0 + 2 * own) / 8, rel=1e-4)
    assert shared.for_series(series, least=1.9).variance == pytest.approx(1.9**2)  # not below the rounding
    assert shared.for_series(series, least=1.0).variance == found.variance


@pytest.mark.parametrize("spread", [0.0, 0.5])
def test_short_series_together_show_what_each_alone_does_not(spread: float) -> None:
    """A change of 10 % after four of nine figures, another after seven. Where nothing changes, hardly any is shown."""
    still = series(100, spread, seed=2)
    moved = [figures[:9] + np.repeat([0.0, 0.1, 0.2], [4, 3, 2]) for figures in still if len(figures) >= 9]
    shared = shared_scatter(moved)
    assert shared is not None
    false = sum(len(course(figures, 0.0, shared).levels) - 1 for figures in still)
    assert false <= 3
    cuts = np.array([[len(course(figures, 0.0, known).levels) - 1 for known in (shared, None)] for figures in moved])
    together, alone = (cuts == 2).mean(axis=0)
    assert together > 0.25 and alone < 0.05


def test_one_far_figure_is_no_level_of_two() -> None:
    shared = shared_scatter(series(100, 0.0))
    figures = series(1, 0.0, seed=3)[0]
    figures[-2] += 0.4
    assert len(course(figures, 0.0, shared).levels) == 1
