"""Levels of detail: merged spans hold all events, and nothing is made longer than its grain."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from perflog.metrics.traces.over_time.merged_spans import Spans, grain_for, merged, spans_of

EVENTS = st.lists(
    st.tuples(st.integers(-500, 5000), st.integers(0, 400), st.integers(0, 3), st.integers(0, 5)), min_size=1
)
GRAINS = st.integers(0, 600)


def spans(events: list[tuple[int, int, int, int]]) -> Spans:
    starts, lengths, kinds, names = np.array(events, np.int64).T
    return spans_of(starts, starts + lengths, kinds, names)


@given(EVENTS, GRAINS)
def test_merged_spans_are_the_groups_of_short_neighbours(events: list[tuple[int, int, int, int]], grain: int) -> None:
    """Beside groups that are formed one event at a time."""
    groups: list[list[tuple[int, int, int, int]]] = []
    begin = min((e[0] for e in events if e[1] > 0), default=0)
    cell = {e[0]: (e[0] - min(begin, 0)) // max(grain, 1) for e in events}
    for event in sorted((e for e in events if e[1] > 0), key=lambda e: e[0]):
        last = groups[-1][-1] if groups else None
        joins = last and grain and max(last[1], event[1]) < grain and cell[last[0]] == cell[event[0]]
        if joins:
            groups[-1].append(event)
        else:
            groups.append([event])
    found = merged(spans(events), grain)
    assert found.starts.tolist() == [group[0][0] for group in groups]
    assert found.ends.tolist() == [max(start + length for start, length, _, _ in group) for group in groups]
    assert found.events.tolist() == [len(group) for group in groups]
    for group, kind, name, time in zip(groups, found.kinds, found.names, found.times, strict=True):
        times: dict[int, int] = defaultdict(int)
        for _, length, of_kind, _ in group:
            times[of_kind] += length
        assert time == max(times.values()) == times[kind]
        longest = max(length for _, length, of_kind, _ in group if of_kind == kind)
        assert (longest, kind, name) in {event[1:] for event in group}


@given(EVENTS, st.integers(1, 30))
def test_the_grain_is_the_smallest_that_leaves_few_enough(events: list[tuple[int, int, int, int]], most: int) -> None:
    one = spans(events)
    grain = grain_for([one, one], most)
    assert 2 * len(merged(one, grain)) <= max(most, 2) or not len(one)
    smaller = [0, *(256 << k for k in range(40) if 256 << k < grain)]
    assert all(2 * len(merged(one, each)) > max(most, 2) for each in smaller if each < grain)


def test_spans_on_both_sides_of_time_0_can_be_merged() -> None:
    one = spans([(-1, 1, 0, 0), (0, 1, 0, 0)])
    assert grain_for([one, one], 2) == 256
    assert len(merged(one, 256)) == 1


@given(EVENTS, st.integers(-600, 5000), st.integers(1, 3000))
def test_a_window_cuts_the_spans_at_its_ends(events: list[tuple[int, int, int, int]], start: int, length: int) -> None:
    inside, whole = spans(events).inside(start, start + length), spans(events)
    cut = np.minimum(whole.ends, start + length) - np.maximum(whole.starts, start)
    assert (inside.ends - inside.starts).tolist() == cut[cut > 0].tolist() == inside.times.tolist()
