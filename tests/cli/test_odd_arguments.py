"""Numbers that are none, closed standard streams, and names of other bytes: a clear message, no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import run, told

from perflog.errors import InputError
from perflog.parsing.input.log_names import expand

STEPS = "".join(f"iter {i}: loss 2.5, time 20.00ms, mfu 1.00%\n" for i in range(3))


@pytest.mark.parametrize("number", ["inf", "nan", "1e999"])
def test_infinite_numbers(tmp_path: Path, number: str) -> None:
    log = tmp_path / "run.txt"
    log.write_text(STEPS)
    for words in (["regenerate", "moe_layer", "--scale", number], ["analyze", log, "--peak-tflops", number]):
        done = run(*words, code=2)
        assert f"{number!r} is not a finite number" in done.output or "is not in the range" in done.output


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("ingest - <&-", 3, "perflog: -: the log is empty"),
        ("overview run.txt >&-", 0, ""),
        ("overview missing.txt >&-", 3, "perflog: missing.txt: no such file"),
        ("overview run.txt >&- 2>&- <&-", 0, ""),
        ("--version >&-", 0, ""),
    ],
)
def test_closed_standard_streams(tmp_path: Path, command: str, code: int, message: str) -> None:
    (tmp_path / "run.txt").write_text(STEPS)
    words = f"exec {sys.executable} -m perflog {command}"
    done = subprocess.run(["sh", "-c", words], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(message) and "Traceback" not in done.stderr


def test_a_file_name_that_is_not_utf_8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = os.fsdecode(b"b\xff.txt")
    Path(name).write_text(STEPS)
    run("ingest", name, "--store", "st")
    (row,) = told("runs", "--store", "st", "--format", "json")["rows"]
    assert row["log"] == r"b\udcff.txt"
    assert r"b\udcff" in run("compare", name, name).stdout


def test_a_label_that_is_not_utf_8_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.txt").write_text(STEPS)
    label = os.fsdecode(b"l\xfe")
    run("ingest", "run.txt", "--label", label, "--store", "st")
    assert told("show", label, "--store", "st", "--format", "json")["run"]["label"] == r"l\udcfe"


def test_pipes_and_devices_are_no_logs(tmp_path: Path) -> None:
    (tmp_path / "run.txt").write_text(STEPS)
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "null.txt").symlink_to(os.devnull)
    for name in (tmp_path, tmp_path / "*.txt"):
        assert [str(log) for log in expand([str(name)])] == [str(tmp_path / "run.txt")]
    (tmp_path / "run.txt").unlink()
    with pytest.raises(InputError, match="no logs in this folder"):
        expand([str(tmp_path)])
    assert "/dev/zero: this is a device, not a log" in run("detect", "/dev/zero", code=3).output


def test_a_line_that_is_not_utf_8_is_explained() -> None:
    assert (
        "no template reads this line" in run("formats", "explain", os.fsdecode(b"iter \xff 1: loss 2"), code=3).output
    )
