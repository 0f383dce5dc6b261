"""Tells line shapes that only torn writes make: the head of one record with the tail of another.

    iteration 7/ 100 | elapsed time: 812.4 | loss: 2.31 |          a record
    iteration 8/ 100 | elapsed time: 81 loss: 2.29 |               two halves: the junction is inside a field of both

Such a line begins like a known one and ends like a known one. Lines from which fields are missing do so too, but there
both halves end where a field ends.
"""

from __future__ import annotations

from collections import Counter
from itertools import takewhile, zip_longest

from perflog.formats.template import Template
from perflog.lazy_patterns import lazy_pattern

_FIELD = "\0"
_WORD = lazy_pattern(r"[^\W\d_]\w*")


def is_torn_shape(shape: Template, known: Template) -> bool:
    """Return whether a line shape consists of the beginning and the end of a known one, cut inside its fields."""
    text, whole = _masked(shape), _masked(known)
    if text == whole or not text.strip(_FIELD):
        return False
    begin = _common(text, whole)
    end = _common(text[::-1], whole[::-1])
    if begin + end < len(text):
        return False
    cuts = range(len(text) - end, min(begin, len(text)) + 1)
    is_suffix = not cuts.start
    if is_suffix and len(whole) > len(text):
        return True
    if not cuts.stop > cuts.start or begin == len(text):
        return False  # its end is missing
    return _has_one_twice(shape, known) or not any(_is_clean(text, whole, cut) for cut in cuts)


def _masked(template: Template) -> str:
    """Return the template string without whitespace, with one character for each field."""
    fields = ("" if field.type == "b" else _FIELD for field in template.fields)
    pieces = zip_longest(template.literals, fields, fillvalue="")
    return "".join(literal + field for literal, field in pieces).replace(" ", "")


def _common(first: str, second: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


def _is_clean(text: str, whole: str, cut: int) -> bool:
    """Return whether a field ends where both halves are cut: the same mark is before both."""
    front, other = text[:cut], whole[: len(whole) - len(text) + cut]
    return bool(front) and front[-1:] == other[-1:] and front[-1] != _FIELD and not front[-1].isalnum()


def _has_one_twice(shape: Template, known: Template) -> bool:
    """Return whether a word is there more often than in the known line."""
    words, known_words = (Counter(_WORD.findall(" ".join(t.literals))) for t in (shape, known))
    return bool(words - known_words)
