"""Temporary files: all in one folder of the process, which goes when the process ends, however it ends.

The process holds the lock of a file in the folder. So the folder of a process that was killed is known by its free
lock, and the next process that needs a folder removes it. Processes that were forked share that of their parent.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
import threading
import time
from contextlib import suppress
from types import FrameType

from perflog.file_lock import lock

MORE_ROOM = "set TMPDIR to a folder with more room"
"""What to do where a temporary file cannot be written."""

_PREFIX, _LOCK = "perflog-", "in-use"
_NEW_S = 60  # a folder without a lock may be one that is being made


class _Folder:
    """The folder of this process; "" before it is made. `owner` is the process that made it, and removes it."""

    path = ""
    owner = 0
    lock = -1


_making = threading.Lock()


def folder() -> str:
    """Return the folder for the temporary files of this process, and make it where there is none.

    Raises:
        OSError: It cannot be made.
    """
    with _making:
        if not os.path.isdir(_Folder.path):
            _remove_left()
            path = tempfile.mkdtemp(prefix=_PREFIX)
            _Folder.lock = os.open(os.path.join(path, _LOCK), os.O_RDWR | os.O_CREAT, 0o600)
            lock(_Folder.lock, wait=False)
            _Folder.path, _Folder.owner = path, os.getpid()
            atexit.register(remove)
        return _Folder.path


def use(path: str) -> None:
    """Use the folder of another process, which waits for this one."""
    _Folder.path, _Folder.owner = path, 0


def remove() -> None:
    """Remove the folder, if this process has made it."""
    if _Folder.owner == os.getpid() and _Folder.path:
        if _Folder.lock >= 0 and os.name == "nt":  # Windows removes no open file
            os.close(_Folder.lock)
        shutil.rmtree(_Folder.path, ignore_errors=True)
        _Folder.path, _Folder.lock = "", -1


def remove_when_ended() -> None:
    """Remove the folder also when a signal ends this process. For programs of our own, in their main thread."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores SIGHUP: so it stays
            signal.signal(number, _end)


def _end(number: int, _: FrameType | None) -> None:
    """Remove the folder, then end as the signal ends a process without a handler."""
    remove()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _remove_left() -> None:
    """Remove the folders of processes that were killed."""
    if os.name == "nt":
        return
    with suppress(OSError):
        for entry in os.scandir(tempfile.gettempdir()):
            if entry.name.startswith(_PREFIX) and entry.is_dir(follow_symlinks=False):
                with suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_uid == os.getuid() and _is_left(entry.path):
                        shutil.rmtree(entry.path, ignore_errors=True)


def _is_left(path: str) -> bool:
    """Return whether no process uses a folder of temporary files."""
    try:
        file = os.open(os.path.join(path, _LOCK), os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return not os.listdir(path) and time.time() - os.stat(path).st_mtime > _NEW_S
    try:
        return lock(file, wait=False)
    finally:
        os.close(file)
