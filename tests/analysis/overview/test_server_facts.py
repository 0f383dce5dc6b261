"""Sentences on a server, from tables that are written by hand and from logs with a planted change."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.drawings import ys
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
        ({"tail": 6024.0}, "TTFT: mean 1 s, median 900 ms, p99 2 s (6,024 times the median), 1,000 requests."),
        ({"median": NAN, "by": "printed"}, "TTFT: mean 1 s, p99 2 s."),
    ],
)
def test_latencies_of_a_server(table: Any, of: dict[str, Any], text: str) -> None:
    row = {
        "of": "ttft",
        "unit": "s",
        "mean": 1.0,
        "median": 0.9,
        "p99": 2.0,
        "tail": NAN,
        "n": 1000.0,
        "by": "requests",
    }
    table("serving", row | of, row | {"of": "throughput"}, row | {"of": "itl", "unit": None}, **row)
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
    row = {"by": "readings", "dp_rank": NAN, "n": 2.0, "min": 1.0, "max": 1200.0, "median": 3.0}
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


REPLICA = (
    "[2025-11-06 12:11:03 DP{rank} TP0] Decode batch. #running-req: {running}, #token: 30000, token usage: 0.61, "
    "cuda graph: True, gen throughput (token/s): {rate}, #queue-req: 0"
)

SLOWER = "Replica 1 is slower than replica 0: 3,300 tokens/s with 94 running, against 3,400 with 34."


@pytest.mark.parametrize(
    ("loads", "text"),
    [
        ([(34, 3400.0), (94, 3300.0)], [SLOWER]),
        ([(64, 3400.0), (64, 3300.0)], []),
        ([(34, 1700.0), (94, 3300.0)], []),  # more requests generate more
        ([(34, 0.0), (94, 0.0)], []),  # they only read prompts
        ([(8, 90.0), (8, 0.0)], ["Replica 1 is slower than replica 0: 0 tokens/s with 8 running, against 90 with 8."]),
    ],
)  # fmt: skip
def test_replicas_of_a_server(tmp_path: Path, loads: list[tuple[int, float]], text: list[str]) -> None:
    """The rate of the server is that of all its replicas. One that runs more and generates no more is slower."""
    lines = [REPLICA.format(rank=rank, running=n, rate=rate) for _ in range(20) for rank, (n, rate) in enumerate(loads)]
    (tmp_path / "server.log").write_text("\n".join([*lines, ""]))
    overview = perflog.overview(perflog.read(tmp_path / "server.log"))
    assert overview.reasons[0].startswith("While requests run (40 of 40 readings of 2 replicas, each): ")
    assert overview.reasons[1:] == text
    (figure, *_) = overview.figures
    assert (figure.name, *figure.values.values()) == ("generated tokens/s", sum(rate for _, rate in loads))


REPORT = (
    "============ Serving Benchmark Result ============\n"
    "Request rate configured (RPS):           {rate}\n"
    "Request throughput (req/s):              {served}\n"
    "Mean TTFT (ms):                          65.96     \n"
)


@pytest.mark.parametrize(
    ("rate", "served", "text"),
    [
        ("1.00", "0.95", "at 1/s, and 0.95/s are served: the client's rate is the limit, not the server."),
        ("9.00", "4.96", "at 9/s, and 4.96/s are served."),
        ("inf", "4.96", None),
    ],
)
def test_the_rate_of_a_client(tmp_path: Path, rate: str, served: str, text: str | None) -> None:
    (tmp_path / "client.log").write_text(REPORT.format(rate=rate, served=served))
    reasons = perflog.overview(perflog.read(tmp_path / "client.log")).reasons
    told = [each for each in reasons if each.startswith("The client")]
    assert told == ([f"The client is set to send requests {text}"] if text else [])


@pytest.mark.parametrize(("served", "leads"), [("0.95", "Median_TTFT"), ("0.85", "Request_throughput")])
def test_the_latency_leads_where_the_client_limits_the_rate(tmp_path: Path, served: str, leads: str) -> None:
    for name, rate, latency in (("a", "0.95", 80), ("b", served, 60)):
        report = REPORT.format(rate="1.00", served=rate) + f"Median TTFT (ms):                        {latency}.00\n"
        (tmp_path / f"{name}.log").write_text(report)
    compared = perflog.compare(*(perflog.read(tmp_path / f"{name}.log") for name in "ab"))
    assert {row.metric for row in compared.headlines} == {leads}
    assert compared.is_limited_by_clients is (leads == "Median_TTFT")


def test_a_server_and_its_client_are_no_runs_to_compare(tmp_path: Path) -> None:
    """Each prints settings of its own, and all that the log of each program shows is shown."""
    (tmp_path / "client.log").write_text(
        "Namespace(subparser='bench', seed=0, num_prompts=9)\n" + REPORT.format(rate="9.0", served="4.9")
    )
    (tmp_path / "server.log").write_text(
        "\n".join([SGLANG.format(rate=100.0, waiting=0, full=61, tokens=9)] * 3 + [""])
    )
    overview = perflog.overview(perflog.read(tmp_path))
    assert [list(group.settings) for group in overview.groups] == [["format"], ["format"]] and not overview.base
    assert [text[0] for text in overview.reasons] == ["A", "A", "B"]


@pytest.mark.parametrize(
    ("idle", "rate", "text"),
    [
        (3, 0.0, "replica 1 generates nothing since line 24, while 64 requests run (3 readings)"),
        (2, 0.0, None),
        (3, 900.0, None),  # it reads prompts
    ],
)
def test_an_engine_that_is_stuck(tmp_path: Path, idle: int, rate: float, text: str | None) -> None:
    reading = VLLM.replace("9000.0", "{prompt}").replace("Engine 000", "Engine 00{rank}")
    lines = [
        reading.format(rank=rank, rate=0.0 if rank and turn >= 11 else 2400.0, waiting=0, full=61,
                       prompt=rate if rank and turn >= 11 else 9000.0)
        for turn in range(11 + idle)
        for rank in (0, 1)
    ]  # fmt: skip
    (tmp_path / "server.log").write_text("\n".join([*lines, ""]))
    log = perflog.read(tmp_path / "server.log")
    told = [each for each in perflog.overview(log).reasons if "nothing" in each]
    assert told == ([f"{text[0].upper()}{text[1:]}."] if text else [])
    assert perflog.diagnose(log).verdict == "no failure is reported" + (f"; {text}" if text else "")


def test_a_server_that_only_prefills(tmp_path: Path) -> None:
    batch = (
        "[2026-03-19 07:00:{n:02d} TP0] Prefill batch. #new-seq: 1, #new-token: 2048, #cached-token: 0, "
        "token usage: 0.02, #running-req: 0, #queue-req: {n}, input throughput (token/s): 1000{n}.00"
    )
    (tmp_path / "prefill.log").write_text("\n".join([*(batch.format(n=n) for n in range(9)), ""]))
    reasons = perflog.overview(perflog.read(tmp_path / "prefill.log")).reasons
    assert "It only prefills: 0 to 8 requests queued, 10,004 prompt tokens/s (median): requests wait for it." in reasons


def test_the_slow_one_of_several_servers(tmp_path: Path) -> None:
    for number, rate in enumerate((3300.0, 5500.0, 5600.0, 5550.0)):
        reading = VLLM.format(rate=rate, waiting=0, full=61)
        (tmp_path / f"rollout_{number}.log").write_text(f"{reading}\n" * 5)
    (text,) = perflog.overview(perflog.read(tmp_path)).reasons
    load = "it generates 3,300 tokens/s with 64 running, their median is 5,550 with 64"
    assert text == f"A is slower than the other servers: {load}."


SWEEP = (
    "Namespace(subparser='bench', num_prompts={n}, max_concurrency={n}, request_rate=inf)\n"
    "============ Serving Benchmark Result ============\n"
    "Output token throughput (tok/s):         {rate}\n"
    "Median TTFT (ms):                        {ttft}     \n"
)
TEXT = "From max_concurrency {} on the server gives no more: {} output tokens/s, {} at 8; TTFT {} ms -> 80 ms."


@pytest.mark.parametrize(
    ("rates", "text"),
    [
        ([100, 192, 200, 201], "From {} 2 on the server gives no more: 192 {}, 201 at 16; TTFT 20 ms -> 160 ms."),
        ([100, 190, 350, 600], "The server gives more at each load up to the highest, {} 16: 600 {}."),
        ([100, 190, 150, 600], "The server gives most at the highest, {} 16: 600 {}."),
    ],
)
def test_the_load_from_which_on_a_server_gives_no_more(tmp_path: Path, rates: list[float], text: str) -> None:
    """The logs are in the order of their load, not of their names."""
    for load, rate in zip((1, 2, 4, 16), rates, strict=True):
        (tmp_path / f"c{load}.log").write_text(SWEEP.format(n=load, rate=float(rate), ttft=10.0 * load))
    overview = perflog.overview(perflog.read(tmp_path))
    assert [group.name for group in overview.groups] == ["c1.log", "c2.log", "c4.log", "c16.log"]
    assert overview.reasons == [text.format("max_concurrency", "output tokens/s")]


def test_each_server_of_a_sweep_has_its_curve(tmp_path: Path) -> None:
    """The number of requests follows from the load, and the seed is of no weight; the model is another server."""
    for model, rates in (("a", (100, 192, 200, 201)), ("b", (300, 305, 307, 308))):
        for load, rate in zip((1, 2, 4, 8), rates, strict=True):
            head = f"Namespace(subparser='bench', model='{model}', num_prompts={10 * load}, max_concurrency={load})\n"
            text = SWEEP.format(n=load, rate=float(rate), ttft=10.0 * load).partition("\n")[2]
            (tmp_path / f"{model}_c{load}.log").write_text(head + text)
    log = perflog.read(tmp_path)
    rows = perflog.metrics.server_loads(log)
    knees = [rows[rows["saturated"] & (rows["server"] == f"model {model}")]["load"].min() for model in "ab"]
    assert (knees, set(rows["rate_of"])) == ([2, 1], {"output tokens/s"})
    assert list(perflog.overview(log).reasons)[:2] == [
        f"model a: {TEXT.format(2, 192, 201, 20)}", f"model b: {TEXT.format(1, 300, 308, 10)}",
    ]  # fmt: skip
    panels = perflog.plots.server_loads(log).axes
    assert [panel.get_title(loc="left") for panel in panels] == ["output tokens/s", "time to first token"]
    lines = [line for line in panels[0].lines if line.get_gid() == "rate"]
    assert [list(ys(line)) for line in lines] == [[100, 192, 200, 201], [300, 305, 307, 308]]


START = (
    "INFO 09-02 13:04:10 [__init__.py:241] Automatically detected platform cuda.\n"
    "(APIServer pid=1) INFO 09-02 13:04:12 [api_server.py:1805] vLLM API server version 0.10.1.1\n"
)


def test_the_parts_of_the_start(tmp_path: Path) -> None:
    """Of several processes the slowest counts. A part may be without its whole."""
    lines = [
        "Loading weights took 11.69 seconds", "Model loading took 14.2487 GiB and 13.902026 seconds",
        "torch.compile takes 30.10 s in total", "torch.compile takes 34.61 s in total",
        "Graph capturing finished in 25 secs, took 1.58 GiB",
        "init engine (profile, create kv cache, warmup model) took 70.27 seconds",
    ]  # fmt: skip
    for count, text in ((6, "engine 70.3 s (torch.compile 34.6 s, CUDA graphs 25 s)"), (4, "torch.compile 34.6 s")):
        started = "".join(f"(Worker_TP0 pid=7) INFO 03-23 05:03:30 [x.py:1] {line}\n" for line in lines[:count])
        (tmp_path / "server.log").write_text(START + started)
        expected = f"Start of the server: model loading 13.9 s (weights 11.7 s), {text}."
        assert expected in perflog.overview(perflog.read(tmp_path / "server.log")).reasons


def test_a_server_that_is_started_again(tmp_path: Path) -> None:
    """The failure ended its first run."""
    readings = VLLM.format(rate=2400.0, waiting=0, full=61) + "\n"
    failure = (
        "(EngineCore_0 pid=271) ERROR 09-02 13:09:10 [core.py:700] Traceback (most recent call last):\n"
        '(EngineCore_0 pid=271) ERROR 09-02 13:09:10 [core.py:700]   File "core.py", line 691, in run\n'
        "(EngineCore_0 pid=271) ERROR 09-02 13:09:10 [core.py:700] torch.AcceleratorError: CUDA error: an illegal "
        "memory access was encountered\n"
    )
    (tmp_path / "server.log").write_text(START + readings * 9 + failure + START + readings * 9)
    log = perflog.read(tmp_path / "server.log")
    assert len(log.run_keys) == 2
    ended = "ended by a CUDA error (illegal memory access), line 12"
    assert perflog.overview(log).outcome == [f"#1: Attempt 1 of 2 {ended}"]
    assert perflog.diagnose(log).verdict == f"The job recovered and went on; an attempt {ended}"
