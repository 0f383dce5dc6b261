"""One code for each text of a column, whoever met it first: workers number texts by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from perflog.tables.arrow import text_array

if TYPE_CHECKING:
    import pyarrow as pa

Ints = npt.NDArray[np.int32]


class Vocabulary:
    """Texts and their codes. -1 is none."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._codes: dict[str, int] = {}
        self._maps: dict[int, Ints] = {}  # worker -> its codes, one more in front for -1, to ours
        self._arrow: pa.Array | None = None

    def code(self, text: str) -> int:
        """The code of a text; a new text gets one."""
        code = self._codes.setdefault(text, len(self.texts))
        if code == len(self.texts):
            self.texts.append(text)
            self._arrow = None
        return code

    def learn(self, worker: int, texts: Sequence[str]) -> None:
        """The next texts that a worker has numbered."""
        if texts or worker not in self._maps:
            before = self._maps.get(worker, np.array([-1], np.int32))
            self._maps[worker] = np.concatenate([before, np.array([self.code(t) for t in texts], np.int32)])

    def ours(self, worker: int, codes: Ints) -> Ints:
        """A worker's codes as ours."""
        return self._maps[worker][codes + 1]

    def arrow(self) -> pa.Array:
        """The texts by code."""
        if self._arrow is None:
            self._arrow = text_array(self.texts)
        return self._arrow
