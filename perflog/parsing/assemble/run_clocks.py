"""Step times from a clock: a line that prints the time since a start gives a step time by difference.

In: rows that read a clock (key `clock` of their line), at some of which it starts or stops, and rows behind a
pause (`pause`): the program did something else than steps before it printed them. Out: columns `elapsed_s`,
`step_time_s` and `step_time_from` of table `steps`, and the last reading of each run.

The time since a progress bar began is printed in whole seconds (`clock_by = "bar"`). A difference over one step may be
wrong by as much as the step takes. So of such readings only those count that are `_BAR_SECONDS` apart, and a bar that
begins again in each epoch tells nothing of the whole run.

The time of a step is the difference between its reading and that of the step read before it, over the number of steps
in between. It is null across a pause or a start, and where the clock or the steps go back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct, field

from perflog.parsing.assemble.column_values import nanoseconds, unit_of
from perflog.parsing.assemble.line_rows import ClockColumns, LineRows
from perflog.parsing.assemble.run_state import ClockTotal, RunIndex
from perflog.parsing.assemble.step_repeats import by_number
from perflog.parsing.match.numeric import Ints
from perflog.tables.row_order import PART_BITS

_NEVER = -1  # time of a row that reads no clock
_LONGEST = 9e9  # seconds whose nanoseconds fit into 64 bits
_SINCE_1970 = 10**18  # nanoseconds: a clock without a start that reads more (31 years) tells the date
_PLACE, _RANK, _STEP, _EPOCH, _TIME, _STARTS, _STOPS, _PAUSES, _DERIVES, _IS_BAR = range(
    10
)  # the rows of an array with a row a column
_BAR_SECONDS = 20  # at least between two readings of a bar's clock: a difference is wrong by 5 % at most


class _Clock(Struct):
    """What has been read of the clock of a run."""

    start: tuple[int, int] | None = None  # place and time of its last start
    starting: bool = False  # such a start, and no other reading since
    stopped: bool = False
    pauses: int = 0  # pauses and starts so far
    last: dict[int, Ints] = field(default_factory=dict)  # by rank: its last reading, an array with one column
    bar_elapsed: float = 0.0  # the last reading of a progress bar
    bar_begins_again: bool = False  # whether such readings have gone back


class RunClocks:
    """Reads the clocks of the runs, stretch by stretch of the log."""

    def __init__(self) -> None:
        self._clocks: dict[int, _Clock] = {}  # by number of the run

    def fill(self, rows: Sequence[LineRows], runs: RunIndex) -> None:
        """Fill the columns of the clock in rows, and the last reading of their runs."""
        table = np.hstack([_array(row) for row in rows])
        order = np.argsort(table[_PLACE], kind="stable")
        table = table[:, order]
        columns = ClockColumns.unknown(len(order))
        for run, low, high in runs.split(table[_PLACE]):
            clock = self._clocks.setdefault(run.index, _Clock())
            of_run, columns_of_run = table[:, low:high], columns.part(slice(low, high))
            run.clock = _read_elapsed(clock, of_run, columns_of_run) or (None if clock.bar_begins_again else run.clock)
            _read_steps(clock, of_run, columns_of_run)
        position = np.empty_like(order)
        position[order] = np.arange(len(order))
        for row, positions in zip(rows, np.split(position, np.cumsum([len(r) for r in rows])[:-1]), strict=True):
            row.clock = columns.part(positions)
            if row.steps_averaged is not None:
                row.steps_averaged = np.where(row.clock.line > 0, row.clock.steps, row.steps_averaged)

    def end(self, run: int) -> None:
        """Forget a run that has ended."""
        self._clocks.pop(run, None)


def _array(row: LineRows) -> Ints:
    """Return what matters of rows, as an array with a column for each."""
    line = row.line
    derives = line.table == "steps" and not row.prints("step_time")
    constants = (np.full(len(row), value, np.int64) for value in (line.pause, derives, line.clock_by == "bar"))
    events = (_is_event(row, fields) for fields in (line.clock_starts, line.clock_stops))
    steps = np.where(row.step_known, row.step, -1)
    return np.vstack([row.records.places, row.ranks.rank, steps, row.epoch, _times(row), *events, *constants])


def _is_event(row: LineRows, fields: Mapping[str, str] | None) -> Ints:
    """Return 1 for each row whose fields have these texts; `fields` None: none has."""
    is_event = np.full(len(row), fields is not None)
    for name, text in (fields or {}).items():
        column = row.records.columns.get(name)
        is_event &= [value == text for value in column.to_pylist()] if isinstance(column, pa.Array) else False
    return is_event.astype(np.int64)


def _times(row: LineRows) -> Ints:
    """Return the time that each row reads, in nanoseconds; _NEVER if it reads none."""
    name = next((name for name in row.line.clock if name in row.records.columns), None)
    unit = unit_of(row.line, name) if name else None
    values = row.records.columns[name] if name else None
    if unit is None or unit.base != "s" or not isinstance(values, np.ndarray):
        return np.full(len(row), _NEVER)
    seconds = np.abs(values.astype(np.float64)) * unit.factor
    known = (values >= 0) & (seconds < _LONGEST)
    return np.where(known, nanoseconds(np.where(known, values, 0), unit), _NEVER)


def _read_elapsed(clock: _Clock, table: Ints, columns: ClockColumns) -> ClockTotal | None:
    """Fill the time since the start of the clock. Return the last one of all ranks."""
    places, times = table[_PLACE], table[_TIME]
    starts = _starts(clock, table)
    origins = [clock.start or (0, 0), *zip(places[starts].tolist(), times[starts].tolist(), strict=True)]
    origin = np.array([time for _, time in origins])[np.searchsorted(places[starts], places, "right")]
    elapsed = times - origin
    known = (times >= 0) & (elapsed >= 0) & (elapsed < _SINCE_1970) & ~_stopped(clock, table)
    columns.elapsed[known] = elapsed[known] / 1e9
    if len(starts):
        clock.start = origins[-1]
    if not known.any():
        return None
    of_bar = columns.elapsed[known & (table[_IS_BAR] > 0)]
    if len(of_bar):
        clock.bar_begins_again |= bool((np.diff(of_bar, prepend=clock.bar_elapsed) < 0).any())
        clock.bar_elapsed = float(of_bar[-1])
        if clock.bar_begins_again:
            return None
    last = int(np.flatnonzero(known)[-1])
    start = clock.start and clock.start[0] >> PART_BITS
    return ClockTotal(float(columns.elapsed[last]), start, int(places[last]) >> PART_BITS)


def _starts(clock: _Clock, table: Ints) -> Ints:
    """Return the rows at which the clock starts. Several processes may print one start: the first of them counts."""
    read = np.flatnonzero(table[_TIME] >= 0)
    starts = table[_STARTS][read] > 0
    first = starts & ~np.append(clock.starting, starts[:-1])[: len(starts)]
    clock.starting = bool(starts[-1]) if len(starts) else clock.starting
    rows: Ints = read[first]
    return rows


def _stopped(clock: _Clock, table: Ints) -> npt.NDArray[np.bool_]:
    """Return which rows come after a stop of the clock, before it starts again."""
    rows = np.arange(1, table.shape[1] + 1)
    last_start = np.maximum.accumulate(np.where(table[_STARTS] > 0, rows, 0))
    last_stop = np.maximum.accumulate(np.where(table[_STOPS] > 0, rows, int(clock.stopped) - 1))
    before = np.append(int(clock.stopped) - 1, last_stop[:-1])
    stopped: npt.NDArray[np.bool_] = np.where(last_start > 0, before > last_start, before >= 0)
    clock.stopped = bool(last_stop[-1] > last_start[-1] if last_start[-1] else last_stop[-1] >= 0)
    return stopped


def _read_steps(clock: _Clock, table: Ints, columns: ClockColumns) -> None:
    """Fill the step times: differences between the first readings of one step and the next, rank by rank."""
    pauses = clock.pauses + np.cumsum((table[_PAUSES] > 0) | (table[_STARTS] > 0))
    clock.pauses = int(pauses[-1])
    table = np.vstack([table, pauses, np.arange(table.shape[1])])
    table = table[:, (table[_TIME] >= 0) & (table[_STEP] >= 0)]
    for rank, selected in by_number(table[_RANK]):
        readings = table[:, selected]
        if rank in clock.last:
            readings = np.hstack([clock.last[rank], readings])
        same = (np.diff(readings[[_STEP, _EPOCH, -2]]) == 0).all(axis=0)
        readings = readings[:, np.append(True, ~same)]
        if readings[_IS_BAR].any():
            readings = readings[:, _apart(readings[_TIME], readings[_IS_BAR] > 0)]
        clock.last[rank] = readings[:, -1:].copy()
        clock.last[rank][-1] = -1
        steps, times, epochs, passed = np.diff(readings[[_STEP, _TIME, _EPOCH, -2]])
        derived = (steps > 0) & (times >= 0) & (epochs == 0) & (passed == 0) & (readings[_DERIVES][1:] > 0)
        rows = readings[-1][1:][derived]
        columns.steps[rows] = steps[derived]
        columns.step_time[rows] = times[derived] / steps[derived] / 1e9
        columns.line[rows] = readings[_PLACE][:-1][derived] >> PART_BITS


def _apart(times: Ints, is_bar: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return which readings count: of a bar those that are far enough behind the one before, or begin again."""
    counts = np.ones(len(times), np.bool_)
    last = -1
    for i, (time, of_bar) in enumerate(zip(times.tolist(), is_bar.tolist(), strict=True)):
        counts[i] = not of_bar or last < 0 or not 0 <= time - last < _BAR_SECONDS * 10**9
        last = time if counts[i] else last
    return counts
