"""Outcomes: numbers that a log prints only after the training are no settings, and match no runs."""

from __future__ import annotations

import json
from pathlib import Path

import perflog
from perflog.settings.run_settings import settings_of

START = 1_700_000_000_000  # ms


def mlperf_result(path: Path, seed: int, seconds: int, samples: int, batch: int = 448) -> None:
    """An MLPerf result that prints after the end of training how many samples it took."""
    end = START + 1000 * seconds
    events: list[tuple[int, str, str, object, dict[str, object]]] = [
        (START - 2, "POINT_IN_TIME", "submission_benchmark", "bert", {}),
        (START - 2, "POINT_IN_TIME", "global_batch_size", batch, {}),
        (START - 1, "POINT_IN_TIME", "seed", seed, {}),
        (START, "INTERVAL_START", "run_start", None, {}),
        (end - 10, "POINT_IN_TIME", "eval_accuracy", 0.72, {"epoch_num": 1}),
        (end, "INTERVAL_END", "run_stop", None, {"status": "success"}),
        (end + 1, "POINT_IN_TIME", "train_samples", samples, {}),
    ]
    lines = (
        {"namespace": "", "time_ms": time, "event_type": kind, "key": key, "value": value,
         "metadata": {"file": "a.py", "lineno": 1, **more}}
        for time, kind, key, value, more in events
    )  # fmt: skip
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f":::MLLOG {json.dumps(line)}\n" for line in lines))


def folder(path: Path, factor: float, batch: int = 448) -> str:
    for k, samples in enumerate((2_400_000, 2_550_000, 2_550_000, 2_700_000, 2_700_000, 2_850_000)):
        mlperf_result(path / f"result_{k}.txt", k, int(factor * samples / 4000) + k % 2, samples, batch)
    return str(path)


def test_what_is_known_only_after_training_matches_no_runs(tmp_path: Path) -> None:
    base, side = folder(tmp_path / "a", 1.0), folder(tmp_path / "b", 1.3)
    compared = perflog.compare(base, side)
    assert [len(runs) for runs in compared.cases[0].runs] == [6, 6] and len(compared.cases) == 1
    named = {row.setting for row in compared.setting_records} | {row.setting for row in compared.varied_records}
    assert "train_samples" not in named
    (row,) = compared.headlines
    assert (row.metric, row.verdict) == ("elapsed", "regression")


def test_the_log_keeps_an_outcome(tmp_path: Path) -> None:
    log = perflog.read(folder(tmp_path / "a", 1.0))
    for row in log.arrow("runs").to_pylist():
        assert json.loads(row["outcomes"]) == ["train_samples"]
        assert json.loads(row["config"])["train_samples"] >= 2_400_000
        assert {"global_batch_size", "seed"} < settings_of(row).keys() and "train_samples" not in settings_of(row)


def test_a_setting_before_the_training_is_none(tmp_path: Path) -> None:
    """Other batch sizes stay another configuration."""
    base, side = folder(tmp_path / "a", 1.0), folder(tmp_path / "b", 1.0, batch=512)
    compared = perflog.compare(base, side)
    assert ("global_batch_size", "448", "512") in {
        (row.setting, *row.values.values()) for row in compared.setting_records
    }
