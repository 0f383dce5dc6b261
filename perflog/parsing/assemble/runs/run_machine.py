"""The state machine that begins runs: what each kind of line does in each state of the run that is open."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

import numpy as np
from msgspec import Struct, field

from perflog.arrays import Ints
from perflog.parsing.assemble.runs.printed_steps import Beginnings, PrintedSteps
from perflog.parsing.assemble.runs.run_boundaries import BoundaryLine, Event, RecordKind, RecordPlaces, records_between
from perflog.parsing.assemble.runs.run_headings import HeadedRuns
from perflog.parsing.match.rank_labels import NO_LABEL


class _Action(Enum):
    STAY = auto()  # the line belongs to the current run
    BEGIN = auto()  # a run begins at the line
    DEFER = auto()  # remember the position: the lines from here on belong to this run or to the next
    BEGIN_AT_DEFERRED = auto()  # a run begins at the remembered position, or at the line if none is remembered


_STAY, _BEGIN, _DEFER, _BEGIN_AT_DEFERRED = _Action

_TRANSITIONS: dict[Event, tuple[_Action, ...]] = {
    # The current run, as the format of the line sees it:
    #                none    closed  without   with records of    with records
    #                                records   other formats      of its own
    Event.BEFORE:  (_BEGIN, _BEGIN, _STAY,    _DEFER,             _BEGIN),
    Event.START:   (_BEGIN, _BEGIN, _STAY,    _BEGIN_AT_DEFERRED, _BEGIN),
    Event.COMMAND: (_BEGIN, _BEGIN, _STAY,    _DEFER,             _DEFER),
    Event.OPEN:    (_BEGIN, _BEGIN, _STAY,    _BEGIN_AT_DEFERRED, _BEGIN),
    Event.REOPEN:  (_BEGIN, _BEGIN, _BEGIN,   _BEGIN,             _BEGIN),
    Event.JOIN:    (_BEGIN, _BEGIN, _STAY,    _STAY,              _STAY),
    Event.RECORD:  (_BEGIN, _BEGIN, _STAY,    _STAY,              _STAY),
    Event.CLOSE:   (_BEGIN, _STAY,  _STAY,    _STAY,              _STAY),
}  # fmt: skip
_AFTER_STEPS = {Event.JOIN: Event.OPEN, Event.COMMAND: Event.START}
"""What a line means after steps of the run."""

_NONE, _CLOSED, _WITHOUT_RECORDS, _OTHER_RECORDS, _OWN_RECORDS = range(5)


class RunStart(Struct):
    """Where a run begins, and the last start of the processes in it or before it."""

    position: int
    process: int | None
    process_format: str | None


class RunMachine(Struct):
    """The run that is open, as the lines so far have it, and what they announce."""

    run: RunStart | None = None
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
    first_label: int | None = None  # of the first line that begins or ends a run
    runs: int = 0  # that have begun

    def read(self, boundaries: Sequence[BoundaryLine], records: RecordPlaces, steps: PrintedSteps) -> list[RunStart]:
        """Read the lines of a batch. Return the runs that begin. `records`: positions of all other lines."""
        starts: list[RunStart] = []
        if self.resumes is not None:
            self.resumes = -1  # the batch with its line is gone
        self.configures = None
        positions = np.array([boundary.position for boundary in boundaries], np.int64)
        gaps = zip(records_between(positions, records), steps.between(positions), strict=True)
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
            if boundaries[i].event in (Event.RESUME, Event.RESTART):
                self._read_resumption(boundaries[i])
            elif boundaries[i].event is Event.CONFIGURE:
                self._read_settings(boundaries[i])
            else:
                self._read_boundary(boundaries[i], starts)
        return starts

    def _read_resumption(self, line: BoundaryLine) -> None:
        """Remember a line that loads a checkpoint or starts the processes again. Each rank may load it once."""
        if self.is_by_rank:
            return
        is_of_another_rank = bool(self.resumed) and line.label not in self.resumed
        if line.event is Event.RESUME:
            self.resumed.add(line.label)
            self.resumed_now.add(line.label)
        if self.reached is None or self.closed or (is_of_another_rank and line.event is Event.RESUME):
            return
        if self.resumes is None:
            self.resumes = line.position
        self.restarts |= line.event is Event.RESTART

    def _read_settings(self, line: BoundaryLine) -> None:
        """Remember where settings are printed again: a process that loads a checkpoint then has begun before it."""
        if line.label in self.settings and self.reached is not None and self.configures is None:
            self.configures = line.position
        self.settings.add(line.label)

    def _count(self, steps: Ints) -> None:
        """Remember the last of some steps of the run, and whether they grow."""
        if len(steps):
            self.grows &= (self.reached is None or int(steps[0]) > self.reached) and bool((np.diff(steps) > 0).all())
            self.reached = int(steps[-1])

    def _resume(self, after: int, steps: PrintedSteps, starts: list[RunStart]) -> None:
        """Begin a run at a line that loads a checkpoint, or starts the processes again, if the steps go back.

        Where they go on, an evaluation may have loaded the checkpoint, and printed the settings of its process.
        """
        assert self.resumes is not None
        assert self.reached is not None
        step, position = steps.first_after(after)
        goes_back = step < self.reached + self.grows
        if self.restarts or (goes_back and (not self.reloads or self.configures is not None)):
            begins = self.resumes if self.configures is None else min(self.resumes, self.configures)
            self._begin(position if self.resumes < 0 else begins, starts)
        else:
            self.reloads = True
        self.resumes, self.restarts = None, False

    def _read_records(self, kinds: list[RecordKind], after: int, records: RecordPlaces, starts: list[RunStart]) -> None:
        """Read the records of some formats from position `after`, which may be a boundary, to the next boundary."""
        program_kinds = [kind for kind in kinds if not kind.joins]
        opening = kinds if self.run is None else program_kinds
        if opening and self._action(Event.RECORD, opening[0].format) is _BEGIN:
            later = (positions[np.searchsorted(positions, after) :] for kind in opening for positions in records[kind])
            self._begin(min(int(positions[0]) for positions in later if len(positions)), starts)
        if not program_kinds:
            return
        self.record_formats.update(kind.format for kind in program_kinds)
        self.measured |= any(kind.measures for kind in program_kinds)
        self.deferred = None
        self.in_process_start = False

    def _read_boundary(self, line: BoundaryLine, starts: list[RunStart]) -> None:
        if self._is_of_another_rank(line):
            self.closed = False
            return
        event = self._event_now(line)
        action = self._action(event, line.format)
        if action is _BEGIN:
            self._begin(line.position, starts)
        elif action is _BEGIN_AT_DEFERRED:
            self._begin(line.position if self.deferred is None else self.deferred, starts)
        elif action is _DEFER and self.deferred is None:
            self.deferred = line.position
        if event is Event.CLOSE:
            self.closed, self.in_process_start = True, False
            return
        if line.event in (Event.OPEN, Event.JOIN):
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

    def _is_of_another_rank(self, line: BoundaryLine) -> bool:
        """Return whether a line begins or ends the only run of the first rank, on a rank whose lines come after it."""
        if self.first_label is None:
            self.first_label = line.label
        return self.is_by_rank and self.runs == 1 and NO_LABEL != line.label != self.first_label

    def _event_now(self, line: BoundaryLine) -> Event:
        """Return the event of a line in the current run."""
        event = _AFTER_STEPS.get(line.event, line.event) if self.measured else line.event
        return Event.REOPEN if event is Event.OPEN and line.format in self.opened_formats else event

    def _action(self, event: Event, form: str) -> _Action:
        if self.run is None:
            state = _NONE
        elif self.closed:
            state = _CLOSED
        elif form in self.record_formats:
            state = _OWN_RECORDS
        else:
            state = _OTHER_RECORDS if self.record_formats else _WITHOUT_RECORDS
        return _TRANSITIONS[event][state]

    def _begin(self, position: int, starts: list[RunStart]) -> None:
        self.run = RunStart(position, self.processes or None, self.process_format)
        self.runs += 1
        self.closed, self.deferred = False, None
        self.record_formats, self.opened_formats, self.measured = set(), set(), False
        self.resumes, self.restarts, self.reloads = None, False, False
        self.resumed = set(self.resumed_now)
        self.reached, self.grows = None, True
        starts.append(self.run)
