"""Benchmarks of collectives: nccl-tests and rccl-tests of all versions give their figures, and the number of ranks."""

from __future__ import annotations

import csv
import statistics

import pytest
from support.field_logs import column, config, rows, unread
from support.paths import SHARED
from support.reading import read

PAIRS = SHARED / "campaigns" / "nccl_pairs"
needs_pairs = pytest.mark.skipif(not PAIRS.is_dir(), reason="needs the real logs in ../shared/campaigns")

# --- nccl-tests -----------------------------------------------------------------------------------------------------

TWO_NODES = b"""\
# nccl-tests version 2.17.8 nccl-headers=22902 nccl-library=22902
# Collective test starting: sendrecv_perf
# nThread 1 nGpus 1 minBytes 4294967296 maxBytes 34359738368 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 \
validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid 2210029 on cnode3-002 device  0 [0000:1b:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  %d Pid 948885 on cnode3-003 device  0 [0000:1b:00] NVIDIA H100 80GB HBM3
#  Rank  2 Group  0 Pid 2210030 on cnode3-002 device  1 [0000:1c:00] NVIDIA H100 80GB HBM3
#  Rank  3 Group  %d Pid 948886 on cnode3-003 device  1 [0000:1c:00] NVIDIA H100 80GB HBM3
#
# Reducing maxBytes to 26549638485 due to memory limitation
#
#                                                              out-of-place                       in-place          \n\
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
  4294967296     536870912    double     sum      -1  98169.3   43.75   43.75       0  98146.9   43.76   43.76    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 43.7587 \n\
#
# Collective test concluded: sendrecv_perf
#
"""


@needs_pairs
def test_nccl_averages_peaks_and_ranks_of_all_pairs_of_a_cluster() -> None:
    with (PAIRS / "summary.csv").open(encoding="utf-8", newline="") as lines:
        want = {(r["file"], r["test"]): r for r in csv.DictReader(lines)}
    files = sorted({file for file, _ in want})[::8]  # of 180 files with 2 tests each
    assert len(files) == 23
    for file in files:
        log = read((PAIRS / "logs" / file).read_bytes())
        assert unread(log) == {}
        for run in rows(log, "runs"):
            of_test = want[file, f"{run['label']}_perf"]
            ranks = int(of_test["N"]) * int(of_test["G"])
            found = rows(log, "collectives", run=run["run"])
            busbw = [r["busbw_gbps"] for r in found]
            printed = column(log, "summaries", "value", run=run["run"], key="busbw")
            assert printed == [float(of_test["avg_bus_bw_GBs"])]
            assert statistics.fmean(busbw) == pytest.approx(printed[0], abs=6e-3)
            assert max(busbw) == float(of_test["peak_busbw_GBs"])
            assert ({r["ranks"] for r in found}, run["world_size"]) == ({ranks}, ranks)


@pytest.mark.parametrize(("group", "ranks"), [(0, 4), (1, 2)])
def test_nccl_ranks_of_a_collective_are_those_of_a_group(group: int, ranks: int) -> None:
    log = read(TWO_NODES % (group, group))
    assert [(r["buffer"], r["ranks"], r["busbw_gbps"], r["wrong"]) for r in rows(log, "collectives")] == [
        ("out of place", ranks, 43.75, 0), ("in place", ranks, 43.76, None),
    ]  # fmt: skip
    assert rows(log, "runs")[0]["world_size"] == 4
    said = config(log)
    assert (said["reduced_max_bytes"], said["aggregated_iters"], said["graph"]) == (26549638485, 1, 0)
    assert not {"_rank", "_group", "ranks"} & set(said)
    assert unread(log) == {}


def test_gloo() -> None:
    log = read(b"""\
Device:      tcp, pci=0000:04:00.0, iface=enp4s0, speed=40000, addr=[10.10.10.1]
Algorithm:   allreduce_ring_chunked
Options:     processes=2, inputs=1, threads=1

   elements   min (us)   p50 (us)   p99 (us)   max (us)   avg (GB/s)    samples
    5000000      14301      17251      21113      23075        1.073        961
""")
    (row,) = rows(log, "collectives")
    assert (row["op"], row["ranks"], row["bytes"]) == ("allreduce_ring_chunked", 2, None)
    assert row["time_s"] == pytest.approx(0.017251)
    assert row["algbw_gbps"] == pytest.approx(1.073 * 2**30 / 1e9)  # 20 MB in 17.36 ms, its mean
    assert {r["key"]: r["value"] for r in rows(log, "values")} == pytest.approx({
        "elements": 5e6, "time_min": 0.014301, "time_p99": 0.021113, "time_max": 0.023075, "iterations": 961,
    })  # fmt: skip
    assert (config(log)["link_mbit_per_s"], config(log)["threads"], unread(log)) == (40000, 1, {})


def test_nccl_rows_behind_the_labels_of_srun() -> None:
    log = read(b"".join(b" 0: " + line + b"\n" for line in (TWO_NODES % (0, 0)).splitlines()))
    assert [(r["ranks"], r["bytes"]) for r in rows(log, "collectives")] == [(4, 4294967296)] * 2
    assert unread(log) == {}


def test_nccl_rows_with_all_columns_of_new_versions() -> None:
    log = read(b"""\
# nThread 1 nGpus 2 minBytes 1024 maxBytes 1048576 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 \
validation: 1 graph: 0 unalign: 0
# Bitwise Repeatability: 3 comparisons after one reference run \n\
#       size         count      type   redop    root     time   algbw   busbw  #wrong  #bitdiff    i_min    i_max\
    i_p99    i_cv%     time   algbw   busbw  #wrong  #bitdiff    i_min    i_max    i_p99    i_cv%           timestamp
     1048576        262144     float     sum      -1    32.51   32.25   56.44       0         2    31.02    35.84\
    35.52     3.11    32.42   32.34    56.6       0         0    31.12    34.75    34.61     2.75  2026-05-03 12:00:01
# Bitwise mismatch (out-of-place): first repeat 2, rank 5, element 1024, bit 3; 1 elements and 2 bits differ
# Out of bounds values : 0 OK
# Bitwise mismatches   : 2 FAILED
# Avg bus bandwidth    : 56.52 OK
# GPU memory usage     : Initialization 1.32 GB | User-Owned 768 MB | Collective 140 MB | Total  2.20 GB
""")
    assert [(r["buffer"], r["busbw_gbps"]) for r in rows(log, "collectives")] == [
        ("out of place", 56.44), ("in place", 56.6),
    ]  # fmt: skip
    values = {r["key"]: r["value"] for r in rows(log, "values", line=4)}
    assert values == pytest.approx({
        "count": 262144, "bits_differ": 2, "in_bits_differ": 0,
        "iteration_min": 31.02e-6, "iteration_max": 35.84e-6, "iteration_p99": 35.52e-6, "iteration_variation": 0.0311,
        "in_iteration_min": 31.12e-6, "in_iteration_max": 34.75e-6, "in_iteration_p99": 34.61e-6,
        "in_iteration_variation": 0.0275,
    })  # fmt: skip
    assert {r["key"]: r["value"] for r in rows(log, "values", line=5)} == {
        "first_repeat": 2, "first_rank": 5, "first_element": 1024, "first_bit": 3, "elements_differ": 1,
        "bits_differ": 2,
    }  # fmt: skip
    assert {r["key"]: r["value"] for r in rows(log, "summaries")} == {
        "out_of_bounds": 0, "bitwise_mismatches": 2, "busbw": 56.52, "Initialization": 1.32 * 2**30,
        "User_Owned": 768 * 2**20, "Collective": 140 * 2**20, "Total": 2.2 * 2**30,
    }  # fmt: skip
    assert unread(log) == {}


def test_nccl_before_groups_and_before_columns_for_all_collectives() -> None:
    log = read(b"""\
# nThread 1 nGpus 2 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 validation: 1 \n\
#
# Using devices
#   Rank  0 Pid  14972 on   jdoe-dev device  0 [0x07] Tesla V100-SXM2-32GB
#   Rank  1 Pid  14972 on   jdoe-dev device  1 [0x0a] Tesla V100-SXM2-32GB
#
#                                                     out-of-place                       in-place          \n\
#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       \n\
   134217728      33554432     float     sum   2587.4   51.87   97.26  5e-07   2581.4   51.99   97.49  5e-07
""")
    assert [(r["ranks"], r["busbw_gbps"], r["wrong"], r["dtype"]) for r in rows(log, "collectives")] == [
        (2, 97.26, None, "float"), (2, 97.49, None, "float"),
    ]  # fmt: skip
    assert config(log)["redop_or_root"] == "sum"
    assert unread(log) == {}


def test_rccl_tests() -> None:
    log = read(b"""\
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 1048576 maxBytes 17179869184 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 \
validation: 1 graph: 0
#
rccl-tests: Version develop:6405c76
# Using devices
#  Rank  0 Group  0 Pid 3252337 on amd-mi350x-ses2-1 device  0 [0000:05:00] AMD Instinct MI350X
#  Rank  1 Group  0 Pid 3252338 on amd-mi350x-ses2-1 device  1 [0000:15:00] AMD Instinct MI350X
RCCL version : 2.27.7-develop:29e1567
HIP version  : 7.0.51831-a3e329ad8
ROCm version : 7.0.1.0-42-9428210
#
#                                                              out-of-place                       in-place          \n\
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\
                               \n\
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\
                                      \n\
# Testing 1 cycle.
     1048576        262144     float     sum      -1    76.26   13.75   25.78      0    76.43   13.72   25.72      0
     2097152        524288     float     sum      -1    80.00   26.21   26.21      0
     4194304       1048576     float     sum      -1    90.00   46.60   46.60      0    91.00   46.09   46.09      0\
    Ring    SIMPLE          64
# Errors with asterisks indicate errors that have exceeded the maximum threshold.
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 111.827 \n\
#
""")
    assert [(r["bytes"], r["buffer"], r["ranks"], r["algbw_gbps"]) for r in rows(log, "collectives")] == [
        (1048576, "out of place", 2, 13.75), (1048576, "in place", 2, 13.72),
        (2097152, None, 2, 26.21),  # with -O: the row does not say which half it is
        (4194304, "out of place", 2, 46.6), (4194304, "in place", 2, 46.09),
    ]  # fmt: skip
    said = config(log)
    assert (said["rccl_version"], said["hip_version"]) == ("2.27.7-develop:29e1567", "7.0.51831-a3e329ad8")
    assert (said["algorithm"], said["protocol"], said["channels"]) == ("Ring", "SIMPLE", "64")
    assert unread(log) == {}


# --- OSU micro-benchmarks ---------------------------------------------------------------------------------------------


def test_osu_benchmarks_of_one_file_are_runs() -> None:
    log = read(b"""\
# OSU MPI Init Test v5.6.2
nprocs: 4, min: 67 ms, max: 68 ms, avg: 67 ms

# OSU MPI Bi-Directional Bandwidth Test v5.6.2
# Size      Bandwidth (MB/s)
1                       2.10
2                       5.52

# OSU MPI Allreduce Latency Test v7.5
# Datatype: MPI_INT.
# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations
100000               1181.07           1168.71           1188.92         100

# OSU MPI-CUDA Latency Test v5.6.2
# Send Buffer on DEVICE (D) and Receive Buffer on DEVICE (D)
# Size          Latency (us)
0                       1.48

# OSU MPI Multiple Bandwidth / Message Rate Test v3.6
# [ pairs: 2 ] [ window size: 64 ]
# Size                  MB/s        Messages/s
1                       2.91        2909711.73
""")
    assert [r["label"] for r in rows(log, "runs")] == [
        "Init", "Bi-Directional Bandwidth", "Allreduce Latency", "Latency", "Multiple Bandwidth / Message Rate",
    ]  # fmt: skip
    assert [(r["op"], r["bytes"], r["time_s"], r["algbw_gbps"]) for r in rows(log, "collectives")] == [
        ("Bi-Directional Bandwidth", 1, None, pytest.approx(2.1e-3)),
        ("Bi-Directional Bandwidth", 2, None, pytest.approx(5.52e-3)),
        ("Allreduce Latency", 100000, pytest.approx(1181.07e-6), None),
        ("Latency", 0, pytest.approx(1.48e-6), None),
        ("Multiple Bandwidth / Message Rate", 1, None, pytest.approx(2.91e-3)),
    ]
    assert {r["key"]: r["value"] for r in rows(log, "values")} == pytest.approx({
        "time_min": 1168.71e-6, "time_max": 1188.92e-6, "iterations": 100, "messages_per_s": 2909711.73,
    })  # fmt: skip
    assert {r["key"]: r["value"] for r in rows(log, "summaries")} == pytest.approx({
        "ranks": 4, "init_min": 0.067, "init_max": 0.068, "init": 0.067,
    })  # fmt: skip
    assert (config(log, 4)["pairs"], config(log, 3)["send_buffer"]) == (2, "DEVICE (D)")
    assert (log.done.formats, unread(log)) == (["osu"], {})


# --- PyTorch --------------------------------------------------------------------------------------------------------


PARAM = {  # year: cells behind COMMS-RES, and the names of those that are rows of `values`
    2022: (
        ("-all_reduce-float32", "1048576", "262144", "42.1", "43.0", "45.2", "41.7", "46.1", "24.907", "43.587"),
        " ",
    ),
    2021: (("", "1048576", "262144", "42.1", "43.0", "45.2", "41.7", "46.1", "24.907", "43.587"), "\t"),
    2020: (("", "1048576", "262144", "42.1", "43.0", "45.2", "24.907", "43.587"), "\t"),
}


@pytest.mark.parametrize("year", PARAM)
@pytest.mark.parametrize("label", [b"", b"0: "], ids=["alone", "labelled"])
def test_param_comms_of_three_generations(year: int, label: bytes) -> None:
    (name, *cells), separator = PARAM[year]
    log = read(label + f"\tCOMMS-RES{name}{''.join(f'{separator}{cell:>12}' for cell in cells)}\n".encode())
    (row,) = rows(log, "collectives")
    assert (row["bytes"], row["algbw_gbps"], row["busbw_gbps"]) == (1048576, 24.907, 43.587)
    assert (row["op"], row["dtype"]) == (("all_reduce", "float32") if year == 2022 else (None, None))
    assert row["time_s"] == pytest.approx(42.1e-6)
    assert column(log, "values", "key") == ["count", "p75", "p95", *["time_min", "time_max"] * (year > 2020)]
    assert column(log, "values", "value", key="p95") == [pytest.approx(45.2e-6)]
    assert (log.done.formats, unread(log)) == (["param_comms"], {})


def test_each_line_of_the_ddp_benchmark_is_a_run_of_its_model() -> None:
    log = read(b"""\
-----------------------------------
PyTorch distributed benchmark suite
-----------------------------------

* PyTorch version: 1.4.0a0+05140f0
* CUDA version: 10.0
* Distributed backend: nccl

Benchmark: resnet50 with batch size 32

                            sec/iter    ex/sec      sec/iter    ex/sec      sec/iter    ex/sec      sec/iter    ex/sec
   1 GPUs --   no ddp:  p50:  0.097s     329/s  p75:  0.097s     329/s  p90:  0.097s     329/s  p95:  0.097s     329/s
   2 GPUs --    1M/2G:  p50:  0.103s     310/s  p75:  0.103s     310/s  p90:  0.103s     310/s  p95:  0.104s     309/s

Benchmark: resnet101 with batch size 32

                            sec/iter    ex/sec      sec/iter    ex/sec      sec/iter    ex/sec      sec/iter    ex/sec
   1 GPUs --   no ddp:  p50:  0.162s     197/s  p75:  0.162s     197/s  p90:  0.162s     197/s  p95:  0.162s     197/s
""")
    assert [(r["model"], r["world_size"], r["label"]) for r in rows(log, "runs")] == [
        ("resnet50", 1, "1 GPUs, no ddp"), ("resnet50", 2, "2 GPUs, 1M/2G"), ("resnet101", 1, "1 GPUs, no ddp"),
    ]  # fmt: skip
    assert column(log, "summaries", "value", key="p50") == [0.097, 0.103, 0.162]
    assert column(log, "summaries", "value", key="p95_samples_per_s") == [329, 309, 197]
    assert (config(log, 1)["batch_size"], config(log, 1)["backend"]) == (32, "nccl")
    assert unread(log) == {}


def test_the_command_of_the_next_test_does_not_name_the_rows_above_it() -> None:
    log = (
        "   134217728      16777216   float   3298.6   20.34   20.34  0e+00   3070.3   21.86   21.86  0e+00\n"
        "# Avg bus bandwidth    : 6.6972 \n"
        "\n"
        "./broadcast_perf -b 8 -e 128M -f 2 -g 2\n"
        "# nThread 1 nGpus 2 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20\n"
        "     1048576        262144   float    32.51   32.25   28.22  0e+00    32.42   32.34    28.3  0e+00\n"
    )
    got = read(log.encode())
    assert [run["label"] for run in got.rows("runs")] == [None, "broadcast"]
    assert {(row["line"], row["op"]) for row in got.rows("collectives")} == {(1, None), (6, "broadcast")}
    assert sum(row["figures_unread"] for row in got.rows("lines")) == 0
