"""The wall time of one attempt as intervals without gap or overlap, each with its kind and the lines that prove it.

The time between two step lines ends with the time of the steps, as printed or as usual in that part of the run. The
time before is what the lines in between report: a checkpoint, an evaluation. Without such a line a pause of many steps
is a stall.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perflog.arrays import Floats, Ints, Mask
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics.attempts import Extent
from perflog.metrics.jobs.pauses import pause_lines
from perflog.metrics.run_tables import Tables, cached
from perflog.statistics.samples import mad, median
from perflog.tables.columns import NULL, Rows
from perflog.tables.schema import LOCAL, NO_YEAR, UTC

STARTUP, COMPILE, TRAINING, EVALUATION, CHECKPOINT = "startup", "compile", "training", "evaluation", "checkpoint"
DATA_WAIT, STALL, REPEATED, DOWN, SHUTDOWN, UNKNOWN = "data wait", "stall", "repeated", "down", "shutdown", "unknown"
KINDS = (TRAINING, STARTUP, COMPILE, EVALUATION, CHECKPOINT, DATA_WAIT, STALL, REPEATED, DOWN, SHUTDOWN, UNKNOWN)

STAMPS, ELAPSED, PRINTED, STEPS = "stamps", "elapsed", "printed", "steps"
"""Source of the ends of an interval: time stamps of lines, the printed time since a start, a printed duration, the
clock minus the time of steps, the time at which the log was written last."""

RELATIVE = (ELAPSED, STEPS)
"""Clocks of attempts without time stamps: printed time since a start; else the sum of printed durations."""

_KIND_BY_MARK = {
    "checkpoint": CHECKPOINT, "evaluation": EVALUATION, "validation": EVALUATION,
    "restore": STARTUP, "startup": STARTUP,
}  # fmt: skip
_DATA = lazy_pattern(r"(?:^|[^a-z])(?:data|dataloader|batch.generator|load|loader|fetch|input)(?![a-z])", re.IGNORECASE)

_NEAR = 8  # step lines on both sides, from which the usual step time is estimated
_CLEAR = 5.0  # times the scatter: a shorter pause may be chance
_LEAST = 0.01  # of the steps' time
_END_S = 60.0  # from this and ten usual steps on, what follows the last step is no shutdown for sure
_STALL_STEPS, _STALL_S = 10.0, 1.0  # shortest stall, a pause for an unknown reason: in usual steps, and in seconds
_COMPILE = 2.0  # times a usual step: a first step that is longer compiles, or warms up
_FIRST = 3  # step lines that may warm up
_MOST = 0.95  # of the later steps must be shorter
_IN_TIME = 0.9  # share of the step lines with the latest time so far, at least: else the clock goes back
_SERIES = 5  # lines with one value
_DAY = 86_400
_NS = 1_000_000_000


class Interval(Struct):
    """A part of the wall time. `error_s`: how far its ends may be off; NaN: not known."""

    kind: str
    begin: int
    end: int
    first_step: int | None
    last_step: int | None
    first_line: int
    last_line: int
    known_by: str
    error_s: float


class Mark(Struct, frozen=True):
    """A line that reports a pause and its kind. `at`: its time on the clock of the attempt, or None."""

    kind: str
    line: int
    edge: str | None
    at: int | None
    seconds: float | None


class StepLines(Struct, frozen=True):
    """The step lines of an attempt on one clock, where steps and clock go up.

    `places`: index of the step in the order of the job. `steps_done`: since the step line before. `seconds`: printed
    time of a step, NaN if it is not printed. `resolution_s`: of the clock.
    """

    lines: Ints
    steps: Ints
    places: Ints
    steps_done: Ints
    times: Ints
    seconds: Floats
    resolution_s: float


def on_a_clock(tables: Tables, extent: Extent) -> Extent:
    """Return an attempt on the best clock that its lines have: stamps, else printed times, else added durations."""
    if step_lines(tables, extent) is not None:
        return extent
    for clock in RELATIVE:
        steps = step_lines(tables, replace(extent, clock=clock))
        if steps is not None:
            return replace(extent, clock=clock, begin_ns=0, end_ns=int(steps.times[-1]))
    return extent


def attempt_time(tables: Tables, extent: Extent, again_from: int | None, until: int | None) -> list[Interval]:
    """Return the intervals of an attempt, in order; empty if its lines have no time.

    Args:
        tables: All tables.
        extent: The attempt.
        again_from: Step from which on a later attempt does the steps again.
        until: Time at which the next attempt begins, on the same clock.
    """
    steps = step_lines(tables, extent)
    if steps is None:
        return []
    intervals = _Tiling(tables, extent, steps, again_from, until).intervals
    known_by = {ELAPSED: {STAMPS: ELAPSED}, STEPS: {STAMPS: PRINTED, STEPS: PRINTED}}.get(extent.clock or "", {})
    for interval in intervals:
        interval.known_by = known_by.get(interval.known_by, interval.known_by)
    return intervals


def step_lines(tables: Tables, extent: Extent) -> StepLines | None:
    """Return the step lines of an attempt's lowest rank; None if too few have a time."""
    steps = tables.rows_by_run("steps").get(extent.run)
    if steps is None or extent.clock is None:
        return None
    steps = steps.where((steps["copy"] == 1) & steps.known("step"))
    if extent.clock == ELAPSED:
        steps = steps.where(steps.known("elapsed_s"))
    elif extent.clock == STEPS:
        steps = steps.where(steps.known("step_time_s") & ~steps.known("step_time_by"))
    else:
        steps = steps.where(steps.known("printed_ns") & steps.one_of("clock", [extent.clock]))
    if len(steps):
        steps = steps.where(steps["rank"] == steps["rank"].min())
    if len(steps) < 2:
        return None
    if not (np.diff(steps["line"]) >= 0).all():
        steps = steps.where(np.argsort(steps["line"], kind="stable"))
    epochs, numbers = steps["epoch"], steps["step"]
    times = _times(steps, extent.clock)
    per_epoch = int(numbers.max()) + 1
    places = numbers + np.where(epochs == NULL, 0, epochs) * per_epoch
    ahead = _are_ahead(places, times)
    if ahead.sum() < 2 or ahead.mean() < 0.5:
        return None
    steps = steps.where(ahead)
    places, times = places[ahead], times[ahead]
    seconds = np.where(steps.known("step_time_by"), np.nan, steps["step_time_s"])
    seconds = np.where(seconds > 0, seconds, np.nan)
    covers, done = steps["steps_averaged"], np.append(0, np.diff(places))
    crossed = np.append(False, np.diff(steps["epoch"]) != 0)
    usual = int(np.median(done[1:]))
    done = np.where(crossed, np.where(covers > 0, covers, np.minimum(usual, np.maximum(steps["step"], 1))), done)
    done[0] = covers[0] if covers[0] > 0 else max(1, min(usual, int(steps["step"][0])))
    lines = steps["line"]
    if extent.clock == STEPS:
        if not np.isfinite(seconds).all():
            return None
        times = _ns(np.cumsum(seconds * np.maximum(done, 1) + _printed_pauses(tables, extent, lines)))
    return StepLines(lines, steps["step"], places, done, times, seconds, _resolution(times))


def _are_ahead(places: Ints, times: Ints) -> Mask:
    """Flag the step lines at which steps and clock go up; none if somebody set the clock back, as after summer time."""
    ahead = np.append(True, places[1:] > np.maximum.accumulate(places)[:-1])
    in_time = np.append(True, times[1:] >= np.maximum.accumulate(times)[:-1])
    is_ahead: Mask = ahead & in_time & bool(in_time[ahead].mean() >= _IN_TIME)
    return is_ahead


def _times(steps: Rows, clock: str) -> Ints:
    """Return the readings of a clock on step lines; 0 for the clock of added durations."""
    if clock == STEPS:
        return np.zeros(len(steps), np.int64)
    return _ns(steps["elapsed_s"]) if clock == ELAPSED else steps["printed_ns"]


def _printed_pauses(tables: Tables, extent: Extent, lines: Ints) -> Floats:
    """Return the printed seconds of activities other than steps before each step line."""
    found = np.zeros(len(lines))
    here: dict[tuple[int, str], list[Mark]] = {}
    for mark in marks(tables, extent):
        here.setdefault((int(np.searchsorted(lines, mark.line)), _KIND_BY_MARK[mark.kind]), []).append(mark)
    for (gap, _), marks_of_kind in here.items():
        if gap < len(lines):
            found[gap] += _seconds_of(marks_of_kind) or 0.0
    return found


def _ns(seconds: Floats) -> Ints:
    """Return seconds in nanoseconds; 0 where they are not known."""
    return np.round(np.where(np.isfinite(seconds), seconds, 0.0) * _NS).astype(np.int64)


def _resolution(times: Ints) -> float:
    """The resolution of a clock in seconds, as its readings show it."""
    unit = next((unit for unit in (_NS, _NS // 10, _NS // 100, _NS // 1000) if not (times % unit).any()), 0)
    return unit / _NS if unit else 1e-4 if not (times % 100_000).any() else 1e-6


class _Tiling:
    """Divides the time of an attempt into intervals, from its first line to its last."""

    def __init__(
        self, tables: Tables, extent: Extent, steps: StepLines, again_from: int | None, until: int | None
    ) -> None:
        self._tables, self._extent, self._steps, self._until = tables, extent, steps, until
        self._again = again_from
        self.intervals: list[Interval] = []
        self._marks = list(marks(tables, extent))
        self._gap_of = np.searchsorted(steps.lines, [mark.line for mark in self._marks]).tolist()
        stamps = [mark.at for mark in self._marks if mark.at is not None]
        self._stamp_s = _resolution(np.array(stamps, np.int64)) if stamps else steps.resolution_s
        self._position = extent.begin_ns
        self._line = tables_lines(tables, extent.run)[0]
        self._measure()
        self._start()
        self._between()
        self._tail()

    # --- what a step takes ---

    def _measure(self) -> None:
        steps = self._steps
        gaps = np.diff(steps.times) / _NS
        done = np.maximum(steps.steps_done[1:], 1)
        self._each = np.append(np.nan, gaps / done)  # by step line: clock time of a step since the line before
        self._plain: Mask = np.ones(len(steps.times), np.bool_)
        self._plain[[gap for gap in self._gap_of if gap < len(steps.times)]] = False
        self._plain[0] = False
        outside = (self._each - steps.seconds)[self._plain]
        outside = outside[np.isfinite(outside)]
        # time of each iteration outside of its printed time belongs to it
        beside = max(0.0, median(outside)) if len(outside) >= 4 else 0.0
        self._scatter_outside = mad(outside) if len(outside) >= 4 else 0.0
        self._printed = steps.seconds + beside
        plain = self._each[self._plain]
        self._usual_of_all = median(plain) if len(plain) else float(np.nanmedian(self._each))
        self._warm = self._warming()

    def _warming(self) -> int:
        """Number of step lines that warm up: the first few, if they are far longer than nearly all others."""
        later = self._each[1 + _FIRST :][self._plain[1 + _FIRST :]]
        if len(later) < _FIRST:
            return 0
        longest = max(_COMPILE * self._usual_of_all, float(np.quantile(later, _MOST)))
        first = self._steps.seconds[0] if np.isfinite(self._steps.seconds[0]) else np.inf
        slow = np.append(first, self._each[1 : 1 + _FIRST]) > longest
        return int(np.argmin(np.append(slow, False)))

    def _usual(self, line_index: int) -> tuple[float, float]:
        """Return the usual time of a step around a step line, without steps with a pause, and its scatter."""
        low, high = max(0, line_index - _NEAR), line_index + _NEAR + 1
        around = np.flatnonzero(self._plain[low:high]) + low
        around = around[around != line_index]
        if len(around) < 3:
            return self._usual_of_all, 0.1 * self._usual_of_all
        each = self._each[around]
        return median(each), mad(each)

    # --- the parts of an attempt ---

    def _start(self) -> None:
        """The start-up, until the first step begins, and what its first step takes longer than others."""
        steps = self._steps
        usual, _ = self._usual(0)
        count = int(steps.steps_done[0])
        begun = [m.at for m, gap in zip(self._marks, self._gap_of, strict=True) if gap == 0 and m.at is not None]
        first = int(steps.times[0])
        seconds = steps.seconds[0] * count if np.isfinite(steps.seconds[0]) else usual * count
        took = min(round(seconds * _NS), first - self._position)
        ended = max((at for at in begun if at <= first), default=None)
        if not np.isfinite(steps.seconds[0]) and ended is not None and first - ended >= took:
            took = first - ended  # the first steps began when the start-up ended
        opening = STARTUP
        if self._extent.clock == ELAPSED and not np.isfinite(steps.seconds[0]):  # a bar begins with the first step
            opening = COMPILE
        if self._extent.clock == ELAPSED and steps.places[0] > count:  # the steps before it are not in the log
            self._position = first - took
        self._to(first - took, opening, int(steps.lines[0]), STAMPS, None, None, self._stamp_s)
        self._steps_to(0, first, usual)

    def _between(self) -> None:
        steps = self._steps
        special = self._special()
        done = 0  # the last step line that is settled
        for line_index in special:
            if line_index - 1 > done:
                self._train(done + 1, line_index - 1)
            usual, scatter = self._usual(line_index)
            pause = self._pause(line_index, usual, scatter)
            here = [m for m, gap in zip(self._marks, self._gap_of, strict=True) if gap == line_index]
            if pause > 0:
                for kind, seconds, known_by in self._named(here, pause, line_index):
                    until = min(self._position + round(seconds * _NS), int(steps.times[line_index]))
                    error = max(steps.resolution_s, scatter)
                    self._to(until, kind, int(steps.lines[line_index]), known_by, None, None, error)
                self._steps_to(line_index, int(steps.times[line_index]), usual)
            else:
                self._train(line_index, line_index)
            done = line_index
        if len(steps.times) - 1 > done:
            self._train(done + 1, len(steps.times) - 1)

    def _special(self) -> list[int]:
        """The step lines before which there may be more than steps."""
        steps = self._steps
        marked = {gap for gap in self._gap_of if 0 < gap < len(steps.times)}
        early = set(range(1, self._warm))
        far = self._each * steps.steps_done >= self._usual_of_all * (steps.steps_done + _STALL_STEPS)
        return sorted(marked | early | set(np.flatnonzero(far).tolist()))

    def _pause(self, line_index: int, usual: float, scatter: float) -> float:
        """Seconds before a step line in which no step was done; 0 if none are clear."""
        steps = self._steps
        count = max(int(steps.steps_done[line_index]), 1)
        whole = self._each[line_index] * count
        coarse = 2 * steps.resolution_s
        by_clock = whole - usual * count
        if not self._plain[line_index]:
            outside = whole - self._printed[line_index] * count
            if outside > max(_CLEAR * self._scatter_outside * count, coarse, _LEAST * usual):
                return float(outside)
            clear = by_clock > max(_CLEAR * scatter * count, coarse, _LEAST * usual * count)
            return float(by_clock) if clear else 0.0
        if by_clock >= max(_STALL_STEPS * usual, _STALL_S, _CLEAR * scatter * count):
            return float(by_clock)
        return float(by_clock) if line_index < self._warm else 0.0

    def _named(self, here: Sequence[Mark], pause: float, line_index: int) -> Iterator[tuple[str, float, str]]:
        """Yield the kinds of activity in a pause, in the order of their lines, their seconds, and the source."""
        kinds = list(dict.fromkeys(_KIND_BY_MARK[mark.kind] for mark in here))
        # An attempt in the same run, as of ranks or without a heading.
        begins_again = kinds == [STARTUP] or (not kinds and self._failed_before(line_index))
        if begins_again and (again := self._done_again(line_index)):
            timed = self._steps.seconds[np.isfinite(self._steps.seconds)]
            repeated = min(pause, again * (median(timed) if len(timed) else self._usual_of_all))
            yield DOWN, pause - repeated, STEPS
            yield REPEATED, repeated, STEPS
            return
        if not kinds:
            if line_index < self._warm:
                yield COMPILE, pause, STEPS
            else:
                yield (DATA_WAIT if self._waits_for_data(line_index, pause) else STALL), pause, STEPS
            return
        if len(kinds) == 1:
            stamped = _stamped_seconds(here)
            by_stamps = stamped is not None and abs(stamped - pause) <= max(2 * self._stamp_s, 0.02 * pause)
            is_shown = by_stamps or np.isfinite(self._printed[line_index]) or self._plain.any()
            kind = (
                kinds[0] if is_shown else UNKNOWN
            )  # with a checkpoint before each line, other lines show its usual time
            yield kind, pause, STAMPS if by_stamps else STEPS
            return
        known = {kind: _seconds_of([m for m in here if _KIND_BY_MARK[m.kind] == kind]) for kind in kinds}
        open_ended = [kind for kind, seconds in known.items() if seconds is None]
        rest = max(0.0, pause - sum(seconds for seconds in known.values() if seconds is not None))
        if len(open_ended) > 1:
            yield UNKNOWN, pause, STEPS
            return
        for kind, seconds in known.items():
            yield (kind, rest, STEPS) if seconds is None else (kind, seconds, PRINTED)
        if not open_ended and rest > 2 * self._stamp_s:
            yield UNKNOWN, rest, STEPS

    def _failed_before(self, line_index: int) -> bool:
        """Whether a failure is printed between a step line and the one before it."""
        rows = self._tables.rows_by_run("failures").get(self._extent.run)
        first, last = self._steps.lines[line_index - 1], self._steps.lines[line_index]
        return rows is not None and bool(((rows["line"] > first) & (rows["line"] < last)).any())

    def _done_again(self, line_index: int) -> int:
        """Return how many steps are printed again between two step lines: an attempt that loads a checkpoint."""
        rows = self._tables.rows_by_run("steps")[self._extent.run]
        rows = rows.where((rows["copy"] > 1) & rows.known("step"))
        first, last = self._steps.lines[line_index - 1], self._steps.lines[line_index]
        again = set(rows["step"][(rows["line"] > first) & (rows["line"] < last)].tolist())
        return len(again) if len(again) > 1 else 0  # other ranks print the last step, too

    def _waits_for_data(self, line_index: int, pause: float) -> bool:
        """Whether a printed phase of the step waited for data for most of a pause."""
        phases = self._tables.rows_by_run("phases").get(self._extent.run)
        if phases is None:
            return False
        steps = self._steps
        step_phases = phases.where(phases["step"] == steps.steps[line_index])
        return any(
            _DATA.search(name) is not None and seconds >= 0.5 * pause
            for name, seconds in step_phases.records("phase", "time_s")
        )

    def _tail(self) -> None:
        """Add what follows the last step: a hang as long as its watchdog reports, a last checkpoint, the shutdown."""
        steps, end = self._steps, self._end()
        last = len(steps.times)
        usual, _ = self._usual(last - 1)
        after = [mark for mark, gap in zip(self._marks, self._gap_of, strict=True) if gap == last]
        line = max([int(steps.lines[-1]), *(mark.line for mark in after)])
        for mark in after:
            kind = _KIND_BY_MARK[mark.kind]
            if kind is STARTUP:
                continue
            if mark.at is not None and mark.edge != "begin":
                self._to(mark.at, kind, mark.line, STAMPS, None, None, self._stamp_s)
            elif mark.seconds is not None:
                self._to(
                    self._position + round(mark.seconds * _NS), kind, mark.line, PRINTED, None, None, self._stamp_s
                )
        failures = self._failures()
        for seconds, failure_line in failures.hung:
            until = self._position + round(seconds * _NS)
            self._to(min(until, self._until or until), STALL, failure_line, PRINTED, None, None, self._stamp_s)
            break
        else:
            silent = (end if failures.first is None else failures.first) - self._position
            if failures.any and silent >= max(_STALL_STEPS * usual, _STALL_S) * _NS:
                kind = UNKNOWN if failures.first is None else STALL  # it may have failed long before its last line
                self._to(self._position + silent, kind, failures.line, STAMPS, None, None, self._stamp_s)
        is_long = end - self._position >= max(_STALL_STEPS * usual, _END_S) * _NS
        kind = UNKNOWN if is_long or self._reads_on() else SHUTDOWN  # the job may have hung
        self._to(end, kind, max(line, failures.line), STAMPS, None, None, self._stamp_s)

    def _reads_on(self) -> bool:
        """Whether a value is printed again and again after the last step: what the job did then is not known."""
        rows = self._tables.rows_by_run("values").get(self._extent.run)
        if rows is None:
            return False
        rows = rows.where((rows["line"] > self._steps.lines[-1]) & rows.known("value"))
        return any(len(set(of["line"].tolist())) >= _SERIES for of in rows.by("key").values())

    def _failures(self) -> _Failures:
        rows = self._tables.rows_by_run("failures").get(self._extent.run)
        if rows is None:
            return _Failures([], None, 0, any=False)
        rows = rows.where(rows["line"] > self._steps.lines[-1])
        hung = [(waited, line) for line, waited in rows.records("line", "waited_s") if waited > 0]
        times = [self._on_clock(time, clock) for time, clock in rows.records("time_ns", "clock")]
        hung.sort(reverse=True)
        known = [time for time in times if time is not None]
        first = min(known) if times and times[0] is not None else None  # the failures before it came earlier
        line = int(rows["last_line"].max()) if len(rows) else 0
        return _Failures(hung[:1], first, line, any=len(rows) > 0)

    def _on_clock(self, time: int, clock: str | None) -> int | None:
        """A time after the last step on the clock of the attempt; None if the clocks cannot be compared."""
        if time == NULL or clock is None:
            return None
        own, last = self._extent.clock, int(self._steps.times[-1])
        if clock == NO_YEAR and own in (LOCAL, UTC):
            year = np.datetime64(last, "ns").astype("datetime64[Y]")
            time += int(year.astype("datetime64[ns]").astype(np.int64))
        elif clock != own:
            return None
        limit = last + _DAY * _NS if self._until is None else self._until
        return time if last <= time <= limit else None

    def _end(self) -> int:
        """Return the time of the last line of the attempt, as far as a clock shows it."""
        rows = self._tables.rows_by_run("milestones").get(self._extent.run)
        end = max(self._extent.end_ns, self._position)
        if rows is not None:
            rows = rows.where(rows["line"] >= self._steps.lines[-1])
            for time, clock in rows.records("printed_ns", "clock"):
                if (at := self._on_clock(time, clock)) is not None:
                    end = max(end, at)
        return end

    # --- making intervals ---

    def _steps_to(self, line_index: int, end: int, usual: float) -> None:
        """Add the steps of one step line, and before them their excess over the usual time while they warm up."""
        steps = self._steps
        count = max(int(steps.steps_done[line_index]), 1)
        seconds = (end - self._position) / _NS
        longer = seconds - usual * count
        if line_index < self._warm and longer > 2 * steps.resolution_s:
            self._to(
                self._position + round(longer * _NS), COMPILE, int(steps.lines[line_index]), STEPS, None, None,
                max(steps.resolution_s, 0.1 * usual),
            )  # fmt: skip
        self._train(line_index, line_index)

    def _train(self, first: int, last: int) -> None:
        """The steps of step lines `first` to `last`: training, or repeated if a later attempt does them again."""
        steps = self._steps
        again = self._again
        if again is None or steps.steps[last] < again:
            self._train_as(TRAINING, first, last, int(steps.times[last]))
            return
        numbers = steps.steps[first : last + 1]
        cut = first + int(np.searchsorted(numbers, again))  # the first step line with a step that is done again
        if cut > first:
            self._train_as(TRAINING, first, cut - 1, int(steps.times[cut - 1]))
        count = max(int(steps.steps_done[cut]), 1)
        new = int(np.clip(again - 1 - (int(steps.steps[cut]) - count), 0, count))
        if new:
            part = self._position + round((int(steps.times[cut]) - self._position) * new / count)
            self._train_as(TRAINING, cut, cut, part, last_step=again - 1)
        self._train_as(REPEATED, cut, last, int(steps.times[last]), first_step=again if new else None)

    def _train_as(
        self, kind: str, first: int, last: int, end: int, first_step: int | None = None, last_step: int | None = None
    ) -> None:
        steps = self._steps
        if first_step is None:
            first_step = int(steps.steps[first]) - max(int(steps.steps_done[first]), 1) + 1
        ends = int(steps.steps[last]) if last_step is None else last_step
        self._to(end, kind, int(steps.lines[last]), STAMPS, first_step, ends, steps.resolution_s)

    def _to(
        self, end: int, kind: str, line: int, known_by: str, first_step: int | None, last_step: int | None, error: float
    ) -> None:
        """An interval from the end of the last one to `end`."""
        end = max(end, self._position)
        before = self.intervals[-1] if self.intervals else None
        if before is not None and before.kind == kind:
            before.end, before.last_line = end, max(line, before.last_line)
            before.last_step = last_step if last_step is not None else before.last_step
            before.error_s = max(before.error_s, error)
        elif end > self._position:
            self.intervals.append(
                Interval(kind, self._position, end, first_step, last_step, min(self._line, line), line, known_by, error)
            )
        self._position, self._line = end, line


class _Failures(Struct, frozen=True):
    """What failed after the last step: how long a collective waited, the time of the first failure, the last line."""

    hung: list[tuple[float, int]]
    first: int | None
    line: int
    any: bool


def _stamped_seconds(here: Sequence[Mark]) -> float | None:
    """The time between the first and the last stamped line of a pause."""
    times = [mark.at for mark in here if mark.at is not None]
    return (max(times) - min(times)) / _NS if len(times) > 1 else None


def _seconds_of(here: Sequence[Mark]) -> float | None:
    """The seconds of one kind of pause: between its time stamps, else as printed."""
    begun = [mark.at for mark in here if mark.edge == "begin" and mark.at is not None]
    ended = [mark.at for mark in here if mark.edge == "end" and mark.at is not None]
    if begun and ended and max(ended) >= min(begun):
        return (max(ended) - min(begun)) / _NS
    return next((mark.seconds for mark in here if mark.seconds is not None), None)


def _ends(tables: Tables) -> Iterator[tuple[str, int, int]]:
    yield from tables.rows("runs").records("run", "first_line", "last_line")


def tables_lines(tables: Tables, run: str) -> tuple[int, int]:
    """Return the first and the last line of a run."""
    lines: Mapping[str, tuple[int, int]] = cached(
        tables.whole, ("lines of runs",),
        lambda: {run: (first, last) for run, first, last in _ends(tables.whole)},
    )  # fmt: skip
    return lines[run]


def marks(tables: Tables, extent: Extent) -> Iterator[Mark]:
    """Yield the lines of an attempt that report a pause, in line order."""
    found: list[Mark] = []
    rows = tables.rows_by_run("milestones").get(extent.run)
    if rows is not None:
        for kind, line, edge, time, clock, seconds in rows.records(
            "kind", "line", "edge", "printed_ns", "clock", "duration_s"
        ):
            if kind in _KIND_BY_MARK:
                at = int(time) if time != NULL and clock == extent.clock else None
                found.append(Mark(kind, line, edge, at, None if np.isnan(seconds) else seconds))
    by_run = [tables.rows_by_run(name).get(extent.run) for name in ("values", "phases", "steps")]
    found += [Mark(kind, line, None, None, seconds) for kind, line, seconds in pause_lines(*by_run)]
    yield from sorted(found, key=lambda mark: mark.line)
