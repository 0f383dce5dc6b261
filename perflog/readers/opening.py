"""How a Chrome trace begins and ends: what it says of itself before its events and behind them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

import msgspec

from perflog.readers.cut import scan

HEAD = 1 << 20
"""Bytes at the beginning of a file in which its events begin, or it is no trace."""

_LIST = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[\s*(?=\{)")
_OBJECT = re.compile(rb"(?:\xef\xbb\xbf)?\s*\{")
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')


@dataclass(frozen=True)
class Opening:
    """Where the first event begins, what stands before it, and whether it all is wrapped in an object."""

    begin: int
    said: dict[str, Any] = field(default_factory=dict)
    wrapped: bool = True


def opening(head: bytes) -> Opening | None:
    """The beginning of a trace: an object with a list `traceEvents`, or that list alone; None for anything else."""
    if found := _LIST.match(head):
        first = scan(head[found.end() : found.end() + (1 << 16)])
        text = head[found.end() : found.end() + int(first.ends[0])] if len(first.ends) else b""
        return Opening(found.end(), {}, wrapped=False) if _is_event(text) else None
    if not _OBJECT.match(head):
        return None
    for found in _EVENTS.finditer(head):
        said = _object(head[: found.end()] + b"]}")
        if said is not None and "traceEvents" in said:
            del said["traceEvents"]
            return Opening(found.end(), said)
    return None


def ending(tail: bytes) -> dict[str, Any] | None:
    """What stands behind the events; None if that cannot be read."""
    return _object(b'{"":0' + tail)


def _is_event(text: bytes) -> bool:
    try:
        event = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    phase = event.get("ph") if isinstance(event, dict) else None
    return isinstance(phase, str) and len(phase) == 1 and ("ts" in event or phase == "M")


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(text.decode("utf-8-sig", "replace"), strict=False)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict):
        value.pop("", None)
        return value
    return None
