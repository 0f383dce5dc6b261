"""Starts ranks for the tests of the trainer: as a user does, through torchrun or one rank alone, or forked."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import IO

from support.paths import ROOT, TESTS

# One thread each, and no warning of torch's own about that.
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "default"}
SECONDS = 300
SERVER = TESTS / "support" / "rank_server.py"


def command(ranks: int, *arguments: str) -> list[str]:
    """`-m perflog.trainer ...` or a script, on so many ranks. torchrun finds a free port itself."""
    start = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"] if ranks > 1 else []
    return [sys.executable, *start, *arguments]


@cache
def _server() -> tuple[IO[str], IO[str]]:
    """Where the server of these tests takes requests, and where it answers."""
    server = subprocess.Popen(
        [sys.executable, str(SERVER)], env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdin is not None and server.stdout is not None
    atexit.register(server.communicate)  # ends its input, so it ends too
    return server.stdin, server.stdout


class ForkedRanks:
    """Ranks that are forked from a process which has imported PyTorch: a start takes milliseconds, not seconds."""

    def __init__(
        self, ranks: int, out: Path | list[Path], program: str, *arguments: str, errors: Path | None = None
    ) -> None:
        """Start a program, a file or the name of a module. All ranks print to a file, or to that of their node."""
        self.outs = [path.resolve() for path in (out if isinstance(out, list) else [out])]
        self.errors = errors or self.outs[0].with_name(f"{self.outs[0].name}.err")
        request = {"ranks": ranks, "program": program, "arguments": arguments}
        request |= {"outs": [*map(str, self.outs)], "errors": str(self.errors)}
        stdin, self._answers = _server()
        print(json.dumps(request), file=stdin, flush=True)
        self.processes: list[int] = json.loads(self._answers.readline())

    def codes(self) -> list[int]:
        """How they ended, once all have: exit codes, negative for a signal."""
        codes: list[int] = json.loads(self._answers.readline())
        return codes

    def end(self) -> None:
        """Wait for the end of ranks that have to succeed."""
        assert set(self.codes()) == {0}, self.errors.read_text()[-6000:]
