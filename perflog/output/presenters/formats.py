"""Sheets of formats and lines: `perflog detect` and `perflog formats`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from msgspec import Struct

from perflog.errors import InputError, PerflogError
from perflog.formats.families.base import look_up
from perflog.formats.families.header_tables import HeaderTable
from perflog.formats.model import Format, Line
from perflog.formats.registry import known
from perflog.formats.sample_checks import sample_lines
from perflog.formats.template import caret
from perflog.ingestion.detect import Detection, detect
from perflog.ingestion.diagnose import nearest, nothing_recognised
from perflog.ingestion.job_logs import group_job_logs
from perflog.output.sheets import Quantity, Sheet, SheetColumn, pairs, sheet
from perflog.parsing.assemble.figure_account import figures_of_text
from perflog.parsing.input.chunks import SLACK, Chunk
from perflog.parsing.input.log_names import expand
from perflog.parsing.input.source import open_source
from perflog.parsing.match.discovery import TemplateDiscovery, families_of
from perflog.parsing.match.records import BLANK, Batch, Records, lines_of
from perflog.parsing.match.scanner import Scanner
from perflog.readers.registry import find_reader
from perflog.tables.schema import column_for
from perflog.units import PRINTED, UNITS, count

_MAX_PROOFS = 6  # lines shown that prove a format


class ReaderDetection(Struct, frozen=True):
    """A trace or database that a reader knows: its format, title and number of files, and what proves the format.

    A proof has a line number, a shape and a line, as the proof lines of a log have.
    """

    format: str
    title: str
    files: int
    proof: Sequence[tuple[int, str, str]]


def detect_logs(names: Sequence[str]) -> Iterator[tuple[str, Detection | ReaderDetection | PerflogError]]:
    """Return for each log the formats that its first lines show, or the error that it causes."""
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


def detection_sheets(name: str, detection: Detection | ReaderDetection, flat: bool) -> Iterator[Sheet]:
    """Return a sheet for each format of a log, with the lines that prove it. Flat sheets can be joined."""
    columns = (SheetColumn("line", number=True), SheetColumn("template"), SheetColumn("text"))
    if isinstance(detection, ReaderDetection):
        if flat:
            yield _flat_sheet(name, detection.format, 1.0, detection.proof)
        else:
            files = f", {count(detection.files, 'file')}, one for each rank" if detection.files > 1 else ""
            title = f"{name}: {detection.format}, {detection.title}{files}"
            yield Sheet("detected", columns, list(detection.proof), title)
        return
    for match in detection.formats:
        format, proof = match.format.name, match.proof
        if flat:
            yield _flat_sheet(name, format, match.share, proof)
            continue
        share = f"{match.share * 100:.0f} % of the examined lines"
        title = f"{name}: {format}, {share}, {count(len(proof), 'line shape')}"
        more = len(proof) - _MAX_PROOFS
        note = f"and {count(more, 'more line shape')}" if more > 0 else ""
        yield Sheet("detected", columns, proof[:_MAX_PROOFS], title, note)


def _flat_sheet(name: str, format: str, share: float, proof: Iterable[tuple[int, str, str]]) -> Sheet:
    return sheet("detected", "log format share# line# template text", [(name, format, share, *p) for p in proof])


def formats_sheet() -> Sheet:
    """Return all known formats."""
    rows = [(f.name, len(f.lines) + len(f.families), f.title, str(f.path)) for f in known().values()]
    return sheet("formats", "name lines# title file", rows)


def format_sheet(log_format: Format, print_format: str) -> Sheet:
    """Return the lines of a format. In text, each has its sample below; elsewhere the sample is a column."""
    rows: list[tuple[str | None, ...]] = []
    in_text = print_format == "text"
    for line in log_format.lines:
        name = line.name if line.role != "context" else None
        table = (line.table or "scope") if line.read else line.role
        if in_text:
            rows += [(name or "", table, line.template.text), *(("", "", s) for s in line.samples[:1])]
        else:
            rows.append((name, table, line.template.text, (*line.samples, None)[0]))
    for family in log_format.families:
        lines = family.lines(family.samples[0])
        cells = family.name, (lines[-1].table or "scope") if lines else "", family.text
        if in_text:
            rows += [cells, *(("", "", s) for s in family.samples[:1])]
        else:
            rows.append((*cells, family.samples[0]))
    columns = "name table text" if in_text else "name table text sample"
    title, note = f"{log_format.name}: {log_format.title}", f"{log_format.source}\n{log_format.path}"
    return sheet(log_format.name, columns, rows, title, note)


def checked_sheets(log_format: Format) -> Iterator[Sheet]:
    """Return what a valid format file contains, and the figures of its samples that no table takes."""
    read = [line for line in log_format.lines if line.read]
    samples = [x.samples for x in log_format.lines] + [x.samples for x in log_format.families]
    tables = sorted({line.table for line in (*read, *sample_lines(log_format)) if line.table})
    rows = [
        ("title", log_format.title or None),
        ("file", str(log_format.path)),
        ("lines", len(read)),
        ("context", len(log_format.lines) - len(read)),
        ("families", ", ".join(family.name for family in log_format.families) or None),
        ("samples", sum(map(len, samples))),
        ("tables", ", ".join(tables)),
        ("scopes", ", ".join(log_format.scopes)),
        ("label", log_format.label),
        ("fingerprints", ", ".join(fingerprint.name for fingerprint in log_format.fingerprints) or None),
        ("phases", ", ".join(phase.name for phase in log_format.phases) or None),
        ("quantities", ", ".join(log_format.quantities) or None),
        ("flops", log_format.flops),
        ("result", log_format.result),
    ]
    yield pairs("format", rows, f"{log_format.name} is fine")
    lost = list(_lost_figures(log_format))
    if lost:
        title = "figures of the samples that no table takes"
        yield sheet("figures", "line dropped# unread# because sample", lost, title)


def _lost_figures(log_format: Format) -> Iterator[tuple[str, int, int, str | None, str]]:
    """Yield the samples with figures that are dropped or unread: line, number of each, reason, sample."""
    family_samples = [(f.name, line, x) for f in log_format.families for x in f.samples for line in f.lines(x)]
    line_samples = [(line.name if line.read else "context", line, x) for line in log_format.lines for x in line.samples]
    for name, line, text in (*line_samples, *family_samples):
        if line.template.match(text) is not None:
            _, dropped, unread = figures_of_text(log_format, line, text)
            if dropped or unread:
                yield name, dropped, unread, "; ".join(dict.fromkeys(line.dropped.values())) or None, text
    for family in log_format.families:
        if isinstance(family, HeaderTable):
            yield from _lost_columns(family)


def _lost_columns(table: HeaderTable) -> Iterator[tuple[str, int, int, str | None, str]]:
    """Yield the columns in the samples of a table that no field reads, as `_lost_figures` does."""
    for text in table.samples:
        header = table.header(text)
        for name, column in zip(header.names, header.columns, strict=True) if header else ():
            if column is None:
                declared = look_up(table.dropped, name)
                yield table.name, int(declared is not None), int(declared is None), declared and declared[1], name


_GOOD_PART = 1 / 3  # of a line


def explanation_sheets(text: str, formats: Sequence[Format]) -> Iterator[Sheet]:
    """Return the templates that read a line, each with the values. Raises InputError with the nearest if none does.

    Generic formats apply to logs that no other format reads. So they read a line only if no other template reads a good
    part of it: such a line is a damaged one.
    """
    names = {log_format.name for log_format in formats}
    every = [*formats, *(log_format for log_format in known().values() if log_format.name not in names)]
    exact = [log_format for log_format in every if not log_format.generic or log_format.name in names]
    sheets = list(_matching_sheets(text, exact))
    near = None if sheets else nearest([text], exact)
    damaged = near is not None and near[3].position > len(os.fsencode(text)) * _GOOD_PART
    sheets = sheets or ([] if damaged else list(_matching_sheets(text, every)))
    if not sheets:
        help = "no template comes near it"
        if near is not None:
            _, log_format, line, miss = near
            help = f"The nearest is `{line.name}` of {log_format.name}:\n{caret(text, miss)}"
        raise InputError("no template reads this line", help=help)
    yield from sheets


def _matching_sheets(text: str, formats: Sequence[Format]) -> Iterator[Sheet]:
    """Yield the templates of formats that read a line, then those that know it as context."""
    raw = os.fsencode(text.rstrip("\r\n")) + b"\n"
    scanner, batch = _scanned(Chunk(bytearray(raw + bytes(SLACK)), len(raw), 1, raw.count(b"\n"), [], []), formats)
    matches = [
        (int(place), kind, i) for kind, records in batch.records.items() for i, place in enumerate(records.places)
    ]
    for _, kind, i in sorted(matches):
        log_format, line = scanner.lines[kind]
        if line.read:
            yield _record_sheet(log_format, line, batch.records[kind], i)
    for log_format, line in (
        scanner.lines[kind] for kind, places in batch.owner.items() if kind != BLANK and len(places)
    ):
        if not line.read:
            title = f"known context of {log_format.name}: it is not read"
            yield pairs("line", [("text", line.template.text)], title)


def _record_sheet(log_format: Format, line: Line, records: Records, i: int) -> Sheet:
    values: list[tuple[str, Any]] = [("text", line.template.text)]
    if records.labels is not None and int(records.labels[i]) >= 0:
        values.append(("rank, by its label", int(records.labels[i])))
    for field in line.template.fields:
        if field.is_dropped:
            continue
        value = records.columns[field.name][i]
        value = value.as_py() if isinstance(value, pa.Scalar) else value.item()
        unit = line.unit.get(field.name) or (UNITS.get(PRINTED[field.type][0]) if field.type in PRINTED else None)
        column = column_for(line.table, field.name) if line.table else None
        name = f"{field.name} -> {column.name}" if column and column.name != field.name else field.name
        values.append((name, Quantity(value * unit.factor, unit.base) if unit else value))
    table = f", for table {line.table}" if line.table else ""
    return pairs("line", values, f"line `{line.name}` of {log_format.name}{table}")


def _scanned(chunk: Chunk, formats: Iterable[Format]) -> tuple[Scanner, Batch]:
    """Return a chunk scanned with all formats and families, and the scanner that knows their lines."""
    formats = list(formats)
    families = families_of(formats)
    return TemplateDiscovery().scan(Scanner(lines_of(formats)), chunk, lambda *_: families)
