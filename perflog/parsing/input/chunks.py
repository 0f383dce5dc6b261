"""Chunks of a log: whole lines, cleaned of escapes, NULs and carriage returns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.input.bar_cuts import bar_cuts


class Stream(Protocol):
    """Bytes of a log. `left` is an upper bound of the bytes left; `fill` reads until the room is full or they end."""

    left: int

    def fill(self, room: memoryview) -> int: ...


CHUNK = 6 << 20
"""Bytes of log per chunk."""

LONGEST = 1 << 20
"""A segment of more bytes is cut: a chunk holds only its first `KEPT` bytes, and it is never matched."""

KEPT = 64 << 10
"""Bytes kept of a segment that is cut."""

SLACK = 64
"""Zero bytes after a chunk's last byte, so that words of eight bytes can be gathered at its end."""

PIECE = 64 << 10
"""Bytes that are cleaned or decompressed at a time."""

# Escape sequences: CSI such as colours, OSC such as window titles, and others. Their length is bounded, so that a
# sequence that never ends holds back no more than _MAX_ESCAPE bytes.
_CSI, _OSC, _OTHER = rb"\[[0-?]{0,64}[ -/]{0,8}", rb"\][^\x07\x1b\r\n]{0,4096}", rb"[ -/]{0,8}"
_ESCAPE = lazy_pattern(rb"\x1b(?:%s[@-~]|%s(?:\x07|\x1b\\)|%s[0-~])?" % (_CSI, _OSC, _OTHER))
_UNFINISHED_ESCAPE = lazy_pattern(rb"\x1b(?:%s|%s\x1b?|%s)\Z" % (_CSI, _OSC, _OTHER))
_MAX_ESCAPE = 4096 + 8

_RETURNS = lazy_pattern(rb"\r+")
_MINUS = b"\xe2\x88\x92"  # U+2212, which documents print for a hyphen
_SIGN = lazy_pattern(_MINUS + rb"(?=[0-9.])")
_UNFINISHED_SIGN = _MINUS[:1], _MINUS[:2], _MINUS
_CLEANED = b"\r", b"\x1b", b"\0", _MINUS
_FINISHED = b"})]|;%\"'"  # nothing after them belongs to a number before them; after a space, its unit may


@dataclass(slots=True)
class Chunk:
    """Whole lines of a log.

    Attributes:
        data: `data[:size]` are lines, each ended by LF; `data[size : size + SLACK]` is zero.
        size: bytes of the lines.
        first_line: number of the first physical line, from 1.
        lines: number of physical lines.
        returns: offset of each LF that replaces lone CRs: it ends a segment, not a physical line.
        cut: offset at which each segment begins that was cut.
        is_last: whether the log is known to end with these lines.
        unfinished: offset at which each line begins that ends a log without line feed: its last number may lack digits.
    """

    data: bytearray
    size: int
    first_line: int
    lines: int
    returns: list[int]
    cut: list[int]
    is_last: bool = False
    unfinished: list[int] = field(default_factory=list)


class _Cleaner:
    """Removes NUL bytes, escape sequences and the CRs of CRLF; of several lone CRs in a row it keeps one.

    The minus sign of a number becomes a hyphen.
    """

    def __init__(self) -> None:
        self.skipping = False  # inside a segment that is cut: drop bytes up to its end
        self.held = b""  # a CR, an unfinished escape sequence or sign: only the next bytes decide its meaning

    def clean(self, raw: bytearray, last: bool) -> bytes:
        """Return the bytes cleaned; they do not end with a CR."""
        text, self.held = self.held + raw.replace(b"\0", b""), b""
        if b"\x1b" in text:
            if not last and (match := _UNFINISHED_ESCAPE.search(text, max(0, len(text) - _MAX_ESCAPE))):
                text, self.held = text[: match.start()], match[0]
            text = _ESCAPE.sub(b"", text)
        if b"\xe2\x88" in text or (not last and text.endswith(_UNFINISHED_SIGN)):
            text = _SIGN.sub(b"-", text)
            unfinished = next((end for end in _UNFINISHED_SIGN if not last and text.endswith(end)), b"")
            text, self.held = text[: len(text) - len(unfinished)], unfinished + self.held
        if b"\r" in text:
            text = _RETURNS.sub(b"\r", text).replace(b"\r\n", b"\n")
            if text.endswith(b"\r"):
                text, self.held = text[:-1], b"" if last else b"\r" + self.held
        if self.skipping:
            end = re.search(rb"[\r\n]", text)
            text, self.skipping = text[end.start() if end else len(text) :], not end
        return text


def clean_blocks(stream: Stream, size: int) -> Iterator[tuple[bytearray, int, bool, bool]]:
    """Yield the cleaned bytes in blocks of about `size` bytes, as (data, end, whether nothing follows, is_unfinished).

    `is_unfinished`: the last line may go on. It has no line feed, and does not end with a mark that ends a number.
    data[:end] ends with LF, or within a long line with CR. At least SLACK bytes of room follow.
    """
    cleaner, tail, last = _Cleaner(), bytearray(), False
    while not last:
        begin, room = len(tail), min(size, stream.left)
        data = bytearray(begin + room + 1 + SLACK)
        data[:begin] = tail
        with memoryview(data) as view:
            count = stream.fill(view[begin : begin + room])
        last, filled, is_unfinished = count < size, begin + count, False
        ends_in_return = filled > 0 and data[filled - 1] == 13
        has_part_of_sign = data.endswith(_UNFINISHED_SIGN, begin, filled)
        if (
            has_part_of_sign
            or cleaner.held
            or cleaner.skipping
            or any(data.find(mark, begin, filled) >= 0 for mark in _CLEANED)
        ):
            starts = range(
                begin, max(filled, begin + 1), PIECE
            )  # by pieces: a substitution takes memory for each match
            ends = [*starts[1:], filled]
            data[begin:] = b"".join(
                [cleaner.clean(data[a:b], last and b == filled) for a, b in zip(starts, ends, strict=True)]
            )
            filled = len(data)
            data += bytes(1 + SLACK)
        if last and filled and data[filled - 1] != 10:
            is_unfinished = not ends_in_return and data[filled - 1] not in _FINISHED
            data[filled] = 10
            filled += 1
        end = _end_of_lines(data, filled, last)
        if filled - end > LONGEST:
            end = max(end, data.rfind(b"\r", end, filled) + 1)
        cleaner.skipping = filled - end > LONGEST
        tail = data[end : min(filled, end + LONGEST + 1)]  # one more than LONGEST shows that it is to be cut
        if end:
            yield data, end, last, is_unfinished


def _end_of_lines(data: bytearray, filled: int, last: bool) -> int:
    """Return where the whole lines of data[:filled] end. Empty lines stay with the line above, if they are few."""
    end = data.rfind(b"\n", 0, filled) + 1
    if not last and end == filled:
        low = max(filled - PIECE, 0)
        text_end = low + len(data[low:filled].rstrip(b"\n"))
        end = data.rfind(b"\n", low, text_end) + 1 or (0 if filled < PIECE else end)
    return end


def to_chunk(data: bytearray, end: int, line: int, is_last: bool = False, is_unfinished: bool = False) -> Chunk:
    """Make a chunk of data[:end], from line number `line` on. Lone CRs become LFs, long segments are cut."""
    import numpy as np  # counts newlines ten times as fast as bytearray.count

    data, end = _with_bars_apart(data, end)
    lines = int(np.count_nonzero(np.frombuffer(data, np.uint8, end) == 10))
    data[end : end + SLACK] = bytes(SLACK)
    returns: list[int] = []
    if data.find(b"\r", 0, end) >= 0:
        returns = [match.start() for match in _RETURNS.finditer(data, 0, end)]
        for offset in returns:
            data[offset] = 10
    long, start = [], 0
    while end - start > LONGEST:
        stop = data.rfind(b"\n", start, start + LONGEST + 1)
        if stop < 0:
            stop = data.index(b"\n", start)
            long.append((start, stop))
        start = stop + 1
    cut: list[int] = []
    for start, stop in reversed(long):
        removed = stop - start - KEPT
        del data[start + KEPT : stop]
        end -= removed
        returns = [offset - removed if offset >= stop else offset for offset in returns]
        cut = [start, *(offset - removed for offset in cut)]
    unfinished = [data.rfind(b"\n", 0, end - 1) + 1] if is_unfinished else []
    return Chunk(data, end, line, lines, returns, cut, is_last, unfinished)


def _with_bars_apart(data: bytearray, end: int) -> tuple[bytearray, int]:
    """Return lines, and where they end, with a lone CR between the states of progress bars and other output."""
    cuts = bar_cuts(data, end)
    if not cuts:
        return data, end
    parts = b"\r".join([data[a:b] for a, b in zip([0, *cuts], [*cuts, end], strict=True)])
    return bytearray(parts + bytes(1 + SLACK)), len(parts)


def as_chunk(lines: bytes) -> Chunk:
    """Make a chunk of clean lines, each ended by LF."""
    return Chunk(bytearray(lines + bytes(SLACK)), len(lines), 1, lines.count(b"\n"), [], [])


def join_chunks(first: Chunk, second: Chunk) -> Chunk:
    """Join two chunks that follow one another."""
    size = first.size
    return Chunk(
        first.data[:size] + bytes(second.data[: second.size]) + bytes(SLACK),
        size + second.size,
        first.first_line,
        first.lines + second.lines,
        [*first.returns, *(offset + size for offset in second.returns)],
        [*first.cut, *(offset + size for offset in second.cut)],
        unfinished=[*first.unfinished, *(offset + size for offset in second.unfinished)],
    )
