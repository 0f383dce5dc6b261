"""A program `perflog` for scripts of tests, whose processes are forked from one that has imported all that it needs.

Such a process starts in milliseconds. `serve` runs in the process that is forked; the program only asks it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.paths import ROOT, TESTS

_LIMIT_S = 120
_LONGEST = 1 << 17  # bytes of a request
_PROGRAM = """\
#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect({address!r})
    request = {{"words": sys.argv[1:], "env": dict(os.environ), "folder": os.getcwd()}}
    socket.send_fds(server, [json.dumps(request).encode()], [0, 1, 2])
    answer = server.recv(16)
sys.exit(int(answer or 70))
"""


@contextmanager
def perflog_program(folder: Path) -> Iterator[Path]:
    """Yield the path of a program that runs commands of perflog until the block ends."""
    address, program = str(folder / "socket"), folder / "perflog"
    program.write_text(_PROGRAM.format(python=sys.executable, address=address))
    program.chmod(0o755)
    env = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, [ROOT, TESTS]))}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(address)
        listening.listen(8)
        code = f"from support.forked_commands import serve; serve({listening.fileno()})"
        with subprocess.Popen([sys.executable, "-c", code], env=env, pass_fds=[listening.fileno()]) as server:
            try:
                yield program
            finally:
                server.terminate()


def serve(descriptor: int) -> None:
    """Fork a process for each request, which runs a command and answers with its exit code."""
    import perflog.analysis.compare
    import perflog.ci.comments
    import perflog.ci.gate
    import perflog.ci.kept_store
    import perflog.cli.commands.ci
    import perflog.ingestion.pipeline
    import perflog.output.presenters.compare_screen  # noqa: F401
    from perflog.ci import summary  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(fileno=descriptor) as listening:
        while True:
            connection, _ = listening.accept()
            with connection:
                if os.fork() == 0:
                    _run(connection)


def _run(connection: socket.socket) -> None:
    """Run one command in this process, and end it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.alarm(_LIMIT_S)
    code = 70
    try:
        data, descriptors, _, _ = socket.recv_fds(connection, _LONGEST, 3)
        request = json.loads(data)
        for number, taken in enumerate(descriptors):
            os.dup2(taken, number)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)  # those of the server were other files
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["env"])
        from perflog.cli.main import main

        try:
            main(request["words"], prog_name="perflog")
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1 if ended.code else 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        connection.send(str(code).encode())
        os._exit(0)
