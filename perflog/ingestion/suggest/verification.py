"""The proof of a suggestion: it loads, its samples are its own, and the log is read with it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from perflog.errors import FormatError
from perflog.formats.loader.format_file import load
from perflog.formats.model import Format
from perflog.formats.registry import known
from perflog.formats.template import Template
from perflog.ingestion.detect import Detection
from perflog.ingestion.suggest import file_text, json_objects
from perflog.ingestion.suggest.json_objects import JsonDraft
from perflog.ingestion.suggest.key_value import KeyValueDraft
from perflog.ingestion.suggest.line_draft import LineDraft
from perflog.ingestion.suggest.line_shapes import ShapeCounter
from perflog.parsing.input.source import Source
from perflog.parsing.match.discovery import TemplateDiscovery, families_of
from perflog.parsing.match.records import BLANK, Batch, FormatLine, lines_of
from perflog.parsing.match.scanner import Scanner
from perflog.tables.row_order import PART_BITS

Reads = Callable[[str], Template | None]
_BEGINS = 1000  # places that are remembered of each line that describes a run
Chosen = list[tuple[LineDraft, list[str]]]
"""Lines with the samples they are shown with."""


@dataclass
class ReadCounts:
    """What a log's lines are to a set of formats: read or context by line of the last of them, by others, unread."""

    total: int = 0
    blank: int = 0
    others: int = 0
    unread: int = 0
    counts: dict[str, int] = field(default_factory=dict)  # by the line's name, a context's text
    firsts: dict[str, int] = field(default_factory=dict)
    places: dict[str, list[int]] = field(default_factory=dict)  # of lines that describe a run
    anew: list[tuple[int, int]] = field(default_factory=list)  # places between which the counter of steps begins anew
    first_step: int | None = None
    last: tuple[int, int] = (0, 0)  # place and number of the last step

    def begins(self, name: str) -> bool:
        """Whether a line stands wherever steps begin anew, and nowhere else."""
        at = [sum(low < place < high for place in self.places.get(name, ())) for low, high in self.anew]
        early = sum(place < self.anew[0][0] for place in self.places.get(name, ())) if self.anew else 0
        return bool(at) and all(at) and early > 0 and sum(at) + early == len(self.places[name])

    def step(self, place: int, number: int) -> None:
        """Steps are printed in the order of the log."""
        first = self.first_step
        self.first_step = number if first is None else first
        if first is not None and number <= first and number < self.last[1] and len(self.anew) < _BEGINS:
            self.anew.append((self.last[0], place))
        self.last = place, number


def batches(source: Source, formats: Sequence[Format], seen: Detection) -> Iterator[tuple[list[FormatLine], Batch]]:
    """The whole log, scanned with these formats and what their families show: the lines so far, and each batch."""
    discovery, families = TemplateDiscovery(), families_of(formats)
    scanner = Scanner(lines_of(formats), seen.label, all_labelled=seen.all_labelled)
    with closing(source.chunks()) as chunks:
        for chunk in chunks:
            scanner, batch = discovery.scan(scanner, chunk, lambda *_: families)
            yield scanner.lines, batch


def disjoint(drafts: Iterable[LineDraft]) -> tuple[Chosen, list[tuple[LineDraft, str]]]:
    """The lines that can stand in one file beside all known formats, the commonest first, with their samples; and
    those that cannot, with the reason.
    """
    chosen: list[tuple[LineDraft, Reads, list[str]]] = []
    left = []
    for line in drafts:
        reads, shown = _shown(line)
        if not shown:
            left.append((line, "it cannot be written back"))
            continue
        taken = {s: _taken(s) for s in shown}
        free = [s for s in shown if not taken[s]]
        mine = [s for s in free if all(other(s) is None for _, other, _ in chosen)]
        if not any(taken.values()) and any(all(other(s) is not None for s in shown) for _, other, _ in chosen):
            continue  # it is read with the other line's
        theirs = [[s for s in samples if reads(s) is None] for _, _, samples in chosen]
        if not mine or not all(theirs):
            left.append((line, taken[shown[0]] if not free else "it looks like another line"))
            continue
        for entry, rest in zip(chosen, theirs, strict=True):
            entry[2][:] = rest
        chosen.append((line, reads, mine))
    return [(line, shown) for line, _, shown in chosen], left


def _taken(sample: str) -> str:
    """Which line of a known format reads a sample; "" if none does."""
    for form in known().values():
        for x in form.lines:
            if x.role != "body" and x.template.match(sample) is not None:
                return f"line `{x.name}` of {form.name} reads it"
        for family in form.families:
            if family.proves_format and family.lines(sample):
                return f"line `{family.name}` of {form.name} reads it"
    return ""


def _shown(line: LineDraft) -> tuple[Reads, list[str]]:
    """What reads a line, and its samples: of those written back the first, the shortest, the longest."""
    reads, shown = _samples(line)
    if not shown:
        line.loose = True  # blanks that are no padding
        reads, shown = _samples(line)
    return reads, shown


def _samples(line: LineDraft) -> tuple[Reads, list[str]]:
    reads = _reads(line)
    fit = [text for text in line.shape.lines if _written_back(reads(text), text)]
    shown = dict.fromkeys([fit[0], min(fit, key=len), max(fit, key=len)]) if fit else {}
    return reads, list(shown)


def _written_back(template: Template | None, text: str) -> bool:
    values = template.match(text) if template is not None else None
    if template is None or values is None:
        return False
    return "_" in {f.name for f in template.fields} or template.render(values) == text


def _reads(line: LineDraft) -> Reads:
    """What gives the template that reads a text."""
    try:
        if not isinstance(line, KeyValueDraft | JsonDraft):
            own = Template(line.text)
            return lambda text: own if own.match(text) is not None else None
        form = loaded(
            file_text.file_text([], ['scopes = ["run", "step"]'], [(line, [next(iter(line.shape.lines))])], [])
        )
    except FormatError:
        return lambda _: None
    lines_of = form.families[0].lines

    def reads(text: str) -> Template | None:
        if isinstance(line, JsonDraft) and (found := json_objects.parts(text)) is not None and found.key != line.key:
            return None  # of several objects that with a step goes first
        return next((x.template for x in lines_of(text) if x.template.match(text) is not None), None)

    return reads


def loaded(text: str) -> Format:
    """The format file of that text."""
    with tempfile.TemporaryDirectory(prefix="perflog-") as folder:
        path = Path(folder) / "suggested.toml"
        path.write_text(text, encoding="utf-8")
        return load(path)


def read(source: Source, formats: Sequence[Format], seen: Detection, unread: ShapeCounter) -> ReadCounts:
    """Read the log with these formats, the last of which is on trial. The shapes of unread lines go to `unread`."""
    out = ReadCounts()
    for lines, batch in batches(source, formats, seen):
        out.total += batch.chunk.lines
        out.unread += len(batch.unread)
        for kind, at in batch.owner.items():
            form, line = lines[kind] if kind != BLANK else (None, None)
            if line is None:
                out.blank += len(at)
            elif form is not formats[-1]:
                out.others += len(at)
            elif len(at):
                out.counts[line.name] = out.counts.get(line.name, 0) + len(at)
                out.firsts.setdefault(line.name, int(at[0]) >> PART_BITS)
        _follow(out, lines, batch, formats[-1])
        unread.add(batch)
    return out


def _follow(out: ReadCounts, lines: Sequence[FormatLine], batch: Batch, form: Format) -> None:
    """Where the counter of steps begins anew, and where lines stand that describe a run."""
    steps: list[tuple[int, int]] = []
    for kind, records in batch.records.items():
        owner, line = lines[kind]
        if owner is form and line.table == "runs":
            places = out.places.setdefault(line.name, [])
            places += records.places[: _BEGINS + 1 - len(places)].tolist()
        elif owner is form and line.closes and "step" in records.columns:
            steps += zip(records.places.tolist(), records.columns["step"].tolist(), strict=True)
    for place, number in sorted(steps):
        out.step(place, number)
