"""Reads a format file as TOML that knows its lines: an error names the file, the line and what to do."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import tomli

from perflog.errors import FormatError, did_you_mean
from perflog.formats.expressions import Expression
from perflog.formats.template import Template, literal

_OF_ROWS = {
    "name", "sample", "table", "unit", "set", "compute", "map", "run", "opens", "covers", "within", "outside",
    "dropped",
}  # fmt: skip
"""Keys of all entries of lines that may give rows."""

_OF_RECORDS = _OF_ROWS | {
    "closes", "before", "first_step", "clock", "clock_starts", "clock_stops", "pause", "fills_steps", "step_by",
    "telling", "unknown",
}  # fmt: skip
"""Keys of all entries of lines that are no rows of tables."""

_KEYS = {
    "": {
        "title", "source", "scopes", "label", "line", "context", "block", "fingerprint", "adjacent", "phase",
        "quantities", "rate", "flops", "pairs", "json", "table", "meters", "checkpoints", "commands", "generic",
        "library", "program", "incidental", "result", "either_way", "of_one_gpu", "file_names", "startup",
    },
    "line": _OF_RECORDS | {"text", "each_process", "check", "again", "items"},
    "pairs": _OF_RECORDS | {"head", "pair", "tail", "needs", "lacks", "phases", "keys", "each_process", "check"},
    "checkpoints": {"name", "table", "sample", "telling"},
    "commands": {"name", "table", "sample", "telling"},
    "meters": _OF_RECORDS | {
        "head", "plain_names", "needs", "measures", "headings", "titles", "cases", "worked", "unnamed", "ended",
        "pairs", "counted", "beside_steps", "keys", "unit_names",
    },
    "table": _OF_ROWS | {
        "style", "first", "rows_prove", "groups", "plain_names", "needs", "telling", "columns", "inner",
        "among", "units", "unit_names", "title", "cells", "unknown",
    },
    "table.inner": {"name", "text", "sample", "table", "unit", "set", "map", "run", "opens", "dropped"},
    "json": _OF_RECORDS | {
        "head", "tail", "when", "lacks", "phases", "quotes", "plain_names", "keys", "each_process", "check",
        "again",
    },
    "context": {"text", "sample", "dropped", "warns", "otherwise"},
    "block": {"name", "at", "begin", "body", "end", "keep", "sample"},
    "fingerprint": {"name", "vote", "reads"},
    "adjacent": {"line", "after"},
    "phase": {"name", "of", "kind", "hidden", "exposes", "clock", "says"},
    "rate": {"name", "of", "work", "plain"},
}  # fmt: skip


_template = cache(Template)  # several callers ask for the same string


class File:
    """A TOML file that knows the line of each entry and key."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.text = path.read_text(encoding="utf-8")
            self.data = tomli.loads(self.text)
        except tomli.TOMLDecodeError as error:
            raise FormatError(str(error), str(path), "the file is TOML; see parsers/README.md") from error
        except (OSError, UnicodeDecodeError) as error:
            raise FormatError(f"cannot be read: {error}", str(path)) from error

    def where(self, kind: str = "", index: int = 0, key: str = "") -> str:
        """Return `file:line` of the index-th `[[kind]]`, or of a key in it."""
        rows = self.text.splitlines()
        entries = [n for n, row in enumerate(rows) if re.match(rf"\s*\[\[\s*{kind}\s*\]\]", row)] if kind else [-1]
        start = entries[index] if index < len(entries) else -1
        for n in range(start + 1, len(rows) if key else 0):
            if re.match(r"\s*\[\[", rows[n]):
                break
            if re.match(rf"""\s*["']?{re.escape(key)}["']?\s*=""", rows[n]):
                return f"{self.path}:{n + 1}"
        return f"{self.path}:{start + 1}" if start >= 0 else str(self.path)


class Entry:
    """One TOML table of the file. Its methods read a key and check it; an error names the line of the key."""

    def __init__(self, file: File, kind: str, index: int, data: object) -> None:
        self.file, self.kind, self.index = file, kind, index
        if not isinstance(data, dict):
            raise self.error(f"`{kind}` is not a list of tables", help=f"write [[{kind}]]")
        self.data: dict[str, object] = data
        for key in data:
            self.refuse_unknown(key, (key,), _KEYS[kind], "unknown key `{}`")

    def error(self, reason: str, key: str = "", help: str = "") -> FormatError:
        return FormatError(reason, self.file.where(self.kind, self.index, key), help)

    def get(self, key: str, kind: type, default: object = None, required: bool = False) -> Any:
        if key not in self.data:
            if required:
                raise self.error(f"[[{self.kind}]] has no `{key}`", help="see parsers/README.md")
            return default
        value = self.data[key]
        if not isinstance(value, kind):
            raise self.error(f"`{key}` must be {kind.__name__}, not {type(value).__name__}", key)
        return value

    def texts(self, key: str, required: bool = False) -> tuple[str, ...]:
        """Return a string or a list of strings as a tuple."""
        if key not in self.data and not required:
            return ()
        value = self.get(key, object, [], required)
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list) or not all(isinstance(x, str) for x in items) or (required and not items):
            raise self.error(f"`{key}` must be a string or a list of strings", key)
        return tuple(items)

    def template(self, key: str, text: str | None = None) -> Template:
        """Return the template of a key, or of a string; errors in the string are reported at `key`."""
        text = self.get(key, str, required=True) if text is None else text
        try:
            return _template(text)
        except FormatError as error:
            raise self.error(f"{error.reason}\n{error.where}", key, error.help) from error

    def refuse_unknown(self, key: str, names: Iterable[object], known: Collection[str], reason: str) -> None:
        """Raise the error if one of some names is unknown. `reason` has `{}` for the name. None is no name."""
        for name in names:
            if name is not None and not (isinstance(name, str) and name in known):
                raise self.error(reason.format(name), key, did_you_mean(str(name), known))

    def named(self, key: str, name: object, names: Collection[str]) -> str:
        """Return `name` if a line of the file has that name, else raise the error."""
        self.refuse_unknown(key, (str(name),), names, "no line is named `{}`")
        return str(name)

    def expr(self, key: str, text: object, names: Collection[str] | None = None) -> Expression:
        """Return an expression. `names`: all that it may contain; None for any."""
        try:
            expr = Expression(str(text))
        except FormatError as error:
            raise self.error(f"{error.reason}\n{error.where}", key, error.help) from error
        if names is not None:
            self.refuse_unknown(key, expr.names, names, f"`{{}}` in `{literal(str(text))}` is not a field of the line")
        return expr


def entries(file: File, kind: str) -> Iterator[Entry]:
    """Yield all `[[kind]]` of the file."""
    rows = file.data.get(kind, [])
    if not isinstance(rows, list):
        raise FormatError(f"`{kind}` must be a list", file.where(), f"write [[{kind}]]")
    for index, data in enumerate(rows):
        yield Entry(file, kind, index, data)
