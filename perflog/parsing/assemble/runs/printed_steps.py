"""The steps that lines of a batch print, and where they begin again though no line says that a run begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from perflog.arrays import Floats, Ints
from perflog.formats.model import Line
from perflog.parsing.match.records import Records

_EPOCHS = ("epoch", "epch", "ep")  # names of counters that go on where the steps of each epoch start again

FEW = 3
"""Growing steps, after which steps may begin again."""

PLAIN = -1.0
"""Epoch of lines of steps that print neither an epoch nor a rank."""

_EPOCH = 1 << 32  # more steps than an epoch has
_MOST_BACK = 64  # of a batch


class PrintedSteps(NamedTuple):
    """The steps that lines of a batch print, in log order; steps of a later epoch are larger.

    `epochs`: the epochs that lines of steps without a rank print, `PLAIN` if they print none, NaN for all other lines.
    """

    positions: Ints
    steps: Ints
    epochs: Floats

    def between(self, positions: Ints) -> list[Ints]:
        """Return the steps that are printed before the first of some positions, between each two, after the last."""
        lows = [0, *np.searchsorted(self.positions, positions, "right").tolist()]
        highs = [*np.searchsorted(self.positions, positions).tolist(), len(self.positions)]
        return [self.steps[low:high] for low, high in zip(lows, highs, strict=True)]

    def first_after(self, position: int) -> tuple[int, int]:
        """Return the first step that is printed after a position, and its own position."""
        row = int(np.searchsorted(self.positions, position, "right"))
        return int(self.steps[row]), int(self.positions[row])


class Beginnings(Struct):
    """Where the steps of a log begin again, together with their epochs, though no line says that a run begins.

    Two trainings may be copied into one log. Not in a log with lines that begin runs, nor where steps are repeated in
    another way: several ranks may print them.
    """

    first: tuple[int, float] | None = None
    last: int = -1
    number: int = 0  # steps since then
    is_simple: bool = True

    def positions(self, steps: PrintedSteps, before: float) -> list[int]:
        """Return the positions of steps of a batch that begin again.

        `before`: the position of the first line that begins a run in another way.
        """
        found: list[int] = []
        known = steps.epochs >= 0
        positions, numbers, epochs = steps.positions[known], steps.steps[known], steps.epochs[known]
        if not self.is_simple or not len(numbers):
            return found
        if self.first is None:
            self.first, self.last = (int(numbers[0]), float(epochs[0])), int(numbers[0]) - 1
        begin = -self.number
        for k in np.flatnonzero(np.diff(numbers, prepend=self.last) <= 0).tolist():
            step, epoch = int(numbers[k]), float(epochs[k])
            is_first = step <= self.first[0] and epoch <= self.first[1]
            self.is_simple = is_first and k - begin >= FEW and positions[k] < before
            if not self.is_simple:
                return found
            found.append(int(positions[k]))
            self.first, begin = (step, epoch), k
        self.last, self.number = int(numbers[-1]), len(numbers) - begin
        return found


class StepsBack(Struct):
    """Where the steps of a log go back, as those of a job do that goes on from a checkpoint.

    Ranks that print the same step print it about together: what is less than the distance of two steps is none.
    """

    last: int = -1  # the greatest step since they went back

    def positions(self, steps: PrintedSteps) -> list[int]:
        """Return the positions of the first steps of a batch after they went back; at most some of many."""
        numbers, found, at = steps.steps, list[int](), 0
        distances = np.diff(numbers)
        stride = int(distances[distances > 0].min(initial=_EPOCH))
        while at < len(numbers) and len(found) < _MOST_BACK:
            greatest = np.maximum.accumulate(np.append(self.last, numbers[at:]))
            lower = np.flatnonzero(numbers[at:] < greatest[:-1] - stride)
            if not len(lower):
                self.last = int(greatest[-1])
                break
            at += int(lower[0])
            found.append(int(steps.positions[at]))
            self.last, at = int(numbers[at]), at + 1
        return found


def positions_in_run(records: Records, within: str | None) -> Ints:
    """Return the steps of records. If they start again in each epoch, a later epoch has larger steps."""
    epochs = records.columns.get(within or "")
    step: Ints = records.columns["step"]
    return step + epochs * _EPOCH if isinstance(epochs, np.ndarray) and epochs.dtype == np.int64 else step


def epochs_of(records: Records, line: Line) -> Floats:
    """Return the epochs that step lines print; PLAIN where they print none; NaN where they print a rank, of others."""
    is_of_run = line.table == "steps" and "rank" not in records.columns
    names = [name for name in (*_EPOCHS, line.within) if name in records.columns] if is_of_run else []
    columns = [records.columns[name] for name in names if name in _EPOCHS]
    printed = next((each for each in columns if isinstance(each, np.ndarray) and each.dtype.kind in "if"), None)
    if printed is not None:
        return printed.astype(np.float64)
    is_plain = is_of_run and not names and records.labels is None
    return np.full(len(records.positions), PLAIN if is_plain else np.nan)


def in_order(steps: Sequence[PrintedSteps]) -> PrintedSteps:
    """Return the steps of several lines in log order."""
    if not steps:
        return PrintedSteps(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
    positions, numbers, epochs = (np.concatenate(parts) for parts in zip(*steps, strict=True))
    order = np.argsort(positions, kind="stable")
    return PrintedSteps(positions[order], numbers[order], epochs[order])
