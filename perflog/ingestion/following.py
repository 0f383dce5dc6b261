"""Keeps the store up to date with a log that grows; ingests standard input.

The state in the store is always what one reading of the first bytes of the log gives, up to the end of a line. Each
state replaces the one before. Reading starts at the beginning each time, so the next state waits at least ten times as
long as the last one took: memory and the share of the processor stay bounded. The last state covers the whole log.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from perflog.errors import InputError, PerflogError
from perflog.ingestion.bulk import IngestTask, Outcome, ingest_log
from perflog.ingestion.pipeline import Observer
from perflog.ingestion.watching import Watching
from perflog.parsing.input.followed_file import Ending, FollowedFile, Patience
from perflog.parsing.input.growing_source import whole_lines
from perflog.parsing.input.log_names import STDIN, LogName
from perflog.parsing.input.source import Source
from perflog.parsing.input.spilled_input import SpilledInput
from perflog.tables.sink import IngestResult

_REST = 9  # times the duration of a reading, before the next one


class State(Struct, frozen=True):
    """A state of the log in the store.

    Attributes:
        outcome: What was read last, or why nothing could be read; None if the file was empty.
        ending: Why the log is not read further; None while it is, and after an interruption.
        is_last: Whether this is the last state of the log.
    """

    outcome: Outcome | None
    ending: Ending | None
    is_last: bool


def follow(
    name: LogName,
    task: IngestTask,
    patience: Patience,
    threads: int = 2,
    observer: Observer | None = None,
    on_state: Callable[[State], None] = lambda _: None,
) -> None:
    """Ingest a log again and again while it grows, until it does not grow for `until_idle` seconds or is removed.

    A renamed file is read to its end, then the new file at the path is followed as a log of its own. Of a truncated
    file the last state stays in the store, and what follows is a log of its own. An interruption reads the log to its
    end before it goes on.

    Args:
        name: The log, one plain file.
        task: What to do with it.
        patience: When to look at the file.
        threads: Number of processes to read with.
        observer: Is called with rows as soon as they are complete.
        on_state: Is called after each reading, and at the end of each log.

    Raises:
        PerflogError: The file cannot be opened, or the store cannot be written.
    """
    file = FollowedFile(name.log, patience)
    try:
        while True:
            follower = _Follower(name, task, file, patience, threads, observer, on_state)
            ending = follower.run()
            if ending in (Ending.IDLE, Ending.GONE):
                return
            file.open()
    finally:
        file.close()


class _Follower(Struct):
    """Follows one log to its end. `_size` is the number of bytes of the state in the store."""

    name: LogName
    task: IngestTask
    file: FollowedFile
    patience: Patience
    threads: int
    observer: Observer | None
    on_state: Callable[[State], None]
    _size: int = 0
    _outcome: Outcome | None = None
    _due: float = 0.0

    def run(self) -> Ending:
        try:
            while (ending := self.file.look()) is None:
                if self.patience.clock() >= self._due:
                    self._update()
                self.patience.sleep(self.patience.interval)
        except KeyboardInterrupt:
            self._finish(None)
            raise
        self._finish(ending)
        return ending

    def _update(self) -> None:
        """Store the whole lines of the log, if there are more of them than in the last state."""
        began, size = self.patience.clock(), whole_lines(self.file.path)
        if size > self._size:
            self._ingest(size)
            self._due = self.patience.clock() + _REST * (self.patience.clock() - began)
            self.on_state(State(self._outcome, None, is_last=False))

    def _finish(self, ending: Ending | None) -> None:
        """Store the log as it has ended. Of a truncated one nothing is left to read."""
        if ending is not Ending.TRUNCATED and self.file.look() is not Ending.TRUNCATED and self.file.size != self._size:
            self._ingest(self.file.size)
        self.on_state(State(self._outcome, ending, is_last=True))

    def _ingest(self, size: int) -> None:
        """Store the first bytes of the log. Nothing may be recognised in them yet."""
        source = Source(self.name.log, self.file.path, size=size)
        outcome = ingest_log(self.name, self.task, self.threads, processes=True, observer=self.observer, opened=source)
        if isinstance(outcome, PerflogError) and not isinstance(outcome, InputError):
            raise outcome
        if isinstance(outcome, IngestResult) and isinstance(self._outcome, IngestResult):  # count from before all this
            before = self._outcome.grown_by
            outcome.grown_by = None if before is None else before + (outcome.grown_by or 0)
        self._size, self._outcome = size, outcome


# --- standard input --------------------------------------------------------------------------------------------------


def ingest_input(
    input: SpilledInput, task: IngestTask, threads: int, observer: Observer, on_look: Callable[[], None]
) -> Outcome:
    """Ingest standard input when it has ended. What a job prints is read as it comes.

    An interruption ends the input: what came is stored before the interruption goes on.

    Args:
        input: Standard input.
        task: What to do with it.
        threads: Number of processes to read with.
        observer: Is called with rows as soon as they are complete, unless the input comes as fast as a file.
        on_look: Is called about once a second while the input is waited for.
    """
    try:
        try:
            if input.look_while_fast() is None:
                _watch(input, observer, on_look)
        except KeyboardInterrupt:
            if input.size:
                ingest_log(LogName.parse(STDIN), task, threads, processes=True, opened=input.source())
            raise
        return ingest_log(LogName.parse(STDIN), task, threads, processes=True, opened=input.source())
    finally:
        input.close()


def _watch(input: SpilledInput, observer: Observer, on_look: Callable[[], None]) -> None:
    """Show what comes until the input ends."""
    waits = Patience(sleep=lambda _: None)  # each look at the input waits for it
    try:
        Watching(STDIN, input, waits, None, observer, on_look).run()
    except InputError:  # it is no log of lines, or nothing in it is recognised: the last reading decides
        while input.look() is None:
            on_look()
