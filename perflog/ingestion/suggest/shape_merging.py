"""Merges line shapes that differ only in words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile

from perflog.formats.tokens import Token
from perflog.formats.vocabulary import COUNTER
from perflog.ingestion.suggest.line_shapes import Key, LineShape
from perflog.lazy_patterns import lazy_pattern
from perflog.units import unit_of

WORD = "\0word"
"""Key of a slot in which the word varies."""

_NUMBER = "\0number"
_COUNTER = lazy_pattern(rf"(?:.*[_-])?{COUNTER}[_-]?#", re.IGNORECASE)
_WORDS = 2  # of a line that may vary
_MOST_NUMBERED = 16  # names that differ in digits and become shapes of their own
_MOST_NAMES = 60  # a line with more names is not merged
# So many different words show that a slot varies:
_VARIES = 3  # in general;
_KEY_VARIES = 60  # where the word names a number: `forward: 3.1` and `backward: 6.2` are two shapes;
_ROW_VARIES = 4  # where the word begins a row of several numbers


def merge_shapes(shapes: Mapping[Key, LineShape]) -> dict[Key, LineShape]:
    """Return the shapes. Shapes that differ only in words that vary become one."""
    merged = dict(shapes)
    for _ in range(_WORDS):
        for wild, keys in _one_word(merged):
            shape = merged.setdefault(wild, LineShape(min(merged[k].first for k in keys)))
            for key in keys:
                shape.join(merged.pop(key))
    return {k: s for key, shape in merged.items() for k, s in _split_by_numbered_names(key, shape)}


def fits(wild: Key, key: Key, line: tuple[Token, ...]) -> bool:
    """Whether a line belongs to a merged shape, in which words vary.

    Args:
        wild: The key of the merged shape.
        key: The key of the line itself.
        line: The tokens of the line.
    """
    if len(key) != len(wild) or [x == " " for x in key] != [x == " " for x in wild]:
        return False
    pairs = ((a, b) for a, b in zip(key, wild, strict=True) if a != " ")
    return all(b in (a, token.text, WORD) for (a, b), token in zip(pairs, line, strict=True))


def _split_by_numbered_names(key: Key, shape: LineShape) -> Iterator[tuple[Key, LineShape]]:
    """Yield a shape for each of a few names with digits that vary: `p50 latency: 9.4` and `p99 latency: 10.5`.

    The digits of a counter are a number of its own: `step12`.
    """
    places = [place for place, x in enumerate(key) if "#" in x and _names_number(key, place)]
    tokens_before = [sum(x != " " for x in key[:place]) for place in places]
    parts: dict[tuple[str, ...], LineShape] = {}
    for text, line in shape.lines.items():
        parts.setdefault(tuple(line[k].text for k in tokens_before), LineShape(shape.first, 0)).keep(text, line)
    is_apart = any(len(line[k + 1].gap) > 1 for line in shape.lines.values() for k in tokens_before)
    is_row = places == [0] and key[1:3] == (" ", _NUMBER)  # `BM_copy/64      2.31 ns`
    if not places or len(parts) > _MOST_NUMBERED or (is_apart and not is_row):
        yield key, shape
        return
    for names, part in parts.items():
        part.count = max(shape.count * len(part.lines) // len(shape.lines), 1)
        by_place = dict(zip(places, names, strict=True))
        yield tuple(by_place.get(place, x) for place, x in enumerate(key)), part


def _names_number(key: Key, place: int) -> bool:
    """Whether a word of a key is part of the name of a number: only words and a mark are between them."""
    following = [x for x in key[place + 1 :] if x != " "]
    words = list(takewhile(lambda x: x[0].isalpha(), following))
    after = following[len(words) :]
    is_counter = _COUNTER.fullmatch(key[place]) is not None
    return not is_counter and after[:1] + after[1:2] * (after[:1] in ([":"], ["="])) in (
        [_NUMBER],
        [":", _NUMBER],
        ["=", _NUMBER],
    )


def _one_word(keys: Iterable[Key]) -> Iterator[tuple[Key, list[Key]]]:
    """Yield groups of shapes that differ in one word: the merged key, and the keys. A shape joins its largest group."""
    groups: dict[tuple[int, Key], list[Key]] = {}
    for key in keys:
        for place in _name_places(key):
            groups.setdefault((place, (*key[:place], WORD, *key[place + 1 :])), []).append(key)
    free = {key for members in groups.values() for key in members}
    for (place, wild), members in sorted(groups.items(), key=lambda group: -len(group[1])):
        free_members = [k for k in members if k in free]
        if len(free_members) >= _words_needed(wild, place) and _has_letters(wild):
            free -= {*free_members, wild}
            yield wild, free_members


def _name_places(key: Key) -> list[int]:
    """Return the indices of the names in a key, but of no unit after a number; empty if there are too many to try."""
    names = [i for i, x in enumerate(key) if x[0].isalpha() or x[0] == "_"]
    places = [i for i in names if not (unit_of(key[i])[0] and key[max(i - 2, 0) : i] == (_NUMBER, " "))]
    return places if len(places) <= _MOST_NAMES else []


def _has_letters(key: Key) -> bool:
    """Whether the names of a key have enough letters to recognise the shape."""
    return sum(len(key[place]) for place in _name_places(key)) >= 3


def _words_needed(key: Key, place: int) -> int:
    """Return how many different words in a slot show that the word varies."""
    if _NUMBER not in key:
        return _VARIES
    if key[0] == _NUMBER and key.count(_NUMBER) == 1:  # `4510 system cpu ticks`: all words name the number
        return _KEY_VARIES
    names, after = _name_places(key), key[place + 1 :]
    until_number = after[: after.index(_NUMBER)] if _NUMBER in after else ()
    if "|" in until_number and all(x in (" ", "|") for x in until_number):  # `| fps | 202 |`
        return _KEY_VARIES
    if _NUMBER not in after or any(x in until_number for x in (",", ";", "|", "]", "-", ">")):
        return _VARIES
    return _ROW_VARIES if (not names or place < names[0]) and key.count(_NUMBER) > 1 else _KEY_VARIES
