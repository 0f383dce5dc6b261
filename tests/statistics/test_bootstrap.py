"""Block bootstrap against the formula of its paper, samples that are made, and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.series import ar1

from perflog.arrays import Floats
from perflog.statistics import bootstrap


def politis_white(values: Floats) -> float:
    """The block length of their paper for the signs about the median, from all lags: before the bounds."""
    n, quiet = len(values), 5
    signs = np.sign(values - np.median(values))
    signs = signs - signs.mean()
    rho = np.array([signs[: n - k] @ signs[k:] / (signs @ signs) for k in range(n)])
    reach = min(math.ceil(math.sqrt(n)) + quiet, n - 1)
    loud = np.abs(rho[: reach + 1]) > 2 * math.sqrt(math.log10(n) / n)
    last = next(m for m in range(n) if not loud[m + 1 : m + 1 + quiet].any())
    lags = np.arange(1, min(2 * last, reach) + 1)
    tapered = np.clip(2 - 2 * lags / max(len(lags), 1), 0, 1) * rho[lags]
    g, slope = 1 + 2 * tapered.sum(), 2 * (lags * tapered).sum()
    return float(np.cbrt(2 * slope**2 / (4 / 3 * g**2) * n)) if g > 0 else 0.0


def test_a_block_is_as_long_as_politis_and_white_say() -> None:
    """Between the cube root and a third of the number of values; the first series are too short for an estimate."""
    for n in (1, 2, 7, 8, 9, 12, 13, 40, 150, 1200):
        for rho in (0.0, 0.5, 0.9, -0.7, -0.9):
            values = ar1(np.random.default_rng(n), n, rho)
            least = max(round(n ** (1 / 3)), 1)
            expected = max(round(politis_white(values)), least) if n >= 8 else least
            assert bootstrap.block_length(values) == min(expected, max(n // 3, 1)), (n, rho)
    assert bootstrap.independent_units(np.ones(400)) == 400 / 7


def test_long_runs_get_fewer_draws() -> None:
    for steps, draws, expected in (
        (0, 2000, 2000), (1, 2000, 2000), (1 << 12, 2000, 1024), (1 << 20, 2000, 500), (1 << 20, 100, 100),
    ):  # fmt: skip
        assert bootstrap.draws_for(np.zeros(steps), draws) == expected


def test_autocorrelation_of_an_ar1_series() -> None:
    x = ar1(np.random.default_rng(1), 20000, 0.6)
    assert bootstrap.autocorrelation(x, 3) == pytest.approx([1, 0.6, 0.36, 0.216], abs=0.03)
    assert bootstrap.autocorrelation(np.ones(9), 2).tolist() == [1, 0, 0]


@pytest.mark.parametrize("errors", [0.01, 1.0, 8.0])
@pytest.mark.parametrize("cells", [1, 100, 1 << 16])
@pytest.mark.parametrize(("n", "block"), [(2, 1), (2, 2), (7, 3), (30, 30), (59, 1), (60, 1), (60, 7), (301, 5)])
def test_draws_are_of_samples_that_are_made_of_blocks(n: int, block: int, cells: int, errors: float) -> None:
    """In chunks of any size, and whether ranks are found among those near the wanted ones or among all."""
    values = np.random.default_rng(n).permutation(n) / 4 if n % 2 else np.random.default_rng(n).integers(0, 9, n) / 4
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


def test_the_error_of_a_mean_is_that_of_independent_steps() -> None:
    values = np.random.default_rng(8).normal(50, 2, 400)
    drawn = bootstrap.block_draws(values, "mean", 2000, np.random.default_rng(9))
    assert drawn.std() == pytest.approx(2 / math.sqrt(400), rel=0.15)
