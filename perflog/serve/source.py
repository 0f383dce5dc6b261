"""What is served: the runs of stores and logs, read again when their files have changed."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from perflog.analysis.run_list import RunFacts
from perflog.analysis.run_names import run_places
from perflog.errors import UsageError
from perflog.files.remote import is_remote
from perflog.log import Log, combined
from perflog.opening import find_runs, store_of
from perflog.parsing.input.log_names import LogName
from perflog.tables.store import default_store
from perflog.units import first_few

_PATIENCE = 5  # times as long as reading took: so long a reading is good enough while files go on changing
_GROWS_S = 60.0  # a file that changed since then still grows
_LOOK_S = 0.5  # files are looked at no more often


class Snapshot(Struct, frozen=True):
    """The runs as they were read at one time.

    Attributes:
        log: The runs.
        facts: What describes them, which all lists share.
        version: A string that changes with what was read.
        names: The name of each run in links, by its id: its log and its index there, which stay while the log grows.
        read_at: When that was, in seconds since 1970.
        grows: Whether a file has changed in the last minute before.
    """

    log: Log
    facts: RunFacts
    version: str
    names: Mapping[str, str]
    read_at: float
    grows: bool

    def find(self, name: str) -> Log:
        """Return the run of a name, of a run id or of a label.

        Raises:
            UsageError: There is no such run.
        """
        keys = self.log.run_keys
        found = next((key for key in keys if name in (key.id, self.names[key.id])), None)
        found = found or next((key for key in keys if name and name == key.label), None)
        if found is None:
            raise UsageError("there is no such run", name, "the list of runs has a link to each")
        return self.log.select(found)


class Source:
    """Runs by the names of stores, folders and logs. Threads may share one.

    Args:
        names: As `perflog.find_runs` takes them; none means the store.
        store: Where run ids and labels are looked up, and what is served without names.

    Raises:
        PerflogError: A name means nothing, or nothing can be read.
    """

    def __init__(self, names: Sequence[str] = (), store: str | None = None) -> None:
        self._store = store
        self.names = tuple(names) or (os.fspath(store or default_store()),)
        self._lock = threading.Lock()
        self._looked = self._took = 0.0
        self._state: list[tuple[str, int, int]] = []
        self._snapshot = self._read()

    @property
    def title(self) -> str:
        """The names, in a few words."""
        return first_few(self.names, 3)

    def current(self) -> Snapshot:
        """Return the runs as they are now; while files change all the time, as they were a short time ago."""
        with self._lock:
            now = time.monotonic()
            if now - self._looked >= max(_LOOK_S, _PATIENCE * self._took):
                self._looked = now
                if self._files() != self._state:
                    self._snapshot = self._read()
            return self._snapshot

    def _read(self) -> Snapshot:
        began, state = time.monotonic(), self._files()
        logs = [find_runs(name, self._store) for name in self.names]
        log = logs[0] if len(logs) == 1 else combined(logs)
        self._took = time.monotonic() - began
        self._looked = time.monotonic()
        self._state = state  # not before all is read: what could not be read is tried again
        latest = max((changed_ns for _, _, changed_ns in state), default=0) / 1e9
        version = sha256(repr(state).encode()).hexdigest()[:16]
        now = time.time()
        return Snapshot(log, RunFacts(log), version, run_places(log.run_keys), now, 0 <= now - latest < _GROWS_S)

    def _files(self) -> list[tuple[str, int, int]]:
        """Name, size and time of each file: while these stay, so do the runs."""
        return sorted(found for name in self.names for found in _files_of(name, self._store))


def _files_of(name: str, store: str | None) -> Iterator[tuple[str, int, int]]:
    folder = store_of(name, store)
    if folder is not None and not is_remote(folder):
        yield from _stats(Path(folder).glob("runs/*"))
    elif folder is None and not is_remote(name):
        yield from _stats(Path(log.log) for log in LogName.parse(name).whole.logs())


def _stats(paths: Iterable[Path]) -> Iterator[tuple[str, int, int]]:
    for path in paths:
        try:
            status = path.stat()
        except OSError:  # removed since
            continue
        yield str(path), status.st_size, status.st_mtime_ns
