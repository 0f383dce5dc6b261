"""Where the records of a stretch lie: their run, and the step whose closing line is behind them.

A stretch is cut at each closing line and at each start of a run; what lies between two cuts is one group. Kinds with
the same number of lines in every group (most kinds of a benchmark log) share one frame and its Arrow columns.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from perflog.parsing.assemble.scopes import Markers, behind
from perflog.parsing.match.numeric import Ints
from perflog.parsing.match.records import Records
from perflog.tables.arrow import number_array, word_array

if TYPE_CHECKING:
    import pyarrow as pa

Mask = npt.NDArray[np.bool_]


class StepGroups:
    """Run (place in the list of runs at hand), group number, and step of each record of a kind."""

    def __init__(self, run: Ints, group: Ints, step: Ints, known: Mask, ids: pa.Array) -> None:
        self.run, self.group, self.step, self.known = run, group, step, known
        self._ids = ids

    @cached_property
    def run_words(self) -> pa.Array:
        return word_array(self.run, self._ids)

    @cached_property
    def step_array(self) -> pa.Array:
        return number_array(self.step, self.known)


class StepGrouper:
    """Cuts a stretch of the log into groups. `edges` are the places where its runs begin."""

    def __init__(self, marks: Markers, edges: Ints, ids: pa.Array, first_group: int) -> None:
        self._ids, self._marks, self._edges, self._first = ids, marks, edges, first_group
        bounds = np.sort(np.concatenate([marks.at, edges[1:] - 1]))
        self._bounds = bounds[np.append(True, bounds[1:] != bounds[:-1])] if len(bounds) else bounds
        count = len(self._bounds) + 1
        self._run = np.empty(count, np.int64)
        self._run[:-1] = np.searchsorted(edges, self._bounds, "right") - 1
        self._run[-1] = len(edges) - 1
        self._step, self._known = np.zeros(count, np.int64), np.zeros(count, np.bool_)
        if len(marks.at):
            values, known = marks.numbers("step")
            segment = np.searchsorted(self._bounds, marks.at)
            self._step[segment], self._known[segment] = values, known
        self._shared: list[tuple[Ints, StepGroups]] = []
        self.next_group = first_group + count + len(marks.at) + 1

    def frame(self, records: Records) -> StepGroups:
        """The frame of a kind's records, shared if another kind is spread over the groups alike."""
        stops = np.searchsorted(records.places, self._bounds, "right")
        counts = np.diff(np.concatenate([[0], stops, [len(records)]]))
        for known, frame in self._shared:
            if np.array_equal(known, counts):
                return frame
        group = np.repeat(np.arange(self._first, self._first + len(counts)), counts)
        frame = StepGroups(
            np.repeat(self._run, counts),
            group,
            np.repeat(self._step, counts),
            np.repeat(self._known, counts),
            self._ids,
        )
        self._shared.append((counts, frame))
        return frame

    def per_rank(self, records: Records, mine: Ints, labels: Ints) -> StepGroups:
        """The frame where each stream closes its own steps: `mine` are the records' streams, `labels` the marks'."""
        run = np.searchsorted(self._edges, records.places, "right") - 1
        index = np.full(len(records), len(self._marks.at), np.int64)
        for who in np.unique(mine).tolist():
            own, theirs = np.flatnonzero(mine == who), np.flatnonzero(labels == who)
            index[own] = np.append(theirs, len(self._marks.at))[behind(records.places[own], self._marks.at[theirs])]
        inside = index < len(self._marks.at)
        safe = np.minimum(index, max(len(self._marks.at) - 1, 0))
        values, known = self._marks.numbers("step")
        if len(values):
            inside &= np.searchsorted(self._edges, self._marks.at[safe], "right") - 1 == run
        step = np.where(inside, values[safe], 0) if len(values) else np.zeros(len(records), np.int64)
        ok = inside & known[safe] if len(values) else inside
        group = self._first + np.where(inside, index, len(self._marks.at) + run)
        return StepGroups(run, group, step, ok, self._ids)


def label_of(records: Records) -> Ints:
    """Rank label of each record, -1 if none."""
    return np.full(len(records), -1, np.int64) if records.labels is None else records.labels
