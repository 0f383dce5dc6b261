"""Templates whose fields are plain numbers, made ready to be matched without regular expressions."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from perflog.formats.template import Template

MOST_TOKENS = 31
"""Lines with more number tokens (maximal runs of digits and dots) are left to the regular expressions."""

SPAN = 64
"""Bytes of a literal that are gathered at once: gathering costs the same for 8 bytes as for 64."""

_TOKEN = re.compile(rb"[0-9.]+")
Word = tuple[np.uint64 | None, np.uint64]  # mask (None: all) and value of 8 bytes


def _spans(literal: bytes, known: int) -> list[tuple[int, int, list[Word]]]:
    """A literal as (offset, words gathered, the words to compare); the first `known` bytes are already sure."""
    out = []
    for offset in range(known, len(literal), SPAN):
        part = literal[offset : offset + SPAN]
        words: list[Word] = []
        for at in range(0, len(part), 8):
            piece = part[at : at + 8]
            mask = None if len(piece) == 8 else np.uint64((1 << 8 * len(piece)) - 1)
            words.append((mask, np.uint64(int.from_bytes(piece, "little"))))
        out.append((offset, len(words), words))
    return out


@dataclass(frozen=True, eq=False)
class Plain:
    """A template the fast path can read. `tokens` gives the place of each field among the line's tokens."""

    kind: int
    template: Template
    literals: tuple[bytes, ...]
    spans: tuple[list[tuple[int, int, list[Word]]], ...]
    tokens: tuple[int, ...]
    count: int


def plain(kind: int, template: Template) -> Plain | None:
    """The template made ready, or None if it is not plain: other than numbers, or literals that touch a number."""
    literals = [x.encode() for x in template.literals]
    literals[-1] = literals[-1].rstrip(b" \t")
    if any(f.type not in "dfeEgr" or f.width or f.comma for f in template.fields):
        return None
    if len(literals[0]) < 2 and (literals[0] or not template.fields):
        return None
    tokens, count = [], 0
    for index, literal in enumerate(literals):
        runs = [m.span() for m in _TOKEN.finditer(literal)]
        inner = 0 < index < len(literals) - 1
        if (runs and index > 0 and runs[0][0] == 0) or (
            runs and index < len(literals) - 1 and runs[-1][1] == len(literal)
        ):
            return None
        if inner and not literal:
            return None
        count += len(runs)
        if index < len(template.fields):
            tokens.append(count)
            count += 1
    if count > MOST_TOKENS:
        return None
    # The first two bytes of a line choose its candidates: they need no second look.
    spans = [_spans(x, 2 if index == 0 else 0) for index, x in enumerate(literals)]
    return Plain(kind, template, tuple(literals), tuple(spans), tuple(tokens), count)
