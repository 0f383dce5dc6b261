"""Rows of one line kind, each attributed to a step, a rank and the scopes around it.

In: records with their step groups. Out: the step, rank and inherited columns of their rows, filled in by the line's own
fields and by opening lines here, and by rank rules and step counts after that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field

from perflog.arrays import Floats, Ints, Mask
from perflog.formats.model import Line
from perflog.parsing.assemble.scopes import Inheritance
from perflog.parsing.assemble.steps.step_groups import StepGroups
from perflog.parsing.match.rank_labels import is_device, is_pod
from perflog.parsing.match.records import Records
from perflog.tables.arrow import null_array, numbers_of, text_scalar
from perflog.tables.schema import SLOWEST_RANK, column_for

RULES = ("printed", "label", "header", "fingerprint", "adjacent", "local", "file", SLOWEST_RANK)
"""The values of column `rank_by` that a log can show: the rules that prove a rank.

`local`: only that on its node. `slowest`: a line of all ranks, with the time of the slowest one.
"""

PRINTED, LABEL, HEADER, FINGERPRINT, ADJACENT, LOCAL, FILE, SLOWEST = range(8)

NO_EPOCH = -1
"""Epoch of a step line if its steps do not start again in each epoch, or if its epoch is not known."""


_EXACT = 2.0**53  # whole numbers below it are exact as doubles
_MOST_RANKS = 1 << 31  # a column of ranks holds 32 bits


CLOCK, LINE, BAR, RATE = range(4)
"""Indices into `STEP_TIME_SOURCES`."""


class RecordRanks(Struct):
    """Rank of each record, and the rule that proves it (index into RULES, -1 if none).

    -1: unknown; below: unknown too, but a process of its own (`local_ranks.source_code`).
    """

    rank: Ints
    rule: npt.NDArray[np.int8]

    @classmethod
    def unknown(cls, count: int) -> RecordRanks:
        """Return `count` unknown ranks."""
        return cls(np.full(count, -1, np.int64), np.full(count, -1, np.int8))

    def fill(self, rows: Any, rank: Any, rule: Any) -> None:
        """Set the ranks of some rows, proved by a rule."""
        self.rank[rows] = rank
        self.rule[rows] = rule


class ClockColumns(Struct):
    """What the clock of a run gives for its rows.

    Attributes:
        elapsed: Seconds since the clock started, NaN if unknown.
        step_time: Seconds of a step, by difference, NaN if unknown.
        steps: Number of steps in the difference.
        line: The line of the earlier reading, 0 if there is no difference.
        source: Where the step time comes from: index into `STEP_TIME_SOURCES`, -1 if it is unknown.
    """

    elapsed: Floats
    step_time: Floats
    steps: Ints
    line: Ints
    source: Ints

    @classmethod
    def unknown(cls, count: int) -> ClockColumns:
        """Return `count` rows of unknown values."""
        zeros = np.zeros(count, np.int64)
        return cls(np.full(count, np.nan), np.full(count, np.nan), zeros, zeros.copy(), np.full(count, -1))

    def part(self, rows: Any) -> ClockColumns:
        """Return some of the rows: of a slice the same memory."""
        columns = (self.elapsed, self.step_time, self.steps, self.line, self.source)
        return ClockColumns(*(column[rows] for column in columns))


class AttributedRows(Struct, dict=True):
    """The records of one line kind with step, rank and inherited fields of each, ready to become rows of a table."""

    line: Line
    records: Records
    groups: StepGroups
    step: Ints
    step_known: Mask
    ranks: RecordRanks
    steps_are_closed: bool  # whether the line's format has lines that close steps
    guessed: bool = False  # whether perflog made the line's format from the log
    inherited: dict[str, pa.Array] = field(default_factory=dict)
    copy: Ints | None = None  # columns `copy` and `steps_averaged` of table `steps`
    steps_averaged: Ints | None = None
    clock: ClockColumns | None = None
    joined: dict[str, Floats] = field(default_factory=dict)  # columns that a library prints for these steps; NaN: null

    def __len__(self) -> int:
        return len(self.records)

    @property
    def step_is_of_group(self) -> bool:
        """Whether the closing lines give the steps, not the records' own fields or a header."""
        return self.step is self.groups.step

    def prints(self, name: str) -> bool:
        """Return whether the line fills the column of this name: by a field, a constant or a computed value."""
        column = column_for(self.line.table, name)
        names = (*self.line.template.names, *self.line.set, *self.line.compute)
        return any(column_for(self.line.table, each) is column for each in names)

    def forget_step(self) -> None:
        """Make the step of all rows unknown."""
        self.step, self.step_known = np.zeros(len(self), np.int64), np.zeros(len(self), np.bool_)

    @cached_property
    def epoch(self) -> Ints:
        """The counter, such as an epoch, in which the steps start again. The line declares it as `within`."""
        name = self.line.within
        epochs = self.records.columns.get(name) if name else None
        if epochs is None and name in self.inherited:
            epochs = self.inherited[name]
        if isinstance(epochs, pa.Array):  # strings, some without a value: `-`
            texts = epochs.cast(pa.string())
            whole = pc.match_substring_regex(texts, r"^[0-9]{1,18}(?:\.0*)?$")
            epochs = pc.if_else(whole, texts, null_array(pa.string(), len(texts))).cast(pa.float64())
            epochs = numbers_of(pc.fill_null(epochs, float(NO_EPOCH)))
        if epochs is None:
            return np.full(len(self), NO_EPOCH, np.int64)
        numbers = np.asarray(epochs, np.float64)  # JSON has no integers of its own
        return np.where((numbers >= 0) & (numbers < _EXACT) & (numbers % 1 == 0), numbers, NO_EPOCH).astype(np.int64)

    def fill_own_ranks(self, labelled_ranks: Callable[[], Ints]) -> None:
        """Take ranks from the field `rank`, else from the label before the line: `labelled_ranks` reads it."""
        if self.line.set.get("rank_by") == SLOWEST_RANK:  # the rank of the label prints it for all
            self.ranks.fill(slice(None), -1, SLOWEST)
        elif "rank" in self.records.columns:
            printed = self.records.columns["rank"]
            possible = np.flatnonzero((printed >= 0) & (printed < _MOST_RANKS))
            self.ranks.fill(possible, printed[possible], PRINTED)
        elif self.records.labels is not None:
            ranks = labelled_ranks()
            labelled = np.flatnonzero(self.records.labels >= 0)
            local = np.where(is_device(self.records.labels[labelled]), -1, LOCAL)  # a device alone proves nothing
            self.ranks.fill(labelled, ranks[labelled], np.where(ranks[labelled] >= 0, LABEL, local))
            pod_rows = np.flatnonzero(is_pod(self.records.labels))
            self.ranks.fill(pod_rows, ranks[pod_rows], -1)

    def fill_own_steps(self) -> None:
        """Take steps from the field `step`, or compute them if the format declares how."""
        columns = self.records.columns
        if "step" in columns:
            # A copy: the batch's memory is used again before the rows are written.
            self.step, self.step_known = np.array(columns["step"]), np.ones(len(self), np.bool_)
        elif "step" in self.line.compute:
            steps = np.broadcast_to(self.line.compute["step"](self._numbers), len(self))
            self.step_known = np.abs(steps) < _EXACT
            self.step = np.where(self.step_known, steps, 0).astype(np.int64)

    @property
    def _numbers(self) -> dict[str, Floats]:
        """The numbers of the records, for expressions."""
        return {k: v.astype(np.float64) for k, v in self.records.columns.items() if isinstance(v, np.ndarray)}

    @property
    def covers(self) -> Ints:
        """The number of steps that each line covers, or the code for it in its format."""
        if self.line.window is None or not self.records.columns.keys() >= {*self.line.window.names}:
            return np.full(len(self), self.line.covers)
        return np.broadcast_to(self.line.window(self._numbers), len(self)).astype(np.int64)

    def fill_from_name(self, fields: Mapping[str, Any], low: int, high: int) -> None:
        """Take step and rank of the rows `low:high` from the name of their file, where nothing else states them."""
        step, rank, rows = fields.get("step"), fields.get("rank", -1), slice(low, high)
        if step is not None and not self.step_known[rows].all():
            if self.step_is_of_group or self.step_known is self.groups.step_known:
                self.step, self.step_known = self.step.copy(), self.step_known.copy()
            self.step[rows] = np.where(self.step_known[rows], self.step[rows], step)
            self.step_known[rows] = True
        if 0 <= rank < _MOST_RANKS:
            unknown = np.flatnonzero((self.ranks.rank[rows] < 0) & (self.ranks.rule[rows] < 0))
            self.ranks.fill(low + unknown, rank, FILE)

    def inherit(self, scope: str, inheritance: Inheritance) -> None:
        """Take step, rank and other fields from opening lines; a scope that has no field of its name is counted."""
        markers, index = inheritance.markers, inheritance.index
        for name in markers.fields:
            if name == "step":
                values, known = markers.numbers("step")
                self.step, self.step_known = values[index], known[index] & (index >= 0)
            elif name == "rank":
                values, known = markers.numbers("rank")
                possible = known & (values >= 0) & (values < _MOST_RANKS)
                rows = np.flatnonzero(possible[index] & (index >= 0) & (self.ranks.rank < 0))
                self.ranks.fill(rows, values[index[rows]], HEADER)
            elif name not in self.records.columns:
                self.inherited[name] = self._under_outer(name, markers.words(name, index))
        if scope not in markers.fields:
            self.inherited[scope] = markers.words(scope, index)

    def inherit_back(self, closing: Inheritance) -> None:
        """Take fields from closing lines: all but the step, which the groups of records have."""
        for name in closing.markers.fields.keys() - {"step", "rank"} - self.records.columns.keys():
            self.inherited.setdefault(name, closing.markers.words(name, closing.index))

    def _under_outer(self, name: str, words: pa.Array) -> pa.Array:
        """Return the words of a scope. A name of numbers follows the word of the scope around it, if there is one."""
        outer = self.inherited.get(name) if name == "key" else None
        if outer is None:
            return words
        outer, inner = outer.cast(pa.string()), words.cast(pa.string())
        both = pc.binary_join_element_wise(outer, inner, text_scalar(" "))
        return pc.coalesce(both, inner, outer).dictionary_encode()


class JoinedRows:
    """The rows of one line in all its shapes, such as with a prefix or a suffix, as one in log order.

    `whole`: the rows together, with the fields that were asked for. What changes in their ranks and steps goes back to
    the rows of each shape with `write_back`.
    """

    def __init__(self, shapes: Sequence[AttributedRows], fields: Collection[str]) -> None:
        self._shapes = shapes
        self.whole = shapes[0]
        if len(shapes) == 1:
            return
        self._order = np.argsort(np.concatenate([shape.records.positions for shape in shapes]), kind="stable")
        records = [shape.records for shape in shapes]
        self.whole = AttributedRows(
            shapes[0].line,
            Records(
                self._joined([each.positions for each in records]),
                {name: self._joined([each.columns[name] for each in records]) for name in fields},
            ),
            StepGroups.joined([shape.groups for shape in shapes], self._order),
            self._joined([shape.step for shape in shapes]),
            self._joined([shape.step_known for shape in shapes]),
            RecordRanks(
                self._joined([shape.ranks.rank for shape in shapes]),
                self._joined([shape.ranks.rule for shape in shapes]),
            ),
            shapes[0].steps_are_closed,
        )

    def _joined(self, parts: Sequence[Any]) -> Any:
        if all(isinstance(part, np.ndarray) for part in parts):
            return np.concatenate(parts)[self._order]
        return pa.concat_arrays([part.cast(pa.string()) for part in parts]).take(pa.array(self._order))

    def write_back(self) -> None:
        """Give the rows of each shape the ranks and steps that their rows have together."""
        if len(self._shapes) == 1:
            return
        index_in_order = np.empty_like(self._order)
        index_in_order[self._order] = np.arange(len(index_in_order))
        first = 0
        for shape in self._shapes:
            index = index_in_order[first : first + len(shape)]
            first += len(shape)
            shape.ranks.fill(slice(None), self.whole.ranks.rank[index], self.whole.ranks.rule[index])
            if not np.array_equal(shape.step_known, self.whole.step_known[index]):
                shape.step, shape.step_known = self.whole.step[index], self.whole.step_known[index]
