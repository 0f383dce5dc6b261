"""Runs another program to its end: its output goes to files as it comes, and none of its processes outlives the call.

The ranks of a launcher have sessions of their own and become orphans when the launcher is killed: neither its process
group nor its process tree contains them all. So the program starts with a mark in its environment. All its processes
inherit the mark, and /proc shows it. Without /proc only the process group of the program is ended.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO
from uuid import uuid4

from msgspec import Struct

from perflog.errors import PerflogError
from perflog.signals import ended_by_signals

GRACE = 5.0 if sys.platform == "linux" else 35.0
"""Seconds between SIGTERM and SIGKILL. Outside Linux torchrun must end its ranks itself, and gives them 30 seconds."""

_MARK = "PERFLOG_PROGRAM"
_PROC = Path("/proc")
_PAUSE = 0.1  # seconds between two checks whether the program has ended
_CHECK = 0.02  # seconds between two checks whether all killed processes are gone
_GIVE_UP = 10.0  # seconds to wait after SIGKILL: a process that is still there hangs in the kernel
_LINE = 1 << 20  # maximum bytes of a line: longer output without a line end is cut
_CHUNK = 1 << 16  # bytes read at a time
_OUT, _ERR = 1, 2

# The kernel tells the program when we are killed ourselves. Done in a process of its own, which becomes the program:
# code between fork and exec is not safe where there are threads.
_TETHER = """\
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, int(signal.SIGTERM))  # PR_SET_PDEATHSIG
if os.getppid() != int(sys.argv[1]):
    sys.exit("the program that started this one is gone")
os.execvp(sys.argv[2], sys.argv[2:])
"""


class ProgramExit(Struct, frozen=True):
    """How a program ended: its exit code, negative for a signal. `silent`: it was ended because it printed nothing."""

    code: int
    silent: bool = False


def run_program(
    command: Sequence[str],
    output: Path,
    errors: Path,
    env: Mapping[str, str] | None = None,
    silence: float | None = None,
    on_line: Callable[[str], None] | None = None,
    grace: float = GRACE,
) -> ProgramExit:
    """Run a program and write its standard output and standard error to two files.

    Before this returns or raises, all processes of the program are ended: by SIGTERM, and after `grace` seconds by
    SIGKILL. The files keep their output until then. A program without output for `silence` seconds is ended too.
    `on_line` gets each line of standard output.

    Raises:
        PerflogError: if a file cannot be written.
    """
    lines, program = _LineSplitter(on_line), _Program(grace)
    with ended_by_signals(), _OutputFile(output) as out, _OutputFile(errors) as err:

        def write(chunks: Iterable[tuple[int, bytes]]) -> None:
            for number, data in chunks:
                (out if number == _OUT else err).write(data)
                if number == _OUT:
                    lines.feed(data)

        silent = False
        try:
            program.start(command, os.environ if env is None else env)
            write(program.output(silence))
        except TimeoutError:
            silent = True
        finally:
            program.end()
            with suppress(PerflogError), program.closing():  # a full disk has been reported already
                write(program.remaining_output())
        lines.end()
    return ProgramExit(program.code, silent)


class _Program:
    """A program and all processes that it started."""

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._mark = uuid4().hex
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def code(self) -> int:
        """Exit code, negative for a signal. A program that hangs in the kernel has none yet: SIGKILL."""
        code = None if self._process is None else self._process.poll()
        return -signal.SIGKILL if code is None else code

    def start(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        """Start the program."""
        tether = [sys.executable, "-ISc", _TETHER, str(os.getpid())] if sys.platform == "linux" else []
        self._process = subprocess.Popen(
            [*tether, *command],
            env={**env, _MARK: self._mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # ctrl-C reaches only us, and we end the program in order
        )

    def output(self, silence: float | None) -> Iterator[tuple[int, bytes]]:
        """Yield its output as it comes, until the program ends. Raises TimeoutError if it is silent for too long."""
        assert self._process is not None
        with selectors.DefaultSelector() as selector:
            for number, pipe in self._pipes():
                selector.register(pipe, selectors.EVENT_READ, number)
            last_output = time.monotonic()
            while self._process.poll() is None:
                for key, _ in selector.select(_PAUSE):
                    if data := os.read(key.fd, _CHUNK):
                        yield key.data, data
                        last_output = time.monotonic()
                    else:
                        selector.unregister(key.fileobj)
                if silence is not None and time.monotonic() - last_output > silence:
                    raise TimeoutError

    def remaining_output(self) -> Iterator[tuple[int, bytes]]:
        """Yield the output that is left in the pipes after the program was ended."""
        for number, pipe in self._pipes():
            os.set_blocking(pipe.fileno(), False)
            with suppress(BlockingIOError):  # a process that cannot be killed holds the pipe open
                while data := os.read(pipe.fileno(), _CHUNK):
                    yield number, data

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Close the pipes at the end."""
        with ExitStack() as stack:
            for _, pipe in self._pipes():
                stack.enter_context(pipe)
            yield

    def _pipes(self) -> list[tuple[int, IO[bytes]]]:
        pipes = {} if self._process is None else {_OUT: self._process.stdout, _ERR: self._process.stderr}
        return [(number, pipe) for number, pipe in pipes.items() if pipe is not None]

    def end(self) -> None:
        """End all its processes. An interrupt meanwhile skips the grace period."""
        try:
            # If the launcher itself has ended, its leftover processes get no grace period.
            if self._process is None or self._process.poll() is None:
                self._signal(signal.SIGTERM)
                self._all_gone(self._grace)
        finally:
            deadline = time.monotonic() + _GIVE_UP
            while not self._all_gone(0) and time.monotonic() < deadline:
                self._signal(signal.SIGKILL)  # repeatedly: a process may start another meanwhile
                time.sleep(_CHECK)

    def _all_gone(self, seconds: float) -> bool:
        """Whether all processes are gone within that many seconds."""
        deadline = time.monotonic() + seconds
        while self._alive():
            if time.monotonic() >= deadline:
                return False
            time.sleep(_CHECK)
        return True

    def _alive(self) -> bool:
        if self._process is not None and self._process.poll() is None:
            return True
        if self._marked():
            return True
        time.sleep(_CHECK / 10)  # during exec a process shows no environment for a moment
        return bool(self._marked())

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if self._process is not None and self._process.poll() is None:
                os.killpg(self._process.pid, number)
        for pid in self._marked():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    def _marked(self) -> list[int]:
        """Return the processes with the mark. A zombie has no environment any more."""
        pids, mark = [], f"{_MARK}={self._mark}".encode()
        for entry in os.listdir(_PROC) if _PROC.is_dir() else ():
            if entry.isdigit():
                with suppress(OSError):  # gone, or not ours
                    if mark in (_PROC / entry / "environ").read_bytes().split(b"\0"):
                        pids.append(int(entry))
        return pids


# --- output -----------------------------------------------------------------------------------------------


class _LineSplitter:
    """Splits chunks of output into lines."""

    def __init__(self, on_line: Callable[[str], None] | None) -> None:
        self._on_line = on_line
        self._partial = b""

    def feed(self, data: bytes) -> None:
        if self._on_line is None:
            return
        *whole, self._partial = (self._partial + data).split(b"\n")
        for line in whole:
            self._on_line(line.decode("utf-8", "replace"))
        if len(self._partial) > _LINE:
            self.end()

    def end(self) -> None:
        """Pass on the last line, which has no line end."""
        if self._on_line is not None and self._partial:
            self._on_line(self._partial.decode("utf-8", "replace"))
        self._partial = b""


class _OutputFile:
    """An unbuffered file that is removed at the end if it is empty."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> _OutputFile:
        try:
            self._file = open(self._path, "wb", buffering=0)
        except OSError as error:
            raise PerflogError(f"cannot be written: {error.strerror}", str(self._path)) from error
        return self

    def write(self, data: bytes) -> None:
        remaining = memoryview(data)
        try:
            while remaining:
                remaining = remaining[self._file.write(remaining) :]
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> PerflogError:
        help = "all ranks were stopped; what was written until then is kept"
        return PerflogError(f"cannot be written any further: {error.strerror}", str(self._path), help)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close the file, and remove it if nothing was written: an error before the first line leaves no empty log."""
        try:
            self._file.close()
        except OSError as error:  # a network file system may say only now that it is full
            if kind is None:
                raise self._failed(error) from error
        if self._path.is_file() and not self._path.stat().st_size:
            self._path.unlink()
