"""A file that another program writes: whether it grows or not, was truncated, replaced or removed."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable
from enum import Enum
from typing import Protocol

from msgspec import Struct

from perflog.errors import InputError
from perflog.files import temporary
from perflog.parsing.input.log_names import cannot_open

_BEGINNING = 1 << 12  # bytes that show whether a file was written anew
_LOOKS_REPLACED = 2  # in a row that see another file at the path, and no growth of the old one
_LOOKS_GONE = 3  # in a row that see no file at the path: rotation leaves a moment without one
_PROC = "/proc/self/fd"


class Ending(Enum):
    """Why a file is not read further."""

    ENDED = "it has ended"
    IDLE = "it has not grown for the time that was asked for"
    GONE = "the file was removed"
    REPLACED = "another file is at its path"
    TRUNCATED = "the file was truncated"


class Patience(Struct, frozen=True):
    """When to look at a file.

    Attributes:
        interval: Seconds between two looks.
        until_idle: Seconds without growth after which reading ends; None: never.
        sleep: Waits for some seconds.
        clock: Returns the time in seconds.
    """

    interval: float = 1.0
    until_idle: float | None = None
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic


class GrowingFile(Protocol):
    """A file that grows. `path` is where its bytes are, `size` their number at the last look."""

    size: int

    @property
    def path(self) -> str: ...

    def look(self) -> Ending | None:
        """Look at the file, and return why it is not to be read further, or None."""


class FollowedFile:
    """A file that is checked again and again. It stays open, so that its rest can be read when it was renamed.

    Attributes:
        size: The bytes of the file at the last look.
    """

    def __init__(self, path: str, patience: Patience) -> None:
        self._path, self._patience = path, patience
        self._fd, self._copy = -1, ""
        self.open()

    def open(self) -> None:
        """Open the file that is at the path now, and forget the one that was there.

        Raises:
            InputError: It cannot be opened.
        """
        self.close()
        try:
            self._fd = os.open(self._path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        except OSError as error:
            raise cannot_open(self._path, error) from error
        if not stat.S_ISREG(os.fstat(self._fd).st_mode):
            self.close()
            raise InputError(
                "this is not a regular file, which could grow", self._path, "name the file that the job writes"
            )
        self.size, self._beginning = 0, b""
        self._grown_at = self._patience.clock()
        self._looks_not_at_path = 0  # in a row without growth and without the file at the path

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        if self._copy:
            os.unlink(self._copy)
            self._copy = ""

    @property
    def path(self) -> str:
        """A path of the open file, also when it was renamed or removed."""
        return f"{_PROC}/{self._fd}" if os.path.isdir(_PROC) else self._copy or self._path

    def changed_ago(self) -> float:
        """Return the seconds since the file was last written."""
        return max(0.0, time.time() - os.fstat(self._fd).st_mtime)

    def look(self) -> Ending | None:
        """Look at the file, and return why it is not to be read further, or None."""
        size, now = os.fstat(self._fd).st_size, self._patience.clock()
        os.lseek(self._fd, 0, os.SEEK_SET)
        beginning = os.read(self._fd, _BEGINNING)
        if size < self.size or not beginning.startswith(self._beginning):
            return Ending.TRUNCATED
        self._beginning = beginning
        is_at_path = self._at_path()
        if is_at_path is not True:
            self._keep()
        if size > self.size:
            self.size, self._grown_at = size, now
            self._looks_not_at_path = 0
            return None
        self._looks_not_at_path = 0 if is_at_path is True else self._looks_not_at_path + 1
        if is_at_path is False and self._looks_not_at_path >= _LOOKS_REPLACED:
            return Ending.REPLACED
        if is_at_path is None and self._looks_not_at_path >= _LOOKS_GONE:
            return Ending.GONE
        limit = self._patience.until_idle
        return Ending.IDLE if limit is not None and now - self._grown_at >= limit else None

    def _at_path(self) -> bool | None:
        """Return whether the open file is the one at the path; None if there is none."""
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self._fd))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise cannot_open(self._path, error) from error

    def _keep(self) -> None:
        """Copy a file that is no longer at its path, where the system gives no path of an open file."""
        if os.path.isdir(_PROC):
            return
        if not self._copy:
            handle, self._copy = tempfile.mkstemp(dir=temporary.folder())
            os.close(handle)
        os.lseek(self._fd, 0, os.SEEK_SET)
        with open(self._fd, "rb", closefd=False) as file, open(self._copy, "wb") as copy:
            shutil.copyfileobj(file, copy)
