"""Logs in which all lines are indented, as a block of code in Markdown is: their lines without the indent.

Only what is before each line is removed, so that what is indented further stays so.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable

from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.input.logger_blocks import lines_of

_FENCE = lazy_pattern(rb"[ \t]*(?:```|~~~).*")
_FIRST = lazy_pattern(rb"(?:[ \t]*(?:(?:```|~~~)[^\n]*)?\r?\n)*(?P<indent>(?: {4}|\t)[ \t]*)\S")
_FEWEST = 4  # lines


def indent_of(head: bytes) -> bytes:
    """Return the whitespace before all lines of a log, given its first bytes; b"" if there is none.

    Markdown asks for four spaces or a tab. Two are before lines that are parts of something.
    """
    first = _FIRST.match(head)
    if first is None:
        return b""
    indent, count = bytes(first["indent"]), 0
    for line in head.splitlines():
        if line.strip() and not _FENCE.fullmatch(line):
            count += 1
            while not line.startswith(indent):
                indent = indent[:-1]
            if not indent.startswith((b"    ", b"\t")):
                return b""
    return indent if count >= _FEWEST else b""


def without_indent(indent: bytes, blocks: Iterable[bytes]) -> Generator[bytes]:
    """Yield the bytes of a log without the whitespace before its lines."""
    for line in lines_of(blocks):
        yield line.removeprefix(indent)
