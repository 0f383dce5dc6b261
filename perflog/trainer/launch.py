"""Ranks of a program, started by torchrun: its command line, its environment, and in words what went wrong.

torch.distributed.run does the rendezvous, starts the ranks, and ends them all when one fails. It runs in a process of
its own: torch is not imported here.
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
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from perflog.errors import PerflogError, UsageError
from perflog.trainer.watched_process import GRACE, ProgramExit, run_program

SILENCE = 300.0
"""Seconds without any output after which ranks are taken to hang."""

TORCHRUN = (sys.executable, "-m", "torch.distributed.run")

_OWN_RENDEZVOUS = re.compile(r"--?(standalone|nnodes|node|rdzv|master)")
_SHOWN = 12  # last lines that are shown
_TAIL = 1 << 20  # bytes at the end of a file in which they are looked for
_RANK = re.compile(r"\[rank (\d+)\] ?(.*)")
_FAILED = re.compile(r"rank +: (\d+) \(local_rank.*\n.*exitcode +: (-?\d+) ")
_CAUSE = "Root Cause"
_TAKEN = re.compile(r"EADDRINUSE|[Aa]ddress already in use")
_PORT = re.compile(r"(?:port[= ]|endpoint[= ]\S*:)(\d{1,5})\b")
_NODES = re.compile(r"nnodes[= ](?!1(?::1)?(?: |$))")  # several: the port may be held by the first of them
_OTHER_PORT = "name another one to torchrun, or none: on one machine it finds a free one"
_SAID = re.compile(r"(?:\[rank \d+\] )?(?:error|perflog): ")


class LaunchError(PerflogError):
    """Ranks that could not be started, failed or hung."""


@dataclass(frozen=True)
class RankOptions:
    """How ranks are started: how many on this machine, torchrun's own options, seconds of silence that mean a hang."""

    count: int
    options: tuple[str, ...] = ()
    silence: float | None = SILENCE
    grace: float = GRACE


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
        raise LaunchError(reason, help="pip install 'perflog-ml[train]'")
    if (port := _port(ranks.options)) and not _NODES.search(" ".join(ranks.options)) and _in_use(port):
        raise LaunchError(f"port {port} is taken by another program", help=_OTHER_PORT)
    with tempfile.TemporaryDirectory(prefix="perflog-", ignore_cleanup_errors=True) as folder:
        # Only standard error is teed, as that names the rank; standard output comes straight from the ranks.
        teed = ["--tee", "2", "--log-dir", folder]
        alone = [] if any(map(_OWN_RENDEZVOUS.match, ranks.options)) else ["--standalone"]
        command = [*launcher, *alone, "--nproc-per-node", str(ranks.count), *teed, *ranks.options, *program]
        ended = run_program(
            command, log, stderr_file(log), environment(ranks.count), ranks.silence, on_line, ranks.grace
        )
    if ended.silent or ended.code:
        raise _failure(ended, ranks, log)


def stderr_file(log: Path) -> Path:
    """The file that gets the standard error of what prints the log. It is there if there is any."""
    return log.with_name(f"{log.name}.err")


def environment(ranks: int, given: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of the launcher: ours, with threads shared out and perflog to be found."""
    env = dict(os.environ if given is None else given)
    env.setdefault("OMP_NUM_THREADS", str(max(1, _cores() // ranks)))
    env["PYTHONUNBUFFERED"] = "1"  # what a killed rank has printed is in the log
    env["PYTHONSAFEPATH"] = "1"  # a torch.py in the current folder is not the one that is meant
    env["TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"] = "[rank ${rank}] "  # as in the log
    home = Path(__file__).parents[2]
    if home.name not in ("site-packages", "dist-packages"):  # a checkout need not be installed
        env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(home), env.get("PYTHONPATH"))))
    return env


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# --- what went wrong ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FailedRank:
    """A rank that failed: its exit code, negative for a signal, and the last lines of its standard error."""

    rank: int
    code: int
    lines: tuple[str, ...]

    @property
    def said(self) -> str | None:
        """The error that the program itself tells, without the words before it."""
        for i, line in enumerate(self.lines):
            if found := _SAID.match(line):
                return "\n".join((line[found.end() :], *self.lines[i + 1 :]))
        return None

    @property
    def end(self) -> str:
        """How it ended, in words."""
        return f"was killed by {signal_name(-self.code)}" if self.code < 0 else f"failed with exit code {self.code}"


def signal_name(number: int) -> str:
    """SIGKILL for 9."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def failed_ranks(text: str) -> list[FailedRank]:
    """Ranks that failed of themselves, by torchrun's account at the end of standard error; the first cause first.

    torchrun names as the root cause the failure that it saw first. Of several at about the same time that can be a rank
    that only lost its peer: one that says what is wrong, or was killed, comes before it.
    """
    if _CAUSE not in text:
        return []
    others, _, cause = text.rpartition(_CAUSE)
    told = [*_FAILED.findall(cause), *_FAILED.findall(others)]
    lines = list(_by_rank(text.splitlines()))
    found = [FailedRank(int(r), int(c), tuple(line for k, line in lines if k == int(r))[-_SHOWN:]) for r, c in told]
    found = [one for one in found if one.code != -signal.SIGTERM] or found  # those torchrun ended itself
    return sorted(found, key=lambda one: (one.said is None, one.code >= 0))


def _failure(ended: ProgramExit, ranks: RankOptions, log: Path) -> PerflogError:
    """The error to raise."""
    text = _tail(stderr_file(log))
    found = failed_ranks(text)
    files = [str(path) for path in (log, stderr_file(log)) if path.is_file()]
    kept = f"what was printed is in {' and '.join(files)}" if files else "nothing was printed"
    if not ended.silent and found and (said := found[0].said):
        reason, _, help = said.partition("\n")
        kind = UsageError if found[0].code == UsageError.code else LaunchError
        return kind(reason, help=help)
    if (port := _taken(ranks.options, "\n".join(found[0].lines) if found else text, log)) is not None:
        return LaunchError(f"{port} is taken by another program", help=f"{_OTHER_PORT}\n{kept}")
    if ended.silent:
        reason = f"no output for {ranks.silence:g} s: taken to hang, and ended"
        help = "a longer --timeout if that is no hang"
        return LaunchError(reason, str(log), "\n".join((*_shown(_last_of_ranks(log)), help, kept)))
    if not found:
        end = FailedRank(0, ended.code, ()).end
        lines = tuple(text.splitlines()[-_SHOWN:])
        return LaunchError(f"the launcher {end}", str(log), "\n".join((*_shown(lines), kept)))
    return _of_rank(found, log, kept)


def _taken(options: Sequence[str], text: str, log: Path) -> str | None:
    """The port that another program has, if that is what is wrong: torchrun says so, or waits for its answer."""
    port = _port(options)
    if _TAKEN.search(text) or (port and not log.is_file() and _in_use(port)):
        return f"port {port}" if port else "a port"
    return None


def _port(options: Sequence[str]) -> int | None:
    """The port that is asked for."""
    found = _PORT.search(" ".join(options))
    return int(found[1]) if found else None


def _in_use(port: int) -> bool:
    try:
        socket.create_server(("", port)).close()
    except (OSError, OverflowError) as error:
        return isinstance(error, OSError) and error.errno == errno.EADDRINUSE
    return False


def _of_rank(found: Sequence[FailedRank], log: Path, kept: str) -> LaunchError:
    one, others = found[0], found[1:]
    last = [line for line in _last_of_ranks(log) if line.startswith(f"[rank {one.rank}]")]
    lines = [*last, *(f"[rank {one.rank}] {line}" for line in one.lines)]
    help = [*_shown(lines)] if lines else ["it said nothing of it"]
    if one.code == -signal.SIGKILL:
        help.append("who sends SIGKILL is often the system, when memory runs out")
    if others:
        help.append(f"then rank {', '.join(str(x.rank) for x in others)} failed too")
    return LaunchError(f"rank {one.rank} {one.end}; all ranks are ended", str(log), "\n".join((*help, kept)))


def _last_of_ranks(log: Path) -> list[str]:
    """The last line that each rank printed; where lines do not name their rank, the last lines."""
    lines = _tail(log).splitlines()
    last = {rank: f"[rank {rank}] {text}" for rank, text in _by_rank(lines)}
    return [last[rank] for rank in sorted(last)] or lines[-_SHOWN:]


def _by_rank(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    for line in lines:
        if found := _RANK.match(line):
            yield int(found[1]), found[2]


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
