"""States of progress bars, in log order: which of them are rows, and which lines take their step from them.

In: a scanned batch with states of bars among its records. Out: the batch with states and lines of other kinds:

- A bar is redrawn many times a second. Of a bar that counts steps, the first state at each count is a row of `steps`.
  A program may count a step first and set its figures then, which draws the bar twice: the first state of the two has
  the figures of the step before, and the second is the row.
  Where a program prints its steps by itself, and of bars that count something else, a state is a row of `values` if the
  count has grown by a tenth, or is the total. The other states are read, and their figures dropped for that reason.
- A line with `step_by` takes the step and the clock of the state beside it. Two states beside it, before and after,
  must agree. The printed epoch must agree with the count: a run has so many steps in an epoch. Lines of several epochs
  with no state between them take no step: their output was buffered and the bar was not, so no state is beside them.

The pass follows the scan, batch after batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from perflog.arrays import Mask
from perflog.formats.model import Line
from perflog.formats.template import Template
from perflog.parsing.match.ordered.bar_roles import BAR_ELAPSED, field_names, line_for, with_kinds
from perflog.parsing.match.ordered.bar_table import (
    SLOW,
    SMOOTHED,
    STEP,
    UNKNOWN,
    State,
    StateTable,
    numbers_of,
    printed_epoch,
    prints_step,
    short_bar_times,
    shown_by,
    step_times,
    time_of_short_bar,
)
from perflog.parsing.match.records import Batch, FormatLine, Records
from perflog.tables.row_order import PART_BITS

_GROWTH = 1.1  # of the count, from one row of `values` to the next
_START = 0.02  # share of the total up to which a bar has just begun
_LEAST_DECIMALS = 2  # of a printed epoch, which may end with zeros
_ANY_LENGTH = (0.0, math.inf)  # of an epoch, in steps
_NEAR = 32  # lines at the end of a batch, of several ranks


class _Bar(Struct):
    """The last row of a bar: its count and time, and the kinds of the states at this count that are rows.

    `line`: the line of the last state. `shown`: what it showed. `stale`: the index in its batch of the row of this
    count, if it shows what the state before showed.
    """

    count: int = 0
    elapsed: float = 0.0
    kinds: set[int] = field(default_factory=set)
    line: int = UNKNOWN
    shown: tuple[object, ...] = ()
    stale: int = UNKNOWN
    step: int = UNKNOWN
    epoch: int = UNKNOWN


class _Stream(Struct):
    """What is known of the bars after one rank label.

    Attributes:
        last: The last state.
        total: The total of the bar that counts steps of training, as lines beside it have shown.
        count: The count of the last state that gave a line its step.
        lengths: The least and the greatest number of steps in an epoch that the lines beside it allow.
        bars: The bars, by description and total.
    """

    last: State | None = None
    total: int = UNKNOWN
    count: int = UNKNOWN
    lengths: tuple[float, float] = _ANY_LENGTH
    bars: dict[tuple[str, int], _Bar] = field(default_factory=dict)


class BarReader:
    """Reads the states of bars of one log, batch after batch.

    Args:
        steps_are_printed: Whether a program prints its steps by itself, so that states of bars are no steps.
    """

    def __init__(self, steps_are_printed: bool) -> None:
        self._steps_are_printed = steps_are_printed
        self._lines: list[FormatLine] = []
        self._kinds: dict[tuple[Line, str], int] = {}
        self._streams: dict[int, _Stream] = {}

    def undecided(self, lines: Sequence[FormatLine], batch: Batch) -> bool:
        """Return whether only the next batch decides what becomes of the last lines of a batch.

        One may take its step from a state there, or be a state that the next one replaces.
        """
        if batch.chunk.is_last or not any(line.bar for _, line in lines):
            return False
        end = batch.chunk.first_line + batch.chunk.lines - 1
        for kind, records in batch.records.items():
            line = lines[kind][1]
            if line.step_by and len(records) and int(records.positions[-1]) >> PART_BITS >= end:
                return True
            if line.bar is not None and line.table == "steps" and not self._steps_are_printed:
                near = records.positions >> PART_BITS > end - _NEAR
                if near.any() and self._ends_stale(line, kind, records, near):
                    return True
        return False

    def _ends_stale(self, line: Line, kind: int, records: Records, near: Mask) -> bool:
        """Return whether the last state of a rank may have the figures of the step before: see `_replaces`.

        `near`: the states at the end of the batch. Other ranks may have drawn after it.
        """
        labels = records.known_labels
        for label in set(labels[near].tolist()):
            last = records.take(np.flatnonzero(labels == label)[-2:])
            shown, counts = shown_by(line, kind, last), numbers_of(last, line.bar.count if line.bar is not None else "")
            is_other_count = len(last) == 1 or (shown[0] == shown[1] and counts[0] != counts[1])
            if shown[-1] and is_other_count and step_times(line, last)[-1] >= SLOW:
                return True
        return False

    def read(self, lines: list[FormatLine], batch: Batch) -> Batch:
        """Return a batch with its states, and the lines that take their step from them, as records of their kinds.

        Lines of states are added to `lines`, the lines of the scanner.
        """
        kinds = [kind for kind in batch.records if lines[kind][1].bar]
        if not kinds and not any(stream.last for stream in self._streams.values()):
            return batch
        self._lines, table = lines, StateTable(lines, batch, kinds)
        steps, used = self._steps_of_lines(lines, batch, table)
        new: dict[int, dict[int, Records]] = {}
        for kind, given in steps.items():
            new[kind] = self._with_steps(lines[kind], kind, batch.records[kind], given)
        roles = self._roles(table, used)
        for kind in kinds:
            new[kind] = self._by_role(lines[kind], kind, batch.records[kind], roles[table.kinds == kind])
        self._remember(table)
        return with_kinds(batch, lines, new)

    # --- which lines take their step from a state -----------------------------------------------------------------

    def _steps_of_lines(
        self, lines: Sequence[FormatLine], batch: Batch, table: StateTable
    ) -> tuple[dict[int, dict[int, State]], dict[int, str]]:
        """Return the state that gives each line its step, by kind and row, and which lines use each state."""
        partners = [
            (int(position), kind, row, int(label))
            for kind, records in batch.records.items()
            if lines[kind][1].step_by
            for row, (position, label) in enumerate(zip(records.positions, records.known_labels, strict=True))
        ]
        steps: dict[int, dict[int, State]] = {}
        after: dict[tuple[int, int], int] = {}  # by kind and state: the row before it that takes it
        used: dict[int, str] = {}
        later = []
        buffered = self._buffered(lines, batch, partners, table)
        for position, kind, row, label in sorted(partners):
            if lines[kind][1].step_by == "next_bar":
                later.append((position, kind, row, label))
                continue
            if position in buffered:
                continue
            epoch = printed_epoch(lines[kind][1], batch.records[kind], row)
            state = self._state_beside(lines[kind][1], position, label, epoch, table)
            if state is not None:
                given = steps.setdefault(kind, {})
                if state.position > position:  # of several such lines before a state, it belongs to the last
                    given.pop(after.get((kind, state.index), UNKNOWN), None)
                    after[kind, state.index] = row
                given[row] = state
                used[state.index] = lines[kind][1].step_by or ""
        for position, kind, row, label in later:  # the bar of training is known by now
            state = self._state_after_step(position, label, table)
            if state is not None:
                steps.setdefault(kind, {})[row] = state
        return steps, used

    def _buffered(
        self,
        lines: Sequence[FormatLine],
        batch: Batch,
        partners: Iterable[tuple[int, int, int, int]],
        table: StateTable,
    ) -> set[int]:
        """Return the positions of lines that were printed long before or after the states beside them."""
        between: dict[tuple[int, int], dict[int, float | None]] = {}
        for position, kind, row, label in partners:
            gap = int(np.searchsorted(table.positions.get(label, np.empty(0, np.int64)), position))
            between.setdefault((label, gap), {})[position] = printed_epoch(lines[kind][1], batch.records[kind], row)
        alone = (epochs for epochs in between.values() if len({*epochs.values()} - {None}) > 1)
        return {position for epochs in alone for position in epochs}

    def _around(self, position: int, label: int, table: StateTable) -> tuple[State | None, State | None]:
        """Return the states before a position and after it, of bars after the same rank label."""
        states = table.states.get(label, [])
        k = int(np.searchsorted(table.positions.get(label, np.empty(0, np.int64)), position))
        front = states[k - 1] if k else self._streams.get(label, _Stream()).last
        return front, states[k] if k < len(states) else None

    def _state_beside(
        self, line: Line, position: int, label: int, epoch: float | None, table: StateTable
    ) -> State | None:
        """Return the state beside a line that gives it its step: before it on its line, or directly after it."""
        front, after = self._around(position, label, table)
        number = position >> PART_BITS
        goes_back = front is not None and after is not None and front.total == after.total
        goes_back = goes_back and front.count > after.count > 0  # type: ignore[union-attr]  # both are states
        if front is not None and (front.position >> PART_BITS != number or not front.counts_steps):
            front = None
        if line.step_by == "bar_in_front":
            return front
        if after is not None and ((after.position >> PART_BITS) - number > 1 or not after.counts_steps):
            after = None
        if goes_back or (after is None and front is not None and front.may_lag):
            return None  # states of several bars; or steps may have passed since the bar was drawn
        stream = self._streams.setdefault(label, _Stream())
        return _agreeing(stream, [state for state in (front, after) if state is not None and state.count > 0], epoch)

    def _state_after_step(self, position: int, label: int, table: StateTable) -> State | None:
        """Return the state that ends the step in which a line is printed, if it is the next of the bar of training."""
        stream = self._streams.get(label)
        front, after = self._around(position, label, table)
        if stream is None or after is None or stream.total == UNKNOWN or after.total != stream.total:
            return None
        is_next = after.count == (front.count if front is not None and front.total == after.total else 0) + 1
        return after if is_next else None

    def _with_steps(
        self, line: FormatLine, kind: int, records: Records, given: Mapping[int, State]
    ) -> dict[int, Records]:
        """Return the records of a kind in two: those without a step, and those with the step that they were given."""
        rows = np.array(sorted(given), np.int64)
        left = np.setdiff1d(np.arange(len(records)), rows)
        taken = records.take(rows)
        states = [given[row] for row in rows.tolist()]
        taken.columns = taken.columns | {
            STEP: np.array([state.count for state in states], np.int64),
            BAR_ELAPSED: np.array([state.elapsed for state in states], np.float64),
            SMOOTHED: np.array([time_of_short_bar(state.step_time, state.total) for state in states], np.float64),
        }
        parts = {self._kind_of(line, "with step"): taken}
        return parts | ({kind: records.take(left)} if len(left) else {})

    # --- which states are rows --------------------------------------------------------------------------------------

    def _roles(self, table: StateTable, used: Mapping[int, str]) -> np.ndarray[Any, Any]:
        """Return what becomes of each state: a row of steps or of values, or nothing."""
        roles = np.full(len(table.kinds), "dropped", object)
        for label, states in table.states.items():
            bars = self._streams.setdefault(label, _Stream()).bars
            for bar in bars.values():
                bar.stale = UNKNOWN  # it is in an earlier batch
            for state in states:
                kind = int(table.kinds[state.index])
                line = table.lines[kind]
                bar = bars.setdefault((_bar_of(line.template), state.total), _Bar())
                if _is_next_pass(line, state, bar):
                    bar.count, bar.elapsed, bar.kinds = 0, 0.0, set()
                bar.line, bar.step, bar.epoch = state.position >> PART_BITS, state.step, state.epoch
                role = self._role(line, kind, state, bar, used.get(state.index, ""))
                if _replaces(state, bar) and state.index not in used:
                    roles[bar.stale], role = "dropped", "steps"
                is_stale = role == "steps" and state.count != bar.count and state.shown == bar.shown
                bar.stale = state.index if is_stale and state.shown and state.index not in used else UNKNOWN
                bar.shown = state.shown
                roles[state.index] = role
                if role != "dropped" and state.count == bar.count:
                    bar.kinds.add(kind)
                elif role != "dropped":
                    bar.count, bar.elapsed, bar.kinds = state.count, state.elapsed, {kind}
                elif not state.count:
                    bar.count, bar.elapsed, bar.kinds = 0, 0.0, set()
        return roles

    def _role(self, line: Line, kind: int, state: State, bar: _Bar, used: str) -> str:
        """Return what becomes of a state of a bar. `used`: how a line beside it takes its step from it, if one does."""
        if used:
            return "steps" if used == "bar_in_front" and not self._steps_are_printed else "values with step"
        if not state.count:
            return "dropped"
        is_of_program = prints_step(line) and not self._lines[kind][0].library
        if line.table == "steps" and (is_of_program or not self._steps_are_printed):
            if state.count != bar.count:
                return "steps"
            has_more = kind not in bar.kinds  # figures that the row of the step lacks, such as `val_loss`
            return "values with step" if has_more else "dropped"
        near_start = state.elapsed < bar.elapsed or state.count <= max(_START * state.total, 1)
        begins_again = 2 * state.count <= bar.count and near_start  # else another process draws the same bar
        is_far = begins_again or state.count >= bar.count * _GROWTH or state.count == state.total
        return "values" if state.count != bar.count and is_far else "dropped"

    def _by_role(
        self, line: FormatLine, kind: int, records: Records, roles: np.ndarray[Any, Any]
    ) -> dict[int, Records]:
        """Return the states of a kind, by the kind that they become."""
        parts: dict[int, Records] = {}
        for role in dict.fromkeys(roles.tolist()):
            part = records.take(np.flatnonzero(roles == role))
            new = line_for(line[1], role)
            smoothed = {SMOOTHED: short_bar_times(line[1], part)} if role == "steps" else {}
            if new is line[1]:
                part.columns = part.columns | smoothed
                parts[kind] = part
                continue
            renamed = dict(zip(field_names(line[1].template), field_names(new.template), strict=True))
            columns = {renamed.get(name, name): column for name, column in part.columns.items()}
            part.columns = {} if role == "dropped" else columns | smoothed
            parts[self._kind_of(line, role)] = part
        return parts

    def _kind_of(self, line: FormatLine, role: str) -> int:
        """Return the kind of a Line in a role."""
        key = line[1], role
        if key not in self._kinds:
            self._kinds[key] = len(self._lines)
            self._lines.append((line[0], line_for(line[1], role)))
        return self._kinds[key]

    def _remember(self, table: StateTable) -> None:
        for label, states in table.states.items():
            if states:
                self._streams.setdefault(label, _Stream()).last = replace(states[-1], index=UNKNOWN)


def _replaces(state: State, bar: _Bar) -> bool:
    """Return whether a state is the row of its count instead of the one before it, which has older figures.

    Both are drawn at once, and a step takes longer than a second. Where the figures of the next step are set before it
    is counted, the time of a step passes between two states of one count.
    """
    is_same_moment = state.count == bar.count and state.elapsed == bar.elapsed and not state.may_lag
    return bar.stale != UNKNOWN and is_same_moment and state.shown[:1] == bar.shown[:1] and state.shown != bar.shown


def _agreeing(stream: _Stream, states: Sequence[State], epoch: float | None) -> State | None:
    """Return the first of the states beside a line if they agree with each other and with the printed epoch.

    Where the steps of an epoch are known, the epoch alone may decide which of two states is right.
    """
    if any(state.total == stream.total != UNKNOWN for state in states):
        states = [state for state in states if state.total == stream.total]
    if not states or len({state.total for state in states}) > 1:
        return None
    begins_again = all(state.count < stream.count for state in states)  # the next run, of as many steps
    if begins_again or states[0].total != stream.total:
        stream.lengths = _ANY_LENGTH
    possible = [state for state in states if _lengths(state.count, epoch, stream.lengths) is not None]
    is_guess = len(possible) < len(states) and stream.lengths == _ANY_LENGTH
    if is_guess or len({state.count for state in possible}) != 1:
        return None
    state = possible[0]
    stream.lengths = _lengths(state.count, epoch, stream.lengths) or stream.lengths
    stream.total, stream.count = state.total, state.count
    return state


def _lengths(count: int, epoch: float | None, known: tuple[float, float]) -> tuple[float, float] | None:
    """Return the least and the greatest number of steps in an epoch that a count allows, within those known.

    None if the printed epoch contradicts the count. Each epoch may have begun with a step of the one before:
    its last batches make no whole step.
    """
    if epoch is None or not 0 <= epoch < math.inf:
        return known
    decimals = len(repr(epoch).partition(".")[2]) if "e" not in repr(epoch) else _LEAST_DECIMALS
    rounding = 0.5 * 10.0 ** -max(decimals, _LEAST_DECIMALS)
    slack = math.ceil(epoch)
    least = max((count - slack) / (epoch + rounding), known[0])
    greatest = min((count + slack) / (epoch - rounding) if epoch > rounding else math.inf, known[1])
    return (least, greatest) if least <= greatest else None


def _is_next_pass(line: Line, state: State, bar: _Bar) -> bool:
    """Whether a bar that was complete is complete again, after another line: Keras prints `Epoch 2/5` between them.

    Only for bars without a clock, as Keras draws them: one process draws them. Other bars are drawn again at their end,
    unless another step or a later epoch is printed beside the count.
    """
    if state.epoch > bar.epoch != UNKNOWN:
        return True
    if state.step != bar.step and UNKNOWN not in (state.step, bar.step):
        return True
    has_clock = line.bar is None or bool(line.bar.elapsed)
    is_complete = state.count == state.total == bar.count
    return is_complete and not has_clock and (state.position >> PART_BITS) - bar.line > 1


@lru_cache(1 << 12)
def _bar_of(template: Template) -> str:
    """Return what distinguishes a bar from others: its description."""
    return template.literals[0]
