"""Standard input while it comes, kept in a temporary file: a log is read twice, a stream only once."""

from __future__ import annotations

import os
import select
import sys
import tempfile
import time
from contextlib import suppress

from perflog.errors import InputError
from perflog.files import temporary
from perflog.parsing.input.followed_file import Ending
from perflog.parsing.input.limits import check_stream
from perflog.parsing.input.log_names import STDIN
from perflog.parsing.input.source import Source

_AT_ONCE = 1 << 20  # bytes
_FAST = 1 << 20  # bytes in an interval: more than a job prints


class SpilledInput:
    """The bytes of standard input so far, as a file that grows.

    Attributes:
        path: The temporary file.
        size: Its bytes.
        has_ended: Whether the input has ended.
    """

    def __init__(self, descriptor: int, interval: float = 1.0) -> None:
        self._descriptor, self._interval = descriptor, interval
        self._came_at = time.time()
        self.size, self.has_ended = 0, False
        try:
            self._file, self.path = tempfile.mkstemp(dir=temporary.folder())
        except OSError as error:
            raise _no_room(error) from error

    def look(self) -> Ending | None:
        """Take what comes within the interval, and return whether the input has ended."""
        until = time.monotonic() + self._interval
        while (left := until - time.monotonic()) > 0 and self._take(left):
            pass
        return Ending.ENDED if self.has_ended else None

    def look_while_fast(self) -> Ending | None:
        """Take what comes as long as it comes as fast as from a file, and return whether the input has ended."""
        before = -_FAST
        while self.size - before >= _FAST and not self.has_ended:
            before = self.size
            self.look()
        return Ending.ENDED if self.has_ended else None

    def changed_ago(self) -> float:
        """Return the seconds since something came."""
        return max(0.0, time.time() - self._came_at)

    def source(self) -> Source:
        """Return the log so far; who closes it removes the file."""
        return Source(STDIN, self.path, is_spill_file=True)

    def close(self) -> None:
        """Close and remove the file."""
        os.close(self._file)
        with suppress(OSError):
            os.unlink(self.path)

    def _take(self, seconds: float) -> bool:
        """Take what is there, or comes within so many seconds. Return False if nothing came, or the input has ended."""
        if self.has_ended or not select.select([self._descriptor], [], [], seconds)[0]:
            return False
        try:
            block = os.read(self._descriptor, _AT_ONCE)
        except OSError as error:
            raise InputError(f"cannot be read to its end: {error.strerror or error}", STDIN) from error
        self.has_ended = not block
        try:
            while block:
                written = os.write(self._file, block)
                self.size, block, self._came_at = self.size + written, block[written:], time.time()
            check_stream(self.size, STDIN)
        except OSError as error:
            raise _no_room(error) from error
        return not self.has_ended


def standard_input() -> SpilledInput | None:
    """Return standard input; None where it cannot be waited for: it is no file of the system, or this is Windows."""
    with suppress(OSError, ValueError):
        return SpilledInput(sys.stdin.fileno()) if os.name == "posix" else None
    return None


def _no_room(error: OSError) -> InputError:
    return InputError(f"cannot be kept in a temporary file: {error.strerror or error}", STDIN, temporary.MORE_ROOM)
