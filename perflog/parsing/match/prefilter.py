"""Which of many words a text holds, in one pass whatever their number: what never shows need never be tried."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_LEAST = 4  # bytes of a word that is looked for; a shorter one counts as held
_MOST = 8  # bytes of it that are compared
_BLOCK = 1 << 16  # bytes at a time: what is computed of them stays in the cache
_SPREAD = np.uint32(2654435761)  # Knuth's multiplicative hash


class LiteralPrefilter:
    """Words, made ready to be looked for by their first eight bytes."""

    def __init__(self, words: Sequence[bytes]) -> None:
        self._count = len(words)
        self._short = [k for k, word in enumerate(words) if len(word) < _LEAST]
        self._long = [k for k, word in enumerate(words) if len(word) >= _LEAST]
        heads = [words[k][:_MOST] for k in self._long]
        self._words = [np.uint64(int.from_bytes(head, "little")) for head in heads]
        self._masks = [np.uint64((1 << 8 * len(head)) - 1) for head in heads]
        self._table = np.zeros(1 << 16, np.bool_)
        self._table[_hash(np.array([int.from_bytes(head[:_LEAST], "little") for head in heads], np.uint32))] = True

    def candidates(self, data: bytes | bytearray, size: int) -> list[int]:
        """Indices of the words that may stand in data[:size]: no other does. `data[size:size+8]` must be readable."""
        if not size or not self._long:
            return list(range(self._count)) if size else []
        seen = []
        for at in range(0, size, _BLOCK):
            shape, steps = (min(_BLOCK, size - at),), (1,)
            places = np.flatnonzero(self._table.take(_hash(np.ndarray(shape, "<u4", data, at, steps))))
            seen.append(np.unique(np.ndarray(shape, "<u8", data, at, steps)[places]))
        there = np.unique(np.concatenate(seen))
        pairs = zip(self._long, self._words, self._masks, strict=True)
        return sorted([*self._short, *(k for k, word, mask in pairs if bool(((there & mask) == word).any()))])


def _hash(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    words = words * _SPREAD
    words >>= np.uint32(16)
    return words
