"""The order of rows by run, line and part."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from perflog.tables import row_order
from perflog.tables.columns import rows_from_arrow
from perflog.tables.row_order import in_order, put_in_order

ROWS = st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1)), max_size=6), max_size=6)


def table(rows: list[tuple[int, int]], runs: Sequence[str | None]) -> pa.Table:
    lines, parts = ([row[k] for row in rows] for k in (0, 1))
    return pa.table(
        {
            "run": pa.array(runs, pa.string()).dictionary_encode(),
            "line": pa.array(lines, pa.int64()),
            "part": pa.array(parts, pa.int32()),
            "number": pa.array(range(len(rows)), pa.int64()),
            "zero": pa.array([0] * len(rows), pa.int32()),
        }
    )


@examples(60)
@given(ROWS, st.sampled_from((1, 2, 5, 100)))
def test_rows_are_sorted_by_line_and_part(stretches: list[list[tuple[int, int]]], block: int) -> None:
    """Each stretch comes after the lines of those before it, as a log is read."""
    rows = [(4 * k + line, part) for k, stretch in enumerate(stretches) for line, part in stretch]
    given_table = table(rows, ["a"] * len(rows))
    expected = sorted(range(len(rows)), key=lambda row: rows[row])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_order, "_BLOCK", block)
        ordered = in_order(given_table, ["a"])
        put = put_in_order(given_table.columns, given_table.schema, ["a"]) if rows else ordered
    assert ordered["number"].to_pylist() == put["number"].to_pylist() == expected
    assert put["zero"].to_pylist() == [0] * len(rows)


def test_rows_of_other_runs_are_left_out_and_runs_stand_in_their_order() -> None:
    rows = [(2, 0), (1, 0), (3, 0), (2, 1), (1, 1)]
    ordered = in_order(table(rows, ["b", "a", "c", "a", "b"]), ["a", "b"])
    assert ordered["number"].to_pylist() == [1, 3, 4, 0]


def test_texts_of_some_rows_are_those_of_all() -> None:
    runs = ["a", "b", None, "a", "c"]
    rows = rows_from_arrow(table([(k, 0) for k in range(5)], runs))
    assert rows.where(np.array([4, 2, 0]))["run"].tolist() == ["c", None, "a"]
    assert rows["run"].tolist() == runs
    assert rows.where(np.array([1, 2]))["run"].tolist() == ["b", None]
