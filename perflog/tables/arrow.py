"""numpy arrays and strings as Arrow arrays, without copies where that can be, and without pandas.

pa.array imports pandas where it is installed: 0.3 s that a command line does not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_EXPRESSION = 1 << 14  # bytes of patterns that are compiled together
_KEPT = 48  # columns of one value that are kept: those of one stretch of a log serve many of its tables


def number_array(values: npt.NDArray[Any], known: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """A numpy array as an Arrow array without copying (and without importing pandas, as pa.array would)."""
    kinds = {"int64": pa.int64(), "int32": pa.int32(), "float64": pa.float64(), "int8": pa.int8()}
    mask = None if known is None or bool(known.all()) else pa.py_buffer(np.packbits(known, bitorder="little"))
    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(kinds[values.dtype.name], len(values), [mask, pa.py_buffer(values)])


@lru_cache(_KEPT)
def repeated_word(code: int, names: tuple[str, ...], count: int) -> pa.Array:
    """A dictionary column of one word."""
    return pa.DictionaryArray.from_arrays(number_array(np.full(count, code, np.int32)), _dictionary(names))


@lru_cache(_KEPT // 4)
def zero_array(count: int) -> pa.Array:
    """A column of int32 zeros."""
    return number_array(np.zeros(count, np.int32))


def text_array(texts: Iterable[str | None]) -> pa.Array:
    """Strings as an Arrow array (pa.array would import pandas)."""
    builder = pa.lib.StringBuilder()
    for text in texts:
        builder.append(text)
    return builder.finish()


def word_array(codes: npt.NDArray[Any], names: Sequence[str] | pa.Array) -> pa.Array:
    """A dictionary column from codes into `names`; -1 is null."""
    names = names if isinstance(names, pa.Array) else _dictionary(tuple(names))
    return pa.DictionaryArray.from_arrays(number_array(codes.astype(np.int32), codes >= 0), names)


def picked_words(index: npt.NDArray[Any], texts: Sequence[str | None]) -> pa.Array:
    """A dictionary column of `texts[index]`; -1 is null. A word stands in its dictionary once: pandas asks for it."""
    place: dict[str | None, int] = {None: -1}
    codes = [place.setdefault(text, len(place) - 1) for text in texts]
    del place[None]
    return word_array(np.array([*codes, -1], np.int64)[index], text_array(place))


@cache
def _dictionary(names: tuple[str, ...]) -> pa.Array:
    return text_array(names)


@lru_cache(_KEPT)
def null_array(kind: pa.DataType, count: int) -> pa.Array:
    """A column of nulls."""
    return pa.nulls(count, kind)


def index_array(rows: npt.NDArray[Any]) -> pa.Array:
    """Rows, by index or mask, for Arrow's take."""
    index = np.flatnonzero(rows) if rows.dtype == np.bool_ else np.ascontiguousarray(rows, np.int64)
    return pa.Array.from_buffers(pa.int64(), len(index), [None, pa.py_buffer(index)])


def mask_of(flags: pa.Array) -> npt.NDArray[np.bool_]:
    """Arrow booleans as a mask; null is False (to_numpy would import pandas)."""
    valid, bits = flags.buffers()
    mask = _bits(bits, flags)
    return mask if valid is None else mask & _bits(valid, flags)


def valid_mask(values: pa.Array) -> npt.NDArray[np.bool_]:
    """Which values are not null."""
    bits = values.buffers()[0]
    return np.ones(len(values), np.bool_) if bits is None else _bits(bits, values)


def _bits(buffer: pa.Buffer, of: pa.Array) -> npt.NDArray[np.bool_]:
    every = np.unpackbits(np.frombuffer(buffer, np.uint8), bitorder="little")
    return every[of.offset : of.offset + len(of)].astype(np.bool_)


def numbers_of(values: pa.Array) -> npt.NDArray[Any]:
    """Arrow numbers without nulls as a numpy array."""
    kind = {pa.int64(): np.int64, pa.int32(): np.int32, pa.float64(): np.float64}[values.type]
    return np.frombuffer(values.buffers()[1], kind, len(values), values.offset * np.dtype(kind).itemsize)


def matching_mask(texts: pa.Array, patterns: Iterable[str]) -> npt.NDArray[np.bool_]:
    """Which texts one of the patterns matches. Not all at once: an expression may grow too large to be compiled."""
    import pyarrow.compute as pc

    groups: list[list[str]] = []
    size = _EXPRESSION
    for pattern in patterns:
        size += len(pattern)
        if size > _EXPRESSION:
            groups.append([])
            size = len(pattern)
        groups[-1].append(pattern)
    found = np.zeros(len(texts), np.bool_)
    for group in groups:
        found |= mask_of(pc.match_substring_regex(texts, "|".join(group)))
    return found
