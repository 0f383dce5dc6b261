"""Finds out in one pass which of many literals strings may hold, so that lines that cannot occur are never tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from perflog.arrays import Ints, Mask
from perflog.parsing.input.chunks import SLACK

if TYPE_CHECKING:
    import pyarrow as pa

COMPARED = 8
"""Bytes of a literal that are compared."""

_HASHED = 4  # bytes of a literal that are hashed; a shorter literal always counts as held
_BLOCK = 1 << 16  # bytes at a time: their results stay in the cache
_MULTIPLIER = np.uint32(2654435761)  # Knuth's multiplicative hash

Words = npt.NDArray[np.uint64]


class LiteralPrefilter:
    """Looks for literals by their first eight bytes.

    The first four bytes at each position of the input are hashed into a table of 65,536 bits; eight bytes are compared
    only where the bit of some literal is set. So the cost does not depend on the number of literals.
    """

    def __init__(self, literals: Sequence[bytes]) -> None:
        self._literals = literals
        self._short = [k for k, literal in enumerate(literals) if len(literal) < _HASHED]
        self._long = [k for k, literal in enumerate(literals) if len(literal) >= _HASHED]
        starts = [literals[k][:COMPARED] for k in self._long]
        # In big-endian order the words that begin with a literal are those between two numbers.
        self._least, self._greatest = (
            np.array([int.from_bytes(start.ljust(COMPARED, fill), "big") for start in starts], np.uint64)
            for fill in (b"\x00", b"\xff")
        )
        self._begins, self._ends = np.sort(self._least), np.sort(self._greatest)
        self._table = np.zeros(1 << 16, np.bool_)
        hashed = np.array([int.from_bytes(start[:_HASHED], "little") for start in starts], np.uint32)
        self._table[_hash(hashed)] = True

    def candidates(self, data: bytes | bytearray, size: int) -> list[int]:
        """Return the indices of the literals that data[:size] may hold; it does not hold the others.

        `data[size:size + 8]` must be readable.
        """
        if not size or not self._long:
            return list(range(len(self._literals))) if size else []
        words = _distinct(np.concatenate([_distinct(words) for _, words in self._hits(data, size)]))
        is_held = np.searchsorted(words, self._least) < np.searchsorted(words, self._greatest, "right")
        return sorted([*self._short, *(self._long[i] for i in np.flatnonzero(is_held).tolist())])

    def texts_with(self, texts: pa.Array) -> Callable[[int], Mask | None]:
        """Look for the literals in strings. Return a function from the index of a literal to a mask of the strings.

        The mask has all strings that hold the literal, and may have others, as `candidates` may. It is None if no
        string holds the literal.
        """
        _, offsets, body = texts.buffers()
        ends = np.frombuffer(offsets, np.int32)[texts.offset + 1 : texts.offset + len(texts) + 1]
        data, size = bytes(body or b"") + bytes(COMPARED), int(ends[-1]) if len(ends) else 0
        blocks = [(np.empty(0, np.int64), np.empty(0, np.uint64)), *self._hits(data, size)]
        hits, words = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        order = np.argsort(words)
        hits, words = hits[order], words[order]
        begins = np.searchsorted(words, self._least).tolist(), np.searchsorted(words, self._greatest, "right").tolist()
        found = {k: hits[begin:end] for k, begin, end in zip(self._long, *begins, strict=True)}

        @cache
        def mask(literal: int) -> Mask | None:
            at = found[literal] if literal in found else _offsets(data, size, self._literals[literal])
            if not len(at):
                return None
            is_held = np.zeros(len(ends), np.bool_)
            is_held[np.searchsorted(ends, at, "right")] = True
            return is_held

        return mask

    def _hits(self, data: bytes | bytearray, size: int) -> Iterator[tuple[Ints, Words]]:
        """Yield the offsets in data[:size] where one of the longer literals may begin, and the eight bytes there."""
        for offset in range(0, size, _BLOCK):
            shape, steps = (min(_BLOCK, size - offset),), (1,)
            hits = np.flatnonzero(self._table.take(_hash(np.ndarray(shape, "<u4", data, offset, steps))))
            words = np.ndarray(shape, ">u8", data, offset, steps)[hits].astype(np.uint64)
            # A word begins with a literal if more of the ranges of literals begin up to it than end before it.
            is_literal = np.searchsorted(self._begins, words, "right") > np.searchsorted(self._ends, words)
            yield hits[is_literal] + offset, words[is_literal]


def _offsets(data: bytes, size: int, literal: bytes) -> Ints:
    """Return the offsets of a short literal in data[:size]. An empty one is everywhere."""
    raw = np.frombuffer(data, np.uint8)
    is_there = np.ones(size, np.bool_)
    for k, byte in enumerate(literal):
        is_there &= raw[k : k + size] == byte
    return np.flatnonzero(is_there)


def _distinct(words: Words) -> Words:
    """Return the distinct words, ascending. np.unique would import numpy.ma: 15 ms, too long for a small log."""
    words = np.sort(words)
    return words[np.append(True, words[1:] != words[:-1])] if len(words) else words


def _hash(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    words = words * _MULTIPLIER
    words >>= np.uint32(16)
    return words


def held_literals(texts: pa.Array, literals: tuple[bytes, ...]) -> set[bytes]:
    """Return the literals that the strings may hold; they hold none of the others."""
    body = bytes(texts.buffers()[2] or b"")
    return {literals[k] for k in _prefilter(literals).candidates(body + bytes(SLACK), len(body))}


@lru_cache(16)
def _prefilter(literals: tuple[bytes, ...]) -> LiteralPrefilter:
    """Return the prefilter of some literals. Many strings are tried with the same ones."""
    return LiteralPrefilter(literals)
