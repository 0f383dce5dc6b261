"""Benchmarks of the field: Tutel, FastMoE, nccl-tests, llm.c, nanoGPT and DeepSpeed's profiler give their figures."""

from __future__ import annotations

import math
import statistics

import pytest
from support.field_logs import both, column, config, corpus, cut, index, local, needs_corpus, rows, unread
from support.reading import Reading, read

from perflog.errors import UnrecognisedError

# --- Tutel ----------------------------------------------------------------------------------------------------------


@needs_corpus
def test_tutel_blocks_are_runs_with_their_steps() -> None:
    log, want = corpus("moe/"), index()[local("moe/")]
    runs = [r["run"] for r in rows(log, "runs")]
    assert [config(log, k)["num_local_experts"] for k in range(len(runs))] == [int(b["head"]) for b in want["blocks"]]
    for run, block in zip(runs, want["blocks"], strict=True):
        times = column(log, "steps", "step_time_s", run=run)
        assert len(times) == block["steps"]
        assert statistics.fmean(times) == pytest.approx(block["mean"], abs=5e-7)
        assert statistics.fmean(times[-10:]) == pytest.approx(block["mean_last10"], abs=5e-7)
    assert len(rows(log, "steps")) == want["step_lines"]
    assert rows(log, "summaries") == want["summary"]
    assert (log.done.formats, unread(log)) == (["moe_layer"], {})


def test_tutel_old_and_new_lines() -> None:
    log = cut("tutel")
    assert column(log, "steps", "step_time_s") == [7.291382, 0.047429, 0.046376, 7.582272, 0.05183, 0.049237, 0.5]
    assert column(log, "steps", "tflops")[2:4] == [17.78, 0.11]
    assert [config(log, k).get("hidden_size") for k in range(3)] == [4096, 4096, None]
    assert column(log, "summaries", "value") == [0.0512345]
    assert unread(log) == {}


# --- FastMoE --------------------------------------------------------------------------------------------------------


def test_fastmoe_line_is_a_mean_of_16_steps() -> None:
    log = read(b"""\
Performance test of FMoETransformerMLP mm size 4096 1024x4096 experts 4x64 topk 2
Time mean/max/stdev/back 9.471 9.702 0.003 17.218 ms, 14568.731 GFLOPs
Time mean/max/stdev/back 9.500 9.702 0.003 17.218 ms, 14524.247 GFLOPs
""")
    found = rows(log, "steps")
    assert [(r["step"], r["steps_averaged"], r["copy"]) for r in found] == [(16, 16, 1), (16, 16, 2)]
    assert next((r["forward_s"], r["backward_s"], r["tflops"]) for r in found) == (
        pytest.approx(9.471e-3), pytest.approx(17.218e-3), pytest.approx(14.568731),
    )  # fmt: skip
    assert config(log) == {
        "model": "FMoETransformerMLP", "samples": 4096, "model_dim": 1024, "hidden_size": 4096, "world_size": 4,
        "num_local_experts": 64, "top_k": 2,
    }  # fmt: skip
    assert unread(log) == {}


# --- nccl-tests -----------------------------------------------------------------------------------------------------

PMIX = "[#KF#:#] PMIX ERROR: ERROR in file gds_ds#_lock_pthread.c at line #"  # of the launcher, not of the test


@both
def test_nccl_rows_are_two_measurements(whole: bool) -> None:
    log = corpus("nccl/") if whole else cut("nccl_tests")
    found = rows(log, "collectives", run=rows(log, "runs")[0]["run"])
    last = [r for r in found if r["bytes"] == 704643072]
    assert [(r["buffer"], r["busbw_gbps"], r["op"]) for r in last] == [
        ("out of place", 457.82, "all_reduce"), ("in place", 457.71, "all_reduce"),
    ]  # fmt: skip
    assert [r["time_s"] for r in last] == [pytest.approx(2693.5e-6), pytest.approx(2694.1e-6)]
    assert {(r["dtype"], r["wrong"]) for r in found} == {("half", 0)}
    assert column(log, "summaries", "value", key="busbw")[0] == 382.126
    assert unread(log) == {PMIX: 8 if whole else 1}


@needs_corpus
def test_nccl_figures() -> None:
    log, (want,) = corpus("nccl/"), index()[local("nccl/")]["per_test"]
    found = rows(log, "collectives")
    assert len(found) == 2 * want["rows"]
    assert [found[-1]["bytes"], *(r["busbw_gbps"] for r in found[-2:])] == want["last"]
    assert statistics.fmean(r["busbw_gbps"] for r in found) == pytest.approx(want["mean_busbw"], abs=5e-5)
    assert column(log, "summaries", "value", key="busbw") == [want["avg"]]
    assert log.done.formats == ["nccl_tests"]


def test_nccl_generations() -> None:
    log = cut("nccl_tests")
    _, early, late = rows(log, "runs")
    found = rows(log, "collectives", run=early["run"])
    assert [(r["bytes"], r["busbw_gbps"], r["wrong"]) for r in found] == [  # an error of 2e-7 is no count
        (1048576, 56.44, 0), (1048576, 56.6, 0), (2097152, 81.55, None), (2097152, 83.21, None),
    ]  # fmt: skip
    found = rows(log, "collectives", run=late["run"])
    assert [(r["op"], r["wrong"]) for r in found] == [("alltoall", 0), ("alltoall", None)] * 2
    assert (early["label"], late["label"]) == (None, "alltoall")


def test_rows_of_nccl_without_their_header() -> None:
    """A row begins with two whole numbers and two words. Of numbers alone it may be a row of any table."""
    row = "{:>12}  {:>12}  {:>8}  {:>6}      -1    19.08    0.43    0.38       0    16.21    0.51    0.45     N/A\n"
    log = read("".join(row.format(size, size // 4, "bfloat16", "sum") for size in (16384, 32768, 65536)).encode())
    assert log.done.formats == ["nccl_tests"]
    found = [(r["bytes"], r["dtype"], r["buffer"], r["busbw_gbps"], r["wrong"]) for r in rows(log, "collectives")]
    assert found[:2] == [(16384, "bfloat16", "out of place", 0.38, 0), (16384, "bfloat16", "in place", 0.45, None)]
    assert len(found) == 6
    with pytest.raises(UnrecognisedError):
        read("".join(row.format(size, 2, 3, 4) for size in (16384, 32768, 65536)).encode())


# --- llm.c and nanoGPT ----------------------------------------------------------------------------------------------


def llmc(log: Reading, first: float, of_all_but_first: float | None) -> None:
    times = column(log, "steps", "step_time_s")
    assert times[0] == pytest.approx(first)
    (figure,) = rows(log, "summaries")
    assert (figure["key"], figure["value"]) == ("step_time", pytest.approx(2497.246398e-3))
    if of_all_but_first is not None:
        assert statistics.fmean(times[1:]) == pytest.approx(of_all_but_first)
        assert (figure["window_first"], figure["window_last"], figure["window_fit"]) == (2, 10, "rounding")
    assert column(log, "steps", "mfu")[0] == pytest.approx(0.403)
    assert log.done.formats == ["llmc"]


@needs_corpus
def test_llmc_average_leaves_out_the_first_step() -> None:
    log, want = corpus("llmc/store"), index()[local("llmc/store")]
    times = column(log, "steps", "step_time_s")
    assert len(times) == want["steps"]
    assert statistics.fmean(times) == pytest.approx(want["mean_ms_all"] * 1e-3)
    llmc(log, 2495.40e-3, want["mean_ms_excluding_first"] * 1e-3)
    assert unread(log) == {"## Training Steps": 1, "```text": 1, "```": 1}  # Markdown around the log


def test_llmc_cut_down() -> None:
    log = cut("llmc")
    llmc(log, 2495.40e-3, None)
    assert config(log) == {"use_master_weights": "disabled", "gelu_fusion": 1, "steps": 10}
    assert column(log, "values", "value", key="val_loss") == [11.033154, 9.483727]


def test_llmc_settings_and_a_gpu_whose_peak_is_not_known() -> None:
    log = read(b"""\
+-----------------------+----------------------------------------------------+
| micro batch size B    | 64                                                 |
| total batch size      | 524288                                             |
| learning rate (LR)    | 6.000000e-04                                       |
| device                | NVIDIA A100-SXM4-80GB                              |
| num_processes         | 8                                                  |
+-----------------------+----------------------------------------------------+
step    1/18865 | train loss 11.009480 | norm 15.6513 | lr 8.57e-07 | 325.50 ms | -100.0% bf16 MFU | 1610729 tok/s
""")
    assert config(log) == {
        "micro_batch_size_B": 64, "total_batch_size": 524288, "learning_rate_LR": 6e-4,
        "device": "NVIDIA A100-SXM4-80GB", "num_processes": 8, "steps": 18865,
    }  # fmt: skip
    assert column(log, "steps", "mfu") == [None]
    assert unread(log) == {}


@both
def test_nanogpt(whole: bool) -> None:
    log = corpus("llmc/Chen") if whole else cut("nanogpt")
    found = rows(log, "steps")
    assert (found[0]["step"], found[0]["mfu"], found[1]["mfu"]) == (0, None, pytest.approx(1e-4))
    assert config(log)["tokens_per_iteration"] == 512
    assert log.done.formats == ["nanogpt"]
    if whole:
        want = index()[local("llmc/Chen")]
        assert statistics.median(r["step_time_s"] for r in found) == pytest.approx(want["median_ms"] * 1e-3)
        assert (len(found), sum(math.isnan(r["loss"]) for r in found)) == (want["iters"], want["nan_losses"])
        assert len(column(log, "values", "value", key="val_loss")) == want["evals"]
        # the line of source under a Python warning
        assert unread(log) == {"scaler = torch.cuda.amp.GradScaler(enabled=(dtype == 'float#'))": 1}


# --- DeepSpeed's flops profiler -------------------------------------------------------------------------------------


@both
def test_deepspeed_profile(whole: bool) -> None:
    log = corpus("deepspeed/OA") if whole else cut("deepspeed_profile")
    phases = {r["phase"]: r["time_s"] for r in rows(log, "phases")}
    values = {r["key"]: r["value"] for r in rows(log, "values")}
    assert {r["step"] for r in rows(log, "phases")} == {2}
    assert (values["iteration"], values["samples_per_s"]) == (1.08, 3.7)
    assert values["forward_backward_tflops"] == pytest.approx(65.89)
    assert phases == pytest.approx({"forward": 0.37235, "backward": 0.45855, "optimizer": 0.24958})
    said = config(log)
    assert (said["world_size"], said["parameters"]) == (4, pytest.approx(135.87e6))
    assert said["forward_macs"] == pytest.approx(9123.92e9)
    assert (log.done.formats, unread(log)) == (["deepspeed_profile"], {})
    modules = rows(log, "layers")
    assert [r["layer"] for r in modules][:4] == [None, "model", "embed_tokens", "0"]
    if whole:
        want = index()[local("deepspeed/OA")]
        assert len(modules) == want["module_lines_with_latency"]
        assert phases == pytest.approx({
            "forward": want["fwd_latency_ms"] * 1e-3, "backward": want["bwd_latency_ms"] * 1e-3,
            "optimizer": want["step_latency_ms"] * 1e-3,
        })  # fmt: skip
        assert (values["iteration"], values["samples_per_s"]) == (want["iter_latency_s"], want["samples_per_s"])
        assert len(rows(log, "runs")) == want["profiles"]


# --- HPL ------------------------------------------------------------------------------------------------------------


def test_hpl_rows_have_sizes_and_rates() -> None:
    log = read(b"""\
T/V                N    NB     P     Q               Time                 Gflops
--------------------------------------------------------------------------------
WR00C2R2       35840   192     2     3              61.42             4.9971e+02
--------------------------------------------------------------------------------
||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=   3.21907433e-03 ...... PASSED
================================================================================
T/V                N    NB     P     Q               Time                 Gflops
--------------------------------------------------------------------------------
WR00C2R2       35840   256     2     3              58.03             5.2889e+02
--------------------------------------------------------------------------------
||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=   4.10000000e+02 ...... FAILED
""")
    assert log.done.formats == ["hpl"]
    assert column(log, "values", "value", key="NB") == [192, 256]
    assert [(r["value"], r["unit"]) for r in rows(log, "values") if r["key"] in ("time", "gflops")] == [
        (61.42, "s"), (pytest.approx(0.49971), "TFLOP/s"), (58.03, "s"), (pytest.approx(0.52889), "TFLOP/s"),
    ]  # fmt: skip
    assert column(log, "values", "text", key="residual_check") == ["PASSED", "FAILED"]
    assert column(log, "values", "value", key="residual") == [0.00321907433, 410]


def test_hpl_of_nvidia_has_the_rate_of_a_gpu() -> None:
    log = read(b"""\
T/V                N    NB     P     Q         Time          Gflops (   per GPU)
--------------------------------------------------------------------------------
WC0           299008  1024     2     4        52.88       3.370e+05 ( 4.213e+04)
||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=        0.0000304 ...... PASSED
""")
    found = {r["key"]: r["value"] for r in rows(log, "values") if r["value"] is not None}
    assert (found["gflops"], found["gflops_per_gpu"], found["time"]) == (
        pytest.approx(337),
        pytest.approx(42.13),
        52.88,
    )


# --- storage --------------------------------------------------------------------------------------------------------


def test_repetitions_of_ior_are_no_steps() -> None:
    log = read(b"""\
access    bw(MiB/s)  block(KiB) xfer(KiB)  open(s)    wr/rd(s)   close(s)   total(s)   iter
------    ---------  ---------- ---------  --------   --------   --------   --------   ----
write     25110      2097152    4.00       0.012490   3.91       0.516111   3.91       0
read      22660      2097152    4.00       0.011624   4.34       2.70       4.34       0
remove    -          -          -          -          -          -          0.360676   0
write     25051      2097152    4.00       0.012592   3.92       0.696023   3.92       1
""")
    assert rows(log, "steps") == []
    assert column(log, "values", "text", key="access") == ["write", "read", "remove", "write"]
    assert column(log, "values", "value", key="bandwidth") == pytest.approx([26.329743, 23.760732, 26.267877])
    assert column(log, "values", "value", key="total_time") == [3.91, 4.34, 0.360676, 3.92]


# --- states of GPUs -------------------------------------------------------------------------------------------------


def test_megabytes_of_device_tools_are_of_1024_kilobytes() -> None:
    dmon = read(b"# gpu   pwr    sm    fb\n# Idx     W     %    MB\n    0    43     0 16384\n")
    amd = read(b"""\
GPU  POWER   GPU_T   GFX%      VRAM_USAGE
  0   49 W   27 \xc2\xb0C    2 %    2.0/192.0 GB
""")
    assert column(dmon, "counters", "value", name="fb") == [16384 * 2**20]
    assert column(amd, "counters", "value", name="memory_total") == [192 * 2**30]


def test_both_lines_of_a_gpu_have_its_number() -> None:
    log = read(
        """\
| BDF                        GPU-Name | Mem-Uti   Temp   UEC       Power-Usage |
| GPU  HIP-ID  OAM-ID  Partition-Mode | GFX-Uti    Fan               Mem-Usage |
|=====================================+========================================|
| 0000:04:00.0  AMD Radeon RX 9070 XT | 0 %      41 °C   0            16/304 W |
|   0       0     N/A             N/A | 0 %      0.0 %             84/16304 MB |
|-------------------------------------+----------------------------------------|
| 0000:07:00.0  AMD Radeon RX 9070 XT | 0 %      40 °C   0            17/304 W |
|   1       1     N/A             N/A | 3 %      0.0 %            347/16304 MB |
""".encode()
    )
    found = [(r["device"], r["value"]) for r in rows(log, "counters") if r["name"] in ("power", "memory_used")]
    assert found == [(0, 16), (0, 84 * 2**20), (1, 17), (1, 347 * 2**20)]


# --- tables of kernels and functions --------------------------------------------------------------------------------


def test_the_last_line_of_a_comparison_has_its_unit() -> None:
    log = read(b"""\
[------------------------------- softmax -------------------------------]
                              |  B=8, M=256, K=128  |  B=8, M=1024, K=256
1 threads: --------------------------------------------------------------
      dense                   |          12.8       |         141.9
      sparsity pytorch: 0.50  |        1140.9       |        8081.4

Times are in microseconds (us).

[-------------------------------- matmul -------------------------------]
                              |  B=8, M=256, K=128  |  B=8, M=1024, K=256
1 threads: --------------------------------------------------------------
      dense                   |          0.13       |         1.41

Times are in milliseconds (ms).
""")
    found = [(r["value"], r["unit"]) for r in rows(log, "values") if r["unit"] is not None]
    assert [unit for _, unit in found] == ["s"] * 6
    assert [value for value, _ in found] == pytest.approx(
        [12.8e-6, 141.9e-6, 1140.9e-6, 8081.4e-6, 0.13e-3, 1.41e-3]
    )  # fmt: skip
    assert log.done.formats == ["torch_benchmark"]


def test_times_of_a_csv_of_google_benchmark_have_the_unit_of_their_row() -> None:
    log = read(b"""\
name,iterations,real_time,cpu_time,time_unit,bytes_per_second,items_per_second
"BM_Addition_100x100",21252372,3052.04,3032.01,ns,,,
"BM_Sort",12345,4.25,4.23,ms,1.5e+09,,
""")
    times = [(r["value"], r["unit"]) for r in rows(log, "values") if r["key"] == "real_time"]
    assert times == [(pytest.approx(3.05204e-6), "s"), (pytest.approx(4.25e-3), "s")]
    assert column(log, "values", "value", key="bandwidth") == [1.5]  # GB/s


def test_a_kernel_that_was_not_run_has_no_time() -> None:
    log = read(b"""\
Problem,Provider,OperationKind,Operation,Disposition,Status,m,n,k,Bytes,Flops,Runtime,GB/s,GFLOPs
1,CUTLASS,gemm,gemm_128x128,passed,success,16384,16384,16384,3221225472,8796629893120,481.022,6.23672,18287.4
1,CUTLASS,gemm,gemm_64x64,not_supported,not_supported,16384,16384,16384,3221225472,8796629893120,0,0,0
""")
    assert column(log, "values", "value", key="gflops") == [pytest.approx(18.2874)]


def test_columns_of_tritonbench_have_the_unit_of_their_metric() -> None:
    log = read(
        """\
  (M, N, K)          aten-tflops        aten-latency
-----------------  -------------  ------------------
  (256, 256, 256)        2.91271  0.011520 (±3.21%)
(4096, 512, 4096)        601.234  0.228600 (±0.51%)
""".encode()
    )
    assert log.done.formats == ["tritonbench"]  # no CSV file, whatever the commas of its first name
    found = [(r["key"], r["value"], r["unit"]) for r in rows(log, "values") if r["unit"]]
    assert found[:2] == [("aten_tflops", 2.91271, "TFLOP/s"), ("aten_latency", pytest.approx(11.52e-6), "s")]
    assert column(log, "values", "text", key="M_N_K") == ["(256, 256, 256)", "(4096, 512, 4096)"]


# --- time and events of a command -----------------------------------------------------------------------------------


def test_gnu_time_has_minutes_or_hours() -> None:
    line = b"\tElapsed (wall clock) time (h:mm:ss or m:ss): %s\n\tMaximum resident set size (kbytes): 71572\n"
    found = [column(read(line % text), "summaries", "value") for text in (b"1:05.28", b"1:13:42")]
    assert found == [[65.28, 71572 * 1024], [4422, 71572 * 1024]]


def test_each_case_of_deepep_is_measured_by_all_ranks() -> None:
    case = b" > Testing with do_handle_copy=1, use_fp8_dispatch=%d, num_bias=0 ...\n"
    line = b"   * EP: %3d/2 | dispatch: %d GB/s (SO), 1 GB/s (SU), 1.000 us, 8 bytes | copy: 2 GB/s, 3.000 us\n"
    log = read(b"".join([case % 1, line % (0, 61), line % (1, 60), case % 0, line % (0, 31), line % (1, 30)]))
    assert column(log, "values", "value", key="dispatch_scaleout_bandwidth") == [61, 60, 31, 30]
    assert column(log, "values", "text", key="title")[0].startswith("handle_copy=1, use_fp8_dispatch=1")
