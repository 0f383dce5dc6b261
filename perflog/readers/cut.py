"""Where to cut a JSON array that is read piece by piece.

A cut inside a string or inside an event cannot be told from the bytes around it. It need not be: a text that follows a
true boundary and decodes as whole elements ends at a true boundary too. So `guess` proposes a cut, decoding proves it,
and only where it fails does `scan` look at every bracket.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_BETWEEN = re.compile(rb"\}(\s*),(\s*)\{")
_BEHIND, _NOTHING = re.compile(rb"\s*(?:,\s*(?:\"|\Z)|\}|\Z)"), re.compile(rb"\s*\Z")
_LOOK = 1 << 10
_QUOTE, _BACKSLASH = 34, 92


def boundary(head: bytes) -> bytes:
    """What stands between two events, from the first of them: `},{`, or with the blanks that this writer sets."""
    spans = scan(head[: 1 << 16]).ends
    found = _BETWEEN.match(head, int(spans[0]) - 1) if len(spans) else None
    return found[0] if found else b"},{"


def guess(data: bytearray, size: int, between: bytes) -> int:
    """Offset behind the last event in data[:size] that seems whole, or 0 if none does."""
    at = data.rfind(between, 0, size)
    return at + 1 if at >= 0 else 0


def gaps(text: bytes, since: int, between: bytes) -> tuple[list[tuple[int, int]], int]:
    """Starts and ends of what stands between gaps from `since` on, and the offset of what stands behind the last."""
    spans = []
    while (at := text.find(between, since)) >= 0:
        spans.append((since, at + 1))
        since = at + len(between) - 1
    return spans, since


def is_end(tail: bytes, wrapped: bool) -> bool:
    """Whether this can stand behind the array of events: nothing, or for an object its end or its next key."""
    return (_BEHIND if wrapped else _NOTHING).match(tail[:_LOOK]) is not None


@dataclass(frozen=True)
class Scanned:
    """Elements at the top of an array: `starts` and `ends` of those that are whole; `close`: offset of the bracket that
    ends the array, or -1; `rest`: offset of what is not whole.
    """

    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    close: int
    rest: int


def scan(data: bytes | bytearray | memoryview) -> Scanned:
    """Objects (or arrays) at the top of an array whose text begins at data[0], by its brackets outside strings."""
    text = np.frombuffer(data, np.uint8)
    quotes = _quotes(text)
    marks = np.flatnonzero((text | 0x20 == 0x7B) | (text | 0x20 == 0x7D))  # { [ and } ]: they differ in one bit
    marks = marks[np.searchsorted(quotes, marks) % 2 == 0]
    opens = text[marks] | 0x20 == 0x7B
    depth = np.cumsum(np.where(opens, 1, -1))
    closing = np.flatnonzero(depth < 0)
    close = int(marks[closing[0]]) if len(closing) else -1
    if close >= 0:
        marks, opens, depth = marks[: closing[0]], opens[: closing[0]], depth[: closing[0]]
    ends = marks[(depth == 0) & ~opens] + 1
    starts = marks[(depth == 1) & opens][: len(ends)]
    rest = int(ends[-1]) if len(ends) else 0
    return Scanned(starts, ends, close, rest)


def _quotes(text: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Offsets of the quotes that begin and end strings: those behind an even number of backslashes."""
    quotes = np.flatnonzero(text == _QUOTE)
    doubtful = np.flatnonzero(text[np.maximum(quotes - 1, 0)] == _BACKSLASH)
    escaped = [i for i in doubtful.tolist() if _backslashes(text, int(quotes[i])) % 2]
    return np.delete(quotes, escaped)


def _backslashes(text: npt.NDArray[np.uint8], end: int) -> int:
    count = 0
    while end - count > 0 and text[end - count - 1] == _BACKSLASH:
        count += 1
    return count
