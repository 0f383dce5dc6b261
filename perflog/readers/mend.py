"""Texts that are almost JSON, as tools write them, made JSON."""

from __future__ import annotations

import re

TIME = re.compile(rb'"ts"\s*:\s*("[^"]*"|[^\s,}]+)')
"""The time of an event, as it is printed."""

BARE = re.compile(rb"[:,\[]\s*[+-]?(?:nan|inf(?:inity)?)(?=\s*[,}\]])", re.IGNORECASE)
"""A number that is none in JSON, if it stands outside strings."""

_STRING, _BARE = rb'"(?:[^"\\]|\\.)*"', rb"([:,\[]\s*)[+-]?(?:nan|inf(?:inity)?)(?=\s*[,}\]])"
_NAME = re.compile(rb'("name"\s*:\s*")(.*?)("\s*,\s*"(?:ph|cat|pid|tid|ts|dur|args|id|s|bp)"\s*:)', re.DOTALL)
_BARE_OR_STRING = re.compile(b"%s|%s" % (_STRING, _BARE), re.IGNORECASE)


def without_bare(text: bytes) -> bytes:
    """The text with null for each nan and inf that stands outside strings."""
    return _BARE_OR_STRING.sub(lambda found: found[1] + b"null" if found[1] else found[0], text)


def escaped(text: bytes) -> bytes:
    """An event with the quotes in its name escaped, which PyTorch leaves as they are: it ends before the next key."""
    bare = without_bare(text)
    return _NAME.sub(lambda m: m[1] + m[2].replace(b"\\", b"\\\\").replace(b'"', b'\\"') + m[3], bare, count=1)
