"""The time of a step and its parts, among the times that a line of meters prints by name."""

from __future__ import annotations

import pytest
from support.reading import read

from perflog.formats.families.step_parts import may_be_part, shared_units, time_of_step, with_parts
from perflog.formats.model import Line
from perflog.formats.template import Template
from perflog.units import Unit

S, MS = Unit("s", 1.0), Unit("s", 1e-3)


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
        (["total", "elapsed", "eta"], S, ""),  # they are no parts
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


@pytest.mark.parametrize(
    ("text", "printed", "found"),
    [
        ("{step:d} | loss {loss:.2f} | fwd {fwd:3.0f} | bwd {bwd:3.0f} | total {total:3.0f} ms", "total", "fwd bwd"),
        ("{step:d} fwd: {fwd:3.0f}, bwd: {bwd:3.0f}, total: {total:3.0f} (ms)", "", "fwd bwd total"),
        ("{step:d} time (ms): fwd {fwd:3.0f} bwd {bwd:.1f} | loss {loss:.2f}", "", "fwd bwd"),
        ("{step:d} | fwd {fwd:.2f} | bwd {bwd:.2f} | total {total:3.0f} ms", "total", ""),  # 0.12 s, or 0.12 ms
        ("{step:d} | data {data:3.0f} | total {total:3.0f} ms", "total", ""),  # may be samples
        ("{step:d} | fwd {fwd:3.0f} ms | bwd {bwd:3.0f} | lr {lr:3.0f} ms", "fwd lr", ""),
    ],
)
def test_a_unit_that_the_parts_of_a_step_share(text: str, printed: str, found: str) -> None:
    assert shared_units(Template(text), dict.fromkeys(printed.split(), MS)) == dict.fromkeys(found.split(), MS)


def test_only_times_are_parts_of_a_step() -> None:
    units = {"step_time": S, "data": MS, "opt": MS, "memory": Unit("B", 1.0)}
    line = Line("own", Template("{step_time:f} {data:f} {opt:f} {memory:f}"), table="steps", unit=units)
    assert with_parts(line).parts == {"data", "opt"}
    assert with_parts(line, {"step_time", "opt", "memory"}).parts == {"opt"}
    assert with_parts(line, {"data", "opt"}) is line  # nothing may be the time of the step
    assert with_parts(line, {"data", "opt"}, "opt").parts == {"data"}
