"""Metric `collectives`: bandwidth and latency over message sizes, as the benchmark averages them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.paths import TESTS

import perflog

LOG = TESTS / "data" / "field" / "nccl_tests.txt"


def test_both_halves_and_their_mean() -> None:
    table = perflog.metrics.collectives(perflog.read(LOG))
    rows = table[table["op"] == "all_reduce"].set_index("buffer")
    assert list(rows.index) == ["out of place", "in place", "all"]
    whole = rows.loc["all"]
    assert (whole["n"], whole["smallest"], whole["largest"], whole["ranks"]) == (4, 22020096, 704643072, 2)
    assert whole["mean_busbw"] == pytest.approx((259.99 + 457.82 + 260.84 + 457.71) / 4)
    assert (whole["peak_busbw"], whole["peak_at"], whole["peak_algbw"]) == (457.82, 704643072, 261.61)
    assert whole["smallest_s"] == pytest.approx((148.2e-6 + 147.7e-6) / 2)
    assert (whole["wrong"], whole["first_line"], whole["last_line"]) == (0, 12, 13)


def test_times_alone_give_no_bandwidth(tmp_path: Path) -> None:
    log = tmp_path / "osu.txt"
    log.write_text("# OSU MPI Allreduce Latency Test v5.6.3\n# Size       Avg Latency(us)\n4    1.48\n1024   2.50\n")
    (row,) = perflog.metrics.collectives(perflog.read(log)).to_dict("records")
    assert (row["op"], row["n"]) == ("Allreduce Latency", 2)
    assert (row["smallest_s"], row["largest_s"]) == pytest.approx((1.48e-6, 2.5e-6))
    assert perflog.metrics.collectives(perflog.read(log))["mean_busbw"].isna().all()
