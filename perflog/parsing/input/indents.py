"""Logs in which all lines are indented, as a block of code in Markdown is: their lines without the indent.

Only what is before each line is removed, so that what is indented further stays so.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from os.path import commonprefix

from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.input.logger_blocks import lines_of

_FENCE = lazy_pattern(rb"[ \t]*(?:```|~~~).*")
_INDENT = lazy_pattern(rb"[ \t]*")
_LEAST = (b"    ", b"\t")  # what Markdown asks for
_FEWEST = 4  # lines


def indent_of(head: bytes) -> bytes:
    """Return the whitespace before all lines of a log, given its first bytes; b"" if there is none.

    Example:
        >>> indent_of(b"    step 1\\n      loss 2.5\\n    step 2\\n      loss 2.5\\n"), indent_of(b"step 1\\n    loss 2.5\\n")
        (b'    ', b'')
    """
    indents = []
    for line in head.splitlines():
        if line.strip() and not _FENCE.fullmatch(line):
            indents.append(_INDENT.match(line)[0])  # type: ignore[index]  # it matches any line
            if not indents[-1].startswith(_LEAST):
                return b""
    return bytes(commonprefix(indents)) if len(indents) >= _FEWEST else b""


def without_indent(indent: bytes, blocks: Iterable[bytes]) -> Generator[bytes]:
    """Yield the bytes of a log without the whitespace before its lines."""
    for line in lines_of(blocks):
        yield line.removeprefix(indent)
