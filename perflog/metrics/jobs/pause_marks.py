"""The lines of an attempt that report a pause: a checkpoint, an evaluation, a start-up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from perflog.arrays import Mask
from perflog.metrics.attempts import Extent
from perflog.metrics.clock_offsets import on_first_clock
from perflog.metrics.jobs.job_intervals import CHECKPOINT, EVALUATION, NS, STARTUP
from perflog.metrics.jobs.pauses import pause_lines
from perflog.metrics.rank_files import is_of_process_files, is_of_rank_files
from perflog.metrics.run_tables import Tables
from perflog.tables.columns import NULL, Rows

_KIND_BY_MARK = {
    "checkpoint": CHECKPOINT, "evaluation": EVALUATION, "validation": EVALUATION,
    "restore": STARTUP, "startup": STARTUP,
}  # fmt: skip


class Mark(Struct, frozen=True):
    """A line that reports a pause and its kind.

    `at`: its time on the clock of the attempt, or None. `is_elsewhere`: whether it is in the file of another rank than
    the step lines of the attempt, so that only its time shows between which of them it was.
    """

    kind: str
    line: int
    edge: str | None
    at: int | None
    seconds: float | None
    is_elsewhere: bool = False

    @property
    def activity(self) -> str:
        """The kind of interval that the line reports."""
        return _KIND_BY_MARK[self.kind]


def marks(tables: Tables, extent: Extent) -> list[Mark]:
    """Return the lines of an attempt that report a pause, in line order.

    Of files of ranks or processes, these are lines of the lowest rank or the first process; others' lines are left out
    unless they report an activity that it does not, and have a time.
    """
    steps = tables.rows_of("steps", extent.run)
    member = _first_member(tables, extent.run, steps) if len(steps) else None
    found: list[Mark] = []
    rows = on_first_clock(tables, extent.run, tables.rows_of("milestones", extent.run))
    is_elsewhere = _are_elsewhere(rows, member).tolist()
    records = rows.records("kind", "line", "edge", "printed_ns", "clock", "duration_s")
    for (kind, line, edge, time, clock, seconds), elsewhere in zip(records, is_elsewhere, strict=True):
        if kind in _KIND_BY_MARK:
            at = int(time) if time != NULL and clock == extent.clock else None
            found.append(Mark(kind, line, edge, at, None if np.isnan(seconds) else seconds, elsewhere))
    by_run = [tables.rows_by_run(name).get(extent.run) for name in ("values", "phases", "steps")]
    own_rows = [None if rows is None else rows.where(~_are_elsewhere(rows, member)) for rows in by_run]
    found += [Mark(kind, line, None, None, seconds) for kind, line, seconds in pause_lines(*own_rows)]
    own = {mark.activity for mark in found if not mark.is_elsewhere}
    found = [mark for mark in found if not mark.is_elsewhere or (mark.at is not None and mark.activity not in own)]
    return sorted(found, key=lambda mark: mark.line)


def _first_member(tables: Tables, run: str, steps: Rows) -> int | str | None:
    """Return the lowest rank, or the source of the first process, of a log that has a file for each; else None."""
    if is_of_rank_files(tables, run) and steps.known("rank").any():
        return int(steps["rank"].min())
    if is_of_process_files(tables, [run]):
        return str(steps["source"][int(np.argmin(steps["line"]))])
    return None


def _are_elsewhere(rows: Rows, member: int | str | None) -> Mask:
    """Flag the rows in the files of others than a rank or a process; None: there is one file."""
    if member is None:
        return np.zeros(len(rows), np.bool_)
    if isinstance(member, int):
        is_elsewhere: Mask = rows.known("rank") & (rows["rank"] != member)
    else:
        is_elsewhere = rows.known("source") & ~rows.one_of("source", [member])
    return is_elsewhere


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
