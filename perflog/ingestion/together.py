"""Reads many small logs that look alike together, as one chunk: the work of a log is then the work of its lines.

The logs of a campaign come from one program, so they show the same formats and the same lines. Where they do not, or
where what follows depends on the whole log, each is read alone. The tables are the same in both cases.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perflog.arrays import Ints
from perflog.formats.registry import COMMON, known
from perflog.ingestion.detect import Detection, detect_together
from perflog.ingestion.ended_runs import EndedRuns, lines_table, runs_table
from perflog.ingestion.joined_logs import JoinedLogs, UnlikeLogsError
from perflog.ingestion.late_formats import LateFormats
from perflog.parsing.assemble.assembler import Assembler, RereadRequired
from perflog.parsing.match.discovery import families_of
from perflog.parsing.match.ordered.block_bodies import read_bodies
from perflog.parsing.match.ordered.header_rows import HeaderRowReader
from perflog.parsing.match.ordered.indented_headings import with_headings
from perflog.parsing.match.ordered.setting_blocks import without_settings
from perflog.parsing.match.records import Batch, FormatLine, lines_of
from perflog.parsing.match.scanner import Scanner
from perflog.readers.registry import find_reader
from perflog.tables.arrow import number_array, numbers_of, text_array, with_column, without_chunks
from perflog.tables.row_order import in_order
from perflog.tables.sink import IngestResult, RunLabels, Sink, run_id

if TYPE_CHECKING:
    from perflog.formats.model import Format
    from perflog.parsing.input.chunks import Chunk
    from perflog.parsing.input.source import Source

_LEAST = 3  # logs for which joining them pays
_MOST_BYTES = 4 << 20  # of logs that are joined
_LARGEST = 1 << 19  # bytes of a log that is joined with others
_LINES_OF_LOG = ("line", "last_line", "step_time_from")  # columns of tables other than `runs` and `lines`


def read_together(sources: Sequence[Source], labels: Sequence[RunLabels], sink: Sink) -> list[IngestResult | None]:
    """Read the logs that look alike into a sink, together.

    Args:
        sources: The logs. No two have the same bytes.
        labels: The label of the runs of each log.
        sink: Takes the rows of all logs.

    Returns:
        The result of each log; None for a log that must be read alone.
    """
    results: list[IngestResult | None] = [None] * len(sources)
    for positions, heads in _candidates(sources):
        _read_alike(positions, heads, sources, labels, sink, results)
    return results


def _candidates(sources: Sequence[Source]) -> Iterator[tuple[list[int], list[Chunk]]]:
    """Yield the small logs of lines in groups that are not too large, with their lines."""
    positions: list[int] = []
    heads: list[Chunk] = []
    room = _MOST_BYTES
    for position, source in enumerate(sources):
        if source.size() > _LARGEST or len(source.parts) > 1 or find_reader(source) is not None:
            continue
        head = source.head()
        if not head.is_last or not head.size or source.warnings:
            continue
        if head.size > room:
            yield positions, heads
            positions, heads, room = [], [], _MOST_BYTES
        positions.append(position)
        heads.append(head)
        room -= head.size
    yield positions, heads


def _read_alike(
    positions: Sequence[int],
    heads: Sequence[Chunk],
    sources: Sequence[Source],
    labels: Sequence[RunLabels],
    sink: Sink,
    results: list[IngestResult | None],
) -> None:
    """Read the logs together that look alike. Fill in their results."""
    if len(heads) < _LEAST:
        return
    try:
        reading = _Together(JoinedLogs.of(heads), [os.path.basename(sources[position].name) for position in positions])
    except UnlikeLogsError as unlike:
        for group in unlike.groups:  # each is smaller
            group_logs = [positions[k] for k in group], [heads[k] for k in group]
            _read_alike(*group_logs, sources, labels, sink, results)
        return
    log_labels = [(sources[position], labels[position]) for position in positions]
    for position, result in zip(positions, reading.write(log_labels, sink), strict=True):
        results[position] = result


class _Together:
    """Several logs, read as one chunk.

    Raises:
        UnlikeLogsError: They do not look alike.
    """

    def __init__(self, logs: JoinedLogs, files: Sequence[str]) -> None:
        every = known()
        common = [every[COMMON]] if COMMON in every else []
        candidates = [form for form in every.values() if form.name != COMMON]
        self._logs = logs
        detection = detect_together(logs, [*common, *candidates])
        active = [found.format for found in detection.formats]
        self._formats: dict[str, Format] = {form.name: form for form in [*common, *active]}
        self._active = [form.name for form in active]
        lines, batch = self._scanned(detection, [*common, *active])
        gives_rows = any(found.gives_rows for found in detection.formats)
        late = LateFormats(f for f in candidates if f not in active and not (gives_rows and f.generic))
        discovery = detection.discovery
        if (
            late.take_proven(batch) is not None
            or discovery.find(families_of([*common, *active]), batch)
            or discovery.warnings
            or not any(lines[kind][1].read for kind in batch.records)
        ):
            raise UnlikeLogsError
        assembler = Assembler(files=files, logs=logs.positions.tolist())
        assembler.feed(lines, logs.without_gaps(batch))
        try:
            tables, self._runs = assembler.finish(lines)
        except RereadRequired as change:
            raise UnlikeLogsError from change
        self._tables = {name: without_chunks(rows.unify_dictionaries()) for name, rows in tables.items() if len(rows)}
        self._log_of_run = np.array([run.log for run in self._runs])
        logs_with_rows = [np.unique(_logs_of(rows, self._log_of_run)) for rows in self._tables.values()]
        if len(np.unique(np.concatenate([self._log_of_run[:0], *logs_with_rows]))) < len(logs.heads):
            raise UnlikeLogsError  # a log that gives no rows may be an error

    def _scanned(self, detection: Detection, formats: Sequence[Format]) -> tuple[Sequence[FormatLine], Batch]:
        """Return the lines of the formats, and the logs as these read them."""
        shown = [line for line in detection.shown if line[0] in formats]
        scanner = Scanner([*lines_of(formats), *shown], detection.labels, opening=detection.opening)
        batch = detection.scanned_as(scanner) or scanner.scan(self._logs.chunk)
        with_rows, _ = HeaderRowReader().read(scanner.lines, batch, {})
        is_in_order = with_rows is not batch or without_settings(scanner.lines, batch)[0] is not batch
        is_in_order |= with_headings(scanner.lines, batch) is not batch
        if is_in_order:  # only in one log is it known where a table or a block ends
            raise UnlikeLogsError
        if any(scanner.lines[kind][1].bar for kind in batch.records):
            raise UnlikeLogsError
        batch, _ = read_bodies(scanner.lines, batch, {}, batch.rows(self._logs.positions[1:]).tolist())
        self._logs.check([self._logs.counts(records.positions) > 0 for records in batch.records.values()])
        return scanner.lines, batch

    def write(self, logs: Sequence[tuple[Source, RunLabels]], sink: Sink) -> list[IngestResult]:
        """Write the rows of all logs, each given with the label of its runs. Return the results of the logs."""
        results = [IngestResult(source.name, source.digest(), list(self._active)) for source, _ in logs]
        runs_of_log = np.bincount(self._log_of_run, minlength=len(logs))
        runs_before = (np.cumsum(runs_of_log) - runs_of_log).tolist()
        ended = [
            EndedRuns(result, label, before, first - 1)
            for result, (_, label), before, first in zip(
                results, logs, runs_before, self._logs.first_lines.tolist(), strict=True
            )
        ]
        for run in self._runs:
            ended[run.log].add(run, self._formats, many=runs_of_log.item(run.log) > 1)
        runs = [ended_runs.take_runs(result.sha256) for ended_runs, result in zip(ended, results, strict=True)]
        ids = [run_id(results[run.log].sha256, run.index - runs_before[run.log]) for run in self._runs]
        tables = {name: self._with_lines_of_logs(rows) for name, rows in self._tables.items()} | {
            "runs": runs_table([row for rows in runs for row in rows]),
            "lines": lines_table([row for ended_runs in ended for row in ended_runs.take_lines()]),
        }
        for name, rows in tables.items():
            if len(rows):
                words = rows["run"].chunk(0)
                run_of_word = [int(number) - 1 for number in words.dictionary.to_pylist()]
                words_of_ids = text_array(ids[run] for run in run_of_word)
                run_rows = with_column(rows, "run", pa.DictionaryArray.from_arrays(words.indices, words_of_ids))
                sink.add(name, in_order(run_rows, ids))  # who wants one run reads few row groups
                counts = np.bincount(_logs_of(rows, self._log_of_run), minlength=len(logs))
                for log in np.flatnonzero(counts).tolist():
                    results[log].tables[name] = counts.item(log)
        return results

    def _with_lines_of_logs(self, rows: pa.Table) -> pa.Table:
        """Return rows with the numbers of the lines in their logs, instead of the numbers in the chunk."""
        before = number_array(self._logs.first_lines[_logs_of(rows, self._log_of_run)] - 1)
        for name in _LINES_OF_LOG:
            if name in rows.column_names:
                rows = with_column(rows, name, pc.subtract(rows[name].chunk(0), before))
        return rows


def _logs_of(rows: pa.Table, log_of_run: Ints) -> Ints:
    """Return the index of the log of each row. Column `run` holds numbers of runs from 1."""
    words = rows["run"].chunk(0)
    run_of_word = np.array([int(number) - 1 for number in words.dictionary.to_pylist()], np.int64)
    logs: Ints = log_of_run[run_of_word][numbers_of(words.indices)]
    return logs
