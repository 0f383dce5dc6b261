"""A Dask cluster for tests: a scheduler and workers in processes of their own, which tests may kill."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.forked_code import ForkedCode
from support.paths import TESTS
from support.patience import wait_until


class Cluster:
    """A scheduler. `work` starts a worker."""

    def __init__(self, folder: Path, **settings: str) -> None:
        pytest.importorskip("distributed", reason="needs the Dask of the extra dev")
        self.folder = folder
        self._processes: list[ForkedCode] = []
        self._settings = {"TMPDIR": str(folder)} | settings
        self._file = folder / "scheduler.json"
        self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", self._file)
        wait_until(lambda: self._file.exists() and bool(self._file.read_bytes()))
        self.address = json.loads(self._file.read_text())["address"]

    def work(self) -> ForkedCode:
        """Start a worker with one thread."""
        words = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", self.folder]
        return self._start("worker", self.address, *words)

    def kill(self, process: ForkedCode) -> None:
        """Kill the scheduler or a worker."""
        self._processes.remove(process)
        process.kill()
        process.end()

    def kill_all(self) -> None:
        for process in list(self._processes):
            self.kill(process)

    def _start(self, role: str, *words: object) -> ForkedCode:
        what = json.dumps([str(self.folder), self._settings, [role, *map(str, words)]])
        process = ForkedCode(
            TESTS / "support" / "dask_processes.py", "import json; run(*json.loads(sys.argv[1]))", what
        )
        self._processes.append(process)
        return process


@contextmanager
def dask_cluster(folder: Path, **settings: str) -> Iterator[Cluster]:
    """Start a scheduler; at the end it and its workers are killed. `settings` stand in their environment."""
    cluster = Cluster(folder, **settings)
    try:
        yield cluster
    finally:
        cluster.kill_all()
