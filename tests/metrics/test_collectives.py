"""Metric `collectives`: bandwidth and latency over message sizes, as the benchmark averages them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.metrics_logs import by_hand, rows
from support.paths import TESTS

import perflog
from perflog.metrics import Tables, collectives
from perflog.metrics.benchmarks.collectives import _samples
from perflog.metrics.compared import Steady

LOG = TESTS / "data" / "field" / "nccl_tests.txt"


def test_both_halves_and_their_mean() -> None:
    table = perflog.metrics.collectives(perflog.read(LOG))
    of_buffers = table[table["op"] == "all_reduce"].set_index("buffer")
    assert list(of_buffers.index) == ["out of place", "in place", "all"]
    whole = of_buffers.loc["all"]
    assert (whole["n"], whole["smallest"], whole["largest"], whole["ranks"]) == (4, 22020096, 704643072, 2)
    assert whole["mean_busbw"] == pytest.approx((259.99 + 457.82 + 260.84 + 457.71) / 4)
    assert (whole["peak_busbw"], whole["peak_at"], whole["peak_algbw"]) == (457.82, 704643072, 261.61)
    assert whole["smallest_s"] == pytest.approx((148.2e-6 + 147.7e-6) / 2)
    assert (whole["wrong"], whole["first_line"], whole["last_line"]) == (0, 12, 13)


def test_all_columns_of_two_sizes() -> None:
    """1 kB in 10 us, and 1 MB in 100 us, then in 200 us; the bus bandwidth of 8 ranks is 1.75 times as high."""
    measured = [(1_000, 1e-5, 0), (1_000_000, 1e-4, 0), (1_000_000, 2e-4, 1)]
    one = {"op": "all_reduce", "dtype": "float", "ranks": 8}
    values = [
        one | {"bytes": size, "time_s": time, "algbw_gbps": size / time / 1e9, "busbw_gbps": 1.75 * size / time / 1e9,
               "wrong": wrong}
        for size, time, wrong in measured
    ]  # fmt: skip
    assert rows(collectives(by_hand("collectives", values))) == [
        {
            "run": "r", "label": None, "op": "all_reduce", "dtype": "float", "ranks": 8, "buffer": None, "n": 3,
            "smallest": 1_000, "largest": 1_000_000, "smallest_s": 1e-5, "largest_s": pytest.approx(1.5e-4),
            "mean_busbw": pytest.approx(1.75 * (0.1 + 10 + 5) / 3), "peak_busbw": pytest.approx(17.5),
            "peak_at": 1_000_000, "saturated_at": 1_000_000, "peak_algbw": pytest.approx(10), "wrong": 1,
            "first_line": 1, "last_line": 3,
        }
    ]  # fmt: skip


def test_times_alone_give_no_bandwidth(tmp_path: Path) -> None:
    log = tmp_path / "osu.txt"
    log.write_text("# OSU MPI Allreduce Latency Test v5.6.3\n# Size       Avg Latency(us)\n4    1.48\n1024   2.50\n")
    (row,) = rows(perflog.metrics.collectives(perflog.read(log)))
    assert (row["wrong"], row["mean_busbw"], row["peak_at"], row["peak_algbw"]) == (None,) * 4
    assert (row["op"], row["n"]) == ("Allreduce Latency", 2)
    assert (row["smallest_s"], row["largest_s"]) == pytest.approx((1.48e-6, 2.5e-6))
    assert perflog.metrics.collectives(perflog.read(log))["mean_busbw"].isna().all()


@pytest.mark.parametrize(
    ("bandwidths", "saturated"),
    [
        ([10, 50, 91, 100], 1 << 12),
        ([10, 50, 80, 100], 1 << 13),
        ([10, 95, 80, 100], 1 << 13),
        ([10, 95, 100, 80], None),
        ([50, 100], 1 << 11),
        ([100], None),
    ],
)
def test_the_message_from_which_on_bandwidth_stays_near_its_peak(bandwidths: list[int], saturated: int | None) -> None:
    sizes = [
        {"op": "all_reduce", "bytes": 1 << (10 + i), "time_s": 1e-3, "busbw_gbps": float(rate)}
        for i, rate in enumerate(bandwidths)
    ]
    (row,) = rows(perflog.metrics.collectives(by_hand("collectives", sizes)))
    assert row["saturated_at"] == saturated


def test_comparisons_have_the_mean_of_the_messages_and_each_of_them() -> None:
    messages: list[dict[str, Any]] = [
        {"op": "all_reduce", "bytes": size, "buffer": buffer, "busbw_gbps": rate, "time_s": 1.0}
        for size, buffer, rate in ((1024, None, 2.0), (1024, None, 4.0), (2048, "in place", 9.0))
    ]
    messages += [{"op": "barrier", "bytes": 8, "time_s": 3.0}, {"op": "broadcast", "bytes": None, "time_s": 3.0}]
    made = Tables(by_hand("collectives", messages))
    found = [(m.name, m.unit, m.better, run, v.tolist()) for m, run, v in _samples(made, Steady({"r": 0}, {}))]
    assert found == [
        ("all_reduce busbw, mean of 3, 1 KiB to 2 KiB", "GB/s", "higher", "r", [5.0]),
        ("all_reduce busbw, 1 KiB", "GB/s", "higher", "r", [2.0, 4.0]),
        ("all_reduce busbw, 2 KiB, in place", "GB/s", "higher", "r", [9.0]),
        ("barrier time, mean of 1, 8 B to 8 B", "s", "lower", "r", [3.0]),
        ("barrier time, 8 B", "s", "lower", "r", [3.0]),
    ]  # fmt: skip
    assert list(_samples(made, Steady({}, {}))) == []
