"""Levels: where figures in the order of time change for good, such as the step times of a nightly test.

Binary segmentation: figures are cut where the means before and after differ most, measured by Student's t, and both
parts are cut again. A cut counts if two tests agree. The largest |t| of all cuts, with Bonferroni's correction for
their number, is unlikely in normal scatter; and hardly any other order of the same figures has one as large. The
second asks nothing of the scatter, so one bad night in heavy tails is no new level (Scott and Knott 1974; James and
Matteson 2014 test cuts by permutation too).

Two changes that undo each other hide from this. So `course` also looks for a stretch that differs most from the rest
(circular binary segmentation, Olshen et al. 2004), by the same two tests.

A figure far from those around it, between two that are not, is an outlier: no level, and no part of one. The last
figure is neither yet: it is tested against the level so far.

Figures that follow their neighbours make every cut clearer than it is: scores of a `course` are divided by the root of
(1 + r) / (1 - r), by which an autocorrelation r widens the error of a mean. A drift is no level either: where one line
through all levels says more with fewer cuts (Schwarz 1978), the levels are those of what the line leaves. Both take 20
figures or more. Cuts of fewer are judged by the scatter of many series of their kind too, where it is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from msgspec import Struct

from perflog.arrays import Floats
from perflog.statistics.samples import NORMAL, median
from perflog.statistics.shared_scatter import SharedScatter
from perflog.statistics.students_t import t_tail

FEWEST = 8
"""Fewer figures cannot be told from chance: their orders are too few."""

_SHORTEST = 2  # figures of a level
_ORDERS = 999
_NORMAL_P, _ORDER_P = 0.01, 0.05
_STRETCH_P = 0.01  # by orders: a stretch is looked for where there is no cut, a second test
_EQUAL = 1e-9  # of a figure: scatter below this comes from rounding
_CHUNK = 2_000_000  # figures of permuted orders at a time
_BLOCKS = 128  # of more figures a stretch is looked for in the means of so many blocks
_WINDOW = 7  # figures that a figure is held against to see whether it is an outlier
_OUTLIER, _FEW = 5.0, 4  # scaled MADs from their median; a MAD of few figures is a bad scale
_SHARE = 0.1  # of the figures that may be outliers
_MANY = 20  # figures that show their dependence, a drift, and their scatter
_PASSES = 3  # a dependence may show only when cuts that it made are gone
_SURE = 2.0  # standard errors of an autocorrelation that is no chance
_MOST_DEPENDENT = 0.95
_FAR = 2.5  # scaled MADs
_FEWEST_TOLD = 4  # figures of a level, on average, that tell an autocorrelation
_DRIFT_P = 0.01
_CLEARLY = 3.0  # of the criterion: positive evidence (Kass and Raftery 1995)
_FREEDOM = 3  # degrees of freedom of a scatter that is worth a test

Largest = Callable[[Floats], Floats]
"""The largest score of figures along the last axis."""


class Level(Struct, frozen=True):
    """Figures `start` to `stop` (exclusive), which scatter around one mean. `p`: of the cut in front; NaN: the first.

    The p is that of the test which doubts the cut more.
    """

    start: int
    stop: int
    p: float


def levels(
    figures: Floats, stretches: bool = False, widening: float = 1.0, scatter: SharedScatter | None = None
) -> list[Level]:
    """Return the levels of figures in the order of time: one if nothing changes, or if there are less than `FEWEST`.

    Args:
        figures: Finite numbers, such as logarithms of step times.
        stretches: Whether to look for stretches that differ from the figures before and after, too.
        widening: How much larger errors of means are than those of independent figures: scores are divided by it.
        scatter: That of the figures where it is known, which makes cuts of few figures sure.
    """
    cuts: dict[int, float] = {}
    parts = [(0, len(figures))]
    rng = np.random.default_rng(0)  # the same figures always have the same levels
    while parts:
        start, stop = parts.pop()
        part = figures[start:stop]
        found = _known_cut(part, scatter) if scatter is not None else {}
        if len(part) < FEWEST and not found:
            continue
        found = found or _cut(part, rng, widening) or (_stretch(part, rng, widening) if stretches else {})
        if found:
            cuts |= {start + cut: p for cut, p in found.items()}
            parts += pairwise([start, *(start + cut for cut in found), stop])
    edges = [0, *sorted(cuts), len(figures)]
    return [Level(a, b, cuts.get(a, math.nan)) for a, b in pairwise(edges)]


class Course(Struct, frozen=True):
    """Levels, outliers (their indices), drift, and the last figure against the level so far.

    `last_shift`: the last figure - the mean of the others of its level. `last_p`: two-sided p that a figure of this
    level is as far off, by Student's t with the scatter about all levels. Both are NaN where too few figures tell them.
    `drift`: how much the figures rise from one to the next beside the levels, 0 where they surely do not. `widening`:
    how much larger errors of means are than those of independent figures. `shared`: the scatter of many series by which
    cuts were judged, if they were.
    """

    levels: list[Level]
    outliers: tuple[int, ...] = ()
    last_shift: float = math.nan
    last_p: float = math.nan
    drift: float = 0.0
    widening: float = 1.0
    shared: SharedScatter | None = None

    def members(self, level: Level) -> list[int]:
        """Return the indices of the figures of a level, without outliers."""
        return [k for k in range(level.start, level.stop) if k not in self.outliers]


def course(figures: Floats, least: float = 0.0, shared: SharedScatter | None = None) -> Course:
    """Return the levels of figures in the order of time without their outliers, these, and what the last one says.

    Args:
        figures: Finite numbers, such as logarithms of step times.
        least: Least standard deviation of a figure: that of its rounding.
        shared: Scatter of many series of this kind. Cuts of less than 20 figures are then judged by it.
    """
    if not len(figures):
        return Course([])
    outliers = _outliers(figures, least)
    kept = np.delete(np.arange(len(figures)), outliers)
    few = FEWEST <= len(kept) < _MANY
    if few:
        known = shared.of_series(figures[kept], least) if shared is not None else None
        drift, found = 0.0, levels(figures[kept], stretches=True, scatter=known)
    else:
        drift, found = _with_drift(figures[kept], kept.astype(np.float64))
    beside = (figures - drift * np.arange(len(figures)))[kept]
    edges = [0, *(int(kept[level.start]) for level in found[1:]), len(figures)]
    in_all = [Level(a, b, level.p) for level, (a, b) in zip(found, pairwise(edges), strict=True)]
    return Course(
        in_all, tuple(outliers), *_last(beside, found, least), drift, _widening(beside, found), shared if few else None
    )


# --- cuts ---------------------------------------------------------------------------------------------------------


def _cut(part: Floats, rng: np.random.Generator, widening: float) -> dict[int, float]:
    """The clearest cut with its p, if it counts."""
    scores = np.abs(_scores(part))
    best = int(scores.argmax())
    score = float(scores[best]) / widening
    p = _p(part, score, len(scores), lambda orders: np.abs(_scores(orders)).max(axis=-1), rng)
    return {_SHORTEST + best: p} if p <= _ORDER_P else {}


def _known_cut(part: Floats, scatter: SharedScatter) -> dict[int, float]:
    """The clearest cut by a known scatter with its p, if it counts: also without any one figure, which may be far."""
    scores = _known_scores(part, scatter)
    if not len(scores):
        return {}
    best = int(scores.argmax())
    cut = _SHORTEST + best
    p = min(2 * t_tail(float(scores[best]), scatter.freedom) * len(scores), 1.0)
    if p > _NORMAL_P:
        return {}
    sides = part[:cut], part[cut:]
    means = [[np.delete(side, k).mean() for k in range(len(side))] for side in sides]
    nearest = min(abs(one - sides[1 - k].mean()) for k, of in enumerate(means) for one in of)
    error = math.sqrt(scatter.variance * (1 / cut + 1 / (len(part) - cut)))
    return {cut: p} if 2 * t_tail(nearest / error, scatter.freedom) <= _ORDER_P else {}


def _known_scores(part: Floats, scatter: SharedScatter) -> Floats:
    """Student's t of each cut by a known scatter."""
    before = np.arange(_SHORTEST, len(part) - _SHORTEST + 1)
    if not len(before):
        return np.zeros(0)
    sums = np.cumsum(part - part.mean())[before - 1]
    spread = max(math.sqrt(scatter.variance), _EQUAL * max(float(np.abs(part).max()), 1.0))
    scores: Floats = np.abs(sums) * np.sqrt(1 / before + 1 / (len(part) - before)) / spread
    # |difference of means| = |sum| (1/a + 1/b), and its error is spread sqrt(1/a + 1/b)
    return scores


def _p(part: Floats, score: float, tests: int, largest: Largest, rng: np.random.Generator) -> float:
    """The p of the test that doubts a score more; 1 if the first one does not let it count."""
    normal = _normal_p(score, len(part), tests)
    return 1.0 if normal > _NORMAL_P else max(normal, _order_p(part, score, largest, rng))


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


def _normal_p(score: float, n: int, tests: int) -> float:
    """P of a score as large in any of some tests of n normal figures, at most."""
    return min(2 * t_tail(score, n - 2) * tests, 1.0)


def _order_p(figures: Floats, score: float, largest: Largest, rng: np.random.Generator) -> float:
    """P that the largest score is as large in a random order of the figures."""
    as_large, rows = 1, max(_CHUNK // len(figures), 1)
    for done in range(0, _ORDERS, rows):
        orders = rng.permuted(np.tile(figures, (min(rows, _ORDERS - done), 1)), axis=-1)
        as_large += int((largest(orders) >= score * (1 - _EQUAL)).sum())
    return as_large / (_ORDERS + 1)


# --- stretches ----------------------------------------------------------------------------------------------------


def _stretch(part: Floats, rng: np.random.Generator, widening: float) -> dict[int, float]:
    """Both ends of the stretch that differs most from the rest, with their p, if it counts."""
    size = -(-len(part) // _BLOCKS)
    blocks = part if size == 1 else part[: len(part) // size * size].reshape(-1, size).mean(axis=-1)
    if len(blocks) < FEWEST:
        return {}
    score, start, stop = _clearest_stretch(blocks)
    tests = len(blocks) * (len(blocks) - 1) // 2
    p = _p(blocks, score / widening, tests, _largest_of_stretches, rng)
    if p > _STRETCH_P:
        return {}
    first, second = start * size, stop * size
    if size > 1:  # the ends are somewhere in their blocks
        first = _SHORTEST + int(np.abs(_scores(part[:second])).argmax())
        second = first + _SHORTEST + int(np.abs(_scores(part[first:])).argmax())
    edges = [0, first, second, len(part)]
    if min(b - a for a, b in pairwise(edges)) < _SHORTEST:
        return {}
    return {first: p, second: p}


def _clearest_stretch(figures: Floats) -> tuple[float, int, int]:
    """The stretch, with figures before and after it, that differs most from the rest: its |t|, start and stop."""
    n, sums, squares, floor = _of_stretches(figures)
    best = (0.0, 0, 0)
    for length in range(_SHORTEST, n - 2 * _SHORTEST + 1):
        between = _between(sums, length, n)
        k = int(between.argmax())
        best = max(best, (float(between[k]), k + _SHORTEST, k + _SHORTEST + length))
    score = math.sqrt(best[0] / max(float(squares) - best[0], float(floor)) * (n - 2))
    return score, best[1], best[2]


def _largest_of_stretches(figures: Floats) -> Floats:
    """The largest |t| of a stretch against the rest, along the last axis."""
    n, sums, squares, floor = _of_stretches(figures)
    best = np.zeros(figures.shape[:-1])
    for length in range(_SHORTEST, n - 2 * _SHORTEST + 1):
        np.maximum(best, _between(sums, length, n).max(axis=-1), out=best)
    scores: Floats = np.sqrt(best / np.maximum(squares - best, floor) * (n - 2))
    return scores


def _of_stretches(figures: Floats) -> tuple[int, Floats, Floats, Floats]:
    """The number of figures, their sums from the first on, their sum of squares, and its least value."""
    centred = figures - figures.mean(axis=-1, keepdims=True)
    squares = (centred**2).sum(axis=-1)
    floor = (_EQUAL * np.maximum(np.abs(figures).max(axis=-1), 1)) ** 2
    return figures.shape[-1], np.cumsum(centred, axis=-1), squares, floor


def _between(sums: Floats, length: int, n: int) -> Floats:
    """The sum of squares between each stretch of a length and the rest. Two figures or more are before and after it."""
    inside = sums[..., _SHORTEST + length - 1 : n - _SHORTEST] - sums[..., _SHORTEST - 1 : n - _SHORTEST - length]
    between: Floats = inside**2 * n / (length * (n - length))
    return between


# --- dependence and drift -----------------------------------------------------------------------------------------


def _of_dependent(figures: Floats) -> list[Level]:
    """The levels of figures that may follow their neighbours."""
    found, widening = levels(figures, stretches=True), 1.0
    for _ in range(_PASSES if len(found) > 1 else 0):
        wider = _widening(figures, found)
        if wider <= widening:
            break
        found, widening = levels(figures, stretches=True, widening=wider), wider
    return found


def _widening(figures: Floats, found: list[Level]) -> float:
    """How much larger the errors of means are, by the correlation of neighbours about their levels; 1 by default."""
    residuals = np.concatenate([of - median(of) for of in _of_levels(figures, found)])
    reach = _FAR * NORMAL * median(np.abs(residuals))  # two far figures side by side are no dependence
    residuals = np.clip(residuals, -reach, reach)
    squares, n, lost = float((residuals**2).sum()), len(figures), len(found)
    if squares == 0 or n < _MANY or n <= _FEWEST_TOLD * lost:
        return 1.0
    raw = float((residuals[1:] * residuals[:-1]).sum()) / squares
    told = (n * raw + lost) / (n - 3 * lost)  # the mean of each level takes (1 + 3 r) / n from it (Marriott, Pope 1954)
    if told < _SURE * math.sqrt(n) / (n - 3 * lost):
        return 1.0
    told = min(told, _MOST_DEPENDENT)
    return math.sqrt((1 + told) / (1 - told))


def _with_drift(figures: Floats, places: Floats) -> tuple[float, list[Level]]:
    """The rise from figure to figure and the levels beside it; levels alone unless a line says more with fewer cuts."""
    plain = _of_dependent(figures)
    if len(figures) < _MANY:
        return 0.0, plain
    whole = [Level(0, len(figures), math.nan)]
    tried = [_beside_a_line(figures, places, start) for start in ([plain, whole] if len(plain) > 1 else [whole])]
    best, drift, found = min(tried, key=lambda each: each[0])
    return (drift, found) if best < _criterion(figures, plain, 0) - _CLEARLY else (0.0, plain)


def _beside_a_line(figures: Floats, places: Floats, found: list[Level]) -> tuple[float, float, list[Level]]:
    """The criterion of a line and the levels beside it, its slope, and the levels, from those to begin with."""
    drift, p = _rise(figures, places, found)
    for _ in range(_PASSES if p <= _DRIFT_P else 0):
        edges = [level.start for level in found]
        found = _of_dependent(figures - drift * places)
        drift, p = _rise(figures, places, found)
        if [level.start for level in found] == edges:
            break
    return (_criterion(figures - drift * places, found, 1) if p <= _DRIFT_P else math.inf), drift, found


def _rise(figures: Floats, places: Floats, found: list[Level]) -> tuple[float, float]:
    """The common slope of the figures of each level, and its p."""
    x, y = (np.concatenate([of - of.mean() for of in _of_levels(all_of, found)]) for all_of in (places, figures))
    freedom = len(figures) - len(found) - 1
    slope = float((x * y).sum() / (x * x).sum())
    squares = float(((y - slope * x) ** 2).sum())
    error = math.sqrt(squares / freedom / float((x * x).sum())) * _widening(figures - slope * places, found)
    floor = _EQUAL * max(float(np.abs(figures).max()), 1.0) / len(figures)
    return slope, 2 * t_tail(abs(slope) / max(error, floor), freedom)


def _criterion(figures: Floats, found: list[Level], lines: int) -> float:
    """Schwarz's criterion: a cut costs its position and a mean."""
    n = len(figures)
    squares = sum(float(((of - of.mean()) ** 2).sum()) for of in _of_levels(figures, found))
    floor = (_EQUAL * max(float(np.abs(figures).max()), 1.0)) ** 2
    return n * math.log(max(squares / n, floor)) + (2 * (len(found) - 1) + lines) * math.log(n)


def _of_levels(figures: Floats, found: list[Level]) -> list[Floats]:
    return [figures[level.start : level.stop] for level in found]


# --- single figures -----------------------------------------------------------------------------------------------


def _outliers(figures: Floats, least: float) -> list[int]:
    """The indices of figures far from those around them, of which the next ones are not. The last figure is none.

    They are held against the median of the seven figures around them (Hampel 1974): a level changes nothing there.
    Where many stand out, it is how the figures scatter.
    """
    n = len(figures)
    if n < FEWEST:
        return []
    starts = np.clip(np.arange(n) - _WINDOW // 2, 0, n - _WINDOW)
    around = np.median(figures[starts[:, None] + np.arange(_WINDOW)], axis=1)
    residuals = figures - around
    scale = max(NORMAL * median(np.abs(residuals)), least, _EQUAL * max(float(np.abs(figures).max()), 1.0))
    side = np.where(np.abs(residuals) > _OUTLIER * (1 + _FEW / n) * scale, np.sign(residuals), 0)
    padded = np.concatenate([[0], side, [0]])
    alone = (side != 0) & (padded[:-2] != side) & (padded[2:] != side)
    alone[-1] = False
    return [] if alone.sum() > max(_SHARE * n, 1) else np.flatnonzero(alone).tolist()


def _last(figures: Floats, found: list[Level], least: float) -> tuple[float, float]:
    """The shift of the last figure from the others of its level, and its p."""
    others = figures[found[-1].start : -1]
    if not len(others):
        return math.nan, math.nan
    of_levels = [*(figures[level.start : level.stop] for level in found[:-1]), others]
    freedom = len(figures) - 1 - len(of_levels)
    shift = float(figures[-1] - others.mean())
    if freedom < _FREEDOM:
        return shift, math.nan
    squares = sum(float(((of - of.mean()) ** 2).sum()) for of in of_levels)
    floor = max(least, _EQUAL * max(float(np.abs(figures).max()), 1.0))
    error = max(math.sqrt(squares / freedom), floor) * math.sqrt(1 + 1 / len(others))
    return shift, min(2 * t_tail(abs(shift) / error, freedom), 1.0)
