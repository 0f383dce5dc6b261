"""Lines that hold an object, read without a regular expression of the line: by the bytes between their values.

An expression with a group for each of fifty values takes seconds to compile and to match. Here one expression splits
any such line into its values and what is between them. That and the kinds of the values are the shape of the
line: two lines of one shape have the same keys. Their lists may differ in length.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Generic, TypeVar

from msgspec import Struct

from perflog.formats.durations import is_duration
from perflog.formats.template import GROUPED, LIST, fits_64, fits_double
from perflog.lazy_patterns import lazy_pattern

_STRING = r"(?:\x22(?:[^\x22\\]|\\.)*+\x22|'(?:[^'\\]|\\.)*+')"
_BARE = r"[^][{}(),:\x22'\s]++"
_IN_LIST = rf"(?:[^][{{}}\x22']|{_STRING})*+"  # of values alone
_PAIR = lazy_pattern(
    rf"((?:[{{}}\],:\s]|\[(?!{_IN_LIST}\])|{_STRING}\s*+:)*+)({_STRING}|\[{_IN_LIST}\]|{_BARE})".encode()
)
_AFTER = b"]} \t,"
_NUMBER = lazy_pattern(GROUPED.encode())
_INTEGER = lazy_pattern(rb"[+-]?\d+")
_NUMBERS = lazy_pattern(LIST.encode())
_ITEM = lazy_pattern(rf"{_STRING}|{_BARE}".encode())
_WORDS = {b"null": b"null", b"None": b"null", **dict.fromkeys((b"true", b"false", b"True", b"False"), b"boolean")}
_QUOTES = b"\"'"
_FIRST_OF_NUMBERS = frozenset(b"+-.0123456789nNiI")
_SURELY_FITS = 18  # digits of a number of 64 bits
_LIST = ord("[")
T = TypeVar("T")

Key = tuple[bytes, tuple[bytes, ...], tuple[bytes, ...], bytes]
"""The bytes before the first value, between the values, the kinds of the values, the bytes after the last value."""


class ObjectShape(Struct, frozen=True):
    """The shape of lines with the same keys.

    Attributes:
        key: What `split` finds of each of them.
        fixed: Values that are part of the shape, by index: with others, the line is of another shape.
        fields: For each field that is read, the index of its value.
        dropped: For each string that is dropped, the index of its value.
    """

    key: Key
    fixed: tuple[tuple[int, bytes], ...]
    fields: tuple[int, ...]
    dropped: tuple[int, ...]


class ObjectShapes(Generic[T]):
    """Finds the shape of a line among known ones. Each has a name of type T."""

    def __init__(self) -> None:
        self._by_key: dict[Key, list[tuple[T, ObjectShape]]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def copy(self) -> ObjectShapes[T]:
        copy = ObjectShapes[T]()
        copy._by_key = {key: list(shapes) for key, shapes in self._by_key.items()}
        return copy

    def add(self, name: T, shape: ObjectShape) -> None:
        self._by_key.setdefault(shape.key, []).append((name, shape))

    def find(self, text: bytes) -> tuple[T, Sequence[bytes]] | None:
        """Return the name of the shape of a line, and its values; None if no shape fits the line."""
        parts = split(text)
        if parts is None:
            return None
        key, values = parts
        shapes = self._by_key.get(key, ())
        name = next((name for name, shape in shapes if all(values[k] == text for k, text in shape.fixed)), None)
        return None if name is None else (name, values)


def split(text: bytes) -> tuple[Key, Sequence[bytes]] | None:
    """Split a line into its shape and its values, strings with their quotes; None if it holds no plain object."""
    begin = text.find(b"{")
    pairs = _PAIR.findall(text, begin) if begin >= 0 else []
    if not pairs:
        return None
    joined = b"".join(chain.from_iterable(pairs))
    end = begin + len(joined)
    if text[begin:end] != joined or text[end:].strip(_AFTER):
        return None
    between, values = zip(*pairs, strict=True)
    kinds, after = tuple(map(_kind, values)), text[end:]
    if b"" in kinds:
        between, values, left = _with_items_apart(between, values, kinds)
        kinds, after = tuple(map(_kind, values)), left + after
    return (text[:begin], between, kinds, after), values


def _with_items_apart(
    between: Sequence[bytes], values: Sequence[bytes], kinds: Sequence[bytes]
) -> tuple[tuple[bytes, ...], tuple[bytes, ...], bytes]:
    """Return separators and values, each item of a list without a kind as a value, and what is after the last value."""
    texts, items, left = list[bytes](), list[bytes](), b""
    for text, value, kind in zip(between, values, kinds, strict=True):
        end = 0
        found = [] if kind else list(_ITEM.finditer(value, 1, len(value) - 1))
        for item in found:
            texts.append((b"" if end else left + text) + value[end : item.start()])
            items.append(item[0])
            end = item.end()
        if found:
            left = value[end:]
        else:
            texts.append(left + text)
            items.append(value)
            left = b""
    return tuple(texts), tuple(items), left


def bare(value: bytes) -> bytes:
    """Return a value without its quotes or brackets."""
    return value[1:-1] if value[0] in b"\"'[" else value


def _kind(value: bytes) -> bytes:
    """Return what distinguishes values that one field could not read; b"" for a list of neither numbers nor words."""
    first = value[0]
    if first == _LIST:
        return _kind_of_list(value[1:-1])
    if first not in _QUOTES:
        return (_kind_of_number(value) if first in _FIRST_OF_NUMBERS else b"") or _WORDS.get(value, b"word")
    inner = value[1:-1]
    if not inner or inner[0] not in _FIRST_OF_NUMBERS:
        return value[:1] + b"text"
    is_timed = b":" in inner or not inner[-1:].isdigit()
    other = b"duration" if is_timed and is_duration(inner.decode("utf-8", "replace")) else b"text"
    return value[:1] + (_kind_of_number(inner) or other)


def _kind_of_number(text: bytes) -> bytes:
    """Return the kind of a number; b"" if the string is none."""
    if text.isdigit() and len(text) <= _SURELY_FITS:
        return b"integer"
    if not _NUMBER.fullmatch(text):
        return b""
    if _INTEGER.fullmatch(text) and fits_64(text):
        return b"integer"
    return b"number" if fits_double(text) else b""


def _kind_of_list(text: bytes) -> bytes:
    """Return the kind of a list that holds no other list; b"" if its items are not all numbers, or all words."""
    if _NUMBERS.fullmatch(text):
        return b"numbers"
    items = _ITEM.findall(text)
    if b"]" in text or any(item[0] in _FIRST_OF_NUMBERS and _NUMBER.fullmatch(item) for item in items):
        return b""
    return b"words" + (text[:1] if text[0] in _QUOTES else b"")
