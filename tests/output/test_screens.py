"""Lines of a screen of forty columns."""

from __future__ import annotations

import shlex

import pytest

from perflog.output import screens
from perflog.output.screens import columns, command_lines, first_lines, fit, folded, folded_list, sentence_lines


@pytest.fixture(autouse=True)
def _forty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screens, "width", lambda: 40)


@pytest.mark.parametrize(("terminal", "screen"), [(None, 80), (0, 80), (200, 80), (60, 60), (10, 40)])
def test_a_screen_has_at_most_eighty_columns(
    monkeypatch: pytest.MonkeyPatch, terminal: int | None, screen: int
) -> None:
    monkeypatch.setattr(screens, "width", lambda: terminal)
    assert columns() == screen


def test_a_long_line_loses_its_middle() -> None:
    assert fit("a" * 40) == "a" * 40 and fit("a  ") == "a"
    assert fit("a" * 20 + "b" + "c" * 20) == "a" * 20 + "…" + "c" * 19


def test_sentences_begin_on_lines_of_their_own() -> None:
    """A percent sign stays with its number; later lines are indented."""
    text = "One two three four five six seven 123.5 % eight"
    assert list(sentence_lines(["Short.", text])) == ["Short.", "One two three four five six seven", "  123.5 % eight"]


def test_a_string_on_some_lines() -> None:
    text = "One two three four five six seven eight nine ten eleven twelve thirteen"
    assert folded(text, 2) == ["One two three four five six seven eight", "    nine ten eleven twelve thirteen"]
    assert folded(text, 1) == ["One two three four five six seven …"]
    assert folded("word", 1, inset=2) == ["  word"]
    assert folded(text, 3, inset=2)[1:] == ["      eight nine ten eleven twelve", "      thirteen"]
    assert folded("a" * 60, 1) == ["a" * 38 + " …"]
    assert folded("One two three four five six seven 1234567 % eight", 1) == ["One two three four five six seven …"]


def test_the_first_lines_say_that_they_go_on() -> None:
    lines = ["One two", "three four"]
    assert (first_lines(lines, 2), first_lines(lines, 1), first_lines(lines, 0)) == (lines, ["One two …"], [])


def test_names_that_fit_and_how_many_more() -> None:
    names = [f"name{n}" for n in range(9)]
    assert folded_list("Runs: ", names[:4], 1) == ["Runs: name0, name1, name2, name3"]
    assert folded_list("Runs: ", names, 1) == ["Runs: name0, name1, name2 and 6 more"]
    assert folded_list("Runs: ", names, 2, most=2) == ["Runs: name0, name1 and 7 more"]
    assert folded_list("Runs: ", names[:2], 1, separator="; ") == ["Runs: name0; name1"]
    assert folded_list("", ["a" * 60, "b"], 2) == ["a" * 40, f"    {'a' * 20}, b"]
    assert folded_list("None", [], 1) == ["None"]


def test_a_shell_joins_the_lines_of_a_command() -> None:
    for command, lines in (
        ("perflog report run.txt", 1), ("perflog compare first.txt second.txt third.txt", 2),
        ("perflog report 'a run with blanks.txt' 'it'\"'\"'s'", 2), (f"perflog report {'a/' * 40}", 4),
        (f"perflog report '{'a $' * 30}' end", 5),
    ):  # fmt: skip
        shown = command_lines("Next: ", command)
        assert shlex.split("\n".join(shown).removeprefix("Next: ").replace("\\\n", "")) == shlex.split(command)
        assert len(shown) == lines and all(len(line) <= 40 for line in shown)
    assert command_lines("Next: ", "perflog compare first.txt second.txt third.txt") == [
        "Next: perflog compare first.txt \\", "      second.txt third.txt"
    ]  # fmt: skip
    assert command_lines("", "a b") == ["a b"]
