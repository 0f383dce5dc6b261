"""Rows of the tables of a result."""

from __future__ import annotations

import math

from msgspec import Struct

from perflog.analysis.compare.result_rows import records


class Row(Struct):
    name: str
    time_s: float
    rate: float | None = None


def test_records_have_none_for_nan() -> None:
    assert records([Row("a", math.nan), Row("b", 0.0, 2.0)]) == [
        {"name": "a", "time_s": None, "rate": None}, {"name": "b", "time_s": 0.0, "rate": 2.0}
    ]  # fmt: skip
    assert records([]) == []
