"""Finds lines that only torn writes make: the head of one record with the tail of another.

    step: 7 | loss: 2.31 | grad_norm: 1.12 |               what a program prints, again and again
    step: 8 | loss: 2.2 | loss: 2.29 | grad_norm: 1.13 |   two halves: a name comes twice
    step: 9 | loss: 2.30 | gr: 1.14 |                      two halves: a word that no line has
    | grad_norm: 1.15 |                                    a half alone: its head is elsewhere

Such a line begins like the usual lines of the log and ends like them. Lines from which a field is missing do so too,
but there both halves end where a field ends. Nothing in a line shows that it consists of two halves that fit.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from perflog.arrays import Mask
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.match.figure_counts import number_shape, number_shapes

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_USUAL = 32  # shapes of lines that are compared with each odd one
_USUAL = 20  # times as many lines as an odd shape has: each tear makes another one
_SHORTEST = 3  # bytes of a part, or words, that show where they are from
_LONGEST = 1 << 12  # bytes of a shape

_BLANKS = lazy_pattern(rb"[ \t]+")
_WORD = lazy_pattern(rb"[A-Za-z]{2,}")
_GROUPS = lazy_pattern(rb"(?<![0-9.\w])0(?:,0)+(?![0-9,])")
_NUMBER = lazy_pattern(rb"(?i)(?<![0-9.\w])[+-]?(?:0\.0(?:e[+-]?0)?|0e[+-]?0|nan|inf(?:inity)?)(?![0-9.])")
_INSIDE_FIELD = lazy_pattern(rb"[:=] ?\n|[A-Za-z] ?\n *[0+-]|\w[^\w ]\n\w")
"""A cut, written as a line feed, between a name and its number or inside a word."""
_LETTER = lazy_pattern(rb"[A-Za-z]")
_MARK = lazy_pattern(rb"[^0 ]")
_PART_OF_WORD = lazy_pattern(rb"\w*[A-Za-z_]\w*")


class _Usual(Struct, frozen=True):
    """A shape of usual lines, the same with one 0 for each number, and its number of lines."""

    shape: bytes
    numbered: bytes
    count: int


def torn_texts(texts: pa.Array) -> tuple[Mask, Mask]:
    """Find the lines that only torn writes make, in a part of a log in which lines are torn.

    Returns:
        Masks of the lines that consist of pieces of usual lines, and of the lines that begin a usual line.
    """
    shape_of, firsts = number_shapes(texts)
    shapes = [_BLANKS.sub(b" ", number_shape(texts[row].as_py())).strip() for row in firsts.tolist()]
    lines: Counter[bytes] = Counter()
    for shape, count in zip(shapes, np.bincount(shape_of).tolist(), strict=True):
        lines[shape] += count
    pieces: set[bytes] = set()
    heads: set[bytes] = set()
    usual: list[_Usual] = []
    for shape, count in lines.most_common():
        number = _numbered(shape)
        often = [other for other in usual if other.count >= count * _USUAL]
        if len(shape) > _LONGEST or b"0" not in shape or any(number == other.numbered for other in often):
            continue
        if any(is_spliced(shape, other.shape) for other in often):
            pieces.add(shape)
        elif any(other.shape.startswith(shape) for other in often):
            heads.add(shape)
        elif count >= _USUAL and len(usual) < _MOST_USUAL:
            usual.append(_Usual(shape, number, count))
    is_piece, is_head = (np.array([shape in found for shape in shapes], np.bool_) for found in (pieces, heads))
    return is_piece[shape_of], is_head[shape_of]


def is_usual(texts: pa.Array) -> Mask:
    """Return which strings have a shape that is not much rarer than the most frequent one."""
    shape_of, _ = number_shapes(texts)
    counts = np.bincount(shape_of)
    often: Mask = counts * _USUAL >= counts.max(initial=0)
    return often[shape_of]


def is_spliced(shape: bytes, usual: bytes) -> bool:
    """Return whether a string is the beginning and the end of a usual line, cut inside a field, or only its end.

    A part from anywhere in it may be between them, or replace the end. Both strings have one digit 0 for each run of
    digits, and one space for several.
    """
    end = _common_begin(shape[::-1], usual[::-1])
    if end == len(shape):
        return len(usual) > len(shape)
    begin = _common_begin(shape, usual)
    if begin == len(shape):
        return False  # its end is missing
    words, known = _words(shape), _words(usual)
    has_other_words = any(count > known[word] for word, count in words.items())  # one comes twice, or is unknown
    if begin + end < len(shape):
        middle = shape[begin : len(shape) - end]
        is_part = begin > 0 and len(middle) >= _SHORTEST and middle in usual
        return has_other_words and (is_part or _are_mixed(words, known, usual))
    cuts = range(len(shape) - end, begin + 1)  # where the halves may meet
    return has_other_words or not any(_is_clean(shape, usual, cut) for cut in cuts)


def _are_mixed(words: Counter[bytes], known: Counter[bytes], usual: bytes) -> bool:
    """Return whether the words are joined from words of a usual line: each write is a single word."""
    longest_first = sorted(known, key=lambda word: -len(word))
    each = re.compile(b"|".join(longest_first) or b"(?!)")
    rests = (each.sub(b"", word) for word in words)
    return len(words) >= _SHORTEST and all(len(rest) < _SHORTEST and rest in usual for rest in rests)


def _is_clean(shape: bytes, usual: bytes, cut: int) -> bool:
    """Return whether a field ends where both halves are cut: the same mark is before both.

    What is missing between them, or comes twice, has a name; or it is a number of a list, or a part of a word.
    """
    after = len(usual) - len(shape) + cut  # where the end begins in the usual line
    between, mark = usual[cut:after] or shape[after:cut], shape[cut - 1 : cut]
    if _PART_OF_WORD.fullmatch(between):
        return True
    if mark != usual[max(after - 1, 0) : after] or mark.isalnum():
        return False
    if _LETTER.search(between) is None and _MARK.search(between) is not None:
        return False
    if usual[cut : cut + 1].isalpha() != usual[after : after + 1].isalpha():
        return False  # a unit
    halves = ((shape, cut), (usual, cut), (usual, after))
    return not any(_INSIDE_FIELD.search(text[:offset] + b"\n" + text[offset:]) for text, offset in halves)


def _numbered(shape: bytes) -> bytes:
    """Return a shape with the same string for all numbers, but another one for whole numbers."""
    return _NUMBER.sub(b"0.0", _GROUPS.sub(b"0", shape))


@lru_cache(_MOST_USUAL)
def _words(text: bytes) -> Counter[bytes]:
    return Counter(_WORD.findall(text))


def _common_begin(first: bytes, second: bytes) -> int:
    """Return how many bytes two strings have in common at their beginnings."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[:middle] == second[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
