"""Repeated steps: how often each step of a run was printed, and how many steps a line covers.

In: the rows of step lines. Out: columns `copy` (k-th printing of the same step by the same rank) and `steps_averaged`
of table `steps`. Where the steps start again in each epoch, steps of two epochs are two steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct, field

from perflog.arrays import Bytes, Ints, Mask
from perflog.formats.model import NOT_KNOWN, RUNNING_MEAN, SINCE_PREVIOUS
from perflog.parsing.assemble.attributed_rows import NO_EPOCH, AttributedRows
from perflog.parsing.assemble.runs.run_state import RunIndex
from perflog.parsing.assemble.steps.step_windows import UNKNOWN, CoveredSteps

_DENSE = 1 << 24  # steps below it are counted in an array
_MOST_IN_ARRAY = 255  # what an element of the array can count


class StepRepeats(Struct):
    """The steps that one rank of a run has printed in an epoch, or all lines with an unknown rank together."""

    highest: int = -1
    counts: Bytes = field(default_factory=lambda: np.zeros(0, np.uint8))  # by step
    large_counts: dict[int, int] = field(default_factory=dict)  # the same where `counts` has no room for it

    def copies_of(self, steps: Ints) -> Ints:
        """Count the steps that are printed next, in log order. Return the k of each k-th printing, from 1."""
        copies = np.ones(len(steps), np.int64)
        all_new = bool((steps[1:] > steps[:-1]).all()) and int(steps[0]) > self.highest
        self.highest = max(self.highest, int(steps.max()))
        if all_new and int(steps[-1]) < _DENSE:
            self._counts_up_to(int(steps[-1]))[steps] = 1
            return copies
        for i, step in enumerate(steps.tolist()):
            dense = 0 <= step < _DENSE
            if dense and (counts := self._counts_up_to(step))[step] < _MOST_IN_ARRAY:
                counts[step] += 1
                copies[i] = counts[step]
            else:
                self.large_counts[step] = self.large_counts.get(step, _MOST_IN_ARRAY if dense else 0) + 1
                copies[i] = self.large_counts[step]
        return copies

    def _counts_up_to(self, step: int) -> Bytes:
        """Return the counts as an array that is long enough for `step`."""
        if step >= len(self.counts):
            longer = np.zeros(max(2 * len(self.counts), step + 1, 128), np.uint8)
            longer[: len(self.counts)] = self.counts
            self.counts = longer
        return self.counts


class StepCounter:
    """Counts the printed steps of each run, rank by rank: a step that two ranks print is printed once by each.

    `settled`: by position of a line, the steps that it covers, from an earlier reading of the log. `corrections`
    holds the same for the lines of this reading that were given another number.
    """

    def __init__(self, settled: Mapping[int, int]) -> None:
        self.corrections: dict[int, int] = {}
        self._settled = settled
        self._repeats: dict[int, dict[tuple[int, int], StepRepeats]] = {}  # by run, then by rank (-1: not known), epoch
        self._windows: dict[int, dict[int, CoveredSteps]] = {}  # by run, then by rank
        self._stepless: dict[int, int] = {}  # by run: lines so far without a known step
        self._stepless_at: dict[tuple[int, int], int] = {}  # by run and rank: the same at its last line with a step

    def fill(self, rows: Sequence[AttributedRows], runs: RunIndex) -> None:
        """Fill `copy` and `steps_averaged` of the step lines of a stretch, of any shape, in log order."""
        positions = np.concatenate([r.records.positions for r in rows])
        order = np.argsort(positions, kind="stable")
        positions = positions[order]
        steps = np.concatenate([r.step for r in rows])[order]
        known = np.concatenate([r.step_known for r in rows])[order]
        ranks = np.concatenate([r.ranks.rank for r in rows])[order]
        epochs = np.concatenate([r.epoch for r in rows])[order]
        covers = np.concatenate([r.covers for r in rows])[order]
        first_steps = np.concatenate([np.full(len(r), r.line.first_step or UNKNOWN) for r in rows])[order]
        in_epochs = any(r.line.within for r in rows)
        copies, spans = np.ones(len(positions), np.int64), covers.copy()  # SINCE_PREVIOUS is UNKNOWN
        for run, low, high in runs.split(positions):
            repeats, windows = self._repeats.setdefault(run.index, {}), self._windows.setdefault(run.index, {})
            with_step = np.arange(low, high)[known[low:high]]  # a line without a step repeats none
            for rank, selected in by_number(ranks[with_step]):
                rank_rows = with_step[selected]
                by_epoch = by_number(epochs[rank_rows]) if in_epochs else [(NO_EPOCH, slice(None))]
                for epoch, in_epoch in by_epoch:
                    rows_of_epoch = rank_rows[in_epoch]
                    printed = repeats.setdefault((rank, epoch), StepRepeats())
                    copies[rows_of_epoch] = printed.copies_of(steps[rows_of_epoch])
                rank_rows = rank_rows[covers[rank_rows] != RUNNING_MEAN]  # without summaries of the epoch
                since_previous = rank_rows[covers[rank_rows] <= SINCE_PREVIOUS]
                if len(since_previous):
                    columns = (column[rank_rows] for column in (positions, steps, epochs, first_steps))
                    covered = np.zeros(len(positions), np.int64)
                    covered[rank_rows] = windows.setdefault(rank, CoveredSteps()).read(*columns)
                    spans[since_previous] = covered[since_previous]
                    after = self._after_stepless(run.index, rank, rank_rows, known, low)
                    spans[after[np.isin(after, since_previous)]] = UNKNOWN
            self._stepless[run.index] = self._stepless.get(run.index, 0) + int((~known[low:high]).sum())
            if len(windows) > 1 and -1 in windows:  # a line that has lost its label may be of any rank
                lost = with_step[(ranks[with_step] == -1) & (covers[with_step] == SINCE_PREVIOUS)]
                spans[lost] = UNKNOWN
        for position in self._settled.keys() & set(positions.tolist()) if self._settled else ():
            spans[positions == position] = self._settled[position]
        is_unknown = (covers == RUNNING_MEAN) | ((covers == NOT_KNOWN) & (spans != 1))  # 1: all steps are printed
        spans = np.where(is_unknown, UNKNOWN, spans)
        index_in_order = np.empty_like(order)
        index_in_order[order] = np.arange(len(order))
        row_ends = np.cumsum([len(r) for r in rows])
        for row, indices in zip(rows, np.split(index_in_order, row_ends[:-1]), strict=True):
            row.copy, row.steps_averaged = copies[indices], spans[indices]

    def _after_stepless(self, run: int, rank: int, rows: Ints, known: Mask, first: int) -> Ints:
        """Return which lines of a rank follow a line without a known step: they cover less than to the step before."""
        before = self._stepless.get(run, 0)
        last = self._stepless_at.get((run, rank), before)
        stepless = before + np.cumsum(~known[first : int(rows[-1]) + 1])[rows - first]
        self._stepless_at[run, rank] = int(stepless[-1])
        after: Ints = rows[np.diff(stepless, prepend=last) > 0]
        return after

    def end(self, run: int) -> None:
        """Forget a run that has ended."""
        self._repeats.pop(run, None)
        self._stepless.pop(run, None)
        self._stepless_at = {key: count for key, count in self._stepless_at.items() if key[0] != run}
        for windows in self._windows.pop(run, {}).values():
            self.corrections |= {
                position: covered for position, covered in windows.corrections.items() if position not in self._settled
            }


def by_number(numbers: Ints) -> Iterator[tuple[int, slice | Ints]]:
    """Yield each number (a rank, -1 if not known) and where its rows are."""
    if not len(numbers):
        return
    if (numbers == numbers[0]).all():
        yield int(numbers[0]), slice(None)
        return
    order = np.argsort(numbers, kind="stable")
    starts = np.flatnonzero(np.diff(numbers[order])) + 1
    yield from zip(numbers[order[np.append(0, starts)]].tolist(), np.split(order, starts), strict=True)
