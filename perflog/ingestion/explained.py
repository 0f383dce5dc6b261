"""What formats read of logs and lines, for a person who asks: `perflog detect`, `formats check`, `formats explain`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from msgspec import Struct

from perflog.errors import InputError, PerflogError
from perflog.formats.families.base import look_up
from perflog.formats.families.header_tables import HeaderTable
from perflog.formats.model import Format, Line
from perflog.formats.registry import known
from perflog.formats.template import caret
from perflog.ingestion.detect import Detection, detect
from perflog.ingestion.job_logs import group_job_logs
from perflog.ingestion.unrecognised import nearest, nothing_recognised
from perflog.parsing.assemble.runs.figure_account import figures_of_text
from perflog.parsing.input.chunks import SLACK, Chunk
from perflog.parsing.input.log_names import expand
from perflog.parsing.input.source import open_source
from perflog.parsing.match.discovery import TemplateDiscovery, families_of
from perflog.parsing.match.records import BLANK, Batch, Records, lines_of
from perflog.parsing.match.scanner import Scanner
from perflog.readers.registry import find_reader
from perflog.tables.schema import column_for
from perflog.units import PRINTED, UNITS

_GOOD_PART = 1 / 3  # of a line


# --- the format of a log ------------------------------------------------------------------------------------------


class ReaderDetection(Struct, frozen=True):
    """A trace or database that a reader knows: its format, title and number of files, and what proves the format.

    A proof has a line number, a shape and a line, as the proof lines of a log have.
    """

    format: str
    title: str
    files: int
    proof: Sequence[tuple[int, str, str]]


def detect_logs(names: Sequence[str]) -> Iterator[tuple[str, Detection | ReaderDetection | PerflogError]]:
    """Yield for each log the formats that its first lines show, or the error that it causes."""
    formats = list(known().values())
    for name in group_job_logs(expand(names)).names:
        try:
            with open_source(name) as source:
                if (reader := find_reader(source)) is not None:
                    yield str(name), ReaderDetection(reader.name, reader.title, len(source.parts), reader.proof(source))
                    continue
                detection = detect(source.head(), formats)
                error = None if detection.formats else nothing_recognised(source, detection, formats)
                yield str(name), error or detection
        except PerflogError as error:
            yield str(name), error


# --- the numbers of samples ---------------------------------------------------------------------------------------


class LostFigures(Struct, frozen=True):
    """Numbers of a sample that no table takes.

    Attributes:
        line: Name of the line or family.
        dropped: How many are dropped, by declaration.
        unread: How many are unread.
        reason: The declared reasons; None if there is none.
        sample: The sample, or the column of a table.
    """

    line: str
    dropped: int
    unread: int
    reason: str | None
    sample: str


def lost_figures(log_format: Format) -> Iterator[LostFigures]:
    """Yield the samples of a format with numbers that are dropped or unread."""
    family_samples = [(f.name, line, x) for f in log_format.families for x in f.samples for line in f.lines(x)]
    line_samples = [(line.name if line.read else "context", line, x) for line in log_format.lines for x in line.samples]
    for name, line, text in (*line_samples, *family_samples):
        if line.template.match(text) is not None:
            _, dropped, unread = figures_of_text(log_format, line, text)
            if dropped or unread:
                reason = "; ".join(dict.fromkeys(line.dropped.values())) or None
                yield LostFigures(name, dropped, unread, reason, text)
    for family in log_format.families:
        if isinstance(family, HeaderTable):
            yield from _lost_columns(family)


def _lost_columns(table: HeaderTable) -> Iterator[LostFigures]:
    """Yield the columns in the samples of a table that no field reads."""
    for text in table.samples:
        header = table.header(text)
        for name, column in zip(header.names, header.columns, strict=True) if header else ():
            if column is None:
                declared = look_up(table.dropped, name)
                reason = declared and declared[1]
                yield LostFigures(table.name, int(declared is not None), int(declared is None), reason, name)


# --- the templates of a line --------------------------------------------------------------------------------------


class FieldValue(Struct, frozen=True):
    """A value that a template reads: the name of the field, the column that takes it, and the base unit."""

    name: str
    column: str | None
    value: Any
    unit: str = ""


class LineReading(Struct, frozen=True):
    """How a template reads a line: the format, the line of the format, the rank of its label, and the values."""

    format: Format
    line: Line
    rank: int | None = None
    values: tuple[FieldValue, ...] = ()


def read_line(text: str, formats: Sequence[Format]) -> list[LineReading]:
    """Return the templates that read a line, then the templates that know it as context.

    Generic formats apply to logs that no other format reads. So they read a line only if no other template reads a good
    part of it: such a line is a damaged one.

    Raises:
        InputError: No template reads it; the help names the nearest.
    """
    names = {log_format.name for log_format in formats}
    every = [*formats, *(log_format for log_format in known().values() if log_format.name not in names)]
    exact = [log_format for log_format in every if not log_format.generic or log_format.name in names]
    if readings := list(_readings(text, exact)):
        return readings
    near = nearest([text], exact)
    is_damaged = near is not None and near[3].position > len(os.fsencode(text)) * _GOOD_PART
    if readings := [] if is_damaged else list(_readings(text, every)):
        return readings
    help = "no template comes near it"
    if near is not None:
        _, log_format, line, miss = near
        help = f"The nearest is `{line.name}` of {log_format.name}:\n{caret(text, miss)}"
    raise InputError("no template reads this line", help=help)


def _readings(text: str, formats: Sequence[Format]) -> Iterator[LineReading]:
    raw = os.fsencode(text.rstrip("\r\n")) + b"\n"
    scanner, batch = _scanned(Chunk(bytearray(raw + bytes(SLACK)), len(raw), 1, raw.count(b"\n"), [], []), formats)
    matches = [
        (int(position), kind, i)
        for kind, records in batch.records.items()
        for i, position in enumerate(records.positions)
    ]
    for _, kind, i in sorted(matches):
        log_format, line = scanner.lines[kind]
        if line.read:
            yield _of_record(log_format, line, batch.records[kind], i)
    for kind, positions in batch.owner.items():
        if kind != BLANK and len(positions) and not scanner.lines[kind][1].read:
            yield LineReading(*scanner.lines[kind])


def _of_record(log_format: Format, line: Line, records: Records, i: int) -> LineReading:
    """How a line reads the record `i`."""
    values = []
    for field in line.template.fields:
        if field.is_dropped:
            continue
        value = records.columns[field.name][i]
        value = value.as_py() if isinstance(value, pa.Scalar) else value.item()
        unit = line.unit.get(field.name) or (UNITS.get(PRINTED[field.type][0]) if field.type in PRINTED else None)
        column = column_for(line.table, field.name)
        name = column.name if column else None
        values.append(FieldValue(field.name, name, *((value * unit.factor, unit.base) if unit else (value,))))
    rank = -1 if records.labels is None else int(records.labels[i])
    return LineReading(log_format, line, rank if rank >= 0 else None, tuple(values))


def _scanned(chunk: Chunk, formats: Sequence[Format]) -> tuple[Scanner, Batch]:
    """Return a chunk scanned with all formats and families, and the scanner that knows their lines."""
    families = families_of(formats)
    return TemplateDiscovery().scan(Scanner(lines_of(formats)), chunk, lambda *_: families)
