"""Sheets of formats and lines: `perflog detect` and `perflog formats`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import astuple

from perflog.formats.model import Format
from perflog.formats.registry import known
from perflog.formats.sample_checks import sample_lines
from perflog.ingestion.detect import Detection
from perflog.ingestion.explained import ReaderDetection, lost_figures, read_line
from perflog.output.sheets import Quantity, Sheet, SheetColumn, pairs, sheet
from perflog.parsing.input.log_names import shown_name
from perflog.units import count

_MAX_PROOFS = 6  # lines shown that prove a format


def detection_sheets(name: str, detection: Detection | ReaderDetection, flat: bool) -> Iterator[Sheet]:
    """Return a sheet for each format of a log, with the lines that prove it. Flat sheets can be joined."""
    columns = (SheetColumn("line", number=True), SheetColumn("template"), SheetColumn("text"))
    if isinstance(detection, ReaderDetection):
        if flat:
            yield _flat_sheet(name, detection.format, 1.0, detection.proof)
        else:
            files = f", {count(detection.files, 'file')}, one for each rank" if detection.files > 1 else ""
            title = f"{shown_name(name)}: {detection.format}, {detection.title}{files}"
            yield Sheet("detected", columns, list(detection.proof), title)
        return
    for match in detection.formats:
        format, proof = match.format.name, match.proof
        if flat:
            yield _flat_sheet(name, format, match.share, proof)
            continue
        share = f"{match.share * 100:.0f} % of the examined lines"
        title = f"{shown_name(name)}: {format}, {share}, {count(len(proof), 'line shape')}"
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
    if lost := [astuple(each) for each in lost_figures(log_format)]:
        title = "figures of the samples that no table takes"
        yield sheet("figures", "line dropped# unread# because sample", lost, title)


def explanation_sheets(text: str, formats: Sequence[Format]) -> Iterator[Sheet]:
    """Return the templates that read a line, each with the values. Raises InputError with the nearest if none does."""
    for reading in read_line(text, formats):
        format, line = reading.format, reading.line
        if not line.read:
            title = f"known context of {format.name}: it is not read"
            yield pairs("line", [("text", line.template.text)], title)
            continue
        values: list[tuple[str, Any]] = [("text", line.template.text)]
        values += [("rank, by its label", reading.rank)] * (reading.rank is not None)
        for each in reading.values:
            name = f"{each.name} -> {each.column}" if each.column and each.column != each.name else each.name
            values.append((name, Quantity(each.value, each.unit) if each.unit else each.value))
        table = f", for table {line.table}" if line.table else ""
        yield pairs("line", values, f"line `{line.name}` of {format.name}{table}")
