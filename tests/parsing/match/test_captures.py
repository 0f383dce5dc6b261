"""The values of many records at once are those of each record by its template."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from perflog.formats.template import Template
from perflog.parsing.match.captures import capture, capture_each, columns_of


def listed(columns: dict[str, Any]) -> dict[str, list[Any]]:
    return {name: c.tolist() if isinstance(c, np.ndarray) else c.to_pylist() for name, c in columns.items()}


def captured(text: str, lines: list[str | bytes]) -> tuple[list[int], dict[str, list[Any]]]:
    texts = [line if isinstance(line, bytes) else line.encode() for line in lines]
    rows, columns = capture(Template(text), pa.array(texts))
    few, columns_of_few = capture_each(Template(text), texts)
    assert few.tolist() == rows.tolist()
    assert repr(listed(columns_of_few)) == repr(listed(columns))  # nan is nan
    return rows.tolist(), listed(columns)


def test_fields_have_the_types_of_their_templates() -> None:
    rows, columns = captured("step {step:d}: {name:S} {loss:.2f}", ["step 3: a 0.50", "x", "step 12: b -1.25"])
    assert rows == [0, 2]
    assert columns == {"step": [3, 12], "name": ["a", "b"], "loss": [0.5, -1.25]}
    assert [type(value) for value in columns["step"]] == [int, int]


def test_dropped_fields_have_no_column() -> None:
    assert captured("step {_:d}", ["step 3", "x", "step 4"]) == ([0, 2], {})
    assert captured("a {_:d} b {n:d}", ["a 1 b 2"]) == ([0], {"n": [2]})
    assert captured("a {n:d}", ["x"]) == ([], {})


@pytest.mark.parametrize("line", ["n 9223372036854775808", "n -9223372036854775809", "n " + "9" * 5000])
def test_a_whole_number_of_more_than_64_bits_is_no_match(line: str) -> None:
    assert captured("n {n:d}", ["n 1", line, "n 2"]) == ([0, 2], {"n": [1, 2]})
    assert captured("n {n:d}", [line]) == ([], {})
    assert captured("n {n:d}", ["n 9223372036854775807"]) == ([0], {"n": [2**63 - 1]})


def test_a_number_that_no_double_holds_is_no_match() -> None:
    rows, columns = captured("n {n:r}", ["n 1.5", "n 1e999", "n inf", "n nan"])
    assert rows == [0, 2, 3]
    assert columns["n"][:2] == [1.5, math.inf] and math.isnan(columns["n"][2])


def test_commas_between_thousands() -> None:
    assert captured("n {n:,d} {x:,.1f}", ["n 1,234,567 1,000.5"]) == ([0], {"n": [1234567], "x": [1000.5]})


def test_units_that_are_printed_scale_the_numbers() -> None:
    rows, columns = captured("took {t:t}, {size:z}", ["took 2.5ms, 4KB", "took 3s, 1MB", "took 7us, 2B"])
    assert rows == [0, 1, 2]
    assert columns["t"] == pytest.approx([0.0025, 3.0, 7e-6])
    assert columns["size"] == [4096, 1 << 20, 2]


def test_durations_of_a_clock() -> None:
    assert captured("{t:k} left", ["05:10 left", "1:05:10 left"]) == ([0, 1], {"t": [310.0, 3910.0]})


def test_bytes_that_are_no_utf_8_are_kept_visible() -> None:
    assert captured("name {name:S}", [b"name a\xffb"]) == ([0], {"name": ["a\\xffb"]})


def test_one_record_has_the_same_columns() -> None:
    template = Template("step {step:d}: {name:S} {loss:.2f} {_:d}")
    text = "step 3: a 0.50 7"
    values = template.match(text.encode())
    assert values is not None
    one = columns_of(template, values)
    _, many = capture(template, pa.array([text.encode()]))
    assert listed(one) == listed(many)
    assert one["step"].dtype == np.int64 and one["loss"].dtype == np.float64
