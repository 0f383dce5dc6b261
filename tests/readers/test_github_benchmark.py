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
from support.reading import proof_of

import perflog
from perflog.errors import InputError
from perflog.parsing.input.source import Source
from perflog.readers.benchmarks.github_benchmark import GithubBenchmarkReader, _aside, _config, _figures, _runs


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


@pytest.mark.parametrize(
    ("head", "is_history"),
    [
        ('window.BENCHMARK_DATA = {"lastUpdate": 1,', True), ('{"lastUpdate": 1, "repoUrl": "https://x/"', True),
        ('{"entries": {"Rust": [{"benches": [', True), ('{"entries": {"a": 1}}', False), ('{"benches": []}', False),
    ],
)  # fmt: skip
def test_what_begins_like_a_history(tmp_path: Path, head: str, is_history: bool) -> None:
    (tmp_path / "a.json").write_text(head)
    assert GithubBenchmarkReader().detect(Source("a.json", str(tmp_path / "a.json"))) is is_history


def test_the_settings_of_an_entry() -> None:
    commit = {"id": "1", "timestamp": "2026-01-01", "message": " Title \n\nmore"}
    assert _config({"commit": commit, "date": 1_767_225_600_000, "tool": "customBiggerIsBetter"}) == {
        "commit": "1", "commit_date": "2026-01-01", "commit_title": "Title", "date": "2026-01-01T00:00:00Z",
        "tool": "customBiggerIsBetter", "better": "higher",
    }  # fmt: skip
    assert _config({"commit": "x", "tool": ["y"]}) == {"tool": ["y"]}


def test_values_that_follow_under_the_name_of_their_unit_count_once() -> None:
    benches = [
        bench("a", 1, "ns/op\t 3 B/op"),
        bench("a - ns/op", 1, "ns/op"),
        bench("b", 2, " ns \tx"),
        bench("c - s", 3, "s"),
    ]
    assert [(each.place, each.name, each.unit, bool(each.dropped)) for each in _figures(benches, 5)] == [
        (5, "a", "ns/op", True), (6, "a", "ns/op", False), (7, "b", "ns", False), (8, "c", "s", False)
    ]  # fmt: skip


def test_what_describes_values_is_counted() -> None:
    aside = _aside(
        [bench("a", 1, "s", range="1"), bench("b", 1, "s", range="", extra="x"), bench("c", 1, "s", range="2")]
    )
    assert {name: count for name, (count, _) in aside.items()} == {"range": 2, "extra": 1}


def test_what_is_no_entry_or_suite_is_passed_over(tmp_path: Path) -> None:
    entries: list[Any] = [5, {"benches": [bench("a", 1, "s"), 7]}, {"benches": "x"}, {"benches": [bench("b", 1, "s")]}]
    suites: Any = {"odd": 5, "Rust": entries}
    source = Source("data.js", data_js(tmp_path / "data.js", suites))
    assert [(run.program, [figure.place for figure in run.figures]) for run in _runs(source)] == [
        ("Rust", [1]), ("Rust", []), ("Rust", [2])
    ]  # fmt: skip


def test_the_proof_is_the_suites(tmp_path: Path) -> None:
    suites = {"Rust": [entry(k, "cargo", cargo(k)) for k in range(3)], "Go": [entry(0, "go", [])]}
    path = data_js(tmp_path / "data.js", suites)
    assert proof_of(path) == [(1, "suite", "Rust: 3 entries"), (1, "suite", "Go: 1 entries")]
