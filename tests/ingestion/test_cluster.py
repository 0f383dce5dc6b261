"""Logs are read on a Dask cluster as they are here, whatever happens to its workers."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.commands import DATA, NAMES, run
from support.dask_cluster import Cluster, dask_cluster
from support.paths import ROOT
from support.patience import wait_until

import perflog
from perflog.errors import UsageError
from perflog.ingestion import cluster
from perflog.ingestion.bulk import MOST_BYTES, MOST_LOGS, IngestTask, Outcome
from perflog.parsing.input.log_names import LogName
from perflog.tables.schema import TABLES
from perflog.tables.sink import IngestResult
from perflog.tables.store import Store

if TYPE_CHECKING:
    from support.forked_code import ForkedCode

SAMPLES = [DATA / f"{name}.txt" for name in sorted([*NAMES, "csv", "reference"])]
PIPE = "logs/pipe.txt"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with logs of several formats in logs/."""
    (tmp_path / "logs").mkdir()
    for path in SAMPLES:
        shutil.copy(path, tmp_path / "logs")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def content(store: Path) -> dict[str, list[str]]:
    """All rows of a store, in an order that does not depend on that of its files.

    Of two files with the same bytes, the process that ends last gives the name of the log: both names are one here.
    """
    return {
        name: sorted(
            repr(row).replace("logs/again.txt", "logs/reference.txt") for row in Store(store).table(name).to_pylist()
        )
        for name in TABLES
    }


@contextmanager
def ingesting(*words: str) -> Iterator[subprocess.Popen[str]]:
    """The command, in a process that runs while the test goes on."""
    command = [sys.executable, "-m", "perflog", "ingest", *words]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=env, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def opened_by_reader(pipe: Path) -> int:
    """Wait until a process reads a named pipe, and return the descriptor to write into it."""
    descriptors: list[int] = []

    def try_to_open() -> bool:
        try:
            descriptors.append(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        except OSError as error:
            if error.errno != errno.ENXIO:  # nobody reads
                raise
            return False
        return True

    wait_until(try_to_open)
    os.set_blocking(descriptors[0], True)
    return descriptors[0]


def kill_the_reader_of(pipe: Path, worker: ForkedCode, cluster: Cluster) -> ForkedCode:
    """Wait until the only worker reads a pipe, start another worker, kill the first, and return the other."""
    descriptor = opened_by_reader(pipe)
    other = cluster.work()
    cluster.kill(worker)
    os.close(descriptor)
    return other


def test_a_worker_that_is_killed_in_the_middle_changes_nothing(folder: Path) -> None:
    """A log that is a named pipe keeps a worker waiting, so that it is killed while it reads, with logs behind it."""
    text = (folder / "logs" / "moe_layer.txt").read_bytes()
    (folder / "logs" / "moe_layer.txt").rename(folder / "pipe.txt")
    names = sorted(str(path.relative_to(folder)) for path in (folder / "logs").iterdir())
    shutil.copy(folder / "pipe.txt", PIPE)
    run("ingest", *names[:4], PIPE, *names[4:], "--store", "local")
    os.unlink(PIPE)
    os.mkfifo(PIPE)
    with dask_cluster(folder) as dask:
        first = dask.work()
        with ingesting(*names[:4], PIPE, *names[4:], "--store", "there", "--scheduler", dask.address) as process:
            kill_the_reader_of(folder / PIPE, first, dask)
            with open(opened_by_reader(folder / PIPE), "wb") as pipe:
                pipe.write(text)
            assert process.stderr is not None
            told = process.stderr.read()
        assert process.wait() == 0, told
    assert content(folder / "there") == content(folder / "local")
    assert [path.name for path in (folder / "there" / ".tmp").iterdir()] == []


def test_a_log_that_kills_its_workers_does_not_stop_the_others(folder: Path) -> None:
    for path in SAMPLES:
        (folder / "logs" / f"another_{path.name}").write_bytes(path.read_bytes() + b"\n")
    os.mkfifo(PIPE)
    names = sorted(str(path.relative_to(folder)) for path in (folder / "logs").iterdir())
    names.insert(1, names.pop(names.index(PIPE)))  # with logs behind it in the queue of its worker
    with dask_cluster(folder, DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0") as dask:
        worker = dask.work()
        with ingesting(*names, "--store", "there", "--scheduler", dask.address) as process:
            for _ in range(2):  # in its batch, and alone
                worker = kill_the_reader_of(folder / PIPE, worker, dask)
            assert process.stderr is not None
            told = process.stderr.read()
        assert process.wait() == 3, told
    assert f"{PIPE}: the process that read the log was killed" in told
    assert len(Store("there").logs()) == 2 * len(SAMPLES)


def test_a_cluster_is_used_as_the_processes_here_are(folder: Path) -> None:
    (folder / "logs" / "foreign.txt").write_text("Dear Sir or Madam,\n")
    shutil.copy("logs/reference.txt", "logs/again.txt")
    logs = ("logs/foreign.txt", "logs")  # of a folder alone, what is no log is left out
    run("ingest", *logs, "--store", "local", "--label", "x", code=3)
    with dask_cluster(folder) as dask:
        dask.work()
        dask.work()
        again = run("ingest", *logs, "--store", "there", "--label", "x", "--scheduler", dask.address, code=3)
        assert "logs/foreign.txt: nothing in it is recognised" in again.stderr
        assert "logs/reference.txt: the same bytes as logs/again.txt, stored once" in again.stderr
        assert content(folder / "there") == content(folder / "local")
        assert len(perflog.ingest("logs/csv.txt", store="here", scheduler=dask.address)) == 1
        done = run("ingest", "-", "--store", "there", "--scheduler", dask.address, input=b"Dear Sir\n", code=3)
        assert "-: nothing in it is recognised" in done.stderr
        done = run("ingest", "logs/csv.txt", "--scheduler", dask.address, "--processes", 2, code=2)
        assert "--scheduler cannot be combined with --follow or --processes" in done.stderr


class Answer:
    """A future of a cluster: its result, or the error that it raises."""

    def __init__(self, answer: list[Outcome] | Exception) -> None:
        self.answer = answer

    def result(self) -> list[Outcome]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def exception(self) -> Exception | None:
        return self.answer if isinstance(self.answer, Exception) else None


class Workers:
    """A cluster in which some logs kill the worker that reads them."""

    def __init__(self, deadly: set[str], lacks: str = "") -> None:
        self.deadly, self.lacks, self.closed = deadly, lacks, 0
        self.batches, self.keys = list[list[str]](), set[str]()

    def nthreads(self) -> dict[str, int]:
        return {"a": 1, "b": 2}

    def submit(self, work: cluster._Work, names: Sequence[LogName], *, pure: bool, key: str) -> Answer:
        from distributed import KilledWorker

        logs = [name.log for name in names]
        self.batches.append(logs)
        self.keys.add(key)
        assert not pure and os.path.exists(work.mark)
        if self.lacks:
            return Answer(ModuleNotFoundError(self.lacks))
        killed: Any = KilledWorker(key, None, 1)
        return Answer(killed if self.deadly & {*logs} else [IngestResult(log, "") for log in logs])

    def close(self) -> None:
        self.closed += 1


def test_logs_that_kill_a_worker_are_read_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So one is known to be the cause. Outcomes are in the order of the names; standard input is read here."""
    there = Workers({"log2"})
    monkeypatch.setattr(cluster, "_connected", lambda _: there)
    divided: list[Any] = []

    def in_batches(names: list[LogName], *limits: int) -> list[list[LogName]]:
        divided.append(limits)
        return [names[:2], names[2:3], names[3:6]]

    monkeypatch.setattr(cluster, "in_batches", in_batches)
    monkeypatch.setattr(cluster, "size", lambda name: len(name.log))
    monkeypatch.setattr(cluster, "ingest_batch", lambda task, names, progress: [IngestResult("here", "")])
    names = [LogName.parse(text) for text in ("log0", "log1", "-", "log2", "log3", "log4")]
    told: list[int] = []
    found = list(cluster.ingest_on_cluster(names, IngestTask(str(tmp_path / "store")), "address", told.append))
    assert [name for name, _ in found] == names
    assert [x.log if isinstance(x, IngestResult) else f"{x.reason}: {x.where}" for _, x in found] == [
        "log0", "log1", "here", "the process that read the log was killed: log2", "log3", "log4",
    ]  # fmt: skip
    assert there.batches == [["log0", "log1"], ["log2", "log3", "log4"], ["log2"], ["log3"], ["log4"]]
    assert (len(there.keys), there.closed, told) == (5, 1, [8, 1, 12])
    assert divided == [(MOST_LOGS, MOST_BYTES, 3)]
    assert list((tmp_path / "store" / ".tmp").iterdir()) == []
    there.lacks = "perflog"
    with pytest.raises(UsageError, match="a worker lacks a package: perflog"):
        list(cluster.ingest_on_cluster(names, IngestTask(str(tmp_path / "store")), "address"))


def test_a_worker_that_does_not_see_the_store_is_an_error(folder: Path) -> None:
    names = [LogName.parse(str(folder / "logs" / "csv.txt"))]
    work = cluster._Work(IngestTask(str(folder / "there")), str(folder), str(folder / "there" / ".tmp" / "mark"))
    with pytest.raises(UsageError, match="a worker cannot access this store"):
        work(names)
    work = cluster._Work(IngestTask("there"), str(folder / "nowhere"), "")
    with pytest.raises(UsageError, match="a worker cannot access this folder"):
        work(names)
    work.version = "0.0.1"
    with pytest.raises(UsageError, match=r"a worker has perflog .*, this is 0\.0\.1"):
        work(names)
    assert not Path("there").exists()


def test_no_scheduler_and_no_worker_are_errors(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_WAIT_FOR_WORKER", "0.1s")
    with dask_cluster(folder) as dask:
        done = run("ingest", "logs", "--store", "there", "--scheduler", dask.address, code=2)
        assert "the scheduler has no worker" in done.stderr
        monkeypatch.setattr(cluster, "_WAIT_FOR_SCHEDULER", "0.1s")
        for address in ("tcp://127.0.0.1:1", "nonsense://x", "::"):
            done = run("ingest", "logs", "--store", "there", "--scheduler", address, code=2)
            assert f"{address}: no Dask scheduler answers at this address" in done.stderr


def test_without_dask_the_extra_is_named(folder: Path) -> None:
    code = "import sys; sys.modules['distributed'] = None; from perflog.cli.main import main; main()"
    words = ["ingest", "logs", "--scheduler", "tcp://127.0.0.1:1"]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code, *words], env=env, capture_output=True, text=True)
    assert done.returncode == 2
    assert "pip install distributed" in done.stderr
