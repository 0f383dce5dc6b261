"""A command that is killed leaves no process behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.live_processes import NAME, PROC, alive
from support.paths import ROOT


@pytest.mark.skipif(not PROC.is_dir(), reason="needs /proc to see processes")
def test_processes_of_a_pool_end_with_the_command(tmp_path: Path) -> None:
    line = '{"ph": "X", "cat": "kernel", "name": "gemm", "ts": 1, "dur": 2, "pid": 0, "tid": 7},\n'
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text("[" + line.replace("gemm", name) * 400_000)
    args = ["ingest", "--threads", "2", "-o", "store", "a.json", "b.json"]
    code = f"from perflog import gather; gather.SMALL = 0; from perflog.cli import main; main({args})"
    mark = str(tmp_path)
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, env=os.environ | {NAME: mark, "PYTHONPATH": path}
    )
    until = time.monotonic() + 20
    while len(alive(mark)) < 4 and time.monotonic() < until and done.poll() is None:  # with the tracker of resources
        time.sleep(0.01)
    assert len(alive(mark)) >= 4
    done.kill()
    done.wait()
    while alive(mark) and time.monotonic() < until:
        time.sleep(0.05)
    assert alive(mark) == []
