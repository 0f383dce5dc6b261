"""Locks on files: one holder, or several that share it."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from perflog.files.file_lock import lock, locked


def free(path: Path, shared: bool = False) -> bool:
    """Whether a lock can be had at once."""
    fd = os.open(path, os.O_RDWR)
    try:
        return lock(fd, wait=False, shared=shared)
    finally:
        os.close(fd)


def test_a_lock_is_held_while_the_file_is_open(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with locked(path):
        assert not free(path) and not free(path, shared=True)
    assert free(path) and free(path, shared=True)


def test_a_shared_lock_allows_others_that_share(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with pytest.raises(FileNotFoundError), locked(path, shared=True):
        pass
    path.touch()
    with locked(path, shared=True):
        assert free(path, shared=True) and not free(path)


def test_a_lock_is_waited_for(tmp_path: Path) -> None:
    first, second = (os.open(tmp_path / "a", os.O_RDWR | os.O_CREAT) for _ in range(2))
    assert lock(first) and not lock(second, wait=False)
    got: list[bool] = []
    thread = threading.Thread(target=lambda: got.append(lock(second)))
    thread.start()
    thread.join(0.02)
    assert got == []
    os.close(first)
    thread.join(5)
    assert got == [True]
    os.close(second)
