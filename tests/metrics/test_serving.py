"""Serving: latencies first, statistics as printed or over the requests, an engine while requests run."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.metrics_logs import by_hand, rows

import perflog
from perflog.metrics import Tables, serving
from perflog.metrics.benchmarks import serving as module
from perflog.metrics.benchmarks.server_readings import CACHE
from perflog.metrics.benchmarks.serving import served
from perflog.metrics.compared import Steady

REPORT = """\
+ vllm bench serve --model Qwen/Qwen3-8B --random-input-len 1024 --num-prompts 16
============ Serving Benchmark Result ============
Successful requests:                     16
Output token throughput (tok/s):         268.31
Mean TTFT (ms):                          2633.55
P99 TTFT (ms):                           4610.48
Median ITL (ms):                         46.55
P99 ITL (ms):                            258.31
==================================================
"""
READING = (
    "INFO 05-19 10:13:{second:02d} [loggers.py:271] Engine 000: Avg prompt throughput: {prompt:.1f} tokens/s, "
    "Avg generation throughput: {generation:.1f} tokens/s, Running: {running} reqs, "
    "Waiting: {waiting} reqs, GPU KV cache usage: {cache:.1f}%, Prefix cache hit rate: 0.0%"
)


def log_of(tmp_path: Path, text: str, name: str = "run.txt") -> perflog.Log:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return perflog.read(path)


def test_a_report(tmp_path: Path) -> None:
    log = log_of(tmp_path, REPORT)
    rows = serving(log).set_index("of")
    assert list(rows.index) == ["ttft", "itl", "Output_token_throughput"]
    assert (rows.loc["ttft", "mean"], rows.loc["ttft", "p99"]) == (pytest.approx(2.63355), pytest.approx(4.61048))
    assert rows.loc["itl", "tail"] == pytest.approx(258.31 / 46.55)
    overview = perflog.overview(log)
    assert [figure.name for figure in overview.figures][:3] == ["TTFT mean", "ITL median", "output tokens/s"]
    assert "ITL: median 46.5 ms, p99 258 ms (5.5 times the median)." in overview.reasons
    assert not any("times nothing inside" in text for text in overview.reasons)
    assert json.loads(log.arrow("runs")["config"][0].as_py())["arguments"].endswith("--num-prompts 16")


def test_an_idle_server_is_no_reading(tmp_path: Path) -> None:
    readings = [(9000, 1000, 18, 43, 95.9), (8000, 1200, 18, 42, 95.5), (0, 0, 0, 0, 0)]
    lines = [
        READING.format(second=k, prompt=p, generation=g, running=r, waiting=w, cache=c)
        for k, (p, g, r, w, c) in enumerate(readings)
    ]
    log = log_of(tmp_path, "\n".join([*lines, ""]))
    rows = serving(log).set_index("of")
    assert (rows.loc["generation_tokens_per_s", "median"], rows.loc["generation_tokens_per_s", "n"]) == (1100, 2)
    [text] = perflog.overview(log).reasons
    load = "18 running, 42 to 43 waiting, KV cache 96 % full: the server is saturated."
    assert text == f"While requests run (2 of 3 readings): {load}"


def test_latencies_of_requests(tmp_path: Path) -> None:
    times = [float(x) for x in range(100, 300, 7)]
    records = [{"metrics": {"time_to_first_token": {"value": x, "unit": "ms"}}, "id": f"r{x}"} for x in times]
    [row] = serving(log_of(tmp_path, "\n".join(map(json.dumps, records)) + "\n", "run.jsonl")).to_dict("records")
    assert (row["of"], row["by"], row["n"]) == ("ttft", "requests", len(times))
    assert row["median"] == pytest.approx(float(np.median(times)) / 1000)
    assert row["p99"] == pytest.approx(float(np.quantile(times, 0.99)) / 1000)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (  # requests, out of order
            [("ttft", "s", 1.0 + 37 * k % 101, 1 + k) for k in range(101)],
            [("ttft", "s", "requests", 101, 51, 51, 91, 96, 100, 1, 101, 100 / 51, 1, 101)],
        ),
        (
            [(f"{name}_ttft", "s", value, 10 + k) for k, (name, value) in enumerate(
                {"mean": 2.0, "median": 1.5, "p90": 3.0, "p95": 4.0, "p99": 6.0, "min": 0.5, "max": 7.0}.items())]
            + [("request_throughput", "1/s", 9.0, 20)],
            [("ttft", "s", "printed", None, 2, 1.5, 3, 4, 6, 0.5, 7, 4, 10, 16),
             ("request_throughput", "1/s", "printed", None, 9, *[None] * 7, 20, 20)],
        ),
    ],
)  # fmt: skip
def test_all_columns(values: list[tuple[str, str, float, int]], expected: list[tuple[Any, ...]]) -> None:
    names = ("of", "unit", "by", "n", "mean", "median", "p90", "p95", "p99", "min", "max", "tail", "first_line",
             "last_line")  # fmt: skip
    made = [{"key": key, "unit": unit, "value": value, "line": line} for key, unit, value, line in values]
    same = {"run": "r", "label": None, "dp_rank": None}
    assert rows(serving(by_hand("values", made))) == [
        same | {name: pytest.approx(cell) if isinstance(cell, float) else cell
                for name, cell in zip(names, row, strict=True)}
        for row in expected
    ]  # fmt: skip


def test_a_throughput_alone_is_no_server(tmp_path: Path) -> None:
    assert not len(serving(log_of(tmp_path, "batch_size,throughput\n1,10.5\n2,20.5\n", "run.csv")))


def test_rates_beside_latencies_in_a_table_of_results(tmp_path: Path) -> None:
    text = "| Name | Value |\n|---|---|\n| Mean TTFT (ms) | 80 |\n| Generated throughput (tok/s) | 900 |\n"
    table = serving(log_of(tmp_path, text, "run.md")).set_index("of")
    assert table["mean"].to_dict() == pytest.approx({"ttft": 0.08, "Generated_throughput": 900})


def test_a_request_that_fails_ends_no_server(tmp_path: Path) -> None:
    busy = READING.format(second=1, prompt=900.0, generation=100.0, running=2, waiting=0, cache=5.0)
    failure = ["Traceback (most recent call last):", '  File "serve.py", line 5, in f', "ValueError: too many tokens"]
    after = READING.format(second=11, prompt=900.0, generation=100.0, running=2, waiting=0, cache=5.0)
    log = log_of(tmp_path, "\n".join([busy, *failure, after, ""]))
    assert len(log.arrow("failures")) == 1
    assert not perflog.overview(log).outcome
    assert perflog.overview(log_of(tmp_path, "\n".join([busy, *failure, ""]), "ended.txt")).outcome


def test_a_table_of_metrics_whose_names_go_on_in_the_next_line(tmp_path: Path) -> None:
    """The unit of a row is the end of its name: `Time to First Token` is in ms, though the next line says so."""
    text = """
┏━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━┳━━━━━━━━━━┳━━━━━━━━━━┓
┃               Metric ┃      avg ┃      p99 ┃      p50 ┃
┡━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━╇━━━━━━━━━━╇━━━━━━━━━━┩
│  Time to First Token │    19.99 │    48.89 │    13.93 │
│                 (ms) │          │          │          │
│ Time to First Output │    18.99 │    47.89 │    12.93 │
│           Token (ms) │          │          │          │
│ Request Latency (ms) │ 2,940.39 │ 7,034.86 │ 2,111.22 │
│   Request Throughput │     4.50 │      N/A │      N/A │
│       (requests/sec) │          │          │          │
└──────────────────────┴──────────┴──────────┴──────────┘
"""
    log = log_of(tmp_path, text)
    assert list(log.runs["format"]) == ["aiperf"]
    table = perflog.metrics.serving(log).set_index("of")
    assert table.loc["ttft", ["mean", "median", "p99"]].tolist() == pytest.approx([0.01999, 0.01393, 0.04889])
    assert table.loc["latency", ["mean", "median", "p99"]].tolist() == pytest.approx([2.94039, 2.11122, 7.03486])
    assert table.loc["Request_Throughput", ["unit", "mean"]].tolist() == ["1/s", 4.5]


def test_rows_of_percentiles_are_no_requests(tmp_path: Path) -> None:
    table = "| Percentiles | TTFT (s) | ITL (s) |\n|---|---|---|\n| 10% | 17.25 | 17.5 |\n| 50% | 176.5 | 212.5 |\n"
    assert not len(perflog.metrics.serving(log_of(tmp_path, table)))


def test_a_rate_that_is_never_a_number_is_none() -> None:
    readings = {"running_requests": [5.0, 7.0], "generation_tokens_per_s": [math.inf, math.nan]}
    rows = [{"key": key, "value": value, "line": line} for key, of in readings.items() for line, value in enumerate(of)]
    (found,) = served(Tables(by_hand("values", rows)))["r"].items()
    assert (found[0], found[1].values["max"]) == ("running_requests", 7.0)


def test_comparisons_take_the_tail_of_requests_and_the_median_of_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a benchmark prints itself is compared elsewhere."""
    found = {
        "ttft": SimpleNamespace(by=module.REQUESTS, unit="s", values={"median": 1.0, "p99": 3.0}),
        "running": SimpleNamespace(by=module.READINGS, unit="", values={"median": 5.0}),
        "rate": SimpleNamespace(by=module.READINGS, unit="1/s", values={"median": 7.0}),
        "idle": SimpleNamespace(by=module.READINGS, unit="", values={}),
        "printed": SimpleNamespace(by="printed", unit="s", values={"median": 9.0}),
    }
    monkeypatch.setattr(module, "served", lambda _: {"r": found, "not compared": found})
    tables: Any = None
    samples = module.serving_samples(tables, Steady({"r": 0}, {}))
    assert [(m.name, m.unit, m.better, run, values.tolist()) for m, run, values in samples] == [
        ("ttft median", "s", "lower", "r", [1.0]), ("ttft p99", "s", "lower", "r", [3.0]),
        ("running", "", None, "r", [5.0]), ("rate", "1/s", "higher", "r", [7.0]),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("key", "quantity", "statistic", "rate"),
    [
        ("median_ttft_ms", "ttft", "median", ""), ("P99 TTFT (ms)", "ttft", "p99", ""),
        ("mean_e2el_ms", "latency", "mean", ""), ("num_prompts", None, None, ""),
        ("request_throughput", None, None, "request_throughput"),
        ("output_throughput", None, None, "output_throughput"),
    ],
)  # fmt: skip
def test_what_names_of_a_report_mean(key: str, quantity: str | None, statistic: str | None, rate: str) -> None:
    assert (module._quantity(key), module._statistic(key), module._rate_of(key)) == (quantity, statistic, rate)
    assert module.is_latency_statistic(key) == (quantity is not None)


@pytest.mark.parametrize(
    ("keys", "leading"),
    [
        (["mean_e2el_ms", "median_e2el_ms", "median_ttft_ms"], "median_e2el_ms"),
        (["median_itl_ms", "median_ttft_ms"], "median_ttft_ms"),
        (["median_ttft_ms", "Median TTFT (ms)"], "median_ttft_ms"),  # the first of two
        (["p99_ttft_ms", "num_prompts"], None),
        ([], None),
    ],
)
def test_the_latency_that_clients_feel(keys: list[str], leading: str | None) -> None:
    assert module.leading_latency(keys) == leading


def found(n: int | None = 10, **values: float) -> Any:
    return module._Found("1/s", module.READINGS, values, n, (1, 2))


@pytest.mark.parametrize(
    ("name", "readings", "values"),
    [
        ("running", (8, 8), {"mean": 30.0, "median": 50.0}),
        ("running", (8, 2), {"mean": 30.0, "median": 50.0}),
        ("running", (8, 1), {}),  # one engine was at work less than a quarter as often
        (CACHE, (8, 8), None),  # shares do not add up
    ],
)
def test_engines_add_up_if_they_are_at_work_alike(
    name: str, readings: tuple[int, int], values: dict[str, float] | None
) -> None:
    rows = Tables(by_hand("values", [{"key": "x", "value": value} for value in (1.0, 3.0)])).rows("values")
    replicas: Any = {0: found(readings[0], mean=10.0, median=20.0), 1: found(readings[1], mean=20.0, median=30.0)}
    total = module._summed(name, rows, replicas)
    assert total.replicas == replicas
    if values is None:
        assert total.values["mean"] == 2.0
    else:
        assert total.values == values


@pytest.mark.parametrize(
    ("settings", "rates", "rate"),
    [
        ({"request_rate": "10"}, {"request_throughput": 9.5}, (10.0, 9.5, True)),
        ({"request_rate": "10"}, {"request_throughput": 8.5}, (10.0, 8.5, False)),
        ({"request_rate": "inf"}, {"request_throughput": 8.5}, None),
        ({"configured_request_rate": "5", "request_rate": "10"}, {"request_throughput": 4.5}, (5.0, 4.5, True)),
        ({"request_rate": "many"}, {"request_throughput": 8.5}, None),
        ({"request_rate": "10"}, {"output_throughput": 8.5}, None),
    ],
)
def test_whether_the_client_limits_the_rate(
    settings: dict[str, str],
    rates: dict[str, float],
    rate: tuple[float, float, bool] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served_rates = {name: found(mean=value) for name, value in rates.items()}
    monkeypatch.setattr(module, "served", lambda _: {"r": served_rates})
    monkeypatch.setattr(module, "settings_by_run", lambda _: {"r": settings})
    known = module.client_rates(Tables({}))
    assert [(each.sent, each.served, each.is_limit) for each in known.values()] == ([rate] if rate else [])


def test_statistics_of_several_benchmarks_represent_none() -> None:
    """Latencies of single requests are computed, except what a report already names as a statistic of its own."""
    printed = [("p99_ttft_ms", 5.0), ("p99_ttft_ms", 6.0), ("median_itl_ms", 7.0), ("ttft", 1.0), ("ttft", 3.0),
               ("itl", 4.0), ("num_prompts", 8.0), ("num_prompts", 9.0)]  # fmt: skip
    rows = Tables(by_hand("values", [{"key": key, "value": value, "unit": "s"} for key, value in printed])).rows(
        "values"
    )
    values = dict(module._request_values(rows))
    assert {name: of.by for name, of in values.items()} == {"ttft": module.REQUESTS, "itl": module.PRINTED}
    assert values["ttft"].values["mean"] == 2.0 and values["ttft"].n == 2


@pytest.mark.parametrize(
    ("keys", "names"),
    [(["ttft"] * 3, ["ttft"]), (["ttft"], []), (["p75_ttft"] * 3, []), (["ttft_std"] * 3, []), (["mean_ttft"] * 3, []),
     (["loss"] * 3, []), (["mean_ttft", "loss"], ["ttft"])],
)  # fmt: skip
def test_values_that_are_latencies_of_requests(keys: list[str], names: list[str]) -> None:
    """A statistic of several benchmarks represents none of them, and a single value is of no distribution."""
    values = [{"key": key, "unit": "s", "value": 1.0 + k} for k, key in enumerate(keys)]
    assert serving(by_hand("values", values))["of"].tolist() == names
