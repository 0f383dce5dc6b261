"""The Tab key in a real bash, and the scripts for other shells."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from support.commands import MOE, SWEEP, run
from support.paths import ROOT
from support.patience import wait_until

from perflog.cli.main import main

BASH = shutil.which("bash")


def completions(*words: str) -> list[str]:
    *args, incomplete = words
    items = ShellComplete(main, {}, "perflog", "_PERFLOG_COMPLETE").get_completions(args, incomplete)
    return [str(item.value) for item in items if item.type == "plain"]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERFLOG_STORE", raising=False)
    Path("sweep.txt").write_bytes(Path(SWEEP).read_bytes())
    run("ingest", "sweep.txt")
    run("ingest", MOE, "--label", "the base", "--store", "other")
    Path("long name.txt").touch()
    return tmp_path


class Terminal:
    """bash on a terminal of its own, which has read the script."""

    def __init__(self, folder: Path) -> None:
        pty = pytest.importorskip("pty")
        tools = folder / "tools"
        tools.mkdir()
        (tools / "perflog").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m perflog "$@"\n')
        (tools / "perflog").chmod(0o755)
        (folder / "script").write_text(run("completion", "bash").stdout)
        env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "TERM": "dumb"}
        env |= {"INPUTRC": "/dev/null", "HISTFILE": "/dev/null", "HOME": str(folder), "PS1": "$ "}
        self._end, child = pty.openpty()
        self._shell = subprocess.Popen(
            [str(BASH), "--norc", "--noprofile", "-i"],
            stdin=child,
            stdout=child,
            stderr=child,
            env=env,
            cwd=folder,
            start_new_session=True,
        )
        os.close(child)
        self._type("bind 'set bell-style none'; bind 'set enable-bracketed-paste off'; source ./script\n")
        self._type('bind -x \'"\\C-g": printf "\\nDONE: %s\\n" "$READLINE_LINE"\'; echo READY:\n')
        self._read("\nREADY:")

    def tab(self, line: str) -> str:
        """What a line becomes behind which Tab is pressed. Control-G prints it, Control-U deletes it."""
        self._type(f"{line}\t\x07\x15")
        return self._read("\nDONE: ")

    def close(self) -> None:
        self._shell.kill()
        self._shell.wait()
        os.close(self._end)

    def _type(self, text: str) -> None:
        os.write(self._end, text.encode())

    def _read(self, mark: str) -> str:
        """The line behind a mark."""
        text = ""

        def has_come() -> bool:
            nonlocal text
            if select.select([self._end], [], [], 0)[0]:
                text += os.read(self._end, 1 << 16).decode(errors="replace")
            return "\n" in text.partition(mark)[2]

        wait_until(has_come)
        return text.partition(mark)[2].partition("\r")[0]


@pytest.fixture
def terminal(store: Path) -> Iterator[Terminal]:
    if BASH is None:
        pytest.skip("no bash")
    bash = Terminal(store)
    yield bash
    bash.close()


def test_bash_completes(terminal: Terminal) -> None:
    """Commands, labels and files with blanks, logs, quotes, sides, stores: each with its marks of the shell."""
    expected = {
        "perflog ove": "perflog overview ",
        "perflog show nai": "perflog show naive\\ gpt2\\ 16 ",
        "perflog show sweep.txt:": "perflog show sweep.txt:",
        "perflog show lon": "perflog show long\\ name.txt ",
        "perflog show --store other 'the": "perflog show --store other 'the base' ",
        "perflog compare a=nai": "perflog compare a=naive\\ gpt2\\ 16 ",
        "perflog runs --store oth": "perflog runs --store other/",
    }
    assert {line: terminal.tab(line) for line in expected} == expected


def test_names_that_complete(store: Path) -> None:
    assert completions("show", "sweep.txt:") == ["sweep.txt:1", "sweep.txt:2"]
    assert completions("show", "sweep.txt#") == ["sweep.txt#1", "sweep.txt#2"]
    assert completions("show", "--store", "other", "the") == ["the base"]
    assert completions("show", "x", "ste") == ["steps"]
    assert completions("show", "reference:moe_layer.txt:4") == ["reference:moe_layer.txt:4"]
    assert completions("analyze", "sweep.txt", "thr") == ["throughput"]
    assert completions("compare", "sweep.txt", "--by", "sys") == ["system"]
    assert completions("lint", "--only", "nom") == ["nominal-work"]
    assert completions("formats", "show", "torchti") == ["torchtitan"]
    assert completions("analyze", "x", "--gpu", "H100") == ["H100 SXM", "H100 PCIe", "H100 NVL"]
    assert completions("report", "a=fast") == ["a=fastermoe gpt2 16"]
    assert completions("show", "--store", "absent", "na") == []
    files = list((store / ".perflog").rglob("*.parquet"))
    assert files and "naive gpt2 16" in completions("show", "na")
    for file in files:
        file.write_text("{")
    assert completions("show", "na") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_what_its_shell_reads(shell: str) -> None:
    script = run("completion", shell).stdout
    assert f"_PERFLOG_COMPLETE={shell}_complete" in script
    if program := shutil.which(shell):
        check = subprocess.run([program, "-n"], input=script, text=True, capture_output=True, check=True)
        assert check.stderr == ""


def test_completion_is_installed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("SHELL", "/usr/bin/bash")
    (tmp_path / ".bashrc").write_text("alias l=ls")
    assert "added to" in run("completion", "--install").stdout
    assert "added to" not in run("completion", "--install").stdout
    script = tmp_path / ".local/share/perflog/completion.bash"
    assert (tmp_path / ".bashrc").read_text() == f"alias l=ls\nsource {script}\n"
    assert script.read_text() == run("completion", "bash").stdout
    run("completion", "fish", "--install")
    assert (tmp_path / ".config/fish/completions/perflog.fish").is_file()
    run("completion", "zsh", "--install")
    assert "compinit" in (tmp_path / ".zshrc").read_text()
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    assert "name one of bash, zsh, fish" in run("completion", code=2).stderr
