r"""Where text leaves perflog: `put` prints it, and nothing in it can control a terminal.

Names of files, labels, answers of servers and lines of logs come from others. What they hold of control characters is
shown as escapes, `\u001b` for ESC. JSON and TOML read these escapes back as the same characters.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import click

from perflog.lazy_patterns import lazy_pattern

# C0 without tab and line feed, DEL and C1; marks, embeddings, overrides and isolates of bidirectional text; characters
# without a width, except the joiners inside words and emoji; separators of lines; bytes of names that are not UTF-8.
_UNSAFE = lazy_pattern(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


_NO_BREAK = "\xa0"


class Choices(NamedTuple):
    """What the reader chose for the output of this command."""

    wide: bool = False  # tables in full width on a terminal too
    raw: bool = False  # strings of CSV as they are in the log


def choices() -> Choices:
    """Return the choices of the command that runs; the defaults outside of one."""
    context = click.get_current_context(silent=True)
    return context.meta.get(__name__, Choices()) if context else Choices()


def choose(context: click.Context, **chosen: bool) -> None:
    """Keep choices for the command that runs."""
    context.meta[__name__] = context.meta.get(__name__, Choices())._replace(**chosen)


def visible(text: str) -> str:
    r"""Return a string with escapes for each character that could control a terminal or hide text.

    Example:
        >>> print(visible("loss \x1b[31m3"))
        loss \u001b[31m3
    """
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class Line(NamedTuple):
    """A line with its style on a terminal: so many leading characters are bold, or all of it is dim."""

    text: str
    bold: int = 0
    dim: bool = False


def put(line: str | Line, *, err: bool = False, nl: bool = True, raw: bool = False, utf8: bool = False) -> None:
    """Print a string to standard output or standard error.

    Args:
        line: The string; its control characters are shown as escapes.
        err: Whether it goes to standard error.
        nl: Whether the line ends after it.
        raw: Whether control characters stay as they are.
        utf8: Whether it is UTF-8, as files are, whatever the encoding of the terminal.
    """
    text, bold, dim = line if isinstance(line, Line) else Line(line)
    colors = _has_colors(err)
    head, tail = (part if raw else visible(part) for part in (text[:bold], text[bold:]))
    if colors:
        head, tail = head and click.style(head, bold=True), click.style(tail, dim=True) if dim else tail
    try:
        click.echo((head + tail).encode() if utf8 else head + tail, nl=nl, err=err, color=colors or raw)
    except OSError:
        if not err:
            raise
        drop_errors()


def drop_errors() -> None:
    """Discard what goes to standard error from now on: it cannot be written, and the exit code is to stay."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def tell(text: str, *, err: bool = False) -> None:
    """Print sentences. On a terminal they are broken between words, but neither commands in them nor indented lines."""
    for line in sentences(text, err=err):
        put(line, err=err)


def sentences(text: str, *, err: bool = False) -> Iterator[str]:
    """Yield the lines of the messages that are printed."""
    columns = _columns(err)
    lines = visible(text).split("\n")
    for line in _with_cut_carets(lines, columns) if columns else lines:
        yield from _broken(line, columns) if columns and not line.startswith(" ") else (line,)


def _broken(line: str, columns: int) -> list[str]:
    """Return the lines of a sentence that is broken between words; a command between backticks stays whole."""
    joined = re.sub(r"`[^`]+`", lambda command: command[0].replace(" ", _NO_BREAK), line)
    lines = textwrap.wrap(
        joined, columns, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False, tabsize=1
    )
    return [part.replace(_NO_BREAK, " ") for part in lines] or [""]


def _with_cut_carets(lines: Sequence[str], columns: int) -> Iterator[str]:
    """Yield lines; those above a caret, and the caret itself, are cut so that the caret stays below its character."""
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        pointer = next((text for text in (line, below) if text.lstrip(" ").startswith("^")), None)
        if pointer is None:
            yield line
            continue
        start = min(max(len(pointer) - columns, 0), pointer.index("^"))
        yield line[start : start + columns]


def width() -> int | None:
    """Return the number of columns that tables may take; None if the output is no terminal or is to be wide."""
    return None if choices().wide else _columns(err=False)


def _columns(err: bool) -> int | None:
    """The number of columns of the terminal that a stream is; None if it is none."""
    stream = sys.stderr if err else sys.stdout
    if not stream.isatty():
        return None
    if sys.stdout.isatty():
        return shutil.get_terminal_size().columns
    return os.get_terminal_size(stream.fileno()).columns


def _has_colors(err: bool) -> bool:
    stream = sys.stderr if err else sys.stdout
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


# --- columns of a terminal --------------------------------------------------------------------------------------


def columns_of(text: str) -> int:
    """Return how many columns a string takes: East Asian wide characters two, combining characters none."""
    if text.isascii():
        return len(text)
    return sum(map(_columns_of_character, text))


def _columns_of_character(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, columns: int) -> str:
    """Return a string in at most so many columns: its start and its end, with an ellipsis for what is between them."""
    if columns_of(text) <= columns:
        return text
    start = start_of(text, columns // 2)
    return f"{start}…{start_of(text[::-1], columns - columns_of(start) - 1)[::-1]}" if columns > 0 else ""


def start_of(text: str, columns: int) -> str:
    """Return the longest start of a string that fits."""
    if text.isascii():
        return text[: max(columns, 0)]
    taken = 0
    for i, character in enumerate(text):
        taken += _columns_of_character(character)
        if taken > columns:
            return text[:i]
    return text


def padded(text: str, columns: int, right: bool = False) -> str:
    """Return a string cut or padded with spaces to a number of columns."""
    text = cut(text, columns)
    blanks = " " * (columns - columns_of(text))
    return blanks + text if right else text + blanks


def wrapped(text: str, columns: int | None, indent: str = "") -> Iterator[str]:
    """Yield the lines of a string that is broken between words; `indent` is before each line but the first."""
    if columns is None or columns_of(text) <= columns:
        yield text
        return
    columns = max(columns, columns_of(indent) + 1)
    words = text.lstrip(" ")
    line = start = " " * min(len(text) - len(words), columns - 1)
    for word in words.split(" "):
        longer = f"{line} {word}" if line != start else line + word
        if columns_of(longer) <= columns:
            line = longer
            continue
        if line != start:
            yield line.rstrip()
            line = start = indent
        while columns_of(line + word) > columns:
            piece = start_of(word, columns - columns_of(line)) or word[:1]
            yield line + piece
            line, word = indent, word[len(piece) :]
        line += word
    if line.strip():
        yield line
