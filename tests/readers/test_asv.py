"""Results of asv."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.benchmark_files import (
    COMMITS,
    RESULTS,
    SLOWER,
    asv,
    by_key,
)

import perflog
from perflog.parsing.input.source import open_source
from perflog.readers.registry import find_reader


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
