"""Metric telemetry: samples of GPUs joined to the steps of a log or trace by time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.metrics_logs import by_hand, rows

import perflog
from perflog.metrics import Tables, telemetry
from perflog.metrics.power import telemetry as module
from perflog.metrics.power.telemetry import energy, quantity_of
from perflog.tables.columns import NULL

START = datetime(2026, 2, 24, 19, 46, 17, tzinfo=UTC)


def moment(seconds: float, form: str, zone: str = "") -> str:
    return (START + timedelta(seconds=seconds)).strftime(form)[: -3 if form.endswith("%f") else None] + zone


def train(path: Path, ends: list[float], zone: str = "") -> str:
    """A log whose steps end at these seconds after the start."""
    lines = [
        f"[titan] {moment(end, '%Y-%m-%d %H:%M:%S,%f', zone)} - root - INFO - step: {i:2d}  loss:  7.62585"
        "  memory: 66.91GiB(37.51%)  tps: 10,050  tflops: 314.71  mfu: 13.99%\n"
        for i, end in enumerate(ends)
    ]
    path.write_text("".join(lines))
    return str(path)


MEMORY = ("memory_max_bytes",)
HEADER = (
    "timestamp, index, utilization.gpu [%], memory.used [MiB], temperature.gpu, power.draw [W], power.limit [W], "
    "clocks.current.sm [MHz]\n"
)


def smi(path: Path, samples: Sequence[tuple[float, int, float, float]], zone: str = "") -> str:
    """Telemetry of nvidia-smi: seconds after the start, GPU, power, utilisation in %."""
    lines = [
        f"{moment(at, '%Y/%m/%d %H:%M:%S.%f', zone)}, {gpu}, {busy} %, {16384 + gpu} MiB, {50 + gpu}, {power} W, "
        "700.00 W, 1980 MHz\n"
        for at, gpu, power, busy in samples
    ]
    path.write_text(HEADER + "".join(lines))
    return str(path)


def test_readings_of_no_known_quantity_are_no_telemetry(tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text(f"timestamp, index, fan.speed [%]\n{moment(1, '%Y/%m/%d %H:%M:%S.%f')}, 0, 30 %\n")
    assert len(telemetry(perflog.read(train(tmp_path / "t.log", [0, 2, 4]), str(other)))) == 0


def test_samples_in_the_windows_of_steps(tmp_path: Path) -> None:
    """Steps of 2 s; GPU 0 at 100, 200, 300, ... W each second, GPU 1 at 50 W; a step has the sample at its start."""
    samples = [(t, gpu, 100.0 * (t + 1) if gpu == 0 else 50.0, 10.0 * t) for t in range(6) for gpu in (0, 1)]
    log = perflog.read(train(tmp_path / "t.log", [0, 2, 4]), smi(tmp_path / "smi.csv", samples))
    columns = (
        "part",
        "step",
        "device",
        "samples",
        "power_w",
        "power_max_w",
        "energy_j",
        "utilisation",
        "memory_max_bytes",
    )
    assert [tuple(r[c] for c in columns) for r in rows(telemetry(log))] == [
        ("run", None, 0, 4, 250.0, 400.0, 1200.0, pytest.approx(0.15), 16384 * 2**20),
        ("step", 1, 0, 2, 150.0, 200.0, 400.0, 0.05, 16384 * 2**20),
        ("step", 2, 0, 2, 350.0, 400.0, 800.0, pytest.approx(0.25), 16384 * 2**20),
        ("run", None, 1, 4, 50.0, 50.0, 200.0, pytest.approx(0.15), 16385 * 2**20),
        ("step", 1, 1, 2, 50.0, 50.0, 100.0, 0.05, 16385 * 2**20),
        ("step", 2, 1, 2, 50.0, 50.0, 100.0, pytest.approx(0.25), 16385 * 2**20),
    ]
    (_, first, *_), (steps, sampled) = rows(telemetry(log)), log.runs["run"]
    assert first == {
        "run": steps, "label": None, "part": "step", "step": 1, "device": 0, "node": None, "samples": 2,
        "power_w": 150, "power_max_w": 200, "energy_j": 400, "utilisation": 0.05, "utilisation_max": 0.1,
        "memory_bytes": 16384 * 2**20, "memory_max_bytes": 16384 * 2**20, "temperature_c": 50, "temperature_max_c": 50,
        "clock_hz": 1.98e9, "clock_max_hz": 1.98e9, "span_s": 2, "telemetry": sampled, "note": None,
    }  # fmt: skip


def test_samples_that_do_not_enclose_a_step_give_no_energy(tmp_path: Path) -> None:
    samples = [(2.5, 0, 100.0, 1.0), (3.5, 0, 100.0, 1.0)]
    log = perflog.read(train(tmp_path / "t.log", [0, 2, 3, 4]), smi(tmp_path / "smi.csv", samples))
    steps = [(r["step"], r["samples"], r["power_w"], r["energy_j"]) for r in rows(telemetry(log), part="step")]
    assert steps == [(1, 0, None, None), (2, 1, 100.0, None), (3, 1, 100.0, None)]


@pytest.mark.parametrize(("of_steps", "of_samples"), [("+0000", ""), ("", "+00:00")])
def test_a_date_with_a_zone_is_not_compared_with_one_without(tmp_path: Path, of_steps: str, of_samples: str) -> None:
    samples = [(t, 0, 100.0, 1.0) for t in range(4)]
    log = perflog.read(train(tmp_path / "t.log", [0, 2], of_steps), smi(tmp_path / "smi.csv", samples, of_samples))
    (row,) = rows(telemetry(log))
    zones = ("in UTC", "without a time zone")
    steps, other = zones if of_steps else zones[::-1]
    assert row["note"] == f"steps are {steps}, samples {other}"
    assert row["power_w"] is None and row["samples"] is None and row["energy_j"] is None


def test_both_zones_are_converted(tmp_path: Path) -> None:
    samples = [(t + 3600, 0, 100.0, 1.0) for t in range(4)]  # an hour later, in a zone an hour to the east
    log = perflog.read(train(tmp_path / "t.log", [0, 2], "+0000"), smi(tmp_path / "smi.csv", samples, "+01:00"))
    assert [(r["samples"], r["energy_j"]) for r in rows(telemetry(log), part="step")] == [(2, 200.0)]


def test_telemetry_of_another_time_gives_nothing(tmp_path: Path) -> None:
    samples = [(t + 100, 0, 100.0, 1.0) for t in range(4)]
    assert not len(telemetry(perflog.read(train(tmp_path / "t.log", [0, 2]), smi(tmp_path / "smi.csv", samples))))


def test_telemetry_of_other_times_is_left_out() -> None:
    """Only samples that lie between the first and the last moment of the steps are of them."""
    windows = module.TimedSteps("r", "utc", np.array([1, 2]), np.array([10, 20]), np.array([20, 30]))
    series: dict[int | None, Any] = {None: {"power": module.Series(np.array([20]), np.array([5.0]))}}
    samples = [module.DeviceSamples(str(k), "utc", series, first, last, {})
               for k, (first, last) in enumerate([(1, 9), (31, 40), (1, 10), (30, 40)])]  # fmt: skip
    found = [(r["telemetry"], r["part"], r["step"], r["samples"]) for r in module._rows(windows, samples)]
    assert found == [(run, *row) for run in "23" for row in (("run", None, 1), ("step", 1, 0), ("step", 2, 1))]


def test_samples_by_device_and_quantity() -> None:
    """Two counters for the power: the one with the better name counts; readings of one time are averaged."""
    readings: list[tuple[str, int | None, int, float]] = [
        ("power_draw", 1, 10, 5.0), ("power_draw", 0, 20, 7.0), ("power_draw", 0, 10, 3.0), ("power_draw", 0, 10, 5.0),
        ("power_draw", None, 30, 1.0), ("memory_used", 0, 10, 64.0),
    ]  # fmt: skip
    units = {"power_draw": "W", "memory_used": "B"}
    (found,) = module.device_samples(Tables(by_hand("counters", [
        {"name": name, "device": device, "start_ns": at, "value": value, "unit": units[name], "clock": "utc"}
        for name, device, at, value in readings
    ])))  # fmt: skip
    assert (found.run, found.clock, found.first, found.last, found.nodes) == ("r", "utc", 10, 30, {})
    assert [(device, name, series.times.tolist(), series.values.tolist()) for device, of in found.devices.items()
            for name, series in of.items()] == [
        (0, "power", [10, 20], [4.0, 7.0]), (0, "memory", [10], [64.0]), (1, "power", [10], [5.0]),
        (None, "power", [30], [1.0]),
    ]  # fmt: skip


def test_steps_of_a_trace(tmp_path: Path) -> None:
    """The range of a step is its window. Times of a trace since 1970 are in UTC."""
    begin = int(START.timestamp() * 1e6)
    events: list[dict[str, Any]] = [
        {
            "ph": "X",
            "cat": "user_annotation",
            "name": f"ProfilerStep#{i}",
            "pid": 1,
            "tid": 1,
            "ts": begin + 1e6 * i,
            "dur": 5e5,
        }
        for i in (1, 2)
    ]
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}))
    samples = [(t / 4, 0, 100.0 * t, 1.0) for t in range(12)]
    log = perflog.read(str(tmp_path / "trace.json"), smi(tmp_path / "smi.csv", samples, "Z"))
    assert [(r["step"], r["samples"], r["energy_j"]) for r in rows(telemetry(log), part="step")] == [
        (1, 2, 250),
        (2, 2, 450),
    ]


def test_energy_is_the_integral_of_a_linear_power() -> None:
    times = np.array([0, 1, 3], np.int64) * 10**9
    power = np.array([0.0, 100.0, 300.0])  # 100 W/s: energy until t is 50 t^2
    edges = np.array([0.0, 0.5, 1.5, 3.0])
    starts, ends = (edges[:-1] * 1e9).astype(np.int64), (edges[1:] * 1e9).astype(np.int64)
    assert energy(times, power, starts, ends).tolist() == pytest.approx(np.diff(50 * edges**2).tolist())
    assert np.isnan(energy(times, power, starts[:1] - 1, ends[:1])).all()
    assert np.isnan(energy(times[:1], power[:1], starts[:1], ends[:1])).all()


@pytest.mark.parametrize(
    ("name", "unit", "quantity"),
    [
        ("power_draw", "W", "power"), ("power_limit", "W", None), ("pwr", "W", "power"), ("POWER", None, "power"),
        ("gpu.0.powerWatts", "W", "power"), ("gpu.0.powerPercent", "1", None), ("gpu.0.gpu", "1", "utilisation"),
        ("utilization_gpu", "1", "utilisation"), ("utilization_memory", "1", None), ("GPUTL", None, None),
        ("sm", "1", "utilisation"), ("GRACT", None, "utilisation"), ("memory_used", "B", "memory"),
        ("fb", "B", "memory"),
        ("memory_total", "B", None), ("temperature_gpu", None, "temperature"), ("gtemp", "°C", "temperature"),
        ("mtemp", "°C", None), ("clocks_current_sm", "Hz", "clock"), ("clocks_max_sm", "Hz", None),
        ("pclk", "Hz", "clock"),
    ],
)  # fmt: skip
def test_what_a_counter_measures(name: str, unit: str | None, quantity: str | None) -> None:
    found = quantity_of(name, unit)
    assert (found and found[0]) == quantity


MEGATRON = (
    " [2026-02-24 19:46:{:02d}] iteration {:8d}/      50 | consumed samples:        51200 |"
    " elapsed time per iteration (ms): 1500.0 | learning rate: 1.000E-04 | global batch size:  1024 |"
    " lm loss: 3.411207E+00 | loss scale: 1.0 | grad norm: 0.412 | number of skipped iterations:   0 |"
    " number of nan iterations:   0 |\n"
)


def test_printed_step_times_give_the_windows(tmp_path: Path) -> None:
    """Lines at 19, 22 and 25 s with steps of 1.5 s: what lies between them belongs to no step."""
    path = tmp_path / "megatron.log"
    path.write_text("".join(MEGATRON.format(19 + 3 * i, i + 1) for i in range(3)))
    log = perflog.read(str(path), smi(tmp_path / "smi.csv", [(t / 2, 0, 100.0, 1.0) for t in range(20)]))
    assert log.arrow("steps")["clock"].to_pylist() == ["local"] * 3
    steps = [(r["step"], r["samples"], r["span_s"], r["energy_j"]) for r in rows(telemetry(log), part="step")]
    assert steps == [(i, 3, 1.5, 150.0) for i in (1, 2, 3)]
    (run,) = rows(telemetry(log), part="run")
    assert (run["samples"], run["span_s"], run["energy_j"]) == (15, 7.5, 750.0)


@pytest.mark.parametrize(
    ("samples", "devices", "nodes"),
    [
        ([("n1", 0), ("n1", 1)], [0, 1], {}),  # one node
        ([("n1", 0), ("n2", 0), ("n1", 1), ("n2", 0)], [0, 2, 1, 2], {0: ("n1", 0), 1: ("n1", 1), 2: ("n2", 0)}),
        ([(None, 0), (None, 1)], [0, 1], {}),
        ([("n1", None), ("n2", None)], [NULL, NULL], {}),
    ],
)
def test_devices_of_several_nodes_are_counted_through(
    samples: list[tuple[str | None, int | None]], devices: list[int], nodes: dict[int, tuple[str, int]]
) -> None:
    rows = [{"clock": "utc", "process": node, "device": device} for node, device in samples]
    found, by_run = module._of_nodes(Tables(by_hand("counters", rows)).rows("counters"))
    assert found.tolist() == devices and by_run.get("r", {}) == nodes
    without = Tables(by_hand("counters", [row | {"clock": None} for row in rows])).rows("counters")
    assert module._of_nodes(without)[1] == {}


@pytest.mark.parametrize(
    ("steps", "samples", "note"),
    [
        ("utc", "utc", None), ("local", "local", None),
        ("utc", "local", "steps are in UTC, samples without a time zone"),
        ("no_date", "no_date", "steps are without a date, samples without a date"),
        ("no_year", "utc", "steps are without a year, samples in UTC"),
        (None, "utc", "steps are on an unknown clock, samples in UTC"),
        ("trace", "utc", "steps are on the clock of a trace, samples in UTC"),
        ("utc", "boot", "steps are in UTC, samples on a trace clock"),
    ],
)  # fmt: skip
def test_clocks_that_cannot_be_compared(steps: str | None, samples: str | None, note: str | None) -> None:
    assert module._difference(steps, samples) == note
