"""Step times from a clock: two readings of it give a step time by difference.

In: rows that read a clock, and which of them start or stop it; rows after a pause (`pause`): the program did
something else than steps before it printed them. Out: columns `elapsed_s`, `step_time_s`, `step_time_from` and
`step_time_by` of table `steps`, and the last reading of each run.

A row reads the best clock that its line has: a field with the time since a start (key `clock` of the line), the time
stamp before the line, the time since a progress bar began. A run with printed step times needs no stamps.
A bar that is too short for differences has its smoothed rate. A line that prints how many steps a second it does, and
no time of a step, gives that time: see `step_rates`.

The time of a step is the difference between its reading and the reading of the step before it, over the number of steps
in between. It is null across a pause or a start, and where the clock or the steps go back. A clock of whole seconds may
be wrong by as much as a step takes. So readings of stamps and bars count only where they are `APART` times the last
printed digit apart. A bar that begins again in each epoch does not measure the whole run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from msgspec import Struct, field

from perflog.arrays import Floats, Ints, Mask
from perflog.parsing.assemble.attributed_rows import BAR, CLOCK, LINE, RATE, AttributedRows, ClockColumns
from perflog.parsing.assemble.column_values import nanoseconds, unit_of
from perflog.parsing.assemble.runs.run_state import ClockTotal, RunIndex
from perflog.parsing.assemble.steps.step_rates import rate_of_steps, seconds_of_steps
from perflog.parsing.assemble.steps.step_repeats import by_number
from perflog.parsing.assemble.steps.step_windows import UNKNOWN
from perflog.parsing.match.ordered.bar_table import APART, SMOOTHED
from perflog.tables.row_order import PART_BITS

_NEVER = -1  # time of a row that reads no clock
_LONGEST = 9e9  # seconds; in nanoseconds they fit into 64 bits
_SINCE_1970 = 10**18  # nanoseconds: a clock without a start that reads more (31 years) is a date
_POSITION, _RANK, _STEP, _EPOCH, _CLOCK, _TIME, _SOURCE, _DIGIT = range(8)
_STARTS, _STOPS, _PAUSES, _DERIVES, _PRINTS, _IS_BAR, _COVERS = range(8, 15)
"""The rows of an array with a row a column.

`_CLOCK`: what the row reads of the program's clock or a bar; `_TIME`: the time that is taken for differences.
`_SOURCE`: CLOCK or BAR; LINE + 4 times the clock of a stamp. `_DIGIT`: nanoseconds of its last digit.
`_PRINTS`: whether it prints its step time.
`_COVERS`: the number of steps that the line covers, UNKNOWN if nothing states it.
"""
_SOURCES = 4
_SECOND = 10**9
_LATE = 10 * _SECOND  # a bar reads whole seconds, and a program may wait between two of its lines


class _Last(Struct):
    """The last reading of a rank that counts, from one source: an array of one column.

    `skipped`: whether later readings did not count, since they were too near.
    `fewest`: the fewest steps between two readings that count; `needed`: the steps that the last ones had to cover.
    """

    reading: Ints
    skipped: bool = False
    fewest: int = 0
    needed: int = 0


class _Clock(Struct):
    """What has been read of the clock of a run."""

    start: tuple[int, int] | None = None  # position and time of its last start
    starting: bool = False  # such a start, and no other reading since
    stopped: bool = False
    pauses: int = 0  # pauses and starts so far
    last: dict[int, _Last] = field(default_factory=dict)  # by rank and source
    prints: bool = False  # whether lines print step times
    bar_elapsed: float = 0.0  # the last reading of a progress bar
    bar_begins_again: bool = False  # whether such readings have gone back


class RunClocks:
    """Reads the clocks of the runs, stretch by stretch of the log."""

    def __init__(self) -> None:
        self._clocks: dict[int, _Clock] = {}  # by number of the run

    def fill(self, rows: Sequence[AttributedRows], runs: RunIndex) -> None:
        """Fill the columns of the clock in rows, and the last reading of their runs."""
        table = np.hstack([_array(row) for row in rows])
        rates = np.concatenate([_rates(row) for row in rows])
        order = np.argsort(table[_POSITION], kind="stable")
        table = table[:, order]
        columns = ClockColumns.unknown(len(order))
        for run, low, high in runs.split(table[_POSITION]):
            clock = self._clocks.setdefault(run.index, _Clock())
            run_table, run_columns = table[:, low:high], columns.part(slice(low, high))
            run.clock = _read_elapsed(clock, run_table, run_columns) or (None if clock.bar_begins_again else run.clock)
            _read_steps(clock, run_table, run_columns, rates[order[low:high]])
        index_in_order = np.empty_like(order)
        index_in_order[order] = np.arange(len(order))
        for row, indices in zip(rows, np.split(index_in_order, np.cumsum([len(r) for r in rows])[:-1]), strict=True):
            row.clock = columns.part(indices)
            if row.steps_averaged is not None:
                row.steps_averaged = np.where(row.clock.line > 0, row.clock.steps, row.steps_averaged)

    def end(self, run: int) -> None:
        """Forget a run that has ended."""
        self._clocks.pop(run, None)


def reads_clock(rows: AttributedRows) -> bool:
    """Return whether rows, or what they print of steps, matter for the clock of their run."""
    if rows.line.clock or rows.line.pause:
        return True
    return times_steps(rows) or (rows.line.table == "steps" and prints_step_time(rows))


def times_steps(rows: AttributedRows) -> bool:
    """Return whether rows read a clock, or are steps with a stamp or a rate of steps."""
    is_timed = rows.records.stamps is not None or rate_of_steps(rows.line) is not None
    return bool(rows.line.clock) or (rows.line.table == "steps" and is_timed)


def prints_step_time(rows: AttributedRows) -> bool:
    """Return whether the lines, or lines of a library beside them, print the time of a step."""
    return rows.prints("step_time") or "step_time_s" in rows.joined


def _array(rows: AttributedRows) -> Ints:
    """Return what matters of rows, as an array with a column for each."""
    line = rows.line
    is_step = line.table == "steps"
    prints = prints_step_time(rows) or (is_step and rate_of_steps(line) is not None)
    flags = (line.pause, is_step and not prints, is_step and prints, line.clock_of_bar)
    constants = (np.full(len(rows), flag, np.int64) for flag in flags)
    events = (_is_event(rows, fields) for fields in (line.clock_starts, line.clock_stops))
    steps = np.where(rows.step_known, rows.step, -1)
    covers = np.full(len(rows), UNKNOWN) if rows.steps_averaged is None else rows.steps_averaged
    keys = (rows.records.positions, rows.ranks.rank, steps, rows.epoch)
    return np.vstack([*keys, *_readings(rows), *events, *constants, covers])


def _is_event(rows: AttributedRows, fields: Mapping[str, str] | None) -> Ints:
    """Return 1 for each row in which the fields have these strings; `fields` None: for no row."""
    is_event = np.full(len(rows), fields is not None)
    for name, text in (fields or {}).items():
        column = rows.records.columns.get(name)
        is_event &= [value == text for value in column.to_pylist()] if isinstance(column, pa.Array) else False
    return is_event.astype(np.int64)


def _readings(rows: AttributedRows) -> tuple[Ints, Ints, Ints, Ints]:
    """Return for each row what it reads of a clock, and the time for differences, in nanoseconds, _NEVER for none.

    Also from where that time is, and its last digit.
    """
    clock = times = _times(rows)
    is_bar = rows.line.clock_of_bar
    sources = np.full(len(rows), BAR if is_bar else CLOCK)
    digits = np.full(len(rows), _SECOND if is_bar else 0)
    stamps = rows.records.stamps
    if stamps is not None and rows.line.table == "steps":
        stamped = (stamps.time >= 0) & (times < 0)
        if is_bar and not _are_late(stamps.time, times):
            stamped = stamps.time >= 0
        times = np.where(stamped, stamps.time, times)
        sources = np.where(stamped, LINE + _SOURCES * stamps.clock, sources)
        digits = np.where(stamped, stamps.resolution, digits)
    return clock, times, sources, digits


def _are_late(stamps: Ints, bar: Ints) -> bool:
    """Return whether stamps do not tell when a bar was printed: between two readings they and the bar differ by far.

    A process that relays the output of another one stamps the lines when they reach it. A bar that begins again tells
    nothing.
    """
    both = (stamps >= 0) & (bar >= 0)
    drift = np.diff(stamps[both]) - np.diff(bar[both])
    return not np.any(np.diff(bar[both]) < 0) and bool(np.any(np.abs(np.cumsum(drift)) > _LATE))


def _rates(rows: AttributedRows) -> Floats:
    """Return the seconds of a step by a printed rate, or that of a bar too short for differences, else NaN."""
    line, columns = rows.line, rows.records.columns
    if line.table == "steps" and line.clock_of_bar and SMOOTHED in columns:
        return np.asarray(columns[SMOOTHED], np.float64)
    name = rate_of_steps(line) if line.table == "steps" and not prints_step_time(rows) else None
    values = columns.get(name) if name else None
    if name is None or not isinstance(values, np.ndarray):
        return np.full(len(rows), np.nan)
    return seconds_of_steps(line, name, values.astype(np.float64))


def _times(rows: AttributedRows) -> Ints:
    """Return the time that each row reads, in nanoseconds; _NEVER if it reads none."""
    name = next((name for name in rows.line.clock if name in rows.records.columns), None)
    unit = unit_of(rows.line, name) if name else None
    values = rows.records.columns[name] if name else None
    if unit is None or unit.base != "s" or not isinstance(values, np.ndarray):
        return np.full(len(rows), _NEVER)
    seconds = np.abs(values.astype(np.float64)) * unit.factor
    known = (values >= 0) & (seconds < _LONGEST)
    return np.where(known, nanoseconds(np.where(known, values, 0), unit), _NEVER)


def _read_elapsed(clock: _Clock, table: Ints, columns: ClockColumns) -> ClockTotal | None:
    """Fill the time since the start of the clock. Return the last one of all ranks."""
    positions, times = table[_POSITION], table[_CLOCK]
    starts = _starts(clock, table)
    origins = [clock.start or (0, 0), *zip(positions[starts].tolist(), times[starts].tolist(), strict=True)]
    origin = np.array([time for _, time in origins])[np.searchsorted(positions[starts], positions, "right")]
    elapsed = times - origin
    known = (times >= 0) & (elapsed >= 0) & (elapsed < _SINCE_1970) & ~_stopped(clock, table)
    columns.elapsed[known] = elapsed[known] / 1e9
    if len(starts):
        clock.start = origins[-1]
    if not known.any():
        return None
    bar_elapsed_s = columns.elapsed[known & (table[_IS_BAR] > 0)]
    if len(bar_elapsed_s):
        clock.bar_begins_again |= bool((np.diff(bar_elapsed_s, prepend=clock.bar_elapsed) < 0).any())
        clock.bar_elapsed = float(bar_elapsed_s[-1])
        if clock.bar_begins_again:
            return None
    last = int(np.flatnonzero(known)[-1])
    start = clock.start and clock.start[0] >> PART_BITS
    return ClockTotal(float(columns.elapsed[last]), start, int(positions[last]) >> PART_BITS)


def _starts(clock: _Clock, table: Ints) -> Ints:
    """Return the rows at which the clock starts. Several processes may print one start: the first of them counts."""
    read = np.flatnonzero(table[_CLOCK] >= 0)
    starts = table[_STARTS][read] > 0
    first = starts & ~np.append(clock.starting, starts[:-1])[: len(starts)]
    clock.starting = bool(starts[-1]) if len(starts) else clock.starting
    rows: Ints = read[first]
    return rows


def _stopped(clock: _Clock, table: Ints) -> Mask:
    """Return which rows come after a stop of the clock, before it starts again."""
    rows = np.arange(1, table.shape[1] + 1)
    last_start = np.maximum.accumulate(np.where(table[_STARTS] > 0, rows, 0))
    last_stop = np.maximum.accumulate(np.where(table[_STOPS] > 0, rows, int(clock.stopped) - 1))
    before = np.append(int(clock.stopped) - 1, last_stop[:-1])
    stopped: Mask = np.where(last_start > 0, before > last_start, before >= 0)
    clock.stopped = bool(last_stop[-1] > last_start[-1] if last_start[-1] else last_stop[-1] >= 0)
    return stopped


def _read_steps(clock: _Clock, table: Ints, columns: ClockColumns, rates: Floats) -> None:
    """Fill the step times: differences between the first readings of one step and the next, rank by rank."""
    pauses = clock.pauses + np.cumsum((table[_PAUSES] > 0) | (table[_STARTS] > 0))
    clock.pauses = int(pauses[-1])
    prints = clock.prints | np.logical_or.accumulate(table[_PRINTS] > 0)  # from this row on
    clock.prints = bool(prints[-1])
    table = np.vstack([table, pauses, np.arange(table.shape[1])])
    reads = (table[_TIME] >= 0) & (table[_STEP] >= 0)
    reads &= ~prints | (table[_SOURCE] % _SOURCES != LINE)
    table = table[:, reads]
    for stream, selected in by_number(table[_RANK] * (_SOURCES << 3) + table[_SOURCE]):
        _read_stream(clock, stream, table[:, selected], columns)
    rows = np.flatnonzero(~np.isnan(rates) & (columns.source < 0))
    columns.step_time[rows], columns.source[rows] = rates[rows], RATE


def _read_stream(clock: _Clock, stream: int, readings: Ints, columns: ClockColumns) -> None:
    """Fill the step times of one rank from one source."""
    last = clock.last.get(stream)
    if last is None:
        last = clock.last[stream] = _Last(readings[:, :0])
    readings = np.hstack([last.reading, readings])
    first = np.append(True, (np.diff(readings[[_STEP, _EPOCH, -2]]) != 0).any(axis=0))
    counts, beside = np.flatnonzero(first), bool(readings[_DIGIT].any())
    if beside:
        counts = counts[_apart(last, readings[:, counts])]
    step_number = np.cumsum(first)
    skips = np.diff(step_number[counts]) > 1
    skips[:1] |= last.skipped
    last.reading, last.skipped = readings[:, counts[-1:]].copy(), bool(step_number[counts[-1]] < step_number[-1])
    last.reading[-1] = -1
    readings = readings[:, counts]
    steps, times, epochs, passed = np.diff(readings[[_STEP, _TIME, _EPOCH, -2]])
    derived = (steps > 0) & (times >= 0) & (epochs == 0) & (passed == 0) & (readings[_DERIVES][1:] > 0)
    if beside:  # a clock beside the line: where lines are lost, it covers more than the line. A bar leaves steps out
        covers, is_bar = readings[_COVERS][1:], readings[_SOURCE][1:] % _SOURCES == BAR
        derived &= is_bar | (covers == UNKNOWN) | (covers == steps) | skips
    rows = readings[-1][1:][derived]
    columns.steps[rows] = steps[derived]
    columns.step_time[rows] = times[derived] / steps[derived] / 1e9
    columns.line[rows] = readings[_POSITION][:-1][derived] >> PART_BITS
    columns.source[rows] = readings[_SOURCE][1:][derived] % _SOURCES


def _apart(last: _Last, readings: Ints) -> Mask:
    """Return which readings count: those that are far enough after the one before, or go back.

    Two readings that count also have as many steps between them as two others needed, twice in a row. So slow steps are
    in differences over as many steps as fast ones: a step series leaves out what covers another number of them.
    """
    times, steps, apart = readings[_TIME], readings[_STEP], APART * readings[_DIGIT]
    counts = np.ones(len(times), np.bool_)
    if not last.fewest and (np.diff(times) >= 2 * apart[1:]).all():
        last.needed = 0 if len(times) > 1 else last.needed
        return counts
    rows = zip(times.tolist(), steps.tolist(), apart.tolist(), strict=True)
    last_time, last_step, _ = next(rows)
    for row, (time, step, least) in enumerate(rows, 1):
        gap, covers = time - last_time, step - last_step
        if gap >= 0 and covers >= 0 and (gap < least or covers < last.fewest):
            counts[row] = False
            continue
        needed = covers if least <= gap < 2 * least else 0
        last.fewest = max(last.fewest, min(last.needed, needed))
        last_time, last_step, last.needed = time, step, needed
    return counts
