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
_LATEST = 32  # lines of a rank before its first one that averages


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
        self._windows: dict[int, CoveredSteps] = {}  # by run
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
        averages = np.isin(covers, (SINCE_PREVIOUS, NOT_KNOWN)).astype(np.int64)
        in_epochs = any(r.line.within for r in rows)
        copies, spans = np.ones(len(positions), np.int64), covers.copy()  # SINCE_PREVIOUS is UNKNOWN
        for run, low, high in runs.split(positions):
            repeats = self._repeats.setdefault(run.index, {})
            windows = self._windows.setdefault(run.index, CoveredSteps())
            with_step = np.arange(low, high)[known[low:high]]  # a line without a step repeats none
            latest = [with_step[:0]]
            for rank, selected in by_number(ranks[with_step]):
                rank_rows = with_step[selected]
                latest.append(rank_rows[-_LATEST:])
                by_epoch = by_number(epochs[rank_rows]) if in_epochs else [(NO_EPOCH, slice(None))]
                for epoch, in_epoch in by_epoch:
                    rows_of_epoch = rank_rows[in_epoch]
                    printed = repeats.setdefault((rank, epoch), StepRepeats())
                    copies[rows_of_epoch] = printed.copies_of(steps[rows_of_epoch])
            is_needed = bool(windows.ranks) or averages[with_step].any()
            covering = with_step if is_needed else np.sort(np.concatenate(latest))
            covering = covering[covers[covering] != RUNNING_MEAN]  # without summaries of the epoch
            if len(covering):
                columns = (column[covering] for column in (ranks, positions, steps, epochs, first_steps, averages))
                covered = windows.read(*columns)
                covered[self._are_after_stepless(run.index, ranks[covering], covering, known, low)] = UNKNOWN
                since_previous = averages[covering] == 1
                spans[covering[since_previous]] = covered[since_previous]
            self._stepless[run.index] = self._stepless.get(run.index, 0) + int((~known[low:high]).sum())
            if -1 in windows.ranks != {-1}:  # a line that has lost its label may be of any rank
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

    def _are_after_stepless(self, run: int, ranks: Ints, rows: Ints, known: Mask, first: int) -> Mask:
        """Flag lines of ranks after a line without a known step: they cover less than to the step before."""
        before = self._stepless.get(run, 0)
        stepless = before + np.cumsum(~known[first : int(rows[-1]) + 1])[rows - first]
        after = np.zeros(len(rows), np.bool_)
        if not stepless[-1]:
            self._stepless_at |= dict.fromkeys(((run, rank) for rank in np.unique(ranks).tolist()), 0)
            return after
        for rank, selected in by_number(ranks):
            last = self._stepless_at.get((run, rank), before)
            after[selected] = np.diff(stepless[selected], prepend=last) > 0
            self._stepless_at[run, rank] = int(stepless[selected][-1])
        return after

    def end(self, run: int) -> None:
        """Forget a run that has ended."""
        self._repeats.pop(run, None)
        self._stepless.pop(run, None)
        self._stepless_at = {key: count for key, count in self._stepless_at.items() if key[0] != run}
        windows = self._windows.pop(run, CoveredSteps())
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
