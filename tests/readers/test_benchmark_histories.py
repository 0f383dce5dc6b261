"""Histories that benchmark programs keep: github-action-benchmark's data.js, asv's results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.benchmark_files import (
    COMMITS,
    RESULTS,
    SLOWER,
    asv,
    bench,
    bencher,
    cargo,
    data_js,
    entry,
    hud,
    hud_records,
)
from support.commands import run

import perflog
from perflog.errors import InputError
from perflog.parsing.input.source import open_source
from perflog.readers.registry import find_reader


def by_key(log: perflog.Log) -> dict[str, Any]:
    rows = log.table("values")
    rows = rows[rows["run"] == rows["run"].iloc[0]]
    return {key: (value, unit) for key, value, unit in zip(rows["key"], rows["value"], rows["unit"], strict=True)}


@pytest.mark.parametrize("before", ["window.BENCHMARK_DATA = ", ""], ids=["data.js", "JSON"])
def test_each_entry_is_a_run_with_a_figure_for_each_benchmark(tmp_path: Path, before: str) -> None:
    path = data_js(tmp_path / "data.js", {"Rust": [entry(k, "cargo", cargo(k)) for k in range(12)]}, before)
    log = perflog.read(path)
    assert len(log) == 12
    assert set(log.runs["format"]) == {"github_benchmark"}
    assert set(log.runs["program"]) == {"Rust"}
    assert list(log.runs["first_line"]) == [3 * k + 1 for k in range(12)]
    known = by_key(log)
    assert set(known) == {"sort", "send", "cells [cycles]"}
    assert known["sort"] == (pytest.approx(1.49625e-6), "s")
    lines = log.table("lines")
    assert int(lines["figures_stored"].sum()) == 36
    reasons = set(lines["dropped_because"].dropna())
    assert reasons == {"it is the scatter within a run", "it describes how a value was measured"}


def test_a_history_is_tracked_by_commit(tmp_path: Path) -> None:
    entries = [entry(k, "cargo", cargo(k)) for k in range(12)]
    path = data_js(tmp_path / "data.js", {"Rust": entries[::-1]})
    found = perflog.track(path)
    (course, change), *others = found.changes
    assert not others
    assert (course.figure.name, course.figure.unit, course.verdict(change.change)) == ("sort", "s", "regression")
    assert (change.before.name, change.after.name) == (COMMITS[SLOWER - 1], COMMITS[SLOWER])
    assert change.after.at == "2026-01-07 23:30:00"
    assert change.low < 0.1 < change.high
    assert {c.figure.name: c.figure.better for c in found.courses} == {
        "sort": "lower", "send": "higher", "cells [cycles]": None,
    }  # fmt: skip
    assert f'Since {COMMITS[SLOWER][:9]} "Change {SLOWER}" (2026-01-07 23:30)' in " ".join(
        run("track", path).stdout.split()
    )


def test_suites_are_tests_and_a_tool_tells_which_way_is_better(tmp_path: Path) -> None:
    suites = {
        name: [entry(k, tool, [bench("width", 50 + k % 2, "points")]) for k in range(9)]
        for name, tool in (("up", "customBiggerIsBetter"), ("down", "customSmallerIsBetter"))
    }
    found = perflog.track(data_js(tmp_path / "data.js", suites))
    assert [(course.test, course.figure.better) for course in found.courses] == [
        ("github_benchmark, up", "higher"),
        ("github_benchmark, down", "lower"),
    ]


def test_the_summary_of_a_go_benchmark_counts_once(tmp_path: Path) -> None:
    benches = [
        bench("BenchmarkSet", 7721, "ns/op\t   4.14 MB/s\t     344 B/op", extra="140911 times\n4 procs"),
        bench("BenchmarkSet - ns/op", 7721, "ns/op"),
        bench("BenchmarkSet - MB/s", 4.14, "MB/s"),
        bench("BenchmarkSet - B/op", 344, "B/op"),
        bench("BenchmarkOld", 12, "ns/op\t       0 B/op"),
    ]
    log = perflog.read(data_js(tmp_path / "data.js", {"Go": [entry(0, "go", benches)]}))
    rows = log.table("values")[["key", "value", "unit"]].to_dict("records")
    assert rows == [
        {"key": "BenchmarkSet", "value": pytest.approx(7.721e-6), "unit": "s"},
        {"key": "BenchmarkSet", "value": pytest.approx(4.14e-3), "unit": "GB/s"},
        {"key": "BenchmarkSet", "value": 344.0, "unit": "B"},
        {"key": "BenchmarkOld", "value": pytest.approx(1.2e-8), "unit": "s"},
    ]


def test_an_entry_that_failed_and_one_that_is_no_number(tmp_path: Path) -> None:
    benches: list[dict[str, Any]] = [bench("a", 1, "s"), bench("b", None, "s"), {"name": "c", "value": "fast"}]
    log = perflog.read(data_js(tmp_path / "data.js", {"x": [entry(0, "cargo", benches), {"benches": []}]}))
    assert list(log.table("values")["key"]) == ["a"]
    lines = log.table("lines")
    assert int(lines["figures_unread"].sum()) == 1
    assert dict(zip(lines["status"], lines["count"], strict=False))["unread"] == 2


@pytest.mark.parametrize(
    "text", ['window.BENCHMARK_DATA = {\n  "lastUpdate": 1,', 'window.BENCHMARK_DATA = {"entries": {}}']
)
def test_a_broken_history_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "data.js"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError):
        perflog.read(str(path))


# --- asv ----------------------------------------------------------------------------------------------------------


def test_results_of_asv_have_units_and_parameters(tmp_path: Path) -> None:
    path = asv(tmp_path, 0, RESULTS)
    units = {"suite.track_ratio": {"unit": "%", "type": "track"}, "version": 2}
    (tmp_path / "results" / "benchmarks.json").write_text(json.dumps(units), encoding="utf-8")
    log = perflog.read(path)
    known = by_key(log)
    assert known["suite.time_sort"] == (0.0123, "s")
    assert known["suite.peakmem_sort"] == (4096, "B")
    ratios = [f"suite.track_ratio({params})" for params in ("'a', 1", "'b', 1", "'b', 2")]
    first = known[ratios[0]][0]
    assert [known[name][0] / first for name in ratios] == pytest.approx([1, 1.5, 2])
    assert len(known) == 5
    assert "suite.time_failed" not in known


def test_results_of_the_first_version_of_asv(tmp_path: Path) -> None:
    content = {
        "commit_hash": COMMITS[0], "date": 1386688801000, "params": {"machine": "cheetah"}, "python": "2.7",
        "requirements": {}, "version": 1,
        "results": {"time_x": 6.5e-05, "mem_y": 728, "time_z": {"params": [["1", "2"]], "result": [0.1, None]}},
    }  # fmt: skip
    path = tmp_path / "05d283b9-py2.7.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    assert by_key(perflog.read(str(path))) == {"time_x": (6.5e-05, "s"), "mem_y": (728, "B"), "time_z(1)": (0.1, "s")}


def test_asv_tells_a_new_machine_from_a_change_of_the_program(tmp_path: Path) -> None:
    for k in range(12):
        slow = 1.2 if k >= SLOWER else 1
        values = {"suite.time_sort": [[0.01 * slow * (1 + k * 37 % 11 / 3000)]]}
        asv(tmp_path, k, values, cpu="EPYC" if k >= SLOWER else "Xeon")
    (change,) = [change for _, change in perflog.track(str(tmp_path)).changes]
    assert (change.after.name, change.cause) == (COMMITS[SLOWER], "machine")


def test_machines_of_asv_are_tests(tmp_path: Path) -> None:
    for k in range(9):
        for machine, speed in (("fast", 1), ("slow", 3)):
            asv(tmp_path, k, {"suite.time_sort": [[0.01 * speed * (1 + k * 37 % 11 / 3000)]]}, machine)
    found = perflog.track(str(tmp_path))
    assert len(found.courses) == 2
    assert not found.changes


def test_other_json_is_no_history(tmp_path: Path) -> None:
    for number, text in enumerate(('{"commit_hash": "abc", "loss": 1.5}', '{"date": "2026-01-01", "loss": 1.5}')):
        path = tmp_path / f"{number}.json"
        path.write_text(text, encoding="utf-8")
        with open_source(str(path)) as source:
            assert find_reader(source) is None


# --- PyTorch's benchmark database ---------------------------------------------------------------------------------


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


# --- Bencher ------------------------------------------------------------------------------------------------------


def test_iterations_of_a_report_of_bencher_are_repeats_of_a_version(tmp_path: Path) -> None:
    jitter = {k: 0.01 * (1 + k * 37 % 11 / 3000) * (1.1 if k >= SLOWER else 1) for k in range(12)}
    path = bencher(tmp_path / "perf.json", jitter)
    log = perflog.read(path)
    assert len(log) == 24
    assert {key: value[1] for key, value in by_key(log).items()} == {"sort: Latency": "s", "sort: Throughput": "1/s"}
    assert by_key(log)["sort: Latency"][0] == pytest.approx(0.01)
    lines = log.table("lines")
    assert (int(lines["figures_stored"].sum()), int(lines["figures_dropped"].sum())) == (48, 96)
    found = perflog.track(path)
    by_name = {course.figure.name: (course, change) for course, change in found.changes}
    latency, throughput = by_name["sort: Latency"], by_name["sort: Throughput"]
    assert latency[0].runs == (2,) * 12
    assert latency[1].after.name == COMMITS[SLOWER]
    assert [c.verdict(change.change) for c, change in (latency, throughput)] == ["regression", "improvement"]
