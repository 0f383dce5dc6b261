"""Timestamps, durations and identifiers as traces print them -> exact 64-bit integers.

A time in microseconds since 1970 with three decimals has 19 digits; a double holds 16. So timestamps are read as
decimals.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions, read_csv

from perflog.arrays import Ints
from perflog.lazy_patterns import lazy_pattern
from perflog.readers.events.event_columns import MISSING

_NANOSECONDS, _FINER = pa.decimal128(22, 3), pa.decimal128(38, 12)  # of microseconds
_LIMIT = 1 << 63
_INTEGER = lazy_pattern(r"\s*[+-]?[0-9]{1,19}\s*")
_MOST_DIGITS = 18  # of any number below the limit


def parse_timestamps(texts: Sequence[Any]) -> Ints:
    """Return nanoseconds of timestamps in microseconds, given as the printed bytes; MISSING where there is no number.

    Fractions of a nanosecond are rounded half to even.
    """
    joined = b"\n".join(texts)
    for dtype in (_NANOSECONDS, _FINER):
        try:
            column = read_csv(
                pa.BufferReader(joined + b"\n"),
                ReadOptions(use_threads=False, column_names=["t"], block_size=len(joined) + 2),
                ParseOptions(quote_char=False, ignore_empty_lines=False),
                ConvertOptions(column_types={"t": dtype}, null_values=["", "null"], strings_can_be_null=True),
            ).column(0)
            rounded = column if dtype is _NANOSECONDS else pc.round(column, 3, "half_to_even").cast(_NANOSECONDS)
            return _unscaled(rounded.combine_chunks(), len(texts))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue  # quoted, with an exponent, or no number at all: parsed one by one below
    return np.array([_parse_timestamp(bytes(text)) for text in texts], np.int64)


def _unscaled(column: pa.Array, count: int) -> Ints:
    """Return the digits of decimals as integers, which are thousandths of a microsecond."""
    if len(column) != count:
        raise pa.ArrowInvalid("a number with a line break in it")
    valid, data = column.buffers()
    halves = np.frombuffer(data, np.int64)
    low, high = halves[0 : 2 * count : 2], halves[1 : 2 * count : 2]
    known = high == low >> 63  # a timestamp fits 64 bits
    if valid is not None:
        known &= np.unpackbits(np.frombuffer(valid, np.uint8), count=count, bitorder="little").astype(np.bool_)
    return np.where(known, low, MISSING)


def _parse_timestamp(text: bytes) -> int:
    try:
        value = Decimal(text.strip(b'" \t\r\n').decode()) * 1000
        number = int(value.to_integral_value())
    except (ArithmeticError, ValueError):
        return MISSING
    return number if abs(number) < _LIMIT else MISSING


def round_durations(values: Sequence[object]) -> Ints:
    """Return nanoseconds of durations in microseconds, for which doubles are exact enough; MISSING if none."""
    try:
        numbers = np.array(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        numbers = np.array([real_number(v) for v in values], np.float64)
    with np.errstate(over="ignore"):  # the result is infinite, and becomes MISSING
        numbers = numbers * 1000
    known = np.abs(numbers) < _LIMIT  # False for NaN too
    return np.where(known, np.rint(np.where(known, numbers, 0)).astype(np.int64), MISSING)


def real_number(value: Any) -> float:
    """Return a number, also written as a string; nan for anything else."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def parse_integers(values: list[object]) -> Ints:
    """Return integers, also integers written as strings or as 7.0; MISSING where there is none."""
    types = set(map(type, values))
    only_integers = types <= {int}
    if not only_integers and types <= {int, type(None)}:
        values, only_integers = [MISSING if v is None else v for v in values], True
    try:
        return np.array(values if only_integers else [_integer(v) for v in values], np.int64)
    except OverflowError:
        return np.array([v if -_LIMIT <= v < _LIMIT else MISSING for v in map(_integer, values)], np.int64)


def parse_integer(value: object) -> int:
    """Return one integer, also written as a string or as 7.0; MISSING for anything else."""
    return int(parse_integers([value])[0])


def _integer(value: object) -> int:
    number = real_number(value) if isinstance(value, str | float) and not isinstance(value, bool) else value
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        return int(value)
    if isinstance(number, float):
        return int(number) if number.is_integer() else MISSING
    return number if isinstance(number, int) and not isinstance(number, bool) else MISSING


def number_in_name(digits: str | None, unknown: int) -> int:
    """Return a number that is in a name; `unknown` where there is none, or more digits than 64 bits hold."""
    return int(digits) if digits and len(digits) <= _MOST_DIGITS else unknown
