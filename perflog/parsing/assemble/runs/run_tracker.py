"""Where runs begin: a state machine over the lines that open, close or announce runs.

In: the kinds of a batch with the positions of their records. Out: a `RunState` for each run that begins in it.

Only programs begin runs. The records of a library (`library` of its format), and the settings and values of a program
that never opens a run, join the run that is open, wherever they are printed, and so do milestones. A library
opens runs by its own lines only in a log in which no program prints.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy

import numpy as np

from perflog.arrays import Ints
from perflog.parsing.assemble.runs.printed_steps import Beginnings, PrintedSteps, in_order
from perflog.parsing.assemble.runs.run_boundaries import BoundaryLine, Event, RecordPlaces, boundaries_of
from perflog.parsing.assemble.runs.run_headings import END, HeadedRuns
from perflog.parsing.assemble.runs.run_machine import RunMachine
from perflog.parsing.assemble.runs.run_state import RunState
from perflog.parsing.match.records import Batch, FormatLine
from perflog.tables.row_order import PART_BITS


class RunTracker:
    """Finds where runs begin, batch after batch.

    `printed`: the steps that the last batch prints, unless it has several logs, or ranks one after the other.

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
        self.printed = in_order([])
        self._logs = logs
        self._run = self.first
        self._run_is_open = False  # whether the first record of the log has been read
        self._machine = RunMachine(
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
        boundaries, records, steps = boundaries_of(lines, batch)
        if not boundaries and self._machine.headed.may_begin(steps, batch):
            return True
        trial = deepcopy(self._machine)
        trial.read(boundaries, records, steps)
        return not (trial.deferred is trial.resumes is trial.configures is None)

    def starts(self, lines: Sequence[FormatLine], batch: Batch) -> list[RunState]:
        """Read a batch. Return the runs that begin in it, except the first run of all."""
        boundaries, records, steps = boundaries_of(lines, batch)
        if len(self._logs) == 1 and not self._machine.is_by_rank:
            self.printed = steps
        if len(self._logs) == 1:
            return self._starts_in_log(boundaries, records, steps, batch, (0, END))
        new: list[RunState] = []
        positions = np.array([boundary.position for boundary in boundaries], np.int64)
        cuts, step_cuts = _cuts(positions, self._logs), _cuts(steps.positions, self._logs)
        cuts_of_records = {key: [_cuts(positions, self._logs) for positions in parts] for key, parts in records.items()}
        for log, position in enumerate(self._logs):
            if log:
                self._machine, self._run_is_open = RunMachine(), False
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
        boundaries: Sequence[BoundaryLine],
        records: RecordPlaces,
        steps: PrintedSteps,
        batch: Batch,
        within: tuple[int, int],
    ) -> list[RunState]:
        """Return the runs that begin at these lines of one log, except its first run.

        `within`: the positions between which the batch has lines of this log.
        """
        current = self._machine.run
        bounding = [boundary.position for boundary in boundaries if boundary.event is not Event.CONFIGURE]
        first = min(bounding, default=math.inf)
        again = self._machine.beginnings.positions(steps, first)
        self._machine.beginnings.is_simple &= not bounding
        headed = self._machine.headed.runs(steps, batch, *within, first)
        headed += [self._machine.headed.start_of(position, steps, batch, within[0]) for position in again]
        self._machine.headed.is_simple &= not bounding
        labels = {run.position: run for run in headed}
        boundaries = sorted(
            [*boundaries, *(BoundaryLine(position, Event.START, "", False, False) for position in labels)],
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
