"""Columns put aside in a file until all is known that fills the rest of them."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import numpy as np

from perflog.errors import InputError
from perflog.readers.columns import Columns


@dataclass(frozen=True)
class Kept:
    """Where columns lie in a file: name, type and count of each, one behind the other from `offset`."""

    offset: int
    columns: tuple[tuple[str, str, int], ...]

    @property
    def rows(self) -> int:
        return self.columns[0][2] if self.columns else 0


def keep(file: Any, columns: Columns) -> Kept:
    """Append columns to a file."""
    try:
        offset = file.seek(0, io.SEEK_END)
        for column in columns.values():
            left = np.ascontiguousarray(column).view(np.uint8).data
            while left:
                left = left[file.write(left) :]
    except OSError as err:
        help = "set TMPDIR to a folder with more room"
        raise InputError(f"cannot be kept in a temporary file: {err.strerror or err}", help=help) from err
    return Kept(offset, tuple((name, c.dtype.str, len(c)) for name, c in columns.items()))


def fetch(file: Any, kept: Kept) -> Columns:
    """The columns again."""
    columns: Columns = {}
    file.seek(kept.offset)
    for name, kind, count in kept.columns:
        columns[name] = np.empty(count, np.dtype(kind))
        view = columns[name].view(np.uint8).data
        while view and (got := file.readinto(view)):
            view = view[got:]
    return columns
