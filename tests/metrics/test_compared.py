"""What comparisons read of the table of a metric, and of the steps of a run."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from perflog.metrics.compared import STEP_MEASURES, STEP_TIME, TOKENS_PER_S, ComparedColumn, Measure, Steady
from perflog.tables.columns import rows_from_frame
from perflog.tables.schema import TABLES


def samples(table: dict[str, list[Any]], column: ComparedColumn) -> list[tuple[str, str, str, str | None, float]]:
    found = column.samples(pd.DataFrame(table))
    return [(run, of.name, of.unit, of.better, values.item()) for of, run, values in found]


TABLE: dict[str, list[Any]] = {
    "run": ["b", "b", "a", "a", "b"],
    "kind": ["x", "y", "x", "x", "x"],
    "unit": ["s", None, "s", "s", "s"],
    "time": [1.0, 2.0, 3.0, None, 5.0],
    "count": [2, 4, 3, 100, 6],
}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, [8.0, 3.0]),
        ({"per": "count"}, [8 / 12, 1.0]),
        ({"weight": "count"}, [(1 * 2 + 2 * 4 + 5 * 6) / 12, 3.0]),
        ({"largest": True}, [5.0, 3.0]),
        ({"rows": lambda table: table[table["kind"] == "x"]}, [6.0, 3.0]),
    ],
)
def test_one_value_of_each_run_in_the_order_of_the_table(more: dict[str, Any], expected: list[float]) -> None:
    """Rows without a value are left out, with their weights."""
    found = samples(TABLE, ComparedColumn("phase", "time of all", "time", **more))
    assert found == [("b", "time of all", "s", "lower", expected[0]), ("a", "time of all", "s", "lower", expected[1])]


def test_one_value_of_each_key() -> None:
    column = ComparedColumn("phase", "{kind} time", "time", unit="{unit}", by=("kind", "unit"), better=None)
    assert samples(TABLE, column) == [
        ("b", "x time", "s", None, 6.0), ("b", "y time", "", None, 2.0), ("a", "x time", "s", None, 3.0),
    ]  # fmt: skip
    named = ComparedColumn("phase", lambda keys: str(keys["kind"]).upper(), "time", by=("kind",))
    assert [name for _, name, *_ in samples(TABLE, named)] == ["X", "Y", "X"]


def test_a_table_without_values_has_no_samples() -> None:
    assert samples({"run": ["a"], "time": [None]}, ComparedColumn("phase", "time", "time")) == []
    assert samples({"run": [], "time": []}, ComparedColumn("phase", "time", "time")) == []


def test_the_columns_of_steps_that_compare() -> None:
    assert [measure.column for measure in STEP_MEASURES] == [
        "step_time_s", "forward_s", "backward_s", "tflops", "mfu", "tokens_per_s", "samples_per_s", "memory_bytes",
    ]  # fmt: skip
    assert [m.name for m in STEP_MEASURES if m.better == "higher"] == [m.name for m in STEP_MEASURES if m.derived]
    assert Measure("memory", "peak", "B").column == "peak_bytes"
    assert (STEP_TIME.name, TOKENS_PER_S.name) == ("step_time", "tokens_per_s")


def steps_of(steps: list[int | None], steady: Steady, until_last: bool = False) -> list[float | None]:
    frame = pd.DataFrame({c.name: [None] * len(steps) for c in TABLES["steps"]}).assign(
        run="r", step=pd.array(steps, "Int64")
    )
    rows = rows_from_frame(frame, "steps")
    rows = steady.until_last("r", rows) if until_last else steady.rows("r", rows)
    return [step if known else None for step, known in zip(rows["step"].tolist(), rows.known("step"), strict=True)]


@pytest.mark.parametrize(
    ("steady", "expected"),
    [
        (Steady({"r": 1}, {"r": 4}), [5, 5, 9]),  # the first steady step is known
        (Steady({"r": 1}, {}), [5, 5, 9]),  # else the first steps that the table has are left out
        (Steady({"r": 0}, {}), [3, 5, 5, 9]),
        (Steady({"r": 2}, {}), [9]),
        (Steady({"r": 3}, {}), []),
        (Steady({"r": 0}, {}, last={"r": 5}), [3, 5, 5]),
        (Steady({"r": 1}, {"r": 3}, last={"r": 4}), [3]),
        (Steady({"r": 0}, {}, last={"other": 1}), [3, 5, 5, 9]),
    ],
)
def test_the_rows_of_steady_steps(steady: Steady, expected: list[int]) -> None:
    assert steps_of([3, None, 5, 5, 9], steady) == expected


def test_rows_without_a_step_count_up_to_the_last_step() -> None:
    assert steps_of([3, None, 9], Steady({}, {}, last={"r": 5}), until_last=True) == [3, None]
    assert steps_of([3, None, 9], Steady({}, {}), until_last=True) == [3, None, 9]
