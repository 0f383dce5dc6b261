"""The command `perflog demo`: what a reader sees first."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from support.commands import run


def test_two_screens_and_a_page(tmp_path: Path) -> None:
    """Less than 30 lines of 80 characters; the first screen is that of the command above it."""
    page = tmp_path / "page.html"
    lines = run("demo", "-o", page).output.splitlines()
    assert len(lines) < 30
    assert max(map(len, lines[:-1])) <= 80
    commands = [line.removeprefix("$ perflog ") for line in lines if line.startswith("$ ")]
    second = lines.index(f"$ perflog {commands[1]}")
    assert lines[1:second] == run(*shlex.split(commands[0])).output.splitlines()
    compared = run(*shlex.split(commands[1])).output.splitlines()
    assert set(lines[second + 1 : -2]) < set(compared)
    assert lines[-1].endswith(str(page)) and page.read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize(("typed", "meant"), [("comapre", "compare"), ("lnit", "lint"), ("ingst", "ingest")])
def test_a_typing_error_in_a_command(typed: str, meant: str) -> None:
    assert f"Did you mean '{meant}'?" in run(typed, "x", code=2).output
