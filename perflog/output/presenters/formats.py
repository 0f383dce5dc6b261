"""What is shown of formats and of line shapes, as sheets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from perflog.errors import InputError, PerflogError
from perflog.formats.model import Format, Line
from perflog.formats.registry import known, sample_lines
from perflog.formats.template import caret
from perflog.ingestion.detect import Detection, detect
from perflog.ingestion.diagnose import nearest, nothing_recognised
from perflog.output.sheets import Column, Quantity, Sheet, pairs, sheet
from perflog.parsing.input.chunks import SLACK, Chunk
from perflog.parsing.input.log_names import expand
from perflog.parsing.input.source import open_source
from perflog.parsing.match.discovery import TemplateDiscovery, families_of
from perflog.parsing.match.records import BLANK, Batch, Records, lines_of
from perflog.parsing.match.scanner import Scanner
from perflog.readers.rank_files import group_rank_files
from perflog.readers.registry import find_reader
from perflog.tables.schema import column_for
from perflog.units import PRINTED, UNITS

_PROOFS = 6  # lines shown that prove a format


@dataclass(frozen=True)
class Seen:
    """A log that is no text: its format, what that is, how many files it has; place, shape and text that prove it."""

    format: str
    title: str
    files: int
    proof: Sequence[tuple[int, str, str]]


def detections(names: Sequence[str]) -> Iterator[tuple[str, Detection | Seen | PerflogError]]:
    """What the first lines of each log tell, or what is wrong with it."""
    every = list(known().values())
    for name in group_rank_files(expand(names)):
        try:
            with open_source(name) as source:
                if (reader := find_reader(source)) is not None:
                    yield str(name), Seen(reader.name, reader.title, len(source.parts), reader.proof(source))
                    continue
                seen = detect(source.head(), every)
                yield str(name), seen if seen.found else nothing_recognised(source, seen, every)
        except PerflogError as error:
            yield str(name), error


def detected(name: str, seen: Detection | Seen, flat: bool) -> Iterator[Sheet]:
    """The formats a log is in, and the lines that prove it."""
    columns = (Column("line", number=True), Column("template"), Column("text"))
    if isinstance(seen, Seen):
        if flat:
            rows = [(name, seen.format, 1.0, *proof) for proof in seen.proof]
            yield sheet("detected", "log format share# line# template text", rows)
        else:
            files = f", {_count(seen.files, 'file')}, one for each rank" if seen.files > 1 else ""
            yield Sheet("detected", columns, list(seen.proof), f"{name}: {seen.format}, {seen.title}{files}")
        return
    for found in seen.found:
        form = found.format
        if flat:
            rows = [(name, form.name, found.share, *proof) for proof in found.proof]
            yield sheet("detected", "log format share# line# template text", rows)
            continue
        share = f"{found.share * 100:.0f} % of the lines looked at"
        title = f"{name}: {form.name}, {share}, {_count(len(found.proof), 'line shape')} of it"
        more = len(found.proof) - _PROOFS
        note = f"and {_count(more, 'line shape')} more" if more > 0 else ""
        yield Sheet("detected", columns, found.proof[:_PROOFS], title, note)


def formats() -> Sheet:
    """All formats."""
    rows = [(f.name, len(f.lines) + len(f.families), f.title, str(f.path)) for f in known().values()]
    return sheet("formats", "name lines# title file", rows)


def of_format(form: Format, format: str) -> Sheet:
    """The lines of a format; in text each with its sample below."""
    rows: list[tuple[str | None, ...]] = []
    for x in form.lines:
        name, table = x.name if x.role != "context" else None, (x.table or "scope") if x.read else x.role
        if format == "text":
            rows += [(name or "", table, x.template.text), *(("", "", s) for s in x.samples[:1])]
        else:
            rows.append((name, table, x.template.text, (*x.samples, None)[0]))
    for family in form.families:
        lines = family.lines(family.samples[0])
        told = family.name, (lines[-1].table or "scope") if lines else "", family.text
        if format == "text":
            rows += [told, *(("", "", s) for s in family.samples[:1])]
        else:
            rows.append((*told, family.samples[0]))
    columns = "name table text" if format == "text" else "name table text sample"
    return sheet(form.name, columns, rows, f"{form.name}: {form.title}", f"{form.source}\n{form.path}")


def checked(form: Format) -> Sheet:
    """What a format file that is right contains."""
    read_, rest = [x for x in form.lines if x.read], [x for x in form.lines if not x.read]
    samples = [x.samples for x in form.lines] + [x.samples for x in form.families]
    tables = sorted({x.table for x in (*read_, *sample_lines(form)) if x.table})
    said = [
        ("title", form.title or None), ("file", str(form.path)), ("lines", len(read_)), ("context", len(rest)),
        ("families", ", ".join(x.name for x in form.families) or None),
        ("samples", sum(map(len, samples))), ("tables", ", ".join(tables)),
        ("scopes", ", ".join(form.scopes)), ("label", form.label),
        ("fingerprints", ", ".join(f.name for f in form.fingerprints) or None),
        ("phases", ", ".join(p.name for p in form.phases) or None),
        ("quantities", ", ".join(form.quantities) or None), ("flops", form.flops),
    ]  # fmt: skip
    return pairs("format", said, f"{form.name} is fine")


def explained(text: str, formats: Sequence[Format]) -> Iterator[Sheet]:
    """Which template reads a line, with its values; an error with the nearest one if none does."""
    every = [*formats, *(f for f in known().values() if f.name not in {x.name for x in formats})]
    raw = text.rstrip("\r\n").encode() + b"\n"
    scanner, batch = _scanned(Chunk(bytearray(raw + bytes(SLACK)), len(raw), 1, raw.count(b"\n"), [], []), every)
    found = [(int(at), kind, i) for kind, records in batch.records.items() for i, at in enumerate(records.places)]
    for _, kind, i in sorted(found):
        form, line = scanner.lines[kind]
        if line.read:
            yield _explained(form, line, batch.records[kind], i)
    context = [scanner.lines[k] for k, at in batch.owner.items() if k != BLANK and len(at)]
    for form, line in context:
        if not line.read:
            yield pairs("line", [("text", line.template.text)], f"known context of {form.name}: it is not read")
    if not found and not context:
        near = nearest([text], every)
        help = "no template comes near it"
        if near is not None:
            _, form, line, miss = near
            help = f"The nearest is `{line.name}` of {form.name}:\n{caret(text, miss)}"
        raise InputError("no template reads this line", help=help)


def _explained(form: Format, line: Line, records: Records, i: int) -> Sheet:
    values: list[tuple[str, Any]] = [("text", line.template.text)]
    if records.labels is not None and int(records.labels[i]) >= 0:
        values.append(("rank, by its label", int(records.labels[i])))
    for f in line.template.fields:
        if f.name == "_":
            continue
        value = records.columns[f.name][i]
        unit = line.unit.get(f.name) or (UNITS.get(PRINTED[f.type][0]) if f.type in PRINTED else None)
        col = column_for(line.table, f.name) if line.table else None
        name = f"{f.name} -> {col.name}" if col and col.name != f.name else f.name
        value = value.as_py() if isinstance(value, pa.Scalar) else value.item()
        values.append((name, Quantity(value * unit.factor, unit.base) if unit else value))
    goes = f", for table {line.table}" if line.table else ""
    return pairs("line", values, f"line `{line.name}` of {form.name}{goes}")


def _scanned(chunk: Chunk, formats: Iterable[Format]) -> tuple[Scanner, Batch]:
    """A chunk, read with all formats and all families."""
    formats = list(formats)
    families = families_of(formats)
    return TemplateDiscovery().scan(Scanner(lines_of(formats)), chunk, lambda *_: families)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
