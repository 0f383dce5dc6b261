"""Python code in processes that are forked from one which has imported all that it needs.

Such a process starts in milliseconds; pyarrow and pytest take half a second. `serve` is what the forked process runs.
"""

from __future__ import annotations

import atexit
import json
import os
import random
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from support.paths import ROOT, TESTS

LIMIT_S = 300  # ends code that hangs
LONGEST = 1 << 16  # bytes of a request


@cache
def _server(module: Path) -> socket.socket:
    """The connection to the process that has imported this module of tests."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        code = f"import {module.stem} as names; from support.forked_code import serve; "
        code += f"serve({theirs.fileno()}, vars(names))"
        env = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, [ROOT, TESTS, module.parent]))}
        server = subprocess.Popen([sys.executable, "-c", code], env=env, pass_fds=[theirs.fileno()])
    atexit.register(server.wait)
    atexit.register(ours.close)  # ends its requests, so it ends too
    return ours


class ForkedCode:
    """A process that runs code with the names of a module of tests. Its standard output is `stdout`."""

    def __init__(self, module: Path, code: str, *arguments: str) -> None:
        reads, writes = os.pipe()
        self.stdout = os.fdopen(reads, encoding="utf-8")
        self._server = _server(module)
        request = {"code": code, "arguments": arguments}
        socket.send_fds(self._server, [json.dumps(request).encode()], [writes])
        os.close(writes)
        self.process = self._answer()

    def _answer(self) -> int:
        answer = self._server.recv(LONGEST)
        assert answer, "the process that forks others has ended"
        return int(answer)

    def kill(self) -> None:
        """Kill it, as nothing can catch. It may have ended: its number is kept until `end`."""
        os.kill(self.process, signal.SIGKILL)

    def end(self) -> int:
        """Read its output to the end and return how it ended: an exit code, negative for a signal."""
        with self.stdout:
            self.stdout.read()
        self._server.send(json.dumps({"process": self.process}).encode())
        return self._answer()


def serve(descriptor: int, names: Mapping[str, Any]) -> None:
    """Fork a process for each request to run code, and wait for those that are asked for, until the other side ends."""
    with socket.socket(fileno=descriptor) as requests:
        while True:
            data, descriptors, _, _ = socket.recv_fds(requests, LONGEST, 1)
            if not data:
                return
            request = json.loads(data)
            if "process" in request:
                answer = os.waitstatus_to_exitcode(os.waitpid(request["process"], 0)[1])
            else:
                answer = _fork(request, descriptors[0], requests, names)
            requests.send(str(answer).encode())


def _fork(request: dict[str, Any], stdout: int, requests: socket.socket, names: Mapping[str, Any]) -> int:
    """Return the process that runs the code."""
    if process := os.fork():
        os.close(stdout)
        return process
    code = 1
    try:
        requests.close()
        signal.alarm(LIMIT_S)
        os.dup2(stdout, 1)
        os.close(stdout)
        random.seed()  # not with the state that all of them inherit
        sys.argv[1:] = request["arguments"]
        exec(request["code"], dict(names))
        code = 0
    except BaseException:  # noqa: BLE001 (the process ends here)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)
