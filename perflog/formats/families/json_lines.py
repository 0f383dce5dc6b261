"""Lines that hold one object: JSON, or the repr of a Python dict, with a text in front: `DLLL {"step": [0, 1], ...}`.

What stands between the values is the shape, to the byte; each value is a field. What one Line reads, no Line of other
keys does: a text within quotes ends at the quote, and a value thrown away is one number, one word or one such text.
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
"""Values of a line that is tried."""

_DEPTH = 32
_TOKEN = re.compile(
    r"""[ \t]*(?:(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<mark>[][{}(),:])|(?P<bare>[^][{}(),:"'\s]+))"""
)
_CLOSES = {"{": "}", "[": "]", "(": ")"}
_NOTHING = ("null", "None")
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)


class JsonValue(NamedTuple):
    """A value, text[begin:end]; of a string without its quotes. `kind`: number, word or string."""

    path: str
    key: str
    kind: str
    begin: int
    end: int


def _last(path: str) -> str:
    """The last key of a path."""
    return re.sub(r"\[\d+\]", "", path).rpartition(".")[2]


class _Broken(Exception):  # noqa: N818  # no object after all: never seen outside
    pass


class _Parser:
    """The values of one object, text[at:]. `rows` are the lists of plain values: begin, end, first and last value."""

    def __init__(self, text: str, at: int) -> None:
        self.text, self.at = text, at
        self.leaves: list[JsonValue] = []
        self.rows: list[tuple[int, int, int, int]] = []

    def _token(self) -> re.Match[str]:
        token = _TOKEN.match(self.text, self.at)
        if token is None:
            raise _Broken
        self.at = token.end()
        return token

    def value(self, path: str, key: str, depth: int = 0) -> None:
        """Read the value that begins here. Raises _Broken."""
        token = self._token()
        if depth > _DEPTH or len(self.leaves) > MOST:
            raise _Broken
        if token["string"]:
            self.leaves.append(JsonValue(path, key, "string", token.start("string") + 1, token.end() - 1))
        elif token["bare"] and IS_NUMBER.fullmatch(token["bare"]):
            self.leaves.append(JsonValue(path, key, "number", token.start("bare"), token.end()))
        elif token["bare"] and re.fullmatch(r"\w+", token["bare"], re.ASCII):
            self.leaves.append(JsonValue(path, key, "word", token.start("bare"), token.end()))
        elif token["mark"] in _CLOSES:
            self._inside(path, key, depth, token["mark"])
        else:
            raise _Broken

    def _inside(self, path: str, key: str, depth: int, mark: str) -> None:
        """Read the values up to the bracket that closes this one. A comma may stand behind the last of them."""
        begin, first, index, plain = self.at, len(self.leaves), 0, mark != "{"
        while True:
            ahead = self.at
            token = self._token()
            if index and token["mark"] == ",":
                ahead = self.at
                token = self._token()
            elif index and token["mark"] != _CLOSES[mark]:
                raise _Broken
            if token["mark"] == _CLOSES[mark]:
                break
            if mark == "{":
                if not token["string"] or self._token()["mark"] != ":":
                    raise _Broken
                name = token["string"][1:-1]
                self.value(f"{path}.{name}" if path else name, name, depth + 1)
            else:
                self.at = ahead
                self.value(f"{path}[{index}]", key, depth + 1)
            index += 1
            plain = plain and len(self.leaves) == first + index and self.leaves[-1].path == f"{path}[{index - 1}]"
        end = self.at - 1
        if plain and _CLOSES[mark] not in self.text[begin:end]:
            self.rows.append((begin, end, first, len(self.leaves)))


def leaves(text: str, at: int) -> tuple[list[JsonValue], int] | None:
    """The values of the object that begins at a place, and where it ends; None if there is none."""
    parser = _Parser(text, at)
    try:
        parser.value("", "")
    except _Broken:
        return None
    return parser.leaves, parser.at


@dataclass(frozen=True, eq=False)
class JsonFamily:
    """A `[[json]]` entry. `keys` give the name of a path's field, `*` for that of the key itself; `when` what must be
    there, `a|b` either of two; `apart` are the paths whose values tell entries of the file apart: each such value is a
    shape of its own. `quotes`: the mark that strings stand in, if it must be one: JSON has ", a Python dict mostly '.
    """

    name: str
    text: str
    samples: tuple[str, ...]
    shape: FamilyShape
    keys: Mapping[str, str]
    when: Mapping[str, str]
    apart: frozenset[str]
    quotes: str = ""

    @property
    def proves_format(self) -> bool:
        own = "".join(min(path.split("|"), key=len) + value for path, value in self.when.items())
        return self.shape.letters + sum(c.isalnum() for c in own) >= MIN_LETTERS

    @property
    def _key(self) -> str:
        """The longest key that a line must have."""
        return max((_last(path) for path in self.when if "|" not in path), key=len, default="")

    @property
    def required_literal(self) -> bytes:
        return max(self._key.encode(), self.shape.required_literal, key=len)

    @cached_property
    def pattern(self) -> str:
        either = next((path for path in self.when if "|" in path), "")
        keys = "|".join(escape(_last(path)) for path in ([self._key] if self._key else either.split("|")))
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
                return self._of(raw, head, front, raw[start.end() :].decode("utf-8", "surrogateescape"))
        return ()

    def _of(self, raw: bytes, head: Template, front: str, text: str) -> tuple[Line, ...]:
        """The Line of a text that begins with the object."""
        parser = _Parser(text, 0)
        try:
            parser.value("", "")
        except _Broken:
            return ()
        rest = text[parser.at :].encode("utf-8", "surrogateescape")
        if self.quotes and re.match(rf"\{{[ \t]*{self.quotes}", text) is None:
            return ()
        if not self._meant(text, parser.leaves) or self._end.fullmatch(rest) is None:
            return ()
        names = FieldNames(self.shape.line.table, [*head.names, *self.shape.tail.names])
        body, at = "", 0
        for begin, end, piece in self._pieces(text, parser, names):
            body += literal(text[at:begin]) + piece
            at = end
        made = template_of(front + body + literal(text[at : parser.at]) + self.shape.tail.text)
        if made is None or made.match(raw) is None:
            return ()
        return (self.shape.made(made, names.of_keys),)

    def _meant(self, text: str, leaves: Sequence[JsonValue]) -> bool:
        """Whether all is there that must be."""
        for either, value in self.when.items():
            fits, paths = glob(value), either.split("|")
            inner = tuple(path + mark for path in paths for mark in ".[")
            if not any(
                fits(text[x.begin : x.end]) if x.path in paths else value == "*" and x.path.startswith(inner)
                for x in leaves
            ):
                return False
        return True

    def _pieces(self, text: str, parser: _Parser, names: FieldNames) -> Iterator[tuple[int, int, str]]:
        """What stands for each value: begin, end, text of the template. A list of which nothing is read is one."""
        k = 0
        for begin, end, first, last in [*parser.rows, (len(text), 0, len(parser.leaves), 0)]:
            for leaf in parser.leaves[k:first]:
                yield leaf.begin, leaf.end, self._piece(text, leaf, names)
            k = max(k, first)
            if end and not any(self._wanted(x) for x in parser.leaves[first:last]):
                yield begin, end, f"{{_:{text[end]}c}}"
                k = last

    def _wanted(self, leaf: JsonValue) -> bool:
        found = look_up(self.keys, leaf.path)
        return leaf.path in self.apart or (found is not None and "*" not in found[0])

    def _piece(self, text: str, leaf: JsonValue, names: FieldNames) -> str:
        """The field of a value, or the value itself where it makes the shape. A value that is not asked for is thrown
        away, and so is one that its column cannot hold.
        """
        value = text[leaf.begin : leaf.end]
        quote = text[leaf.end] if leaf.kind == "string" else ""
        thrown = {"number": "{_:r}", "word": "{_:w}", "string": f"{{_:{quote}c}}"}[leaf.kind]
        found = look_up(self.keys, leaf.path)
        if leaf.path in self.apart:
            return literal(value)
        if found is None:
            return thrown
        if leaf.kind == "word" and value in _NOTHING:
            return value
        spec = self._spec(found[1], leaf.kind, value, quote)
        if spec is None:
            return thrown
        return f"{{{names.of_key(leaf.key) if found[1] == '*' else names.own(found[1])}:{spec}}}"

    def _spec(self, name: str, kind: str, value: str, quote: str) -> str | None:
        """How the value of a field is read; None if it is not. A number in quotes is a number."""
        line = self.shape.line
        describes = line.table == "runs" or name in line.run
        col = column_for(line.table, name) if line.table in TABLES and not describes else None
        worded = col is not None and col.type in ("word", "text")
        if IS_NUMBER.fullmatch(value) and not (worded and quote):
            whole = name in ("rank", "step") or describes or (col is not None and col.type != "float64")
            if whole and _INTEGER.fullmatch(value) and fits_64(value):
                return "d"
            none = name in ("rank", "step") or (name == "*" and not self.shape.number_rows)
            return None if none else "r" if repr(float(value.replace(",", ""))) == value else spec_of(value)
        if (
            name == "*"
            or name in ("rank", "step")
            or not (worded or describes or (col is None and self.shape.text_rows))
        ):
            return None
        return "w" if kind == "word" else f"{quote}{'c' if worded else 'n'}"
