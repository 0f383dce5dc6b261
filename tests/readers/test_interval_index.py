"""The range around a moment, and the range around a range."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from perflog.readers.events.interval_index import IntervalIndex

RANGES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(0, 20)), max_size=12)


@examples(80)
@given(RANGES, st.lists(st.tuples(st.integers(0, 3), st.integers(-2, 70)), max_size=20))
def test_the_innermost_range_is_the_last_that_began_and_has_not_ended(
    ranges: list[tuple[int, int, int]], points: list[tuple[int, int]]
) -> None:
    nested: list[tuple[int, int, int]] = []  # lane, start, end: those that would overlap in part are left out
    for lane, start, length in ranges:
        new = (start, start + length)
        others = [(s, e) for x, s, e in nested if x == lane]
        if length and all(e <= new[0] or new[1] <= s or (s < new[0] and new[1] < e) or
                          (new[0] < s and e < new[1]) for s, e in others):  # fmt: skip
            nested.append((lane, *new))
    columns = [np.array([r[i] for r in nested], np.int64) for i in range(3)]
    index = IntervalIndex(columns[0], columns[1], columns[2], np.arange(len(nested)))

    def inner(lane: int, time: int, but: int = -1) -> int:
        inside = [(s, i) for i, (x, s, e) in enumerate(nested) if x == lane and s <= time < e and i != but]
        return max(inside)[1] if inside else -1

    values = index.find(np.array([p[0] for p in points], np.int64), np.array([p[1] for p in points], np.int64))
    assert values.tolist() == [inner(*p) for p in points]
    far = IntervalIndex(columns[0], columns[1] * 2**56, columns[2] * 2**56, np.arange(len(nested)))  # no overflow
    times = np.array([max(p[1], 0) * 2**56 for p in points], np.int64)
    assert far.find(np.array([p[0] for p in points], np.int64), times).tolist() == [
        inner(p[0], max(p[1], 0)) for p in points
    ]
    assert index.parents.tolist() == [inner(lane, start, i) for i, (lane, start, _) in enumerate(nested)]


def test_of_ranges_that_overlap_the_last_that_began_counts() -> None:
    ranges = [(0, 100), (10, 20), (15, 30), (16, 16), (40, 50), (110, 130), (120, 140)]
    starts, ends = (np.array(column, np.int64) for column in zip(*ranges, strict=True))
    index = IntervalIndex(np.zeros(len(ranges), np.int64), starts, ends, np.arange(len(ranges)))
    found = {5: 0, 10: 1, 15: 2, 19: 2, 25: 2, 30: 0, 45: 4, 100: -1, 125: 6, 135: 6, 140: -1}
    assert index.find(np.zeros(len(found), np.int64), np.array([*found])).tolist() == [*found.values()]
    assert index.parents.tolist() == [-1, 0, 1, 2, 0, -1, 5]


def test_ranges_without_length_are_in_others_and_around_none() -> None:
    ranges = [(0, 0), (5, 40), (5, 5), (10, 20), (20, 20), (30, 30), (40, 40)]
    starts, ends = (np.array(column, np.int64) for column in zip(*ranges, strict=True))
    index = IntervalIndex(np.zeros(len(ranges), np.int64), starts, ends, np.arange(len(ranges)))
    assert index.parents.tolist() == [-1, -1, 1, 1, 1, 1, -1]
    assert index.find(np.zeros(5, np.int64), np.array([0, 5, 20, 30, 40])).tolist() == [-1, 1, 1, 1, -1]
