"""Errors of programs in the lines of a log: an exception of Python, or a process that the system ended."""

from __future__ import annotations

from collections.abc import Iterable

from perflog.lazy_patterns import lazy_pattern

_TRACEBACK = "Traceback (most recent call last)"
_EXCEPTION = lazy_pattern(r"(?:^|[\s\]:])((?:\w+\.)*[A-Z]\w*(?:Error|Exception|Interrupt)(?:\(\w+\))?(?:: .*)?)$")
_ENDED_BY_SYSTEM = lazy_pattern(
    r"Segmentation fault|Bus error|\(core dumped\)|Out of memory: Killed|oom.kill event|CANCELLED AT .* DUE TO"
)


def first_error(lines: Iterable[tuple[int, str]]) -> tuple[int, str] | None:
    """Return the first of these lines that tells an error, and what it tells; of a torn log perhaps the traceback."""
    traceback = None
    for line, text in lines:
        if traceback is None and _TRACEBACK in text:
            traceback = line, text.strip()
        exception = _EXCEPTION.search(text) if traceback else None
        if exception or _ENDED_BY_SYSTEM.search(text):
            return line, exception[1] if exception else text.strip()
    return traceback
