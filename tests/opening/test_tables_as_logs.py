"""Tables in memory as sides of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from perflog.errors import UsageError
from perflog.log import Log
from perflog.opening.tables_as_logs import without_tables

FRAME = pd.DataFrame({"step": [1, 2, 3], "loss": [3.0, 2.5, 2.0]})


def values(log: Log, name: str) -> list[float]:
    steps = log.table("steps")
    return [float(value) for value in steps[name].dropna()]


def test_each_table_is_a_log_with_a_name_of_its_own() -> None:
    path, frame, mapping = without_tables(["a.txt", FRAME, {"new": pa.table(FRAME), "old": "b.txt"}])
    assert path == "a.txt" and mapping["old"] == "b.txt"
    assert (frame.name, mapping["new"].name) == ("table 1", "new")
    assert values(frame, "loss") == values(mapping["new"], "loss") == [3.0, 2.5, 2.0]
    assert [key.label for key in frame.run_keys] == ["table 1"]


def test_tables_in_lists_are_tables_too() -> None:
    ((one, two), *_) = without_tables([[FRAME, FRAME]])
    assert [one.name, two.name] == ["table 1", "table 2"]
    (named,) = without_tables([{"side": [FRAME, FRAME]}])
    assert [log.name for log in named["side"]] == ["side", "side"]
    for several in ((FRAME,), iter([FRAME])):
        assert [log.name for log in without_tables([several])[0]] == ["table 1"]


def test_an_index_with_a_name_is_a_column() -> None:
    (log,) = without_tables([FRAME.set_index("step")])
    assert log.table("steps")["step"].tolist() == [1, 2, 3]
    (unnamed,) = without_tables([FRAME.set_index(pd.Index([7, 8, 9]))])
    assert unnamed.table("steps")["step"].tolist() == [1, 2, 3]
    assert set(unnamed.table("values").get("key", [])) <= {"loss"}


def test_one_column_is_a_row_for_each_value() -> None:
    (log,) = without_tables([pa.table({"latency_ms": [1.5, 2.5, 3.5, 4.5]})])
    assert len(log.table("values")) + len(log.table("steps")) >= 4


@pytest.mark.parametrize(
    ("given", "is_table"),
    [
        ({"loss": 2.5}, True),
        ({"loss": np.float32(2.5), "steps": 3}, True),
        ({"loss": "a.txt"}, False),
        ({"loss": 2.5, "log": "a.txt"}, False),
        ({"loss": None}, False),
        ({"loss": np.array([2.5, 3.5])}, False),
        ({1: 2.5}, False),
        ({}, False),
        ("a.txt", False),
        (3, False),
    ],
)
def test_figures_by_name_are_a_table(given: Any, is_table: bool) -> None:
    (found,) = without_tables([given])
    assert isinstance(found, Log) == is_table
    if not is_table:
        assert found == given or isinstance(given, Mapping)


def test_a_table_without_a_metric_is_refused() -> None:
    with pytest.raises(UsageError, match="perflog finds no metric in this table"):
        without_tables([pa.table({"name": ["a", "b"], "colour": ["red", "blue"]})])
