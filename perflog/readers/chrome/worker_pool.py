"""Work on pieces of bytes, in order: in this process, or in forked processes that get them through shared memory.

The result of a piece is large: each worker puts it into a spill file of its own, and sends only where it is there.
"""

from __future__ import annotations

import mmap
import os
import signal
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from typing import Any, Protocol

from perflog.errors import InputError
from perflog.readers.events.spill_file import open_spill_file

_PIECES_AHEAD = 2  # pieces that a worker holds at a time


class Work(Protocol):
    """The work of a worker on a piece. Large results go to the spill file."""

    def __call__(self, text: memoryview, spill_file: object) -> Any: ...


class WorkerPool:
    """Workers that take turns. `submit` a piece; `result` returns the oldest result. `spill_files`: one per worker.

    Args:
        make_work: called once in each worker.
        workers: number of forked processes; 0 works in this process.
        max_bytes: longest piece that goes through shared memory; longer ones go through a pipe.
    """

    def __init__(self, make_work: Callable[[], Work], workers: int, max_bytes: int) -> None:
        self.spill_files = [open_spill_file() for _ in range(max(workers, 1))]
        self._submitted: deque[tuple[int, Any]] = deque()  # worker; the result if it worked in this process
        self._next = 0
        self._local = make_work() if workers == 0 else None
        self._workers = [_ForkedWorker(make_work, file, max_bytes) for file in self.spill_files[:workers]]

    def is_full(self) -> bool:
        """Return whether a result has to be taken before the next piece is submitted."""
        return len(self._submitted) >= max(len(self._workers) * _PIECES_AHEAD, 1)

    def submit(self, text: memoryview) -> None:
        """Give a piece to the next worker. Its bytes may change as soon as this returns."""
        if self._local is not None:
            self._submitted.append((0, self._local(text, self.spill_files[0])))
            return
        self._workers[self._next].submit(text)
        self._submitted.append((self._next, None))
        self._next = (self._next + 1) % len(self._workers)

    def result(self) -> tuple[int, Any]:
        """Return the oldest result, after its worker."""
        worker, result = self._submitted.popleft()
        return worker, result if self._local is not None else self._workers[worker].result()

    def close(self) -> None:
        """End the workers and delete their spill files."""
        for worker in self._workers:
            worker.close()
        for file in self.spill_files:
            file.close()


def _killed() -> InputError:
    help = "memory may have run out; `--processes 1` reads the trace in one process"
    return InputError("a process that decoded the trace was killed", help=help)


class _ForkedWorker:
    """A process that works on pieces in shared memory."""

    def __init__(self, make_work: Callable[[], Work], spill_file: object, max_bytes: int) -> None:
        self._memory = mmap.mmap(-1, max_bytes * _PIECES_AHEAD)
        self._max_bytes, self._slot = max_bytes, 0
        self._pipe, worker_end = Pipe()
        sys.stdout.flush()
        self._process = os.fork()
        if self._process == 0:
            self._pipe.close()
            self._serve(make_work, spill_file, worker_end)
        worker_end.close()

    def submit(self, text: memoryview) -> None:
        try:
            if len(text) > self._max_bytes:
                self._pipe.send(bytes(text))
                return
            start = self._slot * self._max_bytes
            self._memory[start : start + len(text)] = text
            self._slot = (self._slot + 1) % _PIECES_AHEAD
            self._pipe.send((start, len(text)))
        except BrokenPipeError as err:
            raise _killed() from err

    def result(self) -> Any:
        try:
            result = self._pipe.recv()
        except (EOFError, ConnectionError) as err:
            raise _killed() from err
        if isinstance(result, BaseException):
            raise result
        return result

    def close(self) -> None:
        # It has nothing to tidy up. Closing the pipe would not end it: it may be sending a result that nobody takes,
        # and workers that were forked later hold this end of the pipe too.
        with suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        self._pipe.close()

    def _serve(self, make_work: Callable[[], Work], spill_file: object, pipe: Connection) -> None:
        """Work in the forked process; never returns."""
        import gc

        try:
            gc.disable()  # decoded events hold no cycles
            work, memory = make_work(), memoryview(self._memory)
            while True:
                message = pipe.recv()
                in_memory = isinstance(message, tuple)
                text = memory[message[0] : message[0] + message[1]] if in_memory else memoryview(message)
                try:
                    pipe.send(work(text, spill_file))
                except Exception as err:  # noqa: BLE001  # the reading process raises whatever it is
                    pipe.send(err)
        except (EOFError, ConnectionError):
            pass
        finally:
            os._exit(0)
