"""How much is read of an input of unknown size: of streams, of addresses, of compressed files.

A stream may never end, and a packed file of a megabyte may hold a terabyte of zeros. Files have no limit.
"""

from __future__ import annotations

import os
import re
import shutil

from perflog.errors import InputError, UsageError
from perflog.files import temporary
from perflog.lazy_patterns import lazy_pattern

VARIABLE = "PERFLOG_INPUT_LIMIT"
"""Environment variable with the limit. The command line sets it, so that other processes have it too."""

MOST_OF_STREAM = 256 << 30
"""Bytes of standard input, or of an http address: a server may announce any size."""

ROOM_LEFT = 1 << 30
"""Bytes that the temporary copy of an input leaves free on its disk, once it is as long itself."""

MOST_UNPACKED, MOST_RATIO = 1 << 30, 250
"""Bytes of a file that unpacks to more than 250 times its size.

Of 64 MiB each, gzip -6, xz -1, bzip2 and zstd -3 make: of steps with figures a 6th to a 10th; of one warning with a
clock and 16 channels a 36th, 115th, 73rd, 92nd; of one line again and again a 344th, 6749th, 4263rd, 10819th. Only logs
of more than a gibibyte that are all but one line need the option.
"""

_SIZE = lazy_pattern(r"([0-9]{1,15}(?:\.[0-9]{1,6})?) ?([KMGTP]?)(i?)B?", re.IGNORECASE)
_PREFIXES = " KMGTP"


def parse_size(text: str) -> int:
    """Return a number of bytes, as people write it.

    Example:
        >>> parse_size("1.5GB"), parse_size("2 GiB"), parse_size("4096")
        (1500000000, 2147483648, 4096)

    Raises:
        UsageError: The string is no number of bytes.
    """
    match = _SIZE.fullmatch(text.strip())
    size = float(match[1]) * (1024 if match[3] else 1000) ** _PREFIXES.index(match[2].upper() or " ") if match else 0
    if size < 1:
        raise UsageError("this is not a number of bytes", repr(text), "write it as 200GB, 1.5TiB or 4096")
    return int(size)


def check_stream(size: int, name: str) -> None:
    """Check how much has come of a stream.

    Raises:
        InputError: It is more than the limit, or than the disk has room for.
    """
    if size > (most := _given() or MOST_OF_STREAM):
        raise _too_much(f"still going on after {_shown(most)}", name)
    check_room(size, name)


def check_room(size: int, name: str) -> None:
    """Check how much room the temporary copy of an input leaves, once `size` bytes of it are written.

    Raises:
        InputError: Other programs would have no room.
        OSError: The disk cannot be asked.
    """
    if size > ROOM_LEFT and shutil.disk_usage(temporary.folder()).free < ROOM_LEFT:
        reason = f"its temporary copy fills the disk: it has {_shown(size)}, and less than {_shown(ROOM_LEFT)} is free"
        raise InputError(reason, name, temporary.MORE_ROOM)


def check_unpacked(size: int, packed: int, name: str) -> None:
    """Check how much was unpacked from a number of bytes.

    Raises:
        InputError: It is more than the limit.
    """
    if size > MOST_RATIO * packed and size > (most := max(_given() or 0, MOST_UNPACKED)):
        raise _too_much(f"unpacks to more than {MOST_RATIO} times its size, and more than {_shown(most)}", name)


def _given() -> int | None:
    """Return the limit that the user gives."""
    text = os.environ.get(VARIABLE)
    return parse_size(text) if text else None


def _too_much(reason: str, name: str) -> InputError:
    help = f"if that is right, allow more: `perflog --input-limit 1TB ...`, or set {VARIABLE}"
    return InputError(reason, name, help)


def _shown(size: int) -> str:
    for prefix, factor in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:.4g} {prefix}"
    return f"{size} bytes"
