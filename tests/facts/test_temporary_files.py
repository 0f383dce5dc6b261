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

from perflog.files import temporary
from perflog.files.file_lock import lock

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
from perflog.readers.events.spill_file import decompressed_path
pathlib.Path("a.gz").write_bytes(gzip.compress(b"SQLite"))
kept = decompressed_path(open_source("a.gz"))
kept.__enter__()
""",
    "database that is written": """
import sqlite3
from perflog.parsing.input.source import open_source
from perflog.readers.databases.sqlite import Database
writing = sqlite3.connect("a.sqlite")
writing.execute("PRAGMA journal_mode = WAL")
writing.execute("CREATE TABLE a (b)")
writing.commit()
kept = Database("a.sqlite", open_source("a.sqlite"))
""",
    "pool of processes": """
import functools, time
from perflog.files import temporary
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
    code = f"from perflog.signals import ended_by_signals\nend = ended_by_signals()\nend.__enter__()\n{code}\n"
    process = subprocess.Popen(
        [sys.executable, "-c", f"{code}print('ready', flush=True); import time; time.sleep(600)"],
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
        assert process.wait(PATIENCE_S) == 128 + signal.SIGTERM
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.skipif(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN, reason="this run ignores SIGHUP, as under nohup")
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
        assert process.wait(PATIENCE_S) == 128 + signal.SIGHUP
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


def of_another_process(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """Let this process make a folder in `home`, as if it had none."""
    home.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(home))
    for name, value in (("path", ""), ("owner", 0), ("lock", -1)):
        monkeypatch.setattr(temporary._Folder, name, value)


def test_a_forked_process_has_a_folder_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It may live longer than its parent, and removes nothing of it."""
    of_another_process(monkeypatch, tmp_path / "temporary")
    folder = temporary.folder()
    child = os.fork()
    if child == 0:
        try:
            own = temporary.folder()
            is_other = own != folder and os.path.isdir(own)
            temporary.remove()
            os._exit(not is_other or os.path.exists(own))
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert os.listdir(tmp_path / "temporary") == [os.path.basename(folder)]


def test_a_folder_that_was_taken_for_left_over_is_made_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Another process looks at it after its lock file was made, and before that is locked."""
    of_another_process(monkeypatch, tmp_path / "temporary")
    locked: list[int] = []

    def slow(number: int, wait: bool = True) -> bool:
        if not locked:
            locked.append(number)
            (path,) = (tmp_path / "temporary").iterdir()
            temporary._remove_if_left(str(path))
            assert not path.exists()
        return lock(number, wait)

    monkeypatch.setattr(temporary, "lock", slow)
    assert os.path.isdir(temporary.folder())


def test_links_and_folders_of_other_programs_stay(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home, kept = tmp_path / "temporary", tmp_path / "kept"
    of_another_process(monkeypatch, home)
    kept.mkdir()
    (kept / "in-use").touch()
    (home / f"{temporary._PREFIX}link").symlink_to(kept)
    (home / "perflog-another").mkdir()
    (home / "perflog-another" / "in-use").touch()
    (home / f"{temporary._PREFIX}left").mkdir()
    (home / f"{temporary._PREFIX}left" / "in-use").touch()
    made = Path(temporary.folder())
    assert set(home.iterdir()) == {made, home / f"{temporary._PREFIX}link", home / "perflog-another"}
    assert (kept / "in-use").exists()
