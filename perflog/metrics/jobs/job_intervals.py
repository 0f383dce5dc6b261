"""The intervals of a job's wall time: their kinds, what shows their ends, and a chain of them without a gap."""

from __future__ import annotations

from msgspec import Struct

STARTUP, COMPILE, TRAINING, EVALUATION, CHECKPOINT = "startup", "compile", "training", "evaluation", "checkpoint"
DATA_WAIT, STALL, REPEATED, DOWN, SHUTDOWN, UNKNOWN = "data wait", "stall", "repeated", "down", "shutdown", "unknown"
KINDS = (TRAINING, STARTUP, COMPILE, EVALUATION, CHECKPOINT, DATA_WAIT, STALL, REPEATED, DOWN, SHUTDOWN, UNKNOWN)

STAMPS, ELAPSED, PRINTED, STEPS = "stamps", "elapsed", "printed", "steps"
"""Source of the ends of an interval: time stamps of lines, the printed time since a start, a printed duration, the
clock minus the time of steps, the time at which the log was written last."""

RELATIVE = (ELAPSED, STEPS)
"""Clocks of attempts without time stamps: printed time since a start; else the sum of printed durations."""

NS = 1_000_000_000
"""Nanoseconds of a second."""


class Interval(Struct):
    """A part of the wall time.

    `first_step`, `last_step`: in the order of the job. `steps`: how many of them were done. `error_s`: how far its ends
    may be off; NaN: not known.
    """

    kind: str
    begin: int
    end: int
    first_step: int | None
    last_step: int | None
    first_line: int
    last_line: int
    known_by: str
    error_s: float
    steps: int = 0


class IntervalChain:
    """Intervals that follow each other without a gap; neighbours of one kind are one interval.

    Attributes:
        position: The end of the last interval.
        intervals: The intervals so far.
    """

    def __init__(self, begin: int, line: int) -> None:
        self.position = begin
        self.intervals: list[Interval] = []
        self._line = line

    def add(
        self,
        end: int,
        kind: str,
        line: int,
        known_by: str,
        error_s: float,
        steps: tuple[int, int, int] | None = None,
    ) -> None:
        """Add an interval from the end of the last one to `end`, which this line shows.

        `steps`: the first step and the last one that it took, and how many were done.
        """
        first_step, last_step, number = steps or (None, None, 0)
        end = max(end, self.position)
        before = self.intervals[-1] if self.intervals else None
        if before is not None and before.kind == kind:
            before.end, before.last_line = end, max(line, before.last_line)
            before.last_step = last_step if last_step is not None else before.last_step
            before.steps += number
            before.error_s = max(before.error_s, error_s)
        elif end > self.position:
            first_line = min(self._line, line)
            self.intervals.append(
                Interval(kind, self.position, end, first_step, last_step, first_line, line, known_by, error_s, number)
            )
        self.position, self._line = end, line
