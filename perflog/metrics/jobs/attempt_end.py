"""What the lines of an attempt after its last step report: failures, milestones, values that are read on."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from perflog.metrics.attempts import Extent
from perflog.metrics.clock_offsets import on_first_clock
from perflog.metrics.jobs.attempt_clock import StepLines
from perflog.metrics.jobs.job_intervals import NS, STARTUP
from perflog.metrics.jobs.pause_marks import Mark
from perflog.metrics.run_tables import Tables
from perflog.tables.columns import NULL
from perflog.tables.schema import LOCAL, NO_YEAR, UTC

_SERIES = 5  # lines with one value
_DAY = 86_400


class Failures(Struct, frozen=True):
    """What failed after the last step.

    Attributes:
        hung: How long a collective waited at the most, and the line that reports it.
        first: The time of the first failure.
        line: The last line of a failure; 0 without one.
        any: Whether anything failed.
    """

    hung: tuple[float, int] | None = None
    first: int | None = None
    line: int = 0
    any: bool = False


class AfterLastStep(Struct, frozen=True):
    """Reads what comes after the last step. `until`: when the next attempt begins, on the same clock."""

    tables: Tables
    extent: Extent
    steps: StepLines
    until: int | None

    def reads_on(self) -> bool:
        """Whether a value is printed again and again after the last step: what the job did then is not known."""
        rows = self.tables.rows_of("values", self.extent.run)
        rows = rows.where((rows["line"] > self.steps.lines[-1]) & rows.known("value"))
        return any(len(set(of["line"].tolist())) >= _SERIES for of in rows.by("key").values())

    def is_end_of(self, mark: Mark) -> bool:
        """Whether the last line reports the end of an activity, so that the time of this line is its end."""
        if mark.at is not None or mark.seconds is not None or mark.edge == "begin" or mark.activity == STARTUP:
            return False
        return mark.line == int(self.tables.rows_of("runs", self.extent.run)["last_line"][0])

    def failures(self) -> Failures:
        rows = self.tables.rows_of("failures", self.extent.run)
        rows = rows.where(rows["line"] > self.steps.lines[-1])
        hung = [(waited, line) for line, waited in rows.records("line", "waited_s") if waited > 0]
        timed = on_first_clock(self.tables, self.extent.run, rows)
        times = [self._on_clock(time, clock) for time, clock in timed.records("time_ns", "clock")]
        known = [time for time in times if time is not None]
        first = min(known) if times and times[0] is not None else None  # the failures before it came earlier
        line = int(rows["last_line"].max()) if len(rows) else 0
        return Failures(max(hung, default=None), first, line, any=len(rows) > 0)

    def _on_clock(self, time: int, clock: str | None) -> int | None:
        """A time after the last step on the clock of the attempt; None if the clocks cannot be compared."""
        if time == NULL or clock is None:
            return None
        own, last = self.extent.clock, int(self.steps.times[-1])
        if clock == NO_YEAR and own in (LOCAL, UTC):
            year = np.datetime64(last, "ns").astype("datetime64[Y]")
            time += int(year.astype("datetime64[ns]").astype(np.int64))
        elif clock != own:
            return None
        limit = last + _DAY * NS if self.until is None else self.until
        return time if last <= time <= limit else None

    def end(self) -> int:
        """Return the time of the last line of the attempt, as far as a clock shows it."""
        rows = self.tables.rows_of("milestones", self.extent.run)
        rows = on_first_clock(self.tables, self.extent.run, rows.where(rows["line"] >= self.steps.lines[-1]))
        times = (self._on_clock(time, clock) for time, clock in rows.records("printed_ns", "clock"))
        return max([self.extent.end_ns, *(time for time in times if time is not None)])
