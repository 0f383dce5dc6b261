"""Drafts of entries, made of the lines of one shape."""

from __future__ import annotations

from perflog.formats.tokens import skeleton, tokens
from perflog.ingestion.suggest.line_draft import LineDraft, draft
from perflog.ingestion.suggest.line_shapes import Key, LineShape
from perflog.ingestion.suggest.shape_merging import merge_shapes


def shape_of(*lines: str, first: int = 1, count: int = 0) -> tuple[Key, LineShape]:
    """The shape of lines that are alike, merged if words in them vary. `count`: how many they stand for."""
    found: dict[Key, LineShape] = {}
    for number, text in enumerate(lines, first):
        parts = tokens(text)
        shape = found.setdefault(skeleton(parts), LineShape(number))
        shape.count += 1
        shape.keep(text, parts)
    if len(found) > 1:
        found = merge_shapes(found)
    ((key, shape),) = found.items()
    shape.count = count or shape.count
    return key, shape


def drafted(*lines: str, first: int = 1, count: int = 0) -> LineDraft:
    """The draft of the entry for lines that are alike."""
    return draft(*shape_of(*lines, first=first, count=count))
