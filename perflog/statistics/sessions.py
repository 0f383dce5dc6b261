"""Scatter of runs within and between sessions: days, hosts or jobs in which several runs were measured.

Model: statistic of a run = level + session + error. Both variances follow from the sums of squares of a fit without
sessions and one with sessions (Henderson 1953, method 3, doi:10.2307/3001853). Sessions may have unequal numbers of
runs, and levels may share sessions: where base and change ran alternately, the differences within each session count.
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
"""Significance level of the F test in `are_noisier`: noisier levels are not pooled with the others."""

_TINY = 1e-9  # of a singular value, relative to the largest


class Level(Struct, frozen=True):
    """Logarithms of the statistics of repeats, and the session of each run."""

    logs: Floats
    sessions: tuple[str, ...]


class MeanSquares(Struct, frozen=True):
    """Mean squares of runs within sessions, and of sessions, each with its degrees of freedom; 0 if it has none.

    The expected mean square of sessions is `size` times the variance between sessions, plus the variance within them.
    `size` is the mean number of runs of a session.
    """

    within: float
    within_freedom: int
    between: float
    between_freedom: int
    size: float

    @property
    def session_variance(self) -> float:
        """The variance between sessions; NaN if no level has several sessions."""
        return max(self.between - self.within, 0.0) / self.size if self.between_freedom else math.nan

    @property
    def run_variance(self) -> float:
        """The variance of single runs, each in a session of its own."""
        if not self.between_freedom:
            return self.within
        return self.between / self.size + max(1 - 1 / self.size, 0.0) * self.within


class _Design(Struct, frozen=True):
    """Orthonormal bases of the column spaces of levels, and of levels with sessions, and the mean session size."""

    levels: Floats
    sessions: Floats
    size: float


@lru_cache(maxsize=64)  # the metrics of a comparison have the same runs
def _design(levels: tuple[int, ...], sessions: tuple[str, ...]) -> _Design:
    level_columns, session_columns = _indicators(levels), _indicators(sessions)
    basis = _basis(level_columns)
    full = _basis(np.hstack([level_columns, session_columns]))
    left = session_columns - basis @ (basis.T @ session_columns)
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
        least_error: Lower bound of the standard deviation of a statistic: the rounding of the log, if statistics are
            equal.
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
    """Return the variance of the difference of both means, in units of the variance between sessions; 0 if it cancels.

    It is the sum over sessions of the squared difference of the session's shares of the runs of both sides.
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
    sum of mean squares, it has the degrees of freedom of Satterthwaite (1946, doi:10.2307/3002019). A mean square with
    a negative weight is left out, which makes the interval wider, never narrower. If the variance between sessions is
    unknown, the effect has the variance of runs alone. If the largest part has one degree of freedom, so has the total.

    Args:
        base: The runs of the base.
        side: The runs of the other side.
        squares: The mean squares of all repeats.
        own: The variance of the difference, estimated from both sides within their sessions, if it is to replace
            c_w V_w.
        more: Variances to add.
    """
    run_weight = 1 / len(base.logs) + 1 / len(side.logs)
    session_share = session_weight(base, side) / squares.size if squares.between_freedom else 0.0
    within, freedom = own or (run_weight * squares.within, float(squares.within_freedom))
    parts = [
        (session_share * squares.between, float(squares.between_freedom)),
        (max(within - session_share * squares.within, 0.0), freedom),
    ]
    if not freedom:  # the mean square of sessions includes V_w: an upper bound
        parts = [(max(run_weight, session_share) * squares.between, float(squares.between_freedom))]
    main = max(parts)
    parts += [part for part in more if part[0] > 0]
    total = sum(variance for variance, _ in parts)
    shift = float(side.logs.mean() - base.logs.mean())
    if not total or main[1] <= 1:
        return Effect(shift, math.sqrt(total), main[1] or math.nan)
    return Effect(shift, math.sqrt(total), total**2 / sum(variance**2 / free for variance, free in parts if variance))


def are_noisier(levels: Sequence[Level], others: Sequence[Level], least_error: float = 0.0) -> bool:
    """Return whether the runs of some levels scatter significantly more, within sessions, than others do (F test)."""
    own, rest = mean_squares(levels, least_error), mean_squares(others, least_error)
    if not own.within_freedom or not rest.within_freedom or own.within <= rest.within:
        return False
    if rest.within == 0:
        return True
    return f_tail(own.within / rest.within, own.within_freedom, rest.within_freedom) < _NOISIER
