"""Emphasis in lists of Markdown: `- **TTFT**: 12.5 ms` and ``- peak memory: `61.2` GiB`` without their marks.

Results are copied into documents with such marks around names and numbers. Only marks in pairs are removed, in items of
a list and in lines that begin with one, so that a line keeps its number and everything else.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable

from perflog.lazy_patterns import lazy_pattern

_MARKED = rb"\*\*[^*\n]+\*\*|`[^`\n]+`"
_ITEM = rb"[ \t]*(?:(?:[-*+]|[0-9]{1,3}\.)[ \t]+)?"
_NAME = rb"(?:" + _MARKED + rb")[ \t]*[:=]|\*\*[^*\n]+:\*\*[ \t]"
_NUMBER = rb"[A-Za-z][^:=\n]*[:=][ \t]*(?:\*\*|`)[0-9]"
_FIRST = lazy_pattern(rb"^" + _ITEM + rb"(?:" + _NAME + rb"|" + _NUMBER + rb")", re.MULTILINE)
_LINE = lazy_pattern(rb"^(?:" + _ITEM + rb"(?=\*\*|`)|[ \t]*(?:[-*+]|[0-9]{1,3}\.)[ \t]+).*$", re.MULTILINE)
_PAIR = lazy_pattern(rb"\*\*([^*\n]+)\*\*|`([^`\n]+)`")


def has_emphasis(head: bytes) -> bool:
    """Return whether a log has such lines, given its first bytes."""
    return (b"`" in head or b"**" in head) and _FIRST.search(head) is not None


def without_emphasis(blocks: Iterable[bytes]) -> Generator[bytes]:
    """Yield the bytes of a log without the marks."""
    rest = b""
    for block in blocks:
        lines, end, rest = (rest + block).rpartition(b"\n")
        yield _LINE.sub(_plain, lines) + end
    yield _LINE.sub(_plain, rest)


def _plain(line: re.Match[bytes]) -> bytes:
    return _PAIR.sub(lambda match: match[1] or match[2], line[0])
