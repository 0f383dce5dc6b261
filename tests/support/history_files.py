"""Writes event files of TensorBoard and runs of Weights & Biases, field by field, as their programs frame them."""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any

from perflog.readers.trackers.record_files import masked_crc32c

BLOCK = 1 << 15


def varint(number: int) -> bytes:
    number &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number: int, value: int | float | str | bytes) -> bytes:
    """A field: integers as varints, floats as doubles, texts and messages with their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def single(number: int, value: float) -> bytes:
    """A field with a float of 4 bytes."""
    return varint(number << 3 | 5) + struct.pack("<f", value)


# --- TensorBoard --------------------------------------------------------------------------------------------------


def record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    checksums = [struct.pack("<I", masked_crc32c(part)) for part in (length, data)]
    return length + checksums[0] + data + checksums[1]


def event(time: float, step: int, *values: bytes) -> bytes:
    return record(field(1, time) + field(2, step) + field(5, b"".join(field(1, value) for value in values)))


def event_file(*events: bytes) -> bytes:
    return record(field(1, 1700000000.0) + field(3, "brain.Event:2")) + b"".join(events)


# --- Weights & Biases ---------------------------------------------------------------------------------------------


def run_file(*records: bytes) -> bytes:
    out = bytearray(struct.pack("<4sHB", b":W&B", 0xBEE1, 0))
    for data in records:
        first = True
        while data or first:
            room = BLOCK - len(out) % BLOCK
            if room < 7:
                out += bytes(room)
                continue
            part, data = data[: room - 7], data[room - 7 :]
            kind = (1 if not data else 2) if first else (4 if not data else 3)
            out += struct.pack("<IHB", zlib.crc32(part, zlib.crc32(bytes([kind]))), len(part), kind) + part
            first = False
    return bytes(out)


def items(number: int, values: dict[str, Any]) -> bytes:
    return b"".join(field(number, field(2, key) + field(16, json.dumps(value))) for key, value in values.items())


def history(**values: Any) -> bytes:
    return field(2, items(1, values))
