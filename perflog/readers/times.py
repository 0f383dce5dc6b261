"""Microseconds as printed -> whole nanoseconds, exact.

An epoch in microseconds with three decimals has 19 digits; a double holds 16. So the digits are read as decimals.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions, read_csv

from perflog.readers.columns import NONE

_WHOLE, _FINE = pa.decimal128(22, 3), pa.decimal128(38, 12)
_LARGEST = 1 << 63


def exact(texts: Sequence[Any]) -> npt.NDArray[np.int64]:
    """Nanoseconds of numbers in microseconds, each the bytes that were printed; NONE where there is no number.

    What is finer than a nanosecond is rounded half to even.
    """
    joined = b"\n".join(texts)
    for kind in (_WHOLE, _FINE):
        try:
            column = read_csv(
                pa.BufferReader(joined + b"\n"),
                ReadOptions(use_threads=False, column_names=["t"], block_size=len(joined) + 2),
                ParseOptions(quote_char=False, ignore_empty_lines=False),
                ConvertOptions(column_types={"t": kind}, null_values=["", "null"], strings_can_be_null=True),
            ).column(0)
            rounded = column if kind is _WHOLE else pc.round(column, 3, "half_to_even").cast(_WHOLE)
            return _unscaled(rounded.combine_chunks(), len(texts))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue  # quoted, with an exponent, or no number at all: one by one
    return np.array([_one(bytes(text)) for text in texts], np.int64)


def _unscaled(column: pa.Array, count: int) -> npt.NDArray[np.int64]:
    """The digits of a decimal as an integer: thousandths of a microsecond."""
    if len(column) != count:
        raise pa.ArrowInvalid("a number with a line break in it")
    valid, data = column.buffers()
    halves = np.frombuffer(data, np.int64)
    low, high = halves[0 : 2 * count : 2], halves[1 : 2 * count : 2]
    known = high == low >> 63  # beyond 64 bits it is no time
    if valid is not None:
        known &= np.unpackbits(np.frombuffer(valid, np.uint8), count=count, bitorder="little").astype(np.bool_)
    return np.where(known, low, NONE)


def _one(text: bytes) -> int:
    try:
        value = Decimal(text.strip(b'" \t\r\n').decode()) * 1000
        number = int(value.to_integral_value())
    except (InvalidOperation, ValueError, OverflowError):
        return NONE
    return number if abs(number) < _LARGEST else NONE


def rounded(values: Sequence[Any]) -> npt.NDArray[np.int64]:
    """Nanoseconds of durations in microseconds, which a double holds to the nanosecond; NONE where there is none."""
    try:
        numbers = np.array(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        numbers = np.array([_real(v) for v in values], np.float64)
    with np.errstate(over="ignore"):  # it becomes infinite, which is no time
        numbers = numbers * 1000
    known = np.abs(numbers) < _LARGEST  # False for nan too
    return np.where(known, np.rint(np.where(known, numbers, 0)).astype(np.int64), NONE)


def _real(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def whole(values: list[Any]) -> npt.NDArray[np.int64]:
    """Integers, also those written as text or as 7.0; NONE where there is none."""
    kinds = set(map(type, values))
    if kinds <= {int}:
        kinds = set()
    elif kinds <= {int, type(None)}:
        values, kinds = [NONE if v is None else v for v in values], set()
    try:
        return np.array([_integer(v) for v in values] if kinds else values, np.int64)
    except OverflowError:
        return np.array([v if -_LARGEST <= v < _LARGEST else NONE for v in map(_integer, values)], np.int64)


def _integer(value: Any) -> int:
    number = _real(value) if isinstance(value, str | float) and not isinstance(value, bool) else value
    if isinstance(value, str) and value.strip().lstrip("+-").isdigit():
        return int(value)
    if isinstance(number, float):
        return int(number) if number.is_integer() else NONE
    return number if isinstance(number, int) and not isinstance(number, bool) else NONE
