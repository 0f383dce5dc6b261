"""Rows of tables as numpy columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from perflog.tables.columns import (
    NULL,
    RowColumns,
    Rows,
    arrow_of_frame,
    column_numbers,
    compact,
    joined,
    rows_from_arrow,
    rows_from_frame,
    taken,
)
from perflog.tables.schema import arrow_schema

RUNS = ["a-1", "a-1", "b-1", "b-1", "b-1"]
PHASES = ["wait", "gate", "wait", "wait", "gate"]


def arrow_rows() -> Rows:
    """Five rows of `phases`, in two chunks with different dictionaries."""
    schema = arrow_schema("phases")
    columns = {name: pa.nulls(5, schema.field(name).type) for name in schema.names}
    columns |= {
        "run": pa.array(RUNS).dictionary_encode(),
        "phase": pa.array(PHASES).dictionary_encode(),
        "line": pa.array([1, 2, 3, 4, 5]),
        "step": pa.array([0, 1, None, 1, 2]),
        "time_s": pa.array([0.5, 1.0, 2.0, 4.0, 8.0]),
        "min_s": pa.array([None, 1.0, None, 2.0, 3.0]),
    }
    arrays = [columns[name].cast(schema.field(name).type) for name in schema.names]
    table = pa.Table.from_arrays(arrays, names=schema.names)
    return rows_from_arrow(pa.concat_tables([table.slice(0, 2), table.slice(2)]))


def frame_rows() -> Rows:
    """The same rows from a DataFrame that lacks the columns without values."""
    columns = {"run": RUNS, "phase": PHASES, "line": [1, 2, 3, 4, 5], "step": [0, 1, pd.NA, 1, 2]}
    times = {"time_s": [0.5, 1.0, 2.0, 4.0, 8.0], "min_s": [np.nan, 1.0, np.nan, 2.0, 3.0]}
    return rows_from_frame(pd.DataFrame(columns | times), "phases")


@pytest.mark.parametrize("rows", [arrow_rows(), frame_rows()], ids=["arrow", "frame"])
def test_null_has_one_sign_per_kind_of_column(rows: Rows) -> None:
    assert rows["step"].tolist() == [0, 1, NULL, 1, 2]
    assert np.isnan(rows["min_s"]).tolist() == [True, False, True, False, False]
    assert rows["rank_by"].tolist() == [None] * 5
    assert rows["rank"].dtype == np.int64
    assert rows["phase"].tolist() == PHASES
    assert rows.known("step", "min_s").tolist() == [False, True, False, True, True]
    assert rows.known("rank_by").tolist() == [False] * 5


def test_a_column_of_nulls_takes_no_memory() -> None:
    rows = arrow_rows()
    for name in ("rank", "remote_share"):
        assert rows[name].strides == (0,)
        assert not rows.known(name).any()
    assert rows["line"].strides == (8,)
    of_one_number = column_numbers(pa.array([3, 3], pa.int32()))
    assert of_one_number.dtype == np.int64 and of_one_number.strides == (0,) and of_one_number.tolist() == [3, 3]
    assert column_numbers(pa.array([3, None], pa.int32())).tolist() == [3, NULL]


@pytest.mark.parametrize("rows", [arrow_rows(), frame_rows()], ids=["arrow", "frame"])
def test_rows_are_chosen_by_flag_place_and_word(rows: Rows) -> None:
    waits = rows.where(rows.one_of("phase", ["wait", "unheard"]))
    assert waits["line"].tolist() == [1, 3, 4]
    assert waits.where(waits["time_s"] > 1)["line"].tolist() == [3, 4]
    assert waits.where(np.array([2, 0]))["line"].tolist() == [4, 1]
    assert len(rows.where(np.zeros(5, np.bool_))) == 0
    by_run = rows.by("run")
    assert list(by_run) == ["a-1", "b-1"]
    assert by_run["b-1"]["line"].tolist() == [3, 4, 5]
    assert by_run["b-1"].where(by_run["b-1"].known("step"))["line"].tolist() == [4, 5]
    assert list(by_run["b-1"].records("line", "phase")) == [(3, "wait"), (4, "wait"), (5, "gate")]


def test_rows_of_a_word_that_stand_apart_are_found_in_their_order() -> None:
    rows = arrow_rows()
    assert {word: part["line"].tolist() for word, part in rows.by("phase").items()} == {
        "wait": [1, 3, 4],
        "gate": [2, 5],
    }
    assert rows.by("rank_by") == {}


def test_a_column_beyond_the_schema_holds_numbers() -> None:
    rows = rows_from_frame(pd.DataFrame({"run": ["a"], "pace": [2]}), "steps")
    assert rows["pace"].tolist() == [2.0]
    assert rows["line"].tolist() == [NULL]


@pytest.mark.parametrize("rows", [arrow_rows(), frame_rows()], ids=["arrow", "frame"])
def test_rows_as_dicts_floats_and_keys(rows: Rows) -> None:
    some = rows.where(np.array([1, 2]))
    assert list(some.dicts("run", "step", "min_s", "rank_by")) == [
        {"run": "a-1", "step": 1, "min_s": 1.0, "rank_by": None},
        {"run": "b-1", "step": None, "min_s": None, "rank_by": None},
    ]
    assert some.floats("step").tolist() == pytest.approx([1.0, np.nan], nan_ok=True)
    keys = rows.keys("phase")
    assert [keys[0] == key for key in keys] == [phase == "wait" for phase in PHASES]
    assert rows.keys("step").tolist() == rows["step"].tolist()
    assert len(set(rows.keys("rank_by").tolist())) == 1


def test_words_are_counted_in_the_order_of_their_first_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = arrow_rows()
    for block in (1, 2, 100):
        monkeypatch.setattr("perflog.tables.columns._BLOCK", block)
        assert list(rows.counts("phase").items()) == [("wait", 3), ("gate", 2)]
        assert list(rows.where(np.array([4, 0])).counts("phase").items()) == [("gate", 1), ("wait", 1)]
    assert rows.counts("rank_by") == {}
    assert (rows.first_word("phase"), rows.first_word("rank_by")) == ("wait", None)
    assert rows.where(slice(1, 3))["line"].tolist() == [2, 3]
    assert rows.where(slice(1, 4)).where(slice(1, 2))["line"].tolist() == [3]


def test_stretches_of_words_are_slices_where_they_are_together() -> None:
    rows = arrow_rows()
    assert rows.stretches("run") == {"a-1": slice(0, 2), "b-1": slice(2, 5)}
    apart = {word: np.asarray(index).tolist() for word, index in rows.stretches("phase").items()}
    assert apart == {"wait": [0, 2, 3], "gate": [1, 4]}
    assert rows.where(np.zeros(5, np.bool_)).stretches("run") == {}


def test_numbers_that_are_nan_are_not_null() -> None:
    column = pa.array([1.0, float("nan"), None, 2.0])
    rows = rows_from_arrow(pa.table({"x": column, "y": pa.array([1.0, 2.0, 3.0, 4.0])}))
    for _ in range(2):
        assert rows.nans("x").tolist() == [False, True, False, False]
        assert rows.where(slice(1, 3)).nans("x").tolist() == [True, False]
    assert not rows.nans("y").any()


def test_a_table_without_chunks_has_empty_columns() -> None:
    schema = pa.schema({"n": pa.int64(), "word": pa.string()})
    rows = rows_from_arrow(pa.Table.from_batches([], schema))
    assert (len(rows), rows["n"].tolist(), rows["word"].tolist(), rows.by("word")) == (0, [], [], {})


def test_columns_of_a_frame_as_arrow() -> None:
    frame = pd.DataFrame({"run": ["a", None], "line": [1, 2], "time_s": [0.5, np.nan]})
    table = arrow_of_frame(frame, "phases", ["run", "line", "time_s", "phase"])
    assert table.to_pydict() == {"run": ["a", None], "line": [1, 2], "time_s": [0.5, None], "phase": [None, None]}
    assert [pa.types.is_dictionary(field.type) for field in table.schema] == [True, False, False, True]


class Some(RowColumns, frozen=True):
    rows: Rows
    numbers: np.ndarray
    name: str
    by_name: dict[str, np.ndarray]


def test_columns_with_a_value_for_each_row_are_chosen_together() -> None:
    some = Some(arrow_rows(), np.arange(5), "all", {"a": np.arange(5)}).where(
        np.array([False, True, False, False, True])
    )
    assert (some.rows["line"].tolist(), some.numbers.tolist(), some.name) == ([2, 5], [1, 4], "all")
    assert some.by_name["a"].tolist() == [1, 4] and some.where(slice(1, 2)).by_name["a"].tolist() == [4]
    assert some.where(np.ones(2, np.bool_)) is some


@pytest.mark.parametrize("chosen", [np.array([True, False, True]), np.array([2, 0]), slice(1, 3)])
def test_a_column_with_one_value_takes_no_memory_where_rows_are_chosen(chosen: np.ndarray | slice) -> None:
    same, other = taken(np.broadcast_to(7, 3), chosen), taken(np.arange(3), chosen)
    assert same.tolist() == [7, 7] and same.strides == (0,) and other.strides == (8,)
    assert other.tolist() == np.arange(3)[chosen].tolist()


def test_a_null_is_none_of_some_words() -> None:
    rows = rows_from_arrow(pa.table({"run": pa.array(["a", None, "b"]).dictionary_encode()}))
    assert rows.one_of("run", {"a", ""}).tolist() == [True, False, False]
    assert rows.counts("run") == {"a": 1, "b": 1}


@pytest.mark.parametrize(
    ("numbers", "dtype", "stride"),
    [
        ([7, 7, 7], np.int16, 0),
        ([-1, 0, 2], np.int16, 2),
        ([-20_000, 20_000], np.int32, 4),  # their difference would not fit into two bytes
        ([0, 1 << 30], np.int64, 8),
        ([NULL, 1], np.int64, 8),
        ([], np.int64, 0),
    ],
)
def test_integers_take_as_few_bytes_as_they_need(numbers: list[int], dtype: type, stride: int) -> None:
    packed = compact(np.array(numbers, np.int64))
    assert packed.tolist() == numbers
    assert packed.dtype == np.dtype(dtype) and packed.strides == (stride,)


def test_one_value_for_all_rows_of_several_parts_takes_no_memory() -> None:
    none, nan, zero = np.empty(0), np.broadcast_to(np.nan, 2), np.broadcast_to(0.0, 1)
    assert (joined([nan, none, nan]).strides, len(joined([nan, none, nan]))) == ((0,), 4)
    np.testing.assert_array_equal(joined([nan, zero]), [np.nan, np.nan, 0.0])
    assert len(joined([none, none])) == 0
