"""Programs that crash, hang, flood or are killed: what they printed is kept, and none of their processes is left."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.live_processes import NAME, alive
from support.paths import ROOT
from support.patience import PATIENCE_S, SilenceClock, wait_until

from perflog.errors import PerflogError
from perflog.trainer import watched_process
from perflog.trainer.watched_process import ProgramExit, run_program

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")


# A grandchild in a session of its own, as torchrun starts its ranks. It says when it is there.
GRANDCHILD = """
import os, subprocess, sys
code = "import signal, time; {first}; print('there', flush=True); time.sleep(300)"
process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stdout=subprocess.PIPE)
process.stdout.readline()
"""


class Stage:
    """Where programs run: their environment, and the files that they print to."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.mark, self.folder = str(folder), folder
        self.monkeypatch = monkeypatch
        self.log, self.errors = folder / "log", folder / "log.err"
        self.env = {**os.environ, NAME: self.mark, "PYTHONUNBUFFERED": "1"}

    def run(self, code: str, grace: float = PATIENCE_S, **given: object) -> ProgramExit:
        return run_program([sys.executable, "-c", code], self.log, self.errors, self.env, grace=grace, **given)  # type: ignore[arg-type]

    def hangs(self, code: str, grace: float = PATIENCE_S, last_words: str = "a\n") -> ProgramExit:
        """Run a program that hangs when it has printed its last words."""
        self.monkeypatch.setattr(watched_process, "time", SilenceClock(self.log, last_words))
        return self.run(code, grace, silence=600)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    stage = Stage(tmp_path, monkeypatch)
    yield stage
    assert alive(stage.mark) == []


# --- output -------------------------------------------------------------------------------------------------------


def test_output_and_errors_go_to_their_files(stage: Stage) -> None:
    lines: list[str] = []
    done = stage.run(
        "import sys; print('a'); print('b', end=''); print('wrong', file=sys.stderr)", on_line=lines.append
    )
    assert done == ProgramExit(0)
    assert (stage.log.read_text(), stage.errors.read_text()) == ("a\nb", "wrong\n")
    assert lines == ["a", "b"]


def test_lines_are_told_as_they_come(stage: Stage) -> None:
    """The program prints a line only when the one before it was told."""
    code = f"""
        import time
        from pathlib import Path
        for n in range(3):
            print(n)
            while not Path({str(stage.folder)!r}, str(n)).exists(): time.sleep(0.01)
    """
    done = stage.run(textwrap.dedent(code), silence=PATIENCE_S, on_line=lambda line: (stage.folder / line).touch())
    assert done == ProgramExit(0)


def test_a_line_in_pieces_is_one_line(stage: Stage) -> None:
    code = "import os, time\nfor part in (b'a', b'\\xc3', b'\\xa9', b'\\nb'): os.write(1, part); time.sleep(0.05)"
    lines: list[str] = []
    stage.run(code, on_line=lines.append)
    assert lines == ["aé", "b"]


def test_no_errors_leave_no_file(stage: Stage) -> None:
    stage.run("print('a')")
    assert not stage.errors.exists()


def test_a_flood_is_kept_whole(stage: Stage) -> None:
    count = 0

    def told(_: str) -> None:
        nonlocal count
        count += 1

    stage.run(
        "import sys\nfor n in range(300_000): print(n, 'x' * 50)\nsys.stderr.write('y' * 3_000_000)", on_line=told
    )
    assert count == 300_000
    assert stage.log.read_bytes().endswith(b"\n299999 " + b"x" * 50 + b"\n")
    assert stage.errors.stat().st_size == 3_000_000


def test_a_flood_without_line_ends_does_not_pile_up(stage: Stage) -> None:
    lengths: list[int] = []
    stage.run("import sys; sys.stdout.write('x' * 5_000_000)", on_line=lambda line: lengths.append(len(line)))
    assert sum(lengths) == stage.log.stat().st_size == 5_000_000
    assert max(lengths) < 2 << 20


@pytest.mark.parametrize(("code", "ended"), [("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", -9)])
def test_the_exit_code_is_the_programs(stage: Stage, code: str, ended: int) -> None:
    assert stage.run(f"print('a')\n{code}") == ProgramExit(ended)
    assert stage.log.read_text() == "a\n"


def test_standard_input_is_empty(stage: Stage) -> None:
    stage.run("print(repr(input() if False else __import__('sys').stdin.read()))")
    assert stage.log.read_text() == "''\n"


# --- ending -------------------------------------------------------------------------------------------------------

IGNORES = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"


def test_a_program_that_falls_silent_is_ended(stage: Stage) -> None:
    assert stage.hangs("import time; print('a'); time.sleep(300)").silent
    assert stage.log.read_text() == "a\n"


def test_a_program_that_never_speaks_is_silent(stage: Stage) -> None:
    assert stage.run("import time; time.sleep(300)", silence=0.1).silent
    assert not stage.log.exists()


def test_a_program_that_speaks_now_and_then_is_not_silent(stage: Stage) -> None:
    """By the clock of this test 100 s pass with each line, on standard error."""
    code = "import sys, time\nfor n in range(4): print(n, file=sys.stderr); time.sleep(0.05)"

    class PhaseClock:
        sleep = staticmethod(time.sleep)

        def monotonic(self) -> float:
            return 100.0 * stage.errors.read_text().count("\n") if stage.errors.is_file() else 0.0

    stage.monkeypatch.setattr(watched_process, "time", PhaseClock())
    assert stage.run(code, silence=150) == ProgramExit(0)


def test_who_ignores_sigterm_is_killed(stage: Stage) -> None:
    done = stage.hangs(f"import signal, time; {IGNORES}; print('a'); time.sleep(300)", grace=0.3)
    assert done == ProgramExit(-9, True)


def test_what_is_said_on_the_way_out_is_kept(stage: Stage) -> None:
    code = """
        import signal, sys, time
        def leave(*_): print("bye"); print("why", file=sys.stderr); sys.exit(0)
        signal.signal(signal.SIGTERM, leave); print("a"); time.sleep(300)
    """
    assert stage.hangs(textwrap.dedent(code)).silent
    assert (stage.log.read_text(), stage.errors.read_text()) == ("a\nbye\n", "why\n")


@pytest.mark.parametrize("first", ["pass", IGNORES], ids=["heeds", "ignores"])
@pytest.mark.parametrize("end", ["pass", "sys.exit(1)", "os.kill(os.getpid(), 9)"])
def test_grandchildren_in_sessions_of_their_own_are_ended(stage: Stage, first: str, end: str) -> None:
    assert not stage.run(GRANDCHILD.format(first=first) + end, silence=PATIENCE_S, grace=0.3).silent


@pytest.mark.parametrize("first", ["pass", IGNORES], ids=["heeds", "ignores"])
def test_grandchildren_of_a_program_that_hangs_are_ended(stage: Stage, first: str) -> None:
    assert stage.hangs(GRANDCHILD.format(first=first) + "print('a'); import time; time.sleep(300)", grace=0.3).silent


def test_a_grandchild_that_floods_does_not_keep_it(stage: Stage) -> None:
    flood = "while True: print(1)"
    code = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {flood!r}]); time.sleep(0.3)"
    assert stage.run(code) == ProgramExit(0)


def test_an_error_in_who_is_told_ends_it(stage: Stage) -> None:
    def told(_: str) -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        stage.run("import time; print('a'); time.sleep(300)", on_line=told)


# --- files that cannot be written ---------------------------------------------------------------------------------


def test_a_full_disk_ends_it(stage: Stage) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    stage.log = Path("/dev/full")
    with pytest.raises(PerflogError, match="No space left on device") as caught:
        stage.run("import time; print('a'); time.sleep(300)")
    assert caught.value.where == "/dev/full"


def test_a_disk_that_fills_up_keeps_what_it_took(stage: Stage) -> None:
    """The limit on the size of a file stands for the disk: the write fails in the middle."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(PerflogError, match="cannot be written any further"):
            stage.run("import time\nfor n in range(1000): print('x' * 99)\ntime.sleep(300)")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert stage.log.stat().st_size == 10_000


def test_a_log_that_cannot_be_opened_starts_nothing(stage: Stage) -> None:
    stage.log = stage.log / "no" / "folder"
    with pytest.raises(PerflogError, match="cannot be written"):
        stage.run("print('a')")


# --- ending perflog itself ----------------------------------------------------------------------------------------


def perflog(stage: Stage, program: str, grace: float = PATIENCE_S, before: str = "") -> subprocess.Popen[bytes]:
    """A process that runs a program as perflog does, once the program has printed its first line.

    It has the usual handlers of signals, also where the tests run under `nohup` or in the background of a shell, which
    ignore some.
    """
    code = f"""
        import signal, sys
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        from pathlib import Path
        from perflog.trainer.watched_process import run_program
        {before}
        run_program([sys.executable, "-c", {program!r}],
            Path({str(stage.log)!r}), Path({str(stage.errors)!r}), grace={grace})
    """
    env = {**stage.env, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], env=env, stderr=subprocess.DEVNULL)
    wait_until(
        lambda: stage.log.is_file() and b"\n" in stage.log.read_bytes()
    )  # the whole line: it comes in two writes
    return process


HANGS = GRANDCHILD.format(first="pass") + "print('a')\nimport time; time.sleep(300)"
STAYS = (
    "import signal; signal.signal(signal.SIGTERM, lambda *_: open({noted!r}, 'w').close())\n"
    + GRANDCHILD.replace("{first}", IGNORES)
    + "print('a')\nimport time; time.sleep(300)"
)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
def test_a_signal_to_perflog_ends_the_program(stage: Stage, number: signal.Signals) -> None:
    process = perflog(stage, HANGS)
    assert len(alive(stage.mark)) == 3
    process.send_signal(number)
    assert process.wait(PATIENCE_S) == (128 + number if number != signal.SIGINT else -signal.SIGINT)
    assert alive(stage.mark) == []
    assert stage.log.read_text() == "a\n"


def test_a_signal_to_the_command_line_ends_the_program(stage: Stage) -> None:
    """The command line handles signals itself."""
    before = "from perflog.signals import ended_by_signals; handled = ended_by_signals(); handled.__enter__()"
    process = perflog(stage, HANGS, before=before)
    process.terminate()
    assert process.wait(PATIENCE_S) == 128 + signal.SIGTERM
    assert alive(stage.mark) == []


def test_a_second_interrupt_ends_the_grace(stage: Stage) -> None:
    noted = stage.folder / "got SIGTERM"
    process = perflog(stage, STAYS.replace("{noted!r}", repr(str(noted))), grace=3600)
    process.send_signal(signal.SIGINT)
    wait_until(noted.exists)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.wait(PATIENCE_S)
    assert alive(stage.mark) == []


def test_the_program_is_told_when_perflog_is_killed(stage: Stage) -> None:
    """It gets SIGTERM; what it started is then its own affair, as torchrun's ranks are."""
    process = perflog(stage, "import time; print('a'); time.sleep(300)")
    process.kill()
    process.wait()
    wait_until(lambda: alive(stage.mark) == [])
