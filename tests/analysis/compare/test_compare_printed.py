"""Comparison of runs without steps: collectives by message, and printed summaries."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.json_logs import json_log, steady_times

import perflog
from perflog.errors import UsageError
from perflog.metrics.directions import better

NCCL = """\
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 2 minBytes 1024 maxBytes 1048576 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 \
validation: 1 graph: 0
     1048576        262144     float     sum      -1    32.51   32.25   {out}       0    32.42   32.34    {into}       0
     {size}        524288     float     sum      -1    60.00   34.95   61.16       0    60.00   34.95   61.16       0
"""

SERVING = """\
============ Serving Benchmark Result ============
Successful requests:                     200
Maximum request concurrency:             {concurrency}
Benchmark duration (s):                  {duration}
Output token throughput (tok/s):         {rate}
Mean TTFT (ms):                          {ttft}
==================================================
"""


def test_collectives_are_compared_by_message_and_on_the_mean(tmp_path: Path) -> None:
    sides = [tmp_path / name for name in ("base.txt", "side.txt")]
    sides[0].write_text(NCCL.format(out=56.44, into=56.6, size=2097152))
    sides[1].write_text(NCCL.format(out=28.22, into=28.3, size=2097152))
    compared = perflog.compare(*sides)
    (headline,) = compared.headlines
    assert headline.metric == "all_reduce busbw, mean of 4, 1 MiB to 2 MiB"
    assert 1 + headline.change == pytest.approx((28.22 + 28.3 + 2 * 61.16) / (56.44 + 56.6 + 2 * 61.16))
    changes = {row.metric: row.change for row in compared.row_records}
    assert changes["all_reduce busbw, 1 MiB, out of place"] == pytest.approx(-0.5)
    assert changes["all_reduce busbw, 2 MiB, in place"] == 0
    assert len(changes) == 5


def test_each_case_has_a_headline_of_its_own(tmp_path: Path) -> None:
    """A log of two collectives: both are headlines, not only the first one."""
    sides = [tmp_path / name for name in ("base.txt", "side.txt")]
    for side, out in zip(sides, (56.44, 28.22), strict=True):
        first = NCCL.format(out=56.44, into=56.6, size=2097152)
        side.write_text(first + NCCL.format(out=out, into=56.6, size=2097152).replace("all_reduce", "all_gather"))
    headlines = perflog.compare(*sides).headlines
    assert [row.metric.partition(" ")[0] for row in headlines] == ["all_reduce", "all_gather"]
    assert [row.change < 0 for row in headlines] == [False, True]


def test_means_over_other_messages_are_not_compared(tmp_path: Path) -> None:
    sides = [tmp_path / name for name in ("base.txt", "side.txt")]
    sides[0].write_text(NCCL.format(out=56.44, into=56.6, size=2097152))
    sides[1].write_text(NCCL.format(out=56.44, into=56.6, size=4194304))
    assert [row.metric for row in perflog.compare(*sides).row_records] == [
        "all_reduce busbw, 1 MiB, out of place", "all_reduce busbw, 1 MiB, in place",
    ]  # fmt: skip


def test_summaries_of_a_serving_benchmark_by_concurrency(tmp_path: Path) -> None:
    sides = [tmp_path / name for name in ("base.txt", "side.txt")]
    for side, rate, ttft in zip(sides, (200, 250), (60, 90), strict=True):
        reports = (SERVING.format(concurrency=n, duration=100, rate=rate * n, ttft=ttft) for n in (4, 8))
        side.write_text("".join(reports))
    compared = perflog.compare(*sides)
    assert [case.name for case in compared.cases] == ["max_concurrency=4", "max_concurrency=8"]
    rows: dict[tuple[str, str], tuple[object, ...]]
    rows = {(r.case, r.metric): (r.better, r.change) for r in compared.row_records}
    assert rows["max_concurrency=8", "Output_token_throughput"] == ("higher", pytest.approx(0.25))
    assert rows["max_concurrency=4", "Mean_TTFT"] == ("lower", pytest.approx(0.5))
    assert rows["max_concurrency=4", "Benchmark_duration"] == ("lower", 0)
    assert {row.metric for row in compared.headlines} == {"Output_token_throughput"}
    assert {row.figure for row in compared.summary_records} == {"Successful_requests"}


def test_a_case_is_not_named_by_all_its_arguments(tmp_path: Path) -> None:
    side = tmp_path / "run.txt"
    arguments = "Namespace(backend='vllm', {}, dataset_name='sharegpt', num_prompts=1000, request_rate=inf, seed=0)\n"
    reports = (
        arguments.format(f"max_concurrency={n}") + SERVING.format(concurrency=n, duration=9, rate=9, ttft=9)
        for n in (4, 8)
    )
    side.write_text("".join(reports))
    assert [case.name for case in perflog.compare(side, side).cases] == ["max_concurrency=4", "max_concurrency=8"]


def test_counts_alone_are_no_measure(tmp_path: Path) -> None:
    side = tmp_path / "run.txt"
    side.write_text("============ Serving Benchmark Result ============\nSuccessful requests:             200\n")
    with pytest.raises(UsageError, match="there is no metric to compare"):
        perflog.compare(side, side)


@pytest.mark.parametrize(
    ("name", "direction"),
    [("tokens_per_sec", "higher"), ("samples/s", "higher"), ("imagesPerSecond", "higher"), ("tokens/sec/gpu", "higher"),
     ("sec_per_step", None), ("ms/step", None), ("bytes_per_sample", None), ("per_step_loss", "lower")],
)  # fmt: skip
def test_the_name_of_a_rate_says_that_more_is_better(name: str, direction: str | None) -> None:
    assert better(name, "") == direction


def test_a_loss_is_a_number_without_a_unit(tmp_path: Path) -> None:
    """Not a share: 1.6 is no 160 %."""
    sides = [json_log(tmp_path / f"{k}.json", steady_times(k)) for k in range(2)]
    compared = perflog.compare(*sides)
    (loss,) = [row for row in compared.row_records if row.metric == "loss"]
    assert loss.unit == "" and loss.base_value == pytest.approx(1.61)
    assert "loss 1.61 -> 1.61" in str(compared)


def test_the_mean_of_pauses_is_compared(tmp_path: Path) -> None:
    """Two validations of 12 and 14 s against two of 6 and 7 s."""
    line = "{{'eval_loss': 1.5, 'eval_runtime': {time}, 'eval_samples_per_second': 40.0, 'epoch': {epoch}.0}}\n"
    for name, times in (("base", (12.0, 14.0)), ("side", (6.0, 7.0))):
        steps = [f"{{'loss': 2.{i}, 'learning_rate': 5e-05, 'epoch': {i}.0}}\n" for i in (1, 2)]
        pauses = [line.format(time=time, epoch=i) for i, time in enumerate(times, 1)]
        (tmp_path / name).write_text("".join(a + b for a, b in zip(steps, pauses, strict=True)))
    compared = perflog.compare(tmp_path / "base", tmp_path / "side")
    (pause,) = (row for row in compared.row_records if row.metric == "validation pause")
    assert (pause.base_value, pause.side_value, pause.unit) == pytest.approx((13.0, 6.5, "s"))


def loads(folder: Path, *, first: int) -> perflog.Log:
    """The files of a job: two steps of two ranks, two layers of four experts; the first expert does `first` more."""
    folder.mkdir()
    for step in (1, 11):
        for rank in (0, 1):
            even = (10 + rank) * step
            most = even + first * step * step
            lines = [f"{layer}:[[{most}.0, {even}.0, {even}.0, {even}.0]]\n" for layer in (0, 1)]
            (folder / f"table_iter{step}_rank{rank}.log").write_text("".join(lines))
    return perflog.read(folder)


def test_loads_of_experts_are_compared_by_job(tmp_path: Path) -> None:
    """The files of a job are one run: their loads add up, and each step has one figure."""
    compared = perflog.compare(loads(tmp_path / "a", first=0), loads(tmp_path / "b", first=10))
    (row,) = compared.headlines
    ratios = [4 * (21 + 20 * step) / (84 + 20 * step) for step in (1, 11)]
    assert (row.metric, row.base_value, row.base_runs) == ("tokens of experts, max/mean", 1.0, 1)
    assert row.side_value == pytest.approx(sum(ratios) / 2)
    assert not compared.warnings


def test_calls_of_an_api_are_compared_where_no_gpu_work_is_listed(tmp_path: Path) -> None:
    rows = [("hipMemcpy", 3, 1342822760), ("hipFree", 3, 769039526)]
    for name, more in (("a", 0), ("b", 100_000_000)):
        lines = ['"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n']
        lines += [f'"{call}",{n},{time + more},{(time + more) // n},50.0\n' for call, n, time in rows]
        (tmp_path / f"{name}.csv").write_text("".join(lines))
    compared = perflog.compare(perflog.read(tmp_path / "a.csv"), perflog.read(tmp_path / "b.csv"))
    (row,) = compared.headlines
    assert (row.kind, row.metric) == ("call", "all") and row.base_value == pytest.approx(2.111862286)
    parts = {part.part: part.difference_s for part in compared.attribution_records}
    assert {name: parts[name] for name in ("hipMemcpy", "hipFree")} == pytest.approx({"hipMemcpy": 0.1, "hipFree": 0.1})


def test_which_way_an_accuracy_of_mlperf_is_better_is_not_known(tmp_path: Path) -> None:
    """The benchmarks of language models print a loss under this name: a lower one is no regression."""
    event = '{{"time_ms": {ms}, "event_type": "{type}", "key": "{key}", "value": {value}, "metadata": {{}}}}'
    for name, values in (("a.log", (0.93, 0.92)), ("b.log", (0.93, 0.62))):
        events = [("INTERVAL_START", "run_start", "null"), *(("POINT_IN_TIME", "eval_accuracy", v) for v in values)]
        lines = (
            ":::MLLOG " + event.format(ms=1755478128188 + 1000 * k, type=type, key=key, value=value)
            for k, (type, key, value) in enumerate([*events, ("INTERVAL_END", "run_stop", "null")])
        )
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    compared = perflog.compare(perflog.read(tmp_path / "a.log"), perflog.read(tmp_path / "b.log"))
    (row,) = (row for row in compared.rows.to_dict("records") if row["metric"] == "eval_accuracy")
    assert row["better"] is None
