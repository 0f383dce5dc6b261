"""Detects formats that only show later in a log: an unread line proves one that is not active yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from perflog.formats.model import Family, Format, Line
from perflog.formats.plain_lines import is_plain
from perflog.formats.template import unnamed
from perflog.ingestion.detect import literal_index, proves_format
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.input.chunks import SLACK
from perflog.parsing.match.discovery import candidate_mask, partial_lines, partial_mask
from perflog.parsing.match.rank_labels import ANY_LABELS, strip_rank_labels
from perflog.parsing.match.records import Batch
from perflog.tables.arrow import matching_mask

_NUMBER = lazy_pattern(rb"[0-9]+")
_MOST_ALIKE = 32
"""How many lines of a batch are tried that differ in their numbers alone. To try one takes about a millisecond."""
_MOST_PLAIN = 32
"""Different lines that are tried between the first plain line of a format and its proof, at most."""


class LateFormats:
    """The formats that are not active yet, generic ones last."""

    def __init__(self, formats: Iterable[Format]) -> None:
        self.formats = sorted(formats, key=lambda f: f.generic)

    def take_proven(self, batch: Batch) -> tuple[Format, int] | None:
        """Take out the format that the first proving unread line proves; return it with where its lines begin.

        They begin with the proof, or with plain lines of the format just before it.
        """
        if not self.formats or not len(batch.unread_segments):
            return None
        texts = batch.bytes_at(batch.unread_segments)
        body = bytes(texts.buffers()[2] or b"")
        possible = literal_index(tuple(self.formats)).proofs(body + bytes(SLACK), len(body))
        lines = [x for _, x in possible if isinstance(x, Line)]
        families = [x for _, x in possible if not isinstance(x, Line)]
        # In a torn log, an incomplete line may be half of a record that looks like a line of another program.
        partly = [] if batch.is_torn else [form for form, _ in possible if not form.generic]
        partial = {form: partial_lines(form) for form in partly}
        mask = matching_mask(texts, map(_pattern, lines), ANY_LABELS) | candidate_mask(texts, families)
        mask |= partial_mask(texts, [x for x in partial.values() if x])
        tried: set[bytes] = set()
        alike = Counter[bytes]()
        plain: dict[str, tuple[int, int]] = {}  # by format its first plain line: position, number of lines tried
        for position in batch.unread_segments[np.flatnonzero(mask)].tolist():
            text = strip_rank_labels(batch.text(position, 1 << 16).encode())
            shape = _NUMBER.sub(b"0", text)
            if text in tried or alike[shape] == _MOST_ALIKE:
                continue
            tried.add(text)
            alike[shape] += 1
            for form, proof in (*possible, *partial.items()):
                proves = _proves(form, proof, text)
                if proves:
                    self.formats.remove(form)
                    first, number = plain.get(form.name, (position, len(tried)))
                    return form, first if len(tried) - number <= _MOST_PLAIN else position
                if proves is not None:
                    plain.setdefault(form.name, (position, len(tried)))
        return None


def may_read(batch: Batch, lines: Iterable[Line]) -> bool:
    """Return whether an unread line could match one of these lines, which were not known when it was scanned."""
    if not len(batch.unread_segments):
        return False
    texts = batch.bytes_at(batch.unread_segments)
    return bool(matching_mask(texts, map(_pattern, lines), ANY_LABELS).any())


def _pattern(line: Line) -> str:
    return f"(?s:{unnamed(line.template.pattern)})[ \\t]*$"


def _proves(form: Format, proof: Line | Family, text: bytes) -> bool | None:
    """Return whether a line or a family that reads a string proves its format by it; None if it does not read it."""
    lines: tuple[Line, ...]
    if not isinstance(proof, Line):
        lines = tuple(filter(proves_format, proof.lines(text.decode("utf-8", "surrogateescape"))))
    else:
        lines = (proof,) if proof.template.has_literals(text) and proof.template.match(text) is not None else ()
    return any(form.generic or not is_plain(line) for line in lines) if lines else None
