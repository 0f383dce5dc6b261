"""Ingests standard input, and shows what it prints before it ends."""

from __future__ import annotations

from collections.abc import Callable

from perflog.errors import InputError
from perflog.ingestion.bulk import IngestTask, Outcome, ingest_log
from perflog.ingestion.pipeline import Observer
from perflog.ingestion.watching import Watching
from perflog.parsing.input.followed_file import Patience
from perflog.parsing.input.log_names import STDIN, LogName
from perflog.parsing.input.spilled_input import SpilledInput


def ingest_input(
    input: SpilledInput, task: IngestTask, threads: int, observer: Observer, on_look: Callable[[], None]
) -> Outcome:
    """Ingest standard input when it has ended. What a job prints is read as it comes.

    An interruption ends the input: what came is stored before the interruption goes on.

    Args:
        input: Standard input.
        task: What to do with it.
        threads: Number of threads.
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
