"""The proof of a suggestion: it loads, its samples are its own, and the log is read with it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from perflog.batch import BLANK, PART_BITS, Batch
from perflog.declared import Format
from perflog.detect import Look
from perflog.formatfile import load
from perflog.formats import known
from perflog.scan import Scanner
from perflog.source import Source
from perflog.suggest.collect import Shapes
from perflog.suggest.draft import Draft, samples
from perflog.template import Template

Chosen = list[tuple[Draft, list[str]]]
"""Lines with the samples they are shown with."""


@dataclass
class Account:
    """What a log's lines are to a set of formats: read or context by line of the last of them, by others, unread."""

    total: int = 0
    blank: int = 0
    others: int = 0
    unread: int = 0
    counts: dict[int, int] = field(default_factory=dict)  # by the line's place in the format
    firsts: dict[int, int] = field(default_factory=dict)


def batches(source: Source, formats: Sequence[Format], seen: Look) -> Iterator[tuple[Scanner, Batch]]:
    """The whole log, scanned with these formats."""
    scanner = Scanner(formats, seen.label, all_labelled=seen.all_labelled)
    with closing(source.chunks()) as chunks:
        for chunk in chunks:
            yield scanner, scanner.scan(chunk)


def disjoint(drafts: Iterable[Draft]) -> tuple[Chosen, list[tuple[Draft, str]]]:
    """The lines that can stand in one file beside all known formats, the commonest first, with their samples; and
    those that cannot, with the reason.
    """
    others = [(f, x) for f in known().values() for x in f.lines if x.role != "body"]
    chosen: list[tuple[Draft, Template, list[str]]] = []
    left = []
    for line in drafts:
        shown, template = _shown(line)
        if template is None or not shown:
            left.append((line, "it cannot be written back"))
            continue
        taken = [f"line `{x.name}` of {f.name} reads it" for f, x in others if x.template.match(shown[0]) is not None]
        shown = [s for s in shown if all(x.template.match(s) is None for _, x in others)]
        mine = [s for s in shown if all(t.match(s) is None for _, t, _ in chosen)]
        theirs = [[s for s in ss if template.match(s) is None] for _, _, ss in chosen]
        if not taken and any(all(t.match(s) is not None for s in shown) for _, t, _ in chosen):
            continue  # it is read with the other line's
        if not shown or not mine or not all(theirs):
            left.append((line, taken[0] if not shown else "it looks like another line"))
            continue
        for entry, rest in zip(chosen, theirs, strict=True):
            entry[2][:] = rest
        chosen.append((line, template, mine))
    return [(line, shown) for line, _, shown in chosen], left


def _shown(line: Draft) -> tuple[list[str], Template | None]:
    template = line.template()
    shown = samples(template, line.shape) if template else []
    if not shown and not line.loose:
        line.loose = True  # blanks that are no padding
        template = line.template()
        shown = samples(template, line.shape) if template else []
    return shown, template


def loaded(text: str) -> Format:
    """The format file of that text."""
    with tempfile.TemporaryDirectory(prefix="perflog-") as folder:
        path = Path(folder) / "suggested.toml"
        path.write_text(text, encoding="utf-8")
        return load(path)


def read(source: Source, formats: Sequence[Format], seen: Look, unread: Shapes) -> Account:
    """Read the log with these formats, the last of which is on trial. The shapes of unread lines go to `unread`."""
    out = Account()
    start = 0
    for scanner, batch in batches(source, formats, seen):
        start = start or next(k for k, (f, _) in enumerate(scanner.lines) if f is formats[-1])
        out.total += batch.chunk.lines
        out.unread += len(batch.unread)
        for kind, at in batch.owner.items():
            if kind >= start:
                out.counts[kind - start] = out.counts.get(kind - start, 0) + len(at)
                if len(at):
                    out.firsts.setdefault(kind - start, int(at[0]) >> PART_BITS)
            elif kind == BLANK:
                out.blank += len(at)
            else:
                out.others += len(at)
        unread.add(batch)
    return out
