"""Protocol buffers without their schema: the fields of a message by number, as bytes or integers."""

from __future__ import annotations

import struct
from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types: how the value of a field is written."""

Field = tuple[int, int, bytes | int]
"""Number of a field, its wire type, and its value: an integer, or the bytes of anything else."""


class WireError(ValueError):
    """The bytes are no message."""


def fields(message: bytes) -> Iterator[Field]:
    """Give the fields of a message in their order.

    Raises:
        WireError: the message is cut or damaged.
    """
    place, size = 0, len(message)
    while place < size:
        tag, place = varint(message, place)
        wire = tag & 7
        if wire == VARINT:
            value, place = varint(message, place)
            yield tag >> 3, wire, value
            continue
        if wire == BYTES:
            length, place = varint(message, place)
        elif wire in (FIXED64, FIXED32):
            length = 8 if wire == FIXED64 else 4
        else:
            raise WireError(f"wire type {wire}")
        if place + length > size:
            raise WireError("a field ends after its message")
        yield tag >> 3, wire, message[place : place + length]
        place += length


def only(message: bytes) -> dict[int, bytes | int]:
    """Return the last value of each field of a message."""
    return {number: value for number, _, value in fields(message)}


def repeated(message: bytes, number: int) -> list[bytes]:
    """Return the values of one repeated field that holds messages or strings."""
    return [value for key, _, value in fields(message) if key == number and isinstance(value, bytes)]


def signed(value: bytes | int) -> int:
    """Return a 64-bit integer from its two's complement in a varint."""
    number = value if isinstance(value, int) else int.from_bytes(value, "little")
    return number - (1 << 64) if number >= 1 << 63 else number


def real(value: bytes | int) -> float:
    """Return a float or double of 4 or 8 bytes; nan for anything else."""
    if isinstance(value, bytes) and len(value) in (4, 8):
        return float(struct.unpack("<f" if len(value) == 4 else "<d", value)[0])
    return float("nan")


def text(value: bytes | int | None) -> str:
    """Return a string; nothing for anything else."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def varint(message: bytes | memoryview, place: int) -> tuple[int, int]:
    """Return the integer at an offset, and the offset after it.

    Raises:
        WireError: it has no end.
    """
    value = shift = 0
    try:
        while shift < 64:
            byte = message[place]
            value |= (byte & 0x7F) << shift
            place, shift = place + 1, shift + 7
            if byte < 0x80:
                return value & 0xFFFFFFFFFFFFFFFF, place
    except IndexError:
        pass
    raise WireError("an integer has no end")
