"""Rows grouped by several columns."""

from __future__ import annotations

import pandas as pd

from perflog.metrics.row_groups import row_groups, split
from perflog.tables.columns import rows_from_frame

ROWS = rows_from_frame(
    pd.DataFrame({"run": ["b", "a", "b", "b"], "rank": pd.array([1, 1, None, 1], "Int64"), "line": [1, 2, 3, 4]}),
    "steps",
)


def test_rows_are_split_by_several_columns_in_their_order_and_null_is_a_value() -> None:
    assert [part["line"].tolist() for part in split(ROWS, "run", "rank")] == [[1, 4], [2], [3]]
    assert row_groups(ROWS, "run", "rank").sizes.sum() == len(ROWS)


def test_no_rows_have_no_parts() -> None:
    assert split(ROWS.where(ROWS["line"] > 9), "run", "rank") == []
