"""Logs into a store, several at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from perflog.errors import InputError, PerflogError, UsageError
from perflog.formats.registry import named_formats
from perflog.ingestion.memory import keep_freed
from perflog.ingestion.pipeline import ingest
from perflog.parsing.input.log_names import STDIN, LogName
from perflog.parsing.input.source import Source, open_source
from perflog.tables.sink import LOG_ID, IngestResult
from perflog.tables.store import Store

SMALL = 64 << 20
"""Bytes of all logs together up to which starting processes takes longer than it saves."""

Outcome = IngestResult | PerflogError
_read: Any = None  # in a process of the pool: the bytes read by all of them, shared


@dataclass(frozen=True)
class Task:
    """What to do with each log. `strict`: a log with unread lines is an error and is not stored."""

    store: str
    label: str | None = None
    formats: tuple[str, ...] = ()
    strict: bool = False


def keep(
    name: LogName,
    task: Task,
    threads: int = 2,
    progress: Callable[[int], None] | None = None,
    processes: bool = False,
) -> Outcome:
    """Ingest a log into a store. What is wrong with it is returned, not raised. `processes` as `ingest` has it."""
    try:
        if name.run:
            raise UsageError("a store holds whole logs", str(name), f"leave out #{name.run}; `perflog show` takes it")
        with open_source(name) as source, Store(task.store).write(lambda: source.digest()[:LOG_ID]) as out:

            def sink() -> Any:
                out.reset()  # a log that contradicts itself late is read twice
                return out

            formats = named_formats(task.formats) or None
            # Asked for late: it takes the log's hash, which is made while the first chunks are scanned.
            named = task.label if task.label is not None else partial(_labels, task.store, source)
            done = ingest(source, sink, formats, named, threads, progress=progress, processes=processes)
            if task.strict and done.warnings:
                raise InputError(
                    done.warnings[0], str(name), "nothing of this log was stored; without --strict it is kept"
                )
            if task.strict and done.unread is not None:
                raise _unread(done, *done.unread)
            return done
    except PerflogError as error:
        error.where = error.where or str(name)
        return error


def _labels(store: str, source: Source) -> Mapping[int, str | None]:
    """Labels that the runs of this very log have in the store, by index: reading it again does not take them away."""
    if not os.path.isdir(os.path.join(store, "runs")):
        return {}
    try:
        rows = Store(store).table("runs", logs=[source.digest()[:LOG_ID]])
    except PerflogError:  # a damaged file: this ingest replaces it
        return {}
    return dict(zip(rows["index"].to_pylist(), rows["label"].to_pylist(), strict=True))


def keep_all(
    names: Sequence[LogName], task: Task, threads: int | None, progress: Callable[[int], None] | None
) -> Iterator[tuple[LogName, Outcome]]:
    """Ingest logs, in parallel processes if it is worth it; outcomes in the order of the names.

    For a program without threads of its own, as the command line is.
    """
    keep_freed()
    cores = threads or _cores()
    # Standard input is this process's alone.
    apart = [n for n in names if n.log != STDIN] if cores > 1 and sum(map(size, names)) > SMALL else []
    if len(apart) < 2:
        for name in names:
            yield name, keep(name, task, threads or min(cores, 4), progress, processes=True)
        return
    yield from _pool(names, apart, task, min(cores, len(apart)), progress)


def _pool(
    names: Sequence[LogName],
    apart: Sequence[LogName],
    task: Task,
    workers: int,
    progress: Callable[[int], None] | None,
) -> Iterator[tuple[LogName, Outcome]]:
    import multiprocessing
    from concurrent.futures import Future, ProcessPoolExecutor, wait
    from concurrent.futures.process import BrokenProcessPool

    context = multiprocessing.get_context("spawn")  # to fork a process with threads is to ask for a deadlock
    counter, told = context.Value("q", 0), 0
    with ProcessPoolExecutor(workers, context, _start, (counter,)) as pool:
        futures: dict[LogName, Future[Outcome]] = {name: pool.submit(_keep, name, task) for name in apart}
        try:
            for name in names:
                if name not in futures:
                    yield name, keep(name, task, 1, progress)
                    continue
                while wait([futures[name]], 0.1 if progress else None).not_done:
                    now = counter.value
                    if progress:
                        progress(now - told)
                    told = now
                try:
                    yield name, futures[name].result()
                except BrokenProcessPool:
                    help = "memory may have run out: try --threads 1"
                    yield name, InputError("the process that read it was killed", str(name), help)
        except BaseException:  # interrupted: what is half done is not committed, and the next writer clears it away
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def _start(counter: Any) -> None:
    import signal
    import threading

    global _read  # noqa: PLW0603 (the only way to hand something to a process of a pool)
    _read = counter
    keep_freed()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the parent tells of it
    threading.Thread(target=_outlive_nobody, daemon=True).start()


def _outlive_nobody() -> None:
    """End with the process that started this one: if it was killed, nobody else ends those of its pool."""
    import multiprocessing
    from multiprocessing.connection import wait

    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _keep(name: LogName, task: Task) -> Outcome:
    def progress(count: int) -> None:
        with _read.get_lock():
            _read.value += count

    return keep(name, task, 1, progress)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def size(name: LogName) -> int:
    """Bytes of the files of a log; 0 for what is no file."""
    try:
        return sum(map(os.path.getsize, name.files))
    except OSError:
        return 0


def expected(names: Sequence[LogName]) -> int | None:
    """Bytes of log that will be read, or None where only reading tells."""
    files = [file for name in names for file in name.files]
    known = all(os.path.isfile(file) and not file.endswith((".gz", ".xz", ".zst", ".bz2")) for file in files)
    return sum(map(size, names)) if known else None


def _unread(done: IngestResult, line: int, text: str) -> InputError:
    count = done.lines["unread"]
    lines = "1 line is" if count == 1 else f"{count} lines are"
    help = f"nothing of this log was stored; `perflog formats suggest {done.log}` describes such lines"
    return InputError(f"{lines} unread; the first is line {line}:\n  {text}", done.log, help)
