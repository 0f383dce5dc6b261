"""Verifies a suggested file: it loads, each sample matches only its own entry, and perflog reads the log with it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
from msgspec import Struct, field

from perflog.arrays import Floats, Ints
from perflog.errors import FormatError
from perflog.files import temporary
from perflog.formats.loader.format_file import load
from perflog.formats.model import Format
from perflog.formats.template import Template
from perflog.ingestion.detect import Detection
from perflog.ingestion.late_formats import LateFormats
from perflog.ingestion.suggest import file_text, json_objects
from perflog.ingestion.suggest.headed_tables import TableDraft
from perflog.ingestion.suggest.json_objects import JsonDraft
from perflog.ingestion.suggest.line_draft import LineDraft
from perflog.ingestion.suggest.line_shapes import ShapeCounter
from perflog.ingestion.suggest.role_evidence import ROLES, Evidence, Series
from perflog.parsing.failures.reader import FailureReader
from perflog.parsing.input.source import Source
from perflog.parsing.match.discovery import TemplateDiscovery, families_of
from perflog.parsing.match.ordered.ordered_lines import OpenAtEnd, OrderedLines
from perflog.parsing.match.records import BLANK, Batch, FormatLine, Records, lines_of
from perflog.parsing.match.scanner import Scanner
from perflog.tables.row_order import PART_BITS

Matcher = Callable[[str], Template | None]
"""Returns the template that reads a line; None if the entry does not read it."""

Chosen = list[tuple[LineDraft, list[str]]]
"""Entries with their samples."""

SCOPES = ('scopes = ["run", "step"]',)
"""The scopes of a format file with step lines."""

_MOST_POSITIONS = 1000  # positions kept of each line that describes a run


class ReadCounts(Struct):
    """How many lines of a log the suggested format reads, other formats read, or nobody reads.

    Attributes:
        total: All lines.
        blank: Lines of whitespace.
        others: Lines that other formats read, and messages of failures.
        unread: Lines that no format reads.
        counts: Lines that each entry reads, by its name; by its template for a `[[context]]`.
        firsts: The line number of the first line of each entry.
        lasts: The line number of the last line of each entry.
        positions: The positions of the lines of each entry that describes a run.
        restarts: The pairs of positions between which the step number starts again.
        first_step: The number of the first step; None before it.
        last_step: Position and number of the last step.
        evidence: The numbers of the fields with roles that the log can disprove.
    """

    total: int = 0
    blank: int = 0
    others: int = 0
    unread: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    firsts: dict[str, int] = field(default_factory=dict)
    lasts: dict[str, int] = field(default_factory=dict)
    positions: dict[str, list[int]] = field(default_factory=dict)
    restarts: list[tuple[int, int]] = field(default_factory=list)
    first_step: int | None = None
    last_step: tuple[int, int] = (0, 0)
    evidence: Evidence = field(default_factory=dict)

    def starts_runs(self, name: str) -> bool:
        """Whether an entry reads lines before the first step and wherever steps start again, and nowhere else."""
        positions = self.positions.get(name, [])
        at_restarts = [sum(low < position < high for position in positions) for low, high in self.restarts]
        at_start = sum(position < self.restarts[0][0] for position in positions) if self.restarts else 0
        return bool(at_restarts) and all(at_restarts) and at_start > 0 and sum(at_restarts) + at_start == len(positions)

    def precedes_steps(self, name: str, step_lines: Sequence[str]) -> bool:
        """Whether the lines of an entry precede step lines, at least as many: then they belong to these steps."""
        closing = [x for x in step_lines if self.counts.get(x)]
        if not closing or name not in self.firsts:
            return False
        most = max(self.counts[x] for x in closing)
        first, last = min(self.firsts[x] for x in closing), max(self.lasts[x] for x in closing)
        return self.counts[name] >= most and self.firsts[name] < first and self.lasts[name] < last

    def add_step(self, position: int, number: int) -> None:
        """Note a step. Steps come in the order of the log."""
        first = self.first_step
        self.first_step = number if first is None else first
        if (
            first is not None
            and number <= first
            and number < self.last_step[1]
            and len(self.restarts) < _MOST_POSITIONS
        ):
            self.restarts.append((self.last_step[0], position))
        self.last_step = position, number


def scan(
    source: Source, formats: Sequence[Format], detection: Detection, late: LateFormats | None = None
) -> Iterator[tuple[list[FormatLine], Batch]]:
    """Scan the whole log. Yield each batch with the lines of the formats, and those that families have shown so far.

    Messages of failures are no unread lines: perflog reads them in any log.

    Args:
        source: The log.
        formats: The formats.
        detection: The result of format detection.
        late: Further formats. Each reads the log from the chunk on in which a line proves it, and is taken out of them.
    """
    discovery, active = TemplateDiscovery(), list(formats)
    shown = [(form, line) for form, line in detection.shown if form in formats and line.header_of is not None]
    scanner = Scanner([*lines_of(formats), *shown], detection.labels, opening=detection.opening)
    before = OpenAtEnd()
    failures, ordered_lines = FailureReader(), OrderedLines()
    with closing(source.chunks()) as chunks:
        for chunk in chunks:
            scanner, batch = discovery.scan(scanner, chunk, lambda *_: families_of(active))
            while late is not None and (proven := late.take_proven(batch)) is not None:
                active.append(proven[0])
                scanner = scanner.with_lines(lines_of([proven[0]]))
                scanner, batch = discovery.scan(scanner, chunk, lambda *_: families_of(active))
            batch, before = ordered_lines.read(scanner.lines, batch, before)
            yield scanner.lines, batch.with_failures(failures.feed(scanner.lines, batch))


def choose_disjoint(
    drafts: Iterable[LineDraft], formats: Sequence[Format]
) -> tuple[Chosen, list[tuple[LineDraft, str]]]:
    """Choose the entries that one file can hold, so that each sample matches one entry and no known format.

    Earlier drafts go first, so the most common lines should come first.

    Args:
        drafts: The drafts.
        formats: The known formats. If there are none, entries need not write samples back.

    Returns:
        The chosen entries with their samples, and the other drafts, each with the reason. A draft is in neither if
        another entry reads its samples.
    """
    chosen: list[tuple[LineDraft, Matcher, list[str]]] = []
    refused = []
    for line in drafts:
        matcher, samples = _matcher_and_samples(line, exact=bool(formats))
        if not samples:
            refused.append((line, "it cannot be written back exactly"))
            continue
        readers = {sample: _known_reader(sample, formats) for sample in samples}
        free = [sample for sample in samples if not readers[sample]]
        unique = [sample for sample in free if all(other(sample) is None for _, other, _ in chosen)]
        if len(free) == len(samples) and any(all(other(s) is not None for s in samples) for _, other, _ in chosen):
            continue  # another entry reads these lines
        samples_of_others = [[s for s in other_samples if matcher(s) is None] for _, _, other_samples in chosen]
        if not unique or not all(samples_of_others):
            refused.append((line, readers[samples[0]] if not free else "another entry reads it too"))
            continue
        for entry, remaining in zip(chosen, samples_of_others, strict=True):
            entry[2][:] = remaining
        chosen.append((line, matcher, unique))
    return [(line, samples) for line, _, samples in chosen], refused


def _known_reader(sample: str, formats: Sequence[Format]) -> str:
    """Return which line that proves a known format, generic ones aside, reads a sample; "" if none does.

    A line that proves no format is read only in logs that other lines prove to be in its format.
    """
    for form in (f for f in formats if not f.generic):
        for line in form.lines:
            if line.role != "body" and (line.is_telling or not line.read) and line.template.match(sample) is not None:
                return f"line `{line.name}` of {form.name} reads it"
        for family in form.families:
            if family.proves_format and family.lines(sample):
                return f"line `{family.name}` of {form.name} reads it"
    return ""


def _matcher_and_samples(line: LineDraft, exact: bool) -> tuple[Matcher, list[str]]:
    """Return the matcher of a draft, and the sample lines of its entry; no samples if the draft is of no use.

    A sample is a line that the draft reads and writes back byte for byte. If there is none, the spaces before its
    numbers are no padding: the draft is made loose, so that it reads and drops them, and tried again.

    Args:
        line: The draft.
        exact: Whether samples must be written back. If not, and no line is, lines that are only read are samples.
    """
    matcher = _matcher(line)
    samples = _samples(line, matcher)
    if not samples:
        line.loose = True
        matcher = _matcher(line)
        samples = _samples(line, matcher)
    if not samples and not exact:
        samples = _samples(line, matcher, exact=False)
    return matcher, samples


def _samples(line: LineDraft, matcher: Matcher, exact: bool = True) -> list[str]:
    """Return the first, the shortest and the longest of the lines that the entry reads, and writes back if `exact`."""
    templates = [(text, matcher(text)) for text in line.shape.lines]
    texts = [text for text, x in templates if x is not None and (not exact or _is_written_back(x, text))]
    return list(dict.fromkeys([texts[0], min(texts, key=len), max(texts, key=len)])) if texts else []


def _is_written_back(template: Template | None, text: str) -> bool:
    """Whether a template reads a line and writes it back identically. Dropped fields are not written back."""
    values = template.match(text) if template is not None else None
    if template is None or values is None:
        return False
    return any(f.is_dropped for f in template.fields) or template.render(values) == text


def _matcher(line: LineDraft) -> Matcher:
    """Return the matcher of an entry. If the entry does not load, it reads nothing."""
    try:
        if not isinstance(line, JsonDraft):
            template = Template(line.text)
            return lambda text: template if template.match(text) is not None else None
        lines_of = load_entries([(line, [next(iter(line.shape.lines))])]).families[0].lines
    except FormatError:
        return lambda _: None

    def match(text: str) -> Template | None:
        if (parts := json_objects.parts(text)) is not None and parts.key != line.key:
            return None  # the entry with a step is first and takes its objects
        return next((x.template for x in lines_of(text) if x.template.match(text) is not None), None)

    return match


def loads(table: TableDraft) -> bool:
    """Whether a file with this entry alone loads: its columns read the cells of its sample."""
    try:
        load_entries([(table, [table.block])])
    except FormatError:
        return False
    return True


def load_entries(entries: Chosen) -> Format:
    """Load a file that has these entries alone."""
    return load_text(file_text.file_text([], SCOPES, entries, []))


def load_text(text: str) -> Format:
    """Load a format file from a string."""
    with tempfile.TemporaryDirectory(dir=temporary.folder()) as folder:
        path = Path(folder) / "suggested.toml"
        path.write_text(text, encoding="utf-8")
        return load(path)


def count_lines(source: Source, formats: Sequence[Format], detection: Detection, unread: ShapeCounter) -> ReadCounts:
    """Read the log with formats and count its lines.

    Args:
        source: The log.
        formats: The formats; the last one is the suggested format.
        detection: The result of format detection.
        unread: Receives the shapes of the unread lines.
    """
    counts = ReadCounts()
    for lines, batch in scan(source, formats, detection):
        counts.total += batch.chunk.lines
        counts.unread += len(batch.unread)
        for kind, positions in batch.owner.items():
            form, line = lines[kind] if kind >= 0 else (None, None)
            if kind == BLANK:
                counts.blank += len(positions)
            elif line is None or form is not formats[-1]:
                counts.others += len(positions)
            elif len(positions) and line.header_of is None:
                counts.counts[line.name] = counts.counts.get(line.name, 0) + len(positions)
                counts.firsts.setdefault(line.name, int(positions[0]) >> PART_BITS)
                counts.lasts[line.name] = max(counts.lasts.get(line.name, 0), int(positions[-1]) >> PART_BITS)
        _add_steps_and_runs(counts, lines, batch, formats[-1])
        unread.add(batch)
    return counts


def _add_steps_and_runs(counts: ReadCounts, lines: Sequence[FormatLine], batch: Batch, form: Format) -> None:
    """Note the steps of a batch, and the positions of lines that describe a run."""
    steps: list[tuple[int, int]] = []
    for kind, records in batch.records.items():
        owner, line = lines[kind]
        if owner is form and line.table == "runs":
            positions = counts.positions.setdefault(line.name, [])
            positions += records.positions[: _MOST_POSITIONS + 1 - len(positions)].tolist()
        elif owner is form and line.closes and "step" in records.columns:
            steps += zip(records.positions.tolist(), records.columns["step"].tolist(), strict=True)
    for position, number in sorted(steps):
        counts.add_step(position, number)
    _add_evidence(counts.evidence, [(lines[k][1].name, r) for k, r in batch.records.items() if lines[k][0] is form])


def _add_evidence(evidence: Evidence, records: Sequence[tuple[str, Records]]) -> None:
    """Add the numbers of a batch to the series of their fields, in log order."""
    parts: dict[tuple[str, str], list[tuple[Ints, Floats, Ints]]] = {}
    for name, found in records:
        ranks = found.columns.get("rank")
        ranks = ranks if isinstance(ranks, np.ndarray) else found.labels
        ranks = np.full(len(found), -1, np.int64) if ranks is None else ranks.astype(np.int64)
        for role in ROLES:
            values = found.columns.get(role)
            if isinstance(values, np.ndarray) and len(values):
                same = np.full(len(found), -1, np.int64) if role == "rank" else ranks
                part = (found.positions, values.astype(np.float64), same)
                parts.setdefault((name, role), []).append(part)
    for key, arrays in parts.items():
        positions, values, ranks = (np.concatenate(arrays_of_kind) for arrays_of_kind in zip(*arrays, strict=True))
        order = np.argsort(positions, kind="stable")
        evidence.setdefault(key, Series()).add(values[order], ranks[order], positions[order])
