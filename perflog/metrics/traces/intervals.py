"""Sets of time: half-open intervals [start, end) in whole nanoseconds, exact, a whole table at a time.

A set is kept as its disjoint pieces in order, so all that is asked of it is a search in a sorted array.
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
    """A set of time, in ns. `starts[i] < ends[i] < starts[i + 1]`: make one with `union`."""

    starts: Ints
    ends: Ints

    @cached_property
    def _before(self) -> Ints:
        """Length of all pieces before each piece, and behind the last of all of them."""
        return np.concatenate([[0], np.cumsum(self.ends - self.starts)])

    @property
    def length(self) -> int:
        """Time in the set, in ns."""
        return int(self._before[-1])

    def __and__(self, other: Intervals) -> Intervals:
        """Time in both."""
        return _combined(self, other, np.logical_and)

    def __or__(self, other: Intervals) -> Intervals:
        """Time in one or both."""
        return union(np.concatenate([self.starts, other.starts]), np.concatenate([self.ends, other.ends]))

    def __sub__(self, other: Intervals) -> Intervals:
        """Time in this and not in the other."""
        return _combined(self, other, np.greater)

    def inside(self, starts: Ints, ends: Ints) -> Ints:
        """How much of the set lies in each window [start, end), in ns; windows may overlap."""
        return self._until(ends) - self._until(starts)

    def _until(self, times: Ints) -> Ints:
        """How much of the set lies before each of these times."""
        if not len(self.starts):
            return np.zeros(len(times), np.int64)
        at = np.searchsorted(self.starts, times, "right") - 1  # the last piece that has begun; -1: none
        piece = np.maximum(at, 0)
        part = np.minimum(times, self.ends[piece]) - self.starts[piece]
        return np.where(at < 0, 0, self._before[piece] + part)


def union(starts: Ints, ends: Ints) -> Intervals:
    """The set that intervals cover together, in any order; one that does not end after its start covers nothing."""
    some = ends > starts
    starts, ends = starts[some], ends[some]
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(ends[order])
    first = np.ones(len(starts), np.bool_)
    first[1:] = starts[1:] > reach[:-1]  # nothing before reaches it
    last = np.append(first[1:], True)[: len(first)]
    return Intervals(starts[first], reach[last])


def _combined(a: Intervals, b: Intervals, keep: Callable[[Flags, Flags], Flags]) -> Intervals:
    """The time between neighbouring ends of pieces that is to be kept, told whether it is in a and in b."""
    points = np.sort(np.concatenate([a.starts, a.ends, b.starts, b.ends]), kind="stable")  # merges what is in order
    points = points[np.append(True, points[1:] != points[:-1])[: len(points)]]
    kept = keep(_has(a, points[:-1]), _has(b, points[:-1]))
    edge = np.diff(np.concatenate([[0], kept.astype(np.int8), [0]]))
    return Intervals(points[np.flatnonzero(edge > 0)], points[np.flatnonzero(edge < 0)])


def _has(a: Intervals, times: Ints) -> Flags:
    return np.searchsorted(a.starts, times, "right") > np.searchsorted(a.ends, times, "right")
