"""The member of a group that stands out: found, and no other, in made-up jobs."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from perflog.arrays import Floats
from perflog.statistics.standing_out import standing_out


def job(seed: int, members: int, rows: int, noise: float = 0.02) -> Floats:
    """Values of equal members x rows: steps that differ, and noise of each value."""
    generator = np.random.default_rng(seed)
    steps = generator.normal(0, 0.1, rows)
    return np.exp(steps + generator.normal(0, noise, (members, rows)))


def test_equal_members_stand_out_in_less_than_one_job_in_a_hundred() -> None:
    for noise in (0.02, 0.1):
        for members in (2, 3, 4, 8, 64):
            for rows in (1, 3, 10, 100):
                number = 200 if members < 64 else 60
                alarms = sum(bool(standing_out(job(seed, members, rows, noise), 3)) for seed in range(number))
                assert alarms <= 1, (noise, members, rows, alarms)


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
