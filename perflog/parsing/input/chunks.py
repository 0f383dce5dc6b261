"""Chunks of a log: whole lines, cleaned of escapes, NULs and carriage returns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol


class Stream(Protocol):
    """Bytes of a log: `left` is at least what is left of them, `fill` reads until the room is full or they end."""

    left: int

    def fill(self, room: memoryview) -> int: ...


CHUNK = 6 << 20

"""Bytes of log per chunk."""

LONGEST = 1 << 20

"""A longer segment is cut: only its first `KEPT` bytes are given, and it is never matched."""

KEPT = 64 << 10

"""Bytes given of a segment that is cut."""

SLACK = 64

"""Zero bytes after a chunk's last byte, so that 8-byte words can be gathered at its end."""

PIECE = 64 << 10

# Bounded, so that a sequence that never ends holds back no more than _ESCAPE_MAX bytes.
_CSI, _OSC, _OTHER = rb"\[[0-?]{0,64}[ -/]{0,8}", rb"\][^\x07\x1b\r\n]{0,4096}", rb"[ -/]{0,8}"

_ESCAPE = re.compile(rb"\x1b(?:%s[@-~]|%s(?:\x07|\x1b\\)|%s[0-~])?" % (_CSI, _OSC, _OTHER))

_ESCAPE_BEGUN = re.compile(rb"\x1b(?:%s|%s\x1b?|%s)\Z" % (_CSI, _OSC, _OTHER))

_ESCAPE_MAX = 4096 + 8

_RETURNS = re.compile(rb"\r+")


@dataclass(slots=True)
class Chunk:
    """Whole lines of a log."""

    data: bytearray  # data[:size] are lines, each ended by b"\n"; data[size : size + SLACK] is zero
    size: int
    first_line: int  # number of its first physical line, from 1
    lines: int  # physical lines in it
    returns: list[int]  # offsets of each b"\n" that stands for lone CRs: it ends a segment, not a physical line
    cut: list[int]  # offsets of the starts of segments that were cut


class _Cleaner:
    """Takes out NUL bytes, escape sequences and all CRs but one for each run of lone ones."""

    def __init__(self) -> None:
        self.skipping = False  # within a segment of which enough is known
        self.held = b""  # what only the next bytes can decide: a CR, the begin of an escape sequence

    def clean(self, raw: bytearray, last: bool) -> bytes:
        """`raw` cleaned; it does not end with a CR."""
        text, self.held = self.held + raw.replace(b"\0", b""), b""
        if b"\x1b" in text:
            if not last and (begun := _ESCAPE_BEGUN.search(text, max(0, len(text) - _ESCAPE_MAX))):
                text, self.held = text[: begun.start()], begun[0]
            text = _ESCAPE.sub(b"", text)
        if b"\r" in text:
            text = _RETURNS.sub(b"\r", text).replace(b"\r\n", b"\n")
            if text.endswith(b"\r"):
                text, self.held = text[:-1], b"" if last else b"\r" + self.held
        if self.skipping:
            end = re.search(rb"[\r\n]", text)
            text, self.skipping = text[end.start() if end else len(text) :], not end
        return text


def blocks(stream: Stream, size: int) -> Iterator[tuple[bytearray, int]]:
    """Cleaned data[:end], ended by LF, or by CR within a long line; SLACK + 1 bytes of room and more follow."""
    cleaner, tail, last = _Cleaner(), bytearray(), False
    while not last:
        begin, room = len(tail), min(size, stream.left)
        data = bytearray(begin + room + 1 + SLACK)
        data[:begin] = tail
        with memoryview(data) as view:
            got = stream.fill(view[begin : begin + room])
        last, filled = got < size, begin + got
        if cleaner.held or cleaner.skipping or any(data.find(mark, begin, filled) >= 0 for mark in b"\r\x1b\0"):
            starts = range(begin, max(filled, begin + 1), PIECE)  # by pieces: a substitution takes room per match
            ends = [*starts[1:], filled]
            data[begin:] = b"".join(
                [cleaner.clean(data[a:b], last and b == filled) for a, b in zip(starts, ends, strict=True)]
            )
            filled = len(data)
            data += bytes(1 + SLACK)
        if last and filled and data[filled - 1] != 10:
            data[filled] = 10
            filled += 1
        end = data.rfind(b"\n", 0, filled) + 1
        if filled - end > LONGEST:
            end = max(end, data.rfind(b"\r", end, filled) + 1)
        cleaner.skipping = filled - end > LONGEST
        tail = data[end : min(filled, end + LONGEST + 1)]  # one more than LONGEST shows that it is to be cut
        if end:
            yield data, end


def whole(data: bytearray, end: int, line: int) -> Chunk:
    """The chunk of data[:end], whose first line has number `line`."""
    import numpy as np  # counts newlines ten times as fast as bytearray.count

    lines = int(np.count_nonzero(np.frombuffer(data, np.uint8, end) == 10))
    data[end : end + SLACK] = bytes(SLACK)
    returns: list[int] = []
    if data.find(b"\r", 0, end) >= 0:
        returns = [match.start() for match in _RETURNS.finditer(data, 0, end)]
        for at in returns:
            data[at] = 10
    long, start = [], 0
    while end - start > LONGEST:
        stop = data.rfind(b"\n", start, start + LONGEST + 1)
        if stop < 0:
            stop = data.index(b"\n", start)
            long.append((start, stop))
        start = stop + 1
    cut: list[int] = []
    for start, stop in reversed(long):
        less = stop - start - KEPT
        del data[start + KEPT : stop]
        end -= less
        returns = [at - less if at >= stop else at for at in returns]
        cut = [start, *(at - less for at in cut)]
    return Chunk(data, end, line, lines, returns, cut)


def joint(first: Chunk, second: Chunk) -> Chunk:
    """Two chunks that follow one another as one."""
    size = first.size
    return Chunk(
        first.data[:size] + bytes(second.data[: second.size]) + bytes(SLACK),
        size + second.size,
        first.first_line,
        first.lines + second.lines,
        [*first.returns, *(at + size for at in second.returns)],
        [*first.cut, *(at + size for at in second.cut)],
    )
