"""The line shapes of a log of any length, with lines of each that differ as much as lines of it do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow.compute as pc

from perflog.ingestion.suggest.tokens import Token, skeleton, tokens
from perflog.parsing.match.numeric import Ints
from perflog.parsing.match.records import Batch, strings
from perflog.tables.arrow import index_array, numbers_of
from perflog.tables.row_order import PART_BITS

LONGEST = 2000
"""Bytes of a line that is looked at: nobody wants a longer one in a format file."""

_MOST_TOKENS = 400
_SAMPLES = 48  # lines kept of a shape
_MOST_SHAPES = 4000  # shapes kept; beyond, those met least are forgotten
_LOOKS = 20_000  # lines taken apart in Python: of the first chunk,
_LOOKS_MORE = 1_500  # ... and of each further one, where all lines differ
_GROUPS = 10_000  # groups of lines of a chunk that are looked at, the commonest

Key = tuple[str, ...]


@dataclass
class LineShape:
    """Lines that are one shape: how many, where the first is, and some of them, as text and as tokens."""

    first: int
    count: int = 0
    lines: dict[str, tuple[Token, ...]] = field(default_factory=dict)

    def join(self, other: LineShape) -> None:
        """Take in the lines of another shape."""
        self.first = min(self.first, other.first)
        self.count += other.count
        for text, taken in other.lines.items():
            self.keep(text, taken)

    def keep(self, text: str, taken: tuple[Token, ...]) -> None:
        if len(self.lines) < _SAMPLES:
            self.lines[text] = taken


class ShapeCounter:
    """Counts the shapes of the unread lines of batches. Memory does not grow with the log."""

    def __init__(self, strip: Callable[[bytes], bytes]) -> None:
        self.found: dict[Key, LineShape] = {}
        self._strip = strip
        self._keys: dict[bytes, Key | None] = {}  # of lines with their digits masked
        self._looks = _LOOKS

    def add(self, batch: Batch) -> None:
        """Count the unread lines of a batch."""
        self._looks += _LOOKS_MORE
        for masked, count, places in _groups(batch):
            key = self._keys.get(masked)
            shape = self.found.get(key) if key is not None else None
            if shape is None or len(shape.lines) < _SAMPLES:
                key = self._keys[masked] = self._look(batch, places)
                shape = self.found.get(key) if key is not None else None
            if shape is not None:
                shape.first = min(shape.first, int(places[0]) >> PART_BITS)
                shape.count += count
        if len(self.found) > _MOST_SHAPES:
            self._forget()

    def _look(self, batch: Batch, places: Ints) -> Key | None:
        """Keep lines whose shape is the same, or nearly. Gives that of the first; None if it is none."""
        keys = []
        for place in places.tolist():
            for text, taken in self.taken(batch, place):
                keys.append(skeleton(taken))
                self.found.setdefault(keys[-1], LineShape(place >> PART_BITS)).keep(text, taken)
        return keys[0] if keys else None

    def taken(self, batch: Batch, place: int) -> Iterator[tuple[str, tuple[Token, ...]]]:
        """The line at a place without its label, and its tokens; nothing if it is too long, or no text."""
        row = int(batch.rows(np.array([place]))[0])
        start, end = int(batch.starts[row]), int(batch.ends[row])
        if self._looks <= 0 or end - start > LONGEST:
            return
        self._looks -= 1
        try:
            text = self._strip(bytes(batch.chunk.data[start:end])).decode()
        except UnicodeDecodeError:
            return
        parts = tokens(text)
        if 0 < len(parts) <= _MOST_TOKENS:
            yield text, parts

    def _forget(self) -> None:
        """Drop the half of the shapes that was met least: what is common comes again."""
        kept = sorted(self.found.items(), key=lambda item: (-item[1].count, item[1].first))[: _MOST_SHAPES // 2]
        self.found = dict(kept)
        self._keys.clear()


def _groups(batch: Batch) -> Iterator[tuple[bytes, int, Ints]]:
    """Unread lines that differ in digits and blanks only, the commonest first: what they have in common, how many, and
    places of some.

    Of each the first, the shortest, the longest and the last, since what a line's width varies with is seen there.
    """
    places = batch.unread
    if not len(places):
        return
    rows = batch.rows(places)
    begin = batch.starts[rows].astype(np.int64)
    length = np.minimum(batch.ends[rows].astype(np.int64) - begin, LONGEST + 1)
    texts = strings(batch.chunk.data, begin, begin + length)
    masked = pc.replace_substring_regex(texts, pattern="[0-9]+", replacement="#")
    masked = pc.replace_substring_regex(masked, pattern="[ \t]+", replacement=" ").dictionary_encode()
    codes = numbers_of(masked.indices).astype(np.int64)
    order = np.lexsort((length, codes))
    cuts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    _, first, counts = np.unique(codes, return_index=True, return_counts=True)
    last = len(codes) - 1 - np.unique(codes[::-1], return_index=True)[1]
    some = np.stack([first, order[cuts], order[cuts + counts - 1], last], axis=1)
    common = np.argsort(-counts, kind="stable")[:_GROUPS]
    texts = masked.dictionary.take(index_array(common)).to_pylist()
    for code, text in zip(common.tolist(), texts, strict=True):
        chosen = list(dict.fromkeys(some[code].tolist()))
        yield text, int(counts[code]), places[chosen]
