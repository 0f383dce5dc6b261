"""How many steps a line covers that averages over the steps since the line before it.

In: the printed steps of one rank of a run, in log order. Out: the number of steps of each line, `UNKNOWN` if nothing
states it.

A line covers the steps since the line before it. Two kinds of lines have no such line, and cover the interval of the
lines beside them:

- The first line of a run, and the first after the counter went back or started again. A resumed run does not count
  from 1. Only a format can say at which step the counter starts (`first_step`).
- A line after lost lines: its jump is a multiple of the interval before and after it.
"""

from __future__ import annotations

import numpy as np

from perflog.arrays import Ints, Mask

UNKNOWN = 0
"""Number of steps of a line where nothing states it."""

_MOST_LOST = 3  # intervals in a jump at the end of the lines, where only one side shows the interval
_AHEAD = 3  # lines after a line on which its window depends: a first line takes the window of the next, two jumps on
_BACK = 3  # lines before it: two jumps


def windows(steps: Ints, epochs: Ints, first_steps: Ints) -> Ints:
    """Return how many steps each line covers. No line has the step of the line before it.

    Args:
        steps: The printed steps.
        epochs: The epoch of each.
        first_steps: By line, the step at which its counter starts; UNKNOWN if its format does not say so.
    """
    first = _starts(steps, epochs)
    jumps = np.diff(steps, prepend=0)
    jumps[first] = steps[first]
    stretch = np.cumsum(first, dtype=np.int64)
    back, second_back, ahead, second_ahead = (_beside(jumps, stretch, by) for by in (-1, -2, 1, 2))
    covered = jumps.copy()
    for interval in (ahead, back, second_ahead):  # the first that both sides have
        whole = np.maximum(interval, 1)
        before = (back == interval) | ((back % whole == 0) & (second_back == interval))
        after = (ahead == interval) | ((ahead % whole == 0) & (second_ahead == interval))
        both = before & after
        one_side = np.where(ahead == 0, back == second_back, (second_back == 0) & (ahead == second_ahead)) & (
            before | after
        )
        one_side &= jumps <= _MOST_LOST * interval
        lost = (both | one_side) & (interval > 0) & (interval < covered) & (covered % np.maximum(interval, 1) == 0)
        covered = np.where(lost & ~first, interval, covered)
    for i in np.flatnonzero(first).tolist():
        covered[i] = _of_first_line(i, steps, first, first_steps, covered)
    return covered


def _starts(steps: Ints, epochs: Ints) -> Mask:
    """Return which lines are the first, or the first after the counter went back or started again."""
    first = np.ones(len(steps), np.bool_)
    first[1:] = (steps[1:] < steps[:-1]) | (epochs[1:] != epochs[:-1])
    return first


def _beside(jumps: Ints, stretch: Ints, by: int) -> Ints:
    """Return the jump of the line `by` lines on in the same stretch, 0 if there is none.

    The first line of a stretch has the jump from 0, which is the interval of a run that was not resumed.
    """
    at = np.arange(len(jumps)) + by
    inside = (at >= 0) & (at < len(jumps))
    at = np.where(inside, at, 0)
    return np.where(inside & (stretch[at] == stretch), jumps[at], 0)


def _of_first_line(i: int, steps: Ints, first: Mask, first_steps: Ints, covered: Ints) -> int:
    """Return what the first line of a stretch covers: the interval of its neighbours, but no more steps than passed."""
    step, start = int(steps[i]), int(first_steps[i])
    if start != UNKNOWN and step >= start:
        return step - start + 1
    if step <= 1:
        return 1
    followed = i + 1 < len(steps) and not first[i + 1]
    interval = int(covered[i + 1]) if followed else int(covered[i - 1]) if i else UNKNOWN
    return min(interval, step)


class CoveredSteps:
    """Counts the steps that the lines of a rank cover, stretch by stretch. Lines that repeat a step cover what it did.

    A window depends on lines after it. Where those come with a later stretch and change it, `corrections` holds the
    number of steps by position.
    """

    def __init__(self) -> None:
        self.corrections: dict[int, int] = {}
        self._last = np.empty((5, 0), np.int64)  # of the last lines: position, step, epoch, first step, window given

    def read(self, positions: Ints, steps: Ints, epochs: Ints, first_steps: Ints) -> Ints:
        """Return how many steps each of the next lines covers."""
        known = self._last.shape[1]
        lines = np.hstack([self._last, [positions, steps, epochs, first_steps, np.zeros_like(positions)]])
        changes = (np.diff(lines[1]) != 0) | (np.diff(lines[2]) != 0)
        distinct = np.append(True, changes)
        order = np.cumsum(distinct) - 1  # the lines that repeat a step count as one
        covered = windows(lines[1][distinct], lines[2][distinct], lines[3][distinct])[order]
        if known:
            open_ = np.flatnonzero((order[:known] > order[known - 1] - _AHEAD) & (covered[:known] != lines[4][:known]))
            self.corrections |= zip(lines[0][open_].tolist(), covered[open_].tolist(), strict=True)
        lines[4] = covered
        self._last = lines[:, order > order[-1] - _AHEAD - _BACK].copy()
        new: Ints = covered[known:]
        return new
