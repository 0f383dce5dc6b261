"""What an engine prints of its state: readings while requests run, by replica, and engines that generate nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from support.metrics_logs import by_hand

from perflog.metrics import Tables
from perflog.metrics.benchmarks.server_readings import (
    CACHE,
    GENERATED,
    PROMPTS,
    RUNNING,
    WAITING,
    busy_readings,
    by_replica,
    stuck_engines,
    without_readings,
)


def tables(*readings: dict[str, Any]) -> Tables:
    """Values by key, a line for each reading; `dp`: the data-parallel rank."""
    rows = [
        {"key": key, "value": value, "line": line, "dp_rank": reading.get("dp")}
        for line, reading in enumerate(readings, 1)
        for key, value in reading.items()
        if key != "dp"
    ]
    return Tables(by_hand("values", rows))


def test_readings_while_requests_run() -> None:
    """By the first of several names that is printed; without requests nothing is read."""
    idle, busy = {RUNNING: 0.0, WAITING: 0.0, "token_usage": 0.1}, {RUNNING: 2.0, WAITING: 1.0, "token_usage": 0.5}
    rows = tables(idle, busy, {**busy, RUNNING: 3.0}, {"token_usage": 9.0}).rows("values")
    found = {name: of["value"].tolist() for name, of in busy_readings(rows).items()}
    assert found == {RUNNING: [2.0, 3.0], WAITING: [1.0, 1.0], CACHE: [0.5, 0.5]}
    assert busy_readings(tables(idle).rows("values")) == {}
    assert busy_readings(tables({WAITING: 1.0}).rows("values")) == {}
    assert busy_readings(tables({RUNNING: float("nan"), WAITING: 1.0}).rows("values")) == {}


def test_records_that_state_how_many_requests_run_are_left_out() -> None:
    rows = tables({RUNNING: 1.0, "x": 2.0}, {"y": 3.0}, {"total_running_requests": 1.0}).rows("values")
    assert without_readings(rows)["value"].tolist() == [3.0]
    other = tables({"running_requests_limit": 1.0}).rows("values")
    assert without_readings(other) is other


def test_readings_of_replicas() -> None:
    """One rank alone is no replica."""
    rows = tables({RUNNING: 1.0, "dp": 1}, {RUNNING: 2.0, "dp": 0}, {RUNNING: 3.0}, {RUNNING: 4.0, "dp": 1}).rows(
        "values"
    )
    assert {rank: of["value"].tolist() for rank, of in by_replica(rows).items()} == {0: [2.0], 1: [1.0, 4.0]}
    one = tables({RUNNING: 1.0, "dp": 1}, {RUNNING: 2.0}).rows("values")
    assert [(rank, len(of)) for rank, of in by_replica(one).items()] == [(None, 2)]


@pytest.mark.parametrize(
    ("generated", "running", "prompts", "line"),
    [
        ((9.0, 0.0, 0.0, 0.0), (1, 2, 3, 4), (5, 0, 0, 0), 2),
        ((9.0, 9.0, 0.0, 0.0), (1, 2, 3, 4), (5, 0, 0, 0), None),  # two readings
        ((0.0, 0.0, 0.0, 0.0), (1, 2, 3, 4), (0, 0, 0, 0), None),  # it never did anything
        ((9.0, 0.0, 0.0, 0.0), (1, 2, 3, 4), (5, 0, 7, 0), None),  # it fills its cache
        ((9.0, 0.0, 0.0, 0.0, 9.0), (1, 2, 3, 4, 4), (5, 0, 0, 0, 0), None),
        ((9.0, 0.0, 0.0, 0.0, 0.0), (1, 2, 3, 4, 0), (5, 0, 0, 0, 0), None),  # at the end no request runs
    ],
)
def test_an_engine_that_generates_nothing_although_requests_run(
    generated: Sequence[float], running: Sequence[float], prompts: Sequence[float], line: int | None
) -> None:
    readings = [
        {GENERATED: tokens, RUNNING: float(number), PROMPTS: float(prompt)}
        for tokens, number, prompt in zip(generated, running, prompts, strict=True)
    ]
    found = stuck_engines(tables(*readings))
    assert [each.line for each in found] == ([] if line is None else [line])
    for each in found:
        assert each.sentence == "the engine generates nothing since line 2, while 4 requests run (3 readings)"
    alone = [{key: value for key, value in reading.items() if key != PROMPTS} for reading in readings]
    assert bool(stuck_engines(tables(*alone))) == (line is not None or 7 in prompts)


def test_a_replica_that_generates_nothing_while_others_do() -> None:
    readings = [
        {GENERATED: 9.0 if dp == 0 or k == 0 else 0.0, RUNNING: 1500.0, "dp": dp} for k in range(4) for dp in (0, 1)
    ]
    (found,) = stuck_engines(tables(*readings))
    assert (found.replica, found.line, found.readings, found.running) == (1, 4, 3, 1500)
    assert found.sentence.startswith("replica 1 generates nothing since line 4, while 1,500 requests run")
    assert stuck_engines(tables({RUNNING: 1.0})) == []
