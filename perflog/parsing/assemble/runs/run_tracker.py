"""Where runs begin: a state machine over the lines that open, close or announce runs.

In: the kinds of a batch with the positions of their records. Out: a `RunState` for each run that begins in it.

Only programs begin runs. The records of a library (`library` of its format), and the settings and values of a program
that never opens a run, join the run that is open, wherever they are printed, and so do milestones. A library
opens runs by its own lines only
in a log in which no program prints.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from enum import Enum, auto
from typing import NamedTuple

import numpy as np
from msgspec import Struct, field

from perflog.arrays import Ints
from perflog.formats.model import Line
from perflog.parsing.assemble.runs.printed_steps import Beginnings, PrintedSteps, epochs_of, in_order, positions_in_run
from perflog.parsing.assemble.runs.run_headings import END, HeadedRuns
from perflog.parsing.assemble.runs.run_state import RunState
from perflog.parsing.match.records import Batch, FormatLine
from perflog.tables.row_order import PART_BITS


class _Event(Enum):
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


class _Action(Enum):
    STAY = auto()  # the line belongs to the current run
    BEGIN = auto()  # a run begins at the line
    DEFER = auto()  # remember the position: the lines from here on belong to this run or to the next
    BEGIN_AT_DEFERRED = auto()  # a run begins at the remembered position, or at the line if none is remembered


_STAY, _BEGIN, _DEFER, _BEGIN_AT_DEFERRED = _Action

_TRANSITIONS: dict[_Event, tuple[_Action, ...]] = {
    # The current run, as the format of the line sees it:
    #                none    closed  without   with records of    with records
    #                                records   other formats      of its own
    _Event.BEFORE:  (_BEGIN, _BEGIN, _STAY,    _DEFER,             _BEGIN),
    _Event.START:   (_BEGIN, _BEGIN, _STAY,    _BEGIN_AT_DEFERRED, _BEGIN),
    _Event.COMMAND: (_BEGIN, _BEGIN, _STAY,    _DEFER,             _DEFER),
    _Event.OPEN:    (_BEGIN, _BEGIN, _STAY,    _BEGIN_AT_DEFERRED, _BEGIN),
    _Event.REOPEN:  (_BEGIN, _BEGIN, _BEGIN,   _BEGIN,             _BEGIN),
    _Event.JOIN:    (_BEGIN, _BEGIN, _STAY,    _STAY,              _STAY),
    _Event.RECORD:  (_BEGIN, _BEGIN, _STAY,    _STAY,              _STAY),
    _Event.CLOSE:   (_BEGIN, _STAY,  _STAY,    _STAY,              _STAY),
}  # fmt: skip
_AFTER_STEPS = {_Event.JOIN: _Event.OPEN, _Event.COMMAND: _Event.START}
"""What a line means after steps of the run."""
_RESUMING = {
    ("restore", "begin"): _Event.RESUME, ("restore", "end"): _Event.RESUME, ("startup", "begin"): _Event.RESTART,
}  # fmt: skip
"""What milestones mean for attempts, by kind and edge."""

_NONE, _CLOSED, _WITHOUT_RECORDS, _OTHER_RECORDS, _OWN_RECORDS = range(5)


class _BoundaryLine(Struct):
    """A record of a line that can begin or end a run."""

    position: int
    event: _Event
    format: str
    starts_process: bool
    has_rows: bool  # whether it is a record of the run too
    label: int = -1  # the rank label before it; -1: none. Of settings: the number of their kind of line


class _RecordKind(NamedTuple):
    """What the records of a line mean for the runs.

    `measures`: whether they are steps; a start prints values too, such as the memory of the model. `joins`: whether
    they belong to the run that is open, whatever it is. `counts`: whether they print the number of their step.
    """

    format: str
    measures: bool
    joins: bool
    counts: bool


RecordPlaces = Mapping[_RecordKind, Sequence[Ints]]
"""Places of the records of each kind."""


class _RunStart(Struct):
    """Where a run begins, and the last start of the processes in it or before it."""

    position: int
    process: int | None
    process_format: str | None


class _Machine(Struct):
    """State between two lines."""

    run: _RunStart | None = None
    closed: bool = False
    deferred: int | None = None  # position from which on lines belong to the current run or to the next
    record_formats: set[str] = field(default_factory=set)  # formats with records in the run
    measured: bool = False  # whether some of them are steps
    opened_formats: set[str] = field(default_factory=set)  # formats that opened the run
    processes: int = 0  # starts of the processes so far
    process_format: str | None = None  # the format that printed the last of them
    in_process_start: bool = False  # such a start, and no other line since
    reached: int | None = None  # the last step that the run has printed
    grows: bool = True  # whether each of its steps is larger than the one before
    resumes: int | None = None  # position of a RESUME or RESTART after a step; the next step decides on a run
    restarts: bool = False  # whether it is a RESTART
    settings: set[int] = field(default_factory=set)  # kinds of lines of settings so far
    configures: int | None = None  # position of the first line with settings of these kinds since the last step
    reloads: bool = False  # whether the steps went on after a RESUME line of the run
    resumed: set[int] = field(default_factory=set)  # labels of the RESUME lines of the run
    resumed_now: set[int] = field(default_factory=set)  # the same since the last step
    beginnings: Beginnings = field(default_factory=Beginnings)
    headed: HeadedRuns = field(default_factory=HeadedRuns)
    is_by_rank: bool = False  # whether steps go back where the lines of another rank begin, and so show no run

    def read(self, boundaries: Sequence[_BoundaryLine], records: RecordPlaces, steps: PrintedSteps) -> list[_RunStart]:
        """Read the lines of a batch. Return the runs that begin. `records`: positions of all other lines."""
        starts: list[_RunStart] = []
        if self.resumes is not None:
            self.resumes = -1  # the batch with its line is gone
        self.configures = None
        positions = np.array([boundary.position for boundary in boundaries], np.int64)
        gaps = zip(_records_between(positions, records), steps.between(positions), strict=True)
        for i, (kinds, printed) in enumerate(gaps):
            if kinds:
                position, counts = boundaries[i - 1].position if i else -1, any(kind.counts for kind in kinds)
                if counts and self.resumes is not None:
                    self._resume(position, steps, starts)
                self._read_records(kinds, position, records, starts)
                if counts:
                    self._count(printed)
                    self.resumed_now, self.configures = set(), None
            if i == len(boundaries):
                break
            if boundaries[i].event in (_Event.RESUME, _Event.RESTART):
                self._read_resumption(boundaries[i])
            elif boundaries[i].event is _Event.CONFIGURE:
                self._read_settings(boundaries[i])
            else:
                self._read_boundary(boundaries[i], starts)
        return starts

    def _read_resumption(self, line: _BoundaryLine) -> None:
        """Remember a line that loads a checkpoint or starts the processes again. Each rank may load it once."""
        if self.is_by_rank:
            return
        is_of_another_rank = bool(self.resumed) and line.label not in self.resumed
        if line.event is _Event.RESUME:
            self.resumed.add(line.label)
            self.resumed_now.add(line.label)
        if self.reached is None or self.closed or (is_of_another_rank and line.event is _Event.RESUME):
            return
        if self.resumes is None:
            self.resumes = line.position
        self.restarts |= line.event is _Event.RESTART

    def _read_settings(self, line: _BoundaryLine) -> None:
        """Remember where settings are printed again: a process that loads a checkpoint then has begun before it."""
        if line.label in self.settings and self.reached is not None and self.configures is None:
            self.configures = line.position
        self.settings.add(line.label)

    def _count(self, steps: Ints) -> None:
        """Remember the last of some steps of the run, and whether they grow."""
        if len(steps):
            self.grows &= (self.reached is None or int(steps[0]) > self.reached) and bool((np.diff(steps) > 0).all())
            self.reached = int(steps[-1])

    def _resume(self, after: int, steps: PrintedSteps, starts: list[_RunStart]) -> None:
        """Begin a run at a line that loads a checkpoint, or starts the processes again, if the steps go back."""
        assert self.resumes is not None
        assert self.reached is not None
        step, position = steps.first_after(after)
        goes_back = step < self.reached + self.grows
        if self.restarts or (goes_back and not self.reloads):
            begins = self.resumes if self.configures is None else min(self.resumes, self.configures)
            self._begin(position if self.resumes < 0 else begins, starts)
        else:
            self.reloads = True
        self.resumes, self.restarts = None, False

    def _read_records(
        self, kinds: list[_RecordKind], after: int, records: RecordPlaces, starts: list[_RunStart]
    ) -> None:
        """Read the records of some formats from position `after`, which may be a boundary, to the next boundary."""
        program_kinds = [kind for kind in kinds if not kind.joins]
        opening = kinds if self.run is None else program_kinds
        if opening and self._action(_Event.RECORD, opening[0].format) is _BEGIN:
            later = (positions[np.searchsorted(positions, after) :] for kind in opening for positions in records[kind])
            self._begin(min(int(positions[0]) for positions in later if len(positions)), starts)
        if not program_kinds:
            return
        self.record_formats.update(kind.format for kind in program_kinds)
        self.measured |= any(kind.measures for kind in program_kinds)
        self.deferred = None
        self.in_process_start = False

    def _read_boundary(self, line: _BoundaryLine, starts: list[_RunStart]) -> None:
        event = self._event_now(line)
        action = self._action(event, line.format)
        if action is _BEGIN:
            self._begin(line.position, starts)
        elif action is _BEGIN_AT_DEFERRED:
            self._begin(line.position if self.deferred is None else self.deferred, starts)
        elif action is _DEFER and self.deferred is None:
            self.deferred = line.position
        if event is _Event.CLOSE:
            self.closed, self.in_process_start = True, False
            return
        if line.event in (_Event.OPEN, _Event.JOIN):
            self.opened_formats.add(line.format)
            if line.has_rows:
                self.record_formats.add(line.format)
                self.measured = True
                self.in_process_start = False
        if line.starts_process and not self.in_process_start:
            self.processes += 1
            self.process_format = line.format
            self.in_process_start = True
        if self.run is not None:
            self.run.process, self.run.process_format = self.processes or None, self.process_format

    def _event_now(self, line: _BoundaryLine) -> _Event:
        """Return the event of a line in the current run."""
        event = _AFTER_STEPS.get(line.event, line.event) if self.measured else line.event
        return _Event.REOPEN if event is _Event.OPEN and line.format in self.opened_formats else event

    def _action(self, event: _Event, form: str) -> _Action:
        if self.run is None:
            state = _NONE
        elif self.closed:
            state = _CLOSED
        elif form in self.record_formats:
            state = _OWN_RECORDS
        else:
            state = _OTHER_RECORDS if self.record_formats else _WITHOUT_RECORDS
        return _TRANSITIONS[event][state]

    def _begin(self, position: int, starts: list[_RunStart]) -> None:
        self.run = _RunStart(position, self.processes or None, self.process_format)
        self.closed, self.deferred = False, None
        self.record_formats, self.opened_formats, self.measured = set(), set(), False
        self.resumes, self.restarts, self.reloads = None, False, False
        self.resumed = set(self.resumed_now)
        self.reached, self.grows = None, True
        starts.append(self.run)


class RunTracker:
    """Finds where runs begin, batch after batch.

    A run begins at the first line; at a `before` or `opens` line after other lines of its format, or after a run was
    closed; at a second `opens` line; and at the first record after a `closes` line. An `opens` line that each process
    prints begins a run only after a step. Where no line begins or ends a run, one begins where the steps and their
    epochs begin again.

    Args:
        logs: The positions at which logs begin that are read together, as one batch. Each has a record.
        is_by_rank: Whether the lines of each rank follow those of another rank. Then a run that goes on from a
            checkpoint is no run of its own, since the lines of its ranks are not together.
    """

    def __init__(self, logs: Sequence[int] = (0,), is_by_rank: bool = False) -> None:
        self.first = RunState(1, 0, 0, 0)  # the lines before the first record belong to the first run
        self.count = 0  # runs that have begun
        self._logs = logs
        self._run = self.first
        self._run_is_open = False  # whether the first record of the log has been read
        self._machine = _Machine(
            beginnings=Beginnings(is_simple=not is_by_rank),
            headed=HeadedRuns(is_simple=not is_by_rank),
            is_by_rank=is_by_rank,
        )

    def begin_at_failure(self, line: int) -> None:
        """Begin the first run of a log without a record that reports a failure, the last of them in this line."""
        if not self.count:
            self.count, self.first.first_line, self.first.last_line = 1, 1, line

    def undecided(self, lines: Sequence[FormatLine], batch: Batch) -> bool:
        """Return whether only the next batch decides to which run the last lines of this batch belong.

        The tracker stays as it is: the batch is read by a copy of the machine.
        """
        boundaries, records, steps = _boundaries(lines, batch)
        if not boundaries and self._machine.headed.may_begin(steps, batch):
            return True
        trial = deepcopy(self._machine)
        trial.read(boundaries, records, steps)
        return not (trial.deferred is trial.resumes is trial.configures is None)

    def starts(self, lines: Sequence[FormatLine], batch: Batch) -> list[RunState]:
        """Read a batch. Return the runs that begin in it, except the first run of all."""
        boundaries, records, steps = _boundaries(lines, batch)
        if len(self._logs) == 1:
            return self._starts_in_log(boundaries, records, steps, batch, (0, END))
        new: list[RunState] = []
        positions = np.array([boundary.position for boundary in boundaries], np.int64)
        cuts, step_cuts = _cuts(positions, self._logs), _cuts(steps.positions, self._logs)
        cuts_of_records = {key: [_cuts(positions, self._logs) for positions in parts] for key, parts in records.items()}
        for log, position in enumerate(self._logs):
            if log:
                self._machine, self._run_is_open = _Machine(), False
                self._run = RunState(self.count + 1, position, 0, 0, log=log)
                new.append(self._run)
            kinds_in_log = {
                key: [part[cut[log] : cut[log + 1]] for part, cut in zip(records[key], key_cuts, strict=True)]
                for key, key_cuts in cuts_of_records.items()
            }
            here = slice(step_cuts[log], step_cuts[log + 1])
            steps_of_log = PrintedSteps(steps.positions[here], steps.steps[here], steps.epochs[here])
            within = (position, self._logs[log + 1] if log + 1 < len(self._logs) else END)
            log_boundaries = boundaries[cuts[log] : cuts[log + 1]]
            new += self._starts_in_log(log_boundaries, kinds_in_log, steps_of_log, batch, within)
        return new

    def _starts_in_log(
        self,
        boundaries: Sequence[_BoundaryLine],
        records: RecordPlaces,
        steps: PrintedSteps,
        batch: Batch,
        within: tuple[int, int],
    ) -> list[RunState]:
        """Return the runs that begin at these lines of one log, except its first run.

        `within`: the positions between which the batch has lines of this log.
        """
        current = self._machine.run
        bounding = [boundary.position for boundary in boundaries if boundary.event is not _Event.CONFIGURE]
        first = min(bounding, default=math.inf)
        again = self._machine.beginnings.positions(steps, first)
        self._machine.beginnings.is_simple &= not bounding
        headed = self._machine.headed.runs(steps, batch, *within, first)
        self._machine.headed.is_simple &= not bounding
        labels = {run.position: run for run in headed}
        boundaries = sorted(
            [*boundaries, *(_BoundaryLine(position, _Event.START, "", False, False) for position in (*again, *labels))],
            key=lambda boundary: boundary.position,
        )
        starts = self._machine.read(boundaries, records, steps)
        if current is not None:
            self._run.process, self._run.process_format = current.process, current.process_format
        new: list[RunState] = []
        for start in starts:
            self.count += 1
            line = start.position >> PART_BITS
            headed_run = labels.get(start.position)
            if headed_run is not None and self._run.heading is None:
                self._run.heading = headed_run.label_before
            if not self._run_is_open:
                self._run.first_line, self._run_is_open = line, True
            else:
                self._run = RunState(self.count, start.position, line, line, log=self._run.log)
                new.append(self._run)
            self._run.heading = headed_run.label if headed_run is not None else None
            self._run.process, self._run.process_format = start.process, start.process_format
        return new


def _cuts(positions: Ints, logs: Sequence[int]) -> list[int]:
    """Return where the positions of each log begin in an ascending array, and where the last log ends."""
    return [*np.searchsorted(positions, np.array(logs)).tolist(), len(positions)]


def _boundaries(lines: Sequence[FormatLine], batch: Batch) -> tuple[list[_BoundaryLine], RecordPlaces, PrintedSteps]:
    """Return the boundary lines of a batch in log order, the positions of all other records, and the printed steps."""
    openers = {form.name for form, line in lines if line.opens == "run"}
    no_bounds = (_Event.RECORD, _Event.COMMAND)
    bounded = {form.name for form, line in lines if _event(line, has_opener=True) not in no_bounds}
    with_programs = any(not form.library and line.gives_rows for form, line in lines)
    boundaries: list[_BoundaryLine] = []
    other_records: dict[_RecordKind, list[Ints]] = {}
    steps: list[PrintedSteps] = []
    for kind, records in batch.records.items():
        form, line = lines[kind]
        if not line.read:
            continue
        is_library = form.library and with_programs
        event, has_rows = _event(line, form.name in openers), line.table not in (None, "runs", "milestones")
        if event is _Event.RECORD or (is_library and event is not _Event.COMMAND):
            joins = is_library or (form.name not in bounded and line.table != "steps") or line.table == "milestones"
            counts = not is_library and line.table in ("steps", "values") and "step" in records.columns
            kind_of = _RecordKind(form.name, line.table == "steps", joins, counts)
            other_records.setdefault(kind_of, []).append(records.positions)
            if counts:
                steps.append(
                    PrintedSteps(records.positions, positions_in_run(records, line.within), epochs_of(records, line))
                )
        else:
            starts_process = line.opens == "process"
            positions = records.positions.tolist()
            boundaries += [_BoundaryLine(p, event, form.name, starts_process, has_rows) for p in positions]
        again = (
            _RESUMING.get((line.set.get("kind", ""), line.set.get("edge", ""))) if line.table == "milestones" else None
        )
        if again is not None:
            labels = [-1] * len(records.positions) if records.labels is None else records.labels.tolist()
            boundaries += [
                _BoundaryLine(position, again, form.name, False, False, label)
                for position, label in zip(records.positions.tolist(), labels, strict=True)
            ]
        if line.table == "runs" and event is _Event.RECORD and not is_library:
            positions = records.positions.tolist()
            boundaries += [_BoundaryLine(p, _Event.CONFIGURE, form.name, False, False, kind) for p in positions]
    boundaries.sort(key=lambda boundary: boundary.position)
    return boundaries, other_records, in_order(steps)


def _event(line: Line, has_opener: bool) -> _Event:
    """Return what a record of a line means for the runs. `has_opener`: its format has a line that opens runs."""
    if line.opens == "run":
        return _Event.JOIN if line.each_process else _Event.OPEN
    if line.closes == "run":
        return _Event.CLOSE
    if line.is_assumed:
        return _Event.COMMAND
    if line.before:
        return _Event.BEFORE if has_opener else _Event.START
    return _Event.RECORD


def _records_between(boundary_positions: Ints, records: RecordPlaces) -> list[list[_RecordKind]]:
    """Return the keys of the records before the first boundary line, between each two, and after the last."""
    gaps: list[list[_RecordKind]] = [[] for _ in range(len(boundary_positions) + 1)]
    for kind, parts in records.items():
        before = np.zeros(len(boundary_positions) + 2, np.int64)  # records before each boundary line and the end
        for positions in parts:
            before[1:-1] += np.searchsorted(positions, boundary_positions)
            before[-1] += len(positions)
        for i in np.flatnonzero(np.diff(before)).tolist():
            gaps[i].append(kind)
    return gaps
