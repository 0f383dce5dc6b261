"""Programs of 2025 and 2026: their lines, as their sources print them, give their figures, and no figure is lost."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from support.field_logs import unread, unread_figures
from support.reading import Reading, read

import perflog
from perflog.analysis.lint import findings
from perflog.analysis.overview.run_figures import run_figures
from perflog.analysis.run_stops import last_stop
from perflog.errors import InputError
from perflog.metrics import Options, Tables
from perflog.metrics.benchmarks.cases import case_pairs, cases
from perflog.metrics.jobs.last_steps import last_steps
from perflog.metrics.semantics import run_semantics
from perflog.tables.schema import FIRST_CELL

DATA = Path(__file__).parents[1] / "data" / "programs_2026"
# Lines that people pasted into public issues and documents, cut down; others are made from the print statements.


def whole(name: str) -> Reading:
    """Read the log of a format. No other reads a run of it, and all figures are stored, or dropped with a reason."""
    return whole_text((DATA / f"{name}.txt").read_text(encoding="utf-8"), name)


def whole_text(text: str, name: str) -> Reading:
    log = read(text.encode())
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


def test_guidellm() -> None:
    """The latency of a request is in seconds below a header that says ms. No row of several stands for the others."""
    log = whole("guidellm")
    first = [values(log)[key] for key in ("request_latency_median", "ttft_p99", "tpot_mean", "output_throughput")]
    assert first == pytest.approx([4.09, 0.0618, 0.0157, 62.6])
    assert values(log)["requests_completed"] == 10
    newer = read((DATA / "guidellm.txt").read_bytes().replace(b"synchronous|", b"constant@1 |"))
    assert [row["text"] for row in newer.rows("values") if row["key"] == "benchmark"] == ["constant@1"] * 2


def test_guidellm_of_2026() -> None:
    text = """\
ℹ Request Latency Statistics (Completed Requests)
| Benchmark | Request Latency || TTFT       || ITL      || TPOT     ||
| Strategy  | Sec             || ms         || ms       || ms       ||
|           | Mdn     | p95    | Mdn  | p95  | Mdn | p95 | Mdn | p95 |
|-----------|---------|--------|------|------|-----|-----|-----|-----|
| constant  | 0.1     | 0.2    | 15.8 | 19.8 | 2.2 | 2.3 | 2.5 | 2.6 |
| constant  | 0.3     | 0.3    | 25.5 | 61.1 | 5.3 | 6.5 | 6.1 | 6.9 |
|===========|=========|========|======|======|=====|=====|=====|=====|
"""
    log = read(text.encode())
    assert unread_figures(log) == 0
    assert [row["value"] for row in log.rows("values") if row["key"] == "ttft_p95"] == pytest.approx([0.0198, 0.0611])
    assert [row["value"] for row in log.rows("values") if row["key"] == "request_latency_p95"] == [0.2, 0.3]
    text = """\
| Benchmark | Input Tok  || Output Tok || Total Tok   || Stream Iter  || Output Tok      ||
| Strategy  | Per Req    || Per Req    || Per Req     || Per Req      || Per Stream Iter ||
|           | Mdn  | p95  | Mdn  | p95  | Mdn  | p95   | Mdn   | p95   | Mdn     | p95    |
|-----------|------|------|------|------|------|-------|-------|-------|---------|--------|
| constant  | 51.0 | 62.0 | 49.0 | 65.0 | 98.0 | 126.0 | 102.0 | 134.0 | 1.0     | 1.1    |
"""  # llm-d/llm-d-benchmark docs/tutorials/run
    found = values(read(text.encode()))
    assert (found["Output_Tok_Per_Req_p95"], found["Output_Tok_Per_Stream_Iter_p95"]) == (65, 1.1)


def test_lmdeploy() -> None:
    log = read((DATA / "lmdeploy.txt").read_bytes())
    found = {row["key"]: (row["value"], row["unit"]) for row in log.rows("summaries")}
    assert (found["TTFT_mean"], found["ITL_p99"]) == ((4.401, "s"), (0.979, "s"))
    assert (found["output_throughput"], found["requests_per_s"]) == ((2353.993, "1/s"), (10.159, "1/s"))
    assert unread_figures(log) == 0
    of_shape = (
        "total time: 5.51s\nconcurrency: 1, test_round: 3\ninput_tokens: 256, output_tokens: 128\n"
        "first_token latency(min, max, ave): 0.045s, 0.047s, 0.046s\nthroughput(output): 69.68 token/s\n"
    )
    found = {row["key"]: (row["value"], row["unit"]) for row in read(of_shape.encode()).rows("summaries")}
    assert (found["TTFT_mean"], found["output_throughput"]) == ((0.046, "s"), (69.68, "1/s"))


def test_the_query_of_nvidia_smi() -> None:
    """Lines of the same name in several sections are figures of their own; the GPU is told by its address."""
    log = read((DATA / "nvidia_smi_query.txt").read_bytes())
    rows = {row["name"]: (row["value"], row["unit"]) for row in log.rows("counters")}
    assert (rows["memory_used"], rows["bar1_memory_used"]) == ((1796 * 2**20, "B"), (2**20, "B"))
    assert (rows["gpu_utilization"], rows["power"]) == ((0.97, "1"), (351.21, "W"))
    assert (rows["temperature"], rows["sm_clock"]) == ((62, "°C"), (1410e6, "Hz"))
    assert {(row["device"], row["device_name"]) for row in log.rows("counters")} == {(None, "00000000:00:04.0")}
    assert unread_figures(log) == 0


def test_colossalai() -> None:
    text = (
        "Step:  20%|██        | 1/5 [00:22<01:31, 22.90s/it]\nStep:  40%|████      | 2/5 [00:42<01:03, 21.03s/it]\n"
        "num_samples: 24, dp_world_size: 8, flop: 4821043068272640, avg_duration: 45.1, avg_throughput: 4.26\n"
        "Throughput: 4.26 samples/sec, TFLOPS per GPU by Megatron: 111.36, TFLOPS per GPU: 106.92\n"
    )
    log = read(text.encode())
    found = {row["key"]: (row["value"], row["unit"]) for row in log.rows("summaries")}
    assert (found["samples_per_s"], found["tflops_per_gpu"]) == ((4.26, "1/s"), (106.92, "TFLOP/s"))
    assert found["tflops_per_gpu_megatron"] == (111.36, "TFLOP/s")
    assert unread_figures(log) == 0


def test_prime_rl() -> None:
    log = whole("prime_rl")
    steps = log.rows("steps")
    assert [row["step_time_s"] for row in steps] == pytest.approx([5.13, 0.6, 0.35, 65])
    assert [row["tokens_per_s"] for row in steps] == [None, 3324, 4175, 4547]  # 0 means that there is none yet
    assert [row["mfu"] for row in steps][1:] == pytest.approx([0.01, 0.012, 0.013])
    assert [row["loss"] for row in steps] == [12.25, 12.3125, 12.4375, 0.0021]
    assert [row["memory_bytes"] for row in steps] == pytest.approx([x * 2**30 for x in (5.1, 5.2, 5.2, 61.4)])


def test_openrlhf() -> None:
    log = whole("openrlhf")
    assert [row["step_time_s"] for row in log.rows("steps")] == [76.381, 76.022, 74.206]
    assert {(row["phase"], row["time_s"]) for row in log.rows("phases") if row["step"] == 2} == {
        ("timing_generation", 40.891), ("timing_make_experience", 3.029), ("timing_ppo_train", 29.602),
        ("timing_broadcast", 2.5),
    }  # fmt: skip
    assert values(log)["response_length"] == 807.47


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


def test_olmo_core() -> None:
    """The figures of a block are those of one step, also its time, which the rate of batches tells."""
    log = whole("olmo_core")
    row = log.rows("steps")[0]
    assert (row["loss"], row["grad_norm"], row["mfu"], row["tokens_per_s"]) == (10.23, 1.234, 0.4512, 12345.0)
    assert (row["steps_averaged"], row["step_time_s"]) == (1, pytest.approx(1 / 0.5512))


def test_nanotron() -> None:
    """Numbers have three digits, and K, M, B for thousands."""
    iteration = (
        "iteration: 327281 / 378950 | consumed_tokens: 85.8G | elapsed_time_per_iteration_ms: 11.5K | tokens_per_sec: "
        "22.8K | tokens_per_sec_per_gpu: 11.4K | lm_loss: 2.38 | lr: 1e-05 | model_tflops_per_gpu: 38.3 | eta: 0:00:40"
    )
    lines = ("mbs: 4 | grad_accum: 2 | sequence_length: 2048 | train_steps: 378950", iteration)
    log = read("".join(f"10/05/2025 20:32:24 [INFO|DP=0|PP=1|TP=0]: {line}\n" for line in lines).encode())
    (row,) = log.rows("steps")
    assert (row["step"], row["loss"], row["tflops"]) == (327281, 2.38, 38.3)
    assert (row["step_time_s"], row["tokens_per_s"]) == (pytest.approx(11.5), 22800.0)
    assert (unread(log), unread_figures(log)) == ({}, 0)


def test_nemo_prints_means_since_the_line_before() -> None:
    line = (
        "Training epoch 0, iteration {0}/99 | global_step: {0} | reduced_train_loss: 2.5 | train_step_timing in s: 4\n"
    )
    log = read("".join(map(line.format, (19, 29, 39))).encode())
    assert [row["steps_averaged"] for row in log.rows("steps")] == [10, 10, 10]


def test_memory_of_primus() -> None:
    """Used, free and all of it; with torchtitan the reserved, the active, and the reserved share."""
    line = " iteration 1/ 50 | elapsed time per iteration (ms): 2000.0 | {} | lm loss: 1.179000E+01 |\n"
    hip = "hip mem usage/free/total/usage_ratio: 33.81GB/254.18GB/287.98GB/11.74%"
    titan = "memory usage/free/total: 145.40GiB/142.58GiB/(50.49%) | mfu: 45.67%"
    rows = [read(line.format(memory).encode()).rows("steps")[0] for memory in (hip, titan)]
    assert [row["memory_bytes"] for row in rows] == pytest.approx([33.81 * 2**30, 145.4 * 2**30])
    assert rows[1]["mfu"] == pytest.approx(0.4567)


def test_stragglers_of_deepspeed() -> None:
    """Two names of the header are one space apart."""
    header = ("Comm. Op", "Message Size", "Count", "Total comm lat(ms)", "Total straggler(ms)", "Avg comm lat(ms)")
    rows = ((*header, "Avg straggler(ms)"), ("", "64.0 MB", "10", "12.00", "3.00", "1.20", "0.30"))
    first, second = ("".join(f"{cell: <20}" for cell in row) for row in rows)
    log = read(f"Breakdown with straggler effect\n{first}\nall_reduce\n{second}\n".encode())
    assert (unread(log), unread_figures(log)) == ({}, 0)
    times = {key: value for key, value in values(log).items() if key.endswith(("wait", "time"))}
    assert {key.removeprefix("all_reduce."): round(value, 9) for key, value in times.items()} == {
        "total_shortest_time": 0.012, "total_straggler_wait": 0.003, "shortest_time": 0.0012, "straggler_wait": 0.0003,
    }  # fmt: skip


def test_paddlenlp() -> None:
    """A line is of the steps since the line before; memory is in units of 2^30 bytes, without a word about it."""
    line = (
        "[2024-03-01 10:00:20,123] [    INFO] - loss: 12.05887604, learning_rate: 3e-06, global_step: {}, "
        "max_memory_allocated: 7.5, interval_runtime: 20.0, interval_samples_per_second: 32.0, "
        "interval_tokens_per_second_per_device: 8192.0, interval_steps_per_second: 0.5, progress_or_epoch: 0.0\n"
    )
    log = read("".join(map(line.format, (10, 20))).encode())
    assert [(row["steps_averaged"], row["step_time_s"]) for row in log.rows("steps")] == [(10, 2.0), (10, 2.0)]
    assert log.rows("steps")[0]["memory_bytes"] == 7.5 * 2**30
    assert values(log)["tokens_per_gpu_per_s"] == 8192.0


AUTOMODEL = """\
TFLOPs/GPU: 820.123456
Rank 0 | Iteration 3
num_label_tokens=131072 | loss=11.7000
Rank 0 | Iteration 3 | num_label_tokens=131072 | Max Memory Allocated: 45.25 GB | loss=11.7000
Max iter time: 2.000000 seconds
MFU: 41.500000%
Average iteration time: 2.010 seconds (excluding first 2 warmup iterations)
"""


def test_the_benchmark_of_nemo_automodel() -> None:
    """What it calls TFLOPs/GPU is the work of a step, no rate."""
    log = whole_text(AUTOMODEL, "automodel")
    (row,) = log.rows("steps")
    assert (row["step"], row["loss"], row["step_time_s"], row["mfu"]) == (3, 11.7, 2.0, pytest.approx(0.415))
    assert row["memory_bytes"] == 45.25 * 2**30
    assert "TFLOP/s" not in {each["unit"] for each in log.rows("values")}


INFER_BENCH = """\
Prefill (batch 1, 1792 tokens): 85,123 tok/s | MFU 9.7%
 batch   TTFT ms   TPOT ms      tok/s   MBU %   MFU %  VRAM GiB  steps
     1      21.5      8.25        121     4.4    0.01      3.21    255
   128      23.5     12.25     10,449    30.4    1.31     29.21    200 (early stop @ 200)
"""


def test_the_rate_of_the_prefill_of_nanochat_is_none_of_decoding() -> None:
    log = whole_text(INFER_BENCH, "nanochat")
    rates = [(row["key"], row["value"]) for row in log.rows("values") if row["key"].endswith("tokens_per_s")]
    assert rates == [("prefill_tokens_per_s", 85123.0), ("tokens_per_s", 121.0), ("tokens_per_s", 10449.0)]


MAXTEXT = """\
Num_devices: 8, shape OrderedDict([('data', 1), ('fsdp', 8)])
Config param per_device_batch_size: 8.0
Config param max_target_length: 2048
number parameters: 8.030 billion
completed step: 4, seconds: 5.000, TFLOP/s/device: 150.000, Tokens/s/device: 3276.800, total_weights: 65536, loss: 8.012
Completed eval step: 1, seconds: 1.250, running loss=8.100, running perplexity=3294.468, running total_weights=262144
Completed eval after train step 4, loss=8.012, perplexity=3016.960, total_weights=262144, avg_z_loss=0.000
completed profiler activation/deactivation step: 5, total_weights: 65536, loss: 7.912
"""


def test_maxtext() -> None:
    """An evaluation belongs to the step that it names, and its loss is none of training."""
    log = read(MAXTEXT.encode())
    assert [(row["step"], row["step_time_s"], row["loss"]) for row in log.rows("steps")] == [
        (4, 5.0, 8.012), (5, None, 7.912)
    ]  # fmt: skip
    assert [(row["step"], row["value"]) for row in log.rows("values") if row["key"] == "eval_loss"] == [(4, 8.012)]
    run = log.rows("runs")[0]
    assert (run["world_size"], unread(log)) == (8, {})
    assert run_semantics(run["format"], run["config"]).quantities["tokens"] == 8 * 2048 * 8


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


def test_dlio() -> None:
    log = whole("dlio")
    assert values(log)["accelerator_utilization"] == pytest.approx(0.97234)
    assert values(log)["train_io_throughput"] == pytest.approx(
        2983.4 * 2**20 / 1e9
    )  # the program divides by 1024 * 1024


def test_a_gigabyte_of_dlio_has_1024_to_the_power_of_3_bytes() -> None:
    lines = [
        "[OUTPUT] 2025-03-19T09:23:25.3 Finished saving checkpoint 1 for epoch 1 in 77.1101 s; Throughput: 1.1394 GB/s",
        "[METRIC] Checkpoint load duration (seconds): 47.7386 (0.9589)",
        "[METRIC] Checkpoint load I/O Throughput (GB/second): 2.1942 (0.0441)",
        "[METRIC] Checkpoint save I/O Throughput (GiB/second): 2.1942 (0.0441)",
    ]
    got = values(read("\n".join([*lines, ""]).encode()))
    assert got["checkpoint_save_throughput"] == pytest.approx(1.1394 * 2**30 / 1e9)
    assert got["mean_checkpoint_load_time"] == 47.7386
    expected = pytest.approx(2.1942 * 2**30 / 1e9)
    assert got["mean_checkpoint_save_throughput"] == got["mean_checkpoint_load_throughput"] == expected


def test_the_report_of_slurm_as_comments_at_the_end_of_a_log() -> None:
    report = (
        "step: 1, loss: 3.5, step_time: 0.25 s\n"
        "######################## JOB EFFICIENCY REPORT ########################\n"
        "# Job ID:          131042\n# State:           COMPLETED (exit code 0)\n# Cores:           8\n"
        "# CPU Utilized:    00:06:58\n# CPU Efficiency:  98.58% of 00:07:04 core-walltime\n"
        "# Wall-clock time: 00:00:53\n# Memory Utilized: 14.86 GB (estimated maximum)\n"
    )
    log = read(report.encode())
    assert {row["key"]: row["value"] for row in log.rows("summaries")} == pytest.approx(
        {"cpu_time": 418, "cpu_efficiency": 0.9858, "wall_time": 53, "memory_used": 14.86 * 2**30}
    )
    assert [(row["step"], row["loss"]) for row in log.rows("steps")] == [(1, 3.5)]


def test_tinygrad() -> None:
    log = whole("tinygrad")
    steps = log.rows("steps")
    assert [row["step_time_s"] for row in steps] == [93.44, 101.78, 7.34, 4.32, 4.36]
    assert (steps[4]["loss"], steps[4]["memory_bytes"], steps[4]["tflops"]) == (11.9375, 1454.57e9, None)
    assert values(log)["total_flops"] == pytest.approx(398.11613)  # TFLOP/s of all devices


ROCM_6_0 = """\
============================ ROCm System Management Interface ============================
====================================== Concise Info ======================================
Device  [Model : Revision]    Temp        Power     Partitions      SCLK    MCLK    Fan  Perf  PwrCap  VRAM%  GPU%
        Name (20 chars)       (Junction)  (Socket)  (Mem, Compute)
==========================================================================================
0       [0x74a1 : 0x00]       45.0°C      173.0W    NPS1, SPX       132Mhz  900Mhz  0%   auto  750.0W    0%   0%
3       [0x74a1 : 0x00]       46.0°C      178.0W    NPS1, SPX       131Mhz  900Mhz  0%   auto  750.0W   17%   0%
==========================================================================================
================================== End of ROCm SMI Log ===================================
"""  # stas00/ml-engineering, compute/accelerator/amd


def test_the_gpus_of_rocm_6_0() -> None:
    log = read(ROCM_6_0.encode())
    power = [(row["device"], row["value"]) for row in log.rows("counters") if row["name"] == "power"]
    assert power == [(0, 173), (3, 178)]
    assert unread(log) == {}


def test_a_csv_whose_header_names_columns_twice() -> None:
    log = read(b"routine,time,num_tokens,backend,num_tokens\na,0.5,8,fa2,1\nb,0.25,,fa3,16\nc,0.125,32,fa2,2\n")
    found = [(row["key"], row["value"]) for row in sorted(log.rows("values"), key=lambda row: row["line"])]
    assert ("num_tokens_2", 16) in found and ("num_tokens", 8) in found


MIGRAPHX = """\
Summary:
gpu::gemm: 8.738ms / 73 = 0.119699ms, 64%
gpu::softmax: 0.810817ms / 12 = 0.0675681ms, 6%
@param: 0.00183054ms / 3 = 0.00061018ms, 1%

Batch size: 1
Rate: 115.075/sec
Total time: 8.68999ms
"""  # ROCm/AMDMIGraphX pull 1287


def test_migraphx() -> None:
    log = read(MIGRAPHX.encode())
    kernels = [(row["name"], row["calls"], row["time_s"], row["share"]) for row in log.rows("kernels")]
    assert kernels[:2] == [("gpu::gemm", 73, 0.008738, 0.64), ("gpu::softmax", 12, pytest.approx(810.817e-6), 0.06)]
    assert values(log) == {"rate": 115.075, "total_time": pytest.approx(0.00868999)}
    assert unread(log) == {}


LINE_PROFILER = """\
Timer unit: 1e-06 s

Total time: 30.8937 s
File: mnist_classify.py
Function: train at line 39

Line #      Hits         Time  Per Hit   % Time  Line Contents
==============================================================
    39                                           @profile
    40                                           def train(args, model, device, train_loader, optimizer, epoch):
    41         3        213.1     71.0      0.0      model.train()
    42      2817   26106124.7   9267.3     84.5      for batch_idx, (data, target) in enumerate(train_loader):

 30.89 seconds - mnist_classify.py:39 - train
"""  # PrincetonUniversity/multi_gpu_training 01_single_gpu


def test_line_profiler() -> None:
    """Its unit of time is above the table: the times have none."""
    log = read(LINE_PROFILER.encode())
    row = {row["key"]: (row["value"], row["unit"]) for row in log.rows("values") if row["line"] == 12}
    assert row["Time"] == (26106124.7, None) and row["share"] == (0.845, "1") and row["hits"] == (2817, None)
    assert values(log)["total_time"] == 30.8937
    assert unread(log) == {}


def test_the_profile_of_python() -> None:
    """The own time of a function is without those that it calls."""
    log = read(b"""\
         113616 function calls (109641 primitive calls) in 3.290 seconds

   Ordered by: cumulative time
   List reduced from 947 to 50 due to restriction <50>

   ncalls  tottime  percall  cumtime  percall filename:lineno(function)
   254/85    0.002    0.000    1.041    0.012 module.py:1747(_call_impl)
      169 0.004586 0.000027 0.523851 0.003100 jit.py:695(run)
       57    0.427    0.007    0.427    0.007 {built-in method torch.cat}
""")  # stas00/ml-engineering debug/pytorch.md
    assert unread(log) == {} and unread_figures(log) == 0
    assert values(log)["profile_time"] == 3.29
    rows = [{row["key"]: row["text"] or row["value"] for row in log.rows("values") if row["line"] == n} for n in (7, 9)]
    assert rows[0] == {
        "calls": 254,
        "own_time": 0.002,
        "cumulative_time": 1.041,
        "function": "module.py:1747(_call_impl)",
    }
    assert rows[1]["function"] == "{built-in method torch.cat}" and rows[1]["own_time"] == 0.427


def test_the_server_of_llama_cpp_of_2026() -> None:
    """The time, the slot and the task stand before each line."""
    before = b"132.15.702.022 I slot print_timing: id  0 | task 9161 | "
    lines = (
        b"prompt eval time =    8476.55 ms /  1938 tokens (    4.37 ms per token,   228.63 tokens per second)",
        b"       eval time =    1834.34 ms /    61 tokens (   30.07 ms per token,    33.25 tokens per second)",
        b"draft acceptance = 0.92727 (   51 accepted /    55 generated), mean len =  5.64",
    )
    log = read(b"".join(before + line + b"\n" for line in lines))  # noonghunna/club-3090
    assert unread(log) == {} and unread_figures(log) == 0
    known = values(log)
    assert (known["prompt_tokens_per_s"], known["eval_tokens_per_s"]) == (228.63, 33.25)
    assert (known["eval_time"], known["draft_acceptance"]) == pytest.approx((1.83434, 0.92727))


def test_the_backends_of_flashinfer_are_compared_within_a_routine(tmp_path: Path) -> None:
    times = {"BmmFp8": {"cudnn": 0.285, "cutlass": 0.266}, "BatchPrefill": {"cudnn": 0.313, "cutlass": 0.53}}
    rates = "std 0.000 ms; achieved tflops 13.180 TFLOPs/sec; achieved tb_per_sec 0.026 TB/sec"
    text = "".join(
        f"[INFO] Running test{routine}\n"
        + "".join(f"[PERF] {backend:15s}:: median time {time:.3f} ms; {rates}\n" for backend, time in of.items())
        for routine, of in times.items()
    )
    (tmp_path / "run.txt").write_text(text, encoding="utf-8")  # flashinfer-ai/flashinfer benchmarks/README.md
    pairs = case_pairs(perflog.read(tmp_path / "run.txt"))
    assert {(row["parameter"], row["variant"]) for row in pairs.to_dict("records")} == {("backend", "cutlass")}


def test_arctic_training() -> None:
    """The time of an iteration includes the data, that of a step does not."""
    log = read(
        b"iter:  130/3000   4% | loss: 16.5469 | iter time: 1.038s | iter tflops: 909.8 | lr: 8.667E-04"
        b" | seqlen: 16.38K | step time: 0.996s | step tflops: 947.4 | epoch: 0"
        b" | MA 2.84 GB | Max_MA 28.95 GB | NV 51.92 GB\n"
    )  # snowflakedb/ArcticTraining
    [step] = log.rows("steps")
    assert (step["step"], step["step_time_s"], step["tflops"], step["loss"]) == (130, 1.038, 909.8, 16.5469)
    assert values(log)["tflops_without_data"] == 947.4 and values(log)["memory_allocated"] == 2.84 * 2**30


def test_gpu_burn() -> None:
    """Each state has the rate, the errors and the temperature of each GPU, one after the other."""
    log = read(
        b"Initialized device 0 with 81251 MB of memory (80493 MB available, using 72443 MB of it), using DOUBLES\n"
        b"50.0%  proc'd: 2261 (7150 Gflop/s) - 4522 (16926 Gflop/s)   errors: 0 - 3  (WARNING!)  temps: 38 C - 36 C \n"
        b"90.0%  proc'd: 4522 (7150 Gflop/s) - -1 (0 Gflop/s)   errors: 7  (WARNING!)- -1  (DIED!)"
        b"  temps: 38 C - 36 C \n"
        b"Tested 2 GPUs:\n\tGPU 0: OK\n\tGPU 1: FAULTY\n"
    )  # microsoft/superbenchmark tests/data/gpu_burn.log
    assert unread(log) == {} and unread_figures(log) == 0
    found = {key: [row["value"] for row in log.rows("values") if row["key"] == key] for key in values(log)}
    assert found["rate_0"] == pytest.approx([7.15, 7.15]) and found["rate_1"] == pytest.approx([16.926, 0])
    assert (found["errors_0"], found["errors_1"], found["temperature_1"]) == ([0, 7], [3, -1], [36, 36])
    assert [row["kind"] for row in log.rows("failures")] == ["gpu_fault"]


def test_columns_of_gpus() -> None:
    log = read(
        b"Total Bandwidth (GiB/s) vs Buffer Size\n"
        b"Size (MiB) | log2(bytes) | GPU 00 | GPU 01\n"
        b"------------------------------------------\n"
        b"       1.0 |          20 |  93.92 |  99.11\n"
        b"       2.0 |          21 | 128.94 | 129.24\n"
    )  # ROCm/iris examples/02_all_load
    last = {row["key"]: (row["value"], row["unit"]) for row in log.rows("values") if row["line"] == 5}
    assert last["GPU_01"] == (pytest.approx(129.24 * 1.073741824), "GB/s") and last["Size"] == (2 * 2**20, "B")
    assert unread_figures(log) == 0


def test_babelstream() -> None:
    assert values(whole("babelstream"))["Triad"] == pytest.approx(1412.034221)


CAPPED = """\
step:13700/20000 train_loss:2.0323 train_time:596577ms step_avg:43.55ms
step:13750/20000 train_loss:1.9910 train_time:598726ms step_avg:43.54ms
step:13780/20000 val_loss:2.0606 val_bpb:1.2172 train_time:600038ms step_avg:43.54ms
stopping_early: wallclock_cap train_time:600038ms step:13780/20000
"""  # pszemraj/parameter-golf records/track_10min_16mb/2026-03-17_NaiveBaseline/train.log


def test_the_mean_rate_of_a_speed_run() -> None:
    log = read(
        b"4500/20000 train_loss: 2.2951 train_time: 8.9m tok/s: 6618594\n4961/20000 val_loss: 2.3593 val_bpb: 1.0780\n"
    )
    assert unread(log) == {}  # also where lines are left out
    [step] = log.rows("steps")  # openai/parameter-golf records of 2026-04
    assert (step["step"], step["loss"], step["elapsed_s"]) == (4500, 2.2951, None)
    assert values(log)["mean_tokens_per_s"] == 6618594 and values(log)["val_bpb"] == 1.078


def test_the_last_step_of_a_run_that_its_program_ended(tmp_path: Path) -> None:
    (tmp_path / "run.txt").write_text(CAPPED, encoding="utf-8")
    log = perflog.read(tmp_path / "run.txt")
    assert list(last_steps(Tables(log)).values()) == [13780]
    assert "run-stopped" not in {finding.code for finding in findings(Tables(log), Options())}
    stop = last_stop(Tables(log))
    assert stop is not None and stop.planned is None
    (tmp_path / "run.txt").write_text("".join(CAPPED.splitlines(keepends=True)[:3]), encoding="utf-8")
    [message] = [
        x.message for x in findings(Tables(perflog.read(tmp_path / "run.txt")), Options()) if x.code == "run-stopped"
    ]
    assert "the last is step 13,780 of 20,000 announced" in message


def test_the_mean_step_of_a_run_without_steps(tmp_path: Path) -> None:
    text = "step:3325/3350 val_loss:3.27898 train_time:488.809s step_avg:147.00ms\n"
    (tmp_path / "run.txt").write_text(text + text.replace("3325", "3350"), encoding="utf-8")
    figures = perflog.overview(perflog.read(tmp_path / "run.txt")).figures
    assert {figure.name: next(iter(figure.values.values())) for figure in figures}["step_avg"] == pytest.approx(0.147)


def cells(log: Reading) -> list[dict[str, object]]:
    """The records of the cells of matrices."""
    found: dict[tuple[int, int], dict[str, object]] = {}
    for row in log.rows("values"):
        if row["part"] >= FIRST_CELL:
            found.setdefault((row["line"], row["part"]), {})[row["key"]] = row["text"] or row["value"]
    return [dict(sorted(found[place].items())) for place in sorted(found)]


def test_matrices_of_gpu_pairs() -> None:
    log = whole("cuda_p2p")
    records = cells(log)
    copies = [row for row in records if row["gpu"] == row["peer"]]
    assert {name for row in copies for name in row} & {"bandwidth", "GPU_latency", "CPU_latency"} == set()
    pairs = {"direction": "Unidirectional", "p2p": "Enabled", "gpu": 1.0, "peer": 0.0}
    assert {**pairs, "bandwidth": pytest.approx(275.66)} in records
    assert {**pairs, "bandwidth_of_reads": pytest.approx(38.66)} in records
    assert {"p2p": "Disabled", "gpu": 0.0, "peer": 1.0, "GPU_latency": pytest.approx(12.83e-6)} in records
    assert {"p2p": "Disabled", "gpu": 0.0, "peer": 1.0, "CPU_latency": pytest.approx(7.83e-6)} in records
    assert len(records) == 4 * (4 + 4 + 1)


def test_matrices_of_nvbandwidth() -> None:
    log = whole("nvbandwidth")
    records = cells(log)
    assert len(records) == 8 * 7 + 2 + 8  # N/A is no figure
    sent = {"engine": "CE", "to": 1.0, "from": 0.0}
    assert {**sent, "device_to_device_memcpy_write_ce.bandwidth": pytest.approx(397.5)} in records
    assert {"gpu": 7.0, "peer": 3.0, "device_to_device_latency_sm.latency": pytest.approx(821.94e-9)} in records


@pytest.mark.parametrize("name", ["cuda_p2p", "nvbandwidth"])
@pytest.mark.parametrize("prefix", ["[1,0]<stdout>:", "2026-05-14 10:24:14 INFO [bench.py:88]: ", "node-3: "])
def test_matrices_behind_a_prefix(name: str, prefix: str) -> None:
    text = (DATA / f"{name}.txt").read_text("utf-8")
    log = read("".join(f"{prefix}{line}" for line in text.splitlines(keepends=True)).encode())
    assert cells(log) == cells(read(text.encode()))


def test_a_matrix_in_several_chunks() -> None:
    text = (DATA / "cuda_p2p.txt").read_bytes()
    assert all(cells(read(text, chunk=size)) == cells(read(text)) for size in (200, 333))


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


def test_blocks_of_composer() -> None:
    log = whole("composer")
    assert [(row["step"], row["loss"]) for row in log.rows("steps")] == [(1, 11.2), (2, 11.1)]
    assert values(log)["device_tokens_per_sec"] == 65536.1
    assert (log.rows("steps")[0]["mfu"], log.rows("steps")[0]["memory_bytes"]) == (0.4512, pytest.approx(61.2e9))
    assert values(log)["eval_eval_LanguageCrossEntropy"] == 2.341


def test_a_batch_of_composer_is_counted_through_the_epochs() -> None:
    block = "[epoch={}][batch={}/480]:\n\t Train loss/train/total: 2.5000\n\t Train throughput/device/mfu: 0.4512\n"
    log = read((block.format(1, 480) + block.format(2, 1)).encode())
    assert [row["step"] for row in log.rows("steps")] == [480, 481]


def test_blocks_of_olmo_core() -> None:
    log = whole("olmo_core")
    assert [(row["step"], row["loss"]) for row in log.rows("steps")] == [(10, 10.23), (20, 10.13)]
    last = values(log)
    assert (last["tokens_per_s"], last["total_tokens"]) == (12345, 1.05e9)
    assert last["mfu"] == pytest.approx(0.4512)


def test_a_block_of_olmo_core_without_its_title() -> None:
    block = (DATA / "olmo_core.txt").read_text(encoding="utf-8").split("\n", 1)[1].split("\n202")[0]
    log = read(f"{block}\n".encode())
    assert [(row["step"], row["loss"]) for row in log.rows("steps")] == [(None, 10.23)]
    assert values(log)["tokens_per_s"] == 12345


def test_iterations_of_litgpt() -> None:
    log = whole("litgpt")
    steps = sorted(log.rows("steps"), key=lambda row: row["line"])
    assert [row["step"] for row in steps] == [4810, 4811, 4816]
    assert [row["step_time_s"] for row in steps] == [None] * 3  # several iterations make a step
    assert max(r["value"] for r in log.rows("values") if r["key"] == "iter_time") == pytest.approx(0.17168)
    assert values(log)["val_loss"] == 1.7032


def test_metrics_of_fairseq2() -> None:
    log = whole("fairseq2")
    steps = log.rows("steps")
    assert [(row["step"], row["steps_averaged"]) for row in steps][1:] == [(k, 10) for k in (20, 30, 40, 50)]
    assert [row["step_time_s"] for row in steps][1:] == [1, 1, 1, 1]
    assert steps[0]["memory_bytes"] == pytest.approx(41.27 * 2**30)
    assert values(log)["validation_NLL_Loss"] == 3.0127


def test_ms_swift_prints_its_clock() -> None:
    line = (
        "{{'loss': 0.48, 'learning_rate': 1e-06, 'memory(GiB)': 69.19, 'train_speed(iter/s)': 0.01, 'epoch': 0.26, "
        "'global_step/max_steps': '{}/94', 'percentage': '12.77%', 'elapsed_time': '{}', "
        "'remaining_time': '2h 5m 59s'}}\n"
    )
    log = read((line.format(12, "18m 26s") + line.format(13, "19m 58s")).encode())
    assert unread_figures(log) == 0
    first, second = log.rows("steps")
    assert (first["step"], first["elapsed_s"], first["memory_bytes"]) == (12, 1106, pytest.approx(69.19 * 2**30))
    assert second["step_time_s"] == 92


@pytest.mark.parametrize("quote", ["", "'"])
def test_ms_swift_counts_iterations_and_prints_strings(quote: str) -> None:
    line = "{{'loss': {q}0.43{q}, 'iteration': '{}/10635', 'elapsed_time': '{}', 'train_speed(s/it)': {q}116.1{q}}}\n"
    lines = [line.format(step, clock, q=quote) for step, clock in ((5, "9m 40s"), (10, "17m 17s"))]
    log = read("".join(lines).encode())
    assert unread_figures(log) == 0
    assert [(row["step"], row["loss"]) for row in log.rows("steps")] == [(5, 0.43), (10, 0.43)]
    assert log.rows("steps")[1]["step_time_s"] == pytest.approx(91.4)
    assert values(log)["mean_s_per_step"] == 116.1


def test_ms_swift_prints_numbers_and_strings_in_one_dict() -> None:
    line = "{{'loss': '0.43', 'global_step/max_steps': '{}/9', 'memory(GiB)': '2.0', 'epoch': {}}}\n"
    log = read((line.format(5, "0.5") + line.format(6, "'0.6'") + line.format(7, "0.7")).encode())
    assert {row["step"]: (row["loss"], row["memory_bytes"]) for row in log.rows("steps")} == dict.fromkeys(
        (5, 6, 7), (0.43, 2.0 * 2**30)
    )


def test_nerfstudio_prints_a_header_again_and_again() -> None:
    text = "".join(
        f"{'Step (% Done)':20}{'Train Iter (time)':21}{'ETA (time)':21}{'Train Rays / Sec':41}latfacto.py:604\n"
        f"{'-' * 83:103}latfacto.py:554\n{step:20}43.140 ms{'':12}39 s, 300.687 ms     {'14.86 M':41}latfacto.py:566\n"
        for step in ("4090 (81.78%)", "4210 (84.18%)")
    )
    log = read(text.encode())
    assert (unread(log), unread_figures(log)) == ({}, 0)
    assert [row["step"] for row in log.rows("steps")] == [4090, 4210]
    assert [row["step_time_s"] for row in log.rows("steps")] == pytest.approx([0.04314, 0.04314])
    assert values(log)["train_rays_per_s"] == 14_860_000


def test_proton() -> None:
    tree = "2484.174 8852.130 ROOT\n├─ 2201.650 4994.035 matmul [M=8192]\n└─ 2849.882 3858.095 cublas\n"
    tree += "   └─ nan 3858.095 nvjet\n"
    log = read(tree.encode())
    assert (unread(log), unread_figures(log)) == ({}, 0)
    rows = [(row["line"], row["key"], row["value"]) for row in log.rows("values") if row["value"] is not None]
    assert (2, "metric_2", 4994.035) in rows


def test_autoresearch() -> None:
    step = (
        "step 00953 (100.0%) | loss: 2.9123 | lrm: 0.00 | dt: 310ms | tok/sec: 1,690,010 | mfu: 39.8% | remaining: 0s"
    )
    log = read(f"{step}\n---\nval_bpb:          0.997900\npeak_vram_mb:     45060.2\ndepth:            8\n".encode())
    assert unread_figures(log) == 0
    (row,) = log.rows("steps")
    assert (row["step"], row["step_time_s"], row["mfu"], row["tokens_per_s"]) == (
        953,
        0.31,
        pytest.approx(0.398),
        1_690_010,
    )
    assert [values(log)[key] for key in ("val_bpb", "peak_memory")] == pytest.approx([0.9979, 45060.2 * 2**20])


def test_measured_lines_name_their_case() -> None:
    """Words after a name tell which program was measured, arguments in brackets on what."""
    line = "Provider: {}, Shape (m=8, n=576, k=7168, tp=1), Time: {} ms, TFLOPS: 1.06\n"
    log = read((line.format("deepgemm", 62.14) + line.format("tilelang", 35.87)).encode())
    assert unread_figures(log) == 0
    assert [row["text"] for row in log.rows("values") if row["key"] == "Provider"] == ["deepgemm", "tilelang"]
    assert values(log)["Time"] == pytest.approx(0.03587)


def test_labels_trees_and_tildes_bind_measured_times() -> None:
    text = "[Decode time] 295.569s\n[Total time] 332.403s\nLoad time: 18507.00 ms\n"
    text += "Iteration time ~0.9 s\n⚡   └─ Batch 1: 0.17s\nE2E latency (s): 3.2\nPeak GPU memory: 64 GB\n"
    log = read(text.encode())
    assert unread_figures(log) == 0
    found = {row["line"]: round(row["value"], 6) for row in log.rows("values")}
    assert found == {1: 295.569, 2: 332.403, 3: 18.507, 4: 0.9, 5: 0.17, 6: 3.2, 7: 64e9}
    assert {"Load_time", "Batch_1", "E2E_latency", "Peak_GPU_memory"} <= values(log).keys()


def test_names_that_are_units_and_remarks_after_figures() -> None:
    text = "Average iter time: 383.11 ms\nTFLOP/s: 492.65\nTokens/s/GPU: 10690.01\n"
    text += "Time to load: 0.12 seconds.\n  gradient_allreduce: 540.274 ms (message: 24192.00 MB)\n"
    log = read(text.encode())
    assert unread_figures(log) == 0
    found = {row["key"]: row["unit"] for row in log.rows("values")}
    assert (found["TFLOP_s"], found["Tokens_s_GPU"], found["gradient_allreduce_message"]) == ("TFLOP/s", "1/s", "B")


def test_zeros_of_a_case_that_crashed_are_no_measurement(tmp_path: Path) -> None:
    """The table of experiments of autoresearch: a crash has no loss and no memory."""
    rows = ["a1\t1.80\t0.2\tkeep", "b2\t0.0\t0.0\tcrash", "c3\t1.70\t0.3\tkeep", "d4\t1.6\t0.4\tdiscard"]
    lines = ["commit\tval_bpb\tmemory_gb\tstatus", *rows, ""]
    (tmp_path / "results.tsv").write_text("\n".join(lines), encoding="utf-8")
    table = cases(perflog.read(tmp_path / "results.tsv"))
    assert set(table["failed"]) == {1}
    assert table["min"].min() > 0


def test_the_time_of_a_step_without_a_number_is_shown(tmp_path: Path) -> None:
    """People paste the block of one step, without the header that numbers it."""
    text = "📊 Training Results:\n  • Loss: 0.1032\n⏱️  Timing:\n  • Total step time: 66.55s\n"
    (tmp_path / "run.txt").write_text(f"{text}  • policy_training: 25.05s (37.6%)\n", encoding="utf-8")
    figures = run_figures(Tables(perflog.read(tmp_path / "run.txt")), Options())
    assert [(figure.name, *figure.values.values()) for figure in figures] == [("step time", 66.55), ("Loss", 0.1032)]


def test_a_tree_of_times_with_shares() -> None:
    text = "step: 1203.4 ms (100.0%)\n  forward_pass: 400.2 ms (33.3%)\n    attention: 210.1 ms (17.5%)\n"
    text += "    ├── mlp: 100.1ms (8.3%)\n"
    log = read(text.encode())
    assert (unread(log), unread_figures(log)) == ({}, 0)
    assert (values(log)["attention"], values(log)["attention_share"]) == pytest.approx((0.2101, 0.175))
    assert values(log)["mlp"] == pytest.approx(0.1001)


def test_triton_shared() -> None:
    text = "bench_matmul(512, 512, 512, 'triton') {}, 20 times, all results in seconds\n"
    text += "Avg=0.250993, min=0.250219, 20pp=0.250416, 50pp=0.250718, 90pp=0.252334, max=0.253804\n"
    log = read(text.encode())
    assert (unread(log), unread_figures(log)) == ({}, 0)
    assert (values(log)["mean_time"], values(log)["p90_time"]) == (0.250993, 0.252334)


def test_loadgen() -> None:
    """The summary of MLPerf's inference benchmarks. Limits of latencies are settings."""
    log = whole("loadgen")
    found = values(log) | {row["key"]: row["value"] for row in log.rows("summaries")}
    assert (found["completed_tokens_per_s"], found["completed_samples_per_s"]) == (8840.42, 29.41)
    assert found["latency_p50"] == pytest.approx(8.60997075)
    assert found["TTFT_mean"] == pytest.approx(0.201330486)
    assert found["TPOT_p97"] == pytest.approx(0.03636554)
    assert '"Scenario": "Server"' in log.rows("runs")[0]["config"]
    assert "latency" not in found


def test_stable_diffusion_cpp() -> None:
    log = whole("stable_diffusion_cpp")
    rates = [row["value"] for row in log.rows("values") if row["key"] == "s_per_it"]
    assert (rates[0], rates[-1]) == (15.66, 13.82)
    found = values(log)
    assert (found["get_learned_condition"], found["sampling"], found["offload_time"]) == (2.141, 545.2, 1.82)


def test_comfyui() -> None:
    log = whole("comfyui")
    assert [row["value"] for row in log.rows("values") if row["key"] == "prompt_time"] == [111.18, 58.46]
    assert values(log)["loaded_memory"] == 159.56 * 2**20


def test_times_of_deepmd_are_those_of_the_batches_between_lines() -> None:
    lines = [
        f"[2026-06-20 22:1{k}:03,500] DEEPMD INFO    Batch     {200 * k}: {what}"
        for k in range(1, 4)
        for what in (
            "trn: rmse = 1.06e+01, rmse_e = 1.55e+00, rmse_f = 3.35e-01, lr = 1.00e-03",
            "total wall time = 60.01 s, eta = 0:32:56",
        )
    ]
    log = read(("\n".join(lines) + "\n").encode())
    assert unread_figures(log) == 0
    assert [row["step"] for row in log.rows("steps")] == [200, 400, 600]
    assert log.rows("steps")[2]["step_time_s"] == pytest.approx(0.3)
    assert values(log)["interval_time"] == 60.01


def test_lines_of_basicsr() -> None:
    line = (
        "2025-11-20 18:04:40,262 INFO: [SAFMN..][epoch:  0, iter:   1,400, lr:(1.000e-03,)] "
        "[eta: 8 days, 22:51:35, time (data): 0.776 (0.020)] l_pix: 3.0228e-02 f_pix: 2.5529e-01 "
    )
    log = read(f"{line}\n{line.replace('1,400', '1,500').replace('18:04:40', '18:05:57')}\n".encode())
    first = log.rows("steps")[0]
    assert (first["step"], first["step_time_s"], first["learning_rate"]) == (1400, 0.776, 0.001)
    assert values(log)["l_pix"] == 0.030228


def test_a_step_in_brackets_and_a_step_with_a_rate_alone() -> None:
    bracket = read(
        b"Ep 1 (Step 000050): Train loss 0.682, Val loss 0.706\nEp 1 (Step 000100): Train loss 0.5, Val loss 0.6\n"
    )
    assert [(row["step"], row["loss"]) for row in bracket.rows("steps")] == [(50, 0.682), (100, 0.5)]
    rate = read(
        b"Ep 1, Step 000015, Train: 6.201, Val: 6.152, Step tok/sec: 12545, Avg tok/sec: 12545\n"
        b"Ep 1, Step 000030, Train: 5.663, Val: 5.688, Step tok/sec: 12490, Avg tok/sec: 12517\n"
    )
    assert [row["step"] for row in rate.rows("steps")] == [15, 30]
    assert (values(rate)["Step_tok_sec"], values(rate)["Train"]) == (12490, 5.663)


def test_gpu_mode() -> None:
    text = "benchmark-count: 3\nbenchmark.0.spec: m: 7168; n: 128\nbenchmark.0.runs: 200\nbenchmark.0.best: 115712.5\n"
    log = read(text.encode())
    assert (unread(log), unread_figures(log)) == ({}, 0)
    assert [values(log)[key] for key in ("best_time", "runs")] == pytest.approx([115.7125e-6, 200])


def test_minus_signs_of_documents_belong_to_their_numbers() -> None:
    rows = "| 1 | -4.6% | -0.5 … -4.1% |\n| 2 | -10.9% | -11.3 … -12.9% |\n"
    table = "| batch | change | paired |\n|---|---|---|\n" + re.sub("-(?=[0-9])", "\u2212", rows)
    log = read(table.encode())
    found = [row["value"] for row in log.rows("values") if row["line"] == 4]
    assert found == pytest.approx([2, -0.109, -11.3, -0.129])


MARKDOWN = {  # tables of the documents of nanochat, Mooncake, aiter and torchtitan, cut down
    "|x0_beta1|val/bpb| Δ vs baseline |\n|-|-|-|\n| **0.96** | **0.7971** | **-0.0007** |\n| 0.9 | 0.7972 | — |\n": [
        ("x0_beta1", 0.96, None), ("val_bpb", 0.7971, None), ("Δ_vs_baseline", -0.0007, None),
        ("x0_beta1", 0.9, None), ("val_bpb", 0.7972, None), ("Δ_vs_baseline", None, None),
    ],
    "| Configuration | Write |\n|---------------|-------|\n| block=1MB, threads=8 | 210.76 GB/s |\n": [
        ("Configuration", None, None), ("Write", 210.76, "GB/s"),
    ],
    "| phase | mean | n |\n|---|---:|---|\n| a | 5h26m | 1 |\n| b | 36m37s | 2 |\n| c | ~22s | 3 |\n": [
        ("phase", None, None), ("mean", 19560, "s"), ("n", 1, None),
        ("phase", None, None), ("mean", 2197, "s"), ("n", 2, None),
        ("phase", None, None), ("mean", 22, "s"), ("n", 3, None),
    ],
    "| ctx_lens | batch | us |\n|---|---|---|\n| 10K | 1 | `39.09` |\n| 100K | 4 | 106.96 |\n": [
        ("ctx_lens_K", 10, None), ("batch", 1, None), ("us", 39.09, None),
        ("ctx_lens_K", 100, None), ("batch", 4, None), ("us", 106.96, None),
    ],
    "| batch | FWD(TFLOPS) |    |\n|---|---|---|\n|    | MI300X | MI355X |\n| 1 | 338.07 | 613.48 |\n": [
        ("batch", 1, None), ("FWD_MI300X", 338.07, "TFLOP/s"), ("FWD_MI355X", 613.48, "TFLOP/s"),
    ],
    "| R | TTFT || ITL |\n| Rate | ms || ms |\n|  | Mdn | p95 | p50 |\n|-|-|-|-|\n| a | 15.8 | 19 | 2.2 |\n": [
        ("R_Rate", None, None), ("TTFT_Mdn", 0.0158, "s"), ("TTFT_p95", 0.019, "s"), ("ITL_p50", 0.0022, "s"),
    ],
    "Run | Time (ms)||\n R | mean| p95| p99\n---|---|---|---\n a | 15.5| 19| 19.5\n": [  # without bars at both ends
        ("Run_R", None, None), ("Time_mean", 0.0155, "s"), ("Time_p95", 0.019, "s"), ("Time_p99", 0.0195, "s"),
    ],
    "|Groups|Version|Metric| |Value| |Stderr|\n|-|-:|-|-|-:|-|-:|\n|mmlu|2|acc|↑|0.6209|±|0.0038|\n": [
        ("Groups", None, None), ("Version", 2, None), ("Stderr", 0.0038, None), ("acc", 0.6209, None),
    ],
    "| M | SM90 | dg |\n|-|-|-|\n| 8 | **3.5 ms / 706 TFLOPS** | 234.5 (0.92x) |\n": [
        ("M", 8, None), ("SM90", 0.0035, "s"), ("SM90_TFLOPS", 706, "TFLOP/s"),
        ("dg", 234.5, None), ("dg_x", 0.92, "1"),
    ],
    "| File | LOC | Cited |\n|-|-|-|\n| a.py | 339 | 7.1, 7.2 |\n| b.py | 12 | 8.1 |\n| c.py | 1 | 8.1, 9 |\n": [
        ("File", None, None), ("LOC", 339, None), ("Cited", None, None),
        ("File", None, None), ("LOC", 12, None), ("Cited", None, None),
        ("File", None, None), ("LOC", 1, None), ("Cited", None, None),
    ],
}  # fmt: skip


@pytest.mark.parametrize("text", MARKDOWN)
def test_the_rule_of_a_markdown_table_proves_its_header(text: str) -> None:
    log = read(text.encode())
    rows = sorted(log.rows("values"), key=lambda row: row["line"])
    assert [(row["key"], row["value"], row["unit"]) for row in rows] == MARKDOWN[text]
    assert unread_figures(log) == 0


def test_names_in_any_script() -> None:
    """A name keeps its letters, also where all of them are of another script than the names of fields."""
    table = read("| 模型 | 吞吐 (tok/s) | 延迟 (ms) |\n|-|-|-|\n| a | 12.5 | 3.1 |\n| b | 13.5 | 3.3 |\n".encode())
    found = {(row["key"], row["unit"]): row["value"] for row in table.rows("values") if row["line"] == 3}
    assert found == {("模型", None): None, ("吞吐", "1/s"): 12.5, ("延迟", "s"): pytest.approx(0.0031)}
    lines = read(
        "Step: 10, loss: 2.5, 耗时: 3.1 ms, λ_reg 0.5\nStep: 20, loss: 2.4, 耗时: 3.0 ms, λ_reg 0.4\n".encode()
    )
    assert {"耗时", "λ_reg"} == {row["key"] for row in lines.rows("values")}


def test_a_markdown_table_without_values_is_none() -> None:
    text = "| Package | Pin | Where |\n|---|---|---|\n| aiohttp | `3.14.3` | lock |\n| attrs | 26.1.0 | see 1.2 |\n"
    with pytest.raises(InputError):
        read(text.encode())


def test_slurm_s_tracked_resources_have_sizes_with_and_without_a_unit() -> None:
    log = (
        "7.batch|cpu=00:56:24,energy=0,fs/disk=350130,mem=10621726720,pages=3465,vmem=10439041024|\n"
        "8.0|cpu=00:00:10,energy=120,fs/disk=5273,mem=5504K,pages=0,vmem=1.5G|\n"
    )
    rows = read(log.encode()).rows("values")
    found = [row["value"] for row in rows if row["key"] in ("memory", "virtual_memory")]
    assert sorted(found) == [5504 * 1024, 1.5 * 2**30, 10439041024, 10621726720]


def test_ultralytics() -> None:
    """The row of all classes is no row of the table of epochs; losses that only the header names are unread."""
    row = "      {}/100      3.61G      1.482      1.812      1.017        332        640: {}"
    rows = (
        row.format(1, " 87%|#### | 1410/1618 [02:03<00:20, 10.57it/s]"),
        row.format(1, "100%|#####| 1618/1618 [02:33<00:00, 10.57it/s]"),
        "                   all        548      38759      0.557      0.436      0.452      0.278",
        row.format(2, "100% ━━━━━━━━━━━━ 1618/1618 10.5it/s 2:31"),
        row.format(3, "100% ━━━━━━━━━━━━ 1618/1618 50.5it/s 32.1s"),
    )
    log = read("".join(f"{row}\n" for row in rows).encode())
    found = [(row["line"], row["key"], row["value"]) for row in log.rows("values")]
    times = [(2, "epoch_time", 153.0), (4, "epoch_time", 151.0), (5, "epoch_time", 32.1)]
    assert [row for row in found if row[1] == "epoch_time"] == times
    assert (3, "mAP50_95", 0.278) in found and (2, "memory_reserved", 3.61e9) in found
    assert {key for _, key, _ in found} == {
        "epoch", "epoch_time", "memory_reserved", "precision", "recall", "mAP50", "mAP50_95"
    }  # fmt: skip


def test_uccl() -> None:
    """Sizes count in steps of 1,024; a transfer is timed in s or in us."""
    log = read(
        b"[Client]   16.0 KB :  13.31 Gbps |   1.66 GB/s  | 0.000010 s\n"
        b"[Client]    1.0 MB : 165.50 Gbps |  20.69 GB/s  |    50.69 us\n"
        b"[Client] Benchmark complete\n"
    )
    assert unread_figures(log) == 0
    found = {(row["line"], row["key"]): row["value"] for row in log.rows("values")}
    assert [found[line, "message_size"] for line in (1, 2)] == [16 * 2**10, 2**20]
    assert [found[line, "bandwidth"] for line in (1, 2)] == [1.66, 20.69]
    assert [found[line, "transfer_time"] for line in (1, 2)] == pytest.approx([10e-6, 50.69e-6])


def test_npu_smi() -> None:
    """Of a board with two chips, the power and temperature name no chip; the memory does."""
    names = "| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|\n"
    one = (
        "| 1     910B2C              | OK            | 86.8        35                0    / 0             |\n"
        "| 0                         | 0000:66:00.0  | 0           0    / 0          59356/ 65536         |\n"
    )
    two = (
        "| 1     Ascend910           | OK            | -           36                0    / 0             |\n"
        "| 1     3                   | 0000:9F:00.0  | 5           0    / 0          3195 / 65536         |\n"
    )
    found: list[dict[tuple[object, object], object]] = []
    for board in (one, two):
        got = read(f"{names}{board}".encode())
        assert unread(got) == {}
        found.append({(row["name"], row["device"]): row["value"] for row in got.rows("counters")})
    shared = {("gpu_utilization", 1): 0, ("memory_total", 1): 2**36}
    assert found[0] == {("power", 1): 86.8, ("temperature", 1): 35, ("memory_used", 1): 59356 * 2**20, **shared}
    assert found[1] == {
        ("temperature", None): 36, ("memory_used", 3): 3195 * 2**20, ("gpu_utilization", 3): 0.05,
        ("memory_total", 3): 2**36,
    }  # fmt: skip


def test_xla_says_how_long_a_slow_operation_took() -> None:
    prefix = "2025-03-19 07:30:{}.045318: E external/xla/xla/service/slow_operation_alarm.cc:{}] "
    message = (
        "[Compiling module loop_] Very slow compile? If you want to file a bug, run with envvar XLA_FLAGS=--a=/b and "
    )
    lines = [
        f"{prefix.format('02', 140)}The operation took 2m12.850942799s", f"{message}attach the results.",
        f"{prefix.format('09', 140)}The operation took 1.422510301s",
    ]  # fmt: skip
    got = read("\n".join([*lines, ""]).encode())
    times = [row["value"] for row in got.rows("values") if row["key"] == "slow_operation"]
    assert times == pytest.approx([132.850942799, 1.422510301])


def test_epochs_of_nnunet() -> None:
    """A name before a number, with nothing but a blank between them, is read where another line proves the format."""
    stamp = "2024-04-26 09:4{}:39.493872: "
    lines = [
        "Epoch 1",
        "Current learning rate: 0.00999",
        "train_loss 0.4043",
        "val_loss 0.3847",
        "Epoch time: 134.63 s",
    ]
    got = read("".join(f"{stamp.format(k)}{line}\n" for k, line in enumerate(lines)).encode())
    expected = {"Current_learning_rate": 0.00999, "train_loss": 0.4043, "val_loss": 0.3847, "epoch_time": 134.63}
    assert {key: values(got).get(key) for key in expected} == expected


def test_memory_of_a_step_by_rank() -> None:
    line = "[rank={}]: step=498 memory peak_mem_GiB=5.5, current_mem_GiB=1.25\n"
    got = read("".join(line.format(rank) for rank in (3, 5)).encode())
    assert [(row["step"], row["rank"], row["memory_bytes"]) for row in got.rows("steps")] == [
        (498, 3, 5.5 * 2**30), (498, 5, 5.5 * 2**30),
    ]  # fmt: skip


def test_helion_times_the_configurations_of_each_generation() -> None:
    got = read(
        b"[0s] Starting DifferentialEvolutionSearch with population=40, generations=20, crossover_rate=0.8\n"
        b"[20s] Initial population: failed=4 min=0.0266 mid=0.1577 max=1.2390 best=Config(num_warps=8)\n"
        b"[88s] Generation 3: replaced=18 min=0.0225 mid=0.0389 max=0.1085 best=Config(num_warps=4)\n"
        b"[586s] Autotuning complete in 586.6s after searching 1520 configs.\n"
    )
    last = {
        "best_config_time": 22.5e-6, "median_config_time": 38.9e-6, "worst_config_time": 108.5e-6, "generation": 3,
        "autotuning_time": 586.6, "configs_tested": 1520,
    }  # fmt: skip
    assert {key: values(got)[key] for key in last} == pytest.approx(last)


def test_lammps() -> None:
    """Also in what `grep` finds in several files; the part without a minimum is measured as the rest."""
    got = read(
        b"log.txt:Loop time of 9.05245 on 4 procs for 100 steps with 2048000 atoms\n"
        b"log.txt:  special bonds CPU = 3.617 seconds\n"
        b"Performance: 1302129.562 tau/day, 3014.189 timesteps/s\n"
        b"MPI task timing breakdown:\n"
        b"Section |  min time  |  avg time  |  max time  |%varavg| %total\n"
        b"---------------------------------------------------------------\n"
        b"Pair    | 0.063057   | 0.063058   | 0.063059   |   0.5 | 76.03\n"
        b"Other   |            | 0.002007   |            |       |  2.42\n"
    )
    assert got.rows("runs")[0]["world_size"] == 4
    last = {"loop_time": 9.05245, "special_bonds_time": 3.617, "timesteps_per_s": 3014.189, "Pair.max_time": 0.063059}
    last |= {"Pair.share": 0.7603, "Other.avg_time": 0.002007}
    assert {key: values(got)[key] for key in last} == pytest.approx(last)
    assert unread(got) == {}


def test_llama_perplexity() -> None:
    log = read(
        b"perplexity: tokenization took 512.52 ms\n"
        b"perplexity: calculating perplexity over 655 chunks, n_ctx=512, batch_size=2048, n_seq=4\n"
        b"perplexity: 1.55 seconds per pass - ETA 4.22 minutes\n"
        b"[1]4.1627,[2]4.6852,[3]5.5341,[4]6.0911,\n"
        b"[5]7.0350,[6]7.2353,\n"
        b"Final estimate: PPL = 5.9070 +/- 0.03301\n"
    )  # ggml-org/llama.cpp tools/perplexity/perplexity.cpp
    assert unread(log) == {} and unread_figures(log) == 0
    assert values(log) == {"pass_time": 1.55, "perplexity": 5.907, "perplexity_std_err": 0.03301}


def test_metrics_of_a_compilation_of_dynamo() -> None:
    got = read(
        b"%s CompilationMetrics(compile_id='0/0', frame_key='1', co_name='forward', co_firstlineno=10, cache_size=0, "
        b"guard_count=11, start_time=1716247236.6165977, entire_frame_compile_time_s=7.926939964294434, "
        b"backend_compile_time_s=7.887059926986694, fail_type=None, is_fwd=True)\n"
    )
    expected = {
        "entire_frame_compile_time": 7.926939964294434,
        "backend_compile_time": 7.887059926986694,
        "guard_count": 11,
    }
    assert {key: values(got)[key] for key in expected} == expected


def test_a_benchmark_that_counts_parameters_is_not_nanochat() -> None:
    """The time of a pass over prompt and generation is measured; so is what follows it."""
    block = "Number of parameters: 2768345600\nprompt processing + decoding time: {}s\nmemory used: {}GB\n"
    got = read("".join(block.format(*each) for each in ((12.12, 5), (24.99, 7))).encode())
    assert {row["format"] for row in got.rows("runs")} == {"meters"}
    found = [(row["value"], row["unit"]) for row in got.rows("values")]
    assert found == [(12.12, "s"), (24.99, "s"), (5e9, "B"), (7e9, "B")]


def test_lerobot_waits_for_batches() -> None:
    """A step is an update and the wait for its batch; a line has their means since the line before."""
    text = (
        "INFO 2025-07-11 08:20:13 ts/train.py:232 step:16 smpl:1K ep:3 epch:0.00 loss:1.037 grdn:5.682 lr:3.2e-06 "
        "updt_s:0.301 data_s:0.001\n"
        "INFO 2025-07-11 08:20:16 ts/train.py:232 step:17 smpl:1K ep:3 epch:0.00 loss:1.090 grdn:6.226 lr:3.4e-06 "
        "updt_s:0.295 data_s:2.595\n"
    )
    log = whole_text(text, "lerobot")
    assert [row["step_time_s"] for row in log.rows("steps")] == [pytest.approx(0.302), pytest.approx(2.89)]
    assert {key: values(log)[key] for key in ("update", "data", "samples")} == {
        "update": 0.295, "data": 2.595, "samples": 1000
    }  # fmt: skip
