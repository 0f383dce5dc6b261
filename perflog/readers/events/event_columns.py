"""Events in memory: numpy columns of numbers and codes, before they become rows of table `events`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from perflog.arrays import Ints, Mask

EventColumns = dict[str, npt.NDArray[Any]]
"""Columns of equal length by name. Times are in nanoseconds; `place` is an event's position in its file, from 1."""


MISSING = int(np.iinfo(np.int64).min)
"""Sentinel for a missing number."""

TEXT_COLUMNS = (
    "name", "category", "device_name", "process", "thread", "domain", "collective", "group", "dtype",
    "group_description", "group_ranks", "in_split", "out_split", "shapes", "input_types",
    "input_strides", "input_values", "stack", "grid", "block", "key",
)  # fmt: skip
"""Columns of strings: they hold codes (see `string_interning`), and -1 for no string."""

KINDS = (
    "kernel",
    "graph",
    "memcpy",
    "memset",
    "sync",
    "runtime",
    "cpu",
    "python",
    "range",
    "device_range",
    "span",
    "overhead",
    "mark",
    "library",
    "os",
    "memory",
    "operation",
)
"""Kinds of events. Column `kind` holds the index of a kind in this tuple, and -1 for an unknown kind."""

OPERATION = "operation"
"""The kind of work of a rank that a profiler of the whole job sums up."""

KIND_CODE = {kind: code for code, kind in enumerate(KINDS)}

_FEW = 1 << 16  # numbers in a range this small are counted in a table

_DEVICE_KINDS = ("kernel", "graph", "memcpy", "memset", "sync")
_IS_DEVICE_KIND = np.array([kind in _DEVICE_KINDS for kind in (*KINDS, "")])  # by code; the last is for -1


def missing_numbers(count: int) -> Ints:
    """Return a column of missing numbers, which is read-only."""
    return _missing_numbers(1 << max(count - 1, 0).bit_length())[:count]


@lru_cache(4)
def _missing_numbers(count: int) -> Ints:
    numbers = np.full(count, MISSING, np.int64)
    numbers.flags.writeable = False
    return numbers


def distinct_values(numbers: Ints) -> tuple[Ints, Ints]:
    """Return the distinct numbers, and for each number its index among them. A column of one number is fast."""
    if len(numbers) and bool((numbers == numbers[0]).all()):
        return numbers[:1], np.zeros(len(numbers), np.int64)
    distinct, index = np.unique(numbers, return_inverse=True)
    return distinct, index


def rows_by_number(numbers: Ints) -> Iterator[tuple[int, Ints]]:
    """Give each distinct number with its rows, which are in order."""
    if not len(numbers):
        return
    distinct, index = distinct_values(numbers)
    order = np.argsort(index, kind="stable")
    ends = np.cumsum(np.bincount(index, minlength=len(distinct)))
    yield from zip(distinct.tolist(), np.split(order, ends[:-1]), strict=True)


def distinct_rows(numbers: Ints) -> tuple[Ints, Ints]:
    """Return the first row of each distinct number, and for each row the index of its number among them."""
    if len(numbers) and bool((numbers == numbers[0]).all()):
        return np.zeros(1, np.int64), np.zeros(len(numbers), np.int64)
    least = int(numbers.min()) if len(numbers) else 0
    if len(numbers) and int(numbers.max()) - least < _FEW:  # without sorting
        offsets = numbers - least
        first_row = np.full(int(offsets.max()) + 1, -1, np.int64)
        first_row[offsets[::-1]] = np.arange(len(numbers) - 1, -1, -1)
        present = np.flatnonzero(first_row >= 0)
        code = np.zeros(len(first_row), np.int64)
        code[present] = np.arange(len(present))
        return first_row[present], code[offsets]
    _, first, index = np.unique(numbers, return_index=True, return_inverse=True)
    return first, index


def distinct_tuples(columns: Sequence[npt.NDArray[Any]]) -> tuple[Ints, Ints]:
    """Return the first row of each distinct tuple of numbers, and for each row the index of its tuple among them."""
    key = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        first, index = distinct_rows(column)
        key = distinct_rows(key * len(first) + index)[1]
    return distinct_rows(key)


def on_device(kind: npt.NDArray[Any]) -> Mask:
    """Return which events ran on a device, by their kinds."""
    flags: Mask = _IS_DEVICE_KIND[kind]
    return flags


def durations_between(start: Ints, end: Ints) -> Ints:
    """Return nanoseconds from start to end; MISSING where a time is missing or the difference does not fit 64 bits."""
    length = end - start
    known = (start != MISSING) & (end != MISSING) & ((end >= start) == (length >= 0))
    return np.where(known, length, MISSING)


def shift_starts(start: Ints, base: int) -> Ints:
    """Return starts on a clock with its zero at `base`; MISSING where a start is missing or the sum overflows."""
    if not base:
        return start
    known = (start != MISSING) & (start <= np.iinfo(np.int64).max - base)
    return np.where(known, start + base, MISSING)
