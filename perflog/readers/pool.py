"""Work on pieces of text, in order: in this process, or in forked ones that get the text through shared memory.

What a piece becomes is large; so each worker puts it into a file of its own, which has no name and goes with it, and
hands over where it lies there.
"""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from typing import Any, Protocol

from perflog.errors import InputError

_AHEAD = 2  # pieces given to a worker before its first is done
_KILLED = "memory may have run out; `--threads 1` reads it in one process"
_NO_ROOM = "set TMPDIR to a folder with more room"


def scratch() -> Any:
    """A file without a name, for what does not fit into memory."""
    try:
        return tempfile.TemporaryFile(prefix="perflog-", buffering=0)
    except OSError as err:
        raise InputError(f"no temporary file: {err.strerror or err}", tempfile.gettempdir(), _NO_ROOM) from err


class Work(Protocol):
    """What a worker does with a text, given a file to put large things into."""

    def __call__(self, text: memoryview, file: Any) -> Any: ...


class Pool:
    """Workers that take turns. `submit` a text; `result` gives (worker, file, what became of it), oldest first.

    `full` tells that a result has to be taken first.
    """

    def __init__(self, make: Callable[[], Work], count: int, room: int) -> None:
        self.files = [scratch() for _ in range(max(count, 1))]
        self._waiting: deque[tuple[int, Any]] = deque()
        self._next = 0
        self._local = make() if count == 0 else None
        self._workers = [_Forked(make, file, room) for file in self.files[:count]]

    def full(self) -> bool:
        """Whether no worker takes another text now."""
        return len(self._waiting) >= max(len(self._workers) * _AHEAD, 1)

    def __len__(self) -> int:
        return len(self._waiting)

    def submit(self, text: memoryview) -> None:
        """Give a text to the worker whose turn it is; the text may change as soon as this returns."""
        if self._local is not None:
            self._waiting.append((0, self._local(text, self.files[0])))
            return
        self._workers[self._next].give(text)
        self._waiting.append((self._next, None))
        self._next = (self._next + 1) % len(self._workers)

    def result(self) -> tuple[int, Any]:
        """The oldest result: its worker, and what became of the text."""
        worker, done = self._waiting.popleft()
        return worker, done if self._local is not None else self._workers[worker].take()

    def close(self) -> None:
        """End the workers and drop their files."""
        for worker in self._workers:
            worker.close()
        for file in self.files:
            file.close()


class _Forked:
    """A process that works on texts in shared memory."""

    def __init__(self, make: Callable[[], Work], file: Any, room: int) -> None:
        self._slots = mmap.mmap(-1, room * _AHEAD)
        self._room, self._turn = room, 0
        self._pipe, theirs = Pipe()
        sys.stdout.flush()
        self._process = os.fork()
        if self._process == 0:
            self._pipe.close()
            self._serve(make, file, theirs)
        theirs.close()

    def give(self, text: memoryview) -> None:
        try:
            if len(text) > self._room:
                self._pipe.send(bytes(text))
                return
            start = self._turn * self._room
            self._slots[start : start + len(text)] = text
            self._turn = (self._turn + 1) % _AHEAD
            self._pipe.send((start, len(text)))
        except BrokenPipeError as err:
            raise InputError("a process that reads it was killed", help=_KILLED) from err

    def take(self) -> Any:
        try:
            done = self._pipe.recv()
        except (EOFError, ConnectionError) as err:
            raise InputError("a process that reads it was killed", help=_KILLED) from err
        if isinstance(done, BaseException):
            raise done
        return done

    def close(self) -> None:
        # Told, too: workers forked later hold this end of the pipe as well, so that to close it is no end.
        with suppress(OSError):
            self._pipe.send(None)
        self._pipe.close()
        os.waitpid(self._process, 0)

    def _serve(self, make: Callable[[], Work], file: Any, pipe: Connection) -> None:
        """The forked process: never returns."""
        import gc

        try:
            gc.disable()  # what is decoded holds no cycles
            work, memory = make(), memoryview(self._slots)
            while True:
                where = pipe.recv()
                if where is None:
                    return
                text = memory[where[0] : where[0] + where[1]] if isinstance(where, tuple) else memoryview(where)
                try:
                    pipe.send(work(text, file))
                except Exception as err:  # noqa: BLE001  # whatever it is, the reader has to hear of it
                    pipe.send(err)
        except (EOFError, ConnectionError):
            pass
        finally:
            os._exit(0)
