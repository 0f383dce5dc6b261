"""Lines that are several records end to end: two ranks wrote at once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from perflog.formats.model import Line
from perflog.formats.template import Template, Value, escape, fits_64
from perflog.parsing.match.records import Column, Records
from perflog.tables.arrow import text_array

LONGEST = 1 << 13
"""Longer lines are not tried: the patterns here are Python's, whose time may grow with the square of a line."""

_ANCHOR = 3  # characters of a literal that is looked for
_OWN_TEXT = 6  # characters of its own that a template needs to be looked for inside a line

Piece = tuple[int, re.Match[bytes]]


class InterleavedSplitter:
    """Splits a line into records and contexts, each read whole by one template. A kind is an index into `lines`."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = lines

    @cached_property
    def anchors(self) -> str:
        """Pattern of what a line must hold twice to be worth a try: the longest literal of each template."""
        longest = {max((x.strip() for x in t.template.literals), key=len) for t in self._pieces}
        return "|".join(sorted((escape(a) for a in longest if len(a) >= _ANCHOR), key=len, reverse=True))

    @cached_property
    def _pieces(self) -> list[Line]:
        whole = [x for x in self._lines if x.role in ("line", "context") and not x.under_header]
        return [x for x in whole if len("".join(x.template.literals)) >= _OWN_TEXT]

    @cached_property
    def _patterns(self) -> list[tuple[int, re.Pattern[bytes]]]:
        chosen = set(map(id, self._pieces))
        return [(kind, x.template.regex) for kind, x in enumerate(self._lines) if id(x) in chosen]

    def split(self, text: bytes) -> list[Piece] | None:
        """A line as two or more pieces end to end; None if it is none, or too long."""
        if len(text) > LONGEST:
            return None
        patterns = [
            (kind, regex) for kind, regex in self._patterns if self._lines[kind].template.required_literal in text
        ]
        dead: set[int] = set()
        path: list[Piece] = []
        options = [self._at(text, 0, patterns)]
        while options:
            at = path[-1][1].end() if path else 0
            if at == len(text):
                return path if len(path) > 1 else None
            piece = next((p for p in options[-1] if p[1].end() not in dead), None)
            if piece is None:
                dead.add(at)
                options.pop()
                if path:
                    path.pop()
            else:
                path.append(piece)
                options.append(self._at(text, piece[1].end(), patterns))
        return None

    def _at(self, text: bytes, at: int, patterns: Sequence[tuple[int, re.Pattern[bytes]]]) -> list[Piece]:
        """Pieces that begin here, or else behind the blanks here: a match leaves out a template's blanks at the end."""
        for start in dict.fromkeys((at, at + len(text[at:]) - len(text[at:].lstrip(b" \t")))):
            found = ((kind, regex.match(text, start)) for kind, regex in patterns)
            pieces = [(kind, m) for kind, m in found if m and m.end() > start and self._whole(kind, m)]
            if pieces:
                return pieces
        return []

    def _whole(self, kind: int, match: re.Match[bytes]) -> bool:
        fields = self._lines[kind].template.fields
        return all(fits_64(match[f.name]) for f in fields if f.type == "d" and f.name != "_")

    def records(self, pieces: Sequence[Piece], place: int, label: int) -> list[tuple[int, Records]]:
        """The pieces of the line at `place` as records, the k-th at `place + k`."""
        out = []
        for k, (kind, match) in enumerate(pieces):
            template = self._lines[kind].template
            columns = columns_of(template, template.values(match))
            tag = None if label < 0 else np.array([label])
            out.append((kind, Records(np.array([place + k]), columns, tag)))
        return out


def columns_of(template: Template, values: Mapping[str, Value]) -> dict[str, Column]:
    """The values of one record as columns."""
    columns: dict[str, Column] = {}
    for f in template.fields:
        if f.name != "_":
            value, kind = values[f.name], np.int64 if f.type == "d" else np.float64
            columns[f.name] = np.array([value], kind) if f.numeric else text_array([str(value)])
    return columns
