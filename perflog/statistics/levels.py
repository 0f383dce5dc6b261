"""Levels: segments of a series between lasting changes, such as the step times of a nightly test.

Binary segmentation (Scott and Knott 1974, doi:10.2307/2529204): the series is cut where the means before and after
differ most by Student's t, and both parts are cut again. A cut counts if two tests agree. The p-value of the
largest |t| of all cuts, with Bonferroni's correction for their number, is small for normal values. And a permutation
test rejects: few other orders of the same values have a |t| as large. The permutation test assumes no distribution, so
one bad night in heavy tails is no new level (as in James and Matteson 2014, doi:10.18637/jss.v062.i07).

Two changes that cancel each other are not found by one cut. So `course` also searches for the segment that differs most
from the rest (circular binary segmentation, Olshen et al. 2004, doi:10.1093/biostatistics/kxh008), with the same tests.

A value far from its neighbours, between two that are not, is an outlier: it starts no level and is part of none. The
last value cannot be classified yet: it is tested against the level so far.

Autocorrelation makes every cut look clearer than it is: scores of a `course` are divided by the root of
(1 + r) / (1 - r), the factor by which an autocorrelation r widens the error of a mean. A drift is no level either: if
one line through all levels fits better with fewer cuts (Schwarz 1978, doi:10.1214/aos/1176344136), the levels are found
in the residuals of the line. Both need 20 values or more. Cuts of shorter series are also judged by the scatter of many
series of their kind, where it is known.
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
"""Fewer values have too few permutations for a test."""

_SHORTEST = 2  # values of a level
_ORDERS = 999
_NORMAL_P, _ORDER_P = 0.01, 0.05
_STRETCH_P = 0.01  # of the permutation test: a second test, where no cut was found
_EQUAL = 1e-9  # relative: scatter below this comes from rounding
_CHUNK = 2_000_000  # permuted values at a time
_BLOCKS = 128  # number of blocks of a longer series: a segment is searched for in their means
_WINDOW = 7  # values around a value, its possible outlier included
_OUTLIER, _FEW = 5.0, 4  # scaled MADs from their median; a MAD of few values is a poor scale
_SHARE = 0.1  # largest share of outliers
_MANY = 20  # values from which autocorrelation, drift and scatter can be estimated
_PASSES = 3  # autocorrelation may only show after the cuts that it caused are gone
_SURE = 2.0  # standard errors of a significant autocorrelation
_MOST_DEPENDENT = 0.95
_FAR = 2.5  # scaled MADs
_FEWEST_PER_LEVEL = 4  # mean number of values of a level, from which an autocorrelation can be estimated
_DRIFT_P = 0.01
_CLEARLY = 3.0  # of the criterion: positive evidence (Kass and Raftery 1995, doi:10.1080/01621459.1995.10476572)
_FREEDOM = 3  # degrees of freedom from which a scatter can be tested

Largest = Callable[[Floats], Floats]
"""The largest score of values along the last axis."""


class Level(Struct, frozen=True):
    """Values `start` to `stop` (exclusive) with one mean. `p`: p-value of the cut before it; NaN for the first level.

    It is the larger of the p-values of both tests.
    """

    start: int
    stop: int
    p: float


def levels(
    values: Floats, stretches: bool = False, widening: float = 1.0, scatter: SharedScatter | None = None
) -> list[Level]:
    """Return the levels of a series: one if nothing changes. Fewer than `FEWEST` values need a known scatter.

    Args:
        values: Finite numbers in the order of time, such as logarithms of step times.
        stretches: Whether to also search for segments that differ from the values before and after.
        widening: Factor by which autocorrelation widens the errors of means: scores are divided by it.
        scatter: Scatter of the values, where it is known: it makes cuts of few values significant.
    """
    cuts: dict[int, float] = {}
    parts = [(0, len(values))]
    rng = np.random.default_rng(0)  # the same values always have the same levels
    while parts:
        start, stop = parts.pop()
        part = values[start:stop]
        found = _known_cut(part, scatter) if scatter is not None else {}
        if len(part) < FEWEST and not found:
            continue
        found = found or _cut(part, rng, widening) or (_stretch(part, rng, widening) if stretches else {})
        if found:
            cuts |= {start + cut: p for cut, p in found.items()}
            parts += pairwise([start, *(start + cut for cut in found), stop])
    edges = [0, *sorted(cuts), len(values)]
    return [Level(a, b, cuts.get(a, math.nan)) for a, b in pairwise(edges)]


class Course(Struct, frozen=True):
    """Levels, outliers (their indices), drift, and the test of the last value against the level so far.

    `last_shift`: the last value - the mean of the other values of its level. `last_p`: two-sided p-value of the last
    value, by Student's t with the scatter about all levels. Both are NaN if there are too few values. `drift`: slope
    per value within levels, 0 if not significant. `widening`: factor by which autocorrelation widens the errors of
    means. `shared`: the scatter of many series that cuts were judged by, if they were.
    """

    levels: list[Level]
    outliers: tuple[int, ...] = ()
    last_shift: float = math.nan
    last_p: float = math.nan
    drift: float = 0.0
    widening: float = 1.0
    shared: SharedScatter | None = None

    def members(self, level: Level) -> list[int]:
        """Return the indices of the values of a level, without outliers."""
        return [k for k in range(level.start, level.stop) if k not in self.outliers]


def course(values: Floats, least: float = 0.0, shared: SharedScatter | None = None) -> Course:
    """Return the levels of a series without outliers, its outliers, its drift, and the test of its last value.

    Args:
        values: Finite numbers in the order of time, such as logarithms of step times.
        least: Lower bound of the standard deviation of a value: that from its rounding.
        shared: Scatter of many series of this kind. Cuts of fewer than 20 values are then judged by it.
    """
    if not len(values):
        return Course([])
    outliers = _outliers(values, least)
    kept = np.delete(np.arange(len(values)), outliers)
    few = FEWEST <= len(kept) < _MANY
    if few:
        known = shared.for_series(values[kept], least) if shared is not None else None
        drift, found = 0.0, levels(values[kept], stretches=True, scatter=known)
    else:
        drift, found = _with_drift(values[kept], kept.astype(np.float64))
    beside = (values - drift * np.arange(len(values)))[kept]
    edges = [0, *(int(kept[level.start]) for level in found[1:]), len(values)]
    in_all = [Level(a, b, level.p) for level, (a, b) in zip(found, pairwise(edges), strict=True)]
    return Course(
        in_all, tuple(outliers), *_last(beside, found, least), drift, _widening(beside, found), shared if few else None
    )


# --- cuts ---------------------------------------------------------------------------------------------------------


def _cut(part: Floats, rng: np.random.Generator, widening: float) -> dict[int, float]:
    """Return the clearest cut with its p-value, if it counts."""
    scores = np.abs(_scores(part))
    best = int(scores.argmax())
    score = float(scores[best]) / widening
    p = _p(part, score, len(scores), lambda orders: np.abs(_scores(orders)).max(axis=-1), rng)
    return {_SHORTEST + best: p} if p <= _ORDER_P else {}


def cut_p(part: Floats, cut: int) -> float:
    """Return the p-value of a cut between two levels of two values or more; 1 if it is not significant."""
    if len(part) < FEWEST or not _SHORTEST <= cut <= len(part) - _SHORTEST:
        return 1.0
    score = float(np.abs(_scores(part))[cut - _SHORTEST])
    largest = lambda orders: np.abs(_scores(orders)).max(axis=-1)  # noqa: E731
    return _p(part, score, len(part) - 2 * _SHORTEST + 1, largest, np.random.default_rng(0))


def _known_cut(part: Floats, scatter: SharedScatter) -> dict[int, float]:
    """Return the clearest cut by a known scatter with its p-value, if it counts.

    It must be significant even without the value that contributes most, which may be an outlier.
    """
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
    nearest = min(abs(mean - sides[1 - k].mean()) for k, side_means in enumerate(means) for mean in side_means)
    error = math.sqrt(scatter.variance * (1 / cut + 1 / (len(part) - cut)))
    return {cut: p} if 2 * t_tail(nearest / error, scatter.freedom) <= _ORDER_P else {}


def _known_scores(part: Floats, scatter: SharedScatter) -> Floats:
    """Return Student's t of each cut by a known scatter."""
    before = np.arange(_SHORTEST, len(part) - _SHORTEST + 1)
    if not len(before):
        return np.zeros(0)
    sums = np.cumsum(part - part.mean())[before - 1]
    spread = max(math.sqrt(scatter.variance), _EQUAL * max(float(np.abs(part).max()), 1.0))
    scores: Floats = np.abs(sums) * np.sqrt(1 / before + 1 / (len(part) - before)) / spread
    # |difference of means| = |sum| (1/a + 1/b), and its error is spread sqrt(1/a + 1/b)
    return scores


def _p(part: Floats, score: float, tests: int, largest: Largest, rng: np.random.Generator) -> float:
    """Return the larger p-value of both tests of a score; 1 if the first is not significant."""
    normal = _normal_p(score, len(part), tests)
    return 1.0 if normal > _NORMAL_P else max(normal, _order_p(part, score, largest, rng))


def _scores(values: Floats) -> Floats:
    """Return Student's t of each cut along the last axis: mean after it against mean before it."""
    n = values.shape[-1]
    centred = values - values.mean(axis=-1, keepdims=True)
    sums = np.cumsum(centred, axis=-1)[..., _SHORTEST - 1 : n - _SHORTEST]
    before = np.arange(_SHORTEST, n - _SHORTEST + 1)
    after = n - before
    difference = -sums / after - sums / before
    between = difference**2 * before * after / n
    within = (centred**2).sum(axis=-1, keepdims=True) - between
    floor = (_EQUAL * np.maximum(np.abs(values).max(axis=-1, keepdims=True), 1)) ** 2
    error = np.sqrt(np.maximum(within, floor) / (n - 2) * (1 / before + 1 / after))
    scores: Floats = difference / error
    return scores


def _normal_p(score: float, n: int, tests: int) -> float:
    """Return Bonferroni's bound of the p-value of a score among `tests` tests of n normal values."""
    return min(2 * t_tail(score, n - 2) * tests, 1.0)


def _order_p(values: Floats, score: float, largest: Largest, rng: np.random.Generator) -> float:
    """Return the p-value of the permutation test: P(largest score as large in a random order of the values)."""
    as_large, rows = 1, max(_CHUNK // len(values), 1)
    for done in range(0, _ORDERS, rows):
        orders = rng.permuted(np.tile(values, (min(rows, _ORDERS - done), 1)), axis=-1)
        as_large += int((largest(orders) >= score * (1 - _EQUAL)).sum())
    return as_large / (_ORDERS + 1)


# --- stretches ----------------------------------------------------------------------------------------------------


def _stretch(part: Floats, rng: np.random.Generator, widening: float) -> dict[int, float]:
    """Return both ends of the segment that differs most from the rest, with their p-value, if it counts."""
    size = -(-len(part) // _BLOCKS)
    blocks = part if size == 1 else part[: len(part) // size * size].reshape(-1, size).mean(axis=-1)
    score, start, stop = _clearest_stretch(blocks)
    tests = len(blocks) * (len(blocks) - 1) // 2
    p = _p(blocks, score / widening, tests, _largest_stretch_score, rng)
    if p > _STRETCH_P:
        return {}
    first, second = start * size, stop * size
    if size > 1:  # the ends are somewhere in their blocks
        first = _SHORTEST + int(np.abs(_scores(part[:second])).argmax())
        second = first + _SHORTEST + int(np.abs(_scores(part[first:])).argmax())
    return {first: p, second: p}


def _clearest_stretch(values: Floats) -> tuple[float, int, int]:
    """Return the |t|, start and stop of the segment that differs most from the values before and after it."""
    n, sums, squares, floor = _stretch_sums(values)
    best = (0.0, 0, 0)
    for length in range(_SHORTEST, n - 2 * _SHORTEST + 1):
        between = _between(sums, length, n)
        k = int(between.argmax())
        best = max(best, (float(between[k]), k + _SHORTEST, k + _SHORTEST + length))
    score = math.sqrt(best[0] / max(float(squares) - best[0], float(floor)) * (n - 2))
    return score, best[1], best[2]


def _largest_stretch_score(values: Floats) -> Floats:
    """Return the largest |t| of a segment against the rest, along the last axis."""
    n, sums, squares, floor = _stretch_sums(values)
    best = np.zeros(values.shape[:-1])
    for length in range(_SHORTEST, n - 2 * _SHORTEST + 1):
        np.maximum(best, _between(sums, length, n).max(axis=-1), out=best)
    scores: Floats = np.sqrt(best / np.maximum(squares - best, floor) * (n - 2))
    return scores


def _stretch_sums(values: Floats) -> tuple[int, Floats, Floats, Floats]:
    """Return the number of values, their cumulative sums, their sum of squares, and its lower bound."""
    centred = values - values.mean(axis=-1, keepdims=True)
    squares = (centred**2).sum(axis=-1)
    floor = (_EQUAL * np.maximum(np.abs(values).max(axis=-1), 1)) ** 2
    return values.shape[-1], np.cumsum(centred, axis=-1), squares, floor


def _between(sums: Floats, length: int, n: int) -> Floats:
    """Return the sum of squares between each segment of a length and the rest: two values or more on both sides."""
    inside = sums[..., _SHORTEST + length - 1 : n - _SHORTEST] - sums[..., _SHORTEST - 1 : n - _SHORTEST - length]
    between: Floats = inside**2 * n / (length * (n - length))
    return between


# --- dependence and drift -----------------------------------------------------------------------------------------


def _levels_if_dependent(values: Floats) -> list[Level]:
    """Return the levels of values that may be autocorrelated."""
    found, widening = levels(values, stretches=True), 1.0
    for _ in range(_PASSES if len(found) > 1 else 0):
        wider = _widening(values, found)
        if wider <= widening:
            break
        found, widening = levels(values, stretches=True, widening=wider), wider
    return found


def _widening(values: Floats, found: list[Level]) -> float:
    """Return the factor that autocorrelation about the levels widens the errors of means by; 1 by default."""
    residuals = np.concatenate([part - median(part) for part in _values_by_level(values, found)])
    reach = _FAR * NORMAL * median(np.abs(residuals))  # two adjacent outliers are no autocorrelation
    residuals = np.clip(residuals, -reach, reach)
    squares, n, lost = float((residuals**2).sum()), len(values), len(found)
    if squares == 0 or n < _MANY or n <= _FEWEST_PER_LEVEL * lost:
        return 1.0
    raw = float((residuals[1:] * residuals[:-1]).sum()) / squares
    # The mean of each level lowers the estimate by (1 + 3 r) / n (Marriott, Pope 1954, doi:10.1093/biomet/41.3-4.390).
    r = (n * raw + lost) / (n - 3 * lost)
    if r < _SURE * math.sqrt(n) / (n - 3 * lost):
        return 1.0
    r = min(r, _MOST_DEPENDENT)
    return math.sqrt((1 + r) / (1 - r))


def _with_drift(values: Floats, positions: Floats) -> tuple[float, list[Level]]:
    """Return the drift and the levels beside it; levels alone unless a line fits better with fewer cuts."""
    plain = _levels_if_dependent(values)
    if len(values) < _MANY:
        return 0.0, plain
    whole = [Level(0, len(values), math.nan)]
    tried = [_beside_a_line(values, positions, start) for start in ([plain, whole] if len(plain) > 1 else [whole])]
    best, drift, found = min(tried, key=lambda each: each[0])
    return (drift, found) if best < _criterion(values, plain, 0) - _CLEARLY else (0.0, plain)


def _beside_a_line(values: Floats, positions: Floats, found: list[Level]) -> tuple[float, float, list[Level]]:
    """Return the criterion, slope and levels of a line and the levels beside it, starting from given levels."""
    drift, p = _rise(values, positions, found)
    for _ in range(_PASSES if p <= _DRIFT_P else 0):
        edges = [level.start for level in found]
        found = _levels_if_dependent(values - drift * positions)
        drift, p = _rise(values, positions, found)
        if [level.start for level in found] == edges:
            break
    return (_criterion(values - drift * positions, found, 1) if p <= _DRIFT_P else math.inf), drift, found


def _rise(values: Floats, positions: Floats, found: list[Level]) -> tuple[float, float]:
    """Return the common slope of the values of all levels, and its p-value."""
    x, y = (
        np.concatenate([part - part.mean() for part in _values_by_level(each, found)]) for each in (positions, values)
    )
    freedom = len(values) - len(found) - 1
    slope = float((x * y).sum() / (x * x).sum())
    squares = float(((y - slope * x) ** 2).sum())
    error = math.sqrt(squares / freedom / float((x * x).sum())) * _widening(values - slope * positions, found)
    floor = _EQUAL * max(float(np.abs(values).max()), 1.0) / len(values)
    return slope, 2 * t_tail(abs(slope) / max(error, floor), freedom)


def _criterion(values: Floats, found: list[Level], lines: int) -> float:
    """Return Schwarz's criterion: each cut costs two parameters, its index and a mean."""
    n = len(values)
    squares = sum(float(((part - part.mean()) ** 2).sum()) for part in _values_by_level(values, found))
    floor = (_EQUAL * max(float(np.abs(values).max()), 1.0)) ** 2
    return n * math.log(max(squares / n, floor)) + (2 * (len(found) - 1) + lines) * math.log(n)


def _values_by_level(values: Floats, found: list[Level]) -> list[Floats]:
    return [values[level.start : level.stop] for level in found]


# --- single values ------------------------------------------------------------------------------------------------


def _outliers(values: Floats, least: float) -> list[int]:
    """Return the indices of isolated values far from their neighbours. The last value is not tested.

    Each is compared with the median of the seven values around it (Hampel 1974, doi:10.1080/01621459.1974.10482962),
    which follows a change of level. If many values are far, that is the scatter of the series, and none is an outlier.
    """
    n = len(values)
    if n < FEWEST:
        return []
    starts = np.clip(np.arange(n) - _WINDOW // 2, 0, n - _WINDOW)
    around = np.median(values[starts[:, None] + np.arange(_WINDOW)], axis=1)
    residuals = values - around
    scale = max(NORMAL * median(np.abs(residuals)), least, _EQUAL * max(float(np.abs(values).max()), 1.0))
    side = np.where(np.abs(residuals) > _OUTLIER * (1 + _FEW / n) * scale, np.sign(residuals), 0)
    padded = np.concatenate([[0], side, [0]])
    alone = (side != 0) & (padded[:-2] != side) & (padded[2:] != side)
    alone[-1] = False
    return [] if alone.sum() > max(_SHARE * n, 1) else np.flatnonzero(alone).tolist()


def _last(values: Floats, found: list[Level], least: float) -> tuple[float, float]:
    """Return the difference between the last value and the mean of the others of its level, and its p-value."""
    others = values[found[-1].start : -1]
    if not len(others):
        return math.nan, math.nan
    by_level = [*(values[level.start : level.stop] for level in found[:-1]), others]
    freedom = len(values) - 1 - len(by_level)
    shift = float(values[-1] - others.mean())
    if freedom < _FREEDOM:
        return shift, math.nan
    squares = sum(float(((part - part.mean()) ** 2).sum()) for part in by_level)
    floor = max(least, _EQUAL * max(float(np.abs(values).max()), 1.0))
    error = max(math.sqrt(squares / freedom), floor) * math.sqrt(1 + 1 / len(others))
    return shift, min(2 * t_tail(abs(shift) / error, freedom), 1.0)
