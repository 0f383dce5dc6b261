"""docs/cli.md is what `--help` of each command says."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click
import pytest
from support.pages import DOCS, same

from perflog.cli.main import main

HEAD = """\
# Command line

This page is made from the commands; a test sees to it. `perflog COMMAND --help` prints the same.

Results go to standard output, warnings to standard error. `-h` and `--help` work after every command. The
[README](../README.md#exit-codes) lists the exit codes.
"""


def commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    """Each command with its full name, in the order of the help."""
    with click.Context(group, info_name=path) as context:
        names = group.list_commands(context)
    for name in names:
        command = group.commands[name]
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")


def described(path: str, command: click.Command) -> str:
    """One command: usage, help text, options."""
    with click.Context(command, info_name=path, max_content_width=200) as context:
        usage = " ".join([path, *command.collect_usage_pieces(context)])
        records = [p.get_help_record(context) for p in command.params if isinstance(p, click.Option)]
    text = "\n\n".join(map(paragraph, re.split(r"\n\s*\n", inspect.cleandoc(command.help or ""))))
    parts = [f"## {path}\n", f"```text\n{usage}\n```\n", text + "\n"]
    rows = [f"| `{cell(names)}` | {rounded(cell(meaning))} |" for names, meaning in filter(None, records)]
    if rows:
        parts.append("\n".join(["| option | meaning |", "| --- | --- |", *rows]) + "\n")
    return "\n".join(parts)


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
    every = [("perflog", main), *commands(main, "perflog")]
    same(DOCS / "cli.md", "\n".join([HEAD, *(described(path, command) for path, command in every)]))


@pytest.mark.parametrize(("path", "command"), [pytest.param(*c, id=c[0]) for c in commands(main, "perflog")])
def test_a_command_says_what_it_does(path: str, command: click.Command) -> None:
    assert command.help
    for option in command.params:
        assert not isinstance(option, click.Option) or option.help, f"{path}: {option.name}"
