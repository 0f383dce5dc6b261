"""Sets of time against a set of nanoseconds, one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from perflog.metrics.traces.intervals import Intervals, union

EPOCH = 1_682_725_897_226_747_123  # ns: what a double does not hold
BASES = st.sampled_from([0, EPOCH])
PAIRS = st.lists(st.tuples(st.integers(-30, 30), st.integers(-3, 15)), max_size=12)

Pairs = list[tuple[int, int]]


def of(pairs: Pairs, base: int = EPOCH) -> Intervals:
    starts = np.array([base + start for start, _ in pairs], np.int64)
    return union(starts, starts + np.array([length for _, length in pairs], np.int64))


def each(pairs: Pairs, base: int = EPOCH) -> set[int]:
    """Every nanosecond that they cover."""
    return {base + start + k for start, length in pairs for k in range(length)}


def members(found: Intervals) -> set[int]:
    return {t for start, end in zip(found.starts.tolist(), found.ends.tolist(), strict=True) for t in range(start, end)}


@given(PAIRS)
def test_a_union_is_disjoint_and_in_order(pairs: Pairs) -> None:
    found = of(pairs)
    assert members(found) == each(pairs) and found.length == len(each(pairs))
    assert (found.starts < found.ends).all() and (found.ends[:-1] < found.starts[1:]).all()


@given(PAIRS, PAIRS, BASES)
def test_algebra_is_that_of_sets(one: Pairs, two: Pairs, base: int) -> None:
    a, b, x, y = of(one, base), of(two, base), each(one, base), each(two, base)
    for found, want in ((a & b, x & y), (a | b, x | y), (a - b, x - y), (b - a, y - x)):
        assert members(found) == want and found.length == len(want)
        assert (found.starts < found.ends).all() and (found.ends[:-1] < found.starts[1:]).all()
    assert (a - b).length + (a & b).length == a.length


@given(PAIRS, PAIRS)
def test_what_lies_in_windows(pairs: Pairs, windows: Pairs) -> None:
    starts = np.array([EPOCH + start for start, _ in windows], np.int64)
    ends = starts + np.array([abs(length) for _, length in windows], np.int64)
    want = [len({t for t in each(pairs) if a <= t < b}) for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
    assert of(pairs).inside(starts, ends).tolist() == want


@given(PAIRS, PAIRS, PAIRS)
def test_the_parts_of_a_device_s_time_are_all_of_it(compute: Pairs, moving: Pairs, copies: Pairs) -> None:
    """Compute + exposed communication + exposed copies + idle = from the first start to the last end."""
    comp, comm, copy = map(of, (compute, moving, copies))
    busy = comp | comm | copy
    exposed = comm - comp
    if not busy.length:
        return
    span = int(busy.ends[-1] - busy.starts[0])
    idle = span - busy.length
    assert comp.length + exposed.length + (copy - (comp | comm)).length + idle == span
    work = each(compute) | each(moving) | each(copies)
    assert idle == sum(t not in work for t in range(min(work), max(work) + 1))
    assert exposed.length == len(each(moving) - each(compute))
    assert (comm & comp).length == len(each(moving) & each(compute))
