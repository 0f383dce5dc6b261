"""How many steps a line covers that averages over the steps since the line before it.

In: the printed steps of the ranks of a run, in log order. Out: the number of steps of each line, `UNKNOWN` if nothing
states it.

A line covers the steps since the line before it. Two kinds of lines have no such line, and cover the interval of the
lines beside them:

- The first line of a run, and the first after the counter went back or started again. A resumed run does not count
  from 1. Only a format can say at which step the counter starts (`first_step`), or that its program prints the first
  step of a start for its own, and again as part of the interval that ends at the next line (`COUNTED_AGAIN`).
- A line after lost lines: its jump is a multiple of the interval before and after it.
"""

from __future__ import annotations

import numpy as np

from perflog.arrays import Ints, Mask
from perflog.formats.model import COUNTED_AGAIN

UNKNOWN = 0
"""Number of steps of a line where nothing states it."""

_MOST_LOST = 3  # intervals in a jump at the end of the lines, where only one side shows the interval
_AHEAD = 3  # lines after a line on which its window depends: a first line takes the window of the next, two jumps on
_BACK = 3  # lines before it: two jumps


def windows(ranks: Ints, steps: Ints, epochs: Ints, first_steps: Ints) -> Ints:
    """Return how many steps each line covers. No line has the step of the line before it.

    Args:
        ranks: The rank that printed each line; the lines of a rank are together.
        steps: The printed steps.
        epochs: The epoch of each.
        first_steps: By line, the step at which its counter starts; UNKNOWN if its format does not say so;
            COUNTED_AGAIN for a program that prints the first step of a start beside the interval that it belongs to.
    """
    first = _starts(ranks, steps, epochs)
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
        has_line_before = i > 0 and ranks[i - 1] == ranks[i]
        covered[i] = _of_first_line(i, steps, first, first_steps, covered, has_line_before)
        if first_steps[i] == COUNTED_AGAIN and _is_beside_interval(i, steps, first):
            covered[i], covered[i + 1] = 1, steps[i + 1] - steps[i] + 1
    return covered


def _is_beside_interval(i: int, steps: Ints, first: Mask) -> bool:
    """Return whether the first line of a stretch is at no end of an interval, and the next lines are.

    Where the next line is of the next step, two equal intervals show it: `1, 2, 4` may have lost a line.
    """
    following = np.flatnonzero(np.append(first[i + 1 : i + 4], True))[0]
    jumps = np.diff(steps[i : i + 1 + following]).tolist()
    if len(jumps) < 2 + (jumps[:1] == [1]):
        return False
    interval = jumps[1]
    ends = [step % interval for step in steps[i : i + 1 + following].tolist()]
    return jumps[0] < interval and ends[0] != 0 and not any(ends[1:])


def _starts(ranks: Ints, steps: Ints, epochs: Ints) -> Mask:
    """Return which lines are the first of a rank, or the first after its counter went back or started again."""
    first = np.ones(len(steps), np.bool_)
    first[1:] = (np.diff(ranks) != 0) | (np.diff(steps) < 0) | (np.diff(epochs) != 0)
    return first


def _beside(jumps: Ints, stretch: Ints, by: int) -> Ints:
    """Return the jump of the line `by` lines on in the same stretch, 0 if there is none.

    The first line of a stretch has the jump from 0, which is the interval of a run that was not resumed.
    """
    at = np.arange(len(jumps)) + by
    inside = (at >= 0) & (at < len(jumps))
    at = np.where(inside, at, 0)
    return np.where(inside & (stretch[at] == stretch), jumps[at], 0)


def _of_first_line(i: int, steps: Ints, first: Mask, first_steps: Ints, covered: Ints, has_line_before: bool) -> int:
    """Return what the first line of a stretch covers: the interval of its neighbours, but no more steps than passed."""
    step, start = int(steps[i]), int(first_steps[i])
    if start not in (UNKNOWN, COUNTED_AGAIN) and step >= start:
        return step - start + 1
    if step <= 1:
        return 1
    followed = i + 1 < len(steps) and not first[i + 1]
    interval = int(covered[i + 1]) if followed else int(covered[i - 1]) if has_line_before else UNKNOWN
    return min(interval, step)


class CoveredSteps:
    """Counts the steps that the lines of each rank cover, stretch by stretch. Lines that repeat a step cover what it
    did. Lines of all shapes are lines before and after a line that averages.

    A window depends on lines after it. Where those come with a later stretch and change it, `corrections` holds the
    number of steps by position.
    """

    def __init__(self) -> None:
        self.corrections: dict[int, int] = {}
        self.ranks: set[int] = set()  # with lines so far that average
        # of the last lines of each rank: rank, position, step, epoch, first step, whether it averages, window given
        self._last = np.empty((7, 0), np.int64)

    def read(self, ranks: Ints, positions: Ints, steps: Ints, epochs: Ints, first_steps: Ints, averages: Ints) -> Ints:
        """Return how many steps each of the next lines covers: those with 1 in `averages`; others have any number."""
        self.ranks |= {*ranks[averages == 1].tolist()}
        goes_on = np.isin(self._last[0], ranks)
        known = int(goes_on.sum())
        new = [ranks, positions, steps, epochs, first_steps, averages, np.zeros_like(positions)]
        lines = np.hstack([self._last[:, goes_on], new])
        by_rank = np.argsort(lines[0], kind="stable")
        lines, is_old = lines[:, by_rank], by_rank < known
        is_first = np.append(True, np.diff(lines[0]) != 0)
        distinct = is_first | np.append(True, (np.diff(lines[2]) != 0) | (np.diff(lines[3]) != 0))
        order = np.cumsum(distinct) - 1  # the lines that repeat a step count as one
        covered = lines[6]
        if self.ranks:
            covered = windows(lines[0][distinct], *(column[distinct] for column in lines[2:5]))[order]
        starts = np.flatnonzero(is_first)
        sizes = np.diff(np.append(starts, len(order)))
        last_old = np.repeat(np.maximum.reduceat(np.where(is_old, order, -1), starts), sizes)
        open_ = is_old & (order > last_old - _AHEAD) & (covered != lines[6]) & (lines[5] == 1)
        self.corrections |= zip(lines[1][open_].tolist(), covered[open_].tolist(), strict=True)
        lines[6] = covered
        last = np.repeat(order[starts + sizes - 1], sizes)
        self._last = np.hstack([self._last[:, ~goes_on], lines[:, order > last - _AHEAD - _BACK]])
        in_order = np.empty(len(covered), np.int64)
        in_order[by_rank] = covered
        return in_order[known:]
