"""Groups of records that belong to one step: those between two closing lines of one run.

In: the records of a stretch of the log, by kind, and its closing lines. Out: for each record its run, the number of its
group, and the step that the closing line of the group prints.

Kinds that have the same number of records in every group (most kinds of a benchmark log) share one `StepGroups` and its
Arrow columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from perflog.arrays import Ints, Mask
from perflog.formats.model import Line
from perflog.parsing.assemble.ranks.rank_streams import StreamOf
from perflog.parsing.assemble.runs.run_state import RunIndex
from perflog.parsing.assemble.scopes import closing_markers, next_marker
from perflog.parsing.match.records import Records
from perflog.tables.arrow import number_array, word_array

if TYPE_CHECKING:
    import pyarrow as pa


class StepGroups:
    """Run (its position among the runs at hand), group number and step of each record of a kind."""

    def __init__(self, runs: RunIndex, run: Ints, number: Ints, step: Ints, step_known: Mask) -> None:
        self.run, self.number, self.step, self.step_known = run, number, step, step_known
        self._runs = runs

    @classmethod
    def joined(cls, parts: Sequence[StepGroups], order: Ints) -> StepGroups:
        """Return the groups of several kinds' records together, in an order of all of them."""
        columns = zip(*((part.run, part.number, part.step, part.step_known) for part in parts), strict=True)
        return cls(parts[0]._runs, *(np.concatenate(column)[order] for column in columns))

    @cached_property
    def run_number(self) -> Ints:
        """Number in the log of the run of each record."""
        return self.run + self._runs.first_number

    @cached_property
    def run_words(self) -> pa.Array:
        """Column `run`."""
        return word_array(self.run, self._runs.numbers)

    @cached_property
    def step_array(self) -> pa.Array:
        """Column `step`."""
        return number_array(self.step, self.step_known)


class StepGrouper:
    """Cuts a stretch of the log into groups, at each closing line and at each start of a run.

    Args:
        closing: The records of the lines that close steps.
        runs: The runs that the stretch lies in.
        first_group: Number of the first group.
        stream_of: Returns the stream of records if streams close their steps separately; None: all together.
    """

    def __init__(
        self, closing: Sequence[tuple[Line, Records]], runs: RunIndex, first_group: int, stream_of: StreamOf | None
    ) -> None:
        self._runs, self._first_group, self._stream_of = runs, first_group, stream_of
        self._markers = closing_markers(closing)
        self._marker_streams = _streams_in_order(closing, stream_of) if stream_of is not None else None
        bounds = np.sort(np.concatenate([self._markers.positions, runs.starts[1:] - 1]))
        self._bounds = bounds[np.append(True, bounds[1:] != bounds[:-1])] if len(bounds) else bounds
        count = len(self._bounds) + 1
        self._run = np.empty(count, np.int64)
        self._run[:-1] = runs.indices_at(self._bounds)
        self._run[-1] = len(runs.starts) - 1
        self._step, self._step_known = np.zeros(count, np.int64), np.zeros(count, np.bool_)
        if len(self._markers):
            steps, known = self._markers.numbers("step")
            closed = np.searchsorted(self._bounds, self._markers.positions)
            self._step[closed], self._step_known[closed] = steps, known
        self._shared: list[tuple[Ints, StepGroups]] = []  # with the number of records in each group
        self.next_group = first_group + count + len(self._markers) + 1

    def groups_of(self, records: Records) -> StepGroups:
        """Return the groups of a kind's records."""
        if self._stream_of is not None:
            return self._groups_by_stream(records, self._stream_of(records))
        stops = np.searchsorted(records.positions, self._bounds, "right")
        counts = np.diff(np.concatenate([[0], stops, [len(records)]]))
        for shared_counts, groups in self._shared:
            if np.array_equal(shared_counts, counts):
                return groups
        groups = StepGroups(
            self._runs,
            np.repeat(self._run, counts),
            np.repeat(np.arange(self._first_group, self._first_group + len(counts)), counts),
            np.repeat(self._step, counts),
            np.repeat(self._step_known, counts),
        )
        self._shared.append((counts, groups))
        return groups

    def _groups_by_stream(self, records: Records, streams: Ints) -> StepGroups:
        """Return the groups where each stream closes its own steps."""
        run = self._runs.indices_at(records.positions)
        markers = self._markers
        none = len(markers)
        index = np.full(len(records), none, np.int64)  # the marker that closes the step of each record
        for stream in np.unique(streams).tolist():
            rows = np.flatnonzero(streams == stream)
            closing = np.flatnonzero(self._marker_streams == stream)
            index[rows] = np.append(closing, none)[next_marker(records.positions[rows], markers.positions[closing])]
        if none:
            steps, known = markers.numbers("step")
            safe = np.minimum(index, none - 1)
            inside = (index < none) & (self._runs.indices_at(markers.positions[safe]) == run)
            step, step_known = np.where(inside, steps[safe], 0), inside & known[safe]
        else:
            inside = step_known = np.zeros(len(records), np.bool_)
            step = np.zeros(len(records), np.int64)
        number = self._first_group + np.where(inside, index, none + run)
        return StepGroups(self._runs, run, number, step, step_known)


def _streams_in_order(closing: Sequence[tuple[Line, Records]], stream_of: StreamOf) -> Ints:
    """Return the streams of the closing lines, in log order."""
    if not closing:
        return np.empty(0, np.int64)
    order = np.argsort(np.concatenate([records.positions for _, records in closing]), kind="stable")
    return np.concatenate([stream_of(records) for _, records in closing])[order]
