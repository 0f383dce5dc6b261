"""Starts the ranks of a program with torchrun: command line, environment, and an error message if it fails.

torch.distributed.run does the rendezvous, starts the ranks, and ends them all when one fails. It runs in its own
process: this module does not import torch.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

from perflog.errors import PerflogError, UsageError
from perflog.files import temporary
from perflog.ingestion.workers import cores
from perflog.trainer.watched_process import GRACE, ProgramExit, run_program

SILENCE = 300.0
"""Seconds without any output after which the ranks count as hung."""

TORCHRUN = (sys.executable, "-m", "torch.distributed.run")

_OWN_RENDEZVOUS = re.compile(r"--?(standalone|nnodes|node|rdzv|master)")
_SHOWN = 12  # number of last lines in a message
_TAIL = 1 << 20  # bytes at the end of a file that are searched for them
_RANK = re.compile(r"\[rank (\d+)\] ?(.*)")
_FAILED = re.compile(r"rank +: (\d+) \(local_rank.*\n.*exitcode +: (-?\d+) ")
_CAUSE = "Root Cause"
_TAKEN = re.compile(r"EADDRINUSE|[Aa]ddress already in use")
_PORT = re.compile(r"(?:port[= ]|endpoint[= ]\S*:)(\d{1,5})\b")
_NODES = re.compile(r"nnodes[= ](?!1(?::1)?(?: |$))")  # several nodes: the first of them may hold the port
_OTHER_PORT = "name another one to torchrun, or none: on one machine it finds a free one"
_MESSAGE = re.compile(r"(?:\[rank \d+\] )?(?:error|perflog): ")


class LaunchError(PerflogError):
    """Ranks could not start, failed or hung."""


class RankOptions(Struct, frozen=True):
    """How to start and end the ranks."""

    count: int  # ranks on this machine
    options: tuple[str, ...] = ()  # options of torchrun
    silence: float | None = SILENCE  # seconds without output that mean a hang; None: no limit
    grace: float = GRACE  # seconds between SIGTERM and SIGKILL


def launch(
    program: Sequence[str],
    ranks: RankOptions,
    log: Path,
    on_line: Callable[[str], None] | None = None,
    launcher: Sequence[str] = TORCHRUN,
) -> None:
    """Run a program (a file or `-m`, a module, and arguments) on ranks. `log` gets what they print.

    `stderr_file(log)` gets what torchrun and the ranks write to standard error; `on_line` gets each line of the log.
    All processes have ended when this returns or raises.

    Raises:
        LaunchError: if torch is not installed, or a rank fails, is killed or hangs.
        PerflogError: if the log cannot be written.
    """
    if launcher is TORCHRUN and find_spec("torch") is None:
        reason = "the trainer needs PyTorch, which is not installed; all other commands work without"
        raise LaunchError(reason, help="pip install torch")
    if (port := _port(ranks.options)) and not _NODES.search(" ".join(ranks.options)) and _in_use(port):
        raise LaunchError(f"port {port} is taken by another program", help=_OTHER_PORT)
    with tempfile.TemporaryDirectory(dir=temporary.folder(), ignore_cleanup_errors=True) as folder:
        # Tee only standard error: torchrun then names the rank. Standard output comes straight from the ranks.
        tee_options = ["--tee", "2", "--log-dir", folder]
        rendezvous = [] if any(map(_OWN_RENDEZVOUS.match, ranks.options)) else ["--standalone"]
        command = [*launcher, *rendezvous, "--nproc-per-node", str(ranks.count), *tee_options, *ranks.options, *program]
        result = run_program(
            command, log, stderr_file(log), environment(ranks.count), ranks.silence, on_line, ranks.grace
        )
    if result.silent or result.code:
        raise _launch_error(result, ranks, log)


def stderr_file(log: Path) -> Path:
    """Return the file for the standard error of the ranks and torchrun. It exists only if they wrote any."""
    return log.with_name(f"{log.name}.err")


def environment(ranks: int, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of the launcher: ours, with threads divided among ranks and perflog on the path."""
    env = dict(os.environ if base is None else base)
    env.setdefault("OMP_NUM_THREADS", str(max(1, cores() // ranks)))
    env["PYTHONUNBUFFERED"] = "1"  # the log has what a killed rank printed
    env["PYTHONSAFEPATH"] = "1"  # do not import a torch.py of the current folder
    env["TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"] = "[rank ${rank}] "  # the same prefix as in the log
    home = Path(__file__).parents[2]
    if home.name not in ("site-packages", "dist-packages"):  # a checkout works without installation
        env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(home), env.get("PYTHONPATH"))))
    return env


# --- error messages ----------------------------------------------------------------------------------------------


class FailedRank(Struct, frozen=True):
    """A rank that failed: its exit code, negative for a signal, and the last lines of its standard error."""

    rank: int
    code: int
    lines: tuple[str, ...]

    @property
    def message(self) -> str | None:
        """The error message of the program itself, without its prefix."""
        for i, line in enumerate(self.lines):
            if match := _MESSAGE.match(line):
                return "\n".join((line[match.end() :], *self.lines[i + 1 :]))
        return None

    @property
    def end(self) -> str:
        """How the rank ended, in words."""
        return f"was killed by {signal_name(-self.code)}" if self.code < 0 else f"failed with exit code {self.code}"


def signal_name(number: int) -> str:
    """Return the name of a signal: SIGKILL for 9."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def failed_ranks(text: str) -> list[FailedRank]:
    """Return the ranks that failed, first cause first, from torchrun's summary at the end of standard error.

    torchrun calls the failure that it saw first the root cause. If several ranks fail at about the same time, this can
    be a rank that only lost its peer. So a rank with a message of its own, or one that was killed, comes before it.
    """
    if _CAUSE not in text:
        return []
    others, _, cause = text.rpartition(_CAUSE)
    failures = [*_FAILED.findall(cause), *_FAILED.findall(others)]
    lines = list(_by_rank(text.splitlines()))
    ranks = [FailedRank(int(r), int(c), tuple(line for k, line in lines if k == int(r))[-_SHOWN:]) for r, c in failures]
    ranks = [rank for rank in ranks if rank.code != -signal.SIGTERM] or ranks  # without those that torchrun ended
    return sorted(ranks, key=lambda rank: (rank.message is None, rank.code >= 0))


def _launch_error(result: ProgramExit, ranks: RankOptions, log: Path) -> PerflogError:
    """Return the error to raise."""
    text = _tail(stderr_file(log))
    failed = failed_ranks(text)
    files = [str(path) for path in (log, stderr_file(log)) if path.is_file()]
    kept = f"what was printed is in {' and '.join(files)}" if files else "nothing was printed"
    if not result.silent and failed and (message := failed[0].message):
        reason, _, help = message.partition("\n")
        error = UsageError if failed[0].code == UsageError.code else LaunchError
        return error(reason, help=help)
    if (port := _port_in_use(ranks.options, "\n".join(failed[0].lines) if failed else text, log)) is not None:
        return LaunchError(f"{port} is taken by another program", help=f"{_OTHER_PORT}\n{kept}")
    if result.silent:
        reason = f"no output for {ranks.silence:g} s: taken to hang, and ended"
        help = "a longer --timeout if that is no hang"
        return LaunchError(reason, str(log), "\n".join((*_shown(_last_of_ranks(log)), help, kept)))
    if not failed:
        end = FailedRank(0, result.code, ()).end
        lines = tuple(text.splitlines()[-_SHOWN:])
        return LaunchError(f"the launcher {end}", str(log), "\n".join((*_shown(lines), kept)))
    return _rank_error(failed, log, kept)


def _port_in_use(options: Sequence[str], text: str, log: Path) -> str | None:
    """Return the port if another program holds it: torchrun reports that, or waits for an answer from the port."""
    port = _port(options)
    if _TAKEN.search(text) or (port and not log.is_file() and _in_use(port)):
        return f"port {port}" if port else "a port"
    return None


def _port(options: Sequence[str]) -> int | None:
    """Return the port that the options name."""
    match = _PORT.search(" ".join(options))
    return int(match[1]) if match else None


def _in_use(port: int) -> bool:
    try:
        socket.create_server(("", port)).close()
    except (OSError, OverflowError) as error:
        return isinstance(error, OSError) and error.errno == errno.EADDRINUSE
    return False


def _rank_error(failed: Sequence[FailedRank], log: Path, kept: str) -> LaunchError:
    first, others = failed[0], failed[1:]
    last = [line for line in _last_of_ranks(log) if line.startswith(f"[rank {first.rank}]")]
    lines = [*last, *(f"[rank {first.rank}] {line}" for line in first.lines)]
    help = [*_shown(lines)] if lines else ["it said nothing of it"]
    if first.code == -signal.SIGKILL:
        help.append("who sends SIGKILL is often the system, when memory runs out")
    if others:
        help.append(f"then rank {', '.join(str(x.rank) for x in others)} failed too")
    return LaunchError(f"rank {first.rank} {first.end}; all ranks were stopped", str(log), "\n".join((*help, kept)))


def _last_of_ranks(log: Path) -> list[str]:
    """Return the last line of each rank; if lines do not name their rank, the last lines."""
    lines = _tail(log).splitlines()
    last = {rank: f"[rank {rank}] {text}" for rank, text in _by_rank(lines)}
    return [last[rank] for rank in sorted(last)] or lines[-_SHOWN:]


def _by_rank(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    for line in lines:
        if match := _RANK.match(line):
            yield int(match[1]), match[2]


def _shown(lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield "last lines:"
        yield from (f"  {line}" for line in lines)


def _tail(path: Path) -> str:
    if not path.is_file():
        return ""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL))
        return file.read().decode("utf-8", "replace")
