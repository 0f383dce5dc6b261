"""Temporary files go when their process ends, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.paths import ROOT
from support.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals and locks as on Linux and macOS")

_HOLDERS = {
    "standard input": """
from perflog.parsing.input.source import open_source
kept = open_source("-")
""",
    "standard input as it comes": """
from perflog.parsing.input.spilled_input import standard_input
kept = standard_input()
kept.look()
""",
    "packed database": """
import gzip, pathlib
from perflog.parsing.input.source import open_source
from perflog.readers.spill_file import decompressed_path
pathlib.Path("a.gz").write_bytes(gzip.compress(b"SQLite"))
kept = decompressed_path(open_source("a.gz"))
kept.__enter__()
""",
    "database that is written": """
import sqlite3
from perflog.parsing.input.source import open_source
from perflog.readers.sqlite import Database
writing = sqlite3.connect("a.sqlite")
writing.execute("PRAGMA journal_mode = WAL")
writing.execute("CREATE TABLE a (b)")
writing.commit()
kept = Database("a.sqlite", open_source("a.sqlite"))
""",
    "pool of processes": """
import functools, time
from perflog import temporary
from perflog.ingestion import workers
def work(item, progress):
    temporary.folder()
    open(temporary.folder() + f"/{item}", "w").close()
    progress(1)
    time.sleep(600)
def ready(count):
    print("ready", flush=True)
next(workers.results(work, [1, 2], 2, ready))
""",
}


@contextmanager
def started(code: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a program that holds temporary files in `folder`, and wait until it has them."""
    folder.mkdir(exist_ok=True)
    code = f"from perflog import temporary\ntemporary.remove_when_ended()\n{code}\nprint('ready', flush=True)\n"
    process = subprocess.Popen(
        [sys.executable, "-c", f"{code}import time; time.sleep(600)"],
        env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(folder)},
        cwd=folder.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.name != "in-use"]


@pytest.mark.parametrize("holder", _HOLDERS)
def test_a_signal_leaves_no_temporary_files(tmp_path: Path, holder: str) -> None:
    with started(_HOLDERS[holder], tmp_path / "temporary") as process:
        assert files_in(tmp_path / "temporary")
        process.terminate()
        assert process.wait(PATIENCE_S) == -signal.SIGTERM
    wait_until(lambda: not list((tmp_path / "temporary").iterdir()))  # a worker may live a little longer


def test_a_command_that_is_ended_leaves_no_temporary_files(tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    command = [sys.executable, "-m", "perflog", "ingest", "-", "--store", str(tmp_path / "store")]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(folder)}
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        process.stdin.write(b"step 1 loss 2.5\n")
        process.stdin.flush()
        wait_until(lambda: any(file.stat().st_size for file in files_in(folder)))
        process.send_signal(signal.SIGHUP)
        assert process.wait(PATIENCE_S) == -signal.SIGHUP
    assert list(folder.iterdir()) == []


def test_the_next_process_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    folder, code = tmp_path / "temporary", _HOLDERS["standard input"]
    with started(code, folder) as killed:
        killed.kill()
        killed.wait()
        (left,) = folder.iterdir()
        (folder / "perflog-of-a-user").write_text("a file")
        with started(code, folder) as other:
            assert not left.exists()
            (used,) = (path for path in folder.iterdir() if path.is_dir())
            with started(code, folder) as third:
                assert used.exists(), "a folder in use stays"
                third.terminate()
                third.wait()
            other.terminate()
            other.wait()
    wait_until(lambda: [path.name for path in folder.iterdir()] == ["perflog-of-a-user"])
