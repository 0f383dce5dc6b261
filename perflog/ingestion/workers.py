"""Works on many items in several processes: each takes the next item when it is done with one.

A process is forked where that is safe: it has the modules and formats of this one and starts in a few milliseconds.
Where fsspec has started its thread, a process without threads forks them. A process that is killed costs only the item
that it was working on.
"""

from __future__ import annotations

import gc
import os
import sys
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, field

from perflog import signals
from perflog.files import temporary
from perflog.files.remote import has_threads
from perflog.ingestion.memory import keep_freed

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

Item = TypeVar("Item")
Result = TypeVar("Result")
Progress = Callable[[int], None]
Work = Callable[[Item, Progress | None], Result]
"""What is done with an item. It may report progress."""

_MANY = 16  # items for which a process gets the next one before it is done with one
_PROGRESS, _DONE, _FAILED = "progress", "done", "failed"
_START_METHOD = "fork" if sys.platform == "linux" else "spawn"
_BESIDE_THREADS = "forkserver" if sys.platform == "linux" else "spawn"
_LOADED_ONCE = ["perflog.ingestion.pipeline"]  # by the process that forks for one which has threads
START_SECONDS = 0.1 if _START_METHOD == "fork" else 1.0
"""Work, in seconds, for which starting processes pays."""

_allowed = ContextVar("_allowed", default=False)


@contextmanager
def allowed() -> Generator[None]:
    """Let `are_allowed` say so inside this block. For programs without threads, as the command line is."""
    token = _allowed.set(True)
    try:
        yield
    finally:
        _allowed.reset(token)


def are_allowed() -> bool:
    """Return whether this program may start processes by itself. To fork a notebook, which has threads, is not safe."""
    return _allowed.get()


def cores() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


MOST_OF_ONE_LOG = 4
"""Processes that read one log together: more of them wait for the one that puts their results in order."""


def results(
    work: Work[Item, Result], items: Sequence[Item], processes: int, progress: Progress | None = None
) -> Generator[Result | None]:
    """Work on items in several processes. For programs without threads.

    Args:
        work: What to do with an item. It and its results must be picklable.
        items: The items.
        processes: The number of processes.
        progress: Is called with what `work` reports.

    Yields:
        The results, in the order of the items; None where the process was killed.
    """
    pool = _Pool(work, items, progress)
    try:
        for _ in range(min(processes, len(items))):
            pool.start()
        for index in range(len(items)):
            while index not in pool.done:
                pool.receive()
            yield pool.done.pop(index)
    finally:
        pool.close()


class _Worker(Struct, eq=False):
    """A process, the connection to it, and the indices of the items that it holds."""

    process: BaseProcess
    connection: Connection
    items: deque[int] = field(default_factory=deque)


class _Pool:
    """Processes that work on items. `done` holds the results that are there, by index."""

    def __init__(self, work: Work[Any, Any], items: Sequence[object], progress: Progress | None) -> None:
        self.done: dict[int, Any] = {}
        self._work, self._items, self._progress = work, items, progress
        self._waiting = deque(range(len(items)))
        self._workers: dict[Any, _Worker] = {}  # by connection

    def start(self) -> None:
        """Start one more process."""
        worker = _started(self._work, self._progress is not None)
        self._workers[worker.connection] = worker
        self._give(worker)

    def _give(self, worker: _Worker) -> None:
        while self._waiting and len(worker.items) < (2 if len(self._waiting) > _MANY else 1):
            worker.items.append(self._waiting.popleft())
            with suppress(ConnectionError):  # it was killed: `receive` will see that
                worker.connection.send(self._items[worker.items[-1]])

    def receive(self) -> None:
        """Wait for messages of the processes, and take them."""
        from multiprocessing.connection import wait

        for connection in wait([connection for connection, worker in self._workers.items() if worker.items]):
            worker = self._workers[connection]
            try:
                kind, value = worker.connection.recv()
            except (EOFError, ConnectionError):
                self._replace(worker)
                continue
            if kind == _FAILED:
                raise value
            if kind == _DONE:
                self.done[worker.items.popleft()] = value
                self._give(worker)
            elif self._progress is not None:
                self._progress(value)

    def _replace(self, worker: _Worker) -> None:
        """Replace a process that was killed. What it was working on has no result; the rest is given out again."""
        del self._workers[worker.connection]
        worker.process.join()
        worker.connection.close()
        self.done[worker.items.popleft()] = None
        self._waiting.extendleft(reversed(worker.items))
        if self._waiting:
            self.start()

    def close(self) -> None:
        """End all processes, whatever they are doing.

        They have nothing to tidy up. A process that was only just forked could lose a SIGTERM: until it has handlers of
        its own, it raises an exception as its parent does, perhaps where Python ignores it.
        """
        for worker in self._workers.values():
            worker.process.kill()
        for worker in self._workers.values():
            worker.process.join()
            worker.connection.close()


def _started(work: Work[Any, Any], reports: bool) -> _Worker:
    import multiprocessing

    context: Any = multiprocessing.get_context(_BESIDE_THREADS if has_threads() else _START_METHOD)
    if context.get_start_method() == "forkserver":
        context.set_forkserver_preload(_LOADED_ONCE)
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, work, reports, temporary.folder_to_share()), daemon=True)
    gc.freeze()  # the collector of the child writes to none of these objects, so their pages stay shared
    process.start()
    gc.unfreeze()
    there.close()  # or its end would not be seen here
    return _Worker(process, here)


def _serve(connection: Connection, work: Work[Any, Any], reports: bool, folder: str) -> None:
    """Work on the items that come in. Runs in a process of its own, with the temporary files of its parent."""
    import threading
    import traceback

    keep_freed()
    temporary.use(folder)
    signals.end_at_once()  # the parent reports it
    threading.Thread(target=_end_with_parent, daemon=True).start()

    def report(count: int) -> None:
        connection.send((_PROGRESS, count))

    while True:
        item = connection.recv()
        try:
            connection.send((_DONE, work(item, report if reports else None)))
        except Exception as error:  # noqa: BLE001  # the parent raises it
            error.add_note(traceback.format_exc())
            connection.send((_FAILED, error))


def _end_with_parent() -> None:
    """End this process when its parent ends: if the parent was killed, no other code ends its workers."""
    import multiprocessing
    from multiprocessing.connection import wait

    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
