"""Tables below time stamps that a CI system or a collector puts before each line: the stamps as labels of the lines.

    [2026-02-24T08:52:13.374Z] Block Size (B)   Latency (us)       Jenkins
    2026-02-24T08:52:13.3741234Z ------------------------          GitHub Actions, `kubectl logs --timestamps`
    2026-02-24 08:52:25 4096             17.8                      `ts`

A row of a table has no words that would tell it after a prefix. So the stamp becomes a label, as it does in the records
of a container runtime: `[pod/stdout 2026-02-24T08:52:13.374Z] Block Size (B)`. A log without a table stays as it is.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable

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

_LOOKED_AT = 200  # first lines
_FEWEST = 4  # of them
_NEARLY_ALL = 0.9


def are_stamped(head: bytes) -> bool:
    """Return whether nearly all lines of a log have a time stamp before them and some are a table, given its begin."""
    lines = [line for line in head.split(b"\n", _LOOKED_AT)[:_LOOKED_AT] if line.strip()]
    bodies = [match["text"] or b"" for line in lines if (match := _STAMPED.fullmatch(line)) is not None]
    if len(bodies) < max(_FEWEST, _NEARLY_ALL * len(lines)):
        return False
    return any(_RULE.fullmatch(body) for body in bodies)


def without_stamps(blocks: Iterable[bytes]) -> Generator[bytes]:
    """Yield the bytes of a log, with a label instead of the stamp before each line."""
    for line in lines_of(blocks):
        match = _STAMPED.fullmatch(line)
        if match is None:
            yield line
            continue
        time = (match["day"] or match["bare_day"]) + b"T" + (match["time"] or match["bare_time"])
        yield b"[pod/stdout " + time + b"] " + (match["text"] or b"") + match["end"]
