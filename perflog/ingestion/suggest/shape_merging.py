"""ShapeCounter that differ in a word, in the name of a row, or in a unit are one shape."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from perflog.formats.template import Template
from perflog.ingestion.suggest.line_shapes import Key, LineShape
from perflog.ingestion.suggest.printed_tables import rows
from perflog.ingestion.suggest.tokens import UNIT, Token

WORD = "\0word"
"""Key of a place where any word stands."""

_DURATION = Template("{time:t}")
_NUMBER = "\0number"
_NAMES_MOST = 60  # names of a line that are tried
_VARIES = 3  # different words that show that a place varies
_KEY_VARIES = 8  # ... where the word says what a number is: `forward: 3.1` and `backward: 6.2` are two shapes
_ROW_VARIES = 4  # ... where it begins a row of several numbers


def merged(found: Mapping[Key, LineShape]) -> dict[Key, LineShape]:
    """The shapes, those put together that differ in what varies."""
    shapes = rows(found)
    for groups in (_one_word, _one_word, _two_words, _several_words):
        for wild, keys in groups(shapes):
            together = shapes.setdefault(wild, LineShape(min(shapes[k].first for k in keys)))
            for key in keys:
                together.join(shapes.pop(key))
    return {k: s for key, shape in shapes.items() for k, s in _units_apart(key, shape)}


def _units_apart(key: Key, shape: LineShape) -> Iterator[tuple[Key, LineShape]]:
    """A shape, or one for each unit of its durations, where they are not printed as profilers print them."""
    parts: dict[tuple[str, ...], LineShape] = {}
    for text, line in shape.lines.items():
        units = tuple(t.text for t in line if t.kind == UNIT)
        parts.setdefault(units, LineShape(shape.first, 0)).keep(text, line)
    if len(parts) < 2 or any(_as_profilers(line) for line in shape.lines.values()):
        yield key, shape
        return
    for units, part in parts.items():
        part.count = max(shape.count * len(part.lines) // len(shape.lines), 1)
        left = list(units)
        yield tuple(left.pop(0) if x == f"\0{UNIT}" else x for x in key), part


def _as_profilers(line: tuple[Token, ...]) -> bool:
    texts = [a.text + b.text for a, b in pairwise(line) if b.kind == UNIT]
    return all((values := _DURATION.match(x)) is not None and _DURATION.render(values) == x for x in texts)


def _one_word(shapes: Iterable[Key]) -> Iterator[tuple[Key, list[Key]]]:
    """Groups of shapes that differ in one place; each shape is in one group, the largest."""
    groups: dict[tuple[int, Key], list[Key]] = {}
    for key in shapes:
        for at in _names(key):
            groups.setdefault((at, (*key[:at], WORD, *key[at + 1 :])), []).append(key)
    free = set(shapes)
    for (at, wild), keys in sorted(groups.items(), key=lambda group: -len(group[1])):
        left = [k for k in keys if k in free]
        if len(left) >= _needed(wild, at) and _letters(wild):
            free -= {*left, wild}
            yield wild, left


def _two_words(shapes: Iterable[Key]) -> Iterator[tuple[Key, list[Key]]]:
    """Groups of shapes with numbers that differ in their first two words, and are many: each pair of some of both."""
    groups: dict[Key, list[Key]] = {}
    for key in shapes:
        names = _names(key)
        if len(names) > 3:
            groups.setdefault(tuple(WORD if at in names[:2] else x for at, x in enumerate(key)), []).append(key)
    for wild, keys in groups.items():
        if len(keys) > 2 * _VARIES - 1 and wild not in keys:
            yield wild, keys


def _several_words(shapes: Iterable[Key]) -> Iterator[tuple[Key, list[Key]]]:
    """Groups of shapes without numbers that begin alike, differ in several words, and have most words in common."""
    groups: dict[Key, list[Key]] = {}
    for key in shapes:
        names = _names(key)
        if names and _NUMBER not in key:
            plan = tuple(WORD if at in names[1:] else x for at, x in enumerate(key))
            groups.setdefault(plan, []).append(key)
    for keys in groups.values():
        wild = tuple(x[0] if len(set(x)) == 1 else WORD for x in zip(*keys, strict=True))
        if len(keys) > _VARIES and wild.count(WORD) <= len(_names(wild)):
            yield wild, [k for k in keys if k != wild]


def _names(key: Key) -> list[int]:
    at = [i for i, x in enumerate(key) if x[0].isalpha() or x[0] == "_"]
    return at if len(at) <= _NAMES_MOST else []


def _letters(key: Key) -> bool:
    """Whether enough is left to tell the shape by."""
    return sum(len(key[at]) for at in _names(key)) >= 3


def _needed(key: Key, at: int) -> int:
    """How many different words at a place show that it varies."""
    if _NUMBER not in key:
        return _VARIES
    names, rest = _names(key), key[at + 1 :]
    ahead = rest[: rest.index(_NUMBER)] if _NUMBER in rest else ()
    if _NUMBER not in rest or any(x in ahead for x in (",", ";", "|", "]", "-", ">")):
        return _VARIES
    return _ROW_VARIES if (not names or at < names[0]) and key.count(_NUMBER) > 1 else _KEY_VARIES
