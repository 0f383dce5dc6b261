"""What the lines of a batch mean for the runs: those that can begin or end one, and the records of all others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from perflog.arrays import Ints
from perflog.formats.model import Line
from perflog.parsing.assemble.runs.printed_steps import PrintedSteps, epochs_of, in_order, positions_in_run
from perflog.parsing.match.rank_labels import NO_LABEL
from perflog.parsing.match.records import Batch, FormatLine


class Event(Enum):
    """What a line means for the runs."""

    BEFORE = auto()  # a `before` line of a format that has a line with `opens = "run"`: the opening line follows
    START = auto()  # a `before` line of a format without such a line
    OPEN = auto()  # the first `opens = "run"` line of its format in the run
    REOPEN = auto()  # a further one
    COMMAND = auto()  # a command that starts the processes of a job: the steps after it are of another run
    JOIN = auto()  # an `opens = "run"` line that each process of a job prints, while no step has been printed
    RECORD = auto()  # any other line that is read
    CLOSE = auto()  # a `closes = "run"` line
    RESUME = auto()  # a milestone: a checkpoint is loaded; steps that go back to before it belong to another attempt
    RESTART = auto()  # a milestone: a launcher starts the processes again
    CONFIGURE = auto()  # a line of settings, which a process prints before it loads a checkpoint


_RESUMING = {
    ("restore", "begin"): Event.RESUME, ("restore", "end"): Event.RESUME, ("startup", "begin"): Event.RESTART,
}  # fmt: skip
"""What milestones mean for attempts, by kind and edge."""


class BoundaryLine(Struct):
    """A record of a line that can begin or end a run."""

    position: int
    event: Event
    format: str
    starts_process: bool
    has_rows: bool  # whether it is a record of the run too
    label: int = NO_LABEL  # the rank label before it. Of settings: the number of their kind of line


class RecordKind(NamedTuple):
    """What the records of a line mean for the runs.

    `measures`: whether they are steps; a start prints values too, such as the memory of the model. `joins`: whether
    they belong to the run that is open, whatever it is. `counts`: whether they print the number of their step.
    """

    format: str
    measures: bool
    joins: bool
    counts: bool


RecordPlaces = Mapping[RecordKind, Sequence[Ints]]
"""Places of the records of each kind."""


def boundaries_of(lines: Sequence[FormatLine], batch: Batch) -> tuple[list[BoundaryLine], RecordPlaces, PrintedSteps]:
    """Return the boundary lines of a batch in log order, the positions of all other records, and the printed steps."""
    openers = {form.name for form, line in lines if line.opens == "run"}
    no_bounds = (Event.RECORD, Event.COMMAND)
    bounded = {form.name for form, line in lines if _event(line, has_opener=True) not in no_bounds}
    with_programs = any(not form.library and line.gives_rows for form, line in lines)
    boundaries: list[BoundaryLine] = []
    other_records: dict[RecordKind, list[Ints]] = {}
    steps: list[PrintedSteps] = []
    for kind, records in batch.records.items():
        form, line = lines[kind]
        if not line.read or line.is_fact:
            continue
        is_library = form.library and with_programs
        event, events = _event(line, form.name in openers), list[tuple[Event, bool, bool]]()
        if event is Event.RECORD or (is_library and event is not Event.COMMAND):
            joins = is_library or (form.name not in bounded and line.table != "steps") or line.table == "milestones"
            counts = not is_library and line.table in ("steps", "values") and "step" in records.columns
            kind_of = RecordKind(form.name, line.table == "steps", joins, counts)
            other_records.setdefault(kind_of, []).append(records.positions)
            if counts:
                steps.append(
                    PrintedSteps(records.positions, positions_in_run(records, line.within), epochs_of(records, line))
                )
        else:
            events.append((event, line.opens == "process", line.table not in (None, "runs", "milestones")))
        milestone = (line.set.get("kind", ""), line.set.get("edge", "")) if line.table == "milestones" else ("", "")
        if (again := _RESUMING.get(milestone)) is not None:
            events.append((again, False, False))
        boundaries += [
            BoundaryLine(position, each, form.name, starts_process, has_rows, label)
            for each, starts_process, has_rows in events
            for position, label in zip(records.positions.tolist(), records.known_labels.tolist(), strict=True)
        ]
        if line.table == "runs" and event is Event.RECORD and not is_library:
            positions = records.positions.tolist()
            boundaries += [BoundaryLine(p, Event.CONFIGURE, form.name, False, False, kind) for p in positions]
    boundaries.sort(key=lambda boundary: boundary.position)
    return boundaries, other_records, in_order(steps)


def _event(line: Line, has_opener: bool) -> Event:
    """Return what a record of a line means for the runs. `has_opener`: its format has a line that opens runs."""
    if line.opens == "run":
        return Event.JOIN if line.each_process else Event.OPEN
    if line.closes == "run":
        return Event.CLOSE
    if line.is_assumed:
        return Event.COMMAND
    if line.before:
        return Event.BEFORE if has_opener else Event.START
    return Event.RECORD


def records_between(boundary_positions: Ints, records: RecordPlaces) -> list[list[RecordKind]]:
    """Return the keys of the records before the first boundary line, between each two, and after the last."""
    gaps: list[list[RecordKind]] = [[] for _ in range(len(boundary_positions) + 1)]
    for kind, parts in records.items():
        before = np.zeros(len(boundary_positions) + 2, np.int64)  # records before each boundary line and the end
        for positions in parts:
            before[1:-1] += np.searchsorted(positions, boundary_positions)
            before[-1] += len(positions)
        for i in np.flatnonzero(np.diff(before)).tolist():
            gaps[i].append(kind)
    return gaps
