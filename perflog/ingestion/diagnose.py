"""When nothing is recognised: the nearest template with the place where it stopped, and the commonest line shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from shlex import quote

import numpy as np

from perflog.errors import InputError
from perflog.formats.model import Format, Line
from perflog.formats.registry import sample_lines
from perflog.formats.template import Miss, caret
from perflog.ingestion.detect import Look
from perflog.parsing.input.chunks import Chunk
from perflog.parsing.input.source import Source
from perflog.parsing.match.records import unread_shapes

_LOOKED_AT = 400
_READS = "perflog reads text logs, Chrome traces and exports of Nsight Systems, also packed as gz, zst or xz"
_LEAST = 3  # bytes of a template's own text that are no likeness yet


def nearest(texts: Sequence[str], formats: Sequence[Format]) -> tuple[str, Format, Line, Miss] | None:
    """The line and the template that come closest to matching: most literal bytes matched before the stop."""
    best: tuple[int, str, Format, Line, Miss] | None = None
    lines = [(form, line) for form in formats for line in (*form.lines, *sample_lines(form)) if line.read]
    for text in texts:
        for form, line in lines:
            miss = line.template.explain(text)
            if miss is not None and miss.literal > (best[0] if best else _LEAST):
                best = miss.literal, text, form, line, miss
    return best[1:] if best else None


def unusable(source: Source, chunk: Chunk) -> InputError | None:
    """What is wrong with an input that is no log at all, by its first chunk."""
    if chunk.size == 0:
        return InputError("the log is empty", source.name, "nothing was written to it, or it was not flushed yet")
    if source.binary():
        return InputError("not a text log: it looks binary", source.name, _READS)
    return None


def nothing_recognised(source: Source, seen: Look, formats: Sequence[Format]) -> InputError:
    """The one error for an input in which no record was found."""
    error = unusable(source, seen.batch.chunk)
    if error is not None:
        return error
    names, codes = unread_shapes(seen.batch)
    counts = np.bincount(codes, minlength=len(names)).tolist()
    common = Counter(dict(zip(names, counts, strict=True)))
    texts = list(dict.fromkeys(seen.batch.text(p, 400) for p in seen.batch.unread[:_LOOKED_AT].tolist()))
    found = nearest(texts, formats)
    parts = []
    if found is not None:
        text, form, line, miss = found
        parts.append(f"The nearest template is `{line.name}` of {form.name}:\n{caret(text, miss)}")
    if common:
        rows = "\n".join(f"{count:8d}  {shape[:100]}" for shape, count in common.most_common(5))
        parts.append(f"The commonest line shapes, numbers as #:\n{rows}")
    name = "LOG" if source.name == "-" else quote(source.name)
    parts.append(
        f"To read such a log, describe its lines in a format file. One to start from:\n  perflog formats suggest {name}"
    )
    return InputError("nothing in it is recognised", source.name, "\n".join(parts))
