"""Reports of Bencher."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.benchmark_files import (
    COMMITS,
    SLOWER,
    bencher,
    by_key,
)

import perflog


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
