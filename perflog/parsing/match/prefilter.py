"""Finds out in one pass which of many literals a text may hold, so that lines that cannot occur are never tried."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_HASHED = 4  # bytes of a literal that are hashed; a shorter literal always counts as held
_COMPARED = 8  # bytes of a literal that are compared
_BLOCK = 1 << 16  # bytes at a time: their results stay in the cache
_MULTIPLIER = np.uint32(2654435761)  # Knuth's multiplicative hash


class LiteralPrefilter:
    """Looks for literals by their first eight bytes.

    The first four bytes at each position of the text are hashed into a table of 65,536 bits; only where the bit of some
    literal is set are eight bytes compared. So the cost does not depend on the number of literals.
    """

    def __init__(self, literals: Sequence[bytes]) -> None:
        self._count = len(literals)
        self._short = [k for k, literal in enumerate(literals) if len(literal) < _HASHED]
        self._long = [k for k, literal in enumerate(literals) if len(literal) >= _HASHED]
        starts = [literals[k][:_COMPARED] for k in self._long]
        # In big-endian order the words that begin with a literal are those between two numbers.
        self._least, self._greatest = (
            np.array([int.from_bytes(start.ljust(_COMPARED, fill), "big") for start in starts], np.uint64)
            for fill in (b"\x00", b"\xff")
        )
        self._table = np.zeros(1 << 16, np.bool_)
        hashed = np.array([int.from_bytes(start[:_HASHED], "little") for start in starts], np.uint32)
        self._table[_hash(hashed)] = True

    def candidates(self, data: bytes | bytearray, size: int) -> list[int]:
        """Return the indices of the literals that data[:size] may hold; it does not hold the others.

        `data[size:size + 8]` must be readable.
        """
        if not size or not self._long:
            return list(range(self._count)) if size else []
        blocks = []
        for offset in range(0, size, _BLOCK):
            shape, steps = (min(_BLOCK, size - offset),), (1,)
            hits = np.flatnonzero(self._table.take(_hash(np.ndarray(shape, "<u4", data, offset, steps))))
            blocks.append(_distinct(np.ndarray(shape, ">u8", data, offset, steps)[hits].astype(np.uint64)))
        words = _distinct(np.concatenate(blocks))
        is_held = np.searchsorted(words, self._least) < np.searchsorted(words, self._greatest, "right")
        return sorted([*self._short, *(self._long[i] for i in np.flatnonzero(is_held).tolist())])


def _distinct(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return the distinct words, ascending. np.unique would import numpy.ma: 15 ms, too long for a small log."""
    words = np.sort(words)
    return words[np.append(True, words[1:] != words[:-1])] if len(words) else words


def _hash(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    words = words * _MULTIPLIER
    words >>= np.uint32(16)
    return words
