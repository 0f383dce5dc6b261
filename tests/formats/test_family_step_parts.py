"""The time of a step and its parts, among the times that a line of meters prints by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from support.reading import read

from perflog.formats.families.step_parts import may_be_part, time_of_step
from perflog.parsing.assemble.steps.time_roles import fitting
from perflog.units import Unit

S, MS = Unit("s", 1.0), Unit("s", 1e-3)


@pytest.mark.parametrize(
    ("seconds", "parts"),
    [
        ({"step_time": 3.0, "data": 0.1, "opt": 0.3}, {"data", "opt"}),
        ({"step_time": 3.0, "forward": 0.6, "backward": 2.0, "opt": 0.4}, {"forward", "backward", "opt"}),
        ({"step_time": 3.0, "forward": 0.6, "backward": 2.0, "opt": 0.6}, set()),  # 3.2 s are no parts of 3 s
        ({"step_time": 1.0, "a": 0.51, "b": 0.51}, {"a", "b"}),  # each is rounded
        ({"step_time": 1.0, "a": 0.52, "b": 0.51}, set()),
        ({"step_time": 1.0, "a": 0.52, "b": 3.0}, {"a"}),  # the other is longer than the step by itself
        ({"step_time": 3.0, "backward": 2.0, "backward_compute": 1.9, "backward_allreduce": 0.1, "opt": 1.0},
         {"backward", "backward_compute", "backward_allreduce", "opt"}),
        ({"step_time": 3.0, "backward": 2.0, "backward_compute": 2.5}, {"backward"}),
        ({"step_time": 3.0, "forward": 0.9, "backward": 1.9, "comm": 1.5, "opt": 0.2},
         {"forward", "backward", "opt"}),  # communication beside the backward
        ({"step_time": 3.0, "comm": 2.0, "comm_allreduce": 1.9}, set()),  # perhaps one in the other: not known
    ],
)  # fmt: skip
def test_parts_take_no_longer_than_their_whole(seconds: dict[str, float], parts: set[str]) -> None:
    columns = {name: np.array([value]) for name, value in seconds.items()}
    whole = columns.pop("step_time")
    assert {name for name, fits in fitting(columns, whole).items() if fits.all()} == parts


def test_names_of_parts() -> None:
    names = [
        "data",
        "opt",
        "time/update",
        "elapsed",
        "eta",
        "val_time",
        "avg_step",
        "time_per_token",
        "gpu_time",
        "ttft",
        "io_med",
        "io_p50",
    ]
    assert [name for name in names if may_be_part(name)] == ["data", "opt", "time/update"]


@pytest.mark.parametrize(
    ("times", "unit", "name"),
    [
        (["Time"], MS, "Time"),
        (["t"], MS, "t"),
        (["Time"], S, ""),  # perhaps since the start
        (["data_time"], MS, ""),
        (["total", "fwd", "bwd"], S, "total"),
        (["total", "fwd"], S, ""),
        (["time_total", "time_rollout", "time_update"], S, "time_total"),
        (["time_total", "fwd"], S, ""),
        (["Total_time", "fwd", "bwd"], S, "Total_time"),
        ([], S, ""),
    ],
)
def test_a_time_that_may_be_of_the_step(times: list[str], unit: Unit, name: str) -> None:
    assert time_of_step(dict.fromkeys(times, unit)) == name


@pytest.mark.parametrize(("counter", "time"), [("micro", ""), ("micro_batch", ""), ("layer", ""), ("samples", "time")])
def test_a_time_beside_the_number_of_a_part_is_not_that_of_the_step(counter: str, time: str) -> None:
    assert time_of_step({"time": MS}, {"step", counter}) == time


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


def step_times(line: Callable[[int], str], steps: Sequence[int] = range(1, 13)) -> list[float | None]:
    rows = read("".join(f"step {k} | loss 2.5 | {line(k)}\n" for k in steps).encode()).rows("steps")
    return [row["step_time_s"] and round(row["step_time_s"], 6) for row in rows]


PARTS = "data 0.1s | fwd 0.6s | bwd 1.9s"


@pytest.mark.parametrize(
    ("line", "times"),
    [
        (lambda k: f"total {3 * k}.0s | {PARTS}", [None, *[3.0] * 11]),  # since the start: the time of step 1 at step 1
        (lambda k: f"total {30 + 3 * k}.0s | {PARTS}", [None, *[3.0] * 11]),
        (lambda k: f"total {30 if k == 1 else 3}.0s | {PARTS}", [30.0, *[3.0] * 11]),  # the first step compiles
        (lambda k: f"total 9{k:02d}.5s | {PARTS}", [None, *[None] * 11]),  # the parts fit neither
        (lambda k: f"total {2.7 + k / 100:.2f}s | {PARTS}", [round(2.7 + k / 100, 2) for k in range(1, 13)]),
        (lambda k: f"Time: {250 * k}.0 ms", [None, *[0.25] * 11]),
        (lambda k: f"Time: {250 + k}.0 ms", [0.25 + k / 1000 for k in range(1, 13)]),
        (lambda k: f"Time: {250 + k % 3}.0 ms", [0.25 + k % 3 / 1000 for k in range(1, 13)]),
        (lambda k: f"Time: {250 + 20 * k}.0 ms", [None] * 12),  # slower and slower, or a slow start: not known
        (lambda k: f"Time: {250 * (k % 11 + 1)}.0 ms", [None, *[0.25] * 9, None, 0.25]),  # it begins again
    ],
)
def test_a_time_since_the_start_is_no_time_of_a_step(line: Callable[[int], str], times: list[float | None]) -> None:
    assert step_times(line) == times


def test_two_lines_do_not_show_whether_a_time_is_of_the_step() -> None:
    assert step_times(lambda k: f"Time: {250 * k}.0 ms", [1, 2]) == [None, None]
    assert step_times(lambda k: f"total {3 * k}.0s | {PARTS}", [1, 2]) == [None, 3.0]


def keys_of(line: Callable[[int], str]) -> tuple[set[str], set[str], set[float | None]]:
    log = read("".join(f"step {k} | step_time 1.0s | {line(k)}\n" for k in range(1, 13)).encode())
    tables = [{row[key] for row in log.rows(table)} for table, key in (("phases", "phase"), ("values", "key"))]
    return tables[0], tables[1], {row["forward_s"] for row in log.rows("steps")}


def test_a_part_that_counts_on_is_no_phase() -> None:
    assert keys_of(lambda k: f"data_time {0.01 * k:.2f}s | opt 0.2s") == ({"opt"}, {"data_time"}, {None})
    assert keys_of(lambda k: f"fwd {0.05 * k:.2f}s | opt 0.2s") == ({"opt"}, {"forward_since_start"}, {None})
    growing = read("".join(f"step {k} | step_time {1 + k}s | data_time {k}s\n" for k in range(1, 13)).encode())
    assert {row["phase"] for row in growing.rows("phases")} == {"data_time"}  # the step grows with it


def test_the_parts_of_most_lines_are_phases() -> None:
    compiles = [10.0, *[1.0] * 11]
    phases = keys_of(lambda k: f"io 0.1s | wait {4.5 if k > 1 else 0.5}s")[0]
    assert phases == {"io"}
    log = read("".join(f"step {k} step_time {time}s io 0.3s opt 2.0s\n" for k, time in enumerate(compiles)).encode())
    assert {row["phase"] for row in log.rows("phases")} == {"io"}


def test_later_lines_may_change_what_a_time_is() -> None:
    """The rows of the first part of a log are made before its last line is read: then the log is read again."""
    times = [250 + k % 3 if k < 200 else 250 * k for k in range(3000)]
    lines = "".join(f"step {k} | loss 2.5 | Time: {time}.0 ms\n" for k, time in enumerate(times))
    whole, parts = (read(lines.encode(), chunk=size) for size in (1 << 20, 1 << 12))
    assert whole.rows("steps") == parts.rows("steps")
    assert {row["step_time_s"] for row in whole.rows("steps")[201:]} == {0.25}
