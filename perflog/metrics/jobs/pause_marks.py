"""The lines of an attempt that report a pause: a checkpoint, an evaluation, a start-up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct

from perflog.metrics.attempts import Extent
from perflog.metrics.clock_offsets import on_first_clock
from perflog.metrics.jobs.job_intervals import CHECKPOINT, EVALUATION, NS, STARTUP
from perflog.metrics.jobs.pauses import pause_lines
from perflog.metrics.run_tables import Tables
from perflog.tables.columns import NULL

_KIND_BY_MARK = {
    "checkpoint": CHECKPOINT, "evaluation": EVALUATION, "validation": EVALUATION,
    "restore": STARTUP, "startup": STARTUP,
}  # fmt: skip


class Mark(Struct, frozen=True):
    """A line that reports a pause and its kind. `at`: its time on the clock of the attempt, or None."""

    kind: str
    line: int
    edge: str | None
    at: int | None
    seconds: float | None

    @property
    def activity(self) -> str:
        """The kind of interval that the line reports."""
        return _KIND_BY_MARK[self.kind]


def marks(tables: Tables, extent: Extent) -> Iterator[Mark]:
    """Yield the lines of an attempt that report a pause, in line order."""
    found: list[Mark] = []
    rows = tables.rows_by_run("milestones").get(extent.run)
    if rows is not None:
        rows = on_first_clock(tables, extent.run, rows)
        for kind, line, edge, time, clock, seconds in rows.records(
            "kind", "line", "edge", "printed_ns", "clock", "duration_s"
        ):
            if kind in _KIND_BY_MARK:
                at = int(time) if time != NULL and clock == extent.clock else None
                found.append(Mark(kind, line, edge, at, None if np.isnan(seconds) else seconds))
    by_run = [tables.rows_by_run(name).get(extent.run) for name in ("values", "phases", "steps")]
    found += [Mark(kind, line, None, None, seconds) for kind, line, seconds in pause_lines(*by_run)]
    yield from sorted(found, key=lambda mark: mark.line)


def stamped_seconds(here: Sequence[Mark]) -> float | None:
    """The time between the first and the last stamped line of a pause."""
    times = [mark.at for mark in here if mark.at is not None]
    return (max(times) - min(times)) / NS if len(times) > 1 else None


def seconds_of(here: Sequence[Mark]) -> float | None:
    """The seconds of one kind of pause: between its time stamps, else as printed."""
    begun = [mark.at for mark in here if mark.edge == "begin" and mark.at is not None]
    ended = [mark.at for mark in here if mark.edge == "end" and mark.at is not None]
    if begun and ended and max(ended) >= min(begun):
        return (max(ended) - min(begun)) / NS
    return next((mark.seconds for mark in here if mark.seconds is not None), None)
