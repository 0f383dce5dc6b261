"""Programs of 2025 and 2026: their lines, as their sources print them, give their figures, and no figure is lost."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from support.field_logs import unread, unread_figures
from support.reading import Reading, read

DATA = Path(__file__).parents[1] / "data" / "programs_2026"
# Lines that people pasted into public issues and documents, cut down; others are made from the print statements.


def whole(name: str) -> Reading:
    """Read the log of a format. No other reads a run of it, and all figures are stored, or dropped with a reason."""
    log = read((DATA / f"{name}.txt").read_bytes())
    assert {row["format"] for row in log.rows("runs")} == {name}
    assert unread(log) == {}
    assert unread_figures(log) == 0
    return log


def values(log: Reading) -> dict[str, float]:
    """The last reading of each value."""
    return {row["key"]: row["value"] for row in log.rows("values")}


def test_marian() -> None:
    log = whole("marian")
    first, second = log.rows("steps")
    assert (first["step"], first["loss"], first["tokens_per_s"]) == (55000, 1.19892883, 29259.25)
    assert (first["grad_norm"], first["learning_rate"]) == (0.2743, 1.6181e-4)
    assert math.isnan(second["loss"])
    assert second["step_time_s"] == pytest.approx(43 / 500)
    assert log.rows("runs")[0]["world_size"] == 2
    assert values(log)["bleu"] == 19.245


def test_prime_rl() -> None:
    log = whole("prime_rl")
    steps = log.rows("steps")
    assert [row["step_time_s"] for row in steps] == pytest.approx([5.13, 0.6, 0.35, 65])
    assert [row["tokens_per_s"] for row in steps] == [None, 3324, 4175, 4547]  # 0 means that there is none yet
    assert [row["mfu"] for row in steps][1:] == pytest.approx([0.01, 0.012, 0.013])
    assert [row["loss"] for row in steps] == [12.25, 12.3125, 12.4375, 0.0021]
    assert [row["memory_bytes"] for row in steps] == pytest.approx([x * 2**30 for x in (5.1, 5.2, 5.2, 61.4)])


def test_the_orchestrator_of_prime_rl() -> None:
    log = whole("prime_rl_orchestrator")
    assert [(row["step"], row["step_time_s"]) for row in log.rows("steps")] == [(28, 73.77), (29, 72)]
    assert values(log)["cancelled_share"] == pytest.approx(0.031)


def test_nanochat() -> None:
    log = whole("nanochat")
    first, second = log.rows("steps")
    assert (first["step"], first["loss"], first["tokens_per_s"]) == (1200, 2.91334, 1004650)
    assert (first["step_time_s"], first["mfu"]) == (pytest.approx(1.04373), pytest.approx(0.5847))
    assert first["elapsed_s"] == pytest.approx(20.71 * 60)
    assert second["steps_averaged"] == 1
    assert values(log)["validation_bits_per_byte"] == 0.812034
    assert values(log)["training_time"] == pytest.approx(99.12 * 60)
    assert log.rows("runs")[0]["device"] == "NVIDIA H100 80GB HBM3"


def test_the_elastic_buffers_of_deepep() -> None:
    log = whole("deepep")
    times = [row for row in log.rows("values") if row["key"] == "dispatch_time"]
    assert [row["rank"] for row in times] == [*range(16)]
    assert [row["value"] for row in times] == pytest.approx([768.512e-6] * 16)
    assert values(log)["dispatch_scaleup_bytes"] == 117440512
    assert values(log)["fetched_bytes"] == 8 * 2**20


def test_counters_of_nsight_compute() -> None:
    log = whole("ncu")
    kernels = [row["subject"] for row in log.rows("counters") if row["name"] == "Duration"]
    assert kernels == ["kern_a(float *, int)", "kern_b(float *, int)", "k(float *)"]
    first = {row["name"]: (row["value"], row["unit"]) for row in log.rows("counters") if row["subject"] == kernels[0]}
    assert first == {
        "DRAM Frequency": (6.71, "Ghz"), "SM Frequency": (1.75, "Ghz"), "Elapsed Cycles": (845438, "cycle"),
        "Duration": (272.16, "us"), "DRAM Throughput": (94.59, "%"), "Waves Per SM": (73.14, None),
        "Block Size": (256, None), "Registers Per Thread": (40, "register/thread"),
    }  # fmt: skip


def test_bandwidth_and_latency_of_rdma() -> None:
    log = whole("perftest")
    sizes = sorted(log.rows("collectives"), key=lambda row: row["line"])
    assert [(row["op"], row["bytes"]) for row in sizes] == [
        ("RDMA_Write", 2), ("RDMA_Write", 65536), ("RDMA_Write", 8388608), ("RDMA_Read", 2), ("RDMA_Read", 8388608),
    ]  # fmt: skip
    assert sizes[1]["algbw_gbps"] == pytest.approx(196.45 / 8)
    assert sizes[3]["time_s"] == pytest.approx(1.06e-6)
    peaks = [row["value"] for row in log.rows("values") if row["key"] == "peak_bandwidth"]
    assert peaks == pytest.approx([x / 8 for x in (0.069781, 196.48, 196.6)])


def test_babelstream() -> None:
    assert values(whole("babelstream"))["Triad"] == pytest.approx(1412.034221)


def test_warmup_and_benchmark_of_sglang() -> None:
    log = whole("sglang_bench")
    assert [row["label"] for row in log.rows("runs")] == ["warm-up", "benchmark"]
    prefills = [row["value"] for row in log.rows("values") if row["key"] == "prefill_tokens_per_s"]
    assert prefills == [2648.96, 5916.43]


def test_kernels_of_flash_attention() -> None:
    log = whole("flash_attention")
    runs = [row["run"] for row in log.rows("runs")]
    assert len(runs) == 4
    of_run = [{row["key"]: row["value"] for row in log.rows("values") if row["run"] == run} for run in runs]
    assert (of_run[0]["fav2_time"], of_run[0]["fav3_tflops"]) == (pytest.approx(0.84e-3), 120.1)
    assert of_run[2]["flash2_backward_tflops"] == 251.8
    assert of_run[3]["fa4_mfu"] == pytest.approx(0.448)
    assert of_run[3]["seqlen"] == 8192
