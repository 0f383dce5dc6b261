"""Histories of benchmarks as github-action-benchmark and asv write them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import perflog

SLOWER = 7
COMMITS = [f"{k * 7919 % 16**4:04x}{'89abcdef' * 4}" for k in range(12)]


def bench(name: str, value: float | None, unit: str, **more: str) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, **more}


def entry(number: int, tool: str, benches: list[dict[str, Any]]) -> dict[str, Any]:
    stamp = f"2026-01-{number + 1:02}T01:30:00+02:00"  # in UTC the day before
    commit = {"id": COMMITS[number], "message": f"Change {number}\n\nmore", "timestamp": stamp, "url": "https://x/"}
    return {"commit": commit, "date": 1767312000000 + number * 86_400_000, "tool": tool, "benches": benches}


def data_js(path: Path, suites: Mapping[str, list[dict[str, Any]]], before: str = "window.BENCHMARK_DATA = ") -> str:
    content = {"lastUpdate": 1767312000000, "repoUrl": "https://github.com/a/b", "entries": suites}
    path.write_text(before + json.dumps(content, indent=2), encoding="utf-8")
    return str(path)


def cargo(number: int) -> list[dict[str, Any]]:
    """Benchmarks of a commit: the first is a tenth slower from commit `SLOWER` on."""
    slow = 1.1 if number >= SLOWER else 1
    jitter = 1 + (number * 37 % 11 - 5) / 2000
    return [
        bench("sort", 1500 * slow * jitter, "ns/iter", range="± 12"),
        bench("send", 200 * jitter, "MB/s"),
        bench("cells", 700 + number % 3, "cycles", extra="pmode default"),
    ]


def asv(folder: Path, number: int, results: Mapping[str, Any], machine: str = "cheetah", **more: Any) -> str:
    content = {
        "commit_hash": COMMITS[number],
        "env_name": "virtualenv-py3.11-numpy",
        "date": 1767225600000 + number * 86_400_000,
        "params": {"arch": "x86_64", "cpu": "Xeon", "machine": machine, "num_cpu": "8", "os": "Linux 6.1", **more},
        "python": "3.11",
        "requirements": {"numpy": ""},
        "env_vars": {},
        "result_columns": ["result", "params", "version", "started_at", "duration", "stats_ci_99_a"],
        "results": results,
        "durations": {},
        "version": 2,
    }
    path = folder / "results" / machine / f"{COMMITS[number][:8]}-virtualenv-py3.11-numpy.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path)


RESULTS: dict[str, Any] = {
    "suite.time_sort": [[0.0123], [], "f00", 1, 2.0, [0.012]],
    "suite.peakmem_sort": [[4096], []],
    "suite.track_ratio": [[0.5, None, 0.75, 1.0], [["'a'", "'b'"], ["1", "2"]]],
    "suite.time_failed": None,
}


def hud_records(number: int, database: bool = True, seconds: float = 1.0) -> list[dict[str, Any]]:
    """Records of a commit, as vLLM writes them; with what the database adds."""
    args = {"model": "llama", "tensor_parallel_size": 2, "lora": None, "hosts": ["a", "b"]}
    common: dict[str, Any] = {
        "benchmark": {"name": "vLLM benchmark", "extra_info": {"args": args}},
        "model": {"name": "llama", "type": "OSS model"},
    }
    if database:
        common |= {
            "timestamp": 1767225600 + 86_400 * number, "schema_version": "v3", "head_sha": COMMITS[number],
            "head_branch": "main", "workflow_id": 1000 + number, "runners": [{"name": "a100", "gpu_info": "A100"}],
        }  # fmt: skip
    latency, rate = 0.02 * seconds * (1 + number * 37 % 11 / 3000), 1500.0
    return [
        common | {"metric": {"name": "median_ttft_ms", "benchmark_values": [1000 * latency], "extra_info": {}}},
        common | {"metric": {"name": "tokens_per_second", "benchmark_values": [rate, rate + 2, rate + 1]}},
    ]


def hud(path: Path, records: list[dict[str, Any]], lines: bool = False) -> str:
    """Write records as a list, or one a line."""
    text = "\n".join(map(json.dumps, records)) if lines else json.dumps(records)
    path.write_text(text, encoding="utf-8")
    return str(path)


def bencher(path: Path, seconds: Mapping[int, float], testbed: str = "lab") -> str:
    """Write what Bencher keeps of a benchmark: a report of two iterations for each commit, with nanoseconds."""

    def metric(number: int, iteration: int, value: float) -> dict[str, Any]:
        return {
            "report": f"report {number}", "iteration": iteration, "start_time": f"2026-01-{number + 1:02}T02:00:00Z",
            "end_time": f"2026-01-{number + 1:02}T02:10:00Z", "threshold": None, "alert": None,
            "version": {"number": number, "hash": COMMITS[number]},
            "metric": {"value": value, "lower_value": value * 0.9, "upper_value": None},
            "boundary": {"baseline": None, "lower_limit": None, "upper_limit": value * 2},
        }  # fmt: skip

    def named(name: str, **more: str) -> dict[str, Any]:
        return {"uuid": "7d7e", "name": name, "slug": name, **more}

    metrics = [metric(k, i, 1e9 * value * (1 + i / 1000)) for k, value in seconds.items() for i in range(2)]
    results = [
        {
            "branch": named("main"), "testbed": named(testbed), "benchmark": named("sort"),
            "measure": named(name, units=units), "metrics": metrics,
        }
        for name, units in (("Latency", "nanoseconds (ns)"), ("Throughput", "operations / second (ops/s)"))
    ]  # fmt: skip
    path.write_text(json.dumps({"project": named("adapter"), "start_time": None, "results": results}), encoding="utf-8")
    return str(path)


def by_key(log: perflog.Log) -> dict[str, Any]:
    """Value and unit of each key of the first run."""
    rows = log.table("values")
    rows = rows[rows["run"] == rows["run"].iloc[0]]
    return {key: (value, unit) for key, value, unit in zip(rows["key"], rows["value"], rows["unit"], strict=True)}
