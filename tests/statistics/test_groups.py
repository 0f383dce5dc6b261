"""Rows by their keys."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from perflog.statistics.groups import groups_of


def test_groups_are_in_the_order_of_their_keys() -> None:
    steps, ranks = np.array([2, 1, 2, 1, 2]), np.array([0, 7, -3, 7, 0])
    groups = groups_of(steps, ranks)
    assert groups.of_row.tolist() == [2, 0, 1, 0, 2]
    assert groups.first.tolist() == [1, 2, 0]
    assert groups.sizes.tolist() == [2, 1, 2]
    assert groups.sums(np.array([1.0, 2.0, 4.0, 8.0, 16.0])).tolist() == [10.0, 4.0, 17.0]


def test_no_rows_are_no_groups() -> None:
    groups = groups_of(np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert groups.sums(np.zeros(0)).tolist() == [] and groups.sizes.tolist() == []


def test_keys_as_wide_as_integers_do_not_overflow() -> None:
    ends = np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max, 0])
    groups = groups_of(ends, ends, ends)
    assert groups.of_row.tolist() == [0, 2, 1]


@examples(50)
@given(st.lists(st.tuples(st.integers(0, 4), st.floats(1e-9, 1e9)), min_size=1, max_size=300))
def test_the_sum_of_a_group_does_not_depend_on_the_others(rows: list[tuple[int, float]]) -> None:
    keys, values = np.array([k for k, _ in rows]), np.array([v for _, v in rows])
    groups = groups_of(keys)
    for group, row in enumerate(groups.first.tolist()):
        alone = values[keys == keys[row]]
        assert groups.sums(values)[group] == groups_of(np.zeros(len(alone), np.int64)).sums(alone)[0]
