"""A command that is killed leaves no process behind."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from support.live_processes import NAME, PROC, alive
from support.paths import ROOT
from support.patience import wait_until


@pytest.mark.skipif(not PROC.is_dir(), reason="needs /proc")
def test_processes_of_a_pool_end_with_the_command(tmp_path: Path) -> None:
    """Each process of the pool reads a named pipe whose text never ends, until the command is killed."""
    pipes = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for pipe in pipes:
        os.mkfifo(pipe)
    args = ["ingest", "--processes", "2", "--store", "store", *map(str, pipes)]
    always = "from perflog.ingestion import workers; workers.START_SECONDS = 0"
    code = f"{always}; from perflog.cli.main import main; main({args})"
    mark = str(tmp_path)
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    env = os.environ | {NAME: mark, "PYTHONPATH": path, "TMPDIR": mark}
    command = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env=env)
    writers: dict[Path, int] = {}

    def both_are_read() -> bool:
        for pipe in pipes:
            if pipe not in writers:
                with suppress(OSError):  # nobody reads it yet
                    writers[pipe] = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        return len(writers) == len(pipes) or command.poll() is not None

    try:
        wait_until(both_are_read)
        assert len(alive(mark)) == 3
        command.kill()
        command.wait()
        wait_until(lambda: alive(mark) == [])
    finally:
        command.kill()
        for writer in writers.values():
            os.close(writer)
