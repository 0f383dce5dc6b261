"""The values of a field -> a column of a table: in its base unit and its type."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from perflog.formats.model import Line
from perflog.formats.template import NUMBER
from perflog.tables.arrow import null_array, number_array
from perflog.tables.schema import TableColumn
from perflog.units import PRINTED, UNITS, Unit


def unit_of(line: Line, name: str) -> Unit | None:
    """The unit of a field: as declared, or that of what is printed with its unit."""
    kind = next(f.type for f in line.template.fields if f.name == name)
    return line.unit.get(name) or (UNITS.get(PRINTED[kind][0]) if kind in PRINTED else None)


def scaled(values: npt.NDArray[Any], unit: Unit | None) -> npt.NDArray[np.float64]:
    """Numbers in their base unit."""
    if unit is None or unit.factor == 1.0:
        return values.astype(np.float64)  # a copy: the batch's memory is used again
    return values * unit.factor


def numbers(values: npt.NDArray[Any], col: TableColumn, unit: Unit | None, unknown: float | None) -> pa.Array:
    """Numbers of a field in the base unit of their column; `unknown` stands for a value that is not known."""
    if col.unit == "ns":
        return number_array(_in_ns(values, unit))
    if unit is not None and unit.base == "B" and col.type == "int64":
        return number_array(np.rint(scaled(values, unit)))  # a size is printed rounded
    # Whole numbers stay whole: a double holds only 53 bits of them.
    whole = unit is None and values.dtype == np.int64
    known = None if unknown is None else values != unknown
    return number_array(values.copy() if whole else scaled(values, unit), known)


def read(texts: pa.Array, unit: Unit | None) -> pa.Array:
    """Texts as numbers, in base units; what is no number (`N/A`) is null."""
    known = pc.match_substring_regex(texts, f"^(?:{NUMBER})$")
    numbers = pc.cast(pc.if_else(known, texts, null_array(pa.string(), len(texts))), pa.float64())
    return (
        numbers
        if unit is None or unit.factor == 1.0
        else pc.multiply(numbers, number_array(np.array([unit.factor]))[0])
    )


def _in_ns(values: npt.NDArray[Any], unit: Unit | None) -> npt.NDArray[np.int64]:
    """Whole nanoseconds: of the time since 1970 a double holds no more than a quarter of a microsecond."""
    if values.dtype == np.int64:
        return values * np.int64(1 if unit is None else round(unit.factor / UNITS["ns"].factor))
    return np.rint(values * (1.0 if unit is None else unit.factor / UNITS["ns"].factor)).astype(np.int64)


def typed(values: pa.Array, col: TableColumn) -> pa.Array:
    """A column cast to its schema type. Numbers a text column gets keep their printed form."""
    if col.type == "word":
        if pa.types.is_dictionary(values.type):
            return values.cast(pa.dictionary(pa.int32(), pa.string()))
        return values.cast(pa.string()).dictionary_encode()
    if col.type == "text":
        return values.cast(pa.string())
    target = {"int64": pa.int64(), "int32": pa.int32(), "float64": pa.float64()}[col.type]
    if pa.types.is_dictionary(values.type):
        values = values.cast(pa.string())
    if values.type == target:
        return values
    try:
        return pc.cast(values, target, safe=target != pa.float64())
    except pa.ArrowInvalid:  # a number with a fraction, or too large for the column
        return pa.concat_arrays([_cast_one(values.slice(i, 1), target) for i in range(len(values))])


def _cast_one(value: pa.Array, target: pa.DataType) -> pa.Array:
    try:
        return pc.cast(value, target)
    except pa.ArrowInvalid:
        return null_array(target, 1)
