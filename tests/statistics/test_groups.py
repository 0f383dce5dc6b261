"""Rows by their keys."""

from __future__ import annotations

import math
import statistics
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from perflog.statistics.groups import distinct, groups_of, positions_in, values_at


def test_groups_are_in_the_order_of_their_keys() -> None:
    steps, ranks = np.array([2, 1, 2, 1, 2]), np.array([0, 7, -3, 7, 0])
    groups = groups_of(steps, ranks)
    assert groups.inverse.tolist() == [2, 0, 1, 0, 2]
    assert groups.first.tolist() == [1, 2, 0]
    assert groups.sizes.tolist() == [2, 1, 2]
    assert groups.sums(np.array([1.0, 2.0, 4.0, 8.0, 16.0])).tolist() == [10.0, 4.0, 17.0]


@examples(50)
@given(st.lists(st.tuples(st.integers(-3, 9), st.integers(0, 3)), min_size=1, max_size=60))
def test_keys_that_lie_close_together_are_grouped_as_those_far_apart(rows: list[tuple[int, int]]) -> None:
    steps, ranks = np.array(rows).T
    close, far = groups_of(steps, ranks), groups_of(steps * 1_000_000, ranks)
    for name in ("inverse", "first", "sizes"):
        assert getattr(close, name).tolist() == getattr(far, name).tolist()


def test_no_rows_are_no_groups() -> None:
    groups = groups_of(np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert groups.sums(np.zeros(0)).tolist() == [] and groups.sizes.tolist() == []


def test_keys_as_wide_as_integers_do_not_overflow() -> None:
    ends = np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max, 0])
    groups = groups_of(ends, ends, ends)
    assert groups.inverse.tolist() == [0, 2, 1]
    assert groups_of(ends, ends[::-1], np.zeros(3, np.int64)).inverse.tolist() == [0, 2, 1]
    assert groups_of(np.zeros(3, np.int64), ends, ends[[1, 1, 1]]).inverse.tolist() == [0, 2, 1]
    wide = np.array([1 << 40, 0, 1 << 40])  # two of them together do not fit
    assert groups_of(wide, np.array([0, 1 << 40, 1])).inverse.tolist() == [1, 0, 2]


@examples(50)
@given(st.lists(st.tuples(st.integers(0, 4), st.floats(-1e9, 1e9)), min_size=1, max_size=100), st.randoms())
def test_a_sum_is_exact_and_does_not_depend_on_the_order(rows: list[tuple[int, float]], random: Random) -> None:
    def sums(rows: list[tuple[int, float]]) -> dict[int, float]:
        keys, values = np.array([key for key, _ in rows]), np.array([value for _, value in rows])
        groups = groups_of(keys)
        return dict(zip(keys[groups.first].tolist(), groups.sums(values).tolist(), strict=True))

    shuffled = random.sample(rows, len(rows))
    assert sums(rows) == sums(shuffled)
    assert all(total == float(sum(Fraction(v) for k, v in rows if k == key)) for key, total in sums(rows).items())


@pytest.mark.parametrize("block", [1, 2, 3, 100])
def test_sums_of_some_groups_at_a_time(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perflog.statistics.groups._BLOCK", block)
    keys = np.array([5, 1, 1, 1, 3, 5, 1, 2])
    assert groups_of(keys).sums(np.arange(8.0)).tolist() == [1 + 2 + 3 + 6, 7, 4, 0 + 5]


@pytest.mark.parametrize("most", [1, 10])
def test_groups_of_many_rows_are_computed_some_at_a_time(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    keys, values = rng.integers(0, 9, 60), rng.random(60)
    groups = groups_of(keys)
    whole = [groups.sums(values), *groups.order_statistics(values)]
    monkeypatch.setattr("perflog.statistics.groups._PART", most)
    parts = list(groups.parts())
    assert len(parts) > 4
    np.testing.assert_array_equal(np.sum([rows for _, rows in parts], axis=0), 1)
    for few, rows in parts:
        np.testing.assert_array_equal(keys[rows][few.first][few.inverse], keys[rows])
        assert few.sizes.tolist() == np.bincount(few.inverse).tolist()
    np.testing.assert_array_equal([groups.sums(values), *groups.order_statistics(values)], whole)


def test_sums_beyond_the_largest_float_are_infinite() -> None:
    one_group = groups_of(np.zeros(2, np.int64))
    assert one_group.sums(np.array([1.7e308, 1.7e308])).tolist() == [math.inf]
    assert math.isnan(one_group.sums(np.array([math.inf, -math.inf]))[0])


@examples(50)
@given(st.lists(st.tuples(st.integers(-2, 3), st.floats(-1e9, 1e9) | st.just(math.nan)), min_size=1, max_size=60))
def test_order_statistics_are_those_of_each_group_without_nan(rows: list[tuple[int, float]]) -> None:
    keys, values = np.array([key for key, _ in rows]), np.array([value for _, value in rows])
    groups = groups_of(keys)
    for key, *found in zip(keys[groups.first].tolist(), *groups.order_statistics(values), strict=True):
        known = [value for k, value in rows if k == key and value == value]
        want = [min(known), statistics.median(known), max(known)] if known else [math.nan] * 3
        assert found == pytest.approx(want, nan_ok=True)


def test_of_values_in_groups_of_their_own_each_is_its_own_median() -> None:
    groups = groups_of(np.array([5, 1, 3]))
    least, middle, most = groups.order_statistics(np.array([50.0, 10.0, 30.0]))
    assert least.tolist() == middle.tolist() == most.tolist() == [10.0, 30.0, 50.0]
    assert groups.means(np.array([50.0, 10.0, 30.0])).tolist() == [10.0, 30.0, 50.0]


def test_groups_count_distinct_keys_and_have_first_and_last_integers() -> None:
    groups = groups_of(np.array([1, 0, 1, 1, 0]))
    ranks, chosen = np.array([4, 4, 4, 5, 6]), np.array([True, True, True, True, False])
    assert groups.numbers_of(ranks, chosen).tolist() == [1, 2]
    assert [ends.tolist() for ends in groups.ends(np.array([9, 3, 2, 7, 8]))] == [[3, 2], [8, 9]]
    assert groups.in_order.tolist() == [1, 0]
    assert [len(ends) for ends in groups_of(np.zeros(0, np.int64)).ends(np.zeros(0, np.int64))] == [0, 0]


def test_a_flag_holds_for_all_rows_of_its_group() -> None:
    groups = groups_of(np.array([1, 0, 1, 2]))
    assert groups.any_of(np.array([False, False, True, False])).tolist() == [True, False, True, False]
    assert groups.means(np.array([1.0, 5.0, 2.0, 7.0])).tolist() == [5, 1.5, 7]
    assert groups.medians(np.array([1.0, 5.0, 3.0, math.nan])).tolist() == pytest.approx([5, 2, math.nan], nan_ok=True)


def test_distinct_numbers_ascend() -> None:
    for numbers, expected in (([3, 1, 3, 2, 1], [1, 2, 3]), ([1, 2, 2], [1, 2]), ([-5, 0, 7], [-5, 0, 7]), ([], [])):
        assert distinct(np.array(numbers, np.int64)).tolist() == expected


def test_rows_are_found_by_their_keys_and_unknown_ones_have_no_value() -> None:
    wanted = (np.array([1, 1, 2]), np.array([7, 8, 7]))
    others = (np.array([2, 1]), np.array([7, 7]))
    found = positions_in(wanted, others)
    assert found.tolist() == [1, -1, 0]
    assert values_at(np.array([0.5, 0.25]), found).tolist() == pytest.approx([0.25, math.nan, 0.5], nan_ok=True)
    nothing = (np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert positions_in(wanted, nothing).tolist() == [-1, -1, -1]


def test_groups_have_their_rows_as_they_come_and_the_last_of_them() -> None:
    groups = groups_of(np.array([7, 3, 7, 7, 3]))
    assert [rows.tolist() for rows in groups.rows] == [[1, 4], [0, 2, 3]]
    assert groups.last.tolist() == [4, 3]
    nothing = groups_of(np.zeros(0, np.int64))
    assert nothing.rows == []
    assert nothing.last.tolist() == []
