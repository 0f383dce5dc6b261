"""Student's t against published tables, closed forms and integration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.statistics.students_t import f_tail, noncentral_t_tail, t_quantile, t_tail


@pytest.mark.parametrize(  # any table of Student's t
    ("p", "freedom", "t"),
    [(0.975, 1, 12.7062), (0.975, 2, 4.30265), (0.975, 3, 3.18245), (0.975, 9, 2.26216), (0.995, 30, 2.75000),
     (0.95, 120, 1.65765)],
)  # fmt: skip
def test_quantiles_of_the_table(p: float, freedom: float, t: float) -> None:
    assert t_quantile(p, freedom) == pytest.approx(t, rel=1e-5)


@given(st.floats(-50, 50))
def test_one_and_two_degrees_of_freedom_have_closed_forms(t: float) -> None:
    assert t_tail(t, 1) == pytest.approx(0.5 - math.atan(t) / math.pi, abs=1e-13)
    assert t_tail(t, 2) == pytest.approx(0.5 - t / (2 * math.sqrt(2 + t * t)), abs=1e-13)


@pytest.mark.parametrize("freedom", [1.3, 2.7, 5.5, 40.0])
def test_the_tail_is_the_integral_of_the_density(freedom: float) -> None:
    x = np.linspace(0, 3, 60_001)
    log_front = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - 0.5 * math.log(freedom * math.pi)
    density = np.exp(log_front - (freedom + 1) / 2 * np.log1p(x * x / freedom))
    assert t_tail(3, freedom) == pytest.approx(0.5 - float(np.trapezoid(density, x)), abs=1e-9)


@given(st.floats(0.0005, 0.9995), st.floats(0.8, 500))
def test_quantile_and_tail_are_inverse(p: float, freedom: float) -> None:
    assert 1 - t_tail(t_quantile(p, freedom), freedom) == pytest.approx(p, abs=1e-9)


def test_infinity_has_no_tail() -> None:
    assert t_tail(math.inf, 3) == 0
    assert t_tail(-math.inf, 3) == 1


@pytest.mark.parametrize(  # power.t.test of R, whose help page has the first two: n = 20, sd = 1; n = 22.021 for 90 %
    ("runs", "delta", "power"), [(20, 1.0, 0.8689528), (22.02110, 1.0, 0.9), (20, 0.5, 0.3377084)]
)
def test_power_of_known_tables(runs: float, delta: float, power: float) -> None:
    freedom = 2 * runs - 2
    limit = t_quantile(0.975, freedom)
    assert noncentral_t_tail(limit, freedom, delta * math.sqrt(runs / 2)) == pytest.approx(power, abs=1e-5)


@given(st.floats(-5, 5), st.floats(1, 200))
def test_without_a_shift_it_is_students_t(t: float, freedom: float) -> None:
    assert noncentral_t_tail(t, freedom, 0) == pytest.approx(t_tail(t, freedom), abs=1e-5)


@pytest.mark.parametrize("freedom", [1, 2, 4, 18])
@pytest.mark.parametrize("least", [-math.inf, 2.5])
def test_the_noncentral_t_is_that_of_simulated_ratios(freedom: int, least: float) -> None:
    rng = np.random.default_rng(freedom)
    numerator = rng.normal(3, 1, 200_000)
    ratio = numerator / np.sqrt(rng.chisquare(freedom, 200_000) / freedom)
    share = float(((ratio > 2.2) & (numerator >= least)).mean())
    assert noncentral_t_tail(2.2, freedom, 3, least) == pytest.approx(share, abs=0.004)


def test_f_tail() -> None:
    """The square of t is F with one degree of freedom; tables: F(5, 10) exceeds 3.33 in 5 %, F(2, 4) 6.94."""
    assert f_tail(4.0, 1, 7) == pytest.approx(2 * t_tail(2.0, 7))
    assert f_tail(3.3258, 5, 10) == pytest.approx(0.05, abs=1e-4)
    assert f_tail(6.9443, 2, 4) == pytest.approx(0.05, abs=1e-5)
