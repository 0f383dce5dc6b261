"""Sets of time: half-open intervals [start, end) in integer nanoseconds, exact, for a whole table at a time.

A set is stored as its disjoint pieces in order of time. So each operation is a search in a sorted array.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Intervals:
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
        return _combined(self, other, np.logical_and)

    def __or__(self, other: Intervals) -> Intervals:
        """Union: time in at least one of the sets."""
        return union(np.concatenate([self.starts, other.starts]), np.concatenate([self.ends, other.ends]))

    def __sub__(self, other: Intervals) -> Intervals:
        """Difference: time in this set and not in the other."""
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
    """Return the set that intervals in any order cover. Those without length cover nothing."""
    positive = ends > starts
    starts, ends = starts[positive], ends[positive]
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(ends[order])
    first = np.ones(len(starts), np.bool_)
    first[1:] = starts[1:] > reach[:-1]  # no interval before reaches it
    last = np.append(first[1:], True)[: len(first)]
    return Intervals(starts[first], reach[last])


def _combined(a: Intervals, b: Intervals, keep: Callable[[Flags, Flags], Flags]) -> Intervals:
    """Set of the stretches between neighbouring edges of a and b for which `keep(in a, in b)` is true."""
    points = np.sort(np.concatenate([a.starts, a.ends, b.starts, b.ends]), kind="stable")  # merges sorted parts
    points = points[np.append(True, points[1:] != points[:-1])[: len(points)]]
    inside = keep(_has(a, points[:-1]), _has(b, points[:-1]))
    edge = np.diff(np.concatenate([[0], inside.astype(np.int8), [0]]))
    return Intervals(points[np.flatnonzero(edge > 0)], points[np.flatnonzero(edge < 0)])


def _has(a: Intervals, times: Ints) -> Flags:
    """Flag the times that are in the set."""
    return np.searchsorted(a.starts, times, "right") > np.searchsorted(a.ends, times, "right")
