"""The examples of the help texts: each is typed in a folder that has files of these names."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from support.commands import run

from perflog.cli.main import main

HEADER = "using world size: 8, data-parallel size: 8, tensor-model-parallel size: 1, pipeline-model-parallel size: 1\n"
NOT_HERE = {
    "perflog regenerate": "trains",
    "perflog demo": "test_demo.py has it",
    "perflog serve": "test_serve.py has it",
    "perflog ci comment": "needs a pull request",
    "perflog ci restore branch": "needs a remote repository",
    "perflog ci keep branch": "needs a remote repository",
}
"""Commands whose examples are only parsed, by the test of the page of commands."""

ENDLESS = {"perflog watch run.txt": " --until-idle 0.01", "perflog watch run.txt --until-idle 60": " --until-idle 0.01"}
"""What is typed behind commands that a reader ends by hand."""


def megatron(slower: int = 0) -> str:
    """A log of 30 steps of about 60 s; `slower`: by so many milliseconds."""
    return HEADER + "".join(
        f" iteration {i:8d}/      30 | consumed samples: {i * 512:8d} | elapsed time per iteration (ms): "
        f"{60_000 + slower + 37 * i % 101:.1f} | throughput per GPU (TFLOP/s/GPU): 68.2 | global batch size:   512 | "
        f"lm loss: {4 - i / 100:.6E} | grad norm: 0.412 |\n"
        for i in range(1, 31)
    )


def commands(group: click.Group, path: str) -> Iterator[str]:
    context = click.Context(group, info_name=path)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")
        else:
            yield from (line.strip() for line in (command.epilog or "").splitlines()[2:])


EXAMPLES = [line for line in commands(main, "perflog") if not line.startswith(tuple(NOT_HERE))]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with logs of one program, a format file, and two stores, one of which has a baseline."""
    folder = tmp_path_factory.mktemp("made")
    names = ["run.txt", "old.txt", "old2.txt", "new.txt", "new2.txt", "new.log", "bad.log", "logs/a.txt", "logs/b.txt"]
    names += [f"repeats/{i}.log" for i in range(3)] + [f"nightly/2026-05-{i:02d}.log" for i in range(1, 9)]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for i, name in enumerate(names):
            os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
            Path(name).write_text(megatron(i))
        Path("other.txt").write_text("".join(f">>> [{i}/100] fwd=12.{i}ms ;; score~0.{i}\n" for i in range(5)))
        Path("mine.toml").write_text(
            'title = "mine"\nsource = "a made-up program"\n[[line]]\nname = "step"\ntable = "steps"\n'
            'text = "step {step:d}: loss {loss:r}"\nsample = "step 7: loss 2.5"\n'
        )
        logs = ("run.txt", "old.txt", "old2.txt", "new.log", "bad.log", "logs")
        run("ingest", *logs, "--tag", "branch=main", "--store", ".perflog")
        run("ingest", "repeats", "--store", "runs")
        run("baseline", "set", "main", *logs[1:], "--store", ".perflog")
    return folder


@pytest.mark.parametrize("line", EXAMPLES)
def test_an_example_does_what_it_says(line: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shutil.copytree(made, tmp_path / "here"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", "/bin/bash")
    monkeypatch.delenv("PERFLOG_STORE", raising=False)
    words = shlex.split((line + ENDLESS.get(line, "")).partition(" > ")[0])
    assert "Traceback" not in run(*words[1:]).output
