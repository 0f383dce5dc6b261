"""A file that another program writes: whether it grows, stands still, was truncated, replaced or removed."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from perflog.errors import InputError
from perflog.parsing.input.log_names import cannot_open

_BEGINNING = 1 << 12  # bytes that tell whether a file was written anew
_POLLS_GONE = 3  # after so many looks without a file at the path it is gone: rotation leaves a moment without one
_PROC = "/proc/self/fd"


class Ending(Enum):
    """Why a file is not read further."""

    IDLE = "it has not grown for the time that was asked for"
    GONE = "the file was removed"
    REPLACED = "another file is at its path"
    TRUNCATED = "the file was truncated"


@dataclass(frozen=True)
class Patience:
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


class FollowedFile:
    """A file that is looked at again and again. It stays open, so that its rest can be read when it was renamed.

    Attributes:
        size: The bytes of the file at the last look.
    """

    def __init__(self, path: str, patience: Patience) -> None:
        self._path, self._patience = path, patience
        self._fd = -1
        self.open()

    def open(self) -> None:
        """Open the file that is at the path now, and forget the one that was there.

        Raises:
            InputError: It cannot be opened.
        """
        self.close()
        try:
            self._fd = os.open(self._path, os.O_RDONLY)
        except OSError as error:
            raise cannot_open(self._path, error) from error
        if not stat.S_ISREG(os.fstat(self._fd).st_mode):
            self.close()
            raise InputError("this is no file that could grow", self._path, "name the file that the job writes")
        self.size, self._beginning = 0, b""
        self._grown_at = self._patience.clock()
        self._polls_gone = 0
        self._was_replaced = False

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    @property
    def path(self) -> str:
        """A path of the open file, also when it was renamed or removed; its old path where the system gives none."""
        return f"{_PROC}/{self._fd}" if os.path.isdir(_PROC) else self._path

    def changed_ago(self) -> float:
        """Return the seconds since the file was last written."""
        return max(0.0, time.time() - os.fstat(self._fd).st_mtime)

    def look(self) -> Ending | None:
        """Look at the file, and return why it is not to be read further, or None."""
        size, now = os.fstat(self._fd).st_size, self._patience.clock()
        beginning = os.pread(self._fd, _BEGINNING, 0)
        if size < self.size or not beginning.startswith(self._beginning):
            return Ending.TRUNCATED
        self._beginning = beginning
        if size > self.size:
            self.size, self._grown_at = size, now
            self._was_replaced = False
            return None
        return self._at_path() or self._idle(now)

    def _at_path(self) -> Ending | None:
        """Return what has become of the path. The old file is let go if it does not grow between two looks."""
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            self._polls_gone += 1
            return Ending.GONE if self._polls_gone == _POLLS_GONE else None
        except OSError as error:
            raise cannot_open(self._path, error) from error
        self._polls_gone = 0
        was_replaced, self._was_replaced = self._was_replaced, not os.path.samestat(there, os.fstat(self._fd))
        return Ending.REPLACED if was_replaced and self._was_replaced else None

    def _idle(self, now: float) -> Ending | None:
        limit = self._patience.until_idle
        return Ending.IDLE if limit is not None and now - self._grown_at >= limit else None
