"""A Dask cluster for tests: a scheduler and workers in processes of their own, which tests may kill."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.paths import ROOT
from support.patience import wait_until


class Cluster:
    """A scheduler. `work` starts a worker."""

    def __init__(self, folder: Path, **settings: str) -> None:
        pytest.importorskip("distributed", reason="needs the Dask of the extra dev")
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        self._env = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(folder)} | settings
        self._file = folder / "scheduler.json"
        self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", self._file)
        wait_until(lambda: self._file.exists() and bool(self._file.read_bytes()))
        self.address = json.loads(self._file.read_text())["address"]

    def work(self) -> subprocess.Popen[bytes]:
        """Start a worker with one thread."""
        words = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", self.folder]
        return self._start("worker", self.address, *words)

    def _start(self, role: str, *words: object) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-W", "ignore", "-m", "dask", role, *map(str, words)]
        elsewhere = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": self.folder}
        process = subprocess.Popen(command, env=self._env, **elsewhere)  # type: ignore[call-overload]
        self.processes.append(process)
        return process  # type: ignore[no-any-return]


@contextmanager
def dask_cluster(folder: Path, **settings: str) -> Iterator[Cluster]:
    """Start a scheduler; at the end it and its workers are killed. `settings` stand in their environment."""
    cluster = Cluster(folder, **settings)
    try:
        yield cluster
    finally:
        for process in cluster.processes:
            process.kill()
            process.wait()
