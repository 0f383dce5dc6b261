"""Time to train: the clock of each run, and MLPerf's score of the runs of a folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import perflog
from perflog.metrics import time_to_train
from perflog.tables.nulls import records
from perflog.tables.schema import TABLES


def tables(
    times: Sequence[float | None], configs: Sequence[dict[str, Any]] = (), folder: str = "runs"
) -> dict[str, Any]:
    """Table `runs` of logs in one folder."""
    import pandas as pd

    blank = {c.name: None for c in TABLES["runs"]}
    rows = [
        blank
        | {"run": f"r{i}", "log": f"{folder}/result_{i}.txt", "elapsed_s": time, "elapsed_line": 9}
        | {"config": json.dumps(configs[i] if configs else {})}
        for i, time in enumerate(times)
    ]
    return {"runs": pd.DataFrame(rows)}


def of_folder(**arguments: Any) -> dict[str, Any]:
    (row,) = [row for row in records(time_to_train(tables(**arguments))) if row["of"] == "folder"]
    return row


def test_the_score_leaves_out_the_fastest_and_the_slowest() -> None:
    row = of_folder(times=[100.0, 10.0, 20.0, 30.0, 1.0])
    assert (row["label"], row["n"], row["time_s"], row["median_s"]) == ("runs", 5, 32.2, 20.0)
    assert (row["min_s"], row["max_s"], row["score_s"]) == (1.0, 100.0, 20.0)
    assert row["sd_s"] == pytest.approx(39.4233, abs=1e-4)


def test_a_run_without_success_is_the_slowest_one() -> None:
    """It stopped after 1 s: without its status it would be the fastest, and the score 20 s."""
    configs = [{"status": "success"}] * 4 + [{"status": "aborted"}]
    row = of_folder(times=[100.0, 10.0, 20.0, 30.0, 1.0], configs=configs)
    assert (row["score_s"], row["n"], row["status"]) == (50.0, 4, "4 success, 1 aborted")


def test_two_runs_without_success_have_no_score() -> None:
    configs = [{"success": "true"}] * 3 + [{"success": "false"}] * 2
    assert of_folder(times=[1.0, 2.0, 3.0, 4.0, 5.0], configs=configs)["score_s"] is None


def test_two_runs_have_no_score() -> None:
    row = of_folder(times=[1.0, 3.0])
    assert (row["time_s"], row["score_s"]) == (2.0, None)


def test_settings_that_differ_are_named() -> None:
    configs: list[dict[str, Any]] = [{"seed": 1, "batch": 8}, {"seed": 2, "batch": 8}, {"seed": 3, "batch": 8, "lr": 1}]
    assert of_folder(times=[1.0, 2.0, 3.0], configs=configs)["differing"] == "seed, lr"
    assert of_folder(times=[1.0, 2.0, 3.0])["differing"] is None


def test_a_run_without_a_clock_has_no_row() -> None:
    table = time_to_train(tables([1.5, None]))
    assert table["run"].to_list() == ["r0"] and table["time_s"].to_list() == [1.5]


@pytest.mark.parametrize(("cut_off", "score"), [(1, 63.0), (2, None)])
def test_a_cut_off_result_counts_as_the_slowest(tmp_path: Path, cut_off: int, score: float | None) -> None:
    """Results in MLPerf's form: three that stop after 60, 61 and 65 s with success, and others without their end."""
    event = (
        ':::MLLOG {{"namespace": "", "time_ms": {}, "event_type": "{}", "key": "{}", "value": null, "metadata": {}}}\n'
    )
    for i, seconds in enumerate((60, 61, 65, *[None] * cut_off)):
        text = event.format(1755476345692 + i, "INTERVAL_START", "run_start", '{"file": "a.py", "lineno": 1}')
        if seconds is not None:
            status = '{"file": "a.py", "lineno": 2, "status": "success"}'
            text += event.format(1755476345692 + i + 1000 * seconds, "INTERVAL_END", "run_stop", status)
        (tmp_path / f"result_{i}.txt").write_text(text)
    (row,) = [row for row in records(time_to_train(perflog.read(tmp_path))) if row["of"] == "folder"]
    assert (row["n"], row["time_s"], row["median_s"], row["score_s"]) == (3, 62.0, 61.0, score)
    assert row["status"] == f"3 success, {cut_off} without an end"


def test_of_three_runs_the_middle_one_is_the_score() -> None:
    assert of_folder(times=[3.0, 1.0, 2.5])["score_s"] == 2.5


def test_a_run_is_a_row_of_its_own() -> None:
    (row,) = records(time_to_train(tables([90.0], [{"status": "success", "seed": 1}])))
    assert (row["of"], row["n"], row["time_s"], row["status"], row["last_line"]) == ("run", 1, 90.0, "success", 9)
