"""Causes in traces, from tables of metrics that are made by hand."""

from __future__ import annotations

import math
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from support.metric_tables import replace_table

from perflog.metrics import Options
from perflog.metrics.causes import trace_causes as module
from perflog.metrics.causes.cause import BOUND, REPLAY, Cause
from perflog.metrics.step_time.breakdown import TRACED_STEP
from perflog.metrics.traces.replays.scenario_changes import RANK

TABLES: Any = None  # each table that a source needs is replaced


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(module, "wholes_of_traces", lambda rows: rows[rows["part"] != "left out"])
    monkeypatch.setattr(module, "scenario_gains", lambda *_: {})
    return partial(replace_table, monkeypatch, module)


def found(source: Any) -> list[Cause]:
    return [cause for cause in source(TABLES, Options()) if cause.run == "r"]


TIMES = {"part": "step", "span_s": 10.0, "compute_s": 4.0, "communication_s": 1.0, "memory_s": 0.0, "waiting_s": 0.5}
TIMES["idle_s"] = 4.5
IDLE = {"part": "step", "host_s": 1.0, "sync_s": 0.5, "data_s": 0.25, "launch_s": 0.0, "waiting_s": 1.0}


def test_what_devices_do_and_why_they_idle(table: Any) -> None:
    """Means over the devices; time of kernels that wait adds to idle time for which work waits."""
    table("device_time", TIMES, TIMES | {"compute_s": 2.0, "idle_s": 6.5}, TIMES | {"part": "left out"}, **TIMES)
    table("launches", IDLE, IDLE | {"sync_s": 1.5}, IDLE | {"part": "left out"}, **IDLE)
    causes = {each.subject: each for each in found(module.states)}
    assert {subject: each.time_s for subject, each in causes.items()} == {
        "compute": 3.0, "communication": 1.0, "waiting": 1.5, "host": 2.0, "data": 0.25, "idle": 5.5 - 3.25,
    }  # fmt: skip
    for subject, each in causes.items():
        assert (each.of, each.whole_s, each.gain_s, each.by, each.may_bind) == (
            TRACED_STEP,
            10.0,
            each.time_s,
            BOUND,
            True,
        )
        assert each.metric == ("launches" if subject in ("host", "data", "waiting") else "device_time")


def test_a_trace_without_launches_idles_for_unknown_causes(table: Any) -> None:
    none = dict.fromkeys(name for name in IDLE if name != "part")
    for rows in ([IDLE | none], []):
        table("device_time", TIMES | {"part": "trace", "waiting_s": 0.0}, **TIMES)
        table("launches", *rows, **IDLE)
        causes = {each.subject: each.time_s for each in found(module.states)}
        assert causes == {"compute": 4.0, "communication": 1.0, "idle": 4.5}
        assert {each.of for each in found(module.states)} == {"trace"}


def gain(scenario: str, gain_s: float, **more: Any) -> Any:
    usual = {"run": "r", "scenario": scenario, "subject": None, "gain_s": gain_s, "gain": gain_s / 10.0, "bound": None}
    return SimpleNamespace(**usual | {"model": "m", "rank": None, "device": None, "whole_s": 10.0} | more)


def test_gains_of_a_replay(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    table("device_time", TIMES, **TIMES)
    table("launches", IDLE, **IDLE)
    gains = [
        gain("host", 0.0), gain("device", 2.0, bound="b"), gain("compute", 3.0), gain("copies", 0.0),
        gain("graphs", 1.0), gain("hidden", 0.5), gain("roofline", 0.75), gain("stream", 0.25),
        gain("kernels", 0.5), gain(RANK, 9.0),
    ]  # fmt: skip
    monkeypatch.setattr(module, "scenario_gains", lambda *_: {"r": gains})
    causes = {each.subject: each for each in found(module.states)}
    assert {s: (each.time_s, each.gain_s, each.by, each.may_bind) for s, each in causes.items()} == {
        "host": (1.5, 0.0, REPLAY, True), "device": (None, 2.0, BOUND, True), "compute": (4.0, 3.0, REPLAY, True),
        "graphs": (None, 1.0, REPLAY, False), "exposed communication": (None, 0.5, REPLAY, False),
        "slow operators": (None, 0.75, REPLAY, False), "stream": (None, 0.25, REPLAY, False),
        "kernels": (None, 0.5, REPLAY, False), "communication": (1.0, 1.0, BOUND, True),
        "waiting": (1.5, 1.5, BOUND, True), "data": (0.25, 0.25, BOUND, False), "idle": (1.75, 1.75, BOUND, True),
    }  # fmt: skip


def test_starts_of_programs(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    table("device_time", TIMES, TIMES | {"span_s": 20.0}, **TIMES)
    monkeypatch.setattr(module, "start_ups", lambda _: [SimpleNamespace(run="r", what="compilation", time_s=3.0)])
    (cause,) = found(module.starts)
    assert (cause.subject, cause.whole_s, cause.time_s, cause.gain_s, cause.of) == (
        "compilation",
        15.0,
        3.0,
        3.0,
        TRACED_STEP,
    )


def kernel(name: str | None, time_s: float, calls: int = 2, state: str = "compute", by: str = "name") -> dict[str, Any]:
    return {"by": by, "name": name, "time_s": time_s, "calls": calls, "state": state}


def test_the_largest_kernel_of_each_state(table: Any) -> None:
    kernels = [
        kernel("a", 3.0),
        kernel("b", 2.0, 3),
        kernel("b", 2.0),
        kernel(None, 9.0),
        kernel("x", 9.0, by="category"),
    ]
    table("device_kernels", *kernels, kernel("copy", 1.0, 1, "memory"), **kernel("a", 99.0))
    table("device_time", TIMES | {"part": "trace"}, TIMES | {"part": "trace"}, TIMES, **TIMES | {"part": "trace"})
    compute, copy = found(module.largest_kernels)
    assert (compute.name, compute.time_s, compute.n, compute.each_s) == ("b", 4.0, 5, 0.8)
    assert (compute.whole_s, compute.may_bind, copy.name, copy.n) == (20.0, False, "copy", 1)


def late(rank: int | None, share: float, device: int = 7) -> dict[str, Any]:
    return {"rank": rank, "device": device, "imposed_s": 2.0, "imposed_share": share, "collectives": 30}


def test_ranks_that_come_last(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    table("stragglers", late(1, 0.5), late(2, 0.0), late(3, 0.25), late(3, 0.25, 8), **late(1, 0.1))
    gains = [gain(RANK, 1.0, rank=3, device=7), gain("host", 5.0, rank=1, device=7)]
    monkeypatch.setattr(module, "scenario_gains", lambda *_: {"r": gains})
    first, second, third = found(module.late_ranks)
    assert (first.rank, first.device, first.n, first.whole_s, first.gain_s) == (1, 7, 30, 4.0, 2.0)
    assert (first.metric, first.by) == ("stragglers", BOUND)
    assert (second.rank, second.whole_s, second.gain_s, second.metric, second.model) == (3, 10.0, 1.0, "replay", "m")
    assert (third.rank, third.device, third.metric) == (3, 8, "stragglers")
    assert math.isclose(second.gain, 0.1)
