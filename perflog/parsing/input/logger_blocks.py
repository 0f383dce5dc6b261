"""Records of Julia's logger, which prints each pair on a line of its own.

    ┌ Info: Training            [ Info: Training, step = 100, loss = 2.5
    │   step = 100
    └   loss = 2.5f0

Each becomes one line, as the logger prints a record without pairs, and an empty line replaces each other line of it.
So lines keep their numbers. A record with a value over several lines, such as a matrix, stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator

from perflog.lazy_patterns import lazy_pattern

_BEGIN = lazy_pattern("\u250c (?P<text>[A-Z]\\w*: .*)".encode())
_PAIR = lazy_pattern("(?:\u2502|\u2514)   (?P<text>[^\\W\\d]\\S* = .*)".encode())
_PLACE = lazy_pattern("\u2514 @ .*".encode())
_END = "\u2514".encode()
_FIRST = lazy_pattern("^\u250c [A-Z]\\w*: .*\n(?:\u2502|\u2514)".encode(), re.MULTILINE)
_SINGLE = lazy_pattern(rb"(?<=[0-9])f(?:0|(?P<exponent>-?[0-9]+))\b")
_MOST_LINES = 256


def has_blocks(head: bytes) -> bool:
    """Return whether a log has such records, given its first bytes."""
    return _FIRST.search(head) is not None


def joined_blocks(blocks: Iterable[bytes]) -> Generator[bytes]:
    """Yield the bytes of a log with each record on one line."""
    held: list[bytes] = []
    for line in lines_of(blocks):
        if (held and not line.startswith((b"\xe2\x94\x82", _END))) or len(held) == _MOST_LINES:
            yield b"".join(held)
            held = []
        if not held and _BEGIN.match(line) is None:
            yield line
            continue
        held.append(line)
        if line.startswith(_END):
            yield _joined(held)
            held = []
    yield b"".join(held)


def _joined(lines: list[bytes]) -> bytes:
    begin = _BEGIN.match(lines[0])
    pairs = [_PAIR.match(line) for line in lines[1:] if _PLACE.match(line) is None]
    if begin is None or not all(pairs):
        return b"".join(lines)
    texts = [begin["text"].strip(), *(_SINGLE.sub(_exponent, pair["text"].strip()) for pair in pairs if pair)]
    return b"[ " + b", ".join(texts) + b"\n" * sum(line.endswith(b"\n") for line in lines)


def _exponent(match: re.Match[bytes]) -> bytes:
    return b"e" + match["exponent"] if match["exponent"] else b""


def lines_of(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of blocks of bytes, with their ends."""
    rest = b""
    for block in blocks:
        *lines, rest = (rest + block).split(b"\n")
        yield from (line + b"\n" for line in lines)
    if rest:
        yield rest
