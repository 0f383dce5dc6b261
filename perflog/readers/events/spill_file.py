"""Temporary files: columns that wait for the second pass, and the decompressed copy of a packed log, mapped or not."""

from __future__ import annotations

import io
import mmap
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from msgspec import Struct

from perflog.errors import InputError
from perflog.files import temporary
from perflog.parsing.input.limits import check_room
from perflog.parsing.input.source import Source
from perflog.readers.events.event_columns import EventColumns


class SpilledColumns(Struct, frozen=True):
    """Columns in a spill file: name, type and count of each, one after the other from `offset`."""

    offset: int
    columns: tuple[tuple[str, str, int], ...]


def open_spill_file() -> Any:
    """Open a temporary file without a name; it is deleted when it is closed."""
    try:
        return tempfile.TemporaryFile(prefix="perflog-", buffering=0)
    except OSError as err:
        raise InputError(
            f"no temporary file: {err.strerror or err}", tempfile.gettempdir(), temporary.MORE_ROOM
        ) from err


def spill(file: Any, columns: EventColumns) -> SpilledColumns:
    """Append columns to a spill file."""
    try:
        offset = file.seek(0, io.SEEK_END)
        for column in columns.values():
            unwritten = np.ascontiguousarray(column).view(np.uint8).data
            while unwritten:
                unwritten = unwritten[file.write(unwritten) :]
    except OSError as err:
        raise InputError(
            f"a temporary file cannot be written: {err.strerror or err}", help=temporary.MORE_ROOM
        ) from err
    return SpilledColumns(offset, tuple((name, c.dtype.str, len(c)) for name, c in columns.items()))


def load_spilled(file: Any, spilled: SpilledColumns) -> EventColumns:
    """Read columns back from a spill file."""
    columns: EventColumns = {}
    file.seek(spilled.offset)
    for name, dtype, count in spilled.columns:
        columns[name] = np.empty(count, np.dtype(dtype))
        view = columns[name].view(np.uint8).data
        while view and (size := file.readinto(view)):
            view = view[size:]
    return columns


@contextmanager
def decompressed_path(source: Source) -> Iterator[str]:
    """Give the path of a log's decompressed bytes: its own path, or the path of a temporary copy."""
    if not source.is_compressed:
        yield source.path
        return
    with tempfile.NamedTemporaryFile(dir=temporary.folder()) as copy:
        try:
            for block in source.blocks():
                copy.write(block)
                check_room(copy.tell(), source.name)
            copy.flush()
        except OSError as err:
            reason = f"a temporary file cannot be written: {err.strerror or err}"
            raise InputError(reason, source.name, temporary.MORE_ROOM) from err
        yield copy.name


@contextmanager
def mapped_file(source: Source) -> Iterator[memoryview]:
    """Give the decompressed bytes of a log, which are mapped into memory."""
    with decompressed_path(source) as path, open(path, "rb") as file:
        yield memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
