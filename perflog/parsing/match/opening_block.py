"""Finds the block at the start of a log: the source of the program, which some programs print before anything else.

Such a block has any lines, so only its first and its last line locate it. It is looked for in the first lines of
the log, before they are scanned. The scanner then reads its lines by their positions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from msgspec import Struct

from perflog.arrays import Ints, Mask
from perflog.formats.model import Line
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.input.chunks import Chunk
from perflog.parsing.match.records import FormatLine

MAX_LINES = 1 << 15
"""Lines of a block; a block that does not end within them does not count."""

MAX_ALIKE = 10
"""Doubtful lines that differ only in their numbers: as many are no source, but what the program measured."""

_FIRST_LINE, _FIRST_OFFSET = np.array([1]), np.array([0])
_NUMBER = lazy_pattern(rb"[0-9]+(?:\.[0-9]+)?")


class OpeningBlock(Struct, frozen=True):
    """The block at the start of a log.

    Attributes:
        last_line: Number of its last line.
        size: Bytes up to the end of this line.
        lines: The Lines of the block, among them the Line that reads any string.
        special: By Line, the numbers of the lines that begin or end the block. All others are its body.
        doubtful: Its lines with numbers that are not indented as source is, each ended by LF: they could be what a
            program measured.
    """

    last_line: int
    size: int
    lines: frozenset[Line]
    special: dict[Line, list[int]]
    doubtful: bytes


class OpeningBlocks:
    """The block at the start of a log, or the blocks of several logs that are read together, each of the same Lines.

    Args:
        blocks: The block of each log.
        first_lines: The number of the first line of each log.
        starts: The offset at which each log begins.
    """

    def __init__(
        self, blocks: Sequence[OpeningBlock], first_lines: Ints = _FIRST_LINE, starts: Ints = _FIRST_OFFSET
    ) -> None:
        self.lines = blocks[0].lines
        self._first_lines, self._starts = first_lines, starts
        self._lengths = np.array([block.last_line for block in blocks])
        self._sizes = [block.size for block in blocks]
        self.last_line = int(first_lines[-1] + self._lengths[-1] - 1)
        self._special: dict[Line, list[int]] = {}
        for block, first in zip(blocks, first_lines.tolist(), strict=True):
            for line, numbers in block.special.items():
                self._special.setdefault(line, []).extend(number + first - 1 for number in numbers)

    def covers(self, numbers: Ints) -> Mask:
        """Return a mask of the line numbers that lie in a block."""
        log = np.searchsorted(self._first_lines, numbers, "right") - 1
        covered: Mask = numbers - self._first_lines[log] < self._lengths[log]
        return covered

    def after(self, chunk: Chunk) -> bytearray:
        """Return the bytes of all logs after their blocks, with the zero bytes that end a chunk."""
        stops = [*self._starts[1:].tolist(), len(chunk.data)]
        parts = zip(self._starts.tolist(), self._sizes, stops, strict=True)
        return bytearray().join(chunk.data[start + size : stop] for start, size, stop in parts)

    def mask(self, line: Line, numbers: Ints) -> Mask:
        """Return a mask of the line numbers, of lines of the blocks, that a Line of the blocks reads."""
        if line.role == "body":
            return ~np.isin(numbers, [number for line_numbers in self._special.values() for number in line_numbers])
        return np.isin(numbers, self._special.get(line, []))


def opening_blocks(lines: Iterable[FormatLine]) -> list[list[Line]]:
    """Return the blocks at the start of a log that are among the lines of formats, each with its lines."""
    blocks: dict[tuple[str, str], list[Line]] = {}
    for form, line in lines:
        if line.role in ("begin", "body", "end") and line.under_header:
            blocks.setdefault((form.name, line.name), []).append(line)
    return [block for block in blocks.values() if any(line.role == "begin" for line in block)]


def find_opening_block(head: Chunk, blocks: Iterable[Sequence[Line]]) -> OpeningBlock | None:
    """Find the block at the start of a log.

    A line that ends the block may also be above its first line. Another block directly after it is part of it.

    Args:
        head: The first lines of the log.
        blocks: The blocks of all formats. See `opening_blocks`.

    Returns:
        The block; None if the log begins with none, if it does not end, or if some of its lines are no source.
    """
    return next((found for block in blocks if (found := _find(head, block)) is not None), None)


def _find(head: Chunk, block: Sequence[Line]) -> OpeningBlock | None:
    special: dict[Line, list[int]] = {}
    doubtful: list[bytes] = []
    alike: Counter[bytes] = Counter()
    begun, end = False, (0, 0)  # number of the last line, and bytes up to its end
    prefixes = tuple({line.template.prefix for line in block if line.role in ("begin", "end")})
    for number, size, text in _physical_lines(head):
        line = None
        if text.startswith(prefixes):
            line = _line_of(block, ("begin", "end") if end[0] or not begun else ("end",), text)
        if line is None and not begun and text.strip():
            return None  # the log begins with another line
        if number > MAX_LINES or (end[0] and text.strip() and (line is None or line.role == "end")):
            break
        if line is not None:
            special.setdefault(line, []).append(number)
            end = (number, size) if begun and line.role == "end" else (0, 0)  # after an end, a new begin goes on
            begun |= line.role == "begin"
        elif not text.startswith((b"  ", b"\t")) and _NUMBER.search(text):
            doubtful.append(text + b"\n")
            alike[_NUMBER.sub(b"0", text)] += 1
    if not end[0] or max(alike.values(), default=0) >= MAX_ALIKE:
        return None
    return OpeningBlock(*end, frozenset(block), special, b"".join(doubtful))


def _line_of(block: Sequence[Line], roles: Sequence[str], text: bytes) -> Line | None:
    """Return the Line of these roles that reads a string."""
    candidates = (line for line in block if line.role in roles and text.startswith(line.template.prefix))
    return next((line for line in candidates if line.template.regex.fullmatch(text.rstrip())), None)


def _physical_lines(chunk: Chunk) -> Iterator[tuple[int, int, bytes]]:
    """Yield number, end (offset) and bytes of the physical lines of a chunk."""
    returns, number, begin = frozenset(chunk.returns), chunk.first_line, 0
    while begin < chunk.size:
        end = chunk.data.index(b"\n", begin)
        while end in returns and end + 1 < chunk.size:  # a long line goes on in the next chunk
            end = chunk.data.index(b"\n", end + 1)
        yield number, end + 1, bytes(chunk.data[begin:end])
        number, begin = number + 1, end + 1
