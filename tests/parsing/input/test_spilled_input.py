"""Standard input while it comes: what has come, whether it has ended, and where it is kept."""

from __future__ import annotations

import errno
import io
import os
import select
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from perflog.errors import InputError
from perflog.parsing.input import spilled_input
from perflog.parsing.input.followed_file import Ending
from perflog.parsing.input.spilled_input import SpilledInput, standard_input


class Pipe:
    """An input into which a test writes."""

    def __init__(self, interval: float) -> None:
        self.reads, self.writes = os.pipe()
        self.input = SpilledInput(self.reads, interval)
        self._is_open = True

    def write(self, data: bytes) -> None:
        os.write(self.writes, data)

    def end(self) -> None:
        os.close(self.writes)
        self._is_open = False

    def close(self) -> None:
        os.close(self.reads)
        if self._is_open:
            self.end()
        self.input.close()

    def content(self) -> bytes:
        return Path(self.input.path).read_bytes()


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe(0.002)
    with ExitStack() as stack:
        stack.callback(made.close)
        yield made


def test_what_has_come_is_in_the_file(pipe: Pipe) -> None:
    assert (pipe.input.look(), pipe.input.size) == (None, 0)
    pipe.write(b"one\n")
    assert (pipe.input.look(), pipe.input.size, pipe.content()) == (None, 4, b"one\n")
    pipe.write(b"two\n")
    pipe.end()
    assert (pipe.input.look(), pipe.input.size, pipe.content()) == (Ending.ENDED, 8, b"one\ntwo\n")
    assert pipe.input.look() == Ending.ENDED
    assert pipe.input.source().first_bytes(8) == b"one\ntwo\n"


def test_the_file_is_removed(pipe: Pipe) -> None:
    path = Path(pipe.input.path)
    assert path.exists()
    with pipe.input.source():
        pass
    assert not path.exists()  # and `close` of the input finds none


def test_a_look_waits_no_longer_than_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    made, waits = Pipe(60.0), list[float]()

    def nothing_comes(*args: Any) -> tuple[list[int], list[int], list[int]]:
        waits.append(args[3])
        return [], [], []

    monkeypatch.setattr(select, "select", nothing_comes)
    assert made.input.look() is None
    assert len(waits) == 1 and 0 < waits[0] <= 60
    made.close()


def test_an_input_as_fast_as_a_file_is_taken_until_it_is_slower(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = iter([10, 20, 25, 99])

    def look() -> None:
        pipe.input.size = next(sizes)

    monkeypatch.setattr(spilled_input, "_FAST", 10)
    monkeypatch.setattr(pipe.input, "look", look)
    assert pipe.input.look_while_fast() is None
    assert pipe.input.size == 25


def test_an_input_that_has_ended_is_not_waited_for(pipe: Pipe) -> None:
    pipe.end()
    assert pipe.input.look_while_fast() == Ending.ENDED


def test_seconds_since_something_came(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 100.0)
    pipe.write(b"x")
    pipe.input.look()
    monkeypatch.setattr(time, "time", lambda: 107.5)
    assert pipe.input.changed_ago() == 7.5
    monkeypatch.setattr(time, "time", lambda: 90.0)  # the clock was set back
    assert pipe.input.changed_ago() == 0


def test_a_block_is_written_whole_also_in_several_steps(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    pipe.write(b"abcdefgh")
    monkeypatch.setattr(os, "write", lambda file, block: write(file, block[:3]))
    pipe.input.look()
    assert (pipe.content(), pipe.input.size) == (b"abcdefgh", 8)


def test_errors_name_what_failed(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    pipe.write(b"x")
    with monkeypatch.context() as patch:
        patch.setattr(os, "read", full)
        with pytest.raises(InputError, match="cannot be read to its end: No space left on device"):
            pipe.input.look()
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(InputError, match="cannot be kept in a temporary file: No space left on device"):
            pipe.input.look()
    monkeypatch.setattr(tempfile, "mkstemp", full)
    with pytest.raises(InputError, match="cannot be kept in a temporary file"):
        SpilledInput(0)


def test_an_input_that_is_no_file_of_the_system_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("text"))
    assert standard_input() is None


def test_an_input_that_can_be_waited_for_is_kept(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(fileno=lambda: pipe.reads))
    kept = standard_input()
    assert kept is not None
    kept.close()
    monkeypatch.setattr(os, "name", "nt")
    assert standard_input() is None
