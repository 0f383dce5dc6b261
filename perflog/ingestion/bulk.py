"""Ingests logs into a store: one, or many in parallel processes.

What reads logs is imported when a log is read: to show what a store holds needs none of it.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from perflog.errors import (
    BinaryFileError,
    EmptyLogError,
    InputError,
    PerflogError,
    UnknownTableError,
    UnrecognisedError,
    UsageError,
)
from perflog.files.remote import has_threads, is_remote
from perflog.grouping import grouped
from perflog.ingestion import workers
from perflog.ingestion.batches import in_batches, pay, size
from perflog.ingestion.earlier_states import History, Origins, history
from perflog.ingestion.job_logs import group_job_logs
from perflog.ingestion.memory import keep_freed
from perflog.parsing.input.archives import unpacked_path
from perflog.parsing.input.log_names import STDIN, LogName, expand, left_out, why_left_out
from perflog.parsing.input.source import Source, open_source
from perflog.tables.sink import LOG_ID, IngestResult, MemorySink, Sink
from perflog.tables.store import Store, is_store
from perflog.tables.store.writer import BatchWriter

if TYPE_CHECKING:
    from perflog.ingestion.pipeline import Observer

_KILLED = "memory may have run out: try --processes 1"
MOST_LOGS, MOST_BYTES = 256, 16 << 20
"""Logs, and their bytes, that are stored together."""

_FETCHED_AHEAD = 8  # logs
_MOST_NAMED = 20  # files that are left out for one reason
_NO_LOGS = (UnrecognisedError, UnknownTableError, EmptyLogError, BinaryFileError)

Outcome = IngestResult | PerflogError


class IngestTask(Struct, frozen=True):
    """Instructions for the ingestion of each log.

    Attributes:
        store: The folder of the store.
        label: The label of the runs; None keeps the labels that the log gives, and those given before.
        formats: Names or paths of formats; () detects them.
        strict: Whether a log with unread lines or figures is an error. It is then not stored.
        guess: Whether perflog makes a format for the lines that no format reads.
        provenance: Which commit, branch and job made the logs, by name.
        tags: What the user says of them, by name.
    """

    store: str
    label: str | None = None
    formats: tuple[str, ...] = ()
    strict: bool = False
    guess: bool = False
    provenance: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)


def log_names(texts: Iterable[str], formats: Sequence[str] = ()) -> list[LogName]:
    """Return the logs that the user's names mean.

    Args:
        texts: Paths, folders, globs, addresses, or "-" for standard input.
        formats: The formats that the user names. Without any, the files of the ranks of one run become one name.

    Raises:
        UsageError, FormatError: A format does not exist or is wrong. This is one error, not one for each log.
    """
    if formats:
        from perflog.formats.registry import named_formats

        named_formats(formats)
    names = list(dict.fromkeys(expand(texts)))
    return names if formats else group_job_logs(names).names


def ingest_log(
    name: LogName,
    task: IngestTask,
    threads: int = 2,
    progress: Callable[[int], None] | None = None,
    processes: bool = False,
    observer: Observer | None = None,
    opened: Source | None = None,
) -> Outcome:
    """Ingest one log into a store, part by part: its rows need not fit into memory.

    Args:
        name: The log.
        task: What to do with it.
        threads: Number of processes.
        progress: Is called with the number of bytes read since its last call.
        processes: Whether a long log may be scanned in a forked process. Not for programs that use threads.
        observer: Is called with rows as soon as they are complete.
        opened: The log, where it is not to be opened by its name.

    Returns:
        The outcome of the log, or the error. An error of one log must not stop the others.
    """
    try:
        store = Store(task.store)
        with opened or _opened(name) as source, store.write(lambda: [source.digest()[:LOG_ID]]) as writer:
            writer.provenance, writer.tags = task.provenance, task.tags
            writer.settings = lambda: {source.digest()[:LOG_ID]: name.settings}
            stored = cache(lambda: history(name, source, Origins(store.origins())))  # it needs the digest of the log

            def sink() -> Sink:
                writer.reset()  # a log is read twice if its later lines change earlier ranks
                return writer

            def labels(source: Source) -> Mapping[int, str | None]:
                logs = [source.digest()[:LOG_ID], *stored().earlier]
                return _labels_of(logs, _stored_labels(task.store, logs))

            how = {
                "threads": threads,
                "progress": progress,
                "processes": processes and not has_threads(),
                "observer": observer,
            }
            result = _read(source, sink, task, labels, **how)
            _replace_earlier(writer, result, stored())
            return result
    except PerflogError as error:
        return _of_log(error, name)


def ingest_logs(
    names: Sequence[LogName], task: IngestTask, progress: Callable[[int], None] | None = None
) -> list[Outcome]:
    """Ingest small logs into a store, together: their rows are collected in memory, and appear there at once.

    Args:
        names: The logs.
        task: What to do with them.
        progress: Is called with the number of bytes read since its last call.

    Returns:
        For each log its outcome, or the error.
    """
    rows = MemorySink()
    stored_labels = cache(partial(_stored_labels, task.store, None))
    origins = cache(lambda: Origins(Store(task.store).origins()))
    with ExitStack() as stack:
        logs = [_LogOfMany(name, opened, stack, origins, stored_labels) for name, opened in _each_opened(names)]
        _read_alike(logs, task, rows, progress)
        have_rows = {log.id for log in logs if isinstance(log.outcome, IngestResult)}
        outcomes = [log.outcome or _read_alone(log, have_rows, task, rows, progress) for log in logs]
    results = [(log, log.outcome) for log in logs if isinstance(log.outcome, IngestResult)]
    try:
        if results:
            with Store(task.store).write(list(dict.fromkeys(log.id for log, _ in results))) as writer:
                writer.provenance, writer.tags = task.provenance, task.tags
                writer.settings = lambda: {log.id: log.name.settings for log, _ in results}
                for log, result in results:
                    _replace_earlier(writer, result, log.history)
                for table in rows.tables:
                    writer.add_logs(table, rows.fetch(table))
    except PerflogError as error:
        return [outcome if isinstance(outcome, PerflogError) else error for outcome in outcomes]
    return outcomes


class _LogOfMany:
    """One of several logs that are stored together: open until all are read. `outcome` is None until it is read."""

    def __init__(
        self,
        name: LogName,
        opened: Callable[[], Source],
        stack: ExitStack,
        origins: Callable[[], Origins],
        stored_labels: Callable[[], Mapping[str, Mapping[int, str | None]]],
    ) -> None:
        self.name = name
        self.outcome: Outcome | None = None
        self._origins, self._stored_labels = origins, stored_labels
        try:
            self.source = stack.enter_context(opened())
        except PerflogError as error:
            self.outcome = _of_log(error, name)

    @property
    def id(self) -> str:
        """The id of the log in a store."""
        return self.source.digest()[:LOG_ID]

    @cached_property
    def history(self) -> History:
        """What the store has of the path of the log."""
        return history(self.name, self.source, self._origins())

    def labels(self, _: object = None) -> Mapping[int, str | None]:
        """Return the stored labels of the runs of the log, by index."""
        return _labels_of([self.id, *self.history.earlier], self._stored_labels())


def _read_alike(
    logs: Sequence[_LogOfMany], task: IngestTask, rows: MemorySink, progress: Callable[[int], None] | None
) -> None:
    """Read the logs together that look alike, and fill in their outcomes."""
    if task.formats or task.guess or task.strict:
        return
    from perflog.ingestion.together import read_together

    first_of: dict[str, _LogOfMany] = {}
    for log in logs:
        if log.outcome is None:
            with suppress(PerflogError):  # to read it alone raises the error again
                first_of.setdefault(log.id, log)
    chosen = list(first_of.values())
    labels = [log.labels if task.label is None else task.label for log in chosen]
    for log, result in zip(chosen, read_together([log.source for log in chosen], labels, rows), strict=True):
        log.outcome = result
        if result is not None and progress is not None:
            progress(log.source.length() or 0)


def _read_alone(
    log: _LogOfMany,
    have_rows: set[str],
    task: IngestTask,
    rows: MemorySink,
    progress: Callable[[int], None] | None,
) -> Outcome:
    """Read one of several logs, and fill in its outcome. `have_rows`: ids of the logs with rows in `rows`."""
    log_rows = MemorySink()
    try:
        log.outcome = _read(log.source, log_rows.reset, task, log.labels, threads=1, progress=progress)
        log.history.note(log.outcome)
    except PerflogError as error:
        log.outcome = _of_log(error, log.name)
        return log.outcome
    if log.id not in have_rows:
        have_rows.add(log.id)
        for table in log_rows.tables:
            rows.add(table, log_rows.fetch(table))
    return log.outcome


def _opened(name: LogName) -> Source:
    if name.run:
        raise UsageError("a store holds whole logs", str(name), f"leave out #{name.run}; `perflog show` takes it")
    return open_source(name)


def _each_opened(names: Sequence[LogName]) -> Iterator[tuple[LogName, Callable[[], Source]]]:
    """Yield each log with a function that returns it open.

    Files elsewhere are fetched a few ahead: for a small one most of the time is waiting.
    """
    if not any(is_remote(name.log) for name in names):
        yield from ((name, partial(_opened, name)) for name in names)
        return
    from concurrent.futures import Future, ThreadPoolExecutor

    with ThreadPoolExecutor(_FETCHED_AHEAD) as pool:
        waiting: deque[tuple[LogName, Future[Source]]] = deque()
        for name in names:
            waiting.append((name, pool.submit(_opened, name)))
            if len(waiting) > _FETCHED_AHEAD:
                first, future = waiting.popleft()
                yield first, future.result
        for name, future in waiting:
            yield name, future.result


def _of_log(error: PerflogError, name: LogName) -> PerflogError:
    """Complete the error of a log."""
    error.where = error.where or str(name)
    str(error)  # until its help is written, an error holds the lines of its log in memory
    return error


def _read(source: Source, sink: Callable[[], Sink], task: IngestTask, labels: _Labels, **how: Any) -> IngestResult:
    """Read a log into a sink. `how` has the arguments of `ingest` that say in which threads and processes.

    Raises:
        PerflogError: The log cannot be read, or not as strictly as the task asks.
    """
    from perflog.formats.registry import named_formats
    from perflog.ingestion.pipeline import ingest

    formats = named_formats(task.formats)
    if task.guess:
        from perflog.ingestion.suggest import guess

        how["guessed"] = guess(source, formats)
    # A function: labels need the log's hash, which is computed while the first chunks are scanned.
    label = task.label if task.label is not None else partial(labels, source)
    result = ingest(source, sink, formats or None, label, **how)
    if task.strict:
        _refuse_unread(result)
    return result


def _refuse_unread(result: IngestResult) -> None:
    """Raise InputError if something in a log was not read."""
    if result.warnings:
        help = "nothing of this log was stored; without --strict it is kept"
        raise InputError(result.warnings[0], result.log, help)
    if result.unread is not None:
        line, text = result.unread
        count = result.lines["unread"]
        lines = "1 line is" if count == 1 else f"{count} lines are"
        help = f"nothing of this log was stored; `perflog formats suggest {result.log}` describes such lines"
        raise InputError(f"{lines} unread; the first is line {line}:\n  {text}", result.log, help)
    if result.unread_figures is not None:
        line, text = result.unread_figures
        count = result.figures["unread"]
        figures = "1 figure is" if count == 1 else f"{count} figures are"
        help = "nothing of this log was stored; a format stores a figure in a field, or says why it is `dropped`"
        raise InputError(f"{figures} unread, in lines such as line {line}:\n  {text}", result.log, help)


_Labels = Callable[[Source], Mapping[int, str | None]]
"""Returns the labels of the runs of a log, by their index."""


def _stored_labels(store: str, logs: Sequence[str] | None) -> Mapping[str, Mapping[int, str | None]]:
    """Return the labels of runs in a store, by the id of the log. Reading a log again keeps its labels."""
    labels: dict[str, dict[int, str | None]] = {}
    if is_store(store):
        with suppress(PerflogError):  # a damaged file: this ingest may replace it
            for run in Store(store).table("runs", logs).select(["log_sha256", "index", "label"]).to_pylist():
                labels.setdefault(run["log_sha256"][:LOG_ID], {})[run["index"]] = run["label"]
    return labels


def _labels_of(logs: Sequence[str], stored: Mapping[str, Mapping[int, str | None]]) -> Mapping[int, str | None]:
    """Return the stored labels of a log, by the index of the run. `logs`: its id and the ids of its earlier states."""
    labels: dict[int, str | None] = {}
    for log in reversed(logs):
        labels |= {index: label for index, label in stored.get(log, {}).items() if label}
    return labels


def _replace_earlier(writer: BatchWriter, result: IngestResult, stored: History) -> None:
    """Let a log replace its earlier states in the store, and write that into its result."""
    stored.note(result)
    writer.earlier |= stored.earlier.keys()
    if stored.origin is not None:
        before = writer.origins.get(log := result.sha256[:LOG_ID])
        writer.origins[log] = before | stored.origin if before else stored.origin


def split_documents(
    outcomes: Iterable[tuple[LogName, Outcome]],
) -> tuple[list[tuple[LogName, Outcome]], list[LogName]]:
    """Return the outcomes of logs, and the documents that were found beside them, such as a README, and are no logs."""
    outcomes = list(outcomes)
    left_out = [name for name, done in outcomes if name.is_found_document and isinstance(done, InputError)]
    if len(left_out) == len(outcomes):
        return outcomes, []
    return [(name, done) for name, done in outcomes if name not in left_out], left_out


def without_found(
    outcomes: Iterable[tuple[LogName, Outcome]],
) -> tuple[list[tuple[LogName, Outcome]], list[str]]:
    """Return the outcomes without files of folders that are no logs, and sentences that name these and the reasons.

    A file that the user named is a log. If nothing was read, each file has its error.
    """
    outcomes = list(outcomes)
    found = {
        name: why_left_out(done)
        for name, done in outcomes
        if isinstance(done, _NO_LOGS) or (name.is_found_document and isinstance(done, InputError))
        if name.is_found
    }
    if all(isinstance(done, PerflogError) for _, done in outcomes):
        return outcomes, []
    by_reason = grouped((reason, str(name)) for name, reason in found.items())
    sentences = [left_out(reason, names, _MOST_NAMED) for reason, names in by_reason.items()]
    return [(name, done) for name, done in outcomes if name not in found], sentences


def ingest_in_turn(names: Sequence[LogName], task: IngestTask) -> Iterator[tuple[LogName, Outcome]]:
    """Ingest logs one after the other, in this process.

    Yields:
        Each name with its outcome, in the order of the names.
    """
    for batch in in_batches(names, MOST_LOGS, MOST_BYTES):
        outcomes = ingest_logs(batch, task) if len(batch) > 1 else [ingest_log(batch[0], task)]
        yield from zip(batch, outcomes, strict=True)


def ingest_many(
    names: Sequence[LogName], task: IngestTask, threads: int | None, progress: Callable[[int], None] | None
) -> Iterator[tuple[LogName, Outcome]]:
    """Ingest logs, in parallel processes if that is faster. For programs without threads, as the command line is.

    Yields:
        Each name with its outcome, in the order of the names.
    """
    keep_freed()
    processes = threads or workers.cores()
    elsewhere = [name for name in names if name.log != STDIN]  # only this process can read standard input
    if not pay(elsewhere):
        log_threads = threads or min(processes, workers.MOST_OF_ONE_LOG)
        for name in names:
            yield name, ingest_log(name, task, log_threads, progress, processes=True)
        return
    import perflog.ingestion.pipeline  # noqa: F401  # once, before processes are forked

    batches = list(in_batches(names, MOST_LOGS, MOST_BYTES))
    here = [processes == 1 or batch[0].log == STDIN for batch in batches]
    parallel = [batch for batch, is_here in zip(batches, here, strict=True) if not is_here]
    with closing(workers.results(partial(ingest_batch, task), parallel, processes, progress)) as results:
        for batch, is_here in zip(batches, here, strict=True):
            outcomes = ingest_batch(task, batch, progress) if is_here else next(results)
            yield from zip(batch, outcomes or _after_kill(batch, task, progress), strict=True)


def ingest_batch(task: IngestTask, names: Sequence[LogName], progress: Callable[[int], None] | None) -> list[Outcome]:
    """Ingest the logs of one batch, in this process and thread. Return the outcome of each."""
    if len(names) > 1:
        return ingest_logs(names, task, progress)
    return [ingest_log(names[0], task, 1, progress)]


def killed(name: LogName, help: str = _KILLED) -> InputError:
    """Return the error of a log that has cost the process that read it."""
    return InputError("the process that read the log was killed", str(name), help)


def _after_kill(names: Sequence[LogName], task: IngestTask, progress: Callable[[int], None] | None) -> list[Outcome]:
    """Return the outcomes of logs after one of them ended the process that read them. Each gets its own process."""
    if len(names) == 1:
        return [killed(names[0])]
    with closing(workers.results(partial(ingest_batch, task), [[name] for name in names], 1, progress)) as results:
        return [outcomes[0] if outcomes else killed(name) for name, outcomes in zip(names, results, strict=True)]


def expected(names: Sequence[LogName]) -> int | None:
    """Return the number of bytes that will be read; None if it is unknown before reading, as for compressed logs."""
    files = [
        file
        for name in names
        for file in name.files
        if name.remote_size is not None or os.path.isfile(unpacked_path(file))
    ]
    known = len(files) == sum(len(name.files) for name in names) and not any(
        file.endswith((".gz", ".xz", ".zst", ".bz2")) for file in files
    )
    return sum(map(size, names)) if known else None
