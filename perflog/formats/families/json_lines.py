"""Lines that hold one object: JSON, or the repr of a Python dict, perhaps behind a text: `DLLL {"step": [0, 1], ...}`.

The shape of a line is the text between its values, to the byte; each value is a field. No two Lines with different keys
read the same text: a string ends at its quote, and a dropped value is one number, one word or one string.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from perflog.formats.families.base import (
    IS_NUMBER,
    FamilyShape,
    FieldNames,
    glob,
    literal,
    look_up,
    spec_of,
    template_of,
)
from perflog.formats.model import MIN_LETTERS, Line
from perflog.formats.template import Template, escape, fits_64, unnamed
from perflog.tables.schema import TABLES, column_for

MOST = 500
"""Greatest number of values in a line."""

_DEPTH = 32
_TOKEN = re.compile(
    r"""[ \t]*(?:(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<mark>[][{}(),:])|(?P<bare>[^][{}(),:"'\s]+))"""
)
_CLOSES = {"{": "}", "[": "]", "(": ")"}
_NULL = ("null", "None")
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)


class JsonValue(NamedTuple):
    """A value, text[begin:end]; of a string without its quotes. `kind` is number, word or string."""

    path: str
    key: str
    kind: str
    begin: int
    end: int


def _last(path: str) -> str:
    """Return the last key of a path."""
    return re.sub(r"\[\d+\]", "", path).rpartition(".")[2]


class _NotAnObjectError(Exception):
    """The text is not an object. Never leaves this module."""


class _PlainList(NamedTuple):
    """A list of numbers, words and strings, text[begin:end], whose values are values[first:last]."""

    begin: int
    end: int
    first: int
    last: int


class _Parser:
    """Parses the object that begins at text[offset].

    Attributes:
        offset: The next character to parse; after `value` the end of the object.
        values: All numbers, words and strings of the object, in order.
        lists: Its lists that hold nothing but numbers, words and strings.
    """

    def __init__(self, text: str, offset: int) -> None:
        self.text, self.offset = text, offset
        self.values: list[JsonValue] = []
        self.lists: list[_PlainList] = []

    def _token(self) -> re.Match[str]:
        token = _TOKEN.match(self.text, self.offset)
        if token is None:
            raise _NotAnObjectError
        self.offset = token.end()
        return token

    def value(self, path: str, key: str, depth: int = 0) -> None:
        """Parse the value that begins here. Raises _NotAnObjectError."""
        token = self._token()
        if depth > _DEPTH or len(self.values) > MOST:
            raise _NotAnObjectError
        if token["string"]:
            self.values.append(JsonValue(path, key, "string", token.start("string") + 1, token.end() - 1))
        elif token["bare"] and IS_NUMBER.fullmatch(token["bare"]):
            self.values.append(JsonValue(path, key, "number", token.start("bare"), token.end()))
        elif token["bare"] and re.fullmatch(r"\w+", token["bare"], re.ASCII):
            self.values.append(JsonValue(path, key, "word", token.start("bare"), token.end()))
        elif token["mark"] in _CLOSES:
            self._inside(path, key, depth, token["mark"])
        else:
            raise _NotAnObjectError

    def _inside(self, path: str, key: str, depth: int, mark: str) -> None:
        """Parse the values up to the bracket that closes this one. A comma may follow the last value."""
        begin, first, index, plain = self.offset, len(self.values), 0, mark != "{"
        while True:
            item_start = self.offset
            token = self._token()
            if index and token["mark"] == ",":
                item_start = self.offset
                token = self._token()
            elif index and token["mark"] != _CLOSES[mark]:
                raise _NotAnObjectError
            if token["mark"] == _CLOSES[mark]:
                break
            if mark == "{":
                if not token["string"] or self._token()["mark"] != ":":
                    raise _NotAnObjectError
                name = token["string"][1:-1]
                self.value(f"{path}.{name}" if path else name, name, depth + 1)
            else:
                self.offset = item_start
                self.value(f"{path}[{index}]", key, depth + 1)
            index += 1
            plain = plain and len(self.values) == first + index and self.values[-1].path == f"{path}[{index - 1}]"
        end = self.offset - 1
        if plain and _CLOSES[mark] not in self.text[begin:end]:
            self.lists.append(_PlainList(begin, end, first, len(self.values)))


def object_values(text: str, offset: int) -> tuple[list[JsonValue], int] | None:
    """Return the values of the object that begins at an offset, and the offset of its end; None if there is none."""
    parser = _Parser(text, offset)
    try:
        parser.value("", "")
    except _NotAnObjectError:
        return None
    return parser.values, parser.offset


@dataclass(frozen=True, eq=False)
class JsonFamily:
    """A `[[json]]` entry of a format file.

    Attributes:
        text: The declaration, for display.
        shape: What all lines of the family have in common.
        keys: By path or glob, the name of the field; `*` names the field after the key.
        when: The paths that a line must have, each with a glob of its value; `a|b` means either of two paths.
        distinguishing: Paths whose values tell the entries of the file apart. Each such value is part of the shape.
        quotes: The quotation mark of strings, if only one is accepted: JSON has ", a Python dict mostly '.
    """

    name: str
    text: str
    samples: tuple[str, ...]
    shape: FamilyShape
    keys: Mapping[str, str]
    when: Mapping[str, str]
    distinguishing: frozenset[str]
    quotes: str = ""

    @property
    def proves_format(self) -> bool:
        conditions = "".join(min(path.split("|"), key=len) + value for path, value in self.when.items())
        return self.shape.letters + sum(c.isalnum() for c in conditions) >= MIN_LETTERS

    @property
    def _required_key(self) -> str:
        """The longest key that a line must have."""
        return max((_last(path) for path in self.when if "|" not in path), key=len, default="")

    @property
    def required_literal(self) -> bytes:
        return max(self._required_key.encode(), self.shape.required_literal, key=len)

    @cached_property
    def pattern(self) -> str:
        either = next((path for path in self.when if "|" in path), "")
        keys = "|".join(
            escape(_last(path)) for path in ([self._required_key] if self._required_key else either.split("|"))
        )
        need = rf".*?[\x22\x27](?:{keys})[\x22\x27][ \t]*\x3a" if keys else ""
        heads = "|".join(unnamed(head.pattern) for head in self.shape.heads)
        return rf"(?:{heads})[ \t]*\x7b{need}"

    @cached_property
    def _begins(self) -> list[tuple[Template, re.Pattern[bytes]]]:
        return [(h, re.compile(rf"(?s:{unnamed(h.pattern)})([ \t]*)(?=\x7b)".encode())) for h in self.shape.heads]

    @cached_property
    def _end(self) -> re.Pattern[bytes]:
        return re.compile(f"(?s:{unnamed(self.shape.tail.pattern)})".encode())

    def lines(self, text: str) -> tuple[Line, ...]:
        raw = text.encode("utf-8", "surrogateescape").rstrip(b" \t")
        for head, begin in self._begins:
            start = begin.match(raw)
            if start is not None:
                front = head.text.rstrip(" \t") + start[1].decode()
                return self._lines_of(raw, head, front, raw[start.end() :].decode("utf-8", "surrogateescape"))
        return ()

    def _lines_of(self, raw: bytes, head: Template, front: str, text: str) -> tuple[Line, ...]:
        """Return the Line of a text that begins with the object."""
        parser = _Parser(text, 0)
        try:
            parser.value("", "")
        except _NotAnObjectError:
            return ()
        tail = text[parser.offset :].encode("utf-8", "surrogateescape")
        if self.quotes and re.match(rf"\{{[ \t]*{self.quotes}", text) is None:
            return ()
        if not self._has_all(text, parser.values) or self._end.fullmatch(tail) is None:
            return ()
        names = FieldNames(self.shape.line.table, [*head.names, *self.shape.tail.names])
        body, copied = "", 0
        for begin, end, field in self._fields(text, parser, names):
            body += literal(text[copied:begin]) + field
            copied = end
        template = template_of(front + body + literal(text[copied : parser.offset]) + self.shape.tail.text)
        if template is None or template.match(raw) is None:
            return ()
        return (self.shape.line_of(template, names.from_keys),)

    def _has_all(self, text: str, values: Sequence[JsonValue]) -> bool:
        """Return whether the object meets all conditions of `when`."""
        for alternatives, value in self.when.items():
            fits, paths = glob(value), alternatives.split("|")
            inner = tuple(path + mark for path in paths for mark in ".[")
            if not any(
                fits(text[x.begin : x.end]) if x.path in paths else value == "*" and x.path.startswith(inner)
                for x in values
            ):
                return False
        return True

    def _fields(self, text: str, parser: _Parser, names: FieldNames) -> Iterator[tuple[int, int, str]]:
        """Yield begin, end and template text of each value. A list without a value that is read counts as one value."""
        k = 0  # values before this one are done
        end_of_text = _PlainList(len(text), 0, len(parser.values), 0)
        for begin, end, first, last in [*parser.lists, end_of_text]:
            for value in parser.values[k:first]:
                yield value.begin, value.end, self._field(text, value, names)
            k = max(k, first)
            if end and not any(self._is_declared(value) for value in parser.values[first:last]):
                yield begin, end, f"{{_:{text[end]}c}}"
                k = last

    def _is_declared(self, value: JsonValue) -> bool:
        """Return whether the entry names the value's path, not only a glob that fits it."""
        entry = look_up(self.keys, value.path)
        return value.path in self.distinguishing or (entry is not None and "*" not in entry[0])

    def _field(self, text: str, value: JsonValue, names: FieldNames) -> str:
        """Return the template text of a value: a field, or the value itself where it is part of the shape.

        The field of a value that is not declared, or that its column cannot hold, is dropped.
        """
        printed = text[value.begin : value.end]
        quote = text[value.end] if value.kind == "string" else ""
        dropped = {"number": "{_:r}", "word": "{_:w}", "string": f"{{_:{quote}c}}"}[value.kind]
        entry = look_up(self.keys, value.path)
        if value.path in self.distinguishing:
            return literal(printed)
        if entry is None:
            return dropped
        if value.kind == "word" and printed in _NULL:
            return printed
        name = entry[1]
        spec = self._spec(name, value.kind, printed, quote)
        if spec is None:
            return dropped
        return f"{{{names.from_key(value.key) if name == '*' else names.declared(name)}:{spec}}}"

    def _spec(self, name: str, kind: str, printed: str, quote: str) -> str | None:
        """Return the spec that reads a value; None if the value is dropped. A number in quotes is a number."""
        line = self.shape.line
        is_setting = line.table == "runs" or name in line.run
        col = column_for(line.table, name) if line.table in TABLES and not is_setting else None
        is_text_column = col is not None and col.type in ("word", "text")
        if IS_NUMBER.fullmatch(printed) and not (is_text_column and quote):
            return self._number_spec(name, printed, is_setting or (col is not None and col.type != "float64"))
        if name in ("*", "rank", "step"):
            return None
        if not (is_text_column or is_setting or (col is None and self.shape.text_rows)):
            return None
        if kind == "word":
            return "w"
        return f"{quote}c" if is_text_column else f"{quote}n"

    def _number_spec(self, name: str, printed: str, takes_integers: bool) -> str | None:
        """Return the spec that reads a number; None if the number is dropped."""
        needs_integer = name in ("rank", "step")
        if (needs_integer or takes_integers) and _INTEGER.fullmatch(printed) and fits_64(printed):
            return "d"
        if needs_integer or (name == "*" and not self.shape.number_rows):
            return None
        return "r" if repr(float(printed.replace(",", ""))) == printed else spec_of(printed)
