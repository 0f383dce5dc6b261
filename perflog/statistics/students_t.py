"""Student's t distribution: tail and quantile for any real number of degrees of freedom; noncentral t; F.

Welch's test needs fractional degrees of freedom. The tail is a regularised incomplete beta function, computed from its
continued fraction (https://dlmf.nist.gov/8.17; Abramowitz and Stegun 26.5.8, 26.7.1) by the method of Lentz 1976,
doi:10.1364/AO.15.000668.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache
from statistics import NormalDist

import numpy as np

from perflog.arrays import Floats

_TINY = 1e-300
_CLOSE = 1e-15
_TERMS = 500
_STEPS = 200
_NODES = 200
_REACH = 10  # standard deviations of the scale that the integral covers


def t_tail(t: float, freedom: float) -> float:
    """Return P(T > t) for `freedom` degrees of freedom, greater than 0."""
    if math.isinf(t):
        return 0.0 if t > 0 else 1.0
    both_tails = _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t), t * t / (freedom + t * t))
    return both_tails / 2 if t >= 0 else 1 - both_tails / 2


def f_tail(f: float, freedom: float, other: float) -> float:
    """Return P(F > f) for `freedom` and `other` degrees of freedom of numerator and denominator (A&S 26.6.2)."""
    whole = other + freedom * f
    return _incomplete_beta(other / 2, freedom / 2, other / whole, freedom * f / whole)


@lru_cache(maxsize=4096)
def t_quantile(p: float, freedom: float) -> float:
    """Return the quantile: P(T < t) = `p`, 0 < p < 1."""
    if p < 0.5:
        return -t_quantile(1 - p, freedom)
    t = NormalDist().inv_cdf(p)
    for _ in range(_STEPS):  # Newton's method: the tail is convex, so it gets to the quantile from below
        following = t + (t_tail(t, freedom) - (1 - p)) / _density(t, freedom)
        if abs(following - t) <= 1e-13 * following:
            break
        t = following
    return t


def noncentral_t_tail(t: float, freedom: float, shift: float, least: float = -math.inf) -> float:
    """Return P((Z + shift) / U > t and Z + shift >= least) for a normal Z and U = sqrt(chi squared / freedom).

    Without `least` this is the tail of the noncentral t (Johnson, Kotz and Balakrishnan 1995, chapter 31). Given U it
    is a tail of the normal distribution. The integral over the density of U, which is
    2 (f/2)^(f/2) / Gamma(f/2) u^(f-1) exp(-f u^2 / 2), is a Gauss-Legendre sum, exact to 1e-5.

    Args:
        t: Limit of the ratio.
        freedom: Degrees of freedom, at least 1.
        shift: Noncentrality.
        least: Limit of the numerator.
    """
    spread = _REACH / math.sqrt(2 * freedom)
    low, high = max(1 - spread, 0.0), 1 + spread
    nodes, weights = gauss_legendre(_NODES)
    u = (high - low) / 2 * nodes + (high + low) / 2
    log_front = math.log(2) + freedom / 2 * math.log(freedom / 2) - math.lgamma(freedom / 2)
    density = np.exp(log_front + (freedom - 1) * np.log(u) - freedom * u * u / 2)
    tails = [NormalDist().cdf(shift - max(t * scale, least)) for scale in u.tolist()]
    return float((weights * density) @ np.array(tails)) * (high - low) / 2


@cache
def gauss_legendre(count: int) -> tuple[Floats, Floats]:
    """Return the nodes and weights of Gauss-Legendre quadrature over -1 .. 1."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return nodes, weights


def _density(t: float, freedom: float) -> float:
    log_front = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - 0.5 * math.log(freedom * math.pi)
    return math.exp(log_front - (freedom + 1) / 2 * math.log1p(t * t / freedom))


def _incomplete_beta(a: float, b: float, x: float, y: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b). `y` is 1 - x, exact even if x is almost 1."""
    if x == 0 or y == 0:
        return 1.0 if y == 0 else 0.0
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast on the other side
        return 1 - _incomplete_beta(b, a, y, x)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(y)
    return math.exp(log_front) / a * _beta_fraction(a, b, x)


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction of the incomplete beta function."""
    c, d = 1.0, 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, _TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _away_from_zero(1 + term * d)
            c = _away_from_zero(1 + term / c)
            fraction *= c * d
        if abs(c * d - 1) < _CLOSE:
            break
    return fraction


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
