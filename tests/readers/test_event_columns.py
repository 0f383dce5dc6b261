"""Columns of events, against Python's own dictionaries."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from perflog.readers.events.event_columns import (
    KIND_CODE,
    KINDS,
    MISSING,
    distinct_rows,
    distinct_tuples,
    distinct_values,
    durations_between,
    missing_numbers,
    on_device,
    rows_by_number,
    shift_starts,
)

MOST = np.iinfo(np.int64).max


@given(st.lists(st.tuples(st.sampled_from([MISSING, -1, 0, 7, 1 << 62]), st.integers(-2, 2)), min_size=1, max_size=20))
def test_distinct_tuples_are_those_of_a_dictionary(drawn: list[tuple[int, int]]) -> None:
    first, index = distinct_tuples([np.array(column, np.int64) for column in zip(*drawn, strict=True)])
    assert sorted(drawn[row] for row in first) == sorted(set(drawn))
    assert all(drawn.index(drawn[row]) == row for row in first.tolist())
    assert [drawn[first[code]] for code in index.tolist()] == drawn


def test_rows_of_numbers() -> None:
    """Of one number, in a small range, which is counted, and in a large one, which is sorted."""
    for numbers in ([], [7], [7, 7, 7], [9, 7, 9, 8], [0, 1 << 16, 0], [0, (1 << 16) - 1, 5], [MISSING, 3, MISSING]):
        column = np.array(numbers, np.int64)
        distinct = sorted(set(numbers))
        values, index = distinct_values(column)
        assert (values.tolist(), values[index].tolist()) == (distinct, numbers)
        first, code = distinct_rows(column)
        assert first.tolist() == [numbers.index(number) for number in distinct]
        assert column[first][code].tolist() == numbers
        assert [(number, rows.tolist()) for number, rows in rows_by_number(column)] == [
            (number, [k for k, other in enumerate(numbers) if other == number]) for number in distinct
        ]


def test_missing_numbers_are_shared_and_cannot_be_changed() -> None:
    for count in (0, 1, 2, 3, 5, 64, 65):
        column = missing_numbers(count)
        assert column.tolist() == [MISSING] * count and not column.flags.writeable
    assert missing_numbers(5).base is missing_numbers(8).base


def test_durations_are_known_of_known_times_that_fit() -> None:
    starts, ends = zip(
        (3, 10), (10, 3), (MISSING, 3), (3, MISSING), (-5, MOST), (5, MOST), (MOST, -5), (0, 0), strict=True
    )
    lengths = durations_between(np.array(starts), np.array(ends))
    assert lengths.tolist() == [7, -7, MISSING, MISSING, MISSING, MOST - 5, MISSING, 0]


def test_starts_on_another_clock() -> None:
    starts = np.array([1, MISSING, MOST - 10, MOST - 9])
    assert shift_starts(starts, 0) is starts
    assert shift_starts(starts, 10).tolist() == [11, MISSING, MOST, MISSING]


def test_which_kinds_run_on_a_device() -> None:
    flags = on_device(np.array([-1, *range(len(KINDS))]))
    assert {KINDS[code - 1] for code in np.flatnonzero(flags)} == {"kernel", "graph", "memcpy", "memset", "sync"}
    assert not flags[0] and KIND_CODE["kernel"] == 0
