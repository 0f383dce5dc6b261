"""Reports of Bencher."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.benchmark_files import (
    COMMITS,
    SLOWER,
    bencher,
    by_key,
)
from support.reading import proof_of

import perflog
from perflog.errors import InputError
from perflog.parsing.input.source import Source
from perflog.readers.benchmarks.bencher import BencherReader, _runs
from perflog.readers.benchmarks.commit_runs import CommitRun


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


def metric(report: str = "r", iteration: int = 0, value: Any = 2.5, **more: Any) -> dict[str, Any]:
    return {"report": report, "iteration": iteration, "metric": {"value": value}} | more


def result(*metrics: Any, units: Any = "nanoseconds (ns)", **more: Any) -> dict[str, Any]:
    named = {name: {"name": name} for name in ("branch", "testbed", "benchmark")}
    return named | {"measure": {"name": "latency", "units": units}, "metrics": list(metrics)} | more


def runs(*results: Any) -> list[CommitRun]:
    return list(_runs({"project": {"name": "p"}, "results": list(results)}))


@pytest.mark.parametrize("text", ["[]", '{"project": {}, "results": 7}', '{"project": {}}'])
def test_a_file_without_results_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "perf.json").write_text(text)
    with pytest.raises(InputError, match="no results in this file"):
        BencherReader().proof(Source("perf.json", str(tmp_path / "perf.json")))


def test_an_iteration_of_a_report_on_a_branch_and_testbed_is_a_run() -> None:
    other = {"testbed": {"name": "other"}}
    found = runs(
        result(metric(), 5, metric(iteration=1)), "x", result(metric(), benchmark={"name": "second"}), {"metrics": 7},
        result(metric(), **other), result(metric("s"), branch={"name": 5}),
    )  # fmt: skip
    assert [[(figure.place, figure.name) for figure in run.figures] for run in found] == [
        [(1, "benchmark: latency"), (4, "second: latency")], [(3, "benchmark: latency")], [(5, "benchmark: latency")],
        [(6, "benchmark: latency")],
    ]  # fmt: skip
    assert [run.config for run in found[2:]] == [{"branch": "branch", "testbed": "other"}, {"testbed": "testbed"}]
    assert {run.program for run in found} == {"p"}


def test_the_version_and_the_time_of_a_run() -> None:
    (run,) = runs(result(metric(version={"hash": "1", "number": 0}, start_time="2026-01-01T00:00:00Z")))
    assert run.config == {
        "commit": "1", "version_number": 0, "date": "2026-01-01T00:00:00Z", "branch": "branch", "testbed": "testbed"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("units", "unit"), [("nanoseconds (ns)", "ns"), ("ns", "ns"), ("operations / second (ops/s)", "ops/s"), (None, "")]
)
def test_the_unit_is_in_brackets(units: Any, unit: str) -> None:
    assert runs(result(metric(), units=units))[0].figures[0].unit == unit


def test_bounds_and_limits_are_counted() -> None:
    bounds, limits = (
        {"value": 1, "lower_value": 0, "upper_value": None},
        {"baseline": 1, "lower_limit": 0, "upper_limit": 2},
    )
    (run,) = runs(result(metric(metric=bounds, boundary=limits), metric(metric={}, boundary={"baseline": 1})))
    assert {name: count for name, (count, _) in run.dropped.items()} == {
        "bounds of a value": 1, "limits of a threshold": 4
    }  # fmt: skip
    assert [figure.value for figure in run.figures] == [1, None]


def test_the_proof_is_the_project(tmp_path: Path) -> None:
    path = bencher(tmp_path / "perf.json", {0: 0.01, 1: 0.02})
    assert proof_of(path) == [(1, "project", "adapter: 2 results")]
