"""Reads one log from its bytes to its tables.

Chunks are scanned and assembled in the order of the log, the chunks of a long one in two processes. Rows go to the sink
as soon as they are complete. Hashing and writing release the interpreter lock, so each has a thread.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import pyarrow as pa

from perflog.errors import InputError
from perflog.formats.families.header_tables import needs_rows
from perflog.formats.model import Format
from perflog.formats.registry import COMMON, known
from perflog.ingestion.detect import Detection, detect, prints_steps
from perflog.ingestion.ended_runs import EndedRuns, lines_table, runs_table
from perflog.ingestion.forked_scanner import scanned_in_fork
from perflog.ingestion.late_formats import LateFormats, may_read
from perflog.ingestion.unrecognised import no_rows, nothing_recognised
from perflog.parsing.assemble.assembler import Assembler, Decisions, RereadRequired
from perflog.parsing.assemble.runs.run_state import RunSettings, RunState
from perflog.parsing.input.chunks import CHUNK, Chunk, join_chunks
from perflog.parsing.input.growing_source import GrowingSource
from perflog.parsing.input.source import JoinedSource, Source
from perflog.parsing.match.discovery import families_of
from perflog.parsing.match.ordered.bar_states import BarReader
from perflog.parsing.match.ordered.ordered_lines import OpenAtEnd, OrderedLines
from perflog.parsing.match.records import Batch, FormatLine, lines_of
from perflog.parsing.match.scanner import Scanner
from perflog.readers.interface import ReadOptions
from perflog.readers.registry import find_reader
from perflog.tables.arrow import text_array, with_column
from perflog.tables.sink import IngestResult, RunLabels, Sink, run_id

Observer = Callable[[Mapping[str, pa.Table], RunSettings], None]
"""Takes rows that are complete, by table, and the settings of the run that is being read. Column `run` holds the number
of the run."""

_SMALL = 1 << 20  # bytes of a log that is read in the time in which threads start
_FEW_FIGURES = 10  # numbers of a log that may be chance
_LONG = 32 << 20  # bytes of a log for which starting a second process pays
_MOST_JOINED = 4  # chunks that are joined into one
_ROWS_AT_ONCE = 1 << 16  # rows of a table that are written at once
_RUNS_AT_ONCE = 1 << 12  # rows of `runs` and of `lines` that are written at once


def ingest(  # noqa: PLR0913 (the options of one call, each documented below)
    source: Source,
    sink: Callable[[], Sink],
    formats: Sequence[Format] | None = None,
    label: RunLabels = None,
    threads: int = 2,
    chunk: int = CHUNK,
    progress: Callable[[int], None] | None = None,
    processes: bool = False,
    observer: Observer | None = None,
    guessed: Format | InputError | None = None,
) -> IngestResult:
    """Read a log into a sink.

    Args:
        source: The log.
        sink: Returns an empty sink. It is called again if the log has to be read again, because later lines change
            which ranks earlier lines belong to.
        formats: The formats to read the log with; by default the detected formats.
        label: The label of the runs; or a function that returns labels by index, called when the first run has ended.
        threads: Number of processes or threads that may read it.
        chunk: Bytes of a chunk.
        progress: Is called with the number of bytes read since its last call.
        processes: Whether a long log may be scanned in a forked process. Not for programs that use threads,
            such as notebooks.
        observer: Is called with the rows of each chunk as soon as they are complete. Only logs of lines have chunks.
        guessed: A format that was made from the log, for what no other format reads; or the error that says why there
            is none, which is raised if nothing is recognised.

    Raises:
        InputError: The log cannot be read, or nothing in it is recognised.
    """
    reader = find_reader(source) if formats is None else None
    if reader is not None:
        return reader.read(source, sink(), ReadOptions(label, threads, progress, processes))
    every = known()
    common = [every[COMMON]] if COMMON in every else []
    candidates = _candidates(source) if formats is None else []
    head = source.head()
    detection = detect(head, [*common, *(formats if formats is not None else candidates)])
    decisions = Decisions()
    file = os.path.basename(source.name)
    while True:
        assembler = partial(
            Assembler, decisions, files=(file,), waits_for_libraries=not isinstance(source, GrowingSource),
            is_by_rank=isinstance(source, JoinedSource) and source.is_by_rank,
        )  # fmt: skip
        reading = _Reading(source, sink(), formats, detection, label, assembler, processes, observer, guessed)
        try:
            return reading.run(threads, chunk, progress)
        except RereadRequired as change:  # each time more ranks are decided
            decisions |= change.decisions


def _candidates(source: Source) -> list[Format]:
    """Return the formats that a log may be in.

    Tables and results of a document that was found in a folder are about other logs.
    """
    every = [form for form in known().values() if form.name != COMMON]
    if not source.is_document:
        return every
    return [form for form in every if not (form.generic or any(map(needs_rows, form.families)))]


class _Reading:
    """One pass over a log. `assembler` makes its assembler, with what earlier passes have settled."""

    def __init__(  # noqa: PLR0913 (the options of `ingest`)
        self,
        source: Source,
        sink: Sink,
        formats: Sequence[Format] | None,
        detection: Detection,
        label: RunLabels,
        assembler: Callable[..., Assembler],
        processes: bool = False,
        observer: Observer | None = None,
        guessed: Format | InputError | None = None,
    ) -> None:
        self.processes, self.observer = processes, observer
        self.no_guess = guessed if isinstance(guessed, InputError) else None
        self.source, self.sink = source, sink
        every = known()
        self.common = [every[COMMON]] if COMMON in every else []
        candidates = _candidates(source) if formats is None else []
        self.detection, self.discovery = detection, detection.discovery.copy()
        active = list(formats) if formats is not None else [d.format for d in self.detection.formats]
        self.active: list[Format] = [*active, guessed] if isinstance(guessed, Format) else active
        gives_rows = any(d.gives_rows for d in self.detection.formats)
        self.late_formats = LateFormats(f for f in candidates if f not in active and not (gives_rows and f.generic))
        self.since: dict[str, int] = {}
        first_formats = [*self.common, *self.active]
        shown = [line for line in self.detection.shown if line[0] in first_formats]
        self.scanner = self._scanner_of([*lines_of(first_formats), *shown])
        self.assembler = assembler(guess=self.detection.per_rank)
        self.result = IngestResult(source.name, "")
        self._waiting: dict[str, list[pa.Table]] = {}
        self._ended = EndedRuns(self.result, label)
        self.ordered_lines = OrderedLines()
        self.bars = BarReader(prints_steps(detection.lines, detection.batch))

    def _scanner_of(self, lines: Sequence[FormatLine]) -> Scanner:
        return Scanner(lines, self.detection.labels, self.since, self.detection.opening)

    def run(self, threads: int, size: int, progress: Callable[[int], None] | None) -> IngestResult:
        """Read the log from its first to its last chunk."""
        writes: deque[Future[None]] = deque()
        with _executor(self.source) as hasher, _executor(self.source) as writer:
            for batch in self._whole(self._batches(threads, size, hasher)):
                tables, ended = self.assembler.feed(self.scanner.lines, batch)
                self._observe(tables)
                self._queue(tables, writer, writes)
                self._end(ended, writer, writes)
                if progress is not None:
                    progress(batch.chunk.size)
                while len(writes) > 12 or (writes and writes[0].done()):
                    writes.popleft().result()
            tables, ended = self.assembler.finish(self.scanner.lines)
            if not self.assembler.tracker.count:
                formats = [*self.active, *self.late_formats.formats]
                raise self.no_guess or nothing_recognised(self.source, self.detection, formats)
            self._observe(tables)
            self._queue(tables, writer, writes)
            self._end(ended, writer, writes, last=True)
            without_rows = self._without_rows()
            self._queue({}, writer, writes, all=True)
            while writes:
                writes.popleft().result()
        self.result.sha256 = self._hash.result()
        self.result.formats = [f.name for f in self.active]
        warnings = [*self.source.warnings, *self.discovery.warnings, *self.ordered_lines.warnings]
        self.result.warnings = list(dict.fromkeys([*warnings, *without_rows]))
        return self.result

    def _observe(self, tables: Mapping[str, pa.Table]) -> None:
        if self.observer is not None:
            recent = self.assembler.recent_failures() if "failures" not in tables else None
            self.observer(tables if recent is None else {**tables, "failures": recent}, self.assembler.settings)

    def _without_rows(self) -> list[str]:
        """Return a warning if the log has settings, but no row of a table.

        Raises:
            InputError: It also has more unread figures than settings, and more than a few.
        """
        if self.result.tables.keys() - {"runs", "lines"}:
            return []
        if self.result.figures["unread"] > max(self.result.figures["stored"], _FEW_FIGURES):
            raise no_rows(self.result, [f.name for f in self.active])
        return ["no line gives a row of a table: only settings are read"]

    def _batches(self, threads: int, size: int, hasher: Executor) -> Iterator[Batch]:
        """Yield scanned chunks in order. A chunk that shows a new format or a new Line is scanned again with it."""
        first, is_ahead = self.scanner, self._may_fork(threads)
        if (batch_of_all := self._scanned_by_detection(size)) is not None:
            scanned = iter([batch_of_all])
        elif is_ahead:
            scanned = scanned_in_fork(self.source, first, size)
        else:
            scanned = (self.scanner.scan(chunk) for chunk in self.source.chunks(size))
        self._hash = hasher.submit(self.source.digest)  # after the fork: no thread may run during it
        for batch in scanned:
            if is_ahead and self.scanner is not first and self._may_read_more(first, batch):
                batch = self.scanner.scan(_copy(batch.chunk))
            while len(batch.unread_segments) and (new := self._new_lines(batch)) is not None:
                self.scanner = self._scanner_of([*self.scanner.lines, *new])
                batch = self.scanner.scan(_copy(batch.chunk))
            yield batch

    def _may_fork(self, threads: int) -> bool:
        """Whether a second process pays. The size of a growing log is 0: its next chunk may come in an hour."""
        return threads > 1 and self.processes and sys.platform == "linux" and self.source.size() > _LONG

    def _scanned_by_detection(self, size: int) -> Batch | None:
        """Return the whole log as the detection has scanned it, if it was no more than its head."""
        head = self.detection.scanned.chunk
        is_whole = head.is_last and head.size <= size
        return self.detection.scanned_as(self.scanner) if is_whole else None

    def _whole(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Yield batches with the rows of printed tables; join batches if only the next one decides their last lines."""
        held: Chunk | None = None
        joined = 0
        before = OpenAtEnd()
        for batch in batches:
            if held is not None:
                batch = self.scanner.scan(join_chunks(held, batch.chunk))
            batch, at_end = self.ordered_lines.read(self.scanner.lines, batch, before)
            if joined < _MOST_JOINED and self._undecided(batch):
                held, joined = _copy(batch.chunk), joined + 1
                continue
            held, joined, before = None, 0, at_end
            yield self.bars.read(self.scanner.lines, batch)
        if held is not None:
            batch, _ = self.ordered_lines.read(self.scanner.lines, self.scanner.scan(held), before)
            yield self.bars.read(self.scanner.lines, batch)

    def _undecided(self, batch: Batch) -> bool:
        """Return whether only the next batch decides to which run, table or block the last lines of this one belong."""
        lines = self.scanner.lines
        in_run = self.assembler.tracker.undecided(lines, batch)
        return in_run or self.bars.undecided(lines, batch) or self.ordered_lines.undecided(lines, batch)

    def _new_lines(self, batch: Batch) -> list[FormatLine] | None:
        """Return Lines that unread lines show: lines of a format that one of them proves, else lines of families.

        The format is active from that line on. None if the unread lines show nothing new.
        """
        proven = self.late_formats.take_proven(batch)
        if proven is not None:
            form, position = proven
            self.since[form.name] = position
            self.active.append(form)
            return lines_of([form])
        return self.discovery.find(families_of([*self.common, *self.active]), batch) or None

    def _may_read_more(self, scanner: Scanner, batch: Batch) -> bool:
        """Return whether lines that were added since the chunk was scanned could read more of it."""
        new = [(form, line) for form, line in self.scanner.lines[len(scanner.lines) :] if not line.under_header]
        return any(form.name in self.since for form, _ in new) or may_read(batch, [line for _, line in new])

    # --- output --------------------------------------------------------------------------------------------------

    def _queue(
        self, tables: dict[str, pa.Table], writer: Executor, writes: deque[Future[None]], all: bool = False
    ) -> None:
        """Queue rows for writing, many at once: row groups of a few thousand rows are slow to write and to read."""
        for name, table in tables.items():
            if len(table):
                self.result.tables[name] = self.result.tables.get(name, 0) + len(table)
                self._waiting.setdefault(name, []).append(table)
        for name, parts in self._waiting.items():
            # Rows of `runs` are a kilobyte each and come in batches already.
            if parts and (all or name == "runs" or sum(map(len, parts)) >= _ROWS_AT_ONCE):
                rows = parts[0] if len(parts) == 1 else pa.concat_tables(parts).unify_dictionaries()
                self._waiting[name] = []
                writes.append(writer.submit(self._write, name, rows))

    def _write(self, name: str, rows: pa.Table) -> None:
        """Hand rows to the sink. Replace the numbers of their runs by run ids, which need the hash of the whole log."""
        digest = self._hash.result()
        parts, numbers, ids = [], None, None
        for part in rows.column("run").chunks:
            # The dictionary is almost always the same for all parts; converting each would take runs x parts steps.
            if numbers is None or not part.dictionary.equals(numbers):
                numbers = part.dictionary
                ids = text_array(run_id(digest, n) for n in numbers.to_pylist())
            parts.append(pa.DictionaryArray.from_arrays(part.indices, ids))
        self.sink.add(name, with_column(rows, "run", pa.chunked_array(parts)))

    def _end(self, runs: list[RunState], writer: Executor, writes: deque[Future[None]], last: bool = False) -> None:
        """Queue the rows of runs that have ended: their row in `runs`, their line shapes in `lines`."""
        by_name = {f.name: f for f in [*self.common, *self.active]}
        for run in runs:
            self._ended.add(run, by_name, many=self.assembler.tracker.count > 1)
        if last or len(self._ended.runs) >= _RUNS_AT_ONCE:
            self._queue({"runs": runs_table(self._ended.take_runs(self._hash.result()))}, writer, writes)
        if last or len(self._ended.lines) >= _RUNS_AT_ONCE:
            self._queue({"lines": lines_table(self._ended.take_lines())}, writer, writes)


class _AtOnce(Executor):
    """An executor that runs each call at once."""

    def submit(self, call: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        """Run a call and return its result as a future."""
        future: Future[Any] = Future()
        try:
            future.set_result(call(*args, **options))
        except Exception as error:  # noqa: BLE001  # raised where the result is asked for
            future.set_exception(error)
        return future


def _executor(source: Source) -> Executor:
    return _AtOnce() if source.size() < _SMALL else ThreadPoolExecutor(1)


def _copy(chunk: Chunk) -> Chunk:
    """Return the chunk with a copy of its bytes: the bytes of a forked process are only lent."""
    return dataclasses.replace(chunk, data=bytearray(chunk.data))
