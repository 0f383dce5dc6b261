"""What is around a point in time: the innermost of the ranges of a thread, the step of a process."""

from __future__ import annotations

from array import array

import numpy as np
import numpy.typing as npt

from perflog.readers.columns import NONE

_BLOCK = 1 << 16  # ranges at a time

Ints = npt.NDArray[np.int64]


class Around:
    """Ranges of several lanes (threads, or processes): `find` gives the innermost at a time of a lane.

    `lane`, `start`, `end`, `value` are alike long. `parents` are the values of the ranges around each; -1: none.
    """

    def __init__(self, lane: Ints, start: Ints, end: Ints, value: Ints) -> None:
        self._lanes, index = np.unique(lane, return_inverse=True)
        # Times by their place among all begins and ends: lanes and times fit into one number, however far apart.
        self._times = np.unique(np.concatenate([start, end]))
        self._width = len(self._times) + 1
        start, end = np.searchsorted(self._times, start), np.searchsorted(self._times, end)
        self.parents = np.full(len(lane), -1, np.int64)
        at, values, parents = array("q"), array("q"), array("q")
        stack: list[tuple[int, int]] = []  # end, value
        base = 0

        def leave(until: int) -> None:
            while stack and stack[-1][0] <= until:
                end = stack.pop()[0]
                while stack and stack[-1][0] <= end:
                    stack.pop()
                at.append(base + end)
                values.append(stack[-1][1] if stack else -1)

        order = np.lexsort((-end, start, index))
        for some in np.array_split(order, len(order) // _BLOCK + 1):  # Python's integers take room
            columns = index[some] * self._width, start[some], end[some], value[some]
            for lane_base, begin, stop, what in zip(*(c.tolist() for c in columns), strict=True):
                if lane_base != base:
                    leave(self._width)
                    base = lane_base
                leave(begin)
                parents.append(stack[-1][1] if stack else -1)
                if stop > begin:
                    stack.append((stop, what))
                    at.append(base + begin)
                    values.append(what)
        leave(self._width)
        self.parents[order] = parents
        self._at, self._values = np.array(at, np.int64), np.array(values, np.int64)

    def find(self, lane: Ints, time: Ints) -> Ints:
        """The value of the innermost range at each time of a lane, or -1. Its start is in a range, its end is not."""
        if not len(self._at):
            return np.full(len(lane), -1, np.int64)
        index = np.minimum(np.searchsorted(self._lanes, lane), len(self._lanes) - 1)
        offset = np.searchsorted(self._times, time, "right") - 1
        inside = (self._lanes[index] == lane) & (time != NONE) & (offset >= 0)
        # All ranges of a lane end within it: before its first range stands the -1 behind the last of the lane before.
        place = np.searchsorted(self._at, index * self._width + offset, "right") - 1
        return np.where(inside & (place >= 0), self._values[place], -1)
