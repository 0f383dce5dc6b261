"""Ingests logs into a store: one, or many in parallel processes.

What reads logs is imported when a log is read: to show what a store holds needs none of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

from perflog.errors import InputError, PerflogError, UsageError
from perflog.ingestion import workers
from perflog.ingestion.memory import keep_freed
from perflog.parsing.input.log_names import STDIN, LogName, expand
from perflog.parsing.input.source import Source, open_source
from perflog.readers.rank_files import group_rank_files
from perflog.tables.sink import LOG_ID, IngestResult
from perflog.tables.store import Store

_KILLED = "memory may have run out: try --threads 1"
_SECONDS_A_LOG, _SECONDS_A_BYTE = 0.02, 1e-8  # of reading, about

Outcome = IngestResult | PerflogError


@dataclass(frozen=True)
class IngestTask:
    """Instructions for the ingestion of each log.

    Attributes:
        store: The folder of the store.
        label: The label of the runs; None keeps the labels that the log gives, and those given before.
        formats: Names or paths of formats; () detects them.
        strict: Whether a log with unread lines or figures is an error. It is then not stored.
        guess: Whether perflog makes a format for the lines that no format reads.
    """

    store: str
    label: str | None = None
    formats: tuple[str, ...] = ()
    strict: bool = False
    guess: bool = False


def log_names(texts: Iterable[str], formats: Sequence[str] = ()) -> list[LogName]:
    """Return the logs that the user's texts mean.

    Args:
        texts: Paths, folders, globs, URLs, or "-" for standard input.
        formats: The formats that the user names. Without any, the files of the ranks of one run become one name.

    Raises:
        UsageError, FormatError: A format does not exist or is wrong. This is one error, not one for each log.
    """
    if formats:
        from perflog.formats.registry import named_formats

        named_formats(formats)
    names = list(dict.fromkeys(expand(texts)))
    return names if formats else group_rank_files(names)


def ingest_log(
    name: LogName,
    task: IngestTask,
    threads: int = 2,
    progress: Callable[[int], None] | None = None,
    processes: bool = False,
) -> Outcome:
    """Ingest one log into a store.

    Args:
        name: The log.
        task: What to do with it.
        threads: Number of threads.
        progress: Is called with the number of bytes read since its last call.
        processes: Whether a long log may be scanned in a forked process. Not for programs that use threads.

    Returns:
        The outcome of the log, or the error. An error of one log must not stop the others.
    """
    from perflog.formats.registry import named_formats
    from perflog.ingestion.pipeline import ingest

    try:
        if name.run:
            raise UsageError("a store holds whole logs", str(name), f"leave out #{name.run}; `perflog show` takes it")
        with open_source(name) as source, Store(task.store).write(lambda: source.digest()[:LOG_ID]) as writer:

            def sink() -> Any:
                writer.reset()  # a log whose later lines change earlier ranks is read twice
                return writer

            formats = named_formats(task.formats)
            if task.guess:
                from perflog.ingestion.suggest import guess

                formats = guess(source, formats)
            # A function: labels need the log's hash, which is computed while the first chunks are scanned.
            labels = task.label if task.label is not None else partial(_labels, task.store, source)
            result = ingest(source, sink, formats or None, labels, threads, progress=progress, processes=processes)
            if task.strict and result.warnings:
                raise InputError(
                    result.warnings[0], str(name), "nothing of this log was stored; without --strict it is kept"
                )
            if task.strict and result.unread is not None:
                raise _unread_error(result, *result.unread)
            if task.strict and result.unread_figures is not None:
                raise _unread_figures_error(result, *result.unread_figures)
            return result
    except PerflogError as error:
        error.where = error.where or str(name)
        str(error)  # an error whose help is not written yet holds the lines of its log in memory
        return error


def _labels(store: str, source: Source) -> Mapping[int, str | None]:
    """Return the labels that the runs of this log have in the store, by index. Reading a log again keeps them."""
    if not os.path.isdir(os.path.join(store, "runs")):
        return {}
    try:
        rows = Store(store).table("runs", logs=[source.digest()[:LOG_ID]])
    except PerflogError:  # a damaged file: this ingest replaces it
        return {}
    return dict(zip(rows["index"].to_pylist(), rows["label"].to_pylist(), strict=True))


def ingest_many(
    names: Sequence[LogName], task: IngestTask, threads: int | None, progress: Callable[[int], None] | None
) -> Iterator[tuple[LogName, Outcome]]:
    """Ingest logs, in parallel processes if that is faster. For programs without threads, as the command line is.

    Yields:
        Each name with its outcome, in the order of the names.
    """
    keep_freed()
    processes = threads or workers.cores()
    parallel = [n for n in names if n.log != STDIN]  # only this process can read standard input
    if processes == 1 or not pay(parallel):
        for name in names:
            yield name, ingest_log(name, task, threads or min(processes, 4), progress, processes=True)
        return
    import perflog.ingestion.pipeline  # noqa: F401  # once, before processes are forked

    outcomes = workers.results(partial(_ingest_in_worker, task), parallel, processes, progress)
    with closing(outcomes):
        for name in names:
            if name.log == STDIN:
                yield name, ingest_log(name, task, 1, progress)
            else:
                yield name, next(outcomes) or InputError("the process that read the log was killed", str(name), _KILLED)


def pay(names: Sequence[LogName]) -> bool:
    """Return whether reading these logs takes so long that starting processes for it pays."""
    seconds = len(names) * _SECONDS_A_LOG + sum(map(size, names)) * _SECONDS_A_BYTE
    return len(names) > 1 and seconds > workers.START_SECONDS


def _ingest_in_worker(task: IngestTask, name: LogName, progress: Callable[[int], None] | None) -> Outcome:
    return ingest_log(name, task, 1, progress)


def size(name: LogName) -> int:
    """Return the bytes of the files of a log; 0 if it is not a file."""
    try:
        return sum(map(os.path.getsize, name.files))
    except OSError:
        return 0


def expected(names: Sequence[LogName]) -> int | None:
    """Return the number of bytes that will be read; None if it is unknown before reading, as for compressed logs."""
    files = [file for name in names for file in name.files]
    known = all(os.path.isfile(file) and not file.endswith((".gz", ".xz", ".zst", ".bz2")) for file in files)
    return sum(map(size, names)) if known else None


def _unread_figures_error(result: IngestResult, line: int, text: str) -> InputError:
    """Return the error of a log whose lines are read, but not all of their figures."""
    count = result.figures["unread"]
    figures = "1 figure is" if count == 1 else f"{count} figures are"
    help = "nothing of this log was stored; a format stores a figure in a field, or says why it is `dropped`"
    return InputError(f"{figures} unread, in lines such as line {line}:\n  {text}", result.log, help)


def _unread_error(result: IngestResult, line: int, text: str) -> InputError:
    """Return the error of a log with unread lines; `line` and `text` are the first of them."""
    count = result.lines["unread"]
    lines = "1 line is" if count == 1 else f"{count} lines are"
    help = f"nothing of this log was stored; `perflog formats suggest {result.log}` describes such lines"
    return InputError(f"{lines} unread; the first is line {line}:\n  {text}", result.log, help)
