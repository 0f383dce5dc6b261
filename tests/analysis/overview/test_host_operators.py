"""Operators and ranges of a trace without a device, in words."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from support.metric_tables import MetricRow, replace_table
from support.trace_tables import by_hand, kernel

from perflog.analysis.overview.facts import host_operators as module
from perflog.metrics import Options
from perflog.metrics.traces.work_tree import OUTSIDE, PATH_MARK


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Any:
    replaced = partial(replace_table, monkeypatch, module)
    replaced("collective_volume", **VOLUME)
    return replaced


VOLUME: MetricRow = {
    "op": "all_reduce", "group": None, "group_description": None, "dtype": None, "calls": 1, "bytes": None, "rank": 0
}  # fmt: skip


def operator(name: str, self_s: float | None, calls: int = 1, shapes: str | None = None, rank: int = 0) -> MetricRow:
    return {"operator": name, "self_s": self_s, "calls": calls, "shapes": shapes, "rank": rank}


def said(tables: Any = None) -> list[str]:
    return list(module.host_operator_sentences(tables or by_hand([kernel(0, 1, run="other")]), "r", Options()))


def test_operators_that_take_most_time(table: Any) -> None:
    """Of each operator the shapes that take most time are named; less than 3 % is not."""
    rows = [operator("mm", 0.3, 2, "[[2, 3]]"), operator("mm", 0.3, 1, "[[4, 3]]"), operator("add", 0.03, 8, "[[9]]")]
    rows += [operator("mul", 0.37, 1000)]
    table("host_operators", *rows, **operator("other", 9.0))
    assert said() == [
        "Operators of the host take 1 s: 60 % mm (3 calls, most with inputs 2x3), 37 % mul (1,000 calls)."
    ]
    table("host_operators", *rows[:2], operator("mm", 0.4, 1, "[[7]]", rank=1), **operator("other", 9.0))
    assert said() == ["Operators of the host take 1 s over 2 ranks: 100 % mm (4 calls, most with inputs 7)."]
    table("host_operators", operator("a", 9.9), operator("b", 0.1), **operator("other", 9.0))
    assert said() == ["Operators of the host take 10 s: 99 % a (1 call)."]
    table("host_operators", *(operator(name, 1.0) for name in "abcde"), **operator("other", 9.0))
    assert said() == ["Operators of the host take 5 s: 20 % a (1 call), 20 % b (1 call), 20 % c (1 call)."]


@pytest.mark.parametrize("time", [None, 0.0])
def test_operators_without_times_are_counted(table: Any, time: float | None) -> None:
    rows = [operator("mm", time, 2, "[[2, 3]]"), operator("mm", time, 3, "[[4, 3]]"), operator("add", time, 1000)]
    rows += [operator("mul", time, 4), operator("div", time, 1), operator("div", time, 1, "[3]")]
    table("host_operators", *rows, **operator("other", 9.0))
    inputs = "4x3" if time is None else "2x3"  # those that take most time, the first of equal ones
    assert said() == [
        (
            "1,011 calls of 4 operators, without times; most: add (1,000 times), mm (5 times, most with inputs "
            f"{inputs}), mul (4 times)."
        )
    ]


def test_a_run_with_a_device_or_without_operators_says_nothing(table: Any) -> None:
    table("host_operators", operator("mm", 1.0), **operator("other", 9.0))
    assert said(by_hand([kernel(0, 1)])) == []
    table("host_operators", **operator("other", 9.0))
    assert said() == []


def test_collectives_of_operators(table: Any) -> None:
    """The largest three; the bytes of a group add up, and the description of a group is its name."""
    table("host_operators", operator("mm", 1.0), **operator("other", 9.0))
    table(
        "collective_volume", VOLUME | {"calls": 2000},
        VOLUME | {"op": "broadcast", "bytes": 3072, "group": "5", "rank": 1},
        VOLUME | {"op": "broadcast", "bytes": 4096, "group": "5"},
        VOLUME | {"op": "all_gather", "bytes": 5120, "group": "6", "group_description": "dp", "dtype": "BFloat16"},
        VOLUME | {"op": "reduce", "bytes": 0}, **VOLUME,
    )  # fmt: skip
    assert said()[1:] == [
        (
            "Collectives over 2 ranks: broadcast 2 calls, 7 KiB, group 5; all_gather 1 call, 5 KiB, group dp, "
            "BFloat16; reduce 1 call, 0 B."
        )
    ]
    table("collective_volume", VOLUME | {"calls": 2000}, **VOLUME)
    assert said()[1:] == ["Collectives: all_reduce 2,000 calls, bytes unknown."]


def in_range(*path: str, host_s: float, entered: int = 2, gpu_s: float | None = None, kind: str = "range") -> MetricRow:
    depth = len(path) - 1
    return {
        "kind": "step" if not depth else kind, "depth": depth, "path": PATH_MARK.join(path), "range": path[-1],
        "host_s": host_s, "entered": entered, "gpu_s": gpu_s,
    }  # fmt: skip


def test_host_time_of_a_step_by_range(table: Any) -> None:
    """Two steps of 5 s: 2 and 4 s in all in ranges directly inside. A range of the same name deeper is no part."""
    rows = [
        in_range("step", host_s=10.0), in_range("step", "a", host_s=2.0), in_range("step", "b", host_s=3.0, entered=9),
        in_range("step", "b", "c", host_s=3.0), in_range("step", "b", host_s=1.0), in_range("other", "d", host_s=7.0)
        | {"kind": "range"},
    ]  # fmt: skip
    outside = in_range("step", host_s=1.0)
    table("device_ranges", *rows, **outside)
    assert module.host_time_of_steps(by_hand([]), "r", Options()) == (5.0, {"b": 2.0, "a": 1.0, OUTSIDE: 2.0})
    for missing in (
        [],
        rows[1:],
        rows[:1],
        [*rows, in_range("step", "e", host_s=1.0, gpu_s=1.0) | {"kind": "step", "depth": 0}],
    ):
        table("device_ranges", *missing, **outside)
        assert module.host_time_of_steps(by_hand([]), "r", Options()) is None
