"""Records of PyTorch's benchmark database."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.benchmark_files import (
    COMMITS,
    SLOWER,
    by_key,
    hud,
    hud_records,
)

import perflog


def test_records_with_the_same_settings_are_a_run(tmp_path: Path) -> None:
    log = perflog.read(hud(tmp_path / "results.pytorch.json", hud_records(0, database=False)))
    (row,) = log.runs.to_dict("records")
    assert (row["format"], row["program"], row["model"]) == ("pytorch_benchmarks", "vLLM benchmark", "llama")
    assert json.loads(row["config"]) == {
        "args.model": "llama",
        "args.tensor_parallel_size": 2,
        "model_type": "OSS model",
    }
    rows = log.table("values")
    assert list(rows["key"]) == ["median_ttft", *["tokens_per_s"] * 3]
    assert list(rows["value"]) == pytest.approx([0.02, 1500, 1502, 1501])
    assert list(rows["unit"]) == ["s", "1/s", "1/s", "1/s"]


@pytest.mark.parametrize("lines", [False, True])
def test_records_of_the_database_are_tracked_by_commit(tmp_path: Path, lines: bool) -> None:
    records = [each for k in range(12) for each in hud_records(k, seconds=1.2 if k >= SLOWER else 1)]
    found = perflog.track(hud(tmp_path / "export.json", records, lines))
    (course, change), *others = found.changes
    assert not others
    assert (course.figure.name, course.figure.better) == ("median_ttft", "lower")
    assert (change.after.name, change.after.at, change.cause) == (COMMITS[SLOWER], "2026-01-08", "program")
    assert found.courses[0].test == "pytorch_benchmarks, vLLM benchmark, llama"


def test_a_new_runner_is_a_change_of_the_machine(tmp_path: Path) -> None:
    records = [each for k in range(12) for each in hud_records(k, seconds=0.5 if k >= SLOWER else 1)]
    for number, record in enumerate(records):
        if number >= 2 * SLOWER:
            record["runners"] = [{"name": "h100", "gpu_info": "H100"}]
    (change,) = (change for _, change in perflog.track(hud(tmp_path / "export.json", records)).changes)
    assert change.cause == "machine"
    assert "runner.gpu_info A100 -> H100" in map(str, change.settings)


def test_values_by_shape_have_its_name(tmp_path: Path) -> None:
    record = {
        "benchmark": {"name": "Helion"}, "model": {"name": "add"}, "shape": ["[1, 2]", "[3, 4]"],
        "metric": {"name": "speedup", "benchmark_values": [1.5, None]},
    }  # fmt: skip
    assert {key: value for key, (value, _) in by_key(perflog.read(hud(tmp_path / "a.json", [record]))).items()} == {
        "speedup [1, 2]": 1.5
    }
