"""Reads logs into memory, one after the other or several at once in processes.

A process reads a batch of logs and returns their rows as one table of each kind: to send a table costs as much for one
log as for ten.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from perflog.errors import InputError, PerflogError
from perflog.files.remote import has_threads
from perflog.ingestion import workers
from perflog.ingestion.batches import in_batches, pay
from perflog.parsing.input.log_names import STDIN, LogName
from perflog.parsing.input.source import Source, open_source
from perflog.readers.registry import refuse_unknown_table
from perflog.tables.row_order import in_order
from perflog.tables.sink import RUN_ID, MemorySink

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_LOGS, _MOST_BYTES = 64, 4 << 20  # of a batch


class ReadLog(Struct, frozen=True):
    """A log that was read: its hash, and what went wrong."""

    sha256: str
    warnings: list[str]


class Batch(Struct, frozen=True):
    """Logs that one process has read; None for one that it could not read. `tables` has the rows of all of them."""

    logs: Sequence[ReadLog | None]
    tables: dict[str, pa.Table]


class ReadTask(Struct, frozen=True):
    """Instructions for the reading of each log.

    Attributes:
        formats: Names or paths of formats; () detects them.
        label: The label of the runs; None keeps the labels that the log gives.
        guess: Whether perflog makes a format for the lines that no format reads.
    """

    formats: tuple[str, ...] = ()
    label: str | None = None
    guess: bool = False


def read_logs(
    names: Sequence[LogName], task: ReadTask, sink: MemorySink
) -> Generator[tuple[LogName, ReadLog | LogName | InputError]]:
    """Read logs into a sink; in several processes if that is allowed (`workers.allowed`) and faster.

    Yields:
        Each name, in their order, with its log; with the name of an earlier log that has the same bytes; or with the
        error if nothing can be read in it.
    """
    first_name: dict[str, LogName] = {}  # by digest
    with closing(_read_in_batches(names, task)) as batches:
        for names_of_batch, batch in batches:
            for table, rows in batch.tables.items():
                sink.add(table, _without_logs(rows, first_name))
            for name, log in zip(names_of_batch, batch.logs, strict=True):
                if log is None:
                    yield name, _read_here(name, task, sink, first_name if len(names) > 1 else None)
                else:
                    first = first_name.setdefault(log.sha256, name)
                    yield name, log if first == name else first


def _read_here(
    name: LogName, task: ReadTask, sink: MemorySink, first_name: dict[str, LogName] | None
) -> ReadLog | LogName | InputError:
    """Read a log in this process, unless one with the same bytes was read.

    Without the names of others it has all processors, and is hashed while it is read, not before.
    """
    alone = first_name is None
    with open_source(name) as source:
        try:
            refuse_unknown_table(source)
            first = name if first_name is None else first_name.setdefault(source.digest(), name)
            return _read(source, task, sink, alone) if first == name else first
        except InputError as error:
            return error


def _without_logs(rows: pa.Table, digests: Collection[str]) -> pa.Table:
    """Return rows of a batch without the rows of some logs."""
    prefixes = {digest[:RUN_ID] for digest in digests}
    runs = dict.fromkeys(run for part in rows["run"].chunks for run in part.dictionary.to_pylist())
    others = [run for run in runs if run.partition("-")[0] not in prefixes]
    return rows if len(others) == len(runs) else in_order(rows, others)


def _read_in_batches(names: Sequence[LogName], task: ReadTask) -> Generator[tuple[Sequence[LogName], Batch]]:
    """Yield batches of logs that were read, in the order of the names: by other processes where that is faster."""
    batches = list(in_batches(names, _MOST_LOGS, _MOST_BYTES))
    elsewhere = [name for name in names if name.log != STDIN]
    if not (workers.are_allowed() and workers.cores() > 1 and pay(elsewhere)):
        for batch in batches:
            yield batch, _read_batch(task, batch, None) if len(batch) > 1 else _unread(batch)
        return
    import perflog.ingestion.pipeline  # noqa: F401  # once, before processes are forked

    parallel = [batch for batch in batches if batch[0].log != STDIN]
    with closing(workers.results(partial(_read_batch, task), parallel, workers.cores())) as results:
        for batch in batches:
            read = next(results) if batch[0].log != STDIN else None
            yield batch, read or _unread(batch)


def _unread(names: Sequence[LogName]) -> Batch:
    return Batch([None] * len(names), {})


def _read_batch(task: ReadTask, names: Sequence[LogName], _: object) -> Batch:
    """Read several logs. Those that cannot be read are read again by who needs the error."""
    from perflog.ingestion.together import read_together

    sink, logs = MemorySink(), dict[str, ReadLog]()
    with ExitStack() as stack:
        digests = [_digest(name, stack) for name in names]
        sources: dict[str, Source] = {}
        for digest, source in digests:
            if source is not None:
                sources.setdefault(digest, source)  # in their order: rows in another one would have to be copied
        if not (task.formats or task.guess):
            results = read_together(list(sources.values()), [task.label] * len(sources), sink)
            logs |= {result.sha256: ReadLog(result.sha256, result.warnings) for result in results if result is not None}
        for digest, source in sources.items():
            if digest not in logs:
                with suppress(PerflogError):
                    logs[digest] = _read(source, task, sink)
    return Batch([logs.get(digest) for digest, _ in digests], {table: sink.fetch(table) for table in sink.tables})


def _digest(name: LogName, stack: ExitStack) -> tuple[str, Source | None]:
    """Open a log. Return its hash and the log; None for a log that cannot be opened or read."""
    try:
        source = stack.enter_context(open_source(name))
        refuse_unknown_table(source)
        return source.digest(), source
    except PerflogError:
        return "", None


def _read(source: Source, task: ReadTask, sink: MemorySink, alone: bool = False) -> ReadLog:
    from perflog.formats.registry import named_formats
    from perflog.ingestion.pipeline import ingest

    log_rows, formats = MemorySink(), named_formats(task.formats)
    how: dict[str, Any] = {}
    if task.guess:
        from perflog.ingestion.suggest import guess

        how["guessed"] = guess(source, formats)
    if alone and workers.are_allowed() and not has_threads():
        how |= {"threads": min(workers.cores(), workers.MOST_OF_ONE_LOG), "processes": True}
    result = ingest(source, log_rows.reset, formats or None, task.label, **how)
    for table, parts in log_rows.tables.items():
        for part in parts:
            sink.add(table, part)
    return ReadLog(result.sha256, result.warnings)
