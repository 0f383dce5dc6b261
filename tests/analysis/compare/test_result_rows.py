"""Typed rows of the tables of a result."""

from __future__ import annotations

import math
from typing import Annotated

from msgspec import Struct

from perflog.analysis.compare.result_rows import column, columns_of, records
from perflog.metrics import MetricColumn


class Row(Struct):
    name: Annotated[str, column("its name")]
    time_s: Annotated[float, column("its time", "s", "lower", brief=False)]
    rate: Annotated[float | None, column("its rate", "1/s", "higher")] = None


def test_the_columns_are_the_fields_with_their_names() -> None:
    assert columns_of(Row) == (
        MetricColumn("name", "", None, "its name", True),
        MetricColumn("time_s", "s", "lower", "its time", False),
        MetricColumn("rate", "1/s", "higher", "its rate", True),
    )


def test_records_have_none_for_nan() -> None:
    assert records([Row("a", math.nan), Row("b", 0.0, 2.0)]) == [
        {"name": "a", "time_s": None, "rate": None}, {"name": "b", "time_s": 0.0, "rate": 2.0}
    ]  # fmt: skip
    assert records([]) == []
