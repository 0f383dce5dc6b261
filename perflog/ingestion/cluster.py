"""Ingests logs on a Dask cluster that runs already: its workers do the tasks of the local processes.

Each task reads a batch of logs and stores it, so the workers must see the store, and the logs, under the names that
they have here. A task can be repeated: what it stores a second time changes nothing. So a worker that dies costs only
time.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, chdir, closing, contextmanager
from functools import cache
from typing import TYPE_CHECKING

from perflog.errors import UsageError
from perflog.files.remote import is_remote
from perflog.ingestion.batches import in_batches, size
from perflog.ingestion.bulk import MOST_BYTES, MOST_LOGS, IngestTask, Outcome, ingest_batch, killed
from perflog.ingestion.memory import keep_freed
from perflog.parsing.input.log_names import STDIN, LogName
from perflog.tables.store.commits import LocalStore
from perflog.tables.store.folder import store_errors

if TYPE_CHECKING:
    from distributed import Client, Future

_WAIT_FOR_SCHEDULER = _WAIT_FOR_WORKER = "10s"
_KILLED = "memory may have run out: give the workers more"
_one_at_a_time = threading.Lock()  # in a worker: caches of formats and shapes are made for one thread


def ingest_on_cluster(
    names: Sequence[LogName], task: IngestTask, scheduler: str, progress: Callable[[int], None] | None = None
) -> Iterator[tuple[LogName, Outcome]]:
    """Ingest logs on a Dask cluster.

    Args:
        names: The logs. Standard input is read here.
        task: What to do with them.
        scheduler: The address of the scheduler, such as tcp://host:8786.
        progress: Is called with the number of bytes read since its last call.

    Yields:
        Each name with its outcome, in the order of the names.

    Raises:
        UsageError: The scheduler does not answer, there is no worker, or a worker cannot do the tasks.
    """
    with closing(_connected(scheduler)) as client, _mark(task.store) as mark:
        threads = max(1, sum(client.nthreads().values()))
        batches = list(in_batches(names, MOST_LOGS, MOST_BYTES, threads))
        work = _Work(task, os.getcwd(), mark)
        here = [batch[0].log == STDIN for batch in batches]
        futures = [
            None if is_here else _submit(client, work, batch) for batch, is_here in zip(batches, here, strict=True)
        ]
        for index, batch in enumerate(batches):
            future, futures[index] = futures[index], None  # a result that nobody holds leaves the cluster
            outcomes = ingest_batch(task, batch, None) if future is None else _result(future)
            if outcomes is None:
                for other in filter(None, futures):
                    other.exception()  # waits until it is done
                outcomes = [(_result(_submit(client, work, [name])) or [killed(name, _KILLED)])[0] for name in batch]
            if progress is not None:
                progress(sum(map(size, batch)))
            yield from zip(batch, outcomes, strict=True)


class _Work:
    """What a worker does with a batch of logs.

    `folder` is the folder in which relative names are looked up, `mark` a file in the store, if that is a folder: a
    worker that does not see it would store the logs somewhere else.
    """

    def __init__(self, task: IngestTask, folder: str, mark: str) -> None:
        from perflog.version import installed_version

        self.task, self.folder, self.mark = task, folder, mark
        self.version = installed_version()

    def __call__(self, names: Sequence[LogName]) -> list[Outcome]:
        from perflog.version import installed_version

        with _one_at_a_time, ExitStack() as stack:
            if installed_version() != self.version:
                raise UsageError(
                    f"a worker has perflog {installed_version()}, this is {self.version}", help="install one version"
                )
            _prepare()
            if not all(is_remote(text) or os.path.isabs(text) for text in self._texts(names)):
                try:
                    stack.enter_context(chdir(self.folder))
                except OSError as error:
                    help = "name logs and store by absolute paths or addresses that all workers see"
                    raise UsageError(
                        f"a worker cannot access this folder: {error.strerror}", self.folder, help
                    ) from error
            if self.mark and not os.path.exists(self.mark):
                help = "use a folder that all workers see"
                raise UsageError("a worker cannot access this store", self.task.store, help)
            return ingest_batch(self.task, names, None)

    def _texts(self, names: Sequence[LogName]) -> Iterator[str]:
        yield self.task.store
        yield from (file for name in names for file in name.files)
        yield from (name for name in self.task.formats if os.sep in name or "." in name)


def _connected(scheduler: str) -> Client:
    """Return a client of the scheduler, which has at least one worker."""
    try:
        from distributed import Client
    except ImportError as error:
        help = "pip install distributed"
        raise UsageError("--scheduler needs Dask, which is not installed", help=help) from error
    try:
        client = Client(scheduler, timeout=_WAIT_FOR_SCHEDULER, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        help = "`dask scheduler` prints its address, such as tcp://host:8786"
        raise UsageError("no Dask scheduler answers at this address", scheduler, help) from error
    try:
        client.wait_for_workers(1, timeout=_WAIT_FOR_WORKER)
    except TimeoutError as error:
        client.close()
        help = f"start one where the logs can be read: `dask worker {scheduler} --nthreads 1`"
        raise UsageError("the scheduler has no worker", scheduler, help) from error
    return client


@contextmanager
def _mark(store: str) -> Iterator[str]:
    """Make an empty file in the folder of a store, and yield its path: a worker that sees it sees the store."""
    if is_remote(store):
        yield ""
        return
    folder = LocalStore(store).drafts
    with store_errors(store):
        folder.mkdir(parents=True, exist_ok=True)
        mark = folder.absolute() / f"seen-{os.urandom(8).hex()}"
        mark.touch()
    try:
        yield str(mark)
    finally:
        mark.unlink(missing_ok=True)


@cache
def _prepare() -> None:
    """Prepare a worker for reading logs, once."""
    keep_freed()


def _submit(client: Client, work: _Work, names: Sequence[LogName]) -> Future:
    return client.submit(work, names, pure=False, key=f"perflog-{os.urandom(8).hex()}")


def _result(future: Future) -> list[Outcome] | None:
    """Wait for a task, and return its outcomes; None if it was in the queues of workers that were killed.

    Another task of such a worker may have killed it. So a log is known to be the one only if it runs alone.
    """
    from distributed import KilledWorker

    try:
        outcomes: list[Outcome] = future.result()
        return outcomes
    except KilledWorker:
        return None
    except ModuleNotFoundError as error:
        raise UsageError(f"a worker lacks a package: {error}", help="install perflog where the workers run") from error
