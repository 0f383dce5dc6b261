"""Levels: where figures in the order of time change for good, such as the step times of a nightly test.

Binary segmentation: figures are cut where the means before and after differ most, measured by Student's t, and both
parts are cut again. A cut counts if two tests agree. The largest |t| of all cuts, with Bonferroni's correction for
their number, is unlikely in normal scatter; and hardly any other order of the same figures has one as large. The
second asks nothing of the scatter, so one bad night in heavy tails is no new level (Scott and Knott 1974; James and
Matteson 2014 test cuts by permutation too).
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from msgspec import Struct

from perflog.arrays import Floats
from perflog.statistics.students_t import t_tail

FEWEST = 8
"""Fewer figures cannot be told from chance: their orders are too few."""

_SHORTEST = 2  # figures of a level
_ORDERS = 999
_NORMAL_P, _ORDER_P = 0.01, 0.05
_EQUAL = 1e-9  # of a figure: scatter below this comes from rounding
_CHUNK = 2_000_000  # figures of permuted orders at a time


class Level(Struct, frozen=True):
    """Figures `start` to `stop` (exclusive), which scatter around one mean. `p`: of the cut in front; NaN: the first.

    The p is that of the test which doubts the cut more.
    """

    start: int
    stop: int
    p: float


def levels(figures: Floats) -> list[Level]:
    """Return the levels of figures in the order of time: one if nothing changes, or if there are less than `FEWEST`.

    Args:
        figures: Finite numbers, such as logarithms of step times. Serial dependence makes cuts too likely.
    """
    cuts: dict[int, float] = {}
    parts = [(0, len(figures))]
    rng = np.random.default_rng(0)  # the same figures always have the same levels
    while parts:
        start, stop = parts.pop()
        part = figures[start:stop]
        if len(part) < FEWEST:
            continue
        scores = np.abs(_scores(part))
        best = int(scores.argmax())
        p = max(_normal_p(float(scores[best]), len(part)), _order_p(part, float(scores[best]), rng))
        if _normal_p(float(scores[best]), len(part)) <= _NORMAL_P and p <= _ORDER_P:
            cut = start + _SHORTEST + best
            cuts[cut] = p
            parts += [(start, cut), (cut, stop)]
    edges = [0, *sorted(cuts), len(figures)]
    return [Level(a, b, cuts.get(a, math.nan)) for a, b in pairwise(edges)]


def _scores(figures: Floats) -> Floats:
    """Student's t of each cut, along the last axis: mean after it against mean before it."""
    n = figures.shape[-1]
    centred = figures - figures.mean(axis=-1, keepdims=True)
    sums = np.cumsum(centred, axis=-1)[..., _SHORTEST - 1 : n - _SHORTEST]
    before = np.arange(_SHORTEST, n - _SHORTEST + 1)
    after = n - before
    difference = -sums / after - sums / before
    between = difference**2 * before * after / n
    within = (centred**2).sum(axis=-1, keepdims=True) - between
    floor = (_EQUAL * np.maximum(np.abs(figures).max(axis=-1, keepdims=True), 1)) ** 2
    error = np.sqrt(np.maximum(within, floor) / (n - 2) * (1 / before + 1 / after))
    scores: Floats = difference / error
    return scores


def _normal_p(score: float, n: int) -> float:
    """P of a score as large at any cut of n normal figures, at most."""
    return min(2 * t_tail(score, n - 2) * (n - 2 * _SHORTEST + 1), 1.0)


def _order_p(figures: Floats, score: float, rng: np.random.Generator) -> float:
    """P that the largest score is as large in a random order of the figures."""
    as_large, rows = 1, max(_CHUNK // len(figures), 1)
    for done in range(0, _ORDERS, rows):
        orders = rng.permuted(np.tile(figures, (min(rows, _ORDERS - done), 1)), axis=-1)
        as_large += int((np.abs(_scores(orders)).max(axis=-1) >= score * (1 - _EQUAL)).sum())
    return as_large / (_ORDERS + 1)
