"""Columns of events, against Python's own dictionaries."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from perflog.readers.events.event_columns import MISSING, distinct_tuples


@given(st.lists(st.tuples(st.sampled_from([MISSING, -1, 0, 7, 1 << 62]), st.integers(-2, 2)), min_size=1, max_size=20))
def test_distinct_tuples_are_those_of_a_dictionary(drawn: list[tuple[int, int]]) -> None:
    first, index = distinct_tuples([np.array(column, np.int64) for column in zip(*drawn, strict=True)])
    assert sorted(drawn[row] for row in first) == sorted(set(drawn))
    assert all(drawn.index(drawn[row]) == row for row in first.tolist())
    assert [drawn[first[code]] for code in index.tolist()] == drawn
