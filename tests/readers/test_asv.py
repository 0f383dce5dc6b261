"""Results of asv."""

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
    by_key,
)
from support.reading import proof_of

import perflog
from perflog.parsing.input.source import open_source
from perflog.readers.benchmarks.asv import AsvReader, _config, _figures, _names, _scatter
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "no results in this file"),
        ('{"commit_hash": "a", "params": {}}', "no results in this file"),
        ('{"commit_hash": "a", "params": {}, "results": [1]}', "no results by benchmark"),
    ],
)
def test_a_file_without_results_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with open_source(str(tmp_path / "a.json")) as source, pytest.raises(perflog.PerflogError, match=message):
        AsvReader().proof(source)


def test_a_list_of_units_has_none(tmp_path: Path) -> None:
    path = asv(tmp_path, 0, {"suite.track_ratio": [[2.5]]})
    (tmp_path / "results" / "benchmarks.json").write_text("[]")
    assert perflog.read(path).arrow("values").select(["value", "unit"]).to_pylist() == [{"value": 2.5, "unit": None}]


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


@pytest.mark.parametrize(
    ("params", "count", "names"),
    [
        ([["1", "2"], ["a"]], 2, ["b(1, a)", "b(2, a)"]),
        ([["1", "2"], ["a", "c"]], 4, ["b(1, a)", "b(1, c)", "b(2, a)", "b(2, c)"]),
        ([["1", "2"]], 3, ["b(1)", "b(2)", "b(3)"]), ([], 1, ["b"]), (None, 1, ["b"]), (None, 2, ["b(1)", "b(2)"]),
        (["x", ["1"]], 1, ["b(1)"]), ([], 0, []),
    ],
)  # fmt: skip
def test_names_of_values_have_those_of_their_parameters(params: Any, count: int, names: list[str]) -> None:
    assert _names("b", params, count) == names


def test_values_of_benchmarks_have_the_unit_of_their_kind() -> None:
    results = {
        "s.time_a": 1,
        "TIMERAW_b": [[2, 3]],
        "s.mem_c": {"result": [4]},
        "peakmem_d": [5],
        "s.track_e": [6, []],
        "x": [],
    }
    found = list(_figures({"results": results}, {"s.track_e": "%", "s.time_a": "h"}))
    assert [(each.place, each.name, each.value, each.unit) for each in found] == [
        (1, "s.time_a", 1, "s"), (2, "TIMERAW_b(1)", 2, "s"), (3, "TIMERAW_b(2)", 3, "s"), (4, "s.mem_c", 4, "B"),
        (5, "peakmem_d", 5, "B"), (6, "s.track_e", 6, "%"), (7, "x", None, ""),
    ]  # fmt: skip
    (renamed,) = _figures({"results": {"x": [9, 7]}, "result_columns": ["params", "result"]}, {})
    assert renamed.value == 7


def test_results_with_statistics_are_counted() -> None:
    columns = ["result", "stats_ci_99_a", "stats_q_25"]
    results = {"a": [1, 2, 3], "b": [1, None, 3], "c": [1, None], "d": {"stats": {"n": 1}}, "e": 5}
    assert _scatter({"results": results, "result_columns": columns}) == 3
    assert _scatter({"results": results}) == 1


def test_the_settings_of_a_run_of_asv() -> None:
    content = {
        "commit_hash": "1", "date": 1_767_225_600_000, "python": "3.11", "env_name": None, "env_vars": {"a": 3, "c": 4},
        "requirements": {"a": 2, "b": "", "commit": "x"}, "params": {"a": 1},
    }  # fmt: skip
    assert _config(content) == {
        "a": 1, "c": 4, "commit": "1", "commit_date": "2026-01-01T00:00:00Z", "python": "3.11"
    }  # fmt: skip
    assert _config({"commit_hash": "1", "params": []}) == {"commit": "1"}


def test_the_proof_is_the_commit(tmp_path: Path) -> None:
    assert proof_of(asv(tmp_path, 0, RESULTS)) == [(1, "commit", f"{COMMITS[0]} on cheetah")]
