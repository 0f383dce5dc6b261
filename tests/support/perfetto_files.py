"""Writes traces of Perfetto, packet by packet."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

from support.history_files import field as wire

BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4


def packet(*fields: bytes, at: int | None = None, clock: int | None = None, sequence: int = 1) -> bytes:
    time = (wire(8, at) if at is not None else b"") + (wire(58, clock) if clock is not None else b"")
    return wire(1, time + b"".join(fields) + wire(10, sequence))


def event(kind: int, name: str = "", track: int | None = None, **fields: Any) -> bytes:
    """A track event, as field of a packet; `fields`: category, counter, real, args."""
    content = wire(9, kind) + (wire(23, name) if name else b"")
    content += wire(11, track) if track is not None else b""
    content += wire(22, fields["category"]) if "category" in fields else b""
    content += wire(30, fields["counter"]) if "counter" in fields else b""
    content += wire(44, fields["real"]) if "real" in fields else b""
    return wire(11, content + b"".join(wire(4, argument(*item)) for item in fields.get("args", {}).items()))


def argument(name: str, value: Any) -> bytes:
    return wire(10, name) + wire({int: 4, float: 5, str: 6}[type(value)], value)


def track(uuid: int, name: str = "", parent: int = 0, **fields: bytes) -> bytes:
    """A description of a track; `fields`: process, thread or counter, as messages."""
    numbers = {"process": 3, "thread": 4, "counter": 8}
    content = wire(1, uuid) + (wire(2, name) if name else b"") + (wire(5, parent) if parent else b"")
    return wire(60, content + b"".join(wire(numbers[key], value) for key, value in fields.items()))


def process(pid: int, name: str) -> bytes:
    return wire(1, pid) + wire(6, name)


def thread(pid: int, tid: int, name: str) -> bytes:
    return wire(1, pid) + wire(2, tid) + wire(5, name)


def snapshot(readings: Mapping[int, int], own: tuple[int, int, int] | None = None, primary: int = 6) -> bytes:
    """Readings of clocks at one moment; `own`: number, reading and unit in ns of an incremental clock."""
    clocks = b"".join(wire(1, wire(1, clock) + wire(2, reading)) for clock, reading in readings.items())
    if own is not None:
        clocks += wire(1, wire(1, own[0]) + wire(2, own[1]) + wire(3, 1) + wire(4, own[2]))
    return wire(6, clocks + wire(2, primary))


def interned(**tables: Mapping[int, str]) -> bytes:
    numbers = {"category": 1, "name": 2, "argument": 3, "string": 29}
    entries = [
        wire(numbers[table], wire(1, number) + wire(2, text))
        for table, texts in tables.items()
        for number, text in texts.items()
    ]
    return wire(12, b"".join(entries))


def compressed(*packets: bytes) -> bytes:
    return wire(1, wire(50, zlib.compress(b"".join(packets))))
