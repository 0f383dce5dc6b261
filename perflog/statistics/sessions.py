"""Scatter of runs within and between sessions: days, hosts or jobs in which several runs were measured together.

Figures of runs are level + session + error. Two variances follow from the sums of squares of a fit without and with
sessions (Henderson 1953, method 3), also where sessions have unequal numbers of runs or are shared by levels, as where
base and change ran in turns: then the differences inside each session count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from msgspec import Struct

from perflog.arrays import Floats
from perflog.statistics.effects import Effect
from perflog.statistics.students_t import f_tail

_NOISIER = 0.05
"""Levels whose runs surely scatter more than those of others, at this p, are not pooled with them."""

_TINY = 1e-9  # of a singular value, relative to the largest


class Level(Struct, frozen=True):
    """Logarithms of the figures of repeats, and the session of each run."""

    logs: Floats
    sessions: tuple[str, ...]


class MeanSquares(Struct, frozen=True):
    """The mean squares of runs within sessions and of sessions, each with its degrees of freedom; 0 without any.

    That of sessions is `size` times the variance between sessions, plus the variance within them. `size` is the mean
    number of runs of a session.
    """

    within: float
    within_freedom: int
    between: float
    between_freedom: int
    size: float

    @property
    def session_variance(self) -> float:
        """The variance between sessions; NaN where no level has several."""
        return max(self.between - self.within, 0.0) / self.size if self.between_freedom else math.nan

    @property
    def run_variance(self) -> float:
        """The variance of single runs, each in a session of its own."""
        if not self.between_freedom:
            return self.within
        return self.between / self.size + max(1 - 1 / self.size, 0.0) * self.within


class _Design(Struct, frozen=True):
    """Orthonormal bases of what levels explain, and of what levels with sessions explain, and the mean session size."""

    levels: Floats
    sessions: Floats
    size: float


@lru_cache(maxsize=64)  # the figures of a comparison share their runs
def _design(levels: tuple[int, ...], sessions: tuple[str, ...]) -> _Design:
    of_levels, of_sessions = _indicators(levels), _indicators(sessions)
    basis = _basis(of_levels)
    full = _basis(np.hstack([of_levels, of_sessions]))
    left = of_sessions - basis @ (basis.T @ of_sessions)
    freedom = full.shape[1] - basis.shape[1]
    return _Design(basis, full, float((left**2).sum()) / freedom if freedom else math.nan)


def _indicators(names: Sequence[object]) -> Floats:
    return np.array([[float(name == each) for each in dict.fromkeys(names)] for name in names])


def _basis(columns: Floats) -> Floats:
    vectors, values, _ = np.linalg.svd(columns, full_matrices=False)
    return vectors[:, values > _TINY * values[0]]


def mean_squares(levels: Sequence[Level], least_error: float = 0.0) -> MeanSquares:
    """Return the mean squares of runs about their sessions and levels.

    Args:
        levels: Groups of repeats, each with a mean of its own.
        least_error: Least standard deviation of a figure: the rounding of the log where figures are the same.
    """
    logs = np.concatenate([level.logs - level.logs.mean() for level in levels])
    numbers = tuple(k for k, level in enumerate(levels) for _ in level.logs)
    design = _design(numbers, tuple(session for level in levels for session in level.sessions))
    about_levels = float(((logs - design.levels @ (design.levels.T @ logs)) ** 2).sum())
    about_sessions = float(((logs - design.sessions @ (design.sessions.T @ logs)) ** 2).sum())
    free = len(logs) - design.sessions.shape[1], design.sessions.shape[1] - design.levels.shape[1]
    within, between = (
        max(squares / freedom, least_error**2) if freedom else 0.0
        for squares, freedom in zip((about_sessions, max(about_levels - about_sessions, 0.0)), free, strict=True)
    )
    return MeanSquares(within, free[0], between, free[1], design.size)


def session_weight(base: Level, side: Level) -> float:
    """Return the variance of the difference of both means, in variances between sessions; 0 where they cancel.

    It is the sum over sessions of the squared difference of the shares that they have in both sides.
    """
    names = dict.fromkeys((*base.sessions, *side.sessions))
    shares = [[level.sessions.count(name) / len(level.sessions) for name in names] for level in (base, side)]
    return math.fsum((a - b) ** 2 for a, b in zip(*shares, strict=True))


Part = tuple[float, float]
"""A variance, and its degrees of freedom."""


def effect_with_sessions(
    base: Level, side: Level, squares: MeanSquares, own: Part | None = None, more: Iterable[Part] = ()
) -> Effect:
    """Return the effect between two sides with the variances of all repeats.

    The variance of the difference is c_b V_b + c_w V_w: c_b as `session_weight` returns it, c_w = 1 / n + 1 / m. As a
    sum of mean squares it has the degrees of freedom of Satterthwaite (1946). A mean square with a negative weight is
    left out, which makes the interval wider, never narrower. Without a known variance between sessions the effect has
    that of runs alone. Where a single degree of freedom tells most, there is one in all.

    Args:
        base: The runs of the base.
        side: Those of the other side.
        squares: Those of all repeats.
        own: The variance of the difference that the runs of both sides show within their sessions, if it is to count
            in place of c_w V_w.
        more: Variances to add.
    """
    of_runs = 1 / len(base.logs) + 1 / len(side.logs)
    of_sessions = session_weight(base, side) / squares.size if squares.between_freedom else 0.0
    within, freedom = own or (of_runs * squares.within, float(squares.within_freedom))
    parts = [
        (of_sessions * squares.between, float(squares.between_freedom)),
        (max(within - of_sessions * squares.within, 0.0), freedom),
    ]
    if not freedom:  # then the mean square of sessions, which is larger
        parts = [(max(of_runs, of_sessions) * squares.between, float(squares.between_freedom))]
    main = max(parts)
    parts += [part for part in more if part[0] > 0]
    total = sum(variance for variance, _ in parts)
    shift = float(side.logs.mean() - base.logs.mean())
    if not total or main[1] <= 1:
        return Effect(shift, math.sqrt(total), main[1] or math.nan)
    return Effect(shift, math.sqrt(total), total**2 / sum(variance**2 / free for variance, free in parts if variance))


def are_noisier(levels: Sequence[Level], others: Sequence[Level], least_error: float = 0.0) -> bool:
    """Return whether the runs of some levels surely scatter more, within sessions, than those of others (F test)."""
    own, of_others = mean_squares(levels, least_error), mean_squares(others, least_error)
    if not own.within_freedom or not of_others.within_freedom or own.within <= of_others.within:
        return False
    if of_others.within == 0:
        return True
    return f_tail(own.within / of_others.within, own.within_freedom, of_others.within_freedom) < _NOISIER
