"""A log from its bytes to its tables: chunks are scanned ahead, in threads or in a forked process, assembled in order,
and given out as they are complete.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from typing import Any

import pyarrow as pa

from perflog.formats.model import Format
from perflog.formats.registry import COMMON, known
from perflog.ingestion.detect import Look, look
from perflog.ingestion.diagnose import nothing_recognised
from perflog.ingestion.late_formats import Others, overlooked
from perflog.ingestion.prefetch import in_process, in_threads
from perflog.parsing.assemble.assembler import Assembler, RereadRequired
from perflog.parsing.assemble.rank_rules import RankDecisions
from perflog.parsing.assemble.run_state import RunState, ShapeCount
from perflog.parsing.input.chunks import CHUNK, Chunk, joint
from perflog.parsing.input.source import Source
from perflog.parsing.match.discovery import families_of
from perflog.parsing.match.header_rows import HeaderRowReader, Tables
from perflog.parsing.match.records import Batch, FormatLine, lines_of
from perflog.parsing.match.scanner import Scanner
from perflog.readers.interface import ReadOptions
from perflog.readers.registry import find_reader
from perflog.tables.arrow import text_array
from perflog.tables.schema import arrow_schema
from perflog.tables.sink import RUN_ID, IngestResult, Sink, table_of

_LONG = 32 << 20  # bytes of log from which a second process is worth its start
_JOINED = 4  # chunks joined at most
_TOGETHER = 1 << 16  # rows of a table that are written together
_BUFFERED = 1 << 12  # rows of `runs` and `lines` that are given out together


def ingest(  # noqa: PLR0913
    source: Source,
    sink: Callable[[], Sink],
    formats: Sequence[Format] | None = None,
    label: str | Callable[[], Mapping[int, str | None]] | None = None,
    threads: int = 2,
    chunk: int = CHUNK,
    progress: Callable[[int], None] | None = None,
    processes: bool = False,
) -> IngestResult:
    """Read a log into `sink()`. A log that contradicts itself late is read again, then `sink` is called again.

    `formats` are those to read it with (default: those it shows). `label` names its runs, or is a function that gives
    their names by index, called when the first run has ended. `progress` is told the bytes read. `processes` lets a
    long log be scanned in a forked process (not for programs with threads of their own, such as notebooks). Raises
    InputError if nothing is recognised.
    """
    reader = find_reader(source) if formats is None else None
    if reader is not None:
        return reader.read(source, sink(), ReadOptions(label, threads, progress, processes))
    decided: RankDecisions = {}
    separate: dict[int, bool] = {}
    while True:
        reading = _Reading(source, sink(), formats, label, decided, separate, processes)
        try:
            return reading.run(threads, chunk, progress)
        except RereadRequired as change:  # each time more is settled
            decided |= change.decided
            separate |= change.separate


class _Reading:
    """One pass over a log."""

    def __init__(
        self,
        source: Source,
        sink: Sink,
        formats: Sequence[Format] | None,
        label: str | Callable[[], Mapping[int, str | None]] | None,
        decided: RankDecisions,
        separate: dict[int, bool],
        processes: bool = False,
    ) -> None:
        self.processes = processes
        self.source, self.sink, self.label = source, sink, label
        every = known()
        self.common = [every[COMMON]] if COMMON in every else []
        rest = [f for f in every.values() if f.name != COMMON] if formats is None else []
        self.look: Look = look(source.head(), [*self.common, *(formats if formats is not None else rest)])
        active = list(formats) if formats is not None else [d.format for d in self.look.found]
        self.active: list[Format] = active
        self.others = Others(f for f in rest if f not in active)
        self.since: dict[str, int] = {}
        self.kinds = lines_of([*self.common, *active]) + [x for x in self.look.shown if x[0] in [*self.common, *active]]
        self.assembler = Assembler(decided, self.look.per_rank, separate)
        self.out = IngestResult(source.name, "")
        self._waiting: dict[str, list[pa.Table]] = {}
        self._rows: list[dict[str, Any]] = []
        self._lines: list[tuple[Any, ...]] = []
        self.header_rows = HeaderRowReader(self._add)
        self._prepare()

    def _add(self, kind: FormatLine) -> int:
        """One more Line that is read under a header; its place among the lines."""
        self.kinds.append(kind)
        self.scanner.lines.append(kind)
        return len(self.kinds) - 1

    def _prepare(self) -> None:
        self.scanner = Scanner(self.kinds, self.look.label, self.since, self.look.all_labelled)

    def run(self, threads: int, size: int, progress: Callable[[int], None] | None) -> IngestResult:
        writes: deque[Future[None]] = deque()
        with ThreadPoolExecutor(1) as hasher, ThreadPoolExecutor(1) as writer:
            for batch in self._whole(self._batches(threads, size, hasher)):
                tables, ended = self.assembler.feed(self.scanner.lines, batch)
                self._give(tables, writer, writes)
                self._end(ended, writer, writes)
                if progress is not None:
                    progress(batch.chunk.size)
                while len(writes) > 12 or (writes and writes[0].done()):
                    writes.popleft().result()
            tables, ended = self.assembler.finish(self.scanner.lines)
            if not self.assembler.tracker.count:
                raise nothing_recognised(self.source, self.look, [*self.active, *self.others.formats])
            self._give(tables, writer, writes)
            self._end(ended, writer, writes, last=True)
            self._give({}, writer, writes, all=True)
            while writes:
                writes.popleft().result()
        self.out.sha256 = self._hash.result()
        self.out.formats = [f.name for f in self.active]
        told = [*self.source.warnings, *self.look.discovery.warnings, *self.header_rows.warnings]
        self.out.warnings = list(dict.fromkeys(told))
        return self.out

    def _batches(self, threads: int, size: int, hasher: ThreadPoolExecutor) -> Iterator[Batch]:
        """Scanned chunks in order; a chunk in which a new format shows itself is scanned again with it."""
        apart = threads > 1 and self.processes and sys.platform == "linux" and self.source.size() > _LONG
        scanned = (
            in_process(self.source, lambda: self.scanner, size)
            if apart
            else in_threads(self.source, lambda: self.scanner, size, threads)
        )
        self._hash = hasher.submit(self.source.digest)  # behind the fork, for which no thread may run
        for scanner, batch in scanned:
            if scanner is not self.scanner and self._overlooked(scanner, batch):
                batch = self.scanner.scan(_own(batch.chunk))
            while len(batch.unread) and (self._joins(batch) or self._grows(batch)):
                self._prepare()
                batch = self.scanner.scan(_own(batch.chunk))
            yield batch

    def _whole(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Batches with the rows of their tables, joined where only the next tells what the last lines belong to."""
        held: Chunk | None = None
        joined = 0
        going: Tables = {}
        for batch in batches:
            if held is not None:
                batch = self.scanner.scan(joint(held, batch.chunk))
            batch, behind = self.header_rows.read(self.scanner.lines, batch, going)
            if joined < _JOINED and self._undecided(batch):
                held, joined = _own(batch.chunk), joined + 1
                continue
            held, joined, going = None, 0, behind
            yield batch
        if held is not None:
            yield self.header_rows.read(self.scanner.lines, self.scanner.scan(held), going)[0]

    def _undecided(self, batch: Batch) -> bool:
        """Whether only the next batch tells what the last lines of this one belong to."""
        lines = self.scanner.lines
        several = len(self.active) > 1 and self.assembler.tracker.undecided(lines, batch)
        return several or self.header_rows.undecided(lines, batch)

    def _joins(self, batch: Batch) -> bool:
        """Whether an unread line proves a format that is not active yet; it is, from that line on."""
        found = self.others.joins(batch)
        if found is None:
            return False
        form, place = found
        self.since[form.name] = place
        self.active.append(form)
        self.kinds += lines_of([form])
        return True

    def _overlooked(self, scanner: Scanner, batch: Batch) -> bool:
        """Whether what has been found since a chunk was scanned could read more of it."""
        new = [x for x in self.kinds[len(scanner.lines) :] if not x[1].under_header]
        return any(form.name in self.since for form, _ in new) or overlooked(batch, [line for _, line in new])

    def _grows(self, batch: Batch) -> bool:
        """Whether unread lines show new Lines of a family; these read from now on."""
        new = self.look.discovery.find(families_of([*self.common, *self.active]), batch)
        self.kinds += new
        return bool(new)

    # --- out --------------------------------------------------------------------------------------------------

    def _give(
        self, tables: dict[str, pa.Table], writer: ThreadPoolExecutor, writes: deque[Future[None]], all: bool = False
    ) -> None:
        """Pass rows on, many together: a row group of a few thousand rows is slow to write and to read."""
        for name, table in tables.items():
            if len(table):
                self.out.tables[name] = self.out.tables.get(name, 0) + len(table)
                self._waiting.setdefault(name, []).append(table)
        for name, parts in self._waiting.items():
            # A row of `runs` is a kilobyte: enough of them came together already.
            if parts and (all or name == "runs" or sum(map(len, parts)) >= _TOGETHER):
                rows = parts[0] if len(parts) == 1 else pa.concat_tables(parts).unify_dictionaries()
                self._waiting[name] = []
                writes.append(writer.submit(self._put, name, rows))

    def _put(self, name: str, rows: pa.Table) -> None:
        """Hand rows to the sink, with the ids of their runs: until now they have had only the runs' numbers."""
        prefix = self._hash.result()[:RUN_ID]
        place = rows.column_names.index("run")
        parts, numbers, ids = [], None, None
        for part in rows.column(place).chunks:
            # Almost always the same for all parts: of each by itself they would be runs times parts.
            if numbers is None or not part.dictionary.equals(numbers):
                numbers = part.dictionary
                ids = text_array(f"{prefix}-{n}" for n in numbers.to_pylist())
            parts.append(pa.DictionaryArray.from_arrays(part.indices, ids))
        self.sink.add(name, rows.set_column(place, rows.schema.field(place), pa.chunked_array(parts)))

    def _end(
        self, runs: list[RunState], writer: ThreadPoolExecutor, writes: deque[Future[None]], last: bool = False
    ) -> None:
        by_name = {f.name: f for f in [*self.common, *self.active]}
        many = self.assembler.tracker.count > 1
        for run in runs:
            row = run.row(by_name)
            if isinstance(self.label, str):
                row["label"] = f"{self.label}#{row['label'] or run.index}" if many else self.label
            row |= {"run": str(run.index), "log": self.source.name, "line": run.first_line, "part": 0}
            self._rows.append(row)
            for (status, shape), lines in sorted(run.shapes.items(), key=_first_line):
                self.out.lines[status] += lines.count
                self.out.lines["total"] += lines.count
                first = lines.first_line
                if status == "unread" and (self.out.unread is None or first < self.out.unread[0]):
                    self.out.unread = first, lines.sample
                self._lines.append((row["run"], first, 0, status, shape, lines.count, first, lines.sample))
        if last or len(self._rows) >= _BUFFERED:
            self._give({"runs": self._runs_table()}, writer, writes)
            self._rows = []
        if last or len(self._lines) >= _BUFFERED:
            self._give({"lines": table_of("lines", list(zip(*self._lines, strict=True)))}, writer, writes)
            self._lines = []

    @cached_property
    def _named(self) -> Mapping[int, str | None]:
        return self.label() if callable(self.label) else {}

    def _runs_table(self) -> pa.Table:
        """The runs that have ended, with what takes the log's hash."""
        digest = self._hash.result()
        for row in self._rows:
            row["log_sha256"] = digest
            row["label"] = self._named.get(row["index"]) or row["label"]
            told = {k: row[k] for k in ("run", "label", "index", "format")}
            self.out.runs.append(told | {"run": f"{digest[:RUN_ID]}-{row['run']}"})
        return table_of("runs", [[r.get(n) for r in self._rows] for n in arrow_schema("runs").names])


def _first_line(shape: tuple[Any, ShapeCount]) -> int:
    return shape[1].first_line


def _own(chunk: Chunk) -> Chunk:
    """The chunk with bytes of its own, to be scanned here."""
    return Chunk(bytearray(chunk.data), chunk.size, chunk.first_line, chunk.lines, chunk.returns, chunk.cut)
