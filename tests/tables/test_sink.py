"""Tables in memory: rows in the order of runs, rows and columns of some, and the account of a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from perflog.tables import sink as sinks
from perflog.tables.schema import arrow_schema
from perflog.tables.sink import (
    IngestResult,
    MemorySink,
    _few_rows,
    column_of,
    run_id,
    table_from_columns,
)

if TYPE_CHECKING:
    import pytest

STEPS = arrow_schema("steps").names


def steps(*rows: tuple[str, int]) -> pa.Table:
    """Rows of table `steps` from run and line."""
    columns: dict[str, list[Any]] = {
        "run": [run for run, _ in rows],
        "line": [line for _, line in rows],
        "part": [0] * len(rows),
    }
    required: dict[str, int] = {field.name: 0 for field in arrow_schema("steps") if not field.nullable}
    unknown: dict[str, list[Any]] = {name: [required.get(name)] * len(rows) for name in STEPS}
    unknown.update(columns)
    return table_from_columns("steps", list(unknown.values()))


def lines_of(table: pa.Table) -> list[tuple[str, int]]:
    return [(row["run"], row["line"]) for row in table.select(["run", "line"]).to_pylist()]


def test_the_id_of_a_run() -> None:
    assert run_id("0123456789abcdef", 12) == "0123456789ab-12"


def test_values_become_columns_of_their_types() -> None:
    table = steps(("a-1", 3))
    assert table.schema == arrow_schema("steps")
    assert table["step"].to_pylist() == [None]
    assert column_of("steps", "step_time_s", [0.5, None]).to_pylist() == [0.5, None]
    assert column_of("steps", "step", [0, None]).to_pylist() == [0, None]
    assert column_of("steps", "run", ["a", "b"]).to_pylist() == ["a", "b"]
    assert column_of("runs", "config", ["x", None]).to_pylist() == ["x", None]


def test_rows_are_in_the_order_in_which_they_came() -> None:
    sink = MemorySink()
    assert lines_of(sink.fetch("steps")) == [] and sink.fetch("steps").schema == arrow_schema("steps")
    sink.add("steps", steps(("b-1", 5), ("b-1", 4)))
    sink.add("steps", steps(("a-1", 2)))
    assert lines_of(sink.fetch("steps")) == [("b-1", 5), ("b-1", 4), ("a-1", 2)]
    sink.add("steps", steps(("a-1", 1)))
    assert len(sink.fetch("steps")) == 4
    assert len(sink.reset().fetch("steps")) == 0


def test_rows_are_in_the_order_of_the_runs() -> None:
    sink = MemorySink()
    sink.runs = ["a-1", "b-1"]
    sink.add("steps", steps(("b-1", 5), ("b-1", 4)))
    sink.add("steps", steps(("a-1", 2)))
    assert lines_of(sink.fetch("steps")) == [("a-1", 2), ("b-1", 4), ("b-1", 5)]
    sink.add("steps", steps(("a-1", 1)))
    assert lines_of(sink.fetch("steps")) == [("a-1", 1), ("a-1", 2), ("b-1", 4), ("b-1", 5)]


def test_rows_and_columns_of_some() -> None:
    sink = MemorySink()
    sink.add("steps", steps(("b-1", 5), ("a-1", 2), ("b-1", 6)))
    assert lines_of(sink.fetch("steps", runs=["b-1"])) == [("b-1", 5), ("b-1", 6)]
    assert sink.fetch("steps", runs=["b-1"], columns=["line"]).to_pydict() == {"line": [5, 6]}
    assert sink.fetch("steps", columns=["line", "run"]).column_names == ["line", "run"]
    assert sink.fetch("steps", runs=[]).num_rows == 0


def chunked(*chunks: list[int]) -> pa.Table:
    return pa.Table.from_batches([pa.RecordBatch.from_arrays([pa.array(values)], ["a"]) for values in chunks])


def test_few_rows_of_a_table_in_chunks_are_copied_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "_BLOCK", 16)
    table = chunked([1, *range(10, 17)], [2, *range(20, 27)])
    few = _few_rows(table, {"a"}, {"a": lambda value: value in (1, 2)})
    assert few is not None and few["a"].to_pylist() == [1, 2]
    assert _few_rows(table, {"a"}, {"a": lambda value: value in (1, 2, 11)}) is None  # more than an eighth
    assert _few_rows(chunked([1], [2]), {"a"}, {"a": lambda value: value == 1}) is None  # a small table
    assert _few_rows(chunked(list(range(16))), {"a"}, {"a": lambda value: value == 1}) is None  # in one chunk


def test_the_account_of_a_log() -> None:
    result = IngestResult("a.log", "0a")
    result.add_shape("read", 3, (2, 0, 0), 7, "x")
    assert [result.unread, result.unread_figures] == [None, None]
    result.add_shape("unread", 2, (0, 1, 4), 9, "later")
    result.add_shape("unread", 1, (0, 0, 1), 5, "first")
    result.add_shape("unread", 0, (0, 0, 0), 1, "none")
    result.add_shape("unread", 1, (0, 0, 1), 5, "as early")
    assert result.lines == {"total": 7, "read": 3, "context": 0, "unread": 4}
    assert result.figures == {"total": 9, "stored": 2, "dropped": 1, "unread": 6}
    assert [result.unread, result.unread_figures] == [(5, "first")] * 2


def test_a_log_without_figures_has_an_account_of_them() -> None:
    result = IngestResult("a.log", "0a")
    assert result.figures == {}
    result.add_shape("read", 3, (0, 0, 0), 7, "x")
    assert result.figures == {"total": 0, "stored": 0, "dropped": 0, "unread": 0}


def test_tables_that_are_there_already() -> None:
    sink: Any = MemorySink({"steps": [steps(("a-1", 1)), steps(("a-1", 2))]})
    assert lines_of(sink.fetch("steps")) == [("a-1", 1), ("a-1", 2)]
