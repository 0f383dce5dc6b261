"""Columns of what readers read: numpy arrays by name, before they become rows of a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Columns = dict[str, npt.NDArray[Any]]

NONE = int(np.iinfo(np.int64).min)
"""Stands for a number that is not there."""

WORDS = ("name", "category", "process", "thread", "collective", "group", "dtype")
"""Columns of text: they hold codes, and -1 for no text."""


def between(start: npt.NDArray[np.int64], end: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Nanoseconds from a start to an end; NONE where either is not there, or 64 bits do not hold them."""
    length = end - start
    known = (start != NONE) & (end != NONE) & ((end >= start) == (length >= 0))
    return np.where(known, length, NONE)
