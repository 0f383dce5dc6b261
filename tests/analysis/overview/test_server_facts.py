"""Sentences on a server, from tables that are written by hand and from logs with a planted change."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.metric_tables import replace_table
from support.metrics_logs import by_hand

import perflog
from perflog.analysis.overview.facts import server_facts
from perflog.metrics import Options, Tables, cases
from perflog.metrics.benchmarks.server_readings import CACHE, RUNNING, WAITING

NAN = math.nan


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Any:
    return partial(replace_table, monkeypatch, server_facts)


def said(sentences: Any, *rows: dict[str, Any]) -> list[str]:
    """What a function says of a log with these rows, each with the name of its table."""
    return list(sentences(Tables(by_hand("values", rows)), "r", Options()))


def value(key: str, number: float, line: int) -> dict[str, Any]:
    return {"table": "values", "key": key, "value": number, "line": line, "part": 0}


@pytest.mark.parametrize(
    ("of", "text"),
    [
        ({}, "TTFT: mean 1 s, median 900 ms, p99 2 s, 1,000 requests."),
        ({"tail": 2.99}, "TTFT: mean 1 s, median 900 ms, p99 2 s, 1,000 requests."),
        ({"tail": 3.0}, "TTFT: mean 1 s, median 900 ms, p99 2 s (3 times the median), 1,000 requests."),
        ({"median": NAN, "by": "printed"}, "TTFT: mean 1 s, p99 2 s."),
    ],
)
def test_latencies_of_a_server(table: Any, of: dict[str, Any], text: str) -> None:
    row = {"of": "ttft", "mean": 1.0, "median": 0.9, "p99": 2.0, "tail": NAN, "n": 1000.0, "by": "requests"}
    table("serving", row | of, row | {"of": "throughput"}, **row)
    assert said(server_facts.latencies) == [text]


@pytest.mark.parametrize(
    ("waiting", "cache", "text"),
    [
        (1.0, 0.9, "7 waiting, KV cache 90 % full: the server is saturated."),
        (1.0, 0.89, "7 waiting, KV cache 89 % full: requests wait."),
        (0.0, 0.95, "7 waiting, KV cache 95 % full."),
        (1.0, None, "7 waiting: requests wait."),
        (None, 0.95, "KV cache 95 % full."),
    ],
)
def test_the_load_of_a_server(table: Any, waiting: float | None, cache: float | None, text: str) -> None:
    row = {"by": "readings", "n": 2.0, "min": 1.0, "max": 1200.0, "median": 3.0}
    rows = [row | {"of": RUNNING}]
    rows += [] if waiting is None else [row | {"of": WAITING, "median": waiting, "min": 7.0, "max": 7.0}]
    rows += [] if cache is None else [row | {"of": CACHE, "median": cache, "min": cache, "max": cache}]
    table("serving", *rows, **row)
    readings = [value(RUNNING, 1.0, 1)] * 3
    (found,) = said(server_facts.server_load, *readings)
    assert found == f"While requests run (2 of 3 readings): 1 to 1,200 running, {text}"
    table("serving", *(each | {"by": "requests"} for each in rows), **row)
    assert said(server_facts.server_load, *readings) == []


VLLM = (
    "INFO 05-19 10:13:00 [loggers.py:271] Engine 000: Avg prompt throughput: 9000.0 tokens/s, Avg generation "
    "throughput: {rate} tokens/s, Running: 64 reqs, Waiting: {waiting} reqs, GPU KV cache usage: {full}%, "
    "Prefix cache hit rate: 0.0%"
)
SGLANG = (
    "[2025-11-06 12:11:03 TP0] Decode batch. #running-req: 64, #token: {tokens}, token usage: 0.{full}, "
    "cuda graph: True, gen throughput (token/s): {rate}, #queue-req: {waiting}"
)


@pytest.mark.parametrize("engine", [VLLM, SGLANG], ids=["vllm", "sglang"])
def test_since_when_a_server_generates_less(tmp_path: Path, engine: str) -> None:
    """Readings whose tokens grow are no cases of a benchmark."""
    late = [False] * 50 + [True] * 40
    lines = [
        engine.format(rate=(1500.0 if is_late else 2400.0) + 7 * (k % 5), waiting=(k - 49) * is_late,
                      full=99 if is_late else 61, tokens=30_000 + 10 * k)
        for k, is_late in enumerate(late)
    ]  # fmt: skip
    (tmp_path / "server.log").write_text("\n".join([*lines, ""]))
    log = perflog.read(tmp_path / "server.log")
    load, since = perflog.overview(log).reasons
    assert load == "While requests run (90 of 90 readings): 64 running, 0 to 40 waiting, KV cache 61 % to 99 % full."
    assert since.startswith("Since line 51: generated tokens/s 2,414 -> 1,514, -37.3 %; with it 0 -> 20 waiting, KV ")
    assert not len(cases(log))


def test_a_rate_that_rises_with_the_load_is_no_gain(tmp_path: Path) -> None:
    lines = [
        SGLANG.format(rate=(250.0 if k >= 50 else 12.5) + k % 5, waiting=0, full=61, tokens=30_000)
        .replace("running-req: 64", f"running-req: {8 if k >= 50 else 1}")
        for k in range(90)
    ]  # fmt: skip
    (tmp_path / "server.log").write_text("\n".join([*lines, ""]))
    load, since = perflog.overview(perflog.read(tmp_path / "server.log")).reasons
    assert load.endswith(": 1 to 8 running, 0 waiting, KV cache 61 % full, 12.5 to 254 tokens/s generated.")
    assert since == "Since line 51: generated tokens/s 14.5 -> 252; with it 1 -> 8 running."
