"""Statistics against counting, published tables and simulation."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from support.series import ar1

from perflog.arrays import Floats
from perflog.statistics import bootstrap, rank_tests, samples

small = st.integers(1, 5).flatmap(lambda n: arrays(np.float64, n, elements=st.integers(0, 6).map(float)))


def counted(a: Floats, b: Floats) -> Fraction:
    """Mann-Whitney by trying every arrangement of the pooled values."""
    pooled = [*a, *b]

    def u(chosen: tuple[int, ...]) -> Fraction:
        rest = [pooled[i] for i in range(len(pooled)) if i not in chosen]
        pairs = [(pooled[i], y) for i in chosen for y in rest]
        return sum((Fraction(1) if x > y else Fraction(int(x == y), 2) for x, y in pairs), Fraction(0))

    every = [u(chosen) for chosen in combinations(range(len(pooled)), len(a))]
    seen = every[0]
    tails = sum(v <= seen for v in every), sum(v >= seen for v in every)
    return min(Fraction(1), 2 * Fraction(min(tails), len(every)))


@given(small, small)
def test_mann_whitney_counts_all_arrangements_also_with_ties(a: Floats, b: Floats) -> None:
    assert rank_tests.mann_whitney(a, b) == pytest.approx(float(counted(a, b)), abs=1e-12)


@pytest.mark.parametrize(
    ("sides", "p"),
    [(3, 2 / 20), (4, 2 / 70), (5, 2 / 252), (10, 2 / 184756), (20, 2 / math.comb(40, 20))],
)
def test_the_least_p_is_two_of_all_arrangements(sides: int, p: float) -> None:
    a = np.arange(sides, dtype=np.float64)
    assert rank_tests.mann_whitney(a, a + 100) == pytest.approx(p, rel=1e-12)


@pytest.mark.parametrize(  # critical values of U at 5 % two-sided: Mann and Whitney's table, as in any textbook
    ("n", "m", "critical"), [(4, 4, 0), (5, 5, 2), (6, 6, 5), (7, 7, 8), (8, 8, 13), (10, 10, 23), (20, 20, 127)]
)
def test_known_critical_values(n: int, m: int, critical: int) -> None:
    def p_of(u: int) -> float:
        """Untied samples whose U is `u`: the last of `a` are lifted over `u` values of `b`."""
        places = np.arange(n, dtype=np.int64)
        for i in range(n - 1, -1, -1):
            lift = min(m, u)
            places[i] += lift
            u -= lift
        rest = np.setdiff1d(np.arange(n + m), places)
        return rank_tests.mann_whitney(places.astype(np.float64), rest.astype(np.float64))

    assert p_of(critical) <= 0.05 < p_of(critical + 1)


def test_beyond_twenty_the_normal_is_near_the_count() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        a, b = rng.normal(size=20), rng.normal(0.6, size=20)
        exact = rank_tests.mann_whitney(a, b)
        near = rank_tests._normal(rank_tests.midranks(np.concatenate([a, b])), 20)
        assert near == pytest.approx(exact, abs=0.005)


def test_all_equal_values_say_nothing() -> None:
    assert rank_tests.mann_whitney(np.ones(30), np.ones(30)) == 1
    assert rank_tests.mann_whitney(np.ones(5), np.ones(5)) == 1
    assert math.isnan(rank_tests.mann_whitney(np.ones(0), np.ones(5)))


def test_holm_by_hand() -> None:
    # sorted .01 .02 .03 .04: times 4, 3, 2, 1 = .04 .06 .06 .04, then never falling
    adjusted = rank_tests.holm_adjusted([0.04, 0.01, math.nan, 0.03, 0.02])
    assert adjusted[:2] == pytest.approx([0.06, 0.04])
    assert math.isnan(adjusted[2])
    assert adjusted[3:] == pytest.approx([0.06, 0.06])
    assert rank_tests.holm_adjusted([0.6, 0.7]) == [1.0, 1.0]


@given(small, small)
def test_cliffs_delta_is_the_mean_sign(a: Floats, b: Floats) -> None:
    signs = [np.sign(y - x) for x in a for y in b]
    assert rank_tests.cliffs_delta(a, b) == pytest.approx(float(np.mean(signs)))


@given(small, st.integers(-3, 3))
def test_a_shifted_sample_is_shifted_by_that(a: Floats, by: int) -> None:
    pairs = [y + by - x for x in a for y in a]
    assert rank_tests.hodges_lehmann(a, a + by) == pytest.approx(float(np.median(pairs)))
    assert rank_tests.hodges_lehmann(a, a + by) == pytest.approx(by)


def test_drift_is_between_the_halves() -> None:
    assert samples.drift(np.array([1.0, 1, 1, 2, 2, 2])) == 1
    assert samples.drift(np.array([2.0, 2, 9, 1, 1])) == pytest.approx(-0.5)
    assert math.isnan(samples.drift(np.ones(3)))


def test_autocorrelation_of_an_ar1_series() -> None:
    x = ar1(np.random.default_rng(1), 20000, 0.6)
    assert bootstrap.autocorrelation(x, 3) == pytest.approx([1, 0.6, 0.36, 0.216], abs=0.03)
    assert bootstrap.autocorrelation(np.ones(9), 2).tolist() == [1, 0, 0]


def test_blocks_grow_with_dependence() -> None:
    rng = np.random.default_rng(2)
    lengths = [np.mean([bootstrap.block_length(ar1(rng, 400, rho)) for _ in range(30)]) for rho in (0.0, 0.5, 0.9)]
    assert lengths[0] < lengths[1] < lengths[2]
    assert bootstrap.block_length(np.ones(400)) == 7  # the cube root
    assert bootstrap.block_length(np.ones(2)) == 1


@pytest.mark.parametrize("rho", [0.0, 0.9, 0.99])
@pytest.mark.parametrize("n", [9, 40, 150, 5000])
def test_a_block_is_as_long_as_if_all_lags_were_computed(n: int, rho: float, monkeypatch: pytest.MonkeyPatch) -> None:
    values = ar1(np.random.default_rng(n), n, rho)
    length = bootstrap.block_length(values)
    monkeypatch.setattr(bootstrap, "_FIRST_LAGS", n)
    assert bootstrap.block_length(values) == length


@given(st.integers(2, 40), st.integers(1, 12))
def test_a_block_sample_is_made_of_neighbours(n: int, block: int) -> None:
    values = np.arange(n, dtype=np.float64)
    medians = bootstrap.block_medians(values, min(block, n), 50, np.random.default_rng(n))
    assert medians.shape == (50,)
    assert ((medians >= 0) & (medians <= n - 1)).all()


@given(st.integers(2, 60), st.integers(1, 20), st.integers(1, 1 << 16), st.sampled_from([0.01, 8.0]))
def test_draws_are_of_samples_that_are_made_of_blocks(n: int, block: int, cells: int, errors: float) -> None:
    """In chunks of any size, and whether ranks are found among those near the wanted ones or among all."""
    values = np.random.default_rng(n).integers(0, 9, n) / 4
    block = min(block, n)
    positions = np.random.default_rng(1).integers(0, n, (30, -(-n // block), 1)) + np.arange(block)
    made = values[positions.reshape(30, -1)[:, :n] % n]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bootstrap, "_CELLS", cells)
        patch.setattr(bootstrap, "_ERRORS", errors)
        patch.setattr(bootstrap, "block_length", lambda _: block)
        drawn = {
            of: bootstrap.block_draws(values, of, 30, np.random.default_rng(1)) for of in ("median", "mean", "p99")
        }
    assert drawn["median"].tolist() == np.median(made, axis=1).tolist()
    assert drawn["mean"] == pytest.approx(made.mean(axis=1), rel=1e-12)
    assert drawn["p99"] == pytest.approx(np.quantile(made, 0.99, axis=1), rel=1e-12)


def test_one_block_as_long_as_the_run_is_the_run() -> None:
    values = np.random.default_rng(3).normal(size=50)
    assert set(bootstrap.block_medians(values, 50, 20, np.random.default_rng(4))) == {np.median(values)}


@given(st.integers(4, 60))
def test_means_and_tails_of_block_samples_lie_in_the_sample(n: int) -> None:
    values = np.arange(n, dtype=np.float64)
    for statistic in ("median", "mean", "p99"):
        drawn = bootstrap.block_draws(values, statistic, 30, np.random.default_rng(n))
        assert drawn.shape == (30,)
        assert ((drawn >= 0) & (drawn <= n - 1)).all()


def test_the_error_of_a_mean_is_that_of_independent_steps() -> None:
    values = np.random.default_rng(8).normal(50, 2, 400)
    drawn = bootstrap.block_draws(values, "mean", 2000, np.random.default_rng(9))
    assert drawn.std() == pytest.approx(2 / math.sqrt(400), rel=0.15)


@pytest.mark.parametrize("kind", ["noisy", "rounded", "trending", "constant", "two levels"])
def test_the_shift_of_long_samples_is_the_median_of_all_differences(kind: str) -> None:
    rng = np.random.default_rng(3)
    make: dict[str, Callable[[int], Floats]] = {
        "noisy": lambda count: rng.normal(size=count),
        "rounded": lambda count: rng.normal(size=count).round(1),
        "trending": lambda count: np.arange(count) + rng.normal(size=count),
        "constant": lambda count: np.full(count, 3.0),
        "two levels": lambda count: np.where(np.arange(count) < count / 2, 0.0, 1e6) + rng.normal(size=count),
    }
    for size, other in ((500, 701), (1999, 2000), (1, 200_000)):
        a, b = make[kind](size), make[kind](other)
        thinned = b[:: -(-other // 2000)]
        assert rank_tests.hodges_lehmann(a, b) == np.median(np.subtract.outer(thinned, a))
