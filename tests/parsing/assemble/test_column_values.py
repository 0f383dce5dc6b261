"""Printed dates become nanoseconds since 1970; what is no date, or does not fit 64 bits, becomes null."""

from __future__ import annotations

import pyarrow as pa
import pytest

from perflog.formats.model import Line
from perflog.formats.template import Template
from perflog.parsing.assemble.column_values import field_values
from perflog.tables.schema import column_for

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
