"""Explains why a log is not recognised: the template that came nearest, and the most common line shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from shlex import quote

import numpy as np

from perflog.errors import BinaryFileError, EmptyLogError, InputError, UnrecognisedError
from perflog.formats.model import Format, Line
from perflog.formats.sample_checks import sample_lines
from perflog.formats.template import Miss, Template, caret
from perflog.grouping import grouped
from perflog.ingestion.detect import Detection
from perflog.parsing.input.chunks import Chunk
from perflog.parsing.input.source import Source
from perflog.parsing.match.records import Batch, unread_shapes
from perflog.tables.sink import IngestResult

_LINES_TRIED = 400
_READS = (
    "perflog reads text logs, traces (Chrome, XLA, Perfetto) and exports of Nsight Systems and rocprof, packed or not"
)
_CHANCE = 3  # this many matching literal bytes can be chance

_PICKLE = "a pickle is not read", "to load a pickle may run code that is in it: write its data as JSON or CSV"
_BINARY = {bytes([0x80, version]): _PICKLE for version in range(2, 6)}
"""By the first bytes of a file that is no log: the reason, and help."""


def nearest(texts: Sequence[str], formats: Sequence[Format]) -> tuple[str, Format, Line, Miss] | None:
    """Return the line and the template that come nearest to a match: the most literal bytes before the mismatch.

    None if no template matches more literal bytes than chance.
    """
    best: tuple[int, str, Format, Line, Miss] | None = None
    every = "\n".join(texts).encode("utf-8", "surrogateescape")
    lines = [
        (form, line)
        for form in formats
        for line in (*form.lines, *(sample_lines(form) if _may_begin(form, every) else ()))
        if line.read
    ]
    # Most templates begin with a literal: the lines that begin with other bytes match none of it.
    by_beginning = grouped((line.template.prefix[: _CHANCE + 1], place) for place, (_, line) in enumerate(lines))
    others = sorted(chain(*(places for beginning, places in by_beginning.items() if len(beginning) <= _CHANCE)))
    for text in texts:
        raw = text.encode("utf-8", "surrogateescape")
        for place in sorted([*others, *by_beginning.get(raw[: _CHANCE + 1], ())]):
            form, line = lines[place]
            least = best[0] if best else _CHANCE
            is_possible = line.template.literal_bytes > least and _may_match(line.template, text)
            miss = line.template.explain(raw) if is_possible else None
            if miss is not None and miss.literal > least:
                best = miss.literal, text, form, line, miss
    return best[1:] if best else None


def _may_begin(form: Format, every: bytes) -> bool:
    """Return whether some lines may begin as a line of a family does."""
    openings = (opening for family in form.families for opening in family.openings)
    return any(opening.literal[: _CHANCE + 1] in every for opening in openings)


def _may_match(template: Template, text: str) -> bool:
    """Return whether a line may match more literal bytes of a template than chance."""
    matched = 0
    for literal in template.literals:
        matched += len(literal)
        if matched > _CHANCE:
            return literal[:1] in text
        if literal not in text:
            return False
    return False


def unusable(source: Source, chunk: Chunk) -> InputError | None:
    """Return the error for an input that is not a log, judged by its first chunk; None for a log."""
    if chunk.size == 0:
        return EmptyLogError("the log is empty", source.name, "nothing was written to it, or it was not flushed yet")
    if source.looks_binary():
        begin, unknown = source.first_bytes(4), ("not a text log: it looks binary", _READS)
        reason, help = next((text for start, text in _BINARY.items() if begin.startswith(start)), unknown)
        return BinaryFileError(reason, source.name, help)
    return None


def no_rows(result: IngestResult, formats: Sequence[str]) -> InputError:
    """Return the error for a log with nothing but settings read, while most of its figures are unread."""
    count = result.figures["unread"]
    line, text = result.unread_figures or (0, "")
    settings = f"only settings of {', '.join(formats)}" if formats else "only lines that any log may have"
    help = f"The first unread figures are in line {line}:\n  {text[:200]}\n{_suggestion(result.log)}"
    return UnrecognisedError(
        f"no line fills a row of a table: {count} figures are unread, and {settings} are read", result.log, help
    )


def _suggestion(log: str) -> str:
    """Return what to do with a log that no format describes."""
    name = "LOG" if log == "-" else quote(log)
    return (
        "To read its numbers at once, under names that perflog guesses:\n"
        f"  perflog ingest --guess {name}\n"
        "To read such logs for good, describe their lines in a format file. This command makes one to start from:\n"
        f"  perflog formats suggest {name}"
    )


def nothing_recognised(source: Source, detection: Detection, formats: Sequence[Format]) -> InputError:
    """Return the error for a log without a single record. What came nearest is looked for when the help is read."""
    error = unusable(source, detection.batch.chunk)
    if error is not None:
        return error
    batch, formats = detection.batch, list(formats)
    return UnrecognisedError(
        "nothing in it is recognised", source.name, lambda: _nearest_help(source.name, batch, formats)
    )


def _nearest_help(log: str, batch: Batch, formats: Sequence[Format]) -> str:
    """Return the help for a log in which nothing is recognised: its nearest template and its most common shapes."""
    names, codes = unread_shapes(batch, batch.unread)
    counts = np.bincount(codes, minlength=len(names)).tolist()
    common = Counter(dict(zip(names, counts, strict=True)))
    firsts = np.sort(np.unique(codes, return_index=True)[1])[:_LINES_TRIED]  # one line of each shape
    texts = list(dict.fromkeys(batch.text(p, 400) for p in batch.unread[firsts].tolist()))
    near_miss = nearest(texts, formats)
    parts = []
    if near_miss is not None:
        text, form, line, miss = near_miss
        parts.append(f"The nearest template is `{line.name}` of {form.name}:\n{caret(text, miss)}")
    if common:
        rows = "\n".join(f"{count:8d}  {shape[:100]}" for shape, count in common.most_common(5))
        parts.append(f"The most common line shapes, with # for numbers:\n{rows}")
    parts.append(_suggestion(log))
    return "\n".join(parts)
