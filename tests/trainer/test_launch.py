"""Ranks under torchrun: how they are started, and what is said of those that fail. No rank is left behind."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.live_processes import NAME, alive
from support.paths import ROOT
from support.patience import PATIENCE_S, SilenceClock, wait_until

from perflog.errors import PerflogError, UsageError
from perflog.ingestion.workers import cores
from perflog.trainer import launch as launching
from perflog.trainer import watched_process
from perflog.trainer.launch import LaunchError, RankOptions, environment, failed_ranks, launch, stderr_file

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch")


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A log in an empty folder; at the end no process is left of those that were started meanwhile."""
    monkeypatch.setenv(NAME, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    yield tmp_path / "run.log"
    assert [pid for pid in alive(str(tmp_path)) if pid != os.getpid()] == []


def program(log: Path, code: str) -> list[str]:
    """A program file, to be run on each rank. It writes a line at once: `print` writes the end of a line by itself."""
    path = log.with_name("program.py")
    path.write_text("import os, signal, sys, time\nrank = int(os.environ['RANK'])\n" + textwrap.dedent(code))
    return [str(path)]


def stand_in(log: Path, code: str) -> list[str]:
    """What is started in place of torchrun."""
    path = log.with_name("launcher.py")
    path.write_text(textwrap.dedent(code))
    return [sys.executable, str(path)]


# --- starting -----------------------------------------------------------------------------------------------------


def started(log: Path, *options: str) -> list[str]:
    launch(
        ["-m", "some.program", "--steps", "3"],
        RankOptions(4, options),
        log,
        launcher=stand_in(log, "import sys; print(*sys.argv[1:])"),
    )
    return re.sub(r"--log-dir \S+ ", "", log.read_text()).split()


def test_torchrun_gets_the_ranks_and_the_program(log: Path) -> None:
    assert started(log) == "--standalone --nproc-per-node 4 --tee 2 -m some.program --steps 3".split()


@pytest.mark.parametrize(
    "options", ["--nnodes 2 --rdzv-endpoint far:29500", "--nnodes=2 --rdzv_backend=c10d", "--node-rank 1"]
)
def test_torchruns_own_options_replace_the_rendezvous(log: Path, options: str) -> None:
    assert started(log, *options.split()) == f"--nproc-per-node 4 --tee 2 {options} -m some.program --steps 3".split()


def test_threads_are_shared_out_unless_the_user_says() -> None:
    assert environment(1, {})["OMP_NUM_THREADS"] == str(cores())
    assert environment(10 * cores(), {})["OMP_NUM_THREADS"] == "1"
    assert environment(1, {"OMP_NUM_THREADS": "3"})["OMP_NUM_THREADS"] == "3"


def test_ranks_find_perflog_and_not_what_lies_around(log: Path) -> None:
    log.with_name("perflog.py").write_text("raise SystemExit('the wrong one')")
    launch([], RankOptions(1), log, launcher=[sys.executable, "-c", "import perflog.errors as e; print(e.__file__)"])
    assert Path(log.read_text().strip()).resolve() == (ROOT / "perflog" / "errors.py").resolve()


def test_without_torch_it_says_what_to_install(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "find_spec", lambda _: None)
    with pytest.raises(LaunchError, match=r"PyTorch, which is not installed(.|\n)*pip install torch"):
        launch(["program.py"], RankOptions(1), log)
    assert not log.exists()


@pytest.mark.parametrize(
    "options", ["--master-port {}", "--rdzv-backend c10d --rdzv_endpoint=localhost:{}", "--nnodes 1 --master_port={}"]
)
def test_a_taken_port_is_told_at_once(log: Path, options: str) -> None:
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(LaunchError, match=f"port {port} is taken"):
            started(log, *options.format(port).split())
    assert started(log, *options.format(port).split())


def test_with_several_nodes_a_port_may_be_in_use(log: Path) -> None:
    with socket.create_server(("", 0)) as server:
        options = f"--nnodes 2 --rdzv-endpoint localhost:{server.getsockname()[1]}".split()
        assert started(log, *options)
        waits = stand_in(log, "import time; time.sleep(300)")
        with pytest.raises(LaunchError, match="is taken by another program"):
            launch(["x.py"], RankOptions(1, tuple(options), silence=0.5), log, launcher=waits)


# --- what went wrong ----------------------------------------------------------------------------------------------

ACCOUNT = """\
[rank 0] warning
[rank 1] Traceback (most recent call last):
[rank 1] ValueError: boom
[rank 2] RuntimeError: connection closed by peer
W1120 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 10 closing signal SIGTERM
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
program.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-20_20:17:02
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 10218)  (SIGTERM)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 10218
[2]:
  time      : 2026-11-20_20:17:02
  host      : localhost
  rank      : 1 (local_rank: 1)
  exitcode  : {code} (pid: 10218)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-20_20:17:02
  host      : localhost
  rank      : 2 (local_rank: 2)
  exitcode  : 1 (pid: 10219)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""


def test_the_root_cause_comes_first_and_those_torchrun_ended_do_not_count() -> None:
    assert [(one.rank, one.code) for one in failed_ranks(ACCOUNT.format(code=1))] == [(2, 1), (1, 1)]
    assert failed_ranks(ACCOUNT.format(code=1))[1].lines == ("Traceback (most recent call last):", "ValueError: boom")


def test_a_killed_rank_comes_before_one_that_lost_it() -> None:
    assert [(one.rank, one.end) for one in failed_ranks(ACCOUNT.format(code=-9))] == [
        (1, "was killed by SIGKILL"),
        (2, "failed with exit code 1"),
    ]


def test_who_says_what_is_wrong_comes_first() -> None:
    text = ACCOUNT.format(code=2).replace(
        "ValueError: boom", "[rank 1] error: 4 ranks on this node, but 1 GPUs\n[rank 1] start 1"
    )
    assert failed_ranks(text)[0].message == "4 ranks on this node, but 1 GPUs\nstart 1"


def test_no_account_means_no_rank() -> None:
    assert failed_ranks("Segmentation fault") == []


def fails(log: Path, stderr: str, code: int = 1) -> PerflogError:
    launcher = stand_in(log, f"import sys; print('[rank 1] step 7'); sys.stderr.write({stderr!r}); sys.exit({code})")
    with pytest.raises(PerflogError) as caught:
        launch(["x.py"], RankOptions(3), log, launcher=launcher)
    return caught.value


def test_a_rank_that_fails_is_named_with_its_last_lines_and_exit_code(log: Path) -> None:
    error = fails(log, ACCOUNT.format(code=3).replace("rank      : 2 (local_rank: 2)", "rank      : 0 (local_rank: 0)"))
    assert "rank 0 failed with exit code 1" in error.reason
    assert (error.where, error.code) == (str(log), 3)
    assert "  [rank 0] warning\n" in error.help
    assert "then rank 1 failed too" in error.help
    assert error.help.endswith(f"what was printed is in {log} and {stderr_file(log)}")
    assert stderr_file(log).read_text().startswith("[rank 0] warning")


def test_a_killed_rank_is_told_with_its_last_line(log: Path) -> None:
    error = fails(log, ACCOUNT.format(code=-9))
    assert "rank 1 was killed by SIGKILL" in error.reason
    assert "  [rank 1] step 7\n  [rank 1] Traceback" in error.help
    assert "memory" in error.help


def test_what_the_trainer_says_is_the_message(log: Path) -> None:
    text = ACCOUNT.format(code=2).replace(
        "ValueError: boom", "error: 4 ranks on this node, but 1 GPUs\n[rank 1] start 1"
    )
    error = fails(log, text)
    assert isinstance(error, UsageError)
    assert str(error) == "4 ranks on this node, but 1 GPUs\nstart 1"


def test_a_launcher_that_fails_itself_shows_its_last_lines(log: Path) -> None:
    error = fails(log, "run.py: error: unrecognized arguments: --nodes\n", 2)
    assert error.reason == "the launcher failed with exit code 2"
    assert "unrecognized arguments: --nodes" in error.help


def test_a_port_that_torchrun_finds_taken(log: Path) -> None:
    text = "torch.distributed.DistNetworkError: The server socket has failed to listen. port: 29500, name: EADDRINUSE\n"
    assert fails(log, text).reason == "a port is taken by another program"


# --- real ranks ---------------------------------------------------------------------------------------------------


@needs_torch
@pytest.mark.parametrize(
    ("code", "reason", "line"),
    [
        ("raise ValueError('boom')", "rank 1 failed with exit code 1", "[rank 1] ValueError: boom"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "rank 1 was killed by SIGKILL", "[rank 1] step 3"),
    ],
    ids=["raises", "killed"],
)
def test_a_real_rank_that_ends_ends_them_all(log: Path, code: str, reason: str, line: str) -> None:
    """What the ranks print is in the log, and their errors are beside it. `ACCOUNT` has other exit codes."""
    text = f"""
        os.write(1, f"[rank {{rank}}] of {{os.environ['WORLD_SIZE']}}\\n[rank {{rank}}] step 3\\n".encode())
        os.write(2, b"careful\\n")
        if rank == 1:
            for name, word in (({str(log)!r}, "step"), ({str(stderr_file(log))!r}, "careful")):
                while not os.path.exists(name) or open(name).read().count(word) < 2:
                    time.sleep(0.01)
            {code}
        time.sleep(300)
    """
    lines: list[str] = []
    with pytest.raises(LaunchError) as caught:
        launch(program(log, text), RankOptions(2), log, lines.append)
    assert caught.value.reason == f"{reason}; all ranks were stopped"
    assert line in caught.value.help
    printed = [f"[rank {rank}] {said}" for rank in (0, 1) for said in ("of 2", "step 3")]
    assert sorted(lines) == sorted(log.read_text().splitlines()) == printed
    errors = stderr_file(log).read_text().splitlines()
    assert sorted(line for line in errors if "careful" in line) == ["[rank 0] careful", "[rank 1] careful"]


TWO_RANKS = """
    import os, subprocess, sys
    started = [subprocess.Popen([sys.executable, sys.argv[-1]], env=os.environ | {"RANK": str(k)}) for k in range(2)]
    for process in started:
        process.wait()
"""
"""Stands in for torchrun, which takes two seconds to start."""


def test_a_rank_that_hangs_and_ignores_sigterm(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for step in range(3 + 2 * (1 - rank)):
            sys.stdout.write(f"[rank {rank}] step {step}\\n")
        time.sleep(300)
    """
    monkeypatch.setattr(watched_process, "time", SilenceClock(log, "[rank 0] step 4\n", "[rank 1] step 2\n"))
    options, launcher = RankOptions(2, silence=600, grace=0.5), stand_in(log, TWO_RANKS)
    with pytest.raises(LaunchError, match="no output for 600 s") as caught:
        launch(program(log, code), options, log, launcher=launcher)
    assert "  [rank 0] step 4\n  [rank 1] step 2\n" in caught.value.help


@pytest.mark.parametrize(
    ("number", "is_torchrun"), [pytest.param(signal.SIGINT, True, marks=needs_torch), (signal.SIGTERM, False)]
)
def test_an_interrupt_leaves_no_rank(log: Path, number: signal.Signals, is_torchrun: bool) -> None:
    launcher = "TORCHRUN" if is_torchrun else repr(stand_in(log, TWO_RANKS))
    path = program(log, "print(f'[rank {rank}] here', flush=True)\ntime.sleep(300)")
    # A shell starts background jobs with interrupts ignored, and their children inherit that.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    code += "from pathlib import Path; from perflog.trainer.launch import *; "
    code += f"launch({path!r}, RankOptions(2), Path({str(log)!r}), launcher={launcher})"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    perflog = subprocess.Popen([sys.executable, "-c", code], env=env, stderr=subprocess.DEVNULL)
    wait_until(lambda: log.is_file() and log.read_text().count("here") == 2)
    assert len(alive(str(log.parent))) >= 4  # ourselves, torchrun and two ranks
    perflog.send_signal(number)
    assert perflog.wait(PATIENCE_S) in (-signal.SIGINT, 128 + signal.SIGTERM)
    assert alive(str(log.parent)) == []


@needs_torch
def test_the_parent_does_not_import_torch(log: Path) -> None:
    code = f"""
        import sys
        from pathlib import Path
        from perflog.trainer.launch import RankOptions, launch
        launch([], RankOptions(1), Path({str(log)!r}), launcher=[sys.executable, "-c", "pass"])
        sys.exit("torch" in sys.modules)
    """
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    assert subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env=env).returncode == 0
