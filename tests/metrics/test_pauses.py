"""Pauses: what runs print of validations and checkpoints, and what the clock tells where they print nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

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


def test_the_time_of_the_run_that_it_prints() -> None:
    value = {"line": 25, "key": "eval_runtime", "unit": "s", "value": 12.5}
    end = table("summaries", [{"line": 60, "key": "train_runtime", "unit": "s", "value": 50.0}])
    tables = {"runs": table("runs", [{}]), "values": table("values", [value]), "summaries": end}
    (row,) = records(pauses(tables | {"steps": table("steps", []), "phases": table("phases", [])}))
    assert (row["run_s"], row["share"]) == (50.0, 0.25)


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
    ]
    (row,) = of(values=values, elapsed_s=600.0)
    assert (row["known_by"], row["n"], row["total_s"], row["max_s"]) == ("moments", 2, 60.0, 31.0)
    assert row["share"] == 0.1


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
    ("times", "lines"),
    [
        ([2.0, 2.1, 1.9, 2.0, 2.05, 2.0, 1.95, 2.0, 2.1, 2.0, 2.0, 2.0], (45, 95)),  # stands still meanwhile
        ([2.0, 2.0, 2.0, 2.0, 7.0, 2.0, 2.0, 2.0, 2.0, 8.0, 2.0, 2.0], ()),  # nothing says why
        ([2.0, 2.0, 9.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0], (25, 45, 65, 95)),  # one slow step
        ([2.0, 7.0], (15,)),  # too short to know a step
    ],
)
def test_what_the_clock_does_not_tell(times: list[float], lines: tuple[int, ...]) -> None:
    assert of(clock_steps(times), [{"line": line, "key": "val_loss", "value": 3.0} for line in lines]) == []


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
    back = Tables(by_hand("steps", [{"step": n, "elapsed_s": at} for n, at in enumerate((3.0, 2.0, 4.0, 5.0))]))
    assert [len(column) for column in module._readings(back.rows("steps"))] == [0] * 4
