"""Screens: what fits a terminal of 25 lines and 80 columns, whatever was read."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from shlex import join, split

from perflog.output.terminal import cut, start_of, wrapped

WIDTH, HEIGHT = 80, 25

_JOINED = "\xa0%"  # no line breaks here


def fit(line: str) -> str:
    """Return a line that is not too long; of what is longer the middle is cut."""
    return cut(line, WIDTH).rstrip()


def sentence_lines(sentences: Iterable[str]) -> Iterator[str]:
    """Yield the lines of sentences, each from a line of its own."""
    for text in sentences:
        yield from _wrap(text, "  ")


def folded(text: str, lines: int) -> list[str]:
    """Return the text on at most some lines, with an ellipsis where it goes on."""
    in_lines = _wrap(text, "    ")
    if len(in_lines) <= lines:
        return in_lines
    return [*in_lines[: lines - 1], f"{start_of(in_lines[lines - 1], WIDTH - 2)} …"]


def _wrap(text: str, indent: str) -> list[str]:
    """Lines of a text, the later ones indented; a percent sign stays with its number."""
    joined = text.replace(" %", _JOINED)
    return [line.replace(_JOINED, " %") for line in wrapped(joined, WIDTH, indent)]


def short_command(command: str, names: Sequence[str], used: int) -> str:
    """Return a command; if it does not fit behind some characters, with LOG for the names of the runs."""
    if used + len(command) <= WIDTH:
        return command
    words = ["LOG" + word.removeprefix(names[0]) if word.startswith(names[0]) else word for word in split(command)]
    return join(word for word in words if word not in names)


def command_lines(before: str, command: str, names: Sequence[str]) -> list[str]:
    """Return a command behind a word, on two lines where one is too short; with LOG for names that fit on none."""
    if len(before) + len(command) <= WIDTH:
        return [before + command]
    room = WIDTH - len(before) - 2
    parts = textwrap.wrap(command, room, break_long_words=False, break_on_hyphens=False)
    if len(parts) > 2 or max(map(len, parts)) > room:
        return [before + short_command(command, names, len(before))]
    return [f"{before}{parts[0]} \\", " " * len(before) + parts[1]]
