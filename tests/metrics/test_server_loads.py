"""Metric `server_loads`: what a server gives at each load of its client, and from which load on it gives no more."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest
from support.metrics_logs import rows

from perflog.metrics import Tables, server_loads
from perflog.metrics.benchmarks.server_loads import load_curves
from perflog.tables.schema import TABLES

RATE, TTFT, P99 = "Output_token_throughput", "Median_TTFT", "P99_TTFT"


def tables(*runs: tuple[dict[str, Any], dict[str, float]]) -> Tables:
    """Tables of runs, each with its settings and what its report prints."""
    frames: dict[str, list[dict[str, Any]]] = {"runs": [], "summaries": []}
    for index, (config, report) in enumerate(runs, 1):
        frames["runs"].append({"run": f"r{index}", "index": index, "config": json.dumps(config)})
        for line, (key, value) in enumerate(report.items(), 1):
            unit = "1/s" if "throughput" in key else "s"
            row = {"run": f"r{index}", "line": line, "part": 0, "key": key, "value": value, "unit": unit}
            frames["summaries"].append(row)
    return Tables({name: pd.DataFrame(rows, columns=[c.name for c in TABLES[name]]) for name, rows in frames.items()})


def sweep(*points: tuple[float, float], setting: str = "max_concurrency", **more: Any) -> list[Any]:
    """Runs at loads with their rates; TTFT is 10 ms times the load, its p99 twice that."""
    return [({setting: load, **more}, {RATE: rate, TTFT: 0.01 * load, P99: 0.02 * load}) for load, rate in points]


def test_the_knee_is_the_lowest_load_with_nearly_all_of_the_highest_rate() -> None:
    (curve,) = load_curves(tables(*sweep((16, 201), (1, 100), (2, 189), (4, 191))))
    assert [point.load for point in curve.points] == [1, 2, 4, 16]
    assert (curve.knee, curve.rate_at(4), curve.rate_of) == (4, 191, "output tokens/s")  # 95 % of 201 are 190.95
    assert (curve.latency_at(16, "ttft"), curve.latency_at(16, "tpot")) == (0.16, None)


def test_the_table_has_the_runs_in_the_order_of_their_loads() -> None:
    table = server_loads(tables(*sweep((4, 300), (1, 100), (2, 200))))
    assert table[["run", "load", "rate", "saturated"]].values.tolist() == [
        ["r2", 1, 100, False], ["r3", 2, 200, False], ["r1", 4, 300, True],
    ]  # fmt: skip
    assert table["ttft_median_s"].tolist() == pytest.approx([0.01, 0.02, 0.04])
    assert table["ttft_p99_s"].tolist() == pytest.approx([0.02, 0.04, 0.08])
    assert table["tpot_median_s"].isna().all() and table["server"].isna().all()


def test_all_columns() -> None:
    """Twice the load brings twice the rate, so only the largest load is saturated."""
    reports = [
        ({"max_concurrency": k}, {RATE: 100.0 * k, TTFT: 0.01 * k, P99: 0.02 * k, "Median_TPOT": 0.001 * k,
                                  "P99_TPOT": 0.003 * k})
        for k in (1, 2, 4)
    ]  # fmt: skip
    assert rows(server_loads(tables(*reports))) == [
        {
            "run": f"r{number}", "label": None, "server": None, "setting": "max_concurrency", "load": k,
            "rate": 100 * k, "rate_of": "output tokens/s", "saturated": k == 4, "ttft_median_s": 0.01 * k,
            "ttft_p99_s": 0.02 * k, "tpot_median_s": 0.001 * k, "tpot_p99_s": 0.003 * k,
        }
        for number, k in enumerate((1, 2, 4), 1)
    ]  # fmt: skip


def test_repeats_of_a_load_are_one_point_of_the_curve() -> None:
    """Of three repeats at load 2 one is far off: the median counts."""
    (curve,) = load_curves(tables(*sweep((1, 100), (2, 198), (2, 200), (2, 20), (4, 202))))
    assert (curve.rate_at(2), curve.knee) == (198, 2)


def test_what_follows_from_the_load_makes_no_servers_and_another_model_does() -> None:
    runs = [({"max_concurrency": k, "num_prompts": 10 * k, "model": m}, {RATE: k, TTFT: 1.0})
            for m in ("a", "b") for k in (1, 2, 4)]  # fmt: skip
    assert [(curve.server, len(curve.points)) for curve in load_curves(tables(*runs))] == [
        ("model a", 3),
        ("model b", 3),
    ]


@pytest.mark.parametrize(
    ("setting", "loads"),
    [
        ("max_concurrency", (1, 2)),  # too few
        ("max_concurrency", (8, 8, 8)),  # one load
        ("request_rate", (1, 2, "inf")),  # no limit is no load
        ("num_prompts", (1, 2, 4)),  # no load
    ],
)
def test_runs_that_are_no_sweep_over_the_load(setting: str, loads: tuple[Any, ...]) -> None:
    runs = [({setting: load}, {RATE: 100.0 + k, TTFT: 1.0}) for k, load in enumerate(loads)]
    assert load_curves(tables(*runs)) == []


def test_requests_count_where_a_report_has_no_tokens() -> None:
    runs = [({"request_rate": k}, {"Request_throughput": 5.0 * k, TTFT: 1.0}) for k in (1, 2, 4)]
    (curve,) = load_curves(tables(*runs))
    assert (curve.rate_of, curve.setting, curve.knee) == ("requests/s", "request_rate", 4)
