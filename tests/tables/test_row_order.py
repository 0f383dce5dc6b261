"""The order of rows by run, line and part."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest

from perflog.tables import row_order
from perflog.tables.columns import rows_from_arrow
from perflog.tables.row_order import in_order, natural_sort_key, put_in_order


def table(rows: list[tuple[int, int]], runs: Sequence[str | None]) -> pa.Table:
    lines, parts = ([row[k] for row in rows] for k in (0, 1))
    return pa.table(
        {
            "run": pa.array(runs, pa.string()).dictionary_encode(),
            "line": pa.array(lines, pa.int64()),
            "part": pa.array(parts, pa.int32()),
            "number": pa.array(range(len(rows)), pa.int64()),
            "zero": pa.array([0] * len(rows), pa.int32()),
            "nothing": pa.nulls(len(rows), pa.float64()),
        }
    )


@pytest.mark.parametrize("block", [1, 2, 100])
def test_rows_are_in_the_order_of_run_line_and_part(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All orders of four records of two runs, and two records alike, which stay in their order."""
    monkeypatch.setattr(row_order, "_BLOCK", block)
    records = [("b", 1, 0), ("b", 1, 1), ("b", 2, 0), ("a", 2, 0), ("a", 2, 0)]
    for rows in set(permutations(records)):
        given_table = table([row[1:] for row in rows], [row[0] for row in rows])
        expected = sorted(range(len(rows)), key=lambda row: ("ba".index(rows[row][0]), *rows[row][1:]))
        ordered = in_order(given_table, ["b", "a"])
        put = put_in_order(given_table.columns, given_table.schema, ["b", "a"])
        assert ordered["number"].to_pylist() == put["number"].to_pylist() == expected
        assert put["zero"].to_pylist() == [0] * len(rows) and put["nothing"].null_count == len(rows)


def test_rows_in_order_are_not_copied() -> None:
    rows = table([(1, 0), (1, 1), (2, 0)], ["a", "a", "b"])
    assert (
        in_order(rows, ["a", "b"])["number"].chunk(0).buffers()[1].address
        == rows["number"].chunk(0).buffers()[1].address
    )
    assert in_order(rows[:0], ["a"]).num_rows == 0


def test_rows_of_other_runs_are_left_out_and_runs_stand_in_their_order() -> None:
    rows = [(2, 0), (1, 0), (3, 0), (2, 1), (1, 1)]
    ordered = in_order(table(rows, ["b", "a", "c", "a", "b"]), ["a", "b"])
    assert ordered["number"].to_pylist() == [1, 3, 4, 0]
    of_one_run = table(rows, ["a"] * len(rows))
    assert in_order(of_one_run, ["a"])["number"].to_pylist() == [1, 4, 0, 3, 2]
    assert in_order(of_one_run, ["b"]).num_rows == 0


def test_texts_of_some_rows_are_those_of_all() -> None:
    runs = ["a", "b", None, "a", "c"]
    rows = rows_from_arrow(table([(k, 0) for k in range(5)], runs))
    assert rows.where(np.array([4, 2, 0]))["run"].tolist() == ["c", None, "a"]
    assert rows["run"].tolist() == runs
    assert rows.where(np.array([1, 2]))["run"].tolist() == ["b", None]


def test_numbers_in_strings_sort_by_value() -> None:
    names = ["layer 10", "layer 2", "layer 2 b", "layer"]
    assert sorted(names, key=natural_sort_key) == ["layer", "layer 2", "layer 2 b", "layer 10"]
