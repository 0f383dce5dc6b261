"""Workflow commands of GitHub Actions: what is escaped, how many there are, and where they are not commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from perflog.analysis.compare.gates import Outcome
from perflog.ci import annotations as module
from perflog.ci.annotations import annotation, no_commands, outcome_commands, set_outputs


def test_what_ends_a_command_is_escaped() -> None:
    line = annotation("error", "a: b, c % d", "100 %\nslower: x, y\r::notice::z")
    assert line.startswith("::error title=a%3A b%2C c %25 d::100 %25%0Aslower: x, y")
    assert "\n" not in line and "\r" not in line
    assert len(annotation("notice", "t", "x" * 5000)) < 1100


@pytest.mark.parametrize(
    ("code", "reasons", "notes", "lines"),
    [
        (0, (), (), []),
        (0, ("r",), ("n", "m"), ["::warning title=main%3A passed::n", "::warning title=main%3A passed::m"]),
        (1, ("r", "s"), ("n",), ["::error title=main%3A passed::r", "::error title=main%3A passed::s"]),
        (2, (), ("n",), ["::error title=main%3A passed::passed"]),
    ],
)
def test_an_error_for_each_reason_or_a_warning_for_each_note(
    code: int, reasons: tuple[str, ...], notes: tuple[str, ...], lines: list[str]
) -> None:
    assert list(outcome_commands(Outcome("passed", reasons, code, notes=notes), "main")) == lines


@pytest.mark.parametrize("code", [0, 1])
def test_no_more_than_github_shows(code: int) -> None:
    many = tuple(map(str, range(20)))
    assert len(list(outcome_commands(Outcome("passed", many, code, notes=many), "main"))) == 8


def test_what_is_printed_in_between_is_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    with no_commands(False):
        print("::error::a")
    assert capsys.readouterr().out == "::error::a\n"
    with pytest.raises(ValueError, match="b"), no_commands(True):
        raise ValueError("b")
    first, last = capsys.readouterr().out.split()
    token = first.removeprefix("::stop-commands::")
    assert last == f"::{token}::" and len(token) == 32
    with no_commands(True):
        pass
    assert token not in capsys.readouterr().out


def test_outputs_and_the_summary_of_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    set_outputs({"a": "1"})
    module.add_to_step_summary("x")
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "output"))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    set_outputs({"a": "1\n b=2", "c": ""})
    set_outputs({"d": "3"})
    module.add_to_step_summary("x\n")
    module.add_to_step_summary("y\n")
    assert (tmp_path / "output").read_text() == "a=1 b=2\nc=\nd=3\n"
    assert (tmp_path / "summary").read_text() == "x\ny\n"
