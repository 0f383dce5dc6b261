"""Rows of operators on the host, from operators written by hand."""

from __future__ import annotations

from math import isnan
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from support.metrics_logs import rows
from support.trace_tables import Event, by_hand, kernel

from perflog.metrics.compared import ALL, Steady
from perflog.metrics.traces.operators import host_operators as module
from perflog.metrics.traces.operators.host_operators import _rows, _samples, host_operators
from perflog.metrics.traces.operators.recorded_operators import Operators
from perflog.tables.columns import NULL


def ints(*numbers: int | None) -> np.ndarray:
    return np.array([NULL if number is None else number for number in numbers], np.int64)


def test_calls_are_summed_by_name_and_shapes() -> None:
    """Times in ns; operator `a` with shapes `s`, `a` without, `b`, of which one call has no time, and `c` without."""
    operators = Operators(
        run="r", part=0, rank=3, lines=ints(9, 4, 7, 6, 5, 8), times=ints(50, 10, 30, 60, None, None),
        own=ints(40, 10, 20, 30, None, None), name=ints(0, 0, 0, 1, 1, 2), names=["a", "b", "c"],
        shapes=ints(0, -1, 0, -1, -1, -1), shape_texts=["s"], bytes=ints(8, None, 4, 16, 0, None), other="q",
    )  # fmt: skip
    found = rows(_rows(operators))
    columns = ("operator", "shapes", "calls", "bytes", "first_line")
    assert [tuple(row[name] for name in columns) for row in found] == [
        ("a", "s", 2, 12, 7), ("b", None, 2, 16, 5), ("a", None, 1, None, 4), ("c", None, 1, None, 8),
    ]  # fmt: skip
    assert {(row["run"], row["rank"], row["joined"]) for row in found} == {("r", 3, "q")}
    for name, wanted in (
        ("self_s", [60e-9, 30e-9, 10e-9, None]),
        ("time_s", [80e-9, 60e-9, 10e-9, None]),
        ("avg_s", [40e-9, 60e-9, 10e-9, None]),
        ("share", [0.6, 0.3, 0.1, None]),
    ):
        assert [row[name] for row in found] == [value and pytest.approx(value) for value in wanted]


def test_without_times_the_most_calls_come_first() -> None:
    """Of as many calls the one of the earlier line is first; a share of no time is unknown, also if all take 0 ns."""
    name, none = ints(0, 1, 2, 2), ints(None, None, None, None)
    operators = Operators(
        run="r", part=0, rank=None, lines=ints(5, 3, 8, 9), times=none, own=none, name=name, names=["x", "y", "z"],
        shapes=ints(-1, -1, -1, -1), shape_texts=[], bytes=none, other=None,
    )  # fmt: skip
    found = rows(_rows(operators))
    assert [(row["operator"], row["calls"], row["self_s"], row["share"]) for row in found] == [
        ("z", 2, None, None), ("y", 1, None, None), ("x", 1, None, None),
    ]  # fmt: skip
    nothing = Operators(
        run="r", part=0, rank=None, lines=ints(5), times=ints(0), own=ints(0), name=ints(0), names=["x"],
        shapes=ints(-1), shape_texts=[], bytes=ints(None), other=None,
    )  # fmt: skip
    ((own, share),) = [(row["self_s"], row["share"]) for row in _rows(nothing).to_dict("records")]
    assert own == 0 and isnan(share)


def operator(name: str, start: int | None, end: int, shapes: str | None = None, **more: object) -> Event:
    usual = {"kind": "cpu", "device": None, "stream": None, "process": "9", "thread": "1", "shapes": shapes}
    times = {"start_ns": None, "duration_ns": None} if start is None else {}
    return kernel(start or 0, end, name) | usual | times | more


def sampled(*events: Event) -> list[tuple[str, str | None, str, str | None, float]]:
    """Name, the name that it is part of, unit, better direction and value of each sample of run `r`."""
    found: list[tuple[str, str | None, str, str | None, float]] = []
    for measure, run, values in _samples(by_hand(list(events)), Steady({"r": 0, "device": 0}, {})):
        assert (measure.kind, run, len(values)) == ("operator", "r", 1)
        found.append((measure.name, measure.of, measure.unit, measure.better, round(values[0], 12)))
    return found


def test_timed_operators_are_compared_by_their_own_time() -> None:
    """`z` takes 100 ns, 40 of these in `b`. The longest comes first. A run with work of a device has other samples."""
    timed = [operator("z", 0, 100, "[[4]]"), operator("b", 10, 50, "[[2, 3]]")]
    other = operator("b", 0, 9, run="device"), kernel(0, 9, run="device")
    assert sampled(*timed, *other) == [
        (ALL, None, "s", "lower", 100e-9), ("z", ALL, "s", "lower", 60e-9), ("b", ALL, "s", "lower", 40e-9),
        ("z 4", None, "s", "lower", 60e-9), ("b 2x3", None, "s", "lower", 40e-9),
    ]  # fmt: skip


def test_operators_without_times_are_compared_by_calls_and_bytes() -> None:
    calls = [operator("a", None, 0, "[[2]]", bytes=8), operator("a", None, 0, "[[2]]", bytes=8), operator("b", None, 0)]
    calls.append(operator("c", None, 0, "[1]"))
    assert sampled(*calls) == [
        ("tensors of all operators", None, "B", "lower", 16), ("calls of all operators", None, "", None, 4),
        ("calls of a 2", None, "", None, 2), ("tensors of a 2", None, "B", "lower", 16),
        ("calls of c", None, "", None, 1),
    ]  # fmt: skip
    assert sampled(operator("b", None, 0)) == [("calls of all operators", None, "", None, 1)]


def test_messages_of_collectives_of_the_run_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum of each operation with known bytes, in the order of the rows."""
    rows = [("r", "reduce", 8), ("r", "gather", 2), ("r", "reduce", 1), ("q", "reduce", 100), ("r", "send", None)]
    table = pd.DataFrame(rows, columns=["run", "op", "bytes"])
    monkeypatch.setattr(module, "collective_volume", SimpleNamespace(table=lambda *_: table))
    calls = [operator("z", None, 0, "[[2]]"), operator("z", None, 0, "[[2]]"), operator("y", None, 0, "[[2]]")]
    assert [(name, value) for name, _, _, _, value in sampled(*calls)] == [
        ("calls of all operators", 3), ("messages of reduce", 9), ("messages of gather", 2), ("calls of z 2", 2),
        ("calls of y 2", 1),
    ]  # fmt: skip


def test_the_rows_name_their_run() -> None:
    (row,) = rows(host_operators(by_hand([operator("a", 0, 100, rank=2)])))
    assert (row["run"], row["label"], row["rank"], row["self_s"]) == ("r", "r", 2, pytest.approx(100e-9))
