"""Logs in which all lines are indented, as a block of code in Markdown is: their lines without the indent.

Only what is before each line is removed, so that what is indented further stays so. The same holds for a log in the
comments of a script: `# {'loss': 2.5, 'epoch': 0.1}`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable

from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.input.logger_blocks import lines_of

_FENCE = lazy_pattern(rb"[ \t]*(?:```|~~~).*")
_FIRST = lazy_pattern(rb"(?:[ \t]*(?:(?:```|~~~)[^\n]*)?\r?\n)*(?P<indent>(?: {4}|\t)[ \t]*)\S")
_FEWEST = 4  # lines
_COMMENT = b"# "
_RECORD = lazy_pattern(rb"# *\{['\"]\w+['\"]: ")  # programs print single lines with this mark, but no such records
_NEARLY_ALL = 0.8  # of the lines


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


def comment_mark_of(head: bytes) -> bytes:
    """Return the mark before nearly all lines of a log in the comments of a script, given its first bytes; else b""."""
    lines = [line for line in head.splitlines() if line.strip()]
    marked = [line for line in lines if line.startswith(_COMMENT)]
    are_comments = len(marked) >= max(_FEWEST, _NEARLY_ALL * len(lines))
    return _COMMENT if are_comments and sum(_RECORD.match(line) is not None for line in marked) >= _FEWEST else b""


def without_indent(indent: bytes, blocks: Iterable[bytes]) -> Generator[bytes]:
    """Yield the bytes of a log without the whitespace or the mark before its lines."""
    for line in lines_of(blocks):
        yield line.removeprefix(indent)
