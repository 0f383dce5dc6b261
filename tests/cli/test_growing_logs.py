"""`perflog watch` and `perflog ingest --follow`, on files that have stopped growing."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from support.commands import MOE, NVPROF, SWEEP, run, told

import perflog
from perflog.analysis.live_steps import LiveSteps
from perflog.cli.live_lines import LiveLines
from perflog.output import terminal
from perflog.output.presenters import live as presenter
from perflog.parsing.assemble.runs.run_state import RunSettings
from perflog.parsing.input.followed_file import FollowedFile
from perflog.tables.schema import arrow_schema
from perflog.tables.store import Store

ENDS = ("--interval", "0.01", "--until-idle", "0")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERFLOG_STORE", raising=False)
    return tmp_path


def test_watch_shows_the_last_step() -> None:
    out = run("watch", SWEEP, *ENDS).stdout.splitlines()
    assert out[0].startswith("run 2   step 11   ")
    assert "steps/s" in out[0]
    assert out[-1] == f"{SWEEP}: it has not grown for the time that was asked for"
    assert not Path(".perflog").exists()


def test_watch_prints_a_failure_once(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    step = "step {}: train loss {}.0, val loss 4.0\n"
    steps = "".join(step.format(k, 9 - k) for k in range(1, 4))
    log.write_text(f"{steps}[rank1]: RuntimeError: CUDA error: out of memory\n")
    lines = run("watch", log, *ENDS).output.splitlines()
    told = [line for line in lines if line.startswith("line 4: ")]
    assert told == ["line 4: CUDA out of memory on rank 1: RuntimeError: CUDA error: out of memory"]


def test_watch_shows_how_far_a_log_without_steps_was_read() -> None:
    rows = perflog.read(NVPROF).arrow("kernels")
    out = run("watch", NVPROF, *ENDS).stdout.splitlines()
    assert out[0] == f"no step so far   rows up to line {max(rows['line'].to_pylist())}"


def test_follow_stores_what_ingest_stores() -> None:
    once = told("ingest", "--json", MOE, "--store", "once")
    said = json.loads(run("ingest", "--follow", "--json", MOE, *ENDS).stdout)
    assert said == once
    assert Store(".perflog").logs() == Store("once").logs()


def test_follow_shows_the_last_step_on_standard_error() -> None:
    done = run("ingest", "--follow", MOE, *ENDS)
    assert "run 1   step 3   " in done.stderr
    assert "stored in .perflog" in done.stdout


@pytest.mark.parametrize("command", [("watch",), ("ingest", "--follow")])
def test_an_interruption_ends_with_130(command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    look, looks = FollowedFile.look, iter([False, True])

    def interrupted(file: FollowedFile) -> object:
        if next(looks, False):
            raise KeyboardInterrupt
        return look(file)

    monkeypatch.setattr(FollowedFile, "look", interrupted)
    run(*command, MOE, "--interval", "0.01", code=130)
    if command[0] == "ingest":
        assert len(Store(".perflog").logs()) == 1


def test_a_log_in_which_nothing_is_recognised_is_an_error_at_the_end() -> None:
    Path("odd.txt").write_text("nothing that anyone knows\n" * 3)
    assert "odd.txt" in run("watch", "odd.txt", *ENDS, code=3).stderr
    assert "odd.txt" in run("ingest", "--follow", "odd.txt", *ENDS, code=3).stderr


def test_one_log_is_followed() -> None:
    assert "--follow takes one log, not 2" in run("ingest", "--follow", MOE, SWEEP, code=2).stderr
    assert "standard input" in run("ingest", "--follow", "-", code=2).stderr
    assert "not a regular file" in run("watch", ".", code=3).stderr
    run("watch", "none.txt", *ENDS, code=3)
    assert "--interval and --until-idle" in run("ingest", MOE, "--until-idle", "3", code=2).stderr


def test_a_stall_is_told_once_and_again_as_it_doubles_and_when_steps_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    now_s = 0.0
    lines = LiveLines(every_s=1e9)
    lines.steps = LiveSteps(lambda: now_s)

    def print_step(step: int) -> None:
        rows = [{"run": "1", "line": step, "part": 0, "copy": 1, "step": step, "step_time_s": 2.0}]
        lines.observe({"steps": pa.Table.from_pylist(rows, arrow_schema("steps"))}, RunSettings())
        lines.look()

    for step in range(1, 6):
        now_s += 2.0
        print_step(step)
    capsys.readouterr()
    for _ in range(100):
        now_s += 1.0
        lines.look()
    print_step(6)
    out = capsys.readouterr()
    told = [line.rpartition(presenter.GAP)[2] for line in (out.out + out.err).splitlines()]
    waits = [f"no step for {seconds} s; steps took 2 s" for seconds in (11, 22, 44, 88)]
    assert told == [*waits, "steps go on: step 6 came after 100 s"]


@pytest.mark.parametrize("columns", [24, 40, 80, 200])
def test_a_line_that_is_written_anew_fits_the_terminal(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "width", lambda: columns)
    lines = LiveLines()
    lines._is_terminal = True
    rows = [
        {"run": "1", "line": step, "part": 0, "copy": 1, "step": step, "step_time_s": 1.5, "loss": 2.25}
        for step in range(1, 30)
    ]
    lines.observe({"steps": pa.Table.from_pylist(rows, arrow_schema("steps"))}, RunSettings())
    first = capsys.readouterr().out
    lines.look()
    again = capsys.readouterr().out
    count = first.count("\n") + 1
    assert again.startswith(f"\r\x1b[{count - 1}A\x1b[J" if count > 1 else "\r\x1b[J")
    shown = first.removeprefix("\r\x1b[J").split("\n")
    assert all(len(line) < columns for line in shown)
    assert presenter.GAP.join(shown).startswith(presenter.GAP.join(["run 1", "step 29", "0.6667 steps/s", "loss 2.25"]))
