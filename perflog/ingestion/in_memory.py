"""Reads logs into memory, one after the other or several at once in processes."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from perflog.errors import InputError, PerflogError
from perflog.ingestion import workers
from perflog.ingestion.bulk import pay
from perflog.parsing.input.log_names import STDIN, LogName
from perflog.parsing.input.source import Source, open_source
from perflog.tables.sink import MemorySink

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class WholeLog:
    """A log as it was read: its hash, its tables part by part, and what went wrong."""

    sha256: str
    tables: dict[str, list[pa.Table]]
    warnings: list[str]


@dataclass(frozen=True)
class ReadTask:
    """Instructions for the reading of each log.

    Attributes:
        formats: Names or paths of formats; () detects them.
        label: The label of the runs; None keeps the labels that the log gives.
        guess: Whether perflog makes a format for the lines that no format reads.
    """

    formats: tuple[str, ...] = ()
    label: str | None = None
    guess: bool = False


def read_logs(names: Sequence[LogName], task: ReadTask) -> Generator[tuple[LogName, WholeLog | LogName | InputError]]:
    """Read logs; in several processes if that is allowed (`workers.allowed`) and faster.

    Yields:
        Each name, in their order, with its log; with the name of an earlier log that has the same bytes; or with the
        error if nothing can be read in it.
    """
    first_name: dict[str, LogName] = {}  # by digest
    with closing(_read_elsewhere(names, task)) as logs:
        for name, log in zip(names, logs, strict=True):
            if log is not None:
                first = first_name.setdefault(log.sha256, name)
                yield name, log if first == name else first
                continue
            with open_source(name) as source:
                first = first_name.setdefault(source.digest(), name)
                try:
                    yield name, _read(source, task) if first == name else first
                except InputError as error:
                    yield name, error


def _read_elsewhere(names: Sequence[LogName], task: ReadTask) -> Generator[WholeLog | None]:
    """Yield logs that other processes have read, in the order of the names; None if this process has to read it."""
    elsewhere = [name for name in names if name.log != STDIN]
    if not (workers.are_allowed() and workers.cores() > 1 and pay(elsewhere)):
        yield from (None for _ in names)
        return
    import perflog.ingestion.pipeline  # noqa: F401  # once, before processes are forked

    with closing(workers.results(partial(_read_in_worker, task), elsewhere, workers.cores())) as logs:
        yield from (None if name.log == STDIN else next(logs) for name in names)


def _read_in_worker(task: ReadTask, name: LogName, _: object) -> WholeLog | None:
    try:
        with open_source(name) as source:
            return _read(source, task)
    except PerflogError:
        return None  # who needs the error reads the log again


def _read(source: Source, task: ReadTask) -> WholeLog:
    from perflog.formats.registry import named_formats
    from perflog.ingestion.pipeline import ingest

    sink, formats = MemorySink(), named_formats(task.formats)
    if task.guess:
        from perflog.ingestion.suggest import guess

        formats = guess(source, formats)
    result = ingest(source, sink.reset, formats or None, task.label)
    return WholeLog(result.sha256, sink.tables, result.warnings)
