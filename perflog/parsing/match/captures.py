"""Values of a template's fields: from strings in an Arrow array, vectorised with RE2, or from a single record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perflog.arrays import Ints
from perflog.formats.template import READ_BY, Field, Template, Value, fits_double
from perflog.parsing.match.records import Column
from perflog.tables.arrow import index_array, mask_of, numbers_of, text_array, valid_mask
from perflog.units import PRINTED


def capture(template: Template, texts: pa.Array) -> tuple[Ints, dict[str, Column]]:
    """Match whole strings with a template.

    Returns:
        The indices of the strings that match, ascending, and the values of the fields there. A string does not match
        if one of its numbers does not fit into 64 bits.
    """
    pattern = f"^(?s:{template.pattern})$"
    fields = [f for f in template.fields if not f.is_dropped]
    if not fields:
        return np.flatnonzero(mask_of(pc.match_substring_regex(texts, pattern))), {}
    captured = pc.extract_regex(texts, pattern)
    rows = np.flatnonzero(valid_mask(captured))
    if not len(rows):
        return rows, {}
    captured = captured.take(index_array(rows))
    columns = {f.name: _captured_values(f, captured) for f in fields}
    if any(column is None for column in columns.values()):
        numeric = [f for f in fields if f.numeric]
        fits = np.array([all(f.fits(row[f.name]) for f in numeric) for row in captured.to_pylist()])
        rows, captured = rows[fits], captured.take(index_array(fits))
        columns = {f.name: _captured_values(f, captured) for f in fields} if len(rows) else {}
    return rows, columns


def capture_each(template: Template, texts: Sequence[bytes]) -> tuple[Ints, dict[str, Column]]:
    """Do what `capture` does for a few strings, one by one, with the pattern that Python keeps."""
    fields = [f for f in template.fields if not f.is_dropped]
    numeric = [f for f in fields if f.numeric]
    matches = [(row, match) for row, text in enumerate(texts) if (match := template.regex.fullmatch(text))]
    matches = [(row, match) for row, match in matches if all(f.fits(match[f.name]) for f in numeric)]
    values = [template.values(match) for _, match in matches]
    columns = {f.name: _column(f, [each[f.name] for each in values]) for f in fields} if values else {}
    return np.array([row for row, _ in matches], np.int64), columns


def columns_of(template: Template, values: Mapping[str, Value]) -> dict[str, Column]:
    """Return the values of one record as columns."""
    return {f.name: _column(f, [values[f.name]]) for f in template.fields if not f.is_dropped}


def _column(f: Field, values: Sequence[Value]) -> Column:
    """Return values of a field as a column."""
    return np.array(values, np.int64 if f.type == "d" else np.float64) if f.numeric else text_array(map(str, values))


def _captured_values(f: Field, captured: pa.StructArray) -> Column | None:
    """Captured strings of a field as its values; None if a number does not fit into 64 bits."""
    numbers = values_of(f, captured.field(f.name))
    if f.type in PRINTED and f.type not in READ_BY and numbers is not None:
        units = captured.field(f"{f.name}__unit").view(pa.string()).dictionary_encode()
        factors = np.array([PRINTED[f.type][1][unit] for unit in units.dictionary.to_pylist()])
        numbers = numbers * factors[numbers_of(units.indices)]
    return numbers


def values_of(f: Field, texts: pa.Array) -> Column | None:
    """Return the strings of a field, without their printed units, as its values; None if one needs over 64 bits."""
    if not f.numeric:
        return _strings(texts)
    if f.comma:
        texts = pc.replace_substring(texts.view(pa.string()), ",", "").view(pa.binary())
    if f.type in READ_BY:
        read = READ_BY[f.type]
        return np.array([read(text.decode()) for text in texts.to_pylist()], np.float64)
    return _numbers(texts, f.type)


def _numbers(texts: pa.Array, type_: str) -> Column | None:
    """Texts as numbers; None if one does not fit into 64 bits."""
    try:
        numbers = numbers_of(pc.cast(texts.view(pa.string()), pa.int64() if type_ == "d" else pa.float64()))
        is_finite = type_ == "d" or not np.isinf(numbers).any()
        return numbers if is_finite or all(map(fits_double, texts.to_pylist())) else None
    except pa.ArrowInvalid:  # Python reads more than Arrow does, such as a plus sign
        try:
            values = [int(text) if type_ == "d" else float(text) for text in texts.to_pylist()]
            if type_ != "d" and not all(map(fits_double, texts.to_pylist())):
                return None
            return np.array(values, np.int64 if type_ == "d" else np.float64)
        except (OverflowError, ValueError):  # ValueError: Python refuses to read thousands of digits
            return None


def _strings(texts: pa.Array) -> pa.Array:
    try:
        return pc.cast(texts, pa.string())
    except pa.ArrowInvalid:  # bytes that are no UTF-8
        return text_array(text.decode("utf-8", "backslashreplace") for text in texts.to_pylist())
