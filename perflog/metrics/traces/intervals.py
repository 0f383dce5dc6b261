"""Sets of time: half-open intervals [start, end) in integer nanoseconds, exact, for a whole table at a time.

A set is stored as its disjoint pieces in order of time. So each operation is a search in a sorted array.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from msgspec import Struct

from perflog.arrays import Ints, Mask


class Intervals(Struct, frozen=True, dict=True):
    """A set of time, in ns, with `starts[i] < ends[i] < starts[i + 1]`. `union` makes one."""

    starts: Ints
    ends: Ints

    @cached_property
    def _before(self) -> Ints:
        """Total length of the pieces before each piece; the last element is the length of all."""
        return np.concatenate([[0], np.cumsum(self.ends - self.starts)])

    @property
    def length(self) -> int:
        """Time in the set, in ns."""
        return int(self._before[-1])

    def __and__(self, other: Intervals) -> Intervals:
        """Intersection: time in both sets."""
        if not len(self.starts) or not len(other.starts):
            return EMPTY
        return _combined(self, other, np.logical_and)

    def __or__(self, other: Intervals) -> Intervals:
        """Union: time in at least one of the sets."""
        if not len(self.starts) or not len(other.starts):
            return self if len(self.starts) else other
        return union(np.concatenate([self.starts, other.starts]), np.concatenate([self.ends, other.ends]))

    def __sub__(self, other: Intervals) -> Intervals:
        """Difference: time in this set and not in the other."""
        if not len(self.starts) or not len(other.starts):
            return self
        return _combined(self, other, np.greater)

    def inside(self, starts: Ints, ends: Ints) -> Ints:
        """Time of the set inside each window [start, end), in ns. Windows may overlap."""
        return self._until(ends) - self._until(starts)

    def _until(self, times: Ints) -> Ints:
        """Time of the set before each of these times."""
        if not len(self.starts):
            return np.zeros(len(times), np.int64)
        last_begun = np.searchsorted(self.starts, times, "right") - 1  # -1: no piece has begun
        piece = np.maximum(last_begun, 0)
        part = np.minimum(times, self.ends[piece]) - self.starts[piece]
        return np.where(last_begun < 0, 0, self._before[piece] + part)


def union(starts: Ints, ends: Ints) -> Intervals:
    """Return the set that intervals in any order cover. Intervals of length 0 cover nothing.

    Nothing is copied of intervals that are disjoint and in order.
    """
    positive = ends > starts
    if not positive.all():
        starts, ends = starts[positive], ends[positive]
    if not (starts[1:] >= starts[:-1]).all():
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
    if (starts[1:] > ends[:-1]).all():
        return Intervals(starts, ends)
    reach = np.maximum.accumulate(ends)
    first = np.ones(len(starts), np.bool_)
    first[1:] = starts[1:] > reach[:-1]  # no interval before reaches it
    last = np.append(first[1:], True)[: len(first)]
    return Intervals(starts[first], reach[last])


EMPTY = Intervals(np.zeros(0, np.int64), np.zeros(0, np.int64))
"""No time."""


def _combined(a: Intervals, b: Intervals, keep: Callable[[Mask, Mask], Mask]) -> Intervals:
    """Return the set of the intervals between neighbouring edges of a and b for which `keep(in a, in b)` is true."""
    edges = np.concatenate([a.starts, a.ends, b.starts, b.ends])
    order = np.argsort(edges, kind="stable")  # merges sorted parts
    points = edges[order]
    inside = keep(_has(a, order, 0), _has(b, order, 2 * len(a.starts)))
    last = np.append(points[1:] != points[:-1], True)[: len(points)]  # of the edges at one time
    points, inside = points[last], inside[last]
    change = np.diff(inside.astype(np.int8), prepend=np.int8(0))
    return Intervals(points[change > 0], points[change < 0])


def _has(a: Intervals, order: Ints, first: int) -> Mask:
    """Flag whether a time is in the set once all edges until then have been passed.

    The edges are passed in this order. Edges of the set are the starts, from index `first`, and then the ends.
    """
    count = len(a.starts)
    step = np.zeros(len(order), np.int8)
    step[first : first + count] = 1
    step[first + count : first + 2 * count] = -1
    flags: Mask = np.cumsum(step[order], dtype=np.int8) > 0
    return flags
