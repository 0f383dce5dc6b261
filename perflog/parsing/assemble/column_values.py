"""The values of a field as a column of a table: in its base unit and its type."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from perflog.arrays import Floats, Ints
from perflog.formats.model import Line
from perflog.formats.template import NUMBER
from perflog.tables.arrow import (
    index_array,
    mask_of,
    null_array,
    number_array,
    numbers_of,
    text_array,
    text_scalar,
    valid_mask,
    word_array,
)
from perflog.tables.schema import CLOCKS, TableColumn
from perflog.units import PRINTED, UNITS, Unit

_TIMESTAMP = (
    r"^(?:.*?[^0-9.:/-])?(?P<date>[0-9]{4}[-/.][0-9]{2}[-/.][0-9]{2}|[0-9]{8})[T ]+(?P<time>[0-9]{2}:[0-9]{2}:[0-9]{2})"
    r"(?:[.,](?P<fraction>[0-9]{1,9}))?[0-9]* *(?P<zone>Z|[+-][0-9]{2}:?[0-9]{2})?(?:[^0-9:].*)?$"
)
EPOCH = r"^[12][0-9]{9}(?:[0-9]{3}){0,3}(?:\.[0-9]+)?$"
"""Pattern of a time since 1970: in seconds it has ten digits before the point, in ms 13, in us 16, in ns 19."""

_NS_DIGITS = 19
_MOST_SECONDS = 9_223_372_036 - 1  # since 1970, so that nanoseconds fit 64 bits


def unit_of(line: Line, name: str) -> Unit | None:
    """Return the unit of a field: as declared, or the base unit of a type that is printed with its unit."""
    field_type = next((f.type for f in line.template.fields if f.name == name), "")  # of a bar's clock: none
    return line.unit.get(name) or (UNITS.get(PRINTED[field_type][0]) if field_type in PRINTED else None)


def is_list(line: Line, name: str) -> bool:
    """Return whether a field holds a list of numbers."""
    return any(f.name == name and f.type == "l" for f in line.template.fields)


def scaled(values: npt.NDArray[Any], unit: Unit | None) -> Floats:
    """Return numbers in their base unit."""
    if unit is None or unit.factor == 1.0:
        return values.astype(np.float64)  # a copy: the batch's memory is used again
    return values * unit.factor


def computed(line: Line, name: str, columns: Mapping[str, object], count: int) -> npt.NDArray[Any]:
    """Return a computed column of `count` records of a line."""
    return np.broadcast_to(line.compute[name](columns), count)


def field_values(values: object, column: TableColumn, line: Line, name: str) -> pa.Array:
    """Return the values of a field of a line for a column: numbers in base units, strings as they are."""
    if isinstance(values, np.ndarray):
        return _numbers(values, column, unit_of(line, name), line.unknown.get(name))
    if column.unit == "ns":
        return timestamps(values)
    return values if column.type in ("word", "text") else _parsed_numbers(values, line.unit.get(name))


def _numbers(values: npt.NDArray[Any], column: TableColumn, unit: Unit | None, unknown: float | None) -> pa.Array:
    """Return numbers in the base unit of their column; null where the value is `unknown`."""
    if column.unit == "ns":
        return number_array(nanoseconds(values, unit))
    if unit is not None and unit.base == "B" and column.type == "int64":
        return number_array(np.rint(scaled(values, unit)))  # a size is printed rounded
    # Whole numbers stay whole: a double holds only 53 bits of them.
    whole = unit is None and values.dtype == np.int64
    known = None if unknown is None else values != unknown
    return number_array(values.copy() if whole else scaled(values, unit), known)


def _parsed_numbers(texts: pa.Array, unit: Unit | None) -> pa.Array:
    """Return strings as numbers in base units; a string that is no number (`N/A`) becomes null."""
    known = pc.match_substring_regex(texts, f"^(?:{NUMBER})$")
    numbers = pc.cast(pc.if_else(known, texts, null_array(pa.string(), len(texts))), pa.float64())
    if unit is None or unit.factor == 1.0:
        return numbers
    return pc.multiply(numbers, number_array(np.array([unit.factor]))[0])


def list_items(texts: pa.Array) -> tuple[Ints, Ints, Floats]:
    """Return the numbers in lists, given the strings between their brackets; items that are null are left out.

    Returns:
        For each number the index of its list, its index in the list, and its value.
    """
    lists = pc.split_pattern(texts, ",")
    items = pc.utf8_trim(lists.flatten(), characters=" \t'\"")
    known = mask_of(pc.match_substring_regex(items, f"^(?:{NUMBER})$"))
    parents = numbers_of(pc.list_parent_indices(lists))
    index_in_list = np.arange(len(parents)) - numbers_of(lists.offsets)[parents] + lists.offsets[0].as_py()
    numbers = pc.cast(pc.utf8_ltrim(items.take(index_array(known)), characters="+"), pa.float64())
    return parents[known], index_in_list[known], numbers_of(numbers)


def nested_items(texts: pa.Array, depth: int) -> tuple[Ints, list[Ints], Floats]:
    """Return the numbers in lists, or for a depth of 2 in lists of lists, given the strings between their brackets.

    Returns:
        For each number the index of its list, its indices in the list from outside in, and its value.
    """
    if depth == 1:
        parents, index_in_list, numbers = list_items(texts)
        return parents, [index_in_list], numbers
    between = pc.replace_substring_regex(texts, r"^[ \t]*\[|\][ \t]*$", "")
    inner = pc.split_pattern_regex(between, r"\][ \t]*,[ \t]*\[")
    parents, index_in_list, numbers = list_items(inner.flatten())
    outer = numbers_of(pc.list_parent_indices(inner))
    first = numbers_of(inner.offsets)[outer] - inner.offsets[0].as_py()
    return outer[parents], [parents - first[parents], index_in_list], numbers


def timestamps(texts: pa.Array) -> pa.Array:
    """Return dates with times of day as nanoseconds since 1970; null for other strings.

    A time without a zone is the machine's local time: it is taken as it is. The count of digits determines the unit of
    a number: since 2001, seconds since 1970 have ten digits.
    """
    found = pc.extract_regex(texts.cast(pa.string()), _TIMESTAMP)
    part = {name: pc.struct_field(found, name) for name in ("date", "time", "fraction", "zone")}
    date = pc.replace_substring_regex(part["date"], "^([0-9]{4})[-/.]?([0-9]{2})[-/.]?([0-9]{2})$", r"\1-\2-\3")
    time = pc.binary_join_element_wise(date, part["time"], text_scalar(" "))
    seconds = _seconds_since_1970(time, part["zone"].dictionary_encode())
    known = np.abs(seconds) <= _MOST_SECONDS
    fraction = pc.cast(pc.utf8_rpad(part["fraction"], 9, "0"), pa.int64())
    times = np.where(known, seconds, 0).astype(np.int64) * 10**9 + np.where(known, numbers_of(fraction), 0)
    for row in np.flatnonzero(mask_of(pc.match_substring_regex(texts.cast(pa.string()), EPOCH))).tolist():
        times[row], known[row] = _nanoseconds_since_1970(texts[row].as_py()), True
    return number_array(times, known)


def _nanoseconds_since_1970(text: str) -> int:
    """Return seconds, ms, us or ns since 1970, printed with ten or more digits, as nanoseconds."""
    whole, _, decimals = text.partition(".")
    return int((whole + decimals).ljust(_NS_DIGITS, "0")[:_NS_DIGITS])


def _seconds_since_1970(times: pa.Array, zones: pa.DictionaryArray) -> Floats:
    """Return `2023-10-10 10:00:00` with its zone as seconds since 1970; NaN if a string is no date of the calendar."""
    try:
        seconds = pc.cast(times, pa.timestamp("s"))
    except pa.ArrowInvalid:
        dates = [time if time and _utc_offset(time) is not None else None for time in times.to_pylist()]
        seconds = pc.cast(text_array(dates), pa.timestamp("s"))
    offsets = [_utc_offset(f"2000-01-01 00:00:00{zone}") for zone in zones.dictionary.to_pylist()]
    offset = np.array([np.nan if offset is None else offset for offset in offsets] or [np.nan])
    known = valid_mask(seconds)
    since_1970 = numbers_of(seconds.cast(pa.int64())) - offset[np.where(known, numbers_of(zones.indices), 0)]
    return np.where(known, since_1970, np.nan)


def _utc_offset(time: str) -> float | None:
    """Return the seconds that a zone is ahead of UTC, 0 without a zone; None for a string that is no date."""
    try:
        offset = datetime.fromisoformat(time).utcoffset()
    except ValueError:
        return None
    return 0.0 if offset is None else offset.total_seconds()


def clocks_of(texts: pa.Array) -> pa.Array:
    """Return the clock of dates with times of day: utc with a zone, else local; null for other strings."""
    found = pc.extract_regex(texts.cast(pa.string()), _TIMESTAMP)
    has_zone = mask_of(pc.not_equal(pc.struct_field(found, "zone"), text_scalar("")))
    codes = np.where(valid_mask(found), np.where(has_zone, 0, 1), -1)
    return word_array(codes, CLOCKS)


def nanoseconds(values: npt.NDArray[Any], unit: Unit | None) -> Ints:
    """Return whole nanoseconds: of the time since 1970 a double holds no more than a quarter of a microsecond."""
    if values.dtype == np.int64:
        return values * np.int64(1 if unit is None else round(unit.factor / UNITS["ns"].factor))
    factor = 1 if unit is None else round(unit.factor / UNITS["ns"].factor)
    whole: Ints = np.rint(values * factor).astype(np.int64)
    return whole


def typed(values: pa.Array, column: TableColumn) -> pa.Array:
    """Cast values to the type of their column. Numbers keep their printed form in a string column."""
    if column.type == "word":
        if pa.types.is_dictionary(values.type):
            return values.cast(pa.dictionary(pa.int32(), pa.string()))
        return values.cast(pa.string()).dictionary_encode()
    if column.type == "text":
        return values.cast(pa.string())
    target = {"int64": pa.int64(), "int32": pa.int32(), "float64": pa.float64()}[column.type]
    if pa.types.is_dictionary(values.type):
        values = values.cast(pa.string())
    if values.type == target:
        return values
    try:
        return pc.cast(values, target, safe=target != pa.float64())
    except pa.ArrowInvalid:  # a number with a fraction, or too large for the column
        return pa.concat_arrays([_cast_or_null(values.slice(i, 1), target) for i in range(len(values))])


def _cast_or_null(value: pa.Array, target: pa.DataType) -> pa.Array:
    try:
        return pc.cast(value, target)
    except pa.ArrowInvalid:
        return null_array(target, 1)
