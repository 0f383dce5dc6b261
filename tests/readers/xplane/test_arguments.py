"""Statistics of XLA's profiler: numbers, strings and references as integers, doubles, strings and codes."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pytest
from support.history_files import field as wire

from perflog.readers.events.event_columns import MISSING
from perflog.readers.events.string_interning import StringInterner
from perflog.readers.messages.message_columns import fields_of, padded
from perflog.readers.xplane.arguments import Stats, stats_of

NAMES = {1: "first", 2: "second", 3: "$$12", 4: "0.25", 9: ""}
REAL, UNSIGNED, SIGNED, TEXT, BYTES, REFERENCE = range(2, 8)


def stats(*fields: bytes, name: int = 1) -> Stats:
    """Statistics that hold one field each, of things 0, 1, ..."""
    data, starts, ends = b"", [], []
    for each in fields:
        starts.append(len(data))
        data += wire(1, name) + each
        ends.append(len(data))
    columns = fields_of(padded(memoryview(data), 0, len(data)), np.array(starts), np.array(ends))
    return stats_of(np.arange(len(fields)), columns, NAMES)


@pytest.mark.parametrize(
    ("field", "integer", "real", "text", "value"),
    [
        (wire(UNSIGNED, 7), 7, 7.0, "7", 7),
        (wire(UNSIGNED, (1 << 64) - 1), MISSING, 2.0**64, str((1 << 64) - 1), (1 << 64) - 1),
        (wire(SIGNED, -7), -7, -7.0, "-7", -7),
        (wire(REAL, 2.5), MISSING, 2.5, "2.5", 2.5),
        (wire(TEXT, "12"), 12, 12.0, "12", "12"),
        (wire(TEXT, "$$3"), 3, math.nan, "$$3", "$$3"),
        (wire(TEXT, "word"), MISSING, math.nan, "word", "word"),
        (wire(REFERENCE, 3), 12, math.nan, "$$12", "$$12"),
        (wire(REFERENCE, 4), MISSING, 0.25, "0.25", "0.25"),
        (wire(REFERENCE, 8), MISSING, math.nan, "", ""),
        (wire(BYTES, b"12"), MISSING, math.nan, "", ""),
        (b"", MISSING, math.nan, "", ""),
        (wire(REAL, 7), MISSING, math.nan, "", ""),  # of another wire type
        (wire(UNSIGNED, 5.0), MISSING, math.nan, "", ""),
    ],
)
def test_a_statistic_in_each_form(field: bytes, integer: int, real: float, text: str, value: Any) -> None:
    found, at = stats(wire(SIGNED, 1), field), np.array([1])
    assert found.integers(at).tolist() == [integer]
    assert found.reals(at).tolist() == pytest.approx([real], nan_ok=True)
    assert (found.text(1), found.value_at(1)) == (text, value)
    assert type(found.value_at(1)) is type(value)


def test_of_two_values_the_last_counts() -> None:
    assert stats(wire(UNSIGNED, 5) + wire(TEXT, "x")).value_at(0) == "x"


def test_which_statistics_are_numbers() -> None:
    found = stats(wire(REAL, 1.5), wire(UNSIGNED, 1), wire(SIGNED, 1), wire(TEXT, "1"), wire(REFERENCE, 1), b"")
    assert found.is_number(np.arange(6)).tolist() == [True, True, True, False, False, False]
    assert found.is_number(np.array([3, 0])).tolist() == [False, True]


def test_statistics_as_codes_of_strings() -> None:
    found, interner = stats(
        wire(REFERENCE, 1), wire(TEXT, "b"), wire(REFERENCE, 2), wire(REFERENCE, 1), wire(REFERENCE, 9), b"",
        wire(SIGNED, 5), wire(TEXT, ""), wire(TEXT, "first"),
    ), StringInterner()  # fmt: skip
    codes = found.codes(np.arange(9), interner.code).tolist()
    assert [None if code < 0 else interner.texts[code] for code in codes] == [
        "first", "b", "second", "first", None, None, "5", None, "first"
    ]  # fmt: skip
    assert found.codes(np.array([1]), interner.code).tolist() == [codes[1]]


def test_integers_of_mixed_forms_keep_their_order() -> None:
    found = stats(
        wire(TEXT, "5"), wire(SIGNED, 6), wire(TEXT, "x"), wire(REFERENCE, 3), wire(UNSIGNED, 7), wire(TEXT, "5")
    )
    assert found.integers(np.arange(6)).tolist() == [5, 6, MISSING, 12, 7, 5]
    assert found.integers(np.array([4, 0])).tolist() == [7, 5]
    assert found.value.tolist()[1] == 6  # the statistics themselves stay


def test_statistics_by_name() -> None:
    data = b"".join(wire(1, number) + wire(SIGNED, 1) for number in (1, 2, 8, 1))
    starts = np.arange(4) * (len(data) // 4)
    columns = fields_of(padded(memoryview(data), 0, len(data)), starts, starts + len(data) // 4)
    found = stats_of(np.arange(4), columns, {1: "same", 2: "same"})
    assert {name: places.tolist() for name, places in found.by_name.items()} == {
        "same": [0, 1, 3], "statistic 8": [2]
    }  # fmt: skip


def test_a_double_keeps_its_bits() -> None:
    value = struct.unpack("<d", struct.pack("<Q", 0x3FF0000000000001))[0]
    assert stats(wire(REAL, value)).reals(np.array([0])).tolist() == [value]
