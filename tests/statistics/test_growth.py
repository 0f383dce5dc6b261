"""How costs grow with the size: exact laws are found, noise is not, and the interval holds what comes next."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from perflog.statistics.growth import LINEAR, LOGARITHMIC, TERMS, Growth, Term

SIZES = (2, 4, 8, 16, 32)


def costs(term: Term, a: float, b: float, sizes: tuple[int, ...] = SIZES) -> list[float]:
    return [a + b * n**term.power * math.log2(n) ** term.logarithms for n in sizes]


def test_the_terms_are_those_of_extra_p() -> None:
    """Its exponents: of the size, and after the colon of the logarithm."""
    exponents = """0:1 0:2 1/4:0 1/3:0 1/4:1 1/3:1 1/4:2 1/3:2 1/2:0 1/2:1 1/2:2 2/3:0 3/4:0 2/3:1 3/4:1 4/5:0 2/3:2
        3/4:2 1:0 1:1 1:2 5/4:0 5/4:1 4/3:0 4/3:1 3/2:0 3/2:1 3/2:2 5/3:0 7/4:0 2:0 2:1 2:2 9/4:0 7/3:0 5/2:0 5/2:1
        5/2:2 8/3:0 11/4:0 3:0 3:1"""
    expected = [(float(Fraction(power)), int(log)) for power, log in (each.split(":") for each in exponents.split())]
    assert sorted((term.power, term.logarithms) for term in TERMS) == sorted(expected)


@pytest.mark.parametrize("usual", [LINEAR, LOGARITHMIC])
@pytest.mark.parametrize(("a", "b"), [(200, 10), (200, 500_000), (40_000, 1_000)])
def test_each_law_of_the_normal_form_is_found(usual: Term, a: float, b: float) -> None:
    """The functions and sizes with which Extra-P's own tests check its search."""
    for term in TERMS:
        growth = Growth.best(usual, SIZES, costs(term, a, b))
        assert growth.term == term
        assert growth.slope == pytest.approx(b, rel=1e-6)
        (expected,) = costs(term, a, b, (64,))
        assert growth.at(64) == pytest.approx(expected, rel=1e-6)
        assert growth.interval(64, 0.95) == pytest.approx((expected, expected), rel=1e-5)


def test_few_sizes_have_the_usual_law() -> None:
    growth = Growth.best(LOGARITHMIC, SIZES[:4], costs(Term(0.5, 1), 1, 1, SIZES[:4]))
    assert (growth.term, growth.rivals) == (LOGARITHMIC, ())


def test_noise_is_no_law() -> None:
    """A cost that does not grow keeps the usual term, and its interval holds the next cost."""
    rng = np.random.default_rng(5)
    kept = held = 0
    for _ in range(60):
        noise = np.exp(0.01 * rng.standard_normal(7))
        growth = Growth.best(LOGARITHMIC, (2, 4, 8, 16, 32, 64), noise[:6].tolist())
        kept += growth.term == LOGARITHMIC
        low, high = growth.interval(128, 0.95)
        held += low <= noise[6] <= high
    assert kept >= 54
    assert held >= 54


def test_the_line_is_that_of_numpy() -> None:
    rng = np.random.default_rng(6)
    y = 3 + 0.2 * np.log2(SIZES) + rng.normal(0, 0.05, 5)
    slope, intercept = np.polyfit(np.log2(SIZES), y, 1)
    growth = Growth.of(LOGARITHMIC, SIZES, y.tolist())
    assert growth.slope == pytest.approx(slope)
    assert growth.at(1) == pytest.approx(intercept)


@pytest.mark.parametrize(
    ("term", "text"),
    [
        (LINEAR, "GPUs"),
        (LOGARITHMIC, "log2(GPUs)"),
        (Term(0, 2), "log2(GPUs)^2"),
        (Term(1 / 3, 1), "GPUs^0.333 * log2(GPUs)"),
    ],
)
def test_terms_in_words(term: Term, text: str) -> None:
    assert term.text("GPUs") == text


@pytest.mark.parametrize("size", [1, 8, 64])
def test_the_interval_is_that_of_a_new_value_of_a_line(size: int) -> None:
    """The textbook's, with matrices: s^2 (1 + x (X'X)^-1 x')."""
    y = np.array([3.1, 3.5, 3.4, 4.1, 4.0])
    matrix = np.column_stack([np.ones(5), np.log2(SIZES)])
    line, squares, *_ = np.linalg.lstsq(matrix, y, rcond=None)
    point = np.array([1.0, math.log2(size)])
    error = math.sqrt(squares[0] / 3 * (1 + point @ np.linalg.inv(matrix.T @ matrix) @ point))
    half = 3.182446 * error  # the 97.5 % quantile of Student's t with 3 degrees of freedom
    low, high = Growth.of(LOGARITHMIC, SIZES, y.tolist()).interval(size, 0.95)
    assert (low, high) == pytest.approx((point @ line - half, point @ line + half), rel=1e-6)


def test_the_interval_includes_those_of_the_rivals() -> None:
    y = [3.1, 3.5, 3.4, 4.1, 4.0]
    growth = Growth.best(LOGARITHMIC, SIZES, y)
    assert growth.rivals
    terms = [growth.term, *(each.term for each in growth.rivals)]
    ends = [Growth.of(term, SIZES, y).interval(64, 0.95) for term in terms]
    assert growth.interval(64, 0.95) == (min(low for low, _ in ends), max(high for _, high in ends))
