"""Time stamps that a CI system or a collector puts before each line: they become labels of the lines.

    [2026-02-24T08:52:13.374Z] [rank0]: step 1, loss 2.5          Jenkins
    2026-02-24T08:52:13.3741234Z [rank0]: step 1, loss 2.5        GitHub Actions, `kubectl logs --timestamps`
    2026-02-24 08:52:25     4096     1024     float     sum       `ts`

Each becomes a label, as in the records of a container runtime: `[pod/stdout 2026-02-24T08:52:13.374Z] [rank0]:
step 1, loss 2.5`. A logger prints stamps without a zone: they become labels only in a log with a table, whose rows have
no words that would tell them after a prefix.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable

from perflog.formats.vocabulary import LEVEL
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.input.logger_blocks import lines_of

_DAY, _TIME = (
    rb"[0-9]{4}-[0-9]{2}-[0-9]{2}",
    rb"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?(?:Z|[+-][0-9]{2}:[0-9]{2})?",
)
_STAMPED = lazy_pattern(
    rb"(?:\[(?P<day>" + _DAY + rb")[T ](?P<time>" + _TIME + rb")\]"
    rb"|(?P<bare_day>" + _DAY + rb")[T ](?P<bare_time>" + _TIME + rb"))(?: (?P<text>[^\n]*))?(?P<end>\n?)"
)
_RULE = lazy_pattern(rb"[ \t]*[-=+|:*_#][-=+|:*_# \t]{7,}\r?")
"""A line under the header of a table."""

_NUMBER = rb"[-+]?[0-9][0-9.,]*"
_ROW = lazy_pattern(
    rb"[ \t]*"
    + _NUMBER
    + rb"[ \t]+"
    + _NUMBER
    + rb"(?:[ \t]+[A-Za-z]+){0,3}(?:[ \t]+(?:"
    + _NUMBER
    + rb"|N/A)){2,}[ \t]*\r?"
)
"""A row of a table that has at least four numbers, and words among them."""

_ZONED = lazy_pattern(rb"\[?[0-9-]{10}T[0-9:]{8}\.[0-9]{3,9}Z\]? ")
_LEVELLED = lazy_pattern(rb"[ \t]*[\[(]?" + LEVEL.encode() + rb"\b")
_OWN_STAMPS = lazy_pattern(rb"(?i)[# \t]*(?:time|date)")
"""The header of a table whose own column the stamps are."""

_LOOKED_AT = 200  # first lines
_FEWEST = 4  # of them
_NEARLY_ALL = 0.9


def are_stamped(head: bytes) -> bool:
    """Return whether nearly all lines of a log have a time stamp before them that is not the program's own."""
    lines = [line for line in head.split(b"\n", _LOOKED_AT)[:_LOOKED_AT] if line.strip()]
    found = [_STAMPED.fullmatch(line) for line in lines]
    bodies = [match["text"] or b"" for match in found if match is not None]
    if len(bodies) < max(_FEWEST, _NEARLY_ALL * len(lines)):
        return False
    if any(match is None and _OWN_STAMPS.match(line) for match, line in zip(found, lines, strict=True)):
        return False
    if any(_RULE.fullmatch(body) or _ROW.fullmatch(body) for body in bodies):
        return True
    levels = sum(_LEVELLED.match(body) is not None for body in bodies)
    return 2 * levels < len(bodies) and all(_ZONED.match(line) for line in lines)


def without_stamps(blocks: Iterable[bytes]) -> Generator[bytes]:
    """Yield the bytes of a log, with a label instead of the stamp before each line."""
    for line in lines_of(blocks):
        match = _STAMPED.fullmatch(line)
        if match is None:
            yield line
            continue
        time = (match["day"] or match["bare_day"]) + b"T" + (match["time"] or match["bare_time"])
        yield b"[pod/stdout " + time + b"] " + (match["text"] or b"") + match["end"]
