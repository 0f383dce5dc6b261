"""What is shown of formats and of line shapes, as sheets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from perflog.batch import BLANK, PART_BITS, Batch, Records, unread_shapes
from perflog.chunks import SLACK, Chunk
from perflog.declared import Format, Line
from perflog.detect import Look, look
from perflog.errors import InputError, PerflogError
from perflog.formats import known, shown
from perflog.grown import Grown, families_of
from perflog.log import read
from perflog.names import expand
from perflog.nearest import nearest, nothing_recognised
from perflog.report import Column, Quantity, Sheet, pairs, sheet
from perflog.scan import Scanner, lines_of
from perflog.schema import column
from perflog.source import open_source
from perflog.template import caret
from perflog.units import UNITS

HEAD = 1 << 20  # bytes of an unknown log whose shapes are counted
_PROOFS = 6  # lines shown that prove a format


def looks(names: Sequence[str]) -> Iterator[tuple[str, Look | PerflogError]]:
    """What the first lines of each log tell, or what is wrong with it."""
    every = list(known().values())
    for name in expand(names):
        try:
            with open_source(name) as source:
                seen = look(source.head(), every)
                yield name, seen if seen.found else nothing_recognised(source, seen, every)
        except PerflogError as error:
            yield name, error


def detected(name: str, seen: Look, flat: bool) -> Iterator[Sheet]:
    """The formats a log is in, and the lines that prove it."""
    columns = (Column("line", number=True), Column("template"), Column("text"))
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
    tables = sorted({x.table for x in (*read_, *shown(form)) if x.table})
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


def shapes(name: str, formats: Sequence[Format], limit: int) -> Sheet:
    """The commonest line shapes of a log, also of one in which nothing is recognised."""
    with open_source(name) as source:
        seen = look(source.head(HEAD), formats or known().values())
        if not seen.batch.chunk.size:
            raise InputError("the log is empty", name)
        if not seen.found:
            return _shapes(_head(seen), limit, f"in the first {HEAD >> 20} MiB")
    table = read(name, format=[str(f.path) for f in formats] or None).arrow("lines").to_pylist()
    return _shapes(((x["status"], x["shape"], x["count"], x["first_line"]) for x in table), limit, "")


def _head(seen: Look) -> Iterator[tuple[str, str, int, int]]:
    batch = seen.batch
    for kind, at in batch.owner.items():
        if len(at):
            line = None if kind == BLANK else seen.lines[kind][1]
            status = "read" if line and line.read else "context"
            yield status, line.template.text if line else "", len(at), int(at[0]) >> PART_BITS
    names, codes = unread_shapes(batch)
    for place, code in zip(batch.unread.tolist(), codes.tolist(), strict=True):
        yield "unread", names[code], 1, place >> PART_BITS


def _shapes(found: Iterable[tuple[str, str, int, int]], limit: int, of: str) -> Sheet:
    known: dict[tuple[str, str], list[int]] = {}
    for status, shape, count, line in found:
        entry = known.setdefault((status, shape), [0, line])
        entry[0] += count
        entry[1] = min(entry[1], line)
    rows = [(count, status, line, shape or "(blank)") for (status, shape), (count, line) in known.items()]
    rows.sort(key=lambda row: (-row[0], row[2]))
    note = f"{len(rows) - limit} more shapes: --limit 0 shows all" if limit and len(rows) > limit else ""
    return sheet("shapes", "count# status first_line# shape", rows[: limit or None], note=f"{note}\n{of}".strip())


def explained(text: str, formats: Sequence[Format]) -> Iterator[Sheet]:
    """Which template reads a line, with its values; an error with the nearest one if none does."""
    every = [*formats, *(f for f in known().values() if f.name not in {x.name for x in formats})]
    raw = text.rstrip("\r\n").encode() + b"\n"
    scanner, batch = _scanned(Chunk(bytearray(raw + bytes(SLACK)), len(raw), 1, raw.count(b"\n"), [], []), every)
    found = [(int(at), kind, i) for kind, records in batch.records.items() for i, at in enumerate(records.at)]
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
    if records.label is not None and int(records.label[i]) >= 0:
        values.append(("rank, by its label", int(records.label[i])))
    for f in line.template.fields:
        if f.name == "_":
            continue
        value = records.columns[f.name][i]
        unit = line.unit.get(f.name) or (UNITS["s"] if f.type == "t" else None)
        col = column(line.table, f.name) if line.table else None
        name = f"{f.name} -> {col.name}" if col and col.name != f.name else f.name
        value = value.as_py() if isinstance(value, pa.Scalar) else value.item()
        values.append((name, Quantity(value * unit.factor, unit.base) if unit else value))
    goes = f", for table {line.table}" if line.table else ""
    return pairs("line", values, f"line `{line.name}` of {form.name}{goes}")


def _scanned(chunk: Chunk, formats: Iterable[Format]) -> tuple[Scanner, Batch]:
    """A chunk, read with all formats and all families."""
    formats = list(formats)
    scanner = Scanner(lines_of(formats))
    batch = scanner.scan(chunk)
    grown = Grown()
    while new := grown.find(families_of(formats), batch):
        scanner = Scanner([*scanner.lines, *new])
        batch = scanner.scan(chunk)
    return scanner, batch


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
