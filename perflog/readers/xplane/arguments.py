"""Statistics of events: the named values that XLA's profiler attaches to events, and to what events share.

A statistic names itself by number, and holds a number, a string, or the number of a name that replaces its string.
Source: XStat in tsl/profiler/protobuf/xplane.proto.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import numpy as np
from msgspec import Struct

from perflog.arrays import Floats, Ints, Mask
from perflog.readers.events.event_columns import MISSING, distinct_values, rows_by_number
from perflog.readers.events.string_interning import StringInterner
from perflog.readers.events.timestamps import parse_integer, real_number
from perflog.readers.messages.message_columns import FieldColumns
from perflog.readers.messages.protobuf import BYTES, VARINT

_NAME, _REAL, _UNSIGNED, _SIGNED, _TEXT, _BYTES, _REFERENCE = range(1, 8)  # numbers of the fields
_NUMBERS = (_REAL, _UNSIGNED, _SIGNED)


class Stats(Struct, frozen=True, dict=True):
    """Statistics of things. All arrays have an entry for each statistic.

    `owner`: index of the thing. `name`: number of its name. `form`: number of the field that holds its value, 0 for
    none. `value`: an integer, the bits of a double, or the offset of a string. `names`: the names by number.
    """

    owner: Ints
    name: Ints
    form: Ints
    value: Ints
    size: Ints
    names: Mapping[int, str]
    _fields: FieldColumns

    @cached_property
    def by_name(self) -> dict[str, Ints]:
        """The indices of the statistics by name. A number without a name has its digits as name."""
        found: dict[str, Ints] = {}
        for number, places in rows_by_number(self.name):
            name = self.names.get(number) or f"statistic {number}"
            found[name] = places if name not in found else np.sort(np.append(found[name], places))
        return found

    def integers(self, places: Ints) -> Ints:
        """Return statistics as integers, also those that are strings; MISSING for anything else."""
        form, values = self.form[places], self.value[places].copy()
        values[(form == _UNSIGNED) & (values < 0)] = MISSING  # beyond 63 bits
        others = np.flatnonzero((form != _UNSIGNED) & (form != _SIGNED))
        if len(others):
            interner = StringInterner()
            codes = self.codes(places[others], interner.code)
            numbers = [parse_integer(text.removeprefix("$$")) for text in interner.texts]  # of contexts: `$$1`
            values[others] = np.array([*numbers, MISSING], np.int64)[codes]
        return values

    def reals(self, places: Ints) -> Floats:
        """Return statistics as doubles; NaN for what is no number."""
        form, values = self.form[places], self.value[places]
        unsigned = values.view(np.uint64).astype(np.float64)
        reals = np.select(
            [form == _REAL, form == _UNSIGNED, form == _SIGNED],
            [values.view(np.float64), unsigned, values.astype(np.float64)],
            np.nan,
        )
        for row in np.flatnonzero((form == _TEXT) | (form == _REFERENCE)).tolist():
            reals[row] = real_number(self.text(int(places[row])))
        return reals

    def text(self, place: int) -> str:
        """Return a statistic as a string."""
        form, value = int(self.form[place]), int(self.value[place])
        if form == _REFERENCE:
            return self.names.get(value, "")
        if form == _TEXT:
            return self._fields.text_at(value, value + int(self.size[place]))
        return str(self.value_at(place)) if form in _NUMBERS else ""

    def value_at(self, place: int) -> int | float | str:
        """Return a statistic as a number or a string, as it is written."""
        form, at = int(self.form[place]), self.value[place : place + 1]
        if form == _REAL:
            return float(at.view(np.float64)[0])
        if form in _NUMBERS:
            return int(at.view(np.uint64)[0]) if form == _UNSIGNED else int(at[0])
        return self.text(place)

    def codes(self, places: Ints, code: Callable[[str], int]) -> Ints:
        """Return the codes of statistics as strings; -1 for an empty one. Few of them are distinct."""
        form, codes = self.form[places], np.full(len(places), -1, np.int64)
        references = np.flatnonzero(form == _REFERENCE)
        if len(references):
            distinct, index = distinct_values(self.value[places[references]])
            texts = [self.names.get(number, "") for number in distinct.tolist()]
            codes[references] = np.array([code(text) if text else -1 for text in texts], np.int64)[index]
        for row in np.flatnonzero(form != _REFERENCE).tolist():
            text = self.text(int(places[row]))
            codes[row] = code(text) if text else -1
        return codes

    def is_number(self, places: Ints) -> Mask:
        """Return which statistics are numbers by their form."""
        return np.isin(self.form[places], _NUMBERS)


def stats_of(owner: Ints, fields: FieldColumns, names: Mapping[int, str]) -> Stats:
    """Return statistics from the fields of their messages, and the things that they belong to."""
    holds_value = ((fields.number == _REAL) & (fields.wire == 1)) | np.isin(
        fields.number * 8 + fields.wire,
        (_UNSIGNED * 8 + VARINT, _SIGNED * 8 + VARINT, _REFERENCE * 8 + VARINT, _TEXT * 8 + BYTES, _BYTES * 8 + BYTES),
    )
    form, value, size = np.zeros((3, len(owner)), np.int64)
    at = fields.owner[holds_value]
    form[at], value[at], size[at] = fields.number[holds_value], fields.value[holds_value], fields.size[holds_value]
    return Stats(owner, fields.integers(_NAME, 0), form, value, size, names, fields)
