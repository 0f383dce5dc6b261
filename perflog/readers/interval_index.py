"""Innermost enclosing interval for each timestamp."""

from __future__ import annotations

from array import array

import numpy as np

from perflog.readers.event_columns import MISSING, Int64s

_BLOCK = 1 << 16  # intervals that are converted to Python integers at a time


class IntervalIndex:
    """Nested intervals on several lanes, such as the ranges of threads or the steps of processes.

    `lane`, `start`, `end` and `value` have one entry per interval; values are not negative. `parents` holds for each
    interval the value of the interval that encloses it, or -1.
    """

    def __init__(self, lane: Int64s, start: Int64s, end: Int64s, value: Int64s) -> None:
        self._lanes, lane_index = np.unique(lane, return_inverse=True)
        # Times are replaced by their rank among all starts and ends, so that lane and time fit into one integer
        # at any distance between the times.
        self._times = np.unique(np.concatenate([start, end]))
        self._width = len(self._times) + 1
        start, end = np.searchsorted(self._times, start), np.searchsorted(self._times, end)
        self.parents = np.full(len(lane), -1, np.int64)
        # The innermost value changes at `keys` (lane and time as one integer) to `values`.
        keys, values, parents = array("q"), array("q"), array("q")
        open_intervals: list[tuple[int, int]] = []  # end, value
        lane_key = 0

        def close_until(time: int) -> None:
            while open_intervals and open_intervals[-1][0] <= time:
                end = open_intervals.pop()[0]
                while open_intervals and open_intervals[-1][0] <= end:
                    open_intervals.pop()
                keys.append(lane_key + end)
                values.append(open_intervals[-1][1] if open_intervals else -1)

        order = np.lexsort((-end, start, lane_index))
        for block in np.array_split(order, len(order) // _BLOCK + 1):  # Python integers take much memory
            columns = lane_index[block] * self._width, start[block], end[block], value[block]
            for key, begin, stop, inner in zip(*(c.tolist() for c in columns), strict=True):
                if key != lane_key:
                    close_until(self._width)
                    lane_key = key
                close_until(begin)
                parents.append(open_intervals[-1][1] if open_intervals else -1)
                if stop > begin:
                    open_intervals.append((stop, inner))
                    keys.append(lane_key + begin)
                    values.append(inner)
        close_until(self._width)
        self.parents[order] = parents
        self._keys, self._values = np.array(keys, np.int64), np.array(values, np.int64)

    def find(self, lane: Int64s, time: Int64s) -> Int64s:
        """Return the value of the innermost interval at each time of a lane, or -1.

        An interval contains its start and not its end.
        """
        if not len(self._keys):
            return np.full(len(lane), -1, np.int64)
        lane_index = np.minimum(np.searchsorted(self._lanes, lane), len(self._lanes) - 1)
        time_rank = np.searchsorted(self._times, time, "right") - 1
        inside = (self._lanes[lane_index] == lane) & (time != MISSING) & (time_rank >= 0)
        # Every lane ends with a -1, so a time before the first interval of a lane finds the -1 of the lane before it.
        place = np.searchsorted(self._keys, lane_index * self._width + time_rank, "right") - 1
        return np.where(inside & (place >= 0), self._values[place], -1)
