"""Counts the line shapes among the unread lines of a log, and keeps some lines of each shape.

The lines kept differ as much as the lines of the shape do. Memory does not grow with the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow.compute as pc
from msgspec import Struct, field

from perflog.arrays import Ints
from perflog.formats.tokens import Token, skeleton, tokens
from perflog.parsing.match.records import Batch, strings
from perflog.tables.arrow import index_array, numbers_of
from perflog.tables.row_order import PART_BITS

LONGEST = 2000
"""Longer lines, in bytes, are ignored: nobody wants them in a format file."""

_MOST_TOKENS = 400
_MOST_LINES = 48  # lines kept of a shape
_MOST_SHAPES = 4000  # shapes kept; beyond that, the rarest are dropped
_PARSED_FIRST = 20_000  # lines that Python splits into tokens: of the first chunk,
_PARSED_MORE = 1_500  # ... and of each further one; reached only if all lines differ
_DIGITS = r"\b[0-9]+|[0-9]{3,}"  # that vary; one or two in a word may distinguish names: `p50`, `p99`
_GROUPS = 10_000  # groups of lines of a chunk that are counted, the most common ones


Key = tuple[str, ...]
"""What the lines of one shape have in common; see `skeleton`."""


class LineShape(Struct):
    """Lines of one shape.

    Attributes:
        first: The line number of the first.
        count: The number of lines.
        lines: Some of the lines: line -> tokens.
    """

    first: int
    count: int = 0
    lines: dict[str, tuple[Token, ...]] = field(default_factory=dict)

    def join(self, other: LineShape) -> None:
        """Add the lines of another shape to this one."""
        self.first = min(self.first, other.first)
        self.count += other.count
        for text, line in other.lines.items():
            self.keep(text, line)

    def keep(self, text: str, line: tuple[Token, ...]) -> None:
        """Keep a line, unless enough lines are kept already."""
        if len(self.lines) < _MOST_LINES:
            self.lines[text] = line


class ShapeCounter:
    """Counts the line shapes of the unread lines, batch by batch.

    Attributes:
        shapes: The shapes counted so far, by key.
    """

    def __init__(self, strip: Callable[[bytes], bytes]) -> None:
        self.shapes: dict[Key, LineShape] = {}
        self._strip = strip
        self._keys: dict[bytes, Key | None] = {}  # line with digits masked -> key of its shape
        self._parses_left = _PARSED_FIRST

    def add(self, batch: Batch) -> None:
        """Count the unread lines of a batch."""
        self._parses_left += _PARSED_MORE
        for masked, count, positions in _groups(batch):
            key = self._keys.get(masked)
            shape = self.shapes.get(key) if key is not None else None
            if shape is None or len(shape.lines) < _MOST_LINES:
                key = self._keys[masked] = self._parse(batch, positions)
                shape = self.shapes.get(key) if key is not None else None
            if shape is not None:
                shape.first = min(shape.first, int(positions[0]) >> PART_BITS)
                shape.count += count
        if len(self.shapes) > _MOST_SHAPES:
            self._drop_rare_shapes()

    def _parse(self, batch: Batch, positions: Ints) -> Key | None:
        """Keep the lines at these positions. Return the key of the first line; None if no line has tokens."""
        keys = []
        for position in positions.tolist():
            for text, line in self._line(batch, position):
                keys.append(skeleton(line))
                self.shapes.setdefault(keys[-1], LineShape(position >> PART_BITS)).keep(text, line)
        return keys[0] if keys else None

    def _line(self, batch: Batch, position: int) -> Iterator[tuple[str, tuple[Token, ...]]]:
        """Yield the line at a position without its rank label, and its tokens; not if it is too long or not UTF-8."""
        row = int(batch.rows(np.array([position]))[0])
        start, end = int(batch.starts[row]), int(batch.ends[row])
        if self._parses_left <= 0 or end - start > LONGEST:
            return
        self._parses_left -= 1
        try:
            text = self._strip(bytes(batch.chunk.data[start:end])).decode()
        except UnicodeDecodeError:
            return
        parts = tokens(text)
        if 0 < len(parts) <= _MOST_TOKENS:
            yield text, parts

    def _drop_rare_shapes(self) -> None:
        """Drop the rarer half of the shapes. A shape that is common after all comes again."""
        kept = sorted(self.shapes.items(), key=lambda item: (-item[1].count, item[1].first))[: _MOST_SHAPES // 2]
        self.shapes = dict(kept)
        self._keys.clear()


def _groups(batch: Batch) -> Iterator[tuple[bytes, int, Ints]]:
    """Yield groups of unread lines that differ in digits and whitespace only, the largest group first.

    Of each group: the line with its digits masked, the number of lines, and the positions of the first, the shortest,
    the longest and the last line. These four show what the width of the line varies with.
    """
    positions = batch.unread
    if not len(positions):
        return
    rows = batch.rows(positions)
    begin = batch.starts[rows].astype(np.int64)
    length = np.minimum(batch.ends[rows].astype(np.int64) - begin, LONGEST + 1)
    texts = strings(batch.chunk.data, begin, begin + length)
    masked = pc.replace_substring_regex(texts, pattern=_DIGITS, replacement="#")
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
        yield text, int(counts[code]), positions[chosen]
