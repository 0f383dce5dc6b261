"""Printed dates become nanoseconds since 1970; what is no date, or does not fit 64 bits, becomes null."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from perflog.formats.model import Line
from perflog.formats.template import Template
from perflog.parsing.assemble.column_values import clocks_of, field_values, list_items, nanoseconds, nested_items, typed
from perflog.tables.schema import TABLES, column_for
from perflog.units import UNITS

LINE = Line("step", Template("{printed:s} step"), table="steps")
MIDNIGHT = 1_696_896_000 * 10**9  # 2023-10-10 00:00:00 UTC


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("2023-10-10 00:00:01.5", MIDNIGHT + 1_500_000_000),
        ("[20231010T00:00:00,123456789]", MIDNIGHT + 123_456_789),
        ("2023/10/10 05:30:00+0530", MIDNIGHT),
        ("2023-10-09 23:00:00 -01:00 INFO", MIDNIGHT),
        ("2023-10-10T00:00:00Z", MIDNIGHT),
        ("1969-12-31 23:59:59.25", -750_000_000),
        ("1696896000.000001", MIDNIGHT + 1_000),
        ("2023-02-30 00:00:00", None),
        ("2023-10-10 00:00:00+99:99", None),
        ("0001-01-01 00:00:00", None),
        ("9999-12-31 23:59:59", None),
        ("no date", None),
    ],
)
def test_a_date_is_read_beside_any_other(text: str, nanoseconds: int | None) -> None:
    column = column_for("steps", "printed")
    assert column is not None
    texts = pa.array([text, "2023-10-10 00:00:00", "", "2023-02-29 00:00:00"], pa.string())
    assert field_values(texts, column, LINE, "printed").to_pylist() == [nanoseconds, MIDNIGHT, None, None]
    assert field_values(texts.slice(0, 1), column, LINE, "printed").to_pylist() == [nanoseconds]


def test_dates_have_a_clock() -> None:
    texts = pa.array(["2023-10-10 00:00:01Z", "2023-10-10 00:00:01", "x", "2023-10-10 00:00:01 +01:00"])
    assert clocks_of(texts).to_pylist() == ["utc", "local", None, "utc"]


def test_numbers_in_lists() -> None:
    texts = pa.array(["9", "1, 2.5", "null, '3', +4, x", "", "-1e3"]).slice(1)
    lists, positions, numbers = list_items(texts)
    assert list(zip(lists.tolist(), positions.tolist(), numbers.tolist(), strict=True)) == [
        (0, 0, 1.0),
        (0, 1, 2.5),
        (1, 1, 3.0),
        (1, 2, 4.0),
        (3, 0, -1000.0),
    ]


def test_numbers_in_lists_of_lists() -> None:
    texts = pa.array(["[9]", "[1, 2], [3]", "[4] , [], [null, 5]"]).slice(1)
    lists, (outer, inner), numbers = nested_items(texts, 2)
    found = zip(lists.tolist(), outer.tolist(), inner.tolist(), numbers.tolist(), strict=True)
    assert list(found) == [(0, 0, 0, 1.0), (0, 0, 1, 2.0), (0, 1, 0, 3.0), (1, 0, 0, 4.0), (1, 2, 1, 5.0)]
    flat, (positions,), _ = nested_items(pa.array(["1, 2", "3"]), 1)
    assert (flat.tolist(), positions.tolist()) == ([0, 0, 1], [0, 1, 0])


@pytest.mark.parametrize(
    ("name", "field", "unit", "values", "expected"),
    [
        ("loss", "loss", None, np.array([1.5, -100.0]), [1.5, None]),  # -100 means unknown
        ("step_time", "step_time", "ms", np.array([2.5, 1000.0]), [0.0025, 1.0]),
        ("step", "step", None, np.array([2**62 + 1, 3]), [2**62 + 1, 3]),  # to the last bit
        ("memory", "memory", "GiB", np.array([1.5, 0.1]), [1.5 * 2**30, 0.1 * 2**30]),
        ("loss", "loss", None, pa.array(["1.5", "N/A"]), [1.5, None]),
        ("step_time", "step_time", "ms", pa.array(["2.5", "-"]), [0.0025, None]),
        ("printed", "printed", "s", np.array([1_696_896_000.5, 0.5]), [MIDNIGHT + 500_000_000, 500_000_000]),
        ("printed", "printed", "us", np.array([3, 4]), [3000, 4000]),
        ("printed", "printed", None, np.array([3, 4]), [3, 4]),
        ("clock", "clock", None, pa.array(["utc", None]), ["utc", None]),
    ],
)
def test_values_in_the_base_unit_and_the_type_of_their_column(
    name: str, field: str, unit: str | None, values: Any, expected: list[Any]
) -> None:
    column = column_for("steps", name) or next(each for each in TABLES["steps"] if each.name == name)
    units = {} if unit is None else {field: UNITS[unit]}
    line = Line("step", Template("{printed:s} step"), table="steps", unit=units, unknown={"loss": -100.0})
    found = typed(field_values(values, column, line, field), column)
    assert found.to_pylist() == expected


def test_a_number_that_its_column_cannot_hold_is_null() -> None:
    step, loss = column_for("steps", "step"), column_for("steps", "loss")
    assert step is not None and loss is not None
    assert typed(pa.array([1.0, 2.5, 1e30]), step).to_pylist() == [1, None, None]
    assert typed(pa.array([2**53 + 1, 3]), loss).to_pylist() == [float(2**53), 3.0]


@pytest.mark.parametrize(
    ("type_", "expected"), [("text", pa.string()), ("word", pa.dictionary(pa.int32(), pa.string()))]
)
def test_numbers_in_a_column_of_strings_are_strings(type_: str, expected: pa.DataType) -> None:
    column = next(c for table in TABLES.values() for c in table if c.type == type_)
    found = typed(pa.array([1, 2, 1]), column)
    assert found.type == expected and found.cast(pa.string()).to_pylist() == ["1", "2", "1"]


def test_a_size_is_a_whole_number_of_bytes_and_words_stay_as_they_are() -> None:
    size, name = column_for("collectives", "bytes"), column_for("kernels", "name")
    assert size is not None and name is not None
    line = Line("sent", Template("{size:f} MB"), table="collectives", unit={"size": UNITS["MB"]})
    assert field_values(np.array([1.0000004, 2.5]), size, line, "size").to_pylist() == [1000000, 2500000]
    words = pa.array(["a", None, "a"]).dictionary_encode()
    assert typed(words, name).type == pa.dictionary(pa.int32(), pa.string())
    assert typed(words, name).to_pylist() == ["a", None, "a"]
    assert typed(pa.array(["7", "x"]).dictionary_encode(), size).to_pylist() == [7, None]


def test_whole_times_stay_exact() -> None:
    assert nanoseconds(np.array([2**60 + 1]), None).tolist() == [2**60 + 1]
    assert nanoseconds(np.array([3]), UNITS["us"]).tolist() == [3000]
    assert nanoseconds(np.array([1.5, 0.0004]), UNITS["us"]).tolist() == [1500, 0]
    assert nanoseconds(np.array([1.6]), None).tolist() == [2]
