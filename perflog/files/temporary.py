"""Temporary files: all in one folder of the process, which goes when the process ends, however it ends.

The process holds the lock of a file in the folder. So the folder of a process that was killed is known by its free
lock, and the next process that needs a folder removes it. The processes of a pool use the folder of the process that
started them. So what a killed one leaves is removed with it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
import time
from contextlib import suppress

from perflog.files.file_lock import lock

MORE_ROOM = "set TMPDIR to a folder with more room"
"""What to do where a temporary file cannot be written."""

_HOST = os.uname().nodename if hasattr(os, "uname") else ""
_PREFIX, _LOCK = f"perflog-{_HOST}-", "in-use"  # some file systems that hosts share keep the locks of each host apart
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
        is_parents = _Folder.owner not in (0, os.getpid())  # this process was forked, and may live longer
        if is_parents or not os.path.isdir(_Folder.path):
            _remove_left()
            _Folder.path, _Folder.lock = _made()
            _Folder.owner = os.getpid()
            atexit.register(remove)
        return _Folder.path


def folder_to_share() -> str:
    """Return the folder for the processes that this one starts; "" if none can be made."""
    with suppress(OSError):
        return folder()
    return ""


def _made() -> tuple[str, int]:
    """Make a folder and lock it. Return its path and the number of the file with the lock."""
    while True:
        path = tempfile.mkdtemp(prefix=_PREFIX)
        number = os.open(os.path.join(path, _LOCK), os.O_RDWR | os.O_CREAT, 0o600)
        with suppress(OSError):  # a file system without locks: nobody else can lock it either
            lock(number)
        if os.path.isdir(path):
            return path, number
        os.close(number)  # before it was locked, another process has taken it for left over


def use(path: str) -> None:
    """Use the folder of the process that has started this one, which removes it; "" is none."""
    _Folder.path, _Folder.owner = path, 0


def remove() -> None:
    """Remove the folder, if this process has made it."""
    if _Folder.owner == os.getpid() and _Folder.path:
        if _Folder.lock >= 0 and os.name == "nt":  # Windows removes no open file
            os.close(_Folder.lock)
        shutil.rmtree(_Folder.path, ignore_errors=True)
        _Folder.path, _Folder.lock = "", -1


def _remove_left() -> None:
    """Remove the folders of processes that were killed."""
    if os.name == "nt":
        return
    with suppress(OSError):
        for entry in os.scandir(tempfile.gettempdir()):
            if entry.name.startswith(_PREFIX) and entry.is_dir(follow_symlinks=False):
                with suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_uid == os.getuid():
                        _remove_if_left(entry.path)


def _remove_if_left(path: str) -> None:
    """Remove a folder of temporary files that no process uses."""
    try:
        number = os.open(os.path.join(path, _LOCK), os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        if time.time() - os.stat(path).st_mtime > _NEW_S:
            os.rmdir(path)  # only if it is empty
        return
    try:
        if lock(number, wait=False):
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(number)  # not before: who makes the folder waits for the lock, and sees then that it is gone
