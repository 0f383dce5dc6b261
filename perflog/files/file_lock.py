"""Locks on open files, shared or exclusive, for several processes that use one store."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    def lock(fd: int, wait: bool = True, shared: bool = False) -> bool:  # noqa: ARG001 (Windows has no shared locks)
        """Lock an open file until it is closed or the process ends. Return False if another process holds the lock."""
        while True:  # LK_LOCK gives up after ten seconds
            try:
                msvcrt.locking(fd, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
                return True
            except OSError:
                if not wait:
                    return False
else:
    import fcntl

    def lock(fd: int, wait: bool = True, shared: bool = False) -> bool:
        """Lock an open file until it is closed or the process ends. Return False if another process holds the lock."""
        try:
            fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        return True


@contextmanager
def locked(path: Path, shared: bool = False) -> Iterator[None]:
    """Hold the lock of a file. An exclusive lock creates the file."""
    fd = os.open(path, os.O_RDONLY if shared else os.O_RDWR | os.O_CREAT, 0o666)
    try:
        lock(fd, shared=shared)
        yield
    finally:
        os.close(fd)
