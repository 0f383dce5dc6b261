"""Boundaries at which the JSON array of events is cut into pieces.

The bytes around a cut do not show whether it is inside a string or inside an event. They need not: a piece that begins
at a true boundary and decodes as whole events also ends at a true boundary. So `guess_cut` proposes a cut, decoding
proves it, and only where decoding fails `scan_elements` looks at every bracket.
"""

from __future__ import annotations

import json

import numpy as np
from msgspec import Struct

from perflog.arrays import Bytes, Ints
from perflog.lazy_patterns import lazy_pattern

_SEPARATOR = lazy_pattern(rb"\}(\s*),(\s*)\{")
_AFTER_LIST_IN_OBJECT = lazy_pattern(rb"\s*(?:,\s*(?:\"|\Z)|\}|\Z)")
_AFTER_LIST = lazy_pattern(rb"\s*\Z")
_TRAILER_BYTES = 1 << 10  # after the list of events, read to recognise it
_LONGEST_TOKEN = 64  # characters of a number or a word in which the piece may end
_QUOTE, _BACKSLASH = 34, 92


def find_separator(head: bytes) -> bytes:
    """Return what is between the first two events: `},{`, with the whitespace that the writer of this trace sets."""
    ends = scan_elements(head[: 1 << 16]).ends
    match = _SEPARATOR.match(head, int(ends[0]) - 1) if len(ends) else None
    return match[0] if match else b"},{"


def guess_cut(data: bytearray, size: int, separator: bytes) -> int:
    """Return the offset after the last event in data[:size] that seems whole; 0 if none does."""
    offset = data.rfind(separator, 0, size)
    return offset + 1 if offset >= 0 else 0


def split_at_separators(text: bytes, start: int, separator: bytes) -> tuple[list[tuple[int, int]], int]:
    """Return start and end of each piece that a separator ends, from `start` on, and the offset after the last one."""
    spans = []
    while (offset := text.find(separator, start)) >= 0:
        spans.append((start, offset + 1))
        start = offset + len(separator) - 1
    return spans, start


def is_end_of_list(tail: bytes, wrapped: bool) -> bool:
    """Return whether these bytes can follow the list of events: the end of the object or its next key; else nothing."""
    return (_AFTER_LIST_IN_OBJECT if wrapped else _AFTER_LIST).match(tail[:_TRAILER_BYTES]) is not None


def goes_on(text: bytes) -> bool:
    """Return whether bytes are the beginning of one object of JSON, without damage: then more of it is to come."""
    decoded = text.decode("utf-8", "replace")
    try:
        json.JSONDecoder(strict=False).raw_decode(decoded)
    except json.JSONDecodeError as error:
        return error.pos > len(decoded) - _LONGEST_TOKEN or error.msg.startswith("Unterminated string")
    except (ValueError, RecursionError):  # a number of thousands of digits; lists in lists in lists
        return False
    return False


class ScannedElements(Struct, frozen=True):
    """Elements at the top level of an array: `starts` and `ends` of the whole ones; `close`, the offset of the bracket
    that ends the array, or -1; `remainder`, the offset after the last whole element.
    """

    starts: Ints
    ends: Ints
    close: int
    remainder: int


def scan_elements(data: bytes | bytearray | memoryview) -> ScannedElements:
    """Find objects (or arrays) at the top level of an array that starts before data[0], by brackets outside strings."""
    text = np.frombuffer(data, np.uint8)
    quotes = _string_quotes(text)
    brackets = np.flatnonzero((text | 0x20 == 0x7B) | (text | 0x20 == 0x7D))  # { [ and } ]: they differ in one bit
    brackets = brackets[np.searchsorted(quotes, brackets) % 2 == 0]
    opens = text[brackets] | 0x20 == 0x7B
    depth = np.cumsum(np.where(opens, 1, -1))
    closing = np.flatnonzero(depth < 0)
    close = int(brackets[closing[0]]) if len(closing) else -1
    if close >= 0:
        brackets, opens, depth = brackets[: closing[0]], opens[: closing[0]], depth[: closing[0]]
    ends = brackets[(depth == 0) & ~opens] + 1
    starts = brackets[(depth == 1) & opens][: len(ends)]
    remainder = int(ends[-1]) if len(ends) else 0
    return ScannedElements(starts, ends, close, remainder)


class LongValue:
    """Finds the end of an object that is too long to be in memory at once, by its brackets outside strings.

    Its bytes come in pieces. Between two of them, the number of open brackets and the number of quotes are kept.
    """

    def __init__(self) -> None:
        self._depth, self._quotes = 0, 0

    def end_in(self, text: bytes) -> tuple[int, int]:
        """Read the next bytes. Return the offset after the end of the object, -1 if it goes on; and the bytes read.

        A backslash at the end is left for the next call: the byte that it escapes is not there yet.
        """
        data = np.frombuffer(text[: len(text.rstrip(b"\\"))], np.uint8)
        quotes = _string_quotes(data)
        brackets = np.flatnonzero((data | 0x20 == 0x7B) | (data | 0x20 == 0x7D))  # as in `scan_elements`
        # After an even number of quotes a bracket is outside strings.
        brackets = brackets[(np.searchsorted(quotes, brackets) + self._quotes) % 2 == 0]
        depth = self._depth + np.cumsum(np.where(data[brackets] | 0x20 == 0x7B, 1, -1))
        closing = np.flatnonzero(depth <= 0)
        if len(closing):
            end = int(brackets[closing[0]]) + 1
            return end, end
        self._depth = int(depth[-1]) if len(depth) else self._depth
        self._quotes += len(quotes)
        return -1, len(data)


def _string_quotes(text: Bytes) -> Ints:
    """Return the offsets of quotes that begin and end strings: those after an even number of backslashes."""
    quotes = np.flatnonzero(text == _QUOTE)
    after_backslash = np.flatnonzero(text[np.maximum(quotes - 1, 0)] == _BACKSLASH)
    escaped = [i for i in after_backslash.tolist() if _count_backslashes(text, int(quotes[i])) % 2]
    return np.delete(quotes, escaped)


def _count_backslashes(text: Bytes, end: int) -> int:
    count = 0
    while end - count > 0 and text[end - count - 1] == _BACKSLASH:
        count += 1
    return count
