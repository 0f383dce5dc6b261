"""The time of a step and its parts, among the times that a line of meters prints by name."""

from __future__ import annotations

import pytest
from support.reading import read

from perflog.formats.families.step_parts import parts_of_step, time_of_step
from perflog.units import Unit

S, MS = Unit("s", 1.0), Unit("s", 1e-3)


@pytest.mark.parametrize(
    ("seconds", "parts"),
    [
        ({"step_time": 3.0, "data": 0.1, "opt": 0.3}, {"data", "opt"}),
        ({"step_time": 3.0, "forward": 0.6, "backward": 2.0, "opt": 0.4}, {"opt"}),
        ({"step_time": 3.0, "forward": 0.6, "backward": 2.0, "opt": 0.6}, set()),  # 3.2 s are no parts of 3 s
        ({"step_time": 1.0, "a": 0.51, "b": 0.51}, {"a", "b"}),  # each is rounded
        ({"step_time": 1.0, "a": 0.52, "b": 0.51}, set()),
        ({"step_time": 3.0, "backward": 2.0, "backward_compute": 1.9, "backward_allreduce": 0.1, "opt": 1.0},
         {"backward_compute", "backward_allreduce", "opt"}),
        ({"step_time": 3.0, "backward": 2.0, "backward_compute": 2.5}, set()),
        ({"step_time": 3.0, "forward": 0.9, "backward": 1.9, "comm": 1.5, "opt": 0.2}, {"opt"}),  # beside the backward
        ({"step_time": 3.0, "comm": 2.0, "comm_allreduce": 1.9}, set()),  # perhaps one in the other: not known
        ({"step_time": 3.0, "data": 0.1, "elapsed": 350.0, "eta": 9.0, "val_time": 5.0, "avg_step": 3.1}, {"data"}),
        ({"step_time": 3.0, "time_per_token": 0.1, "gpu_time": 2.5, "ttft": 0.2}, set()),
        ({"data": 0.1, "opt": 0.3}, set()),  # of what
        ({}, set()),
    ],
)  # fmt: skip
def test_parts_take_no_longer_than_their_whole(seconds: dict[str, float], parts: set[str]) -> None:
    assert parts_of_step(seconds) == parts


@pytest.mark.parametrize(
    ("seconds", "unit", "name"),
    [
        ({"Time": 1.6}, MS, "time"),
        ({"Time": 1.6}, S, ""),  # perhaps since the start
        ({"data_time": 1.6}, MS, ""),
        ({"total": 3.0, "fwd": 1.0, "bwd": 1.9}, S, "total"),
        ({"total": 3.0, "fwd": 1.0, "bwd": 2.1}, S, ""),
        ({"total": 3.0, "fwd": 0.7, "bwd": 0.7}, S, ""),  # less than half of it
        ({"total": 3.0, "fwd": 3.0}, S, ""),
        ({"Total_time": 0.0, "fwd": 0.0, "bwd": 0.0}, S, ""),
        ({}, S, ""),
    ],
)
def test_a_time_that_can_only_be_of_the_step(seconds: dict[str, float], unit: Unit, name: str) -> None:
    assert time_of_step(seconds, dict.fromkeys(seconds, unit)) == name


@pytest.mark.parametrize(("counter", "time"), [("micro", ""), ("micro_batch", ""), ("layer", ""), ("samples", "time")])
def test_a_time_beside_the_number_of_a_part_is_not_that_of_the_step(counter: str, time: str) -> None:
    assert time_of_step({"time": 0.1}, {"time": MS}, {"step", counter}) == time


def test_the_parts_of_a_step_are_phases() -> None:
    line = "step {k} | loss 2.5 | total 3.0s | data 0.1s | fwd 0.6s | bwd 1.9s | opt 300.0 ms | elapsed {k}0.0s\n"
    log = read("".join(line.format(k=k) for k in (1, 2)).encode())
    assert [(row["step_time_s"], row["forward_s"], row["backward_s"]) for row in log.rows("steps")] == [
        (3, 0.6, 1.9)
    ] * 2
    assert [(row["step"], row["phase"], row["time_s"]) for row in log.rows("phases")] == [
        (step, phase, time) for phase, time in (("data", 0.1), ("opt", 0.3)) for step in (1, 2)
    ]
    assert [(row["key"], row["value"]) for row in log.rows("values")] == [("elapsed", 10), ("elapsed", 20)]
