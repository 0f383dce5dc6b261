"""Records of PyTorch's benchmark database."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.benchmark_files import (
    COMMITS,
    SLOWER,
    by_key,
    hud,
    hud_records,
)
from support.reading import proof_of

import perflog
from perflog.errors import InputError
from perflog.parsing.input.source import Source
from perflog.readers.benchmarks.pytorch_benchmarks import _config, _figures, _leaves, _runs


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


def record(**more: Any) -> dict[str, Any]:
    return {"benchmark": {"name": "b"}, "metric": {"name": "time_ms", "benchmark_values": [1.5]}} | more


@pytest.mark.parametrize(
    ("metric", "shape", "figures"),
    [
        ({"name": "time_ms", "benchmark_values": [1.5, 2]}, None, [("time", 1.5, "ms"), ("time", 2, "ms")]),
        ({"name": "time_ms", "benchmark_values": 1.5}, None, [("time", 1.5, "ms")]),
        ({"name": 5, "benchmark_values": [1]}, None, [("value", 1, "")]), ({}, None, [("value", None, "")]),
        ({"name": "speed", "benchmark_values": []}, ["a"], []),
        ({"name": "speed", "benchmark_values": [1, 2]}, ["a", "b"], [("speed a", 1, ""), ("speed b", 2, "")]),
        ({"name": "speed", "benchmark_values": [1, 2]}, ["a"], [("speed", 1, ""), ("speed", 2, "")]),
        ({"name": "speed", "benchmark_values": [1]}, ["a"], [("speed", 1, "")]),
    ],
)  # fmt: skip
def test_values_of_a_record(metric: dict[str, Any], shape: Any, figures: list[tuple[str, Any, str]]) -> None:
    found = list(_figures(record(metric=metric, shape=shape), 7))
    assert [(each.name, each.value, each.unit) for each in found] == figures
    assert {each.place for each in found} <= {7}


def test_settings_of_a_record() -> None:
    deep: Any = {"e": 5}
    for name in "dcba":
        deep = {name: deep}
    found = _config(record(
        benchmark={"mode": "train", "dtype": None, "extra_info": {"a": {"b": 1}, "list": [1], "x": deep}},
        model={"type": "OSS", "backend": "eager", "name": "m"}, runners=[{"name": "r", "gpu": {"n": 8}}, {"name": "s"}],
        head_sha="1", head_branch="main", workflow_id=2, job_id=3, timestamp=1_767_225_600,
    ))  # fmt: skip
    assert found == {
        "mode": "train", "a.b": 1, "model_type": "OSS", "backend": "eager", "runner.name": "r", "runner.gpu.n": 8,
        "commit": "1", "branch": "main", "workflow_id": 2, "job_id": 3, "date": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    assert _config(record(timestamp=1_767_225_600_000))["date"] == "2026-01-01T00:00:00Z"
    assert _config(record(timestamp="x", runners=[], model="m")) == _config(record(runners={"name": "r"})) == {}


def test_objects_in_four_objects_are_settings() -> None:
    assert list(_leaves({"a": {"b": {"c": {"d": 5}}}}, "")) == [("a.b.c.d", 5)]
    assert list(_leaves({"a": {"b": {"c": {"d": {"e": 5}}}}}, "")) == []
    assert list(_leaves({"a": [1], "b": None}, "r")) == [("r.b", None)]
    assert list(_leaves(5, "")) == []


def test_records_of_one_benchmark_model_and_settings_are_a_run(tmp_path: Path) -> None:
    path = hud(
        tmp_path / "a.json", [record(model="m"), {}, record(model="n"), record(model={"name": "m"}), record(metric=5)]
    )
    found = list(_runs(Source("a.json", path)))
    assert [(run.program, run.model, [figure.place for figure in run.figures]) for run in found] == [
        ("b", "m", [1, 4]), ("b", "n", [3])
    ]  # fmt: skip
    with pytest.raises(InputError, match="no record of a benchmark"):
        list(_runs(Source("a.json", hud(tmp_path / "b.json", [{"benchmark": {}}]))))


def test_the_proof_is_the_first_benchmarks(tmp_path: Path) -> None:
    records = [record(benchmark={"name": name}) for name in ("b", "b", "a", "", "d")]
    path = hud(tmp_path / "results.json", records)
    assert proof_of(path) == [(1, "benchmark", name) for name in ("b", "a", "-")]
