"""The member of a group that stands out: found, and no other, in made-up jobs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.arrays import Floats
from perflog.statistics.standing_out import _noise, _scale, standing_out
from perflog.statistics.students_t import t_tail


def job(seed: int, members: int, rows: int, noise: float = 0.02) -> Floats:
    """Values of equal members x rows: steps that differ, and noise of each value."""
    generator = np.random.default_rng(seed)
    steps = generator.normal(0, 0.1, rows)
    return np.exp(steps + generator.normal(0, noise, (members, rows)))


def test_equal_members_stand_out_in_less_than_one_job_in_a_hundred() -> None:
    jobs = [(members, rows, noise) for members in (2, 3, 4, 16) for rows in (1, 3, 10, 100) for noise in (0.02, 0.1)]
    alarms = sum(bool(standing_out(job(seed, *kind), 3)) for kind in jobs for seed in range(40))
    assert alarms <= 0.01 * 40 * len(jobs)


def test_the_deviation_of_a_member_by_hand() -> None:
    """Of one row, a scatter of 5 % is assumed, with 2 degrees of freedom; 0.37 more of each other member."""
    logs = np.array([0.0, 0.01, -0.01, 0.02, 2.0])
    (found,) = standing_out(np.exp(logs)[:, None], 2)
    deviation = 2 - 0.01
    scatter = 1.4826 * 0.01  # distances of the deviations from their median: 0.01, 0, 0.02, 0.01, 1.99
    freedom = 2 + 0.37 * 4
    variance = (2 * 0.05**2 + 0.37 * 4 * scatter**2) / freedom
    assert (found.member, found.persistence) == (4, 1)
    assert found.ratio == pytest.approx(math.exp(deviation))
    assert found.t == pytest.approx(deviation / math.sqrt(variance * (1 + 1 / 4)))
    assert found.p == pytest.approx(2 * 2 * 5 * t_tail(found.t, freedom))


def test_of_four_members_the_scatter_is_estimated() -> None:
    """20 equal rows: 6 degrees of freedom of 1.5 %, 0.37 of the scaled MAD of each other member."""
    logs = np.array([0.0, 0.01, -0.01, 1.0])
    (found,) = standing_out(np.exp(np.repeat(logs[:, None], 20, axis=1)))
    deviations = logs - 0.005  # from the median of the members; from their own median: 0.005, 0.005, 0.015, 0.995
    freedom = 6 + 0.37 * 3
    variance = (6 * 0.015**2 + 0.37 * 3 * (1.4826 * 0.01) ** 2) / freedom
    assert found.member == 3
    assert found.t == pytest.approx(deviations[3] / math.sqrt(variance * (1 + 1 / 3)), rel=1e-3)
    assert found.p == pytest.approx(2 * 4 * t_tail(found.t, freedom), rel=1e-6)


def test_two_and_three_members_are_compared_with_the_others() -> None:
    """Many rows: 1.5 % and the noise of the medians, with 6 degrees of freedom. A pair is one test."""
    both = standing_out(np.array([[1.0] * 20, [1.3] * 20]), 2)
    t = math.log(1.3) / (0.015 * math.sqrt(2))
    assert sorted((each.member, round(each.ratio, 9)) for each in both) == [(0, round(1 / 1.3, 9)), (1, 1.3)]
    assert [each.t for each in both] == pytest.approx([t, t])
    assert [each.p for each in both] == pytest.approx([2 * 2 * t_tail(t, 6)] * 2)
    found = standing_out(np.array([[1.0] * 20, [1.0] * 20, [1.3] * 20]))
    assert [each.member for each in found] == [2]  # the mean of the others misleads the two that are equal
    assert found[0].t == pytest.approx(math.log(1.3) / (0.015 * math.sqrt(1.5)))
    assert found[0].p == pytest.approx(2 * 3 * t_tail(found[0].t, 6))
    assert {each.member for each in standing_out(np.array([[1.0] * 20, [2.0] * 20, [4.0] * 20]))} == {0, 2}
    assert [each.member for each in standing_out(np.array([[1.0] * 20, [1.1] * 20, [2.0] * 20]))] == [2]


def test_the_noise_of_a_member_by_hand() -> None:
    """Of few rows the standard error of a median; of 25 rows or more that of the medians of blocks of rows."""
    rows = np.array([[1.0, 2.0, 3.0, 6.0], [1.0, math.nan, math.nan, 2.0]])
    few, _ = _noise(rows)
    assert few[0] == pytest.approx(1.2533 * math.sqrt(14 / 3) / 2)
    assert math.isnan(few[1])
    assert np.isnan(_noise(rows[:, :2])[0]).all()
    many = np.array([np.repeat([1.0, 2.0, 3.0, 4.0, 5.0], 5), np.ones(25)])
    assert _noise(many)[0] == pytest.approx([math.sqrt(2.5 / 5), 0])
    long = np.array([np.repeat(np.arange(10.0), 8)])
    assert _noise(long)[0] == pytest.approx([np.arange(10.0).std(ddof=1) / math.sqrt(10)])
    gap = np.where(np.arange(25) // 5 == 2, math.nan, many)  # a block without values: four blocks are too few
    assert _noise(gap)[0] == pytest.approx([1.2533 * np.nanstd(gap[0], ddof=1) / math.sqrt(20), 0])
    assert _noise(many[:, :24])[0] == pytest.approx([1.2533 * many[0, :24].std(ddof=1) / math.sqrt(24), 0])


def test_the_error_of_a_member_has_its_own_noise() -> None:
    """Two members scatter by 0.1 and one by 1. A calm one has at least the typical noise."""
    swings = np.array([1.0, -1.0, 1.0, -1.0])
    scale, freedom = _scale(swings * np.array([[0.1], [0.1], [1.0]]), np.zeros(3))
    of_one = 1.2533 * math.sqrt(4 / 3) / 2  # standard error of the median of four values that scatter by 1
    expected = [math.sqrt((0.015**2 + (spread * of_one) ** 2) * 1.5) for spread in (0.1, 0.1, 1.0)]
    assert scale.tolist() == pytest.approx(expected) and freedom == 6
    calm, _ = _scale(swings * np.array([[0.1], [0.1], [0.0]]), np.zeros(3))
    assert calm.tolist() == pytest.approx([expected[0]] * 3)


def test_a_trend_of_a_member_is_no_noise() -> None:
    """If it is on one side of the others all the time."""
    grows = np.repeat(np.arange(1.0, 11.0), 8)
    error, beside_trend = _noise(np.array([grows, grows - 5.5, -grows]))
    assert error == pytest.approx([np.arange(10.0).std(ddof=1) / math.sqrt(10)] * 3)
    assert beside_trend == pytest.approx([0, error[1], 0])
    values = job(0, 8, 300, 0.01)
    values[5] *= np.linspace(1.1, 3.0, 300)
    assert [each.member for each in standing_out(values, 9)] == [5]


def test_differences_that_do_not_matter_do_not_count() -> None:
    """5 % of few rows, 2 % from 20 rows on, and of half of the rows or fewer nothing."""

    def found(ratio: float, rows: int, slow: int) -> int:
        values = np.ones((40, rows))
        values[7, :slow] = ratio
        return len(standing_out(values))

    assert [found(1.07, 19, 19), found(1.045, 19, 19), found(1.045, 20, 20), found(1.019, 20, 20)] == [1, 0, 1, 0]
    assert [found(1.3, 20, slow) for slow in (10, 11)] == [0, 1]


@given(
    seed=st.integers(0, 2**32), members=st.integers(2, 64), rows=st.integers(20, 200), slow=st.integers(0, 63),
    up=st.booleans(),
)  # fmt: skip
def test_a_member_that_differs_by_a_fifth_is_found(seed: int, members: int, rows: int, slow: int, up: bool) -> None:
    values, slow = job(seed, members, rows), slow % members
    values[slow] *= 1.2 if up else 1 / 1.2
    found = standing_out(values, 3)
    assert {each.member for each in found} == ({slow} if members > 2 else {0, 1})
    ratio = next(each.ratio for each in found if each.member == slow)
    assert abs(ratio / (1.2 if up else 1 / 1.2) - 1) < 0.03
    assert all(each.persistence > 0.9 for each in found)


def test_missing_values_hide_no_member() -> None:
    values = job(1, 8, 40)
    values[3] *= 1.2
    values[np.random.default_rng(2).random(values.shape) < 0.3] = np.nan
    assert [each.member for each in standing_out(values)] == [3]


def test_a_few_slow_steps_are_no_slow_member() -> None:
    values = job(1, 8, 40)
    values[3, :10] *= 3
    assert not standing_out(values)


def test_one_printing_shows_only_what_is_far_off() -> None:
    values = np.array([9.71, 9.27, 9.92, 9.59, 9.88, 3.72, 9.92, 9.32])[:, None]
    (found,) = standing_out(values, 8)
    assert found.member == 5
    assert round(found.ratio, 3) == 0.385
    values[5] = 9.0
    assert not standing_out(values, 8)


def test_a_single_member_stands_out_from_none() -> None:
    assert not standing_out(np.ones((1, 5)))
    assert not standing_out(np.ones((4, 0)))


@given(
    rows=st.lists(
        st.lists(st.one_of(st.just(np.nan), st.floats(5e-324, 1e308, exclude_min=False)), min_size=3, max_size=3),
        min_size=1, max_size=30,
    )
)  # fmt: skip
def test_no_values_are_an_error(rows: list[list[float]]) -> None:
    """Rows that one member prints alone compare nothing; ratios may be larger than a float holds."""
    for values in (np.array(rows).T, np.array(rows)):
        for each in standing_out(values):
            assert 0 <= each.member < len(values)
            assert each.ratio >= 0
