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

from perflog.arrays import Ints, Mask
from perflog.formats.model import Line
from perflog.formats.template import DECLARED_DROPPED, Template
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.match.records import Batch, FormatLine, Records
from perflog.tables.row_order import PART_BITS
from perflog.units import UNITS

BAR_ELAPSED = "bar_elapsed"
"""The field that holds the time since a bar began, of a line that takes its step from the bar."""
SMOOTHED = "smoothed_step_time"
"""The field that holds the seconds of a step by the smoothed rate of a short bar, of rows with a step; else NaN.

For a bar that takes less than `APART` seconds by its own rate, differences of whole seconds say nothing."""

APART = 20
"""Units of the last printed digit between two readings of a clock: a difference is wrong by 5 % at most."""

_GROWTH = 1.1  # of the count, from one row of `values` to the next
_START = 0.02  # share of the total up to which a bar has just begun
_REDRAWN = "a state of a progress bar near one that is a row: the bar was drawn again, or another process drew it"
_BESIDE = "the time since the bar began is stored with the line that takes its step from the bar"
_STEP, _BAR = "step", "bar"
_FIELD = lazy_pattern(r"\{(\w+):")
_LEAST_DECIMALS = 2  # of a printed epoch, which may end with zeros
_UNKNOWN = -1
_ANY_LENGTH = (0.0, math.inf)  # of an epoch, in steps
_NEAR = 32  # lines at the end of a batch, of several ranks
_SLOW = 1.0  # seconds of a step, at which a bar is drawn at each step


class _State(Struct, frozen=True):
    """A state of a bar.

    `step_time`: seconds of a step, from the smoothed rate; NaN if it is not printed. `index`: in its batch. `shown`:
    the kind of its line and the figures after its rate, of states that may be rows of steps. `step`: the step that is
    printed beside the count, -1 if none is.
    """

    position: int
    count: int
    total: int
    elapsed: float
    step_time: float
    counts_steps: bool
    index: int = _UNKNOWN
    shown: tuple[object, ...] = ()
    step: int = _UNKNOWN

    @property
    def may_lag(self) -> bool:
        """Whether steps may have passed since it was drawn: a bar is drawn ten times a second at most."""
        return not self.step_time >= _SLOW


class _Bar(Struct):
    """The last row of a bar: its count and time, and the kinds of the states at this count that are rows.

    `line`: the line of the last state. `shown`: what it showed. `stale`: the index in its batch of the row of this
    count, if it shows what the state before showed.
    """

    count: int = 0
    elapsed: float = 0.0
    kinds: set[int] = field(default_factory=set)
    line: int = _UNKNOWN
    shown: tuple[object, ...] = ()
    stale: int = _UNKNOWN
    step: int = _UNKNOWN


class _Stream(Struct):
    """What is known of the bars after one rank label.

    Attributes:
        last: The last state.
        total: The total of the bar that counts steps of training, as lines beside it have shown.
        count: The count of the last state that gave a line its step.
        lengths: The least and the greatest number of steps in an epoch that the lines beside it allow.
        bars: The bars, by description and total.
    """

    last: _State | None = None
    total: int = _UNKNOWN
    count: int = _UNKNOWN
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
        labels = np.array(_labels(records))
        for label in set(labels[near].tolist()):
            last = records.take(np.flatnonzero(labels == label)[-2:])
            shown, counts = _shown(line, kind, last), _numbers(last, line.bar.count if line.bar is not None else "")
            is_other_count = len(last) == 1 or (shown[0] == shown[1] and counts[0] != counts[1])
            if shown[-1] and is_other_count and _step_times(line, last)[-1] >= _SLOW:
                return True
        return False

    def read(self, lines: list[FormatLine], batch: Batch) -> Batch:
        """Return a batch with its states, and the lines that take their step from them, as records of their kinds.

        Lines of states are added to `lines`, the lines of the scanner.
        """
        kinds = [kind for kind in batch.records if lines[kind][1].bar]
        if not kinds and not any(stream.last for stream in self._streams.values()):
            return batch
        self._lines, table = lines, _StateTable(lines, batch, kinds)
        steps, used = self._steps_of_lines(lines, batch, table)
        new: dict[int, dict[int, Records]] = {}
        for kind, given in steps.items():
            new[kind] = self._with_steps(lines[kind], kind, batch.records[kind], given)
        roles = self._roles(table, used)
        for kind in kinds:
            new[kind] = self._by_role(lines[kind], kind, batch.records[kind], roles[table.kinds == kind])
        self._remember(table)
        return _with_kinds(batch, lines, new)

    # --- which lines take their step from a state -----------------------------------------------------------------

    def _steps_of_lines(
        self, lines: Sequence[FormatLine], batch: Batch, table: _StateTable
    ) -> tuple[dict[int, dict[int, _State]], dict[int, str]]:
        """Return the state that gives each line its step, by kind and row, and which lines use each state."""
        partners = [
            (int(position), kind, row, int(label))
            for kind, records in batch.records.items()
            if lines[kind][1].step_by
            for row, (position, label) in enumerate(zip(records.positions, _labels(records), strict=True))
        ]
        steps: dict[int, dict[int, _State]] = {}
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
            epoch = _epoch(lines[kind][1], batch.records[kind], row)
            state = self._state_beside(lines[kind][1], position, label, epoch, table)
            if state is not None:
                given = steps.setdefault(kind, {})
                if state.position > position:  # of several such lines before a state, it belongs to the last
                    given.pop(after.get((kind, state.index), _UNKNOWN), None)
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
        table: _StateTable,
    ) -> set[int]:
        """Return the positions of lines that were printed long before or after the states beside them."""
        between: dict[tuple[int, int], dict[int, float | None]] = {}
        for position, kind, row, label in partners:
            gap = int(np.searchsorted(table.positions.get(label, np.empty(0, np.int64)), position))
            between.setdefault((label, gap), {})[position] = _epoch(lines[kind][1], batch.records[kind], row)
        alone = (epochs for epochs in between.values() if len({*epochs.values()} - {None}) > 1)
        return {position for epochs in alone for position in epochs}

    def _around(self, position: int, label: int, table: _StateTable) -> tuple[_State | None, _State | None]:
        """Return the states before a position and after it, of bars after the same rank label."""
        states = table.states.get(label, [])
        k = int(np.searchsorted(table.positions.get(label, np.empty(0, np.int64)), position))
        front = states[k - 1] if k else self._streams.get(label, _Stream()).last
        return front, states[k] if k < len(states) else None

    def _state_beside(
        self, line: Line, position: int, label: int, epoch: float | None, table: _StateTable
    ) -> _State | None:
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

    def _state_after_step(self, position: int, label: int, table: _StateTable) -> _State | None:
        """Return the state that ends the step in which a line is printed, if it is the next of the bar of training."""
        stream = self._streams.get(label)
        front, after = self._around(position, label, table)
        if stream is None or after is None or stream.total == _UNKNOWN or after.total != stream.total:
            return None
        is_next = after.count == (front.count if front is not None and front.total == after.total else 0) + 1
        return after if is_next else None

    def _with_steps(
        self, line: FormatLine, kind: int, records: Records, given: Mapping[int, _State]
    ) -> dict[int, Records]:
        """Return the records of a kind in two: those without a step, and those with the step that they were given."""
        rows = np.array(sorted(given), np.int64)
        left = np.setdiff1d(np.arange(len(records)), rows)
        taken = records.take(rows)
        states = [given[row] for row in rows.tolist()]
        taken.columns = taken.columns | {
            _STEP: np.array([state.count for state in states], np.int64),
            BAR_ELAPSED: np.array([state.elapsed for state in states], np.float64),
            SMOOTHED: np.array([_of_short_bar(state.step_time, state.total) for state in states], np.float64),
        }
        parts = {self._kind_of(line, "with step"): taken}
        return parts | ({kind: records.take(left)} if len(left) else {})

    # --- which states are rows --------------------------------------------------------------------------------------

    def _roles(self, table: _StateTable, used: Mapping[int, str]) -> np.ndarray[Any, Any]:
        """Return what becomes of each state: a row of steps or of values, or nothing."""
        roles = np.full(len(table.kinds), "dropped", object)
        for label, states in table.states.items():
            bars = self._streams.setdefault(label, _Stream()).bars
            for bar in bars.values():
                bar.stale = _UNKNOWN  # it is in an earlier batch
            for state in states:
                kind = int(table.kinds[state.index])
                line = table.lines[kind]
                bar = bars.setdefault((_bar_of(line.template), state.total), _Bar())
                if _is_next_pass(line, state, bar):
                    bar.count, bar.elapsed, bar.kinds = 0, 0.0, set()
                bar.line, bar.step = state.position >> PART_BITS, state.step
                role = self._role(line, kind, state, bar, used.get(state.index, ""))
                if _replaces(state, bar) and state.index not in used:
                    roles[bar.stale], role = "dropped", "steps"
                is_stale = role == "steps" and state.count != bar.count and state.shown == bar.shown
                bar.stale = state.index if is_stale and state.shown and state.index not in used else _UNKNOWN
                bar.shown = state.shown
                roles[state.index] = role
                if role != "dropped" and state.count == bar.count:
                    bar.kinds.add(kind)
                elif role != "dropped":
                    bar.count, bar.elapsed, bar.kinds = state.count, state.elapsed, {kind}
                elif not state.count:
                    bar.count, bar.elapsed, bar.kinds = 0, 0.0, set()
        return roles

    def _role(self, line: Line, kind: int, state: _State, bar: _Bar, used: str) -> str:
        """Return what becomes of a state of a bar. `used`: how a line beside it takes its step from it, if one does."""
        if used:
            return "steps" if used == "bar_in_front" and not self._steps_are_printed else "values with step"
        if not state.count:
            return "dropped"
        is_of_program = _prints_step(line) and not self._lines[kind][0].library
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
            new = _line_for(line[1], role)
            smoothed = {SMOOTHED: _short_bar_times(line[1], part)} if role == "steps" else {}
            if new is line[1]:
                part.columns = part.columns | smoothed
                parts[kind] = part
                continue
            renamed = dict(zip(_names(line[1].template), _names(new.template), strict=True))
            columns = {renamed.get(name, name): column for name, column in part.columns.items()}
            part.columns = {} if role == "dropped" else columns | smoothed
            parts[self._kind_of(line, role)] = part
        return parts

    def _kind_of(self, line: FormatLine, role: str) -> int:
        """Return the kind of a Line in a role."""
        key = line[1], role
        if key not in self._kinds:
            self._kinds[key] = len(self._lines)
            self._lines.append((line[0], _line_for(line[1], role)))
        return self._kinds[key]

    def _remember(self, table: _StateTable) -> None:
        for label, states in table.states.items():
            if states:
                self._streams.setdefault(label, _Stream()).last = replace(states[-1], index=_UNKNOWN)


class _StateTable:
    """The states of a batch: by rank label, in log order.

    Attributes:
        lines: The Line of each kind.
        kinds: The kind of each state, kind after kind.
        states: The states of each label.
        positions: Their positions.
    """

    def __init__(self, lines: Sequence[FormatLine], batch: Batch, kinds: Sequence[int]) -> None:
        self.lines = {kind: lines[kind][1] for kind in kinds}
        self.kinds = np.repeat(np.array(kinds, np.int64), [len(batch.records[kind]) for kind in kinds])
        by_label: dict[int, list[_State]] = {}
        index = 0
        for kind in kinds:
            records, fields = batch.records[kind], lines[kind][1].bar
            if fields is None:
                continue
            columns = (_numbers(records, name) for name in (fields.count, fields.total, fields.elapsed))
            line = lines[kind][1]
            steps = records.columns[_STEP].tolist() if _prints_step(line) else [_UNKNOWN] * len(records)
            for position, label, count, total, elapsed, time, shown, step in zip(
                records.positions.tolist(), _labels(records), *columns, _step_times(line, records),
                _shown(line, kind, records), steps, strict=True,
            ):  # fmt: skip
                state = _State(position, int(count), int(total), elapsed, time, fields.counts_steps, index, shown, step)
                by_label.setdefault(label, []).append(state)
                index += 1
        self.states = {label: sorted(states, key=lambda state: state.position) for label, states in by_label.items()}
        self.positions: dict[int, Ints] = {
            label: np.array([state.position for state in states], np.int64) for label, states in self.states.items()
        }


def _labels(records: Records) -> list[int]:
    return [_UNKNOWN] * len(records) if records.labels is None else records.labels.tolist()


def _numbers(records: Records, name: str) -> list[float]:
    """Return the numbers of a field; `_UNKNOWN` for records that lack it."""
    column = records.columns.get(name)
    if not isinstance(column, np.ndarray):
        return [_UNKNOWN] * len(records)
    numbers: list[float] = np.where(np.isfinite(column), column, _UNKNOWN).tolist()
    return numbers


def _step_times(line: Line, records: Records) -> list[float]:
    """Return the seconds of a step by the rate of each state of a bar, NaN where it is not printed."""
    rate = line.bar.rate if line.bar is not None else ""
    column, unit = records.columns.get(rate), line.unit.get(rate)
    if not isinstance(column, np.ndarray) or unit is None:
        return [math.nan] * len(records)
    numbers = column * unit.factor
    with np.errstate(divide="ignore"):
        times: list[float] = (numbers if unit.base == "s" else 1 / numbers).tolist()
    return times


def _shown(line: Line, kind: int, records: Records) -> list[tuple[object, ...]]:
    """Return what each state of a bar shows: the kind and the figures after its rate; () for one without figures."""
    names = line.template.names
    own = (line.bar.count, line.bar.total, line.bar.elapsed, line.bar.rate) if line.bar is not None else ()
    end = max((names.index(name) for name in own if name in names), default=len(names))
    columns = [records.columns[name] for name in names[end + 1 :] if name in records.columns]
    if line.table != "steps" or not columns:
        return [()] * len(records)
    figures = (x.tolist() if isinstance(x, np.ndarray) else x.to_pylist() for x in columns)
    return [(kind, *values) for values in zip(*figures, strict=True)]


def _replaces(state: _State, bar: _Bar) -> bool:
    """Return whether a state is the row of its count instead of the one before it, which has older figures.

    Both are drawn at once, and a step takes longer than a second. Where the figures of the next step are set before it
    is counted, the time of a step passes between two states of one count.
    """
    is_same_moment = state.count == bar.count and state.elapsed == bar.elapsed and not state.may_lag
    return bar.stale != _UNKNOWN and is_same_moment and state.shown[:1] == bar.shown[:1] and state.shown != bar.shown


def _short_bar_times(line: Line, records: Records) -> np.ndarray[Any, Any]:
    """Return the seconds of a step by the rate of each state of a short bar, else NaN."""
    totals = _numbers(records, line.bar.total if line.bar is not None else "")
    times = zip(_step_times(line, records), totals, strict=True)
    return np.array([_of_short_bar(time, total) for time, total in times], np.float64)


def _of_short_bar(step_time: float, total: float) -> float:
    """Return the seconds of a step of a bar that takes less than `APART` seconds, else NaN."""
    return step_time if total > 0 and step_time * total < APART else math.nan


def _epoch(line: Line, records: Records, row: int) -> float | None:
    """Return the epoch that a line prints; None if it prints none."""
    name = next((name for name in line.template.names if line.key_of(name) == "epoch"), None)
    column = records.columns.get(name or "")
    if column is None:
        return None
    try:
        return float(column[row] if isinstance(column, np.ndarray) else column[row].as_py())
    except (TypeError, ValueError):
        return None


def _agreeing(stream: _Stream, states: Sequence[_State], epoch: float | None) -> _State | None:
    """Return the first of the states beside a line if they agree with each other and with the printed epoch.

    Where the steps of an epoch are known, the epoch alone may decide which of two states is right.
    """
    if any(state.total == stream.total != _UNKNOWN for state in states):
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


def _is_next_pass(line: Line, state: _State, bar: _Bar) -> bool:
    """Whether a bar that was complete is complete again, after another line: Keras prints `Epoch 2/5` between them.

    Only for bars without a clock, as Keras draws them: one process draws them. Other bars are drawn again at their end,
    unless another step is printed beside the count.
    """
    if state.step != bar.step and _UNKNOWN not in (state.step, bar.step):
        return True
    has_clock = line.bar is None or bool(line.bar.elapsed)
    is_complete = state.count == state.total == bar.count
    return is_complete and not has_clock and (state.position >> PART_BITS) - bar.line > 1


def _prints_step(line: Line) -> bool:
    """Whether a line with a state prints its step too: `10|29|Loss: 1.25: 67%|██ | 2/3 [...]`."""
    is_other = line.bar is not None and line.bar.count != _STEP
    return is_other and any(f.name == _STEP and f.type == "d" for f in line.template.fields)


def _names(template: Template) -> list[str]:
    return [f.name for f in template.fields]


@lru_cache(1 << 12)
def _bar_of(template: Template) -> str:
    """Return what distinguishes a bar from others: its description."""
    return template.literals[0]


@lru_cache(1 << 12)
def _line_for(line: Line, role: str) -> Line:
    """Return a Line in a role: the Line of a state that is a row of a table or none, or a line with a step of a bar."""
    if role == "with step":
        if line.clock or line.step_by != "bar":  # others are printed at another time than the state
            return replace(line, under_header=True)
        unit = {**line.unit, BAR_ELAPSED: UNITS["s"]}
        return replace(line, under_header=True, clock=(BAR_ELAPSED,), clock_of_bar=True, unit=unit)
    fields = line.bar
    if role == "dropped" or fields is None:
        text = _FIELD.sub(f"{{{DECLARED_DROPPED}:", line.template.text)
        dropped = {DECLARED_DROPPED: _REDRAWN}
        return Line(line.name, Template(text), dropped=dropped, under_header=True, telling=line.telling, bar=line.bar)
    if role == "steps":
        if line.table == "steps":
            return line
        renamed = {fields.count: _STEP, fields.elapsed: "elapsed"}
        template = Template(_renamed(line.template.text, renamed))
        clock = ("elapsed",) if fields.elapsed else ()
        run = (fields.total,) if fields.total else ()
        return _moved(line, template, renamed, table="steps", clock=clock, clock_of_bar=True, run=run)
    if line.table != "steps" and role == "values":
        return line
    if role == "values with step":  # the line beside it is the row of the step
        renamed = {fields.count: _STEP, fields.elapsed: DECLARED_DROPPED} if fields.count != _STEP else {}
        template, run = Template(_renamed(line.template.text, renamed)), (fields.total,) if fields.total else ()
        reasons = dict.fromkeys((*line.dropped.values(), _BESIDE))
        dropped = {DECLARED_DROPPED: "; ".join(reasons)}
        return _moved(line, template, renamed, table="values", within=None, run=run, clock=(), dropped=dropped)
    renamed = {_STEP: _BAR, "elapsed": BAR_ELAPSED} if fields.count == _STEP else {"elapsed": BAR_ELAPSED}
    renamed = {old: new for old, new in renamed.items() if new not in line.template.names}
    return _moved(line, Template(_renamed(line.template.text, renamed)), renamed, table="values", within=None, run=())


def _renamed(text: str, names: Mapping[str, str]) -> str:
    return _FIELD.sub(lambda match: f"{{{names.get(match[1], match[1])}:", text)


def _moved(line: Line, template: Template, renamed: Mapping[str, str], **changes: Any) -> Line:
    """Return the Line of a state with other names and in another table."""
    unit = {renamed.get(name, name): unit for name, unit in line.unit.items()}
    return replace(line, template=template, samples=(), unit=unit, under_header=True, **changes)


def _with_kinds(batch: Batch, lines: Sequence[FormatLine], new: Mapping[int, Mapping[int, Records]]) -> Batch:
    """Return a batch in which the records of some kinds are records of other kinds.

    A physical line with states and another record counts as that record's.
    """
    records = {kind: part for kind, part in batch.records.items() if kind not in new}
    owner = {kind: positions for kind, positions in batch.owner.items() if kind not in new}
    for old, parts in new.items():
        owned = batch.owner.get(old, np.empty(0, np.int64))
        for kind, part in parts.items():
            records[kind] = part
            owner[kind] = owned[np.isin(owned, part.positions)]
    bars = [kind for kind in owner if kind >= 0 and lines[kind][1].bar]
    bar_lines = np.concatenate([np.empty(0, np.int64), *(owner[kind] for kind in bars)]) >> PART_BITS
    for kind, part in records.items():
        if lines[kind][1].read and not lines[kind][1].bar:
            numbers = part.positions >> PART_BITS
            shared, first = np.unique(numbers, return_index=True)
            taken = np.isin(shared, bar_lines)
            if taken.any():
                owner[kind] = np.union1d(owner.get(kind, part.positions[:0]), part.positions[first[taken]])
                owner |= {bar: owner[bar][~np.isin(owner[bar] >> PART_BITS, shared[taken])] for bar in bars}
                bar_lines = bar_lines[~np.isin(bar_lines, shared[taken])]
    return replace(batch, records=records, owner=owner)
