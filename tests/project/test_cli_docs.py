"""docs/cli.md is what `--help` of each command says."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Iterator

import click
import pytest
from support.commands import context
from support.pages import DOCS, same

from perflog.cli.main import main

HEAD = """\
# Command line

This page is made from the commands; a test sees to it. `perflog COMMAND --help` prints the same.

Results go to standard output, warnings to standard error. `-h` and `--help` work after every command. The
[guide](guide.md#exit-codes) lists the exit codes.
"""


def commands(group: click.Context) -> Iterator[click.Context]:
    """A group and all commands below it, in the order of the help."""
    yield group
    assert isinstance(group.command, click.Group)
    for name in group.command.list_commands(group):
        known = group.command.get_command(group, name)
        assert known is not None
        command = context(known, name, group)
        yield from commands(command) if isinstance(command.command, click.Group) else [command]


EVERY = list(commands(context(main, "perflog")))


def described(at: click.Context) -> str:
    """One command: usage, help text, options."""
    command, path = at.command, at.command_path
    usage = " ".join([path, *command.collect_usage_pieces(at)])
    records = [p.get_help_record(at) for p in command.params if isinstance(p, click.Option)]
    text = "\n\n".join(map(paragraph, re.split(r"\n\s*\n", inspect.cleandoc(command.help or ""))))
    parts = [f"## {path}\n", f"```text\n{usage}\n```\n", text + "\n"]
    parts += ["```sh\n" + "\n".join(examples(at)) + "\n```\n"] if command.epilog else []
    rows = [f"| `{cell(names)}` | {rounded(cell(meaning))} |" for names, meaning in filter(None, records)]
    if rows:
        parts.append("\n".join(["| option | meaning |", "| --- | --- |", *rows]) + "\n")
    return "\n".join(parts)


def examples(at: click.Context) -> list[str]:
    """The examples of a command."""
    word, *lines = (at.command.epilog or "").removeprefix("\b\n").splitlines()
    assert word == "Examples:"
    return [line.strip() for line in lines]


def paragraph(text: str) -> str:
    """A paragraph of help. Click breaks its lines anew, except behind its mark for text that keeps its lines."""
    if text.startswith("\b"):
        return "```text\n" + text.removeprefix("\b").strip("\n") + "\n```"
    return re.sub(r"\s+", " ", text)


def rounded(text: str) -> str:
    """The default and the range in round brackets: Markdown takes square ones for links."""
    while (changed := re.sub(r"\[([^][]*)\]((?: \([^()]*\))*)$", r"(\1)\2", text)) != text:
        text = changed
    return text


def cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def test_the_page_of_commands() -> None:
    same(DOCS / "cli.md", "\n".join([HEAD, *map(described, EVERY)]))


@pytest.mark.parametrize("at", EVERY, ids=lambda at: at.command_path)
def test_a_command_says_what_it_does(at: click.Context) -> None:
    assert at.command.help
    for option in at.command.params:
        assert not isinstance(option, click.Option) or option.help, option.name
    assert set(at.command.get_help_option_names(at)) == {"-h", "--help"}


@pytest.mark.parametrize(
    "at", [at for at in EVERY if not isinstance(at.command, click.Group)], ids=lambda at: at.command_path
)
def test_the_examples_of_a_command_are_calls_of_it(at: click.Context) -> None:
    path = at.command_path.split()
    assert len(examples(at)) == 2
    for line in examples(at):
        words = shlex.split(line.partition(" > ")[0])
        assert words[: len(path)] == path
        at.command.make_context(path[-1], words[len(path) :])


@pytest.mark.parametrize(
    "at", [at for at in EVERY if isinstance(at.command, click.Group)], ids=lambda at: at.command_path
)
def test_no_command_of_a_list_is_told_by_half_a_sentence(at: click.Context) -> None:
    assert "..." not in at.command.get_help(at).partition("Commands:")[2]
