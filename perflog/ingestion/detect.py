"""Which formats a log is in, how sure that is, and which lines prove it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from perflog.formats.model import MIN_LETTERS, Family, Format, Line
from perflog.formats.registry import COMMON
from perflog.formats.template import Template
from perflog.parsing.input.chunks import Chunk
from perflog.parsing.match.discovery import TemplateDiscovery, families_of
from perflog.parsing.match.header_rows import HeaderRowReader, adder
from perflog.parsing.match.prefilter import LiteralPrefilter
from perflog.parsing.match.rank_labels import LABEL_TEMPLATES, strip_rank_labels
from perflog.parsing.match.records import BLANK, Batch, FormatLine, lines_of
from perflog.parsing.match.scanner import Scanner
from perflog.tables.row_order import PART_BITS


@dataclass(frozen=True)
class Detected:
    """A format found in the first lines of a log. `share`: part of the lines there, blank ones aside, that it accounts
    for; `proof`: (line number, template's name, text) of the first line of each telling shape.
    """

    format: Format
    lines: int
    share: float
    proof: tuple[tuple[int, str, str], ...]


@dataclass(frozen=True)
class Look:
    """What the first lines of a log tell: formats, best first; the rank label in front of its lines, if they have the
    same one; whether labels are the rule; whether several labelled ranks close their own steps; the batch of them,
    whose kinds are indices into `lines`; which of these families have shown; and what goes on finding such.
    """

    found: tuple[Detected, ...]
    label: Template | None
    all_labelled: bool
    per_rank: bool
    batch: Batch
    lines: tuple[FormatLine, ...]
    shown: tuple[FormatLine, ...]
    discovery: TemplateDiscovery


def telling(line: Line) -> bool:
    """Whether a match proves the format: a bare number, or one word, does not."""
    return line.read and line.template.letters >= MIN_LETTERS


class Proofs:
    """What can prove that a log is in one of several formats."""

    def __init__(self, formats: Iterable[Format]) -> None:
        self._all: list[tuple[Format, Line | Family]] = []
        for form in formats:
            self._all += [(form, x) for x in form.lines if telling(x)]
            self._all += [(form, x) for x in form.families if x.proves_format]
        self._needles = LiteralPrefilter(
            [x.template.required_literal if isinstance(x, Line) else x.required_literal for _, x in self._all]
        )

    def possible(self, data: bytes | bytearray, size: int) -> list[tuple[Format, Line | Family]]:
        """Those that a line of data[:size] may match. `data[size:size+SLACK]` must be readable."""
        return [self._all[k] for k in self._needles.candidates(data, size)]


def look(chunk: Chunk, formats: Iterable[Format]) -> Look:
    """Try all formats on the first lines of a log."""
    every = list(formats)
    possible = {form.name for form, _ in Proofs(every).possible(chunk.data, chunk.size)} | {COMMON}
    known = sorted((f for f in every if f.name in possible), key=lambda f: f.name != COMMON)
    label, all_labelled = _labels(chunk)
    scanner = Scanner(lines_of(known), all_labelled=all_labelled)
    batch = scanner.scan(chunk)
    shown: list[FormatLine] = []
    discovery = TemplateDiscovery()
    while True:
        proved = {scanner.lines[k][0].name for k in batch.records if telling(scanner.lines[k][1])}
        tried = [(f, x) for f, x in families_of(known) if x.proves_format or f.name in proved or f.name == COMMON]
        new = discovery.find(tried, batch)
        if not new:
            break
        shown += new
        scanner = Scanner([*scanner.lines, *new], all_labelled=all_labelled)
        batch = scanner.scan(chunk)
    lines = list(scanner.lines)
    batch, _ = HeaderRowReader(adder(lines)).read(lines, batch, {})
    found = _detected([f for f in known if f.name != COMMON], lines, batch)
    per_rank = _per_rank(lines, batch)
    return Look(found, label, all_labelled, per_rank, batch, tuple(lines), tuple(shown), discovery)


def _detected(formats: Iterable[Format], lines: Sequence[FormatLine], batch: Batch) -> tuple[Detected, ...]:
    """The formats that the lines of a batch prove, best first."""
    full = max(batch.chunk.lines - len(batch.owner.get(BLANK, ())), 1)
    found = []
    for form in formats:
        kinds = [k for k, (f, _) in enumerate(lines) if f is form and k in batch.owner]
        count = sum(len(batch.owner[k]) for k in kinds)
        proof = []
        for kind in kinds:
            line = lines[kind][1]
            if telling(line) and kind in batch.records:
                place = int(batch.records[kind].places[0])
                proof.append((place >> PART_BITS, line.name, batch.text(place)))
        if proof:
            found.append(Detected(form, count, count / full, tuple(sorted(proof))))
    found.sort(key=lambda d: -d.lines)
    return tuple(found)


def _labels(chunk: Chunk) -> tuple[Template | None, bool]:
    """Whether at least half of the first lines carry a rank label, and its template if they carry the same one."""
    lines = [x for x in bytes(chunk.data[: min(chunk.size, 1 << 16)]).split(b"\n")[:-1] if x.strip()]
    if not lines or sum(len(strip_rank_labels(x)) < len(x.rstrip(b" \t")) for x in lines) * 2 < len(lines):
        return None, False
    for template in LABEL_TEMPLATES:
        if sum(template.regex.match(x) is not None for x in lines) * 2 >= len(lines):
            return template, True
    return None, True


def _per_rank(lines: Sequence[FormatLine], batch: Batch) -> bool:
    for kind, records in batch.records.items():
        closes = lines[kind][1].closes
        if closes not in (None, "run") and records.labels is not None and len(np.unique(records.labels)) > 1:
            return True
    return False
