"""Another program, run to its end: what it prints goes to files as it comes, and nothing of it outlives the call.

A launcher's ranks lead sessions of their own, and become orphans when it is killed: neither its process group nor its
process tree holds them all. So the program is started with a mark in its environment, which all that it starts inherits
and /proc shows. Where there is no /proc, only the process group of the program is ended.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from uuid import uuid4

from perflog.errors import PerflogError

GRACE = 5.0 if sys.platform == "linux" else 35.0
"""Seconds between SIGTERM and SIGKILL. Where ranks cannot be seen, torchrun has to end them, and gives them 30."""

_MARK = "PERFLOG_PROGRAM"
_PROC = Path("/proc")
_PAUSE = 0.1  # seconds between two looks whether the program has ended
_LOOK = 0.02  # and between two looks whether all that was killed is gone
_GONE = 10.0  # seconds after which a process that SIGKILL does not end is given up: it hangs in the kernel
_LINE = 1 << 20  # bytes of a line at most: a flood without line ends is cut
_PIECE = 1 << 16  # bytes read at a time
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


@dataclass(frozen=True)
class ProgramExit:
    """How a program ended: its exit code, negative for a signal. `silent`: it was ended, as it printed nothing."""

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
    """Run a program; its standard output goes to one file, its standard error to the other.

    `silence`: seconds without any output after which it is ended. `told` gets each line of its output. Whatever
    happens, all processes of the program are ended before this returns or raises: by SIGTERM, and after `grace` seconds
    by SIGKILL; what they printed until then is kept. Raises PerflogError where a file cannot be written.
    """
    lines, program = _LineSplitter(on_line), _Program(grace)
    with _ended_by_signals(), _OutputFile(output) as out, _OutputFile(errors) as err:

        def keep(printed: Iterable[tuple[int, bytes]]) -> None:
            for number, data in printed:
                (out if number == _OUT else err).write(data)
                if number == _OUT:
                    lines.feed(data)

        silent = False
        try:
            program.start(command, os.environ if env is None else env)
            keep(program.printed(silence))
        except TimeoutError:
            silent = True
        finally:
            program.end()
            with suppress(PerflogError), program.closing():  # a full disk is told of already
                keep(program.rest())
        lines.end()
    return ProgramExit(program.code, silent)


class _Program:
    """A program and all processes that it has started."""

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._mark = uuid4().hex
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def code(self) -> int:
        """Exit code, negative for a signal. What hangs in the kernel has none yet."""
        code = None if self._process is None else self._process.poll()
        return -signal.SIGKILL if code is None else code

    def start(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        """Start it."""
        tether = [sys.executable, "-ISc", _TETHER, str(os.getpid())] if sys.platform == "linux" else []
        self._process = subprocess.Popen(
            [*tether, *command],
            env={**env, _MARK: self._mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # ctrl-C reaches us alone, and we end it in order
        )

    def printed(self, silence: float | None) -> Iterator[tuple[int, bytes]]:
        """Pieces of what it prints, as they come, until it has ended. Raises TimeoutError if it is silent too long."""
        assert self._process is not None
        with selectors.DefaultSelector() as selector:
            for number, pipe in self._pipes():
                selector.register(pipe, selectors.EVENT_READ, number)
            heard = time.monotonic()
            while self._process.poll() is None:
                for key, _ in selector.select(_PAUSE):
                    if data := os.read(key.fd, _PIECE):
                        yield key.data, data
                        heard = time.monotonic()
                    else:
                        selector.unregister(key.fileobj)
                if silence is not None and time.monotonic() - heard > silence:
                    raise TimeoutError

    def rest(self) -> Iterator[tuple[int, bytes]]:
        """What stands in the pipes when it has been ended."""
        for number, pipe in self._pipes():
            os.set_blocking(pipe.fileno(), False)
            with suppress(BlockingIOError):  # who cannot be killed holds it open
                while data := os.read(pipe.fileno(), _PIECE):
                    yield number, data

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Closes the pipes at the end."""
        with ExitStack() as stack:
            for _, pipe in self._pipes():
                stack.enter_context(pipe)
            yield

    def _pipes(self) -> list[tuple[int, IO[bytes]]]:
        pipes = {} if self._process is None else {_OUT: self._process.stdout, _ERR: self._process.stderr}
        return [(number, pipe) for number, pipe in pipes.items() if pipe is not None]

    def end(self) -> None:
        """End all its processes. An interrupt meanwhile ends the grace."""
        try:
            # When the launcher itself has ended, nobody waits for those that it left behind.
            if self._process is None or self._process.poll() is None:
                self._signal(signal.SIGTERM)
                self._all_gone(self._grace)
        finally:
            over = time.monotonic() + _GONE
            while not self._all_gone(0) and time.monotonic() < over:
                self._signal(signal.SIGKILL)  # again and again: one may start another meanwhile
                time.sleep(_LOOK)

    def _all_gone(self, seconds: float) -> bool:
        """Whether none is left, after so many seconds at most."""
        over = time.monotonic() + seconds
        while self._alive():
            if time.monotonic() >= over:
                return False
            time.sleep(_LOOK)
        return True

    def _alive(self) -> bool:
        if self._process is not None and self._process.poll() is None:
            return True
        if self._marked():
            return True
        time.sleep(_LOOK / 10)  # a process shows no environment in the moment in which it becomes another program
        return bool(self._marked())

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if self._process is not None and self._process.poll() is None:
                os.killpg(self._process.pid, number)
        for pid in self._marked():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    def _marked(self) -> list[int]:
        """Processes with the mark. A zombie has no environment any more."""
        found, mark = [], f"{_MARK}={self._mark}".encode()
        for entry in os.listdir(_PROC) if _PROC.is_dir() else ():
            if entry.isdigit():
                with suppress(OSError):  # gone, or not ours
                    if mark in (_PROC / entry / "environ").read_bytes().split(b"\0"):
                        found.append(int(entry))
        return found


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """While inside, SIGTERM and SIGHUP end us as an exception does, so that what we started is ended first."""

    def leave(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    before = {}
    if threading.current_thread() is threading.main_thread():
        names = (signal.SIGTERM, signal.SIGHUP)
        before = {n: signal.signal(n, leave) for n in names if signal.getsignal(n) is signal.SIG_DFL}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# --- what it prints -----------------------------------------------------------------------------------------------


class _LineSplitter:
    """Makes lines of pieces."""

    def __init__(self, on_line: Callable[[str], None] | None) -> None:
        self._on_line = on_line
        self._begun = b""

    def feed(self, data: bytes) -> None:
        if self._on_line is None:
            return
        *whole, self._begun = (self._begun + data).split(b"\n")
        for line in whole:
            self._on_line(line.decode("utf-8", "replace"))
        if len(self._begun) > _LINE:
            self.end()

    def end(self) -> None:
        """Tell the line that has no end."""
        if self._on_line is not None and self._begun:
            self._on_line(self._begun.decode("utf-8", "replace"))
        self._begun = b""


class _OutputFile:
    """A file that is written at once, and is not left behind empty."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> _OutputFile:
        try:
            self._file = open(self._path, "wb", buffering=0)
        except OSError as error:
            raise PerflogError(f"cannot be written: {error.strerror}", str(self._path)) from error
        return self

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> PerflogError:
        help = "all ranks are ended; what was written until then is kept"
        return PerflogError(f"cannot be written on: {error.strerror}", str(self._path), help)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self._file.close()
        except OSError as error:  # a network file system may say only now that it is full
            if kind is None:
                raise self._failed(error) from error
        if self._path.is_file() and not self._path.stat().st_size:
            self._path.unlink()
