"""Screens: what fits a terminal of 25 lines and 80 columns, or fewer columns, whatever was read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from shlex import quote, split

from perflog.lazy_patterns import lazy_pattern
from perflog.output.terminal import columns_of, cut, start_of, width, wrapped
from perflog.units import first_few

WIDTH, HEIGHT = 80, 25
_LEAST_WIDTH = 40

_INDENT = 6  # of what goes on after a word such as Next
_JOINED = "\xa0%"  # no line breaks here
_UNSAFE = lazy_pattern(r"[^\w@%+=:,./-]", re.ASCII)  # what shlex.quote quotes


def columns() -> int:
    """Return the number of columns of a screen: 80, or fewer if the terminal has fewer."""
    return min(WIDTH, max(width() or WIDTH, _LEAST_WIDTH))


def fit(line: str) -> str:
    """Return a line that is not too long; of what is longer the middle is cut."""
    return cut(line, columns()).rstrip()


def sentence_lines(sentences: Iterable[str]) -> Iterator[str]:
    """Yield the lines of sentences, each from a line of its own."""
    for text in sentences:
        yield from _wrap(text, "  ")


def folded(text: str, lines: int, inset: int = 0) -> list[str]:
    """Return a string on at most some lines, with an ellipsis where it goes on; `inset`: spaces before each line."""
    return first_lines(_wrap(text, "    ", inset), lines)


def first_lines(lines: Sequence[str], most: int) -> list[str]:
    """Return at most some of the lines, with an ellipsis where they go on."""
    if len(lines) <= most:
        return list(lines)
    return [*lines[: most - 1], f"{_words_that_fit(lines[most - 1], columns() - 2)} …"] if most else []


def folded_list(
    before: str, names: Sequence[str], lines: int, separator: str = ", ", most: int = 60, inset: int = 0
) -> list[str]:
    """Return a list on at most some lines: as many names as fit, `most` of them, and how many more there are.

    Example:
        >>> folded_list("Differ: ", ["a" * 40, "b" * 40, "c" * 40], 1)
        ['Differ: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa and 2 more']
    """
    for shown in range(min(len(names), most), 0, -1):
        in_lines = _wrap(before + first_few(names, shown, separator), "    ", inset)
        if len(in_lines) <= lines:
            return in_lines
    return folded(before + first_few(names, 1, separator), lines, inset)


def _words_that_fit(line: str, room: int) -> str:
    """Return the start of a line without a part of a word: half of a number would be another number."""
    joined = line.replace(" %", _JOINED)
    start = start_of(joined, room)
    if joined[len(start) :].strip(" "):
        start = (start if joined[len(start)] == " " else start.rpartition(" ")[0]).rstrip() or start
    return start.replace(_JOINED, " %")


def _wrap(text: str, indent: str, inset: int = 0) -> list[str]:
    """Lines of a string, the later ones indented, all by `inset` more; a percent sign stays with its number."""
    joined = text.replace(" %", _JOINED)
    return [" " * inset + line.replace(_JOINED, " %") for line in wrapped(joined, columns() - inset, indent)]


def command_lines(before: str, command: str) -> list[str]:
    """Return a command after a word, on as many lines as it needs. Pasted into a shell, they are the command again.

    A word that is longer than a line goes on at the start of the next one: a shell joins what a backslash divides.

    Example:
        >>> command_lines("Next: ", "perflog report run.txt")
        ['Next: perflog report run.txt']
    """
    *words, last = split(command)
    lines, line, indent = [], before, " " * min(len(before), _INDENT)
    for word, more in [*((word, " \\") for word in words), (last, "")]:
        text, blank = quote(word), " " * bool(line.strip() and line != before)
        if columns_of(line + blank + text + more) <= columns():
            line += blank + text
            continue
        if blank:
            lines.append(f"{line} \\")
            line = indent if columns_of(indent + text + more) <= columns() else ""
        if columns_of(line + text + more) > columns():
            text = _UNSAFE.sub(r"\\\g<0>", word)  # quotes would keep the backslash
        while columns_of(line + text + more) > columns():
            piece = start_of(text, columns() - 1 - columns_of(line))
            piece = piece.removesuffix("\\") if piece != "\\" else piece
            lines.append(f"{line}{piece}\\")
            line, text = "", text[len(piece) :]
        line += text
    return [*lines, line]
