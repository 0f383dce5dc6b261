"""Counts the figures of many strings at once."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perflog.arrays import Ints
from perflog.formats.figures import SEVERAL_WORDS, figure_spans
from perflog.tables.arrow import mask_of, numbers_of, valid_mask

_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_PLAIN = r"[0-9]+(?:\.[0-9]+)?"
_LIST = rf"^\[*{_PLAIN}(?:\]*, ?\[*{_PLAIN})*\]*$"  # each of its numbers is a figure
_LONG = 64  # bytes of a string from which on it pays to look for lists
_IN_NUMBERS = b"0.,+-e[] "
_BLANKS = bytes.maketrans(b"(){}<>\"';", b"         ")  # they separate words


def count_figures(texts: pa.Array) -> Ints:
    """Return the number of figures in each element of an Arrow array of strings or binaries; 0 for null.

    Whether a number is a figure does not depend on its digits. So they are masked, and each distinct string, and each
    distinct word in it, is examined once.
    """
    are_long = len(texts) > 0 and len(texts.buffers()[2] or b"") > _LONG * len(texts)
    if are_long and not texts.null_count and mask_of(pc.match_substring_regex(texts, _LIST)).all():
        return numbers_of(pc.count_substring(texts, ",")).astype(np.int64) + 1
    shapes = masked_digits(texts).dictionary_encode()
    counts = np.array([_count(shape) for shape in shapes.dictionary.to_pylist()] or [0], np.int64)
    known = valid_mask(shapes.indices)
    return counts[np.where(known, numbers_of(shapes.indices), 0)] * known


def masked_digits(texts: pa.Array) -> pa.Array:
    """Return an Arrow array of strings or binaries with the digit 0 for each digit."""
    valid, offsets, data = texts.buffers()
    masked = pa.py_buffer(bytes(data or b"").translate(_ZEROS))
    return pa.Array.from_buffers(pa.binary(), len(texts), [valid, offsets, masked], offset=texts.offset)


def number_shape(text: bytes) -> bytes:
    """Return a string with one digit 0 for each run of digits."""
    masked = text.translate(_ZEROS)
    if b"00" not in masked:
        return masked
    characters = np.frombuffer(masked, np.uint8)
    is_digit = characters == ord("0")
    is_kept = np.append(True, ~(is_digit[1:] & is_digit[:-1]))
    return bytes(characters[is_kept])


def number_shapes(texts: pa.Array) -> tuple[Ints, Ints]:
    """Return for each element of an Arrow array of lines the number of its shape, and the first line of each shape.

    Lines of one shape differ in their numbers only. The elements have no line breaks.
    """
    masked = number_shape(b"\n".join([*texts.to_pylist(), b""]))
    ends = np.flatnonzero(np.frombuffer(masked, np.uint8) == ord("\n")) + 1
    offsets = np.append(0, ends).astype(np.int32)
    shapes = pa.Array.from_buffers(pa.binary(), len(texts), [None, pa.py_buffer(offsets), pa.py_buffer(masked)])
    shape_of = numbers_of(shapes.dictionary_encode().indices).astype(np.int64)
    return shape_of, np.unique(shape_of, return_index=True)[1]


def _count(shape: bytes) -> int:
    """Return the number of figures in a string with digits masked by zeros."""
    if b"0" not in shape:
        return 0
    text = shape.decode("utf-8", "replace")
    if shape.translate(None, _IN_NUMBERS) and SEVERAL_WORDS.search(text):  # a list of numbers has no words
        return len(figure_spans(text))
    words = Counter(shape.translate(_BLANKS).split())
    return sum(count * _count_in_word(word) for word, count in words.items() if b"0" in word)


@lru_cache(1 << 14)
def _count_in_word(word: bytes) -> int:
    return len(figure_spans(word.decode("utf-8", "replace")))
