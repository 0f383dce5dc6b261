"""The history of github-action-benchmark: data.js."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.benchmark_files import (
    COMMITS,
    SLOWER,
    bench,
    by_key,
    cargo,
    data_js,
    entry,
)
from support.commands import run

import perflog
from perflog.errors import InputError


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
