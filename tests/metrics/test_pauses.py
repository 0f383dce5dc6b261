"""Pauses: what runs print of validations and checkpoints, and what the clock tells where they print nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.metrics_logs import by_hand
from support.paths import SHARED

import perflog
from perflog.metrics import Tables, pauses
from perflog.metrics.jobs import pauses as module
from perflog.tables.nulls import records
from perflog.tables.schema import TABLES

MLPERF = SHARED / "campaigns" / "mlperf_llama2_lora"


def table(name: str, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    blank: dict[str, Any] = {c.name: None for c in TABLES[name]}
    return pd.DataFrame([blank | {"run": "r", "copy": 1} | dict(row) for row in rows], columns=[*blank])


def of(
    steps: Sequence[Mapping[str, Any]] = (),
    values: Sequence[Mapping[str, Any]] = (),
    phases: Sequence[Mapping[str, Any]] = (),
    elapsed_s: float | None = None,
) -> list[dict[str, Any]]:
    """The pauses of a run with these rows. They say which line they are from."""
    runs = table("runs", [{"elapsed_s": elapsed_s}])
    tables = {"runs": runs, "steps": table("steps", steps), "values": table("values", values)}
    return records(pauses(tables | {"phases": table("phases", phases)}))


def timed_steps(count: int, step_s: float = 2.0) -> list[dict[str, Any]]:
    """Steps on every tenth line."""
    return [{"line": 10 * i, "step": i, "step_time_s": step_s, "steps_averaged": 1} for i in range(1, count + 1)]


def clock_steps(times: Sequence[float]) -> list[dict[str, Any]]:
    """Steps on every tenth line, with the readings of a clock."""
    return [
        {"line": 10 * i, "step": i, "elapsed_s": sum(times[:i]), "step_time_s": times[i - 1], "step_time_by": "clock"}
        for i in range(1, len(times) + 1)
    ]


@pytest.mark.parametrize(("elapsed_s", "run_s"), [(None, 50.0), (100.0, 100.0)])
def test_the_time_of_the_run_that_it_prints(elapsed_s: float | None, run_s: float) -> None:
    """Its clock comes first. No other name, unit or missing number is the time of a run."""
    runs = table("runs", [{"run": "quick"}, {"elapsed_s": elapsed_s}])
    value = {"line": 25, "key": "eval_runtime", "unit": "s", "value": 12.5}
    printed = [("train_runtime", "s", 50.0), ("load_time", "s", 9.0), ("train_runtime", None, 9.0)]
    end = [{"line": 60, "key": key, "unit": unit, "value": seconds} for key, unit, seconds in printed]
    end.append({"line": 61, "key": "train_time", "unit": "s", "value": None})
    tables = {"runs": runs, "values": table("values", [value]), "summaries": table("summaries", end)}
    (row,) = records(pauses(tables | {"steps": table("steps", []), "phases": table("phases", [])}))
    assert (row["run"], row["run_s"], row["share"]) == ("r", run_s, 12.5 / run_s)


def test_printed_durations() -> None:
    values = [
        {"line": 25, "key": "eval_runtime", "unit": "s", "value": 12.5},
        {"line": 55, "key": "eval_runtime", "unit": "s", "value": 7.5},
        {"line": 56, "key": "checkpoint_time", "unit": "s", "value": 4.0},
        {"line": 57, "key": "eval_samples_per_second", "unit": "1/s", "value": 40.0},
        {"line": 58, "key": "load_checkpoint_time", "unit": "s", "value": 99.0},
        {"line": 59, "key": "eval_time", "unit": None, "value": 99.0},
    ]
    validation, checkpoint = of(timed_steps(10), values)
    assert (validation["kind"], validation["known_by"], validation["n"]) == ("validation", "printed", 2)
    assert (validation["total_s"], validation["mean_s"], validation["max_s"]) == (20.0, 10.0, 12.5)
    assert (validation["first_line"], validation["last_line"]) == (25, 55)
    assert validation["run_s"] == 10 * 2.0 + 20.0 + 4.0
    assert validation["share"] == 20.0 / 44.0
    assert (checkpoint["kind"], checkpoint["total_s"]) == ("checkpoint", 4.0)


def test_pauses_that_the_step_time_includes_count_once() -> None:
    steps = timed_steps(10)
    steps[4]["step_time_s"] = 6.0
    values = [{"line": line, "key": "checkpoint_time", "unit": "s", "value": 4.0} for line in (50, 75)]
    (checkpoint,) = of(steps, values)
    assert (checkpoint["total_s"], checkpoint["run_s"]) == (8.0, 10 * 2.0 + 8.0)


def test_of_ranks_that_save_together_the_longest_counts() -> None:
    phases = [
        {"line": 25 + rank, "phase": "save_checkpoint", "rank": rank, "time_s": 5.0 + rank, "step": 2}
        for rank in range(4)
    ]
    (row,) = of(timed_steps(4), phases=phases)
    assert (row["kind"], row["n"], row["total_s"]) == ("checkpoint", 1, 8.0)


def test_a_duration_of_each_batch_is_no_pause() -> None:
    values = [{"line": 21 + i, "key": "eval_time", "unit": "s", "value": 0.4} for i in range(5)]
    assert of(timed_steps(4), values) == []
    assert of(timed_steps(4), [{"line": 25, "key": "eval_time", "unit": "s", "value": 0.0}]) == []
    saved = {"line": 35, "key": "checkpoint_time", "unit": "s", "value": 4.0}
    assert [(row["kind"], row["total_s"]) for row in of(timed_steps(4), [*values, saved])] == [("checkpoint", 4.0)]


def test_starts_and_ends() -> None:
    values = [
        {"line": 1, "key": "eval_start", "unit": "s", "value": 100.0},
        {"line": 2, "key": "eval_stop", "unit": "s", "value": 131.0},
        {"line": 3, "key": "eval_stop", "unit": "s", "value": 150.0},  # its start was lost
        {"line": 4, "key": "eval_start", "unit": "s", "value": 200.0},
        {"line": 5, "key": "eval_start", "unit": "s", "value": 210.0},  # the end of the first was lost
        {"line": 6, "key": "eval_stop", "unit": "s", "value": 239.0},
        {"line": 7, "key": "epoch_start", "unit": "s", "value": 240.0},
        {"line": 8, "key": "epoch_stop", "unit": "s", "value": 300.0},
        {"line": 9, "key": "12", "unit": "s", "value": 1.0},
        {"line": 10, "key": "eval_start", "unit": None, "value": 400.0},  # a number of samples, perhaps
        {"line": 11, "key": "eval_stop", "unit": "s", "value": 490.0},
        {"line": 12, "key": "val_start", "unit": "s", "value": 500.0},
        {"line": 13, "key": "val_end", "unit": "s", "value": 500.0},
    ]
    (row,) = of(values=values, elapsed_s=600.0)
    assert (row["known_by"], row["n"], row["total_s"], row["max_s"]) == ("moments", 3, 60.0, 31.0)
    assert (row["first_line"], row["last_line"], row["share"]) == (1, 12, 0.1)


def test_a_clock_that_goes_on() -> None:
    times = [2.0, 2.0, 2.01, 2.0, 7.0, 2.0, 1.99, 2.0, 2.0, 8.0, 2.0, 2.0]
    values = [{"line": line, "key": "val_loss", "value": 3.0} for line in (45, 95)]
    (row,) = of(clock_steps(times), values)
    assert (row["kind"], row["known_by"], row["n"]) == ("validation", "clock", 2)
    assert row["total_s"] == pytest.approx(5.0 + 6.0)
    assert (row["first_line"], row["last_line"]) == (50, 100)  # of the steps after them
    values.append({"line": 96, "key": "checkpoint_step", "value": 10.0})
    both = of(clock_steps(times), values)
    assert [(row["kind"], row["n"]) for row in both] == [("validation", 1), ("validation and checkpoint", 1)]


@pytest.mark.parametrize(
    ("times", "lines", "seconds"),
    [
        ([2.0, 2.1, 1.9, 2.0, 2.05, 2.0, 1.95, 2.0, 2.1, 2.0, 2.0, 2.0], (45, 95), []),  # stands still meanwhile
        ([2.0, 2.0, 2.0, 2.0, 7.0, 2.0, 2.0, 2.0, 2.0, 8.0, 2.0, 2.0], (), []),  # nothing says why
        ([2.0, 2.0, 9.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0], (25, 45, 65, 95), []),  # one slow step
        ([2.0, 2.0, 9.0, 2.0, 2.0, 2.0], (25, 45), []),  # half of the places
        ([2.0, 2.0, 9.0, 2.0, 9.0, 2.0, 2.0], (25, 45, 55), [7.0, 7.0]),
        ([2.0, 2.0, 7.0], (25,), []),  # too short to know a step
        ([2.0, 2.0, 7.0, 2.0], (25,), [5.0]),
        ([2.0, 7.0, 7.0, 7.0], (15, 25, 35), []),  # no step without a pause
        ([2.0, 7.0, 2.0, 2.0, 2.0, 8.0], (5, 15, 55, 65), [5.0, 6.0]),  # two are outside of the lines of steps
        ([0.0, 1.75, 2.25, 3.25, 1.75, 2.25], (35,), []),  # five times the scatter of 0.25 s may be chance
        ([0.0, 1.75, 2.25, 3.5, 1.75, 2.25], (35,), [1.5]),
        ([0.0, 100.0, 101.0, 100.0], (25,), []),  # as may a hundredth of a step
        ([0.0, 100.0, 102.0, 100.0], (25,), [2.0]),
        ([1.0] * 20 + [4.0] * 8 + [9.0] + [4.0] * 8, (285,), [5.0]),  # the steps around it count
    ],
)
def test_what_the_clock_tells(times: list[float], lines: tuple[int, ...], seconds: list[float]) -> None:
    rows = of(clock_steps(times), [{"line": line, "key": "val_loss", "value": 3.0} for line in lines])
    assert [(row["n"], row["total_s"]) for row in rows] == [(len(seconds), sum(seconds))] * bool(seconds)


def test_a_gap_is_longer_than_the_printed_time_of_its_step() -> None:
    steps = clock_steps([2.0, 2.0, 7.0, 2.0, 2.0])
    steps[2] |= {"step_time_s": 3.0, "step_time_by": None}
    (row,) = of(steps, [{"line": 25, "key": "val_loss", "value": 3.0}])
    assert row["total_s"] == 7.0 - 3.0


def test_each_line_of_several_steps_has_their_times() -> None:
    steps = [row | {"step": 10 * row["step"]} for row in clock_steps([20.0, 20.0, 26.0, 20.0])]
    (row,) = of(steps, [{"line": 25, "key": "val_loss", "value": 3.0}])
    assert row["total_s"] == pytest.approx(26.0 - 20.0)


def test_a_log_of_llama_factory(tmp_path: Path) -> None:
    """Its clock counts whole seconds and goes on while it evaluates."""
    lines, clock = list[dict[str, Any]](), 0
    for step in range(20, 420, 20):
        clock += 12
        common = {"current_steps": step, "total_steps": 774, "epoch": step / 774, "percentage": step / 7.74}
        lines.append({**common, "loss": 1.5, "lr": 5e-06, "elapsed_time": f"0:{clock // 60:02}:{clock % 60:02}"})
        if step % 100 == 0:
            clock += 8
            lines.append({**common, "eval_loss": 1.125, "elapsed_time": f"0:{clock // 60:02}:{clock % 60:02}"})
    log = tmp_path / "trainer_log.jsonl"
    log.write_text("".join(f"{json.dumps(line | {'remaining_time': '0:07:32'})}\n" for line in lines))
    (row,) = records(pauses(perflog.read(log)))
    assert (row["kind"], row["known_by"], row["n"], row["total_s"]) == ("validation", "clock", 3, 24.0)
    assert "Validation takes 9 % of the run's time: 3 x 8 s." in perflog.overview(perflog.read(log)).reasons


@pytest.mark.skipif(not MLPERF.is_dir(), reason="needs the MLPerf results in ../shared/campaigns")
def test_results_of_mlperf() -> None:
    """Against the events of the file, decoded here."""
    path = min(MLPERF.glob("*/result_0.txt"))
    events = [json.loads(line.split(":::MLLOG ")[1]) for line in path.read_text().splitlines() if ":::MLLOG" in line]
    moment = {
        key: [e["time_ms"] for e in events if e["key"] == key]
        for key in ("eval_start", "eval_stop", "run_start", "run_stop")
    }
    total = sum(moment["eval_stop"]) - sum(moment["eval_start"])
    (row,) = records(pauses(perflog.read(path)))
    assert row["n"] == len(moment["eval_start"]) > 3
    assert row["total_s"] == pytest.approx(total / 1000, abs=1e-6)
    assert row["share"] == pytest.approx(total / (moment["run_stop"][0] - moment["run_start"][0]), abs=1e-6)


def test_a_moment_is_no_duration() -> None:
    """A program that prints the end of saving, as `save_checkpoint`, and not its start."""
    values = [
        {"line": 25, "key": "save_checkpoint", "unit": "s", "value": 1634155649.0},
        {"line": 55, "key": "eval_time", "unit": "s", "value": 3.0},
    ]
    (row,) = of(timed_steps(10), values)
    assert (row["kind"], row["total_s"]) == ("validation", 3.0)


def test_an_end_with_a_start_that_is_no_moment() -> None:
    values = [
        {"line": 21, "key": "eval_start", "unit": "s", "value": 0.0},
        {"line": 25, "key": "eval_stop", "unit": "s", "value": 1634155649.0},
    ]
    assert of(timed_steps(10), values) == []


def test_pauses_that_are_longer_than_the_run_have_no_share() -> None:
    values = [{"line": 25, "key": "eval_time", "unit": "s", "value": 50.0}]
    (row,) = of(timed_steps(10), values, elapsed_s=20.0)
    assert (row["total_s"], row["share"]) == (50.0, None)


def test_a_run_without_values_or_steps_has_no_pauses() -> None:
    steps = Tables(by_hand("steps", [{"step": step, "elapsed_s": 9.0 * step} for step in range(9)])).rows("steps")
    assert module._pauses(None, None, steps) == module._pauses(steps, None, None) == ("clock", [])


def test_names_that_are_no_durations_end_no_search() -> None:
    values = [{"key": key, "value": 0.5, "unit": "s"} for key in ("loss", "checkpoint_rate", "checkpoint_time")]
    found = list(module._printed(Tables(by_hand("values", values)).rows("values"), "key", "value", None))
    assert [(pause.kind, pause.line, pause.seconds) for pause in found] == [("checkpoint", 3, 0.5)]


def test_a_clock_is_read_where_steps_go_on() -> None:
    """A line that repeats a step, or goes back, is no reading; nor is any clock that goes back itself."""
    clock = [(1, 10.0), (2, 20.0), (2, 25.0), (1, 26.0), (3, 30.0)]
    steps = Tables(by_hand("steps", [{"step": step, "elapsed_s": at} for step, at in clock])).rows("steps")
    assert [column.tolist() for column in module._readings(steps)[:3]] == [[1, 2, 5], [1, 2, 3], [10.0, 20.0, 30.0]]


@pytest.mark.parametrize(
    ("rows", "clock"),
    [
        ([{"elapsed_s": at} for at in (3.0, 2.0, 4.0, 5.0)], []),
        ([{"elapsed_s": at} for at in (3.0, 3.0, 4.0, 4.0)], [3.0, 3.0, 4.0, 4.0]),  # it counts whole seconds
        ([{"elapsed_s": at, "printed_ns": 10**9} for at in (3.0, 4.0, 5.0)], [1.0, 1.0, 1.0]),  # too few readings
        ([{"printed_ns": at * 10**9} for at in (7, 9)], [7.0, 9.0]),
        ([{"elapsed_s": at, "rank": rank} for at in (1.0, 2.0, 3.0, 4.0) for rank in (5, 3)], [1.0, 2.0, 3.0, 4.0]),
        ([{"elapsed_s": at, "copy": copy} for copy in (1, 2) for at in (1.0, 2.0, 3.0, 4.0)], [1.0, 2.0, 3.0, 4.0]),
        ([{"elapsed_s": at, "step": None} for at in (1.0, 2.0, 3.0, 4.0)], []),
        ([{}], []),
    ],
)
def test_readings_of_the_clock(rows: list[dict[str, Any]], clock: list[float]) -> None:
    steps = Tables(by_hand("steps", [{"step": at} | row for at, row in enumerate(rows)])).rows("steps")
    assert module._readings(steps)[2].tolist() == clock


@pytest.mark.parametrize(
    ("seconds", "before", "included"),
    [
        ([2.0, 2.0, 6.0, 2.0], [0.0, 0.0, 4.0, 0.0], [2]),
        ([2.0, 2.0, 2.0, 2.0], [0.0, 0.0, 4.0, 0.0], []),
        ([9.0, 6.0, 2.0, 2.0, 2.0], [4.0, 4.0, 0.0, 0.0, 0.0], [1]),  # the first is long for other reasons
        ([2.0, 3.0, 2.0], [0.0, 2.0, 0.0], []),  # 1 s is as far from 2 s as 3 s are
        ([2.0, 6.0, 2.0], [0.0, 5.0, 0.0], [1]),
        ([2.0, 6.0, 2.0], [0.0, 6.0, 0.0], []),  # no time is left for the step
    ],
)
def test_a_step_time_includes_the_pause_without_which_it_is_usual(
    seconds: list[float], before: list[float], included: list[int]
) -> None:
    assert np.flatnonzero(module.include_pauses(np.array(seconds), np.array(before))).tolist() == included


@pytest.mark.parametrize(
    ("steps", "run_s"),
    [
        ([(1, 2.0), (2, 2.0), (3, 2.0)], 6.0 + 4.0),
        ([(1, 2.0), (3, 2.0)], None),  # a step between them has no time
        ([(2, 2.0, 2), (4, 2.0, 2), (6, 4.0, 2), (8, 2.0, 2)], 2 * (2.0 + 2.0 + 4.0 + 2.0)),  # the pause is in a mean
        ([(1, 2.0, 1, 0), (2, 2.0, 1, 0), (1, 2.0, 1, 1), (2, 2.0, 1, 1)], 8.0 + 4.0),  # each epoch counts from new
        ([(1, 2.0, 1, 0), (2, 2.0, 1, 0), (1, 2.0, 1, 1), (3, 2.0, 1, 1)], None),
        ([(1, None), (2, None)], None),
    ],
)
def test_the_time_of_a_run_is_that_of_all_its_steps_and_pauses(steps: list[tuple[Any, ...]], run_s: float) -> None:
    names = ("step", "step_time_s", "steps_averaged", "epoch")
    rows = [{"line": 10 * at, "rank": rank, "steps_averaged": 1, **dict(zip(names, step, strict=False))}
            for at, step in enumerate(steps, 1) for rank in (0, 1)]  # fmt: skip
    (row,) = of(rows, [{"line": 25, "key": "checkpoint_time", "unit": "s", "value": 4.0}])
    assert (row["total_s"], row["run_s"]) == (4.0, run_s)


def test_lines_that_report_a_pause() -> None:
    """With the seconds that one prints, and without for each line that speaks of a pause."""
    keys = [("eval_time", "s", 3.0), ("loss", None, 2.0), ("val_loss", None, 2.5)]
    values = Tables(by_hand("values", [{"key": key, "unit": unit, "value": value} for key, unit, value in keys]))
    lines = list(module.pause_lines(values.rows("values"), None, None))
    assert lines == [("validation", 1, 3.0), ("validation", 1, None), ("validation", 3, None)]
    phases = Tables(by_hand("phases", [{"phase": "save_checkpoint", "time_s": 5.0}])).rows("phases")
    assert list(module.pause_lines(None, phases, None)) == [("checkpoint", 1, 5.0)]
