"""Innermost enclosing interval for each timestamp."""

from __future__ import annotations

from array import array
from itertools import pairwise

import numpy as np

from perflog.arrays import Ints, Mask
from perflog.readers.events.event_columns import distinct_values

_BLOCK = 1 << 16  # intervals that are converted to Python integers at a time
_MOST_BY_RADIX = 1 << 16  # numbers that fit into two bytes, which numpy sorts by radix
_LARGEST = (1 << 63) - 1


class IntervalIndex:
    """Nested intervals on several lanes, such as the ranges of threads or the steps of processes.

    `lane`, `start`, `end` and `value` have one entry per interval; values are not negative. `parents` holds for each
    interval the value of the interval that encloses it, or -1.
    """

    def __init__(self, lane: Ints, start: Ints, end: Ints, value: Ints) -> None:
        self._lanes, lane_index = distinct_values(lane)
        self._clock = _Clock(start, end, len(self._lanes))
        base = lane_index * self._clock.width
        begins, stops = base + self._clock.numbers(start), base + self._clock.numbers(end)
        # The outer of two intervals that begin together comes first.
        in_order = bool((np.diff(begins) >= 0).all() and (np.diff(stops)[np.diff(begins) == 0] <= 0).all())
        order = np.arange(len(lane)) if in_order else np.lexsort((-stops, begins))
        begins, stops, value = begins[order], stops[order], value[order]
        changes = _changes_of_nested(begins, stops, value)
        if changes is None:
            changes = _changes_one_by_one(begins, stops, value)
        self._keys, self._values, parents = changes
        self.parents = np.empty(len(lane), np.int64)
        self.parents[order] = parents

    def find(self, lane: Ints, time: Ints) -> Ints:
        """Return the value of the innermost interval at each time of a lane, or -1.

        An interval contains its start and not its end.
        """
        if not len(self._keys):
            return np.full(len(lane), -1, np.int64)
        lane_index = np.minimum(np.searchsorted(self._lanes, lane), len(self._lanes) - 1)
        inside = (self._lanes[lane_index] == lane) & (time >= self._clock.first)  # MISSING is the least number
        # Every lane ends with a -1, so a time before the first interval of a lane finds the -1 of the lane before it.
        moments = lane_index * self._clock.width + self._clock.numbers(time)
        place = np.searchsorted(self._keys, moments, "right") - 1
        return np.where(inside & (place >= 0), self._values[place], -1)


class _Clock:
    """Times as numbers from 0 to `width`, in the order of the times, so that lane and time fit into one integer.

    The number of a time is its distance from the first start. Where that does not fit for all lanes, it is the
    rank of the time among all starts and ends.
    """

    def __init__(self, start: Ints, end: Ints, lanes: int) -> None:
        self.first, self._last = (int(start.min()), int(max(start.max(), end.max()))) if lanes else (0, 0)
        self.width = self._last - self.first + 1
        self._times: Ints | None = None
        if lanes * self.width > _LARGEST:
            # A stable sort merges sorted parts; np.unique is slower.
            times = np.sort(np.concatenate([start, end]), kind="stable")
            self._times = times[np.append(True, times[1:] != times[:-1])]
            self.width = len(self._times)

    def numbers(self, times: Ints) -> Ints:
        """Return the numbers of times: those before the first are as the first, those after the last as the last."""
        within: Ints = np.clip(times, self.first, self._last)
        return within - self.first if self._times is None else np.searchsorted(self._times, within, "right") - 1


_Changes = tuple[Ints, Ints, Ints]
"""Times (with their lanes) at which the innermost interval changes, in order; its value from then on, of several at one
time the last; and for each interval the value of the one around it. Where there is none, the value is -1.
"""


def nested_parents(begins: Ints, ends: Ints) -> tuple[Ints, Mask]:
    """Return the index of the innermost interval that contains each interval, or -1, and flags of wrong ones.

    The intervals have a length, and are in order of their begins, the outer first. The depth of one is the number of
    those that began before it and have not ended, and its parent is the last one before it of the depth above. Where
    intervals overlap, some parent does not contain its child: it is flagged. All between two moments at which nothing
    is open are right if none of them is flagged.
    """
    depths = np.arange(len(begins)) - np.searchsorted(np.sort(ends, kind="stable"), begins, "right")
    parents = np.full(len(begins), -1, np.int64)
    if not depths.any():
        return parents, np.zeros(len(begins), np.bool_)
    order = np.argsort(depths.astype(np.uint16) if int(depths.max()) < _MOST_BY_RADIX else depths, kind="stable")
    levels = np.split(order, np.flatnonzero(np.diff(depths[order])) + 1)
    for above, level in pairwise(levels):
        parents[level] = above[np.searchsorted(above, level) - 1]
    return parents, (parents >= 0) & (ends[parents] < ends)


def _changes_of_nested(begins: Ints, ends: Ints, values: Ints) -> _Changes | None:
    """Return the changes of nested intervals; None if some overlap and neither contains the other.

    The innermost value becomes the interval's own where it begins, and the value around it where it ends. Intervals of
    length 0 change nothing; only the value around them is looked up.

    Args:
        begins: Begin of each interval, in order; of equal begins the outer interval first.
        ends: End of each.
        values: Value of each.
    """
    is_long = ends > begins
    opens, closes, own = (column if is_long.all() else column[is_long] for column in (begins, ends, values))
    parents, wrong = nested_parents(opens, closes)
    if wrong.any():
        return None
    around = np.append(own, -1)[parents]  # parent -1 takes the last entry, -1
    # The last change at one time counts. Reversed, the inner interval comes first; a stable sort keeps that order for
    # equal ends, so the change of the outer one is last. Begins are after ends for the same reason.
    inner_first = np.argsort(closes[::-1], kind="stable")
    keys = np.concatenate([closes[::-1][inner_first], opens])
    order = np.argsort(keys, kind="stable")
    keys, changes = keys[order], np.concatenate([around[::-1][inner_first], own])[order]
    if is_long.all():
        return keys, changes, around
    all_around = np.empty(len(begins), np.int64)
    all_around[is_long] = around
    last_changes = np.searchsorted(keys, begins[~is_long], "right") - 1  # -1 before the first change
    all_around[~is_long] = np.append(changes, -1)[last_changes]
    return keys, changes, all_around


def _changes_one_by_one(begins: Ints, ends: Ints, values: Ints) -> _Changes:
    """Return the changes of any intervals: one that overlaps another one ends when that does."""
    keys, changes, parents = array("q"), array("q"), array("q")
    open_intervals: list[tuple[int, int]] = []  # end, value

    def close_until(time: int) -> None:
        while open_intervals and open_intervals[-1][0] <= time:
            end = open_intervals.pop()[0]
            while open_intervals and open_intervals[-1][0] <= end:
                open_intervals.pop()
            keys.append(end)
            changes.append(open_intervals[-1][1] if open_intervals else -1)

    for first in range(0, len(begins), _BLOCK):  # Python integers take much memory
        block = (column[first : first + _BLOCK].tolist() for column in (begins, ends, values))
        for begin, end, inner in zip(*block, strict=True):
            close_until(begin)
            parents.append(open_intervals[-1][1] if open_intervals else -1)
            if end > begin:
                open_intervals.append((end, inner))
                keys.append(begin)
                changes.append(inner)
    close_until(_LARGEST)
    return np.array(keys, np.int64), np.array(changes, np.int64), np.array(parents, np.int64)
