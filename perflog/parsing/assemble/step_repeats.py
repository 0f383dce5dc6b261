"""Repeated steps: how often each step of a run was printed, and how many steps a line covers.

In: the rows of step lines. Out: columns `copy` (k-th printing of the same step by the same rank) and `steps_averaged`
of table `steps`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from perflog.formats.model import SINCE_PREVIOUS
from perflog.parsing.assemble.line_rows import LineRows
from perflog.parsing.assemble.run_state import RunIndex
from perflog.parsing.match.numeric import Ints

_DENSE = 1 << 24  # steps below it are counted in an array
_MOST_IN_ARRAY = 255  # what an element of the array can count


@dataclass
class StepRepeats:
    """The steps that one rank of a run has printed; those of all lines together whose rank is not known."""

    first_step: int | None = None
    last_step: int = 0
    last_span: int = 1  # steps that the last line covers
    highest: int = -1
    counts: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))  # by step
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

    def spans_of(self, steps: Ints) -> Ints:
        """Return how many steps each line covers: all since the step printed before it, counted from 1.

        A counter that goes back to the first step of the run (the next epoch) covers as many steps as that line did.
        """
        spans = np.ones(len(steps), np.int64)
        last, span = self.last_step, self.last_span
        for i, step in enumerate(steps.tolist()):
            if self.first_step is None:
                self.first_step = step
            if step != last:
                span = step - last if step > last else step if step == self.first_step else 1
                last = step
            spans[i] = span
        self.last_step, self.last_span = last, span
        return spans

    def _counts_up_to(self, step: int) -> npt.NDArray[np.uint8]:
        """Return the counts as an array that is long enough for `step`."""
        if step >= len(self.counts):
            longer = np.zeros(max(2 * len(self.counts), step + 1, 128), np.uint8)
            longer[: len(self.counts)] = self.counts
            self.counts = longer
        return self.counts


class StepCounter:
    """Counts the printed steps of each run, rank by rank: a step that two ranks print is printed once by each."""

    def __init__(self) -> None:
        self._repeats: dict[int, dict[int, StepRepeats]] = {}  # by number of the run, then by rank; -1: not known

    def fill(self, rows: Sequence[LineRows], runs: RunIndex) -> None:
        """Fill `copy` and `steps_averaged` of the step lines of a stretch, of any shape, in log order."""
        places = np.concatenate([r.records.places for r in rows])
        order = np.argsort(places, kind="stable")
        steps = np.concatenate([r.step for r in rows])[order]
        known = np.concatenate([r.step_known for r in rows])[order]
        ranks = np.concatenate([r.ranks.rank for r in rows])[order]
        covers = np.concatenate([np.full(len(r), r.line.covers) for r in rows])[order]
        copies, spans = np.ones(len(places), np.int64), np.maximum(covers, 1)
        for run, low, high in runs.split(places[order]):
            repeats = self._repeats.setdefault(run.index, {})
            with_step = np.arange(low, high)[known[low:high]]  # a line without a step repeats none
            for rank, selected in by_rank(ranks[with_step]):
                of_rank = with_step[selected]
                printed = repeats.setdefault(rank, StepRepeats())
                copies[of_rank] = printed.copies_of(steps[of_rank])
                since_previous = covers[of_rank] == SINCE_PREVIOUS
                if since_previous.any():
                    spans[of_rank[since_previous]] = printed.spans_of(steps[of_rank])[since_previous]
        position = np.empty_like(order)
        position[order] = np.arange(len(order))
        ends = np.cumsum([len(r) for r in rows])
        for row, positions in zip(rows, np.split(position, ends[:-1]), strict=True):
            row.copy, row.steps_averaged = copies[positions], spans[positions]

    def end(self, run: int) -> None:
        """Forget a run that has ended."""
        self._repeats.pop(run, None)


def by_rank(ranks: Ints) -> Iterator[tuple[int, slice | Ints]]:
    """Yield each rank (-1: not known) and where its rows are."""
    if not len(ranks):
        return
    if (ranks == ranks[0]).all():
        yield int(ranks[0]), slice(None)
        return
    for rank in np.unique(ranks).tolist():
        yield rank, np.flatnonzero(ranks == rank)
