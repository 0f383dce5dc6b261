"""Levels of figures in the order of time, held against cuts that were made, and against chance."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.arrays import Floats
from perflog.statistics.levels import (
    _ORDERS,
    FEWEST,
    Level,
    _clearest_stretch,
    _criterion,
    _known_cut,
    _known_scores,
    _largest_stretch_score,
    _last,
    _order_p,
    _outliers,
    _rise,
    _scores,
    _stretch,
    _widening,
    course,
    levels,
)
from perflog.statistics.shared_scatter import SharedScatter
from perflog.statistics.students_t import t_tail

TRIALS = 100


def cuts(figures: list[float]) -> list[int]:
    return [level.start for level in levels(np.array(figures, np.float64))[1:]]


@given(st.lists(st.floats(-30, 30), max_size=40))
def test_levels_cover_all_figures_once(figures: list[float]) -> None:
    found = levels(np.array(figures, np.float64))
    assert found[0].start == 0
    assert found[-1].stop == len(figures)
    assert all(a.stop == b.start for a, b in pairwise(found))
    assert all(len(found) == 1 or level.stop - level.start >= 2 for level in found)
    assert [math.isnan(level.p) for level in found] == [True, *[False] * (len(found) - 1)]


@given(st.lists(st.floats(-3, 3), min_size=FEWEST, max_size=30), st.floats(-5, 5), st.floats(0.1, 10))
def test_another_unit_changes_no_cut(figures: list[float], shift: float, scale: float) -> None:
    spread = float(np.ptp(figures))
    if spread > 1e-3:
        assert cuts([scale * figure + shift for figure in figures]) == cuts(figures)


def test_cuts_are_where_they_were_made() -> None:
    scatter = np.random.default_rng(3).normal(0, 0.01, 60)
    scatter[20:] += 0.1
    scatter[45:] -= 0.2
    assert cuts(scatter.tolist()) == [20, 45]


def test_two_of_ten_figures_are_a_level() -> None:
    assert cuts([1.30, 1.29, *(1 + 0.01 * k for k in (1, 0, 2, 1, -1, 1, 0, 1))]) == [2]


def test_equal_figures_are_one_level_and_two_values_are_two() -> None:
    assert not cuts([0.5] * 20)
    assert cuts([0.5] * 10 + [0.6] * 10) == [10]


def test_one_bad_night_is_no_level() -> None:
    figures = np.random.default_rng(1).normal(0, 0.01, 30)
    figures[17] += 0.5
    assert not cuts(figures.tolist())


def test_too_few_figures_are_one_level() -> None:
    assert not cuts([1.0] * 3 + [2.0] * 4)


@pytest.mark.parametrize("number", [FEWEST, 12, 40])
@pytest.mark.parametrize("kind", ["normal", "heavy tails", "skewed"])
def test_chance_rarely_makes_a_level(number: int, kind: str) -> None:
    """At most 5 % of the series by construction; less, since both tests must agree."""
    rng = np.random.default_rng(7)
    draws = {
        "normal": lambda: rng.normal(size=number),
        "heavy tails": lambda: rng.standard_t(2, number),
        "skewed": lambda: rng.exponential(size=number),
    }
    wrong = sum(len(levels(draws[kind]())) > 1 for _ in range(TRIALS))
    assert wrong <= 0.06 * TRIALS


def test_p_is_the_share_of_the_orders_with_as_clear_a_cut() -> None:
    """Eight figures of which the first four are high: 2 of the 70 ways to place the four are as clear."""
    found = levels(np.array([1.0, 1.001, 1.002, 1.0, 0.5, 0.501, 0.502, 0.5]))
    assert found[1].start == 4
    assert found[1].p == pytest.approx(2 / 70, abs=0.015)


def test_all_orders_are_permutations_and_as_many_as_the_p_value_says() -> None:
    """Clearer than all orders: one in a thousand and one, whatever the number of orders that are held at once."""
    for values in (np.arange(9.0), np.arange(3000.0)):
        held: list[int] = []

        def largest(orders: Floats, held: list[int] = held, values: Floats = values) -> Floats:
            assert (np.sort(orders, axis=-1) == values).all() and (orders != values).any()
            held.append(len(orders))
            return np.zeros(len(orders))

        assert _order_p(values, 1.0, largest, np.random.default_rng(1)) == 1 / (sum(held) + 1) == 1 / (_ORDERS + 1)
    assert len(held) > 1


def test_a_stretch_has_at_least_two_values_before_and_after_it() -> None:
    series = np.array([0.0, 0.1, *[5.0, 5.1] * 6, 0.1, 0.0])
    rng = np.random.default_rng(1)
    assert list(_stretch(series, rng, 1.0)) == [2, 14]
    assert list(_stretch(series[1:], rng, 1.0)) == [] == list(_stretch(series[:-1], rng, 1.0))
    assert list(_stretch(np.tile([0.0, 0.1], 150) + np.repeat([0, 5, 0], [101, 80, 119]), rng, 1.0)) == [101, 181]


def test_the_score_of_a_cut_is_students_t() -> None:
    """Of the last axis: means after less means before, with two values or more on both sides."""
    figures = np.array([1.0, 2.0, 4.0, 3.0, 7.0, 9.0, 8.0])
    expected = []
    for cut in range(2, 6):
        before, after = figures[:cut], figures[cut:]
        within = before.var() * len(before) + after.var() * len(after)
        error = math.sqrt(within / 5 * (1 / len(before) + 1 / len(after)))
        expected.append((after.mean() - before.mean()) / error)
    assert _scores(figures) == pytest.approx(expected)
    assert _scores(np.array([figures, figures[::-1]]))[1] == pytest.approx([-score for score in reversed(expected)])
    assert (_scores(np.full(9, 0.1)) == 0).all()


def test_rounding_errors_of_large_numbers_are_no_cut() -> None:
    """The scatter is at least a share of the largest number, or of 1 if all are smaller."""
    step = np.repeat([0.0, 1e-8], 10)
    for size in (1e9, 1e6, 1.0, 1e-3):
        assert np.abs(_scores(size + step * max(size, 1.0) * 1e-3)).max() < 0.1
        assert np.abs(_scores(size * (1 + 1e5 * step))).max() > (100 if size >= 1 else 1)
    stretch = np.repeat([0.0, 1e-8, 0.0], [7, 6, 7])
    for size in (1e9, 1e6, 1.0, 1e-3):
        assert _clearest_stretch(size + stretch * max(size, 1.0) * 1e-3)[0] < 0.1
        assert _clearest_stretch(size * (1 + 1e5 * stretch))[0] > 100


def test_a_known_scatter_makes_cuts_of_few_figures_significant() -> None:
    """The means 0 and 1 of three and five figures with a standard deviation of 0.1."""
    figures, scatter = np.repeat([0.0, 1.0], [3, 5]), SharedScatter(0.01, 4.0)
    scores = _known_scores(figures, scatter)
    assert scores[1] == pytest.approx(1 / (0.1 * math.sqrt(1 / 3 + 1 / 5)))
    assert (len(scores), int(scores.argmax())) == (5, 1)
    assert _known_cut(figures, scatter) == {3: pytest.approx(2 * t_tail(float(scores[1]), 4) * 5)}
    assert _known_cut(figures[:4], scatter) == {}
    assert _known_cut(figures[:3], scatter) == {}
    assert _known_cut(0.3 * figures, scatter) == {}
    far = np.array([0.0, 0.0, 0.0, 0.0, 3.0, 0.0])  # without the far figure both sides are equal
    assert _known_scores(far, scatter).max() > 15 and _known_cut(far, scatter) == {}


def test_outliers_are_alone_and_few() -> None:
    """The limit is 5 scaled MADs of 1, times 1 + 4 / 30: 8.4 from the median of the seven around, 1."""
    calm = np.tile([0.0, 1.0, -1.0, 1.0, 0.0, -1.0], 5)
    for changes, expected in (
        ({}, []),
        ({4: 30.0}, [4]),
        ({0: 30.0, 12: -30.0}, [0, 12]),
        ({4: 30.0, 5: 30.0}, []),  # two are no single figure
        ({4: 30.0, 5: -30.0}, [4, 5]),
        ({29: 30.0}, []),  # the last is tested against the level
        ({28: 30.0}, [28]),
        ({3: 30.0, 10: 30.0, 17: 30.0}, [3, 10, 17]),  # a tenth
        ({3: 30.0, 10: 30.0, 17: 30.0, 24: 30.0}, []),
        ({4: 9.3}, []),
        ({4: 9.5}, [4]),
    ):
        figures = calm.copy()
        figures[list(changes)] = list(changes.values())
        assert _outliers(figures, 0.0) == expected, changes
    assert _outliers(np.array([0.0] * 7 + [9.0, 0.0]), 0.0) == [7]
    assert _outliers(np.array([0.0] * 7 + [9.0, 0.0]), 2.0) == []  # of which rounding explains as much
    assert [_outliers(np.array([0.0] * n + [9.0, 0.0]), 0.0) for n in (5, 6)] == [[], [6]]  # from eight values on


def test_the_last_figure_needs_others_and_three_degrees_of_freedom() -> None:
    def last(figures: list[float], cut: int, least: float = 0.0) -> tuple[float, float]:
        found = [Level(a, b, math.nan) for a, b in pairwise(sorted({0, cut, len(figures)}))]
        return _last(np.array(figures), found, least)

    shift, p = last([1.0, 3.0, 10.0, 12.0, 14.0, 15.0], 2)  # squares 2 + 8 with 5 - 2 degrees of freedom
    assert shift == 3
    assert p == pytest.approx(2 * t_tail(3 / math.sqrt(10 / 3 * (1 + 1 / 3)), 3))
    assert last([1.0, 3.0, 10.0, 12.0, 14.0, 15.0], 2, 4.0)[1] == pytest.approx(
        2 * t_tail(3 / math.sqrt(16 * 4 / 3), 3)
    )
    shift, p = last([1.0, 3.0, 10.0, 12.0, 15.0], 2)
    assert shift == 4 and math.isnan(p)
    assert all(map(math.isnan, last([1.0, 2.0, 3.0, 4.0, 5.0], 4)))
    assert last([1.0] * 6, 0) == (0, 1)


def test_dependence_widens_errors_by_its_sum() -> None:
    whole = [Level(0, 40, math.nan)]
    assert _widening(np.tile([1.0, 1.0, -1.0, -1.0], 10), whole) == 1  # 20 equal neighbours, 19 that differ
    trend = np.repeat([1.0, -1.0, 1.0, -1.0], 10)  # 36 equal neighbours, 3 that differ
    r = (40 * 33 / 40 + 1) / 37
    assert _widening(trend, whole) == pytest.approx(math.sqrt((1 + r) / (1 - r)))
    assert _widening(trend, [Level(k, k + 4, math.nan) for k in range(0, 40, 4)]) == 1
    assert _widening(trend[:19], [Level(0, 19, math.nan)]) == 1
    assert _widening(np.ones(40), whole) == 1
    halves = np.repeat([1.0, -1.0], 20)  # at most 0.95
    assert _widening(halves, whole) == pytest.approx(math.sqrt(1.95 / 0.05))


def test_a_line_through_levels_and_its_criterion() -> None:
    """Two levels with the slope 2; squares of 0.5 about each of the three figures of a level."""
    x = np.arange(6.0)
    y = 2 * x + np.array([0.5, -1.0, 0.5, 100.5, 99.0, 100.5])
    found = [Level(0, 3, math.nan), Level(3, 6, math.nan)]
    slope, p = _rise(y, x, found)
    assert slope == pytest.approx(2)
    assert p == pytest.approx(2 * t_tail(2 / math.sqrt(3 / 3 / 4), 3))
    assert _criterion(y - 2 * x, found, 1) == pytest.approx(6 * math.log(3 / 6) + 3 * math.log(6))
    assert _criterion(y - 2 * x, found, 0) == pytest.approx(6 * math.log(3 / 6) + 2 * math.log(6))
    assert _rise(np.ones(6), x, found) == (0, 1)
    assert _criterion(np.ones(6), found[:1], 0) == pytest.approx(6 * math.log(1e-18))


@given(st.lists(st.floats(-3, 3), max_size=40))
def test_a_course_covers_all_figures_once(figures: list[float]) -> None:
    found = course(np.array(figures, np.float64))
    edges = [(level.start, level.stop) for level in found.levels]
    assert [k for a, b in edges for k in range(a, b)] == list(range(len(figures)))
    assert len(figures) - 1 not in found.outliers
    assert len(found.outliers) <= max(0.1 * len(figures), 1)
    assert sorted([*found.outliers, *(k for level in found.levels for k in found.members(level))]) == list(
        range(len(figures))
    )


def test_an_outlier_hides_no_level_and_is_none() -> None:
    figures = np.random.default_rng(3).normal(0, 0.002, 30)
    figures[11] += 0.3
    figures[20:] += 0.03
    found = course(figures)
    assert found.outliers == (11,)
    assert [level.start for level in found.levels] == [0, 20]


@pytest.mark.parametrize("number", [30, 400])
def test_two_changes_that_undo_each_other_are_found(number: int) -> None:
    """A single cut does not show a stretch in the middle: both sides of each cut have about the same mean."""
    first, second = number * 4 // 10, number * 7 // 10
    figures = np.random.default_rng(4).normal(0, 0.002, number)
    figures[first:second] += 0.01
    assert [level.start for level in course(figures).levels] == [0, first, second]


def test_the_clearest_stretch_is_that_of_all_pairs_of_ends() -> None:
    figures = np.random.default_rng(5).normal(0, 1, 14)

    def score(start: int, stop: int) -> float:
        inside, outside = figures[start:stop], np.delete(figures, slice(start, stop))
        within = ((inside - inside.mean()) ** 2).sum() + ((outside - outside.mean()) ** 2).sum()
        error = math.sqrt(within / 12 * (1 / len(inside) + 1 / len(outside)))
        return float(abs(inside.mean() - outside.mean()) / error)

    every = {(a, b): score(a, b) for a in range(2, 11) for b in range(a + 2, 13)}
    best, start, stop = _clearest_stretch(figures)
    assert every[start, stop] == max(every.values()) == pytest.approx(best)
    assert _largest_stretch_score(figures[None])[0] == pytest.approx(best)


def test_the_last_figure_is_tested_against_the_level_so_far() -> None:
    """With a scatter s about n figures: t of a new one has the error s sqrt(1 + 1 / n)."""
    others = np.random.default_rng(6).normal(0, 1, 12)
    found = course(np.append(others, others.mean() + 2.5))
    t = 2.5 / (others.std(ddof=1) * math.sqrt(1 + 1 / 12))
    assert found.last_shift == pytest.approx(2.5)
    assert found.last_p == pytest.approx(2 * t_tail(t, 11))


@pytest.mark.parametrize("kind", ["normal", "heavy tails"])
def test_chance_rarely_makes_a_level_or_a_last_change(kind: str) -> None:
    rng = np.random.default_rng(8)
    drawn = [rng.normal(size=30) if kind == "normal" else rng.standard_t(3, 30) for _ in range(TRIALS)]
    found = [course(figures) for figures in drawn]
    assert sum(len(each.levels) > 1 for each in found) <= 0.05 * TRIALS
    assert sum(each.last_p <= 0.01 for each in found) <= (0.03 if kind == "normal" else 0.08) * TRIALS


def following(number: int, correlation: float, rng: np.random.Generator) -> Floats:
    """Figures that follow their neighbours: AR(1) with a standard deviation of 1."""
    figures = rng.normal(0, math.sqrt(1 - correlation**2), number + 100)
    for k in range(1, len(figures)):
        figures[k] += correlation * figures[k - 1]
    return figures[100:]


def test_figures_that_follow_their_neighbours_rarely_make_a_level() -> None:
    """Half as often as without the correction at least; a change of four standard deviations is found all the same."""
    rng = np.random.default_rng(9)
    drawn = [following(60, 0.6, rng) for _ in range(TRIALS // 2)]
    plain = sum(len(levels(figures, stretches=True)) - 1 for figures in drawn)
    corrected = sum(len(course(figures).levels) - 1 for figures in drawn)
    assert plain > 0.8 * len(drawn) and corrected < 0.3 * len(drawn)
    shifted = [course(figures + np.repeat([0.0, 5.0], 30)).levels for figures in drawn[:20]]
    assert sum(any(abs(level.start - 30) <= 2 for level in found) for found in shifted) >= 18


def test_a_drift_is_no_level_and_hides_none() -> None:
    rng = np.random.default_rng(10)
    line = np.linspace(0, 5, 60)
    drifting = [course(rng.normal(0, 1, 60) + line) for _ in range(TRIALS // 4)]
    assert sum(len(found.levels) == 1 for found in drifting) >= 0.9 * len(drifting)
    assert np.mean([59 * found.drift for found in drifting]) == pytest.approx(5, rel=0.15)
    found = course(rng.normal(0, 0.3, 60) + line + np.repeat([0.0, -6.0], [25, 35]))
    assert [level.start for level in found.levels] == [0, 25]
    assert 59 * found.drift == pytest.approx(5, rel=0.2)


@pytest.mark.parametrize("changes", [[], [20], [20, 40]])
def test_levels_without_a_drift_rarely_show_one(changes: list[int]) -> None:
    rng = np.random.default_rng(11)
    steps = sum((np.arange(60) >= change) * 4.0 * (-1) ** k for k, change in enumerate(changes))
    found = [course(rng.normal(0, 1, 60) + steps) for _ in range(TRIALS // 4)]
    assert sum(each.drift != 0 for each in found) <= 0.06 * len(found)
    assert sum([level.start for level in each.levels[1:]] != [] for each in found) >= (0.95 if changes else 0) * len(
        found
    )
