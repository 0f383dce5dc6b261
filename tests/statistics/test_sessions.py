"""Scatter within and between sessions: by hand, beside the tests that it must equal, and what the intervals cover."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.arrays import Floats
from perflog.statistics import effects, sessions
from perflog.statistics.sessions import Level, MeanSquares
from perflog.statistics.students_t import t_tail


def level(*of_sessions: list[float], name: str = "s") -> Level:
    """A level whose sessions are named in order."""
    names = [f"{name}{k}" for k, values in enumerate(of_sessions) for _ in values]
    return Level(np.array([value for values in of_sessions for value in values]), tuple(names))


def test_mean_squares_of_a_nested_design_by_hand() -> None:
    """Means of sessions 2, 5 and 9 with 3, 2 and 1 runs: the one-way analysis of variance (Fisher 1925)."""
    squares = sessions.mean_squares([level([1.0, 2.0, 3.0], [4.0, 6.0], [9.0])])
    mean = 25 / 6
    assert squares.within == pytest.approx((2 + 2) / 3)
    assert squares.between == pytest.approx((3 * (2 - mean) ** 2 + 2 * (5 - mean) ** 2 + (9 - mean) ** 2) / 2)
    assert (squares.within_freedom, squares.between_freedom) == (3, 2)
    assert squares.size == pytest.approx((6 - (9 + 4 + 1) / 6) / 2)
    assert squares.session_variance == pytest.approx((squares.between - squares.within) / squares.size)


def test_levels_without_sessions_are_pooled_within_groups() -> None:
    groups = [np.array([1.0, 2.0, 3.0]), np.array([7.0, 8.0]), np.array([50.0])]
    squares = sessions.mean_squares([Level(group, ("all",) * len(group)) for group in groups])
    scatter = effects.pooled_scatter(groups)
    assert scatter is not None
    assert squares.within == pytest.approx(scatter.deviation**2)
    assert (squares.within_freedom, squares.between_freedom) == (3, 0)
    assert math.isnan(squares.session_variance)


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(-1, 1)), min_size=2, max_size=6))
def test_one_run_of_both_sides_in_each_session_is_the_paired_t_test(pairs: list[tuple[float, float]]) -> None:
    base, side = (np.array(values) for values in zip(*pairs, strict=True))
    differences = side - base
    if np.ptp(differences) < 1e-6:
        return
    names = tuple(f"day {k}" for k in range(len(pairs)))
    both = Level(base, names), Level(side, names)
    effect = sessions.effect_with_sessions(*both, sessions.mean_squares(both))
    t = differences.mean() / (differences.std(ddof=1) / math.sqrt(len(pairs)))
    assert effect.p() == pytest.approx(2 * t_tail(abs(t), len(pairs) - 1), rel=1e-6)


def test_what_counts_of_sessions() -> None:
    """Interleaved sides share their sessions, so that nothing of them is left; single sessions count once a side."""
    days = Level(np.zeros(4), ("mon", "mon", "tue", "tue"))
    assert sessions.session_weight(days, days) == 0
    assert sessions.session_weight(days, Level(np.zeros(2), ("wed", "wed"))) == pytest.approx(0.25 + 0.25 + 1)
    assert sessions.session_weight(days, Level(np.zeros(2), ("tue", "tue"))) == pytest.approx(0.25 + 0.25)


def test_the_effect_by_hand() -> None:
    base, side = Level(np.zeros(2), ("a", "b")), Level(np.ones(3), ("c",) * 3)
    effect = sessions.effect_with_sessions(base, side, MeanSquares(0.04, 8, 0.5, 4, 2.0))
    parts = 1.5 / 2 * 0.5, (5 / 6 - 0.75) * 0.04
    assert effect.error**2 == pytest.approx(sum(parts))
    assert effect.freedom == pytest.approx(sum(parts) ** 2 / (parts[0] ** 2 / 4 + parts[1] ** 2 / 8))
    own = sessions.effect_with_sessions(base, side, MeanSquares(0.04, 8, 0.5, 4, 2.0), (0.2, 3.0))
    assert own.error**2 == pytest.approx(1.5 / 2 * 0.5 + 0.2 - 0.75 * 0.04)
    alone = sessions.effect_with_sessions(
        base, side, MeanSquares(0.04, 8, 0.0, 0, math.nan), None, [(0.01, 9.0), (0.0, 3.0)]
    )
    assert alone.error**2 == pytest.approx(5 / 6 * 0.04 + 0.01)
    assert alone.freedom == pytest.approx(alone.error**4 / ((5 / 6 * 0.04) ** 2 / 8 + 0.01**2 / 9))


def test_the_effect_where_a_part_is_unknown_or_nothing_scatters() -> None:
    base, side = Level(np.zeros(2), ("a", "b")), Level(np.ones(3), ("c",) * 3)
    of_sessions = sessions.effect_with_sessions(base, side, MeanSquares(0.0, 0, 0.5, 4, 1.0))
    assert of_sessions.error**2 == pytest.approx(1.5 * 0.5)  # a half of a session squared, twice, and a whole one
    assert of_sessions.freedom == 4
    few = sessions.effect_with_sessions(base, side, MeanSquares(0.04, 8, 9.0, 1, 2.0), None, [(0.3, 5.0)])
    assert few.error**2 == pytest.approx(0.75 * 9 + (5 / 6 - 0.75) * 0.04 + 0.3)
    assert few.freedom == 1
    equal = sessions.effect_with_sessions(base, side, MeanSquares(0.0, 8, 0.0, 0, math.nan))
    assert (equal.shift, equal.error, equal.freedom) == (1, 0, 8)
    single = sessions.effect_with_sessions(base, side, MeanSquares(0.0, 0, 0.0, 0, math.nan))
    assert single.error == 0 and math.isnan(single.freedom)


def test_variances_of_runs_and_sessions() -> None:
    assert MeanSquares(0.04, 8, 0.5, 4, 2.0).run_variance == pytest.approx(0.5 / 2 + 0.04 / 2)
    assert MeanSquares(0.04, 8, 0.5, 4, 2.0).session_variance == pytest.approx(0.46 / 2)
    assert MeanSquares(0.04, 8, 0.01, 4, 0.5).run_variance == pytest.approx(0.02)
    assert MeanSquares(0.04, 8, 0.01, 4, 0.5).session_variance == 0
    assert MeanSquares(0.04, 8, 0.0, 0, math.nan).run_variance == 0.04
    equal = sessions.mean_squares([level([1.0, 1.0], [1.0])], 0.1)
    assert (equal.within, equal.between) == pytest.approx((0.01, 0.01))


def drawn(rng: np.random.Generator, of_sessions: tuple[int, ...], name: str, between: float) -> Level:
    """Runs that differ by 1 % within sessions."""
    return level(*(list(rng.normal(rng.normal(0, between), 0.01, runs)) for runs in of_sessions), name=name)


@pytest.mark.parametrize(
    ("of_history", "of_base", "of_side"),
    [
        ((2,) * 5, (3,), (3,)),
        ((1,) * 10, (3,), (3,)),
        ((2,) * 6, (2,) * 4, (3,)),
        ((1, 2, 3, 4), (1,), (1,)),
        ((10,), (3,), (3,)),
    ],
)
@pytest.mark.parametrize("between", [0.0, 0.01, 0.05])
def test_intervals_hold_the_scatter_between_sessions(
    of_history: tuple[int, ...], of_base: tuple[int, ...], of_side: tuple[int, ...], between: float
) -> None:
    if len(of_history) == 1 and between:
        return  # nothing tells it
    rng, held = np.random.default_rng(7), 0
    for _ in range(500):
        base, side = drawn(rng, of_base, "b", between), drawn(rng, of_side, "s", between)
        squares = sessions.mean_squares([base, side, drawn(rng, of_history, "h", between)])
        low, high = sessions.effect_with_sessions(base, side, squares).interval(0.95)
        held += low <= 0 <= high
    assert 0.92 <= held / 500 <= (0.985 if between else 1.0)  # a negative weight is left out


@pytest.mark.parametrize("sizes", [(3, 3), (10,), (2, 2, 2, 5)])
@pytest.mark.parametrize("shorter", [1.0, 2.0])
def test_intervals_of_single_runs_cover_what_they_say(sizes: tuple[int, ...], shorter: float) -> None:
    """Figures of runs that differ by 4 %, and by 2 % within a run; the compared runs may have half of the steps."""
    rng, held = np.random.default_rng(sum(sizes)), 0
    of_repeat, of_single = math.hypot(0.04, 0.02), math.hypot(0.04, 0.02 * math.sqrt(shorter))
    for _ in range(1000):
        known = [Level(rng.normal(k, of_repeat, size), (f"group {k}",) * size) for k, size in enumerate(sizes)]
        base, side = (Level(rng.normal(0, of_single, 1), ("sides",)) for _ in range(2))
        squares = sessions.mean_squares([base, side, *known])
        more = [(0.02**2 * shorter * float(rng.chisquare(20)) / 20 * (1 - 1 / shorter), 20.0) for _ in range(2)]
        low, high = sessions.effect_with_sessions(base, side, squares, None, more).interval(0.95)
        held += low <= 0 <= high
    assert 0.93 <= held / 1000 <= 0.97


def test_levels_that_scatter_more_are_told() -> None:
    quiet: Floats = np.array([0.0, 1.0, 2.0, 1.0, 0.5])
    calm, loud = Level(quiet, ("a",) * 5), Level(quiet * 10, ("b",) * 5)
    assert sessions.are_noisier([loud], [calm])
    assert not sessions.are_noisier([calm], [loud])
    assert not sessions.are_noisier([calm], [calm])
    assert sessions.are_noisier([loud], [Level(np.zeros(3), ("c",) * 3)])
    single = Level(np.ones(1), ("d",))
    assert not sessions.are_noisier([single], [loud])
    assert not sessions.are_noisier([loud], [single])  # nobody knows how much that scatters
