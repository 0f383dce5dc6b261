"""Null values of single cells and of tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from perflog.tables.nulls import int_or_none, none_if_null, records


@pytest.mark.parametrize("value", [None, float("nan"), np.float64("nan"), pd.NA, pd.NaT])
def test_null_is_none(value: Any) -> None:
    assert none_if_null(value) is None and int_or_none(value) is None


@pytest.mark.parametrize("value", [0, 0.0, "", False, [], np.int64(0)])
def test_a_value_that_counts_as_false_is_no_null(value: Any) -> None:
    assert none_if_null(value) is value


def test_numbers_become_integers() -> None:
    assert [int_or_none(x) for x in (3.0, np.int64(4), 5)] == [3, 4, 5]


def test_rows_of_a_table() -> None:
    table = pd.DataFrame({"a": pd.array([1, None], "Int64"), "b": [float("nan"), 2.5], "c": ["x", None]})
    assert records(table) == [{"a": 1, "b": None, "c": "x"}, {"a": None, "b": 2.5, "c": None}]
