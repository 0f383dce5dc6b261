"""Null values of single cells and of tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import perflog
from perflog.tables.nulls import as_types, int_or_none, none_if_null, nullable, nullable_frame, records, row_dicts


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


def test_no_rows_are_no_dicts() -> None:
    table = pd.DataFrame({"a": [1, 2]})
    assert row_dicts(table) == [{"a": 1}, {"a": 2}]
    assert row_dicts(table[:0]) == records(table[:0]) == []


@pytest.mark.parametrize("rows", [0, 2])
def test_types_of_columns_are_those_of_astype(rows: int) -> None:
    table = pd.DataFrame({"n": [1.0, None], "word": ["x", None], "kept": ["x", None], "text": ["x", "y"]}, [3, 3])
    table = table.astype({"kept": object})[:rows]
    types = {"n": "Int64", "word": "object"}
    pd.testing.assert_frame_equal(as_types(table, types), table.astype(types))


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1, None], "Int64"),
        ([1.5, float("nan"), 2], "Float64"),
        ([True, None], "boolean"),
        (["a", None], "string"),
        ([1, 2.5], "Float64"),
        ([1, "a"], "object"),
        ([None], "object"),
        ([], "object"),
        ([1, True], "object"),
        ([1, 2.5, "a", True], "object"),
        ([(1,), (1,)], "object"),
    ],
)
def test_values_get_the_narrowest_nullable_type(values: list[Any], dtype: str) -> None:
    array = nullable(values)
    assert str(array.dtype) == dtype
    assert [value is pd.NA for value in array] == [none_if_null(value) is None for value in values]


def test_a_frame_has_na_and_nothing_else_for_missing_values() -> None:
    frame = pd.DataFrame({"f": [1.5, float("nan")], "i": [1, 2], "s": ["a", None], "o": [1, None], "b": [True, False]})
    table = nullable_frame(frame)
    assert [str(dtype) for dtype in table.dtypes] == ["Float64", "Int64", "string", "Float64", "boolean"]
    assert table.loc[1, "f"] is pd.NA and table.loc[1, "s"] is pd.NA and table.loc[1, "o"] is pd.NA


def test_what_metrics_lint_and_compare_return_has_one_kind_of_missing_value() -> None:
    log = perflog.find_runs("reference:moe_layer.txt").select(1, 2)
    comparison = perflog.compare(log.select(1), log.select(2), draws=100)
    tables = [perflog.lint(log), comparison.rows, comparison.settings, comparison.findings, log.runs, log.settings]
    tables += [metric(log) for metric in perflog.metrics.METRICS.values()]
    for table in tables:
        missing = [value for column in table for value in table[column] if none_if_null(value) is None]
        assert all(value is pd.NA for value in missing)
