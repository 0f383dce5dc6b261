"""The wall time of one attempt as intervals without gap or overlap, each with its kind and the lines that prove it.

The time between two step lines ends with the time of the steps, as printed or as usual in that part of the run. The
time before is what the lines in between report: a checkpoint, an evaluation. Without such a line a pause of many steps
is a stall.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from perflog.lazy_patterns import lazy_pattern
from perflog.metrics.attempts import Extent
from perflog.metrics.jobs.attempt_clock import StepLines, resolution, step_lines
from perflog.metrics.jobs.attempt_end import AfterLastStep
from perflog.metrics.jobs.job_intervals import (
    COMPILE,
    DATA_WAIT,
    DOWN,
    ELAPSED,
    NS,
    PRINTED,
    REPEATED,
    SHUTDOWN,
    STALL,
    STAMPS,
    STARTUP,
    STEPS,
    TRAINING,
    UNKNOWN,
    Interval,
    IntervalChain,
)
from perflog.metrics.jobs.pause_marks import Mark, marks, seconds_of, stamped_seconds
from perflog.metrics.jobs.usual_steps import UsualSteps
from perflog.metrics.run_tables import Tables, computed_of_all
from perflog.metrics.step_orders import step_order
from perflog.parsing.failures.rows import FATAL
from perflog.statistics.groups import distinct
from perflog.statistics.samples import median

_DATA = lazy_pattern(r"(?:^|[^a-z])(?:data|dataloader|batch.generator|load|loader|fetch|input)(?![a-z])", re.IGNORECASE)
_CLEAR = 5.0  # times the scatter: a shorter pause may be chance
_LEAST = 0.01  # of the steps' time
_END_S = 60.0  # from this and ten usual steps on, what follows the last step is no shutdown for sure
_LATE_STEPS = 2.0  # in which other ranks print a step that one rank has printed
_STALL_STEPS, _STALL_S = 10.0, 1.0  # shortest stall, a pause for an unknown reason: in usual steps, and in seconds


def attempt_time(
    tables: Tables, extent: Extent, again_from: int | None, until: int | None, since: int | None = None
) -> list[Interval]:
    """Return the intervals of an attempt, in order; empty if its lines have no time.

    Args:
        tables: All tables.
        extent: The attempt.
        again_from: Step in the order of the job from which on a later attempt does the steps again.
        until: Time at which the next attempt begins, on the same clock.
        since: Time at which the attempt before ends, on the same clock.
    """
    steps = step_lines(tables, extent)
    if steps is None:
        return []
    intervals = _Tiling(tables, extent, steps, again_from, until, since).intervals
    known_by = {ELAPSED: {STAMPS: ELAPSED}, STEPS: {STAMPS: PRINTED, STEPS: PRINTED}}.get(extent.clock or "", {})
    for interval in intervals:
        interval.known_by = known_by.get(interval.known_by, interval.known_by)
    return intervals


class _Tiling:
    """Divides the time of an attempt into intervals, from its first line to its last."""

    def __init__(
        self,
        tables: Tables,
        extent: Extent,
        steps: StepLines,
        again_from: int | None,
        until: int | None,
        since: int | None,
    ) -> None:
        self._tables, self._extent, self._steps, self._until, self._since = tables, extent, steps, until, since
        self._again = again_from
        self._marks = marks(tables, extent)
        by_line = np.searchsorted(steps.lines, [mark.line for mark in self._marks])
        by_time = np.searchsorted(steps.times, [mark.at or 0 for mark in self._marks])
        is_elsewhere = np.array([mark.is_elsewhere for mark in self._marks], np.bool_)
        self._gap_of = np.where(is_elsewhere, by_time, by_line).tolist()
        stamps = [mark.at for mark in self._marks if mark.at is not None]
        self._stamp_s = resolution(np.array(stamps, np.int64)) if stamps else steps.resolution_s
        self._usual = UsualSteps(steps, [gap for gap in self._gap_of if gap < len(steps.times)])
        self._chain = IntervalChain(extent.begin_ns, _first_lines(tables)[extent.run])
        self._start()
        self._between()
        self._tail()

    @property
    def intervals(self) -> list[Interval]:
        return self._chain.intervals

    def _start(self) -> None:
        """Add the start-up and the steps of the first step line.

        These steps took the time that their line prints. Without it they took the usual time, or the time since the
        start-up ended, if that is longer.
        """
        steps = self._steps
        is_printed, is_bar = bool(np.isfinite(steps.seconds[0])), self._extent.clock == ELAPSED
        usual, _ = self._usual.around(0)
        count = int(steps.steps_done[0])
        end = int(steps.times[0])
        took = round((steps.seconds[0] if is_printed else usual) * count * NS)
        if self._since is not None and self._chain.position == end:  # no line shows when the attempt began
            self._chain.position = max(self._since, end - took)
        took = min(took, end - self._chain.position)
        before = [mark.at for mark, gap in zip(self._marks, self._gap_of, strict=True) if gap == 0]
        startup_end = max((at for at in before if at is not None and at <= end), default=None)
        if not is_printed and startup_end is not None:
            took = max(took, end - startup_end)
        if is_bar and steps.places[0] > count:  # the steps before it are not in the log
            if len(steps.times) <= 2 and not is_printed:  # a single time is not a usual one
                took = 0
            self._chain.position = end - took
        opening = COMPILE if is_bar and not is_printed else STARTUP  # the clock of a bar begins with the first step
        self._chain.add(end - took, opening, int(steps.lines[0]), STAMPS, self._stamp_s)
        self._steps_to(0, end, usual)

    def _between(self) -> None:
        """Add the steps between the first step line and the last, and the pauses between them by what caused them."""
        steps = self._steps
        special = self._special()
        done = 0  # the last step line that is settled
        for line_index in special:
            if line_index - 1 > done:
                self._train(done + 1, line_index - 1)
            usual, scatter = self._usual.around(line_index)
            pause = self._pause(line_index, usual, scatter)
            here = [m for m, gap in zip(self._marks, self._gap_of, strict=True) if gap == line_index]
            if pause > 0:
                for kind, seconds, known_by in self._named(here, pause, line_index):
                    until = min(self._chain.position + round(seconds * NS), int(steps.times[line_index]))
                    error = max(steps.resolution_s, scatter)
                    self._chain.add(until, kind, int(steps.lines[line_index]), known_by, error)
                self._steps_to(line_index, int(steps.times[line_index]), usual)
            else:
                self._train(line_index, line_index)
            done = line_index
        if len(steps.times) - 1 > done:
            self._train(done + 1, len(steps.times) - 1)

    def _special(self) -> list[int]:
        """Return the step lines that a pause may precede: after other lines, in the warm-up, or after a long time."""
        steps = self._steps
        marked = {gap for gap in self._gap_of if 0 < gap < len(steps.times)}
        early = set(range(1, self._usual.warm))
        far = self._usual.each * steps.steps_done >= self._usual.overall * (steps.steps_done + _STALL_STEPS)
        return sorted(marked | early | set(np.flatnonzero(far).tolist()))

    def _pause(self, line_index: int, usual: float, scatter: float) -> float:
        """Seconds before a step line in which no step was done; 0 if none are clear."""
        steps = self._steps
        count = max(int(steps.steps_done[line_index]), 1)
        whole = self._usual.each[line_index] * count
        coarse = 2 * steps.resolution_s
        by_clock = whole - usual * count
        if not self._usual.plain[line_index]:
            outside = whole - self._usual.printed[line_index] * count
            if outside > max(_CLEAR * self._usual.scatter_outside * count, coarse, _LEAST * usual):
                return float(outside)
            clear = by_clock > max(_CLEAR * scatter * count, coarse, _LEAST * usual * count)
            return float(by_clock) if clear else 0.0
        if by_clock >= max(_STALL_STEPS * usual, _STALL_S, _CLEAR * scatter * count):
            return float(by_clock)
        return float(by_clock) if line_index < self._usual.warm else 0.0

    def _named(self, here: Sequence[Mark], pause: float, line_index: int) -> Iterator[tuple[str, float, str]]:
        """Yield the kinds of activity in a pause, in the order of their lines, their seconds, and the source."""
        kinds = list(dict.fromkeys(mark.activity for mark in here))
        if self._extent.clock != STEPS:  # else the pause is what these lines print, and nothing beside it
            again = self._done_again(line_index)
            if again or self._failed_before(line_index):
                yield from self._restarted(here, pause, again)
                return
        if not kinds:
            if line_index < self._usual.warm:
                yield COMPILE, pause, STEPS
            else:
                yield (DATA_WAIT if self._waits_for_data(line_index, pause) else STALL), pause, STEPS
            return
        if len(kinds) == 1:
            stamped = stamped_seconds(here)
            by_stamps = stamped is not None and abs(stamped - pause) <= max(2 * self._stamp_s, 0.02 * pause)
            is_shown = by_stamps or np.isfinite(self._usual.printed[line_index]) or self._usual.plain.any()
            # With a checkpoint before each step line, no other pause shows that it was the checkpoint.
            yield kinds[0] if is_shown else UNKNOWN, pause, STAMPS if by_stamps else STEPS
            return
        known = {kind: seconds_of([m for m in here if m.activity == kind]) for kind in kinds}
        open_ended = [kind for kind, seconds in known.items() if seconds is None]
        rest = max(0.0, pause - sum(seconds for seconds in known.values() if seconds is not None))
        if len(open_ended) > 1:
            yield UNKNOWN, pause, STEPS
            return
        for kind, seconds in known.items():
            yield (kind, rest, STEPS) if seconds is None else (kind, seconds, PRINTED)
        if not open_ended and rest > 2 * self._stamp_s:
            yield UNKNOWN, rest, STEPS

    def _restarted(self, here: Sequence[Mark], pause: float, again: int) -> Iterator[tuple[str, float, str]]:
        """Yield the parts of a pause with a restart inside the run, as of files of ranks or without a heading.

        What the program reports before it restarts comes first, then the time without the program, its start-up if its
        lines have times or print how long it took, and the steps that it does again.
        """
        timed = self._steps.seconds[np.isfinite(self._steps.seconds)]
        repeated = min(pause, again * (median(timed) if len(timed) else self._usual.overall))
        left = pause - repeated
        starts = [mark for mark in here if mark.activity == STARTUP]
        before = [mark for mark in here if not starts or mark.line < starts[0].line]
        for kind in dict.fromkeys(mark.activity for mark in before):
            seconds = min(left, seconds_of([mark for mark in before if mark.activity == kind]) or 0.0)
            left -= seconds
            yield kind, seconds, PRINTED
        begun = min((mark.at for mark in starts if mark.at is not None), default=None)
        ended = self._chain.position + round(left * NS)
        startup = (seconds_of(starts) or 0.0) if begun is None else max(0.0, (ended - begun) / NS)
        startup = min(startup, left)
        yield DOWN, left - startup, STEPS
        yield STARTUP, startup, PRINTED if begun is None else STAMPS
        yield REPEATED, repeated, STEPS

    def _failed_before(self, line_index: int) -> bool:
        """Whether a process failed between a step line and the one before it."""
        failures = self._tables.rows_of("failures", self._extent.run)
        lines = failures.where(failures.one_of("severity", [FATAL]))["line"]
        first, last = self._steps.lines[line_index - 1], self._steps.lines[line_index]
        return bool(((lines > first) & (lines < last)).any())

    def _done_again(self, line_index: int) -> int:
        """Return how many steps are done again between two step lines: an attempt that went back to a checkpoint.

        Another rank prints a step again at about the time of the first one.
        """
        steps = self._steps
        rows = self._tables.rows_of("steps", self._extent.run)
        rows = rows.where((rows["copy"] > 1) & rows.known("step"))
        rows = rows.where((rows["line"] > steps.lines[line_index - 1]) & (rows["line"] < steps.lines[line_index]))
        if self._extent.clock != ELAPSED:
            rows = rows.where(rows.known("printed_ns") & rows.one_of("clock", [self._extent.clock or ""]))
            soon = round(_LATE_STEPS * self._usual.around(line_index)[0] * int(np.median(steps.steps_done)) * NS)
            rows = rows.where(rows["printed_ns"] > steps.times[line_index - 1] + soon)
        again = len(distinct(step_order(self._tables, rows)))
        return again * max(int(np.median(steps.steps_done)), 1) if again > (self._extent.clock == ELAPSED) else 0

    def _waits_for_data(self, line_index: int, pause: float) -> bool:
        """Whether a printed phase of the step waited for data for most of a pause."""
        phases = self._tables.rows_of("phases", self._extent.run)
        step_phases = phases.where(phases["step"] == self._steps.steps[line_index])
        return any(
            _DATA.search(name) is not None and seconds >= 0.5 * pause
            for name, seconds in step_phases.records("phase", "time_s")
        )

    def _tail(self) -> None:
        """Add what follows the last step: a hang as long as its watchdog reports, a last checkpoint, the shutdown."""
        steps, chain = self._steps, self._chain
        ending = AfterLastStep(self._tables, self._extent, steps, self._until)
        end, failures = max(ending.end(), chain.position), ending.failures()
        last = len(steps.times)
        usual, _ = self._usual.around(last - 1)
        after = [mark for mark, gap in zip(self._marks, self._gap_of, strict=True) if gap == last]
        line = max([int(steps.lines[-1]), *(mark.line for mark in after)])
        for mark in after:
            if mark.activity is STARTUP:
                continue
            if mark.at is not None and mark.edge != "begin":
                chain.add(mark.at, mark.activity, mark.line, STAMPS, self._stamp_s)
            elif mark.seconds is not None:
                until = chain.position + round(mark.seconds * NS)
                chain.add(until, mark.activity, mark.line, PRINTED, self._stamp_s)
        if after and not failures.any and ending.is_end_of(after[-1]):
            chain.add(end, after[-1].activity, line, STAMPS, self._stamp_s)
        if failures.hung is not None:
            seconds, failure_line = failures.hung
            until = chain.position + round(seconds * NS)
            chain.add(min(until, self._until or until), STALL, failure_line, PRINTED, self._stamp_s)
        else:
            silent = (end if failures.first is None else failures.first) - chain.position
            if failures.any and silent >= max(_STALL_STEPS * usual, _STALL_S) * NS:
                kind = UNKNOWN if failures.first is None else STALL  # it may have failed long before its last line
                chain.add(chain.position + silent, kind, failures.line, STAMPS, self._stamp_s)
        is_long = end - chain.position >= max(_STALL_STEPS * usual, _END_S) * NS
        kind = UNKNOWN if is_long or ending.reads_on() else SHUTDOWN  # the job may have hung
        if failures.first is not None and self._until is not None:
            kind = DOWN  # the last line may be one of the next attempt
        chain.add(end, kind, max(line, failures.line), STAMPS, self._stamp_s)

    def _steps_to(self, line_index: int, end: int, usual: float) -> None:
        """Add the steps of one step line, and before them their excess over the usual time while they warm up."""
        steps = self._steps
        count = max(int(steps.steps_done[line_index]), 1)
        seconds = (end - self._chain.position) / NS
        longer = seconds - usual * count
        if line_index < self._usual.warm and longer > 2 * steps.resolution_s:
            until, error = self._chain.position + round(longer * NS), max(steps.resolution_s, 0.1 * usual)
            self._chain.add(until, COMPILE, int(steps.lines[line_index]), STEPS, error)
        self._train(line_index, line_index)

    def _train(self, first: int, last: int) -> None:
        """The steps of step lines `first` to `last`: training, or repeated if a later attempt does them again."""
        steps = self._steps
        again = self._again
        if again is None or steps.places[last] < again:
            self._train_as(TRAINING, first, last, int(steps.times[last]))
            return
        places = steps.places[first : last + 1]
        cut = first + int(np.searchsorted(places, again))  # the first step line with a step that is done again
        if cut > first:
            self._train_as(TRAINING, first, cut - 1, int(steps.times[cut - 1]))
        count = max(int(steps.steps_done[cut]), 1)
        new = int(np.clip(again - 1 - (int(steps.places[cut]) - count), 0, count))
        if new:
            part = self._chain.position + round((int(steps.times[cut]) - self._chain.position) * new / count)
            self._train_as(TRAINING, cut, cut, part, left=count - new)
        self._train_as(REPEATED, cut, last, int(steps.times[last]), begun=new)

    def _train_as(self, kind: str, first: int, last: int, end: int, begun: int = 0, left: int = 0) -> None:
        """Add the steps of step lines `first` to `last` without the first steps, `begun`, and the last ones, `left`."""
        steps = self._steps
        counts = np.maximum(steps.steps_done[first : last + 1], 1)
        first_step, last_step = int(steps.places[first] - counts[0]) + 1 + begun, int(steps.places[last]) - left
        done = (first_step, last_step, int(counts.sum()) - begun - left)
        self._chain.add(end, kind, int(steps.lines[last]), STAMPS, steps.resolution_s, done)


@computed_of_all
def _first_lines(tables: Tables) -> dict[str, int]:
    """Return the first line of each run."""
    return dict(tables.rows("runs").records("run", "first_line"))
