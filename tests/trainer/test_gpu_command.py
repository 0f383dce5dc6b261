"""bench/gpu.py without a GPU: parts run, one that fails keeps the others, and time that is over is said."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from support.paths import ROOT

import perflog
from perflog.trainer.__main__ import train
from perflog.trainer.recipes import load_recipe, parse_changes

if find_spec("torch") is None:
    pytest.skip("needs PyTorch", allow_module_level=True)


def gpu(out: Path, *options: str) -> int:
    command = [sys.executable, str(ROOT / "bench" / "gpu.py"), "run", str(out), "--tiny", *options]
    return subprocess.run(command, capture_output=True, check=False).returncode


def gpu_module() -> Any:
    code = spec_from_file_location("gpu", ROOT / "bench" / "gpu.py")
    assert code is not None and code.loader is not None
    module = module_from_spec(code)
    code.loader.exec_module(module)
    return module


@pytest.mark.parametrize("tiny", [True, False])
def test_the_trainer_takes_the_options_of_each_part(tiny: bool) -> None:
    commands = [command for _, _, command in gpu_module().parts("cpu", tiny) if "perflog.trainer" in command]
    assert len(commands) > 10
    for command in commands:
        arguments = command[command.index("perflog.trainer") + 1 :]
        given = train.make_context("trainer", [*arguments]).params
        settings = {name: given[name] for name in ("preset", "steps", "seed", "dtype", "scale", "parameters")}
        assert all(load_recipe(given["name"]).specs(**settings, changes=parse_changes(given["changes"])))


def test_parts_run_on_a_cpu_and_come_back(tmp_path: Path) -> None:
    assert gpu(tmp_path, "--device", "cpu", "--only", "machine", "trace-sync") == 0
    figures = json.loads((tmp_path / "figures.json").read_text())["parts"]
    assert figures["machine"]["figures"]["torch"].startswith("2.")
    assert len(figures["trace-sync"]["figures"]["losses"]) == figures["trace-sync"]["figures"]["steps"] == 4
    assert (tmp_path / "failed.txt").read_text() == "nothing\n"
    with tarfile.open(tmp_path / "logs.tar.gz") as archive:
        assert {"machine.log", "trace-sync.log"} <= set(archive.getnames())
    steps = perflog.read(tmp_path / "trace-sync.json.gz").table("steps")
    assert sorted(steps["step"].unique()) == [0, 1, 2, 3]


def test_a_part_that_fails_is_told_and_the_next_one_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = gpu_module()
    commands = {"first": "import sys; sys.exit(3)", "second": "print('{\"steps\": 4}')", "last": "1 / 0"}
    made = [(name, 60, [sys.executable, "-c", code]) for name, code in commands.items()]
    monkeypatch.setattr(module, "parts", lambda *_: made)
    assert module.run(tmp_path, "cuda", 60, True, None) == 2
    told = (tmp_path / "failed.txt").read_text()
    assert "first: exit code 3\n" in told and "last: exit code 1\n" in told and "ZeroDivisionError" in told
    figures = json.loads((tmp_path / "figures.json").read_text())["parts"]
    assert [figures[name]["failed"] for name in commands] == ["exit code 3", None, "exit code 1"]
    assert figures["second"]["figures"] == {"steps": 4}
    assert not (tmp_path / "work").exists()


def test_time_that_is_over_is_said(tmp_path: Path) -> None:
    assert gpu(tmp_path, "--device", "cpu", "--budget", "0", "--only", "machine") == 1
    assert (tmp_path / "failed.txt").read_text() == "machine: not begun: the 0 s are over\n"
