"""JSON repair: events that are almost JSON, as tools write them, made valid JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator

from perflog.lazy_patterns import lazy_pattern

_NO_NUMBER = rb"([:,\[]\s*)[+-]?(?:nan|inf(?:inity)?)(?=\s*[,}\]])"
_STRING = rb'"(?:[^"\\]|\\.)*"'

BARE_NAN = lazy_pattern(_NO_NUMBER, re.IGNORECASE)
"""A bare nan or inf, which JSON does not have, outside strings."""

TIMESTAMP = lazy_pattern(rb'"ts"\s*:\s*("[^"]*"|[^\s,}]+)')
"""The timestamp of an event, as it is printed."""

_STRING_OR_BARE_NAN = lazy_pattern(b"%s|%s" % (_STRING, _NO_NUMBER), re.IGNORECASE)
_NAME = lazy_pattern(
    rb'("name"\s*:\s*")(.*?)("\s*,\s*"(?:ph|cat|pid|tid|ts|dur|args|id|s|bp|ctrl_deps)"\s*:)', re.DOTALL
)


def repaired_variants(text: bytes) -> Iterator[bytes]:
    """Give an event as it is, then with more and more repaired."""
    yield text
    text = replace_bare_nan(text)
    yield text
    yield _escape_quotes_in_name(text)


def replace_bare_nan(text: bytes) -> bytes:
    """Return the bytes with null for each nan and inf outside strings."""
    return _STRING_OR_BARE_NAN.sub(lambda match: match[1] + b"null" if match[1] else match[0], text)


def _escape_quotes_in_name(text: bytes) -> bytes:
    """Escape the quotes in an event's name, which PyTorch does not. The name ends where the next key begins."""
    return _NAME.sub(lambda m: m[1] + m[2].replace(b"\\", b"\\\\").replace(b'"', b'\\"') + m[3], text, count=1)
