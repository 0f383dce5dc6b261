"""Starts ranks for the tests of the trainer, as a user does: through torchrun, or one rank alone."""

from __future__ import annotations

import os
import subprocess
import sys

from support.paths import ROOT

# One thread each, and no warning of torch's own about that.
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "default"}
SECONDS = 300


def command(ranks: int, *arguments: str) -> list[str]:
    """`-m perflog.trainer ...` or a script, on so many ranks. torchrun finds a free port itself."""
    start = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"] if ranks > 1 else []
    return [sys.executable, *start, *arguments]


def output_of(command: list[str]) -> str:
    """What a program prints that has to succeed."""
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr[-6000:]
    return done.stdout
