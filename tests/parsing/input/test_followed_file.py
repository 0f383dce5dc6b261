"""A file that another program writes: why it is not to be read further."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perflog.errors import InputError
from perflog.parsing.input import followed_file
from perflog.parsing.input.followed_file import Ending, FollowedFile, Patience


class Clock:
    """Seconds that pass only when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "run.txt").write_bytes(b"first\n")
    return tmp_path / "run.txt"


def followed(path: Path, until_idle: float | None = None, clock: Clock | None = None) -> FollowedFile:
    file = FollowedFile(str(path), Patience(until_idle=until_idle, clock=clock or Clock()))
    assert file.look() is None and file.size == path.stat().st_size
    return file


def grow(path: Path, data: bytes = b"more\n") -> None:
    with path.open("ab") as file:
        file.write(data)


def test_growth_is_seen(path: Path) -> None:
    file = followed(path)
    assert file.look() is None and file.size == 6
    grow(path)
    assert file.look() is None and file.size == 11
    assert Path(file.path).read_bytes() == b"first\nmore\n"
    assert 0 <= file.changed_ago() < 1000
    file.close()


def test_without_growth_for_a_time_it_is_idle(path: Path) -> None:
    clock = Clock()
    file = followed(path, 10, clock)
    clock.now += 9.5
    assert file.look() is None
    grow(path)
    assert file.look() is None  # from now on
    clock.now += 9.5
    assert file.look() is None
    clock.now += 0.5
    assert file.look() is Ending.IDLE
    file.close()


def test_a_shorter_file_and_another_beginning_are_a_truncated_one(path: Path) -> None:
    file = followed(path)
    path.write_bytes(b"fir")
    assert file.look() is Ending.TRUNCATED
    file.close()
    path.write_bytes(b"first\n")
    file = followed(path)
    path.write_bytes(b"other and longer\n")
    assert file.look() is Ending.TRUNCATED
    file.close()


def test_another_file_at_the_path_is_believed_at_the_second_look(path: Path) -> None:
    """And not while the old one grows."""
    file = followed(path)
    old = path.with_name("run.txt.1")
    path.rename(old)
    path.write_bytes(b"new\n")
    assert file.look() is None
    grow(old)
    assert file.look() is None and file.size == 11
    assert file.look() is None
    assert file.look() is Ending.REPLACED
    assert Path(file.path).read_bytes() == b"first\nmore\n"  # its rest can be read
    file.open()
    assert file.look() is None and file.size == 4
    file.close()


def test_no_file_at_the_path_is_believed_at_the_third_look(path: Path) -> None:
    """Rotation leaves a moment without one."""
    file = followed(path)
    os.unlink(path)
    assert [file.look() for _ in range(3)] == [None, None, Ending.GONE]
    file.close()
    path.write_bytes(b"first\n")
    file = followed(path)
    moved = path.rename(path.with_name("away"))
    assert [file.look() for _ in range(2)] == [None, None]
    moved.rename(path)
    assert file.look() is None  # it is back: the looks count from the beginning
    path.rename(moved)
    assert [file.look() for _ in range(3)] == [None, None, Ending.GONE]
    file.close()


def test_what_cannot_be_followed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        FollowedFile(str(tmp_path / "none"), Patience())
    with pytest.raises(InputError, match="this is not a regular file, which could grow"):
        FollowedFile(os.devnull, Patience())


def test_a_file_away_from_its_path_is_copied_where_the_system_names_no_open_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed_file, "_PROC", str(path.parent / "none"))
    file = followed(path)
    assert file.path == str(path)
    old = path.rename(path.with_name("away"))
    assert file.look() is None
    copy = Path(file.path)
    assert copy not in (path, old) and copy.read_bytes() == b"first\n"
    grow(old)
    assert file.look() is None
    assert file.path == str(copy) and copy.read_bytes() == b"first\nmore\n"
    file.close()
    assert not copy.exists()
    file.close()
