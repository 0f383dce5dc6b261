"""What profilers print is in the tables: figures of public logs, counted by other means, and of short cuts of them."""

from __future__ import annotations

import csv
import json
import re
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from support.field_logs import CORPUS, needs_corpus
from support.reading import DATA

import perflog
from perflog import metrics

Row = dict[str, Any]


@cache
def log(name: str) -> perflog.Log:
    """A log of the corpus by a part of its path, or else one of the samples."""
    found = (
        [path for path in sorted(CORPUS.glob("*/*")) if name in str(path)] if "/" in name else [DATA / f"{name}.txt"]
    )
    assert len(found) == 1
    return perflog.read(found[0])


def rows(name: str, table: str) -> list[Row]:
    return sorted(log(name).arrow(table).to_pylist(), key=lambda r: r["line"])


def sections(name: str) -> dict[int, list[Row]]:
    return {k: list(v) for k, v in groupby(rows(name, "kernels"), key=lambda r: r["section"])}


def sums(found: list[Row]) -> tuple[int, int, float]:
    """Rows, calls, seconds."""
    return len(found), sum(r["calls"] for r in found), round(sum(r["time_s"] for r in found), 9)


def unread(name: str) -> int:
    return log(name).line_account["unread"]


def expected(name: str) -> Any:
    with open(CORPUS / "index.tsv", encoding="utf-8") as file:
        found = [r for r in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if name in r["local"]]
    assert len(found) == 1
    return json.loads(found[0]["expected"])


# --- nvprof -----------------------------------------------------------------------------------------------------------


@needs_corpus
@pytest.mark.parametrize("name", ["nvprof/brian-team", "nvprof/samhachem99__CS533_Final_Project__nvprof_output"])
def test_nvprof_summaries(name: str) -> None:
    groups = {k: list(v) for k, v in groupby(rows(name, "kernels"), key=lambda r: r["category"])}
    titles = {"Profiling result": "GPU activities"}
    for table in expected(name)["tables"]:
        found = groups.pop(titles.get(table["sec"], table["sec"]))
        assert sums(found)[:2] == (table["rows"], table["calls"])
        assert sums(found)[2] == pytest.approx(table["sum_ms"] * 1e-3, rel=1e-9)
    assert not groups and unread(name) == 0


@needs_corpus
def test_nvprof_csv_in_the_units_of_its_second_row() -> None:
    name, want = "nvprof/nanzifan", expected("nvprof/nanzifan")
    groups = {k: list(v) for k, v in groupby(rows(name, "kernels"), key=lambda r: r["category"])}
    gpu, api = groups["GPU activities"], groups["API calls"]
    assert (len(gpu), len(api)) == (want["gpu_rows"], want["api_rows"])
    assert sums(gpu)[1] == want["gpu_calls"]
    assert sums(gpu)[2] == pytest.approx(want["gpu_sum_ms"] * 1e-3, rel=1e-9)
    assert sums(api)[2] == pytest.approx(want["api_sum_ms"] * 1e-3, rel=1e-9)
    assert unread(name) == 0


def test_nvprof_csv_times_agree_with_one_another() -> None:
    """Maximum in ms, average in us: calls times average is the time, the average lies between both ends."""
    found = [r for r in rows("nvprof_csv", "kernels") if r["avg_s"]]
    assert len(found) == 9 and {r["kind"] for r in found} == {"kernel", "memcpy", "memset", "api"}
    for r in found:
        assert r["calls"] * r["avg_s"] == pytest.approx(r["time_s"], rel=1e-4)
        assert r["min_s"] * 0.999 <= r["avg_s"] <= r["max_s"] * 1.001
    assert found[0]["share"] == pytest.approx(0.70736966) and found[0]["max_s"] == pytest.approx(1.989134e-3)
    moved = [r for r in rows("nvprof_csv", "kernels") if r["category"] == "Unified Memory"]
    assert [(r["name"], r["calls"], r["time_s"]) for r in moved] == [("Host To Device", 166, None)]
    values = {r["key"]: r["value"] for r in rows("nvprof_csv", "values")}
    assert values["total_size"] == 6.304688 * 2**20 and values["gpu_page_fault_groups"] == 21


@needs_corpus
def test_nvprof_gpu_trace() -> None:
    name = "nvprof/samhachem99__CS533_Final_Project__nvprof_gpu_output"
    want, found = expected(name), rows(name, "events")
    assert len(found) == want["rows"] and unread(name) == 0
    assert sum(r["kind"] == "kernel" for r in found) == want["kernel_rows"]
    assert sum(r["name"] == "[CUDA memcpy HtoD]" for r in found) == want["memcpy_HtoD"]
    assert sum(r["name"] == "[CUDA memcpy DtoH]" for r in found) == want["memcpy_DtoH"]
    assert sum(r["duration_ns"] for r in found) == round(want["sum_duration_us"] * 1e3)
    assert found[-1]["start_ns"] == 443010000


def test_nvprof_gpu_trace_cut() -> None:
    found = [(r["kind"], r["stream"], r["start_ns"], r["duration_ns"]) for r in rows("nvprof_gpu_trace", "events")]
    assert found[0] == ("memcpy", 14, 0, 128830)
    assert found[2] == ("kernel", 14, 271550, 35996)


PROFILE = """==101== NVPROF is profiling process 101, command: ./a
{result}
"""


def read(tmp_path: Path, text: str) -> perflog.Log:
    path = tmp_path / "log.txt"
    path.write_text(text, encoding="utf-8")
    return perflog.read(path)


def test_nvprof_kernels_and_their_correlation_ids(tmp_path: Path) -> None:
    result = """==101== Profiling result:
   Start  Duration      Grid Size     Regs*      Size          Device   Context    Stream  Name
326.63ms  1.6782ms    (32768 1 1)        14         -    TITAN Xp (0)         1         7  void f<double>(double*) [128]
1.32663s     639ns              -         -  1.0000KB    TITAN Xp (0)         1         7  [CUDA memset]"""
    found = read(tmp_path, PROFILE.format(result=result)).arrow("events").to_pylist()
    columns = ("kind", "name", "correlation", "start_ns", "duration_ns")
    assert sorted(tuple(r[c] for c in columns) for r in found) == [
        ("kernel", "void f<double>(double*)", 128, 326630000, 1678200),
        ("memset", "[CUDA memset]", None, 1326630000, 639),
    ]


METRICS = """==101== Metric result:
"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"
"TITAN Xp (0)","void scan<int>(int*)",10,"sm_efficiency","Multiprocessor Activity",95.1%,96.0%,95.6%"""
EVENTS = """==101== Event result:
Invocations                  Event Name         Min         Max         Avg
Device "TITAN Xp (0)"
    Kernel: f(int)
          1              warps_launched         256         256         256"""
SAMPLES = """======== CPU profiling result (bottom up):
Time(%)      Time  Name
 51.28%     200ms  matMul
 51.28%     200ms  | main

======== Data collected at 100Hz frequency"""


@pytest.mark.parametrize(("result", "profile"), [(METRICS, "metrics"), (EVENTS, "events"), (SAMPLES, "CPU samples")])
def test_nvprof_outputs_without_kernels_say_so(tmp_path: Path, result: str, profile: str) -> None:
    found = read(tmp_path, PROFILE.format(result=result))
    assert found.line_account["unread"] == 0 and "kernels" not in found.row_counts
    assert json.loads(found.arrow("runs").to_pylist()[0]["config"])["profile"] == profile
    assert found.figure_account["unread"] == 0


def readings(log: perflog.Log) -> list[tuple[Any, ...]]:
    columns = ("device", "device_name", "subject", "name", "calls", "min", "max", "value", "unit")
    return [tuple(r[c] for c in columns) for r in log.arrow("counters").to_pylist()]


def test_nvprof_metrics_are_counters_of_their_kernels(tmp_path: Path) -> None:
    result = """==101== Metric result:
Invocations                Metric Name               Metric Description         Min         Max         Avg
Device "TITAN Xp (0)"
    Kernel: void f<int=32>(float*, int)
         10              sm_efficiency          Multiprocessor Activity      95.18%      96.02%      95.64%
         10       dram_read_throughput    Device Memory Read Throughput  0.50000GB/s  1.5000GB/s  1.0000GB/s
Device "TITAN Xp (1)"
    Kernel: g(int)
          3              shared_load                     Shared Loads          12  3.0000e+09        1024
          3            tex_utilization      Texture Cache Utilization    Idle (0)     Low (2)     Low (1)"""
    log = read(tmp_path, PROFILE.format(result=result))
    f, g = (0, "TITAN Xp", "void f<int=32>(float*, int)"), (1, "TITAN Xp", "g(int)")
    assert readings(log) == [
        (*f, "sm_efficiency", 10, 95.18, 96.02, 95.64, "%"),
        (*f, "dram_read_throughput", 10, 0.5 * 2**30, 1.5 * 2**30, 2.0**30, "B/s"),
        (*g, "shared_load", 3, 12, 3e9, 1024, None),
        (*g, "tex_utilization", 3, 0, 2, 1, None),
    ]
    assert log.line_account["unread"] == 0 and log.figure_account["unread"] == 0
    (found,) = (r for r in metrics.counters(log).to_dict("records") if r["counter"] == "sm_efficiency")
    assert (round(found["mean"], 6), found["unit"], found["readings"], found["subject"]) == (0.9564, "1", 10, f[2])


def test_nvprof_metrics_as_csv(tmp_path: Path) -> None:
    assert readings(read(tmp_path, PROFILE.format(result=METRICS))) == [
        (0, "TITAN Xp", "void scan<int>(int*)", "sm_efficiency", 10, 95.1, 96.0, 95.6, "%")
    ]


def test_cpu_samples_are_values(tmp_path: Path) -> None:
    values = read(tmp_path, PROFILE.format(result=SAMPLES)).arrow("values").to_pylist()
    found = [(r["line"], r["key"], r["value"] if r["text"] is None else r["text"]) for r in values]
    assert sorted(found, key=str) == [
        (4, "function", "matMul"), (4, "sampled_share", 0.5128), (4, "sampled_time", 0.2),
        (5, "function", "| main"), (5, "sampled_share", 0.5128), (5, "sampled_time", 0.2),
    ]  # fmt: skip


TWO_GPUS = """==101== Profiling result:
   Start  Duration      Grid Size     Regs*      Size  Throughput          Device   Context    Stream  Name
     0ns  100.00us    (32768 1 1)        14         -           -    TITAN Xp (0)         1         7  f(int) [1]
     0ns  5.0000us    (32768 1 1)        14         -           -    TITAN Xp (1)         2        14  f(int) [2]
95.00us  5.0000us              -         -  8.0000MB  60.641GB/s    TITAN Xp (1)         2        14  [CUDA memcpy HtoD]"""  # noqa: E501


@pytest.mark.parametrize("numbered", [True, False])
def test_two_gpus_of_nvprof_are_two_devices(tmp_path: Path, numbered: bool) -> None:
    """One is busy for all of the time, one for a tenth. Where the name was cut, its number is: the contexts differ."""
    text = TWO_GPUS if numbered else re.sub(r"TITAN Xp \(\d\)", "Tesla V100-S", TWO_GPUS)
    log = read(tmp_path, PROFILE.format(result=text))
    table = metrics.device_time(log)
    names = ["TITAN Xp"] * 2 if numbered else ["Tesla V100-S, context 1", "Tesla V100-S, context 2"]
    assert table["device_name"].tolist() == names
    assert table["device"].isna().tolist() == [not numbered] * 2
    assert [round(x, 9) for x in table["busy_s"] / table["span_s"]] == [1.0, 0.1]
    assert [r["bytes"] for r in log.arrow("events").to_pylist() if r["kind"] == "memcpy"] == [8 << 20]
    assert log.figure_account["unread"] == 0


def test_nvprof_csv_counts_bytes_in_steps_of_1024(tmp_path: Path) -> None:
    result = """==101== Profiling result:
"Start","Duration","Grid X","Registers Per Thread","Size","Throughput","Device","Context","Stream","Name","Correlation_ID"
us,us,,,KB,GB/s,,,,,
0.000000,1.568000,,,1.003906,0.610586,"GeForce RTX 2080 Ti (1)","1","7","[CUDA memset]",274"""  # noqa: E501
    (row,) = read(tmp_path, PROFILE.format(result=result)).arrow("events").to_pylist()
    assert (row["device"], row["device_name"], row["bytes"], row["context"]) == (1, "GeForce RTX 2080 Ti", 1028, 1)


def test_five_outputs_of_nvprof_in_one_log_are_five_runs(tmp_path: Path) -> None:
    part = """=={0}== NVPROF is profiling process {0}, command: ./a {0}
=={0}== Profiling application: ./a {0}
=={0}== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:  100.00%  1.00000s         {1}  1.0000ms  1.0000ms  1.0000ms  f(int)
"""
    log = read(tmp_path, "".join(part.format(100 + k, k + 1) for k in range(5)))
    assert [r["program"] for r in log.arrow("runs").to_pylist()] == [f"./a {100 + k}" for k in range(5)]
    assert [(r["run"][-1], r["calls"]) for r in log.arrow("kernels").to_pylist()] == [(str(k), k) for k in range(1, 6)]


# --- nsys -------------------------------------------------------------------------------------------------------------


@needs_corpus
def test_nsys_stats() -> None:
    name = "nsys/zx3xyy"
    for table, found in zip(expected(name)["tables"], sections(name).values(), strict=False):
        assert {r["report"] for r in found} == {table["table"]}
        assert len(found) == table["rows"]
        assert round(sum(r["time_s"] for r in found) * 1e9) == table["total_ns"]
    assert unread(name) == 0
    assert sum(r["key"] == "not_profiled" for r in rows(name, "values")) == 15


def test_nsys_reports_and_what_was_not_recorded() -> None:
    found = [(v[0]["report"], v[0]["kind"], v[0]["category"], len(v)) for v in sections("nsys_stats").values()]
    assert found == [
        ("osrt_sum", None, "OS runtime", 5),
        ("cuda_api_sum", "api", None, 3),
        ("cuda_gpu_kern_sum", "kernel", None, 7),
        ("cuda_gpu_mem_time_sum", "memcpy", None, 1),
    ]
    assert any("…" in r["name"] for r in rows("nsys_stats", "kernels"))
    told = [r["text"] for r in rows("nsys_stats", "values") if r["key"] == "not_profiled"]
    assert told[0] == "NV Tools Extension (NVTX) data" and told[-1] == "syscall data"
    sizes = {r["key"]: r["value"] for r in rows("nsys_stats", "values") if r["value"] is not None}
    (name,) = {key.rpartition(".")[0] for key in sizes}
    assert sizes[f"{name}.copied"] == pytest.approx(13627.435e6) and sizes[f"{name}.copies"] == 294


def test_nsys_of_2019_prints_ns_without_saying_so() -> None:
    found = rows("nsys_2019", "kernels")
    assert [(r["section"], r["kind"], round(r["time_s"] * 1e9)) for r in found] == [
        (1, "api", 294859478), (1, "api", 18405301), (2, "kernel", 3360), (3, "memcpy", 89602913)
    ]  # fmt: skip
    copied = {r["key"]: r["value"] for r in rows("nsys_2019", "values")}["CUDA_memcpy_HtoD.copied"]
    assert copied == 68906 * 2**10


def test_nsys_csv_and_other_units(tmp_path: Path) -> None:
    text = """Processing [a.sqlite] with [/opt/nvidia/nsight-systems/2023.1.1/reports/cuda_gpu_kern_sum.py]...

Time (%),Total Time (us),Instances,Avg (us),Med (us),Min (us),Max (us),StdDev (us),GridXYZ,BlockXYZ,Name
50.1,99385.786,32,3105.8,3041.1,2987.3,3777.7,216.8,   8    1    1, 256    1    1,"void f<(int)8, a>(float*, int)"

Processing [a.sqlite] with [/opt/nvidia/nsight-systems/2023.1.1/reports/nvtx_sum.py]...

Time (%),Total Time (us),Instances,Avg (us),Med (us),Min (us),Max (us),StdDev (us),Style,Range
95.0,3481.709,1,3481.709,3481.709,3481.709,3481.709,0.0,PushPop,:step
"""
    found = read(tmp_path, text).arrow("kernels").to_pylist()
    assert [(r["report"], r["kind"], r["name"]) for r in found] == [
        ("cuda_gpu_kern_sum", "kernel", "void f<(int)8, a>(float*, int)"),
        ("nvtx_sum", "range", ":step"),
    ]
    assert [r["time_s"] for r in found] == pytest.approx([0.099385786, 0.003481709])


def test_nsys_trace_with_empty_cells(tmp_path: Path) -> None:
    text = """Running [/opt/nsys/reports/gputrace.py a.sqlite]...

 Start (ns)   Duration (ns)  CorrId  GrdX  Bytes (MB)  SrcMemKd    Device    Ctx  GreenCtx  Strm         Name
 -----------  -------------  ------  ----  ----------  --------  -----------  ---  --------  ----  -----------------
 288,824,971            672     128             0.000  Pageable  GPU 30 (0)     1               7  [CUDA memcpy HtoD]
 262,634,911     10,047,686     151     1                        GPU 30 (0)     1              13  clock_block(long *)
"""
    found = read(tmp_path, text).arrow("events").to_pylist()
    columns = ("kind", "stream", "start_ns", "duration_ns", "correlation")
    assert [tuple(r[c] for c in columns) for r in found] == [
        ("memcpy", 7, 288824971, 672, 128), ("kernel", 13, 262634911, 10047686, 151)
    ]  # fmt: skip


def test_nsys_traces_tell_who_worked(tmp_path: Path) -> None:
    text = """Start (ns),Duration (ns),CorrId,GrdX,BlkX,Reg/Trd,StcSMem (MB),Bytes (MB),Throughput (MBps),SrcMemKd,Device,Ctx,Strm,Name
100,50,294,,,,,1.500,5333.333,Pageable,NVIDIA A100 (0),1,7,[CUDA memcpy Host-to-Device]
150,50,312,64,128,122,0.016,,,,NVIDIA A100 (0),1,7,"gemm<float, 64>(float*)"
100,10,313,64,128,122,0.016,,,,NVIDIA A100 (1),2,7,"gemm<float, 64>(float*)"
190,10,314,64,128,122,0.016,,,,NVIDIA A100 (1),2,7,"gemm<float, 64>(float*)"

Start (ns),Duration (ns),Name,Result,CorrID,Pid,Tid,T-Pri,Thread Name
90,6,cudaLaunchKernel,0,312,81,82,20,python

Start (ns),End (ns),Duration (ns),DurChild (ns),DurNonChild (ns),Name,PID,TID,Lvl,NumChild,RangeId,ParentId,RangeStack,NameTree
80,480,400,300,100,:forward,81,82,0,2,1,,:1,:forward
"""  # noqa: E501
    log = read(tmp_path, text)
    found = log.arrow("events").to_pylist()
    columns = ("kind", "device", "device_name", "context", "stream", "process", "thread", "bytes")
    a100 = ("NVIDIA A100", 1, 7, None, None)
    assert [tuple(r[c] for c in columns) for r in found[:2]] == [
        ("memcpy", 0, *a100, 1_500_000), ("kernel", 0, *a100, None)
    ]  # fmt: skip
    assert [tuple(r[c] for c in columns) for r in found[4:]] == [
        ("runtime", None, None, None, None, "81", "82", None), ("range", None, None, None, None, "81", "82", None)
    ]  # fmt: skip
    table = metrics.device_time(log)
    shares = table["busy_s"] / table["span_s"]
    assert [(device, round(share, 9)) for device, share in zip(table["device"], shares, strict=True)] == [
        (0, 1.0), (1, 0.2)
    ]  # fmt: skip
    assert log.line_account["unread"] == 0 and log.figure_account["unread"] == 0


@pytest.mark.parametrize("first", ["Collecting data...", "Generating SQLite file r{0}.sqlite from r{0}.nsys-rep"])
def test_five_outputs_of_nsys_in_one_log_are_five_runs(tmp_path: Path, first: str) -> None:
    part = (
        first
        + """
Processing [r{0}.sqlite] with [/opt/nvidia/nsight-systems/2023.1.1/reports/cuda_gpu_kern_sum.py]...

Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
100.0,99385786,{0},3105805.8,3041179.0,2987340,3777790,216832.4,f(int)

Processing [r{0}.sqlite] with [/opt/nvidia/nsight-systems/2023.1.1/reports/cuda_gpu_mem_time_sum.py]...
SKIPPED: r{0}.sqlite does not contain GPU memory data.

"""
    )
    log = read(tmp_path, "".join(part.format(k) for k in range(1, 6)))
    assert [(r["run"][-1], r["calls"]) for r in log.arrow("kernels").to_pylist()] == [(str(k), k) for k in range(1, 6)]
    assert len(log) == 5 and log.line_account["unread"] == 0


def test_sizes_without_a_unit_are_unread(tmp_path: Path) -> None:
    """Old versions of nsys print no unit of the bytes: it would be a guess."""
    text = """Start(sec),Duration(nsec),CorrId,Bytes,Device,Ctx,Strm,Name
0.355442,5120,57,0.195,A100-PCIE-40GB (0),1,7,[CUDA memcpy DtoH]
"""
    log = read(tmp_path, text)
    (row,) = log.arrow("events").to_pylist()
    assert (row["bytes"], row["device"], row["start_ns"]) == (None, 0, 355442000)
    assert log.figure_account["unread"] == 1


# --- rocprof ----------------------------------------------------------------------------------------------------------


def test_two_gpus_of_rocprofv3_are_two_devices(tmp_path: Path) -> None:
    head = (
        '"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id",'
    )
    head += '"Start_Timestamp","End_Timestamp","VGPR_Count","Grid_Size_X"'
    rows_of_gpus = [("Agent 2", 100, 200), ("Agent 3", 100, 105), ("Agent 3", 195, 200)]
    lines = [f'"KERNEL_DISPATCH","{agent}",1,4,70,1,33,"f(int)",9,{a},{b},12,256' for agent, a, b in rows_of_gpus]
    log = read(tmp_path, "\n".join([head, *lines]) + "\n")
    found = [(r["device"], r["stream"], r["thread"], r["duration_ns"]) for r in log.arrow("events").to_pylist()]
    assert found == [(2, 4, "70", 100), (3, 4, "70", 5), (3, 4, "70", 5)]
    table = metrics.device_time(log)
    shares = table["busy_s"] / table["span_s"]
    assert [(device, round(share, 9)) for device, share in zip(table["device"], shares, strict=True)] == [
        (2, 1.0), (3, 0.1)
    ]  # fmt: skip
    assert log.figure_account["unread"] == 0


def test_counters_of_rocprofv3_are_no_kernels(tmp_path: Path) -> None:
    """34 launches with ten counters each: 340 readings, and no kernel of the trace."""
    head = '"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size","Kernel_Id",'
    head += (
        '"Kernel_Name","Workgroup_Size","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count",'
    )
    head += '"Counter_Name","Counter_Value","Start_Timestamp","End_Timestamp"'
    lines = [
        f'{n},{n},"Agent 1",2,326,327,262144,5,"f(int)",256,0,0,12,4,32,"C{k}",{n * k}.500000,{1000 * n},{1000 * n + 7}'
        for n in range(1, 35)
        for k in range(10)
    ]
    log = read(tmp_path, "\n".join([head, *lines]) + "\n")
    found = log.arrow("counters").to_pylist()
    assert len(found) == 340 and not log.row_counts.get("events")
    columns = ("name", "subject", "device", "process", "correlation", "start_ns", "duration_ns", "value")
    assert tuple(found[11][c] for c in columns) == ("C1", "f(int)", 1, "326", 2, 2000, 7, 2.5)
    table = metrics.counters(log).set_index("counter")
    assert table.loc["C3", ["mean", "readings", "subject"]].tolist() == [17.5 * 3 + 0.5, 34, "f(int)"]
    assert log.figure_account["unread"] == 0


def test_copies_of_rocprofv3_belong_to_the_gpu(tmp_path: Path) -> None:
    text = """"Kind","Direction","Stream_Id","Source_Agent_Id","Destination_Agent_Id","Correlation_Id","Start_Timestamp","End_Timestamp"
"MEMORY_COPY","MEMORY_COPY_HOST_TO_DEVICE",0,"Agent 0","Agent 2",14,100,200
"MEMORY_COPY","MEMORY_COPY_DEVICE_TO_HOST",0,"Agent 2","Agent 0",15,300,400
"MEMORY_COPY","MEMORY_COPY_DEVICE_TO_HOST",0,"GPU 0","CPU 1",15,300,400
"""  # noqa: E501
    found = read(tmp_path, text).arrow("events").to_pylist()
    assert [(r["kind"], r["device"], r["duration_ns"]) for r in found] == [
        ("memcpy", 2, 100), ("memcpy", 2, 100), ("memcpy", 0, 100)
    ]  # fmt: skip


def test_rocprof_of_the_first_version(tmp_path: Path) -> None:
    text = """"Index","KernelName","gpu-id","queue-id","queue-index","pid","tid","grd","wgr","lds","scr","vgpr","sgpr","fbar","sig","obj","DispatchNs","BeginNs","EndNs","CompleteNs","DurationNs"
0,"f(int) [clone .kd]",3,1,0,367,368,65536,256,0,0,20,4,16,"0x0","0x7f7b27c04500",1591373024701060,1591373024924818,1591373051023611,1591373051040364,26098793
"""  # noqa: E501
    log = read(tmp_path, text)
    (row,) = log.arrow("events").to_pylist()
    assert [row[c] for c in ("device", "stream", "process", "thread", "start_ns", "duration_ns")] == [
        3, 1, "367", "368", 1591373024924818, 26098793
    ]  # fmt: skip
    assert log.figure_account["unread"] == 0


# --- torch.profiler ---------------------------------------------------------------------------------------------------


@needs_corpus
def test_key_averages() -> None:
    name = "torchtrace/chenwg2000"
    want, (timed, *found) = expected(name), list(sections(name).values())
    assert [row["name"] for row in timed][:3] == ["data_load", "forward", "loss_scale"]  # the program's own statistics
    assert (timed[1]["avg_s"], timed[1]["max_s"]) == pytest.approx((34.416e-3, 148.198e-3))
    assert [len(x) for x in found] == want["rows"] and len(found) == want["tables"]
    assert [round(sums(x)[2] * 1e3, 3) for x in found] == want["self_cuda_ms"]
    assert [sums(x)[1] for x in found] == want["calls"]
    values = {r["key"]: r["value"] for r in rows(name, "values")}
    assert f"{values['self_cpu_time_total']}s" == want["self_cpu_total"]
    assert f"{values['self_device_time_total']}s" == want["self_cuda_total"]
    # What is left are prints of the program that was profiled: none of its tables' lines.
    texts = [r["sample"] for r in log(name).arrow("lines").to_pylist() if r["status"] == "unread"]
    assert not [t for t in texts if "aten::" in t or "Self C" in t or "  ----" in t]


def test_a_row_of_key_averages() -> None:
    first = rows("torch_profiler", "kernels")[0]
    assert (first["name"], first["calls"], first["time_s"], first["share"]) == (
        "DistributedDataParallel.forward", 63, 2.549, 0.3729
    )  # fmt: skip
    values = {r["key"]: r["value"] for r in rows("torch_profiler", "values") if r["line"] == first["line"]}
    assert values == {"self_cpu": 0.0, "cpu_total": 0.0, "cpu_avg": 0.0, "device_total": 2.549, "device_avg": 0.04046}


@pytest.mark.parametrize("device", ["CUDA", "XPU", "HPU"])
def test_key_averages_of_other_devices_and_columns(tmp_path: Path, device: str) -> None:
    names = ["Name", "Self CPU %", "Self CPU", f"Self {device}", f"Self {device} %", f"{device} total", "CPU Mem"]
    names += [f"{device} Mem", f"Self {device} Mem", "# of Calls", "Input Shapes", "Total GFLOPs"]
    cells = [
        "aten::mm",
        "1.00%",
        "2.000ms",
        "3.000us",
        "40.00%",
        "1.000s",
        "0 b",
        "1.50 Gb",
        "-512 b",
        "7",
        "[[2, 3], []]",
    ]
    cells.append("2.500")
    width = 16
    lines = ["  ".join(["-" * width] * 12), "  ".join(n.rjust(width) for n in names), "  ".join(["-" * width] * 12)]
    lines += ["  ".join(c.rjust(width) for c in cells) + "  ", "", f"Self {device} time total: 7.500us"]
    found = read(tmp_path, "\n".join(lines) + "\n")
    assert found.line_account["unread"] == 0
    (row,) = found.arrow("kernels").to_pylist()
    assert (row["name"], row["time_s"], row["share"], row["calls"]) == ("aten::mm", 3e-6, 0.4, 7)
    values = {r["key"]: r["value"] for r in found.arrow("values").to_pylist()}
    want = {"self_cpu": 0.002, "device_total": 1.0, "cpu_memory": 0.0, "gflop": 2.5, "device_memory": 1.5 * 2**30}
    assert values == pytest.approx(want | {"self_device_memory": -512.0, "self_device_time_total": 7.5e-6})


def test_key_averages_that_torch_prints_here(tmp_path: Path) -> None:
    """What the installed version prints is read: all rows, and their sums."""
    torch = pytest.importorskip("torch")
    profiler = torch.profiler
    model = torch.nn.Linear(16, 16)
    with profiler.profile(
        activities=[profiler.ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_flops=True
    ) as profile:
        model(torch.randn(8, 16)).sum().backward()
    averages = profile.key_averages(group_by_input_shape=True)
    text = averages.table(sort_by="self_cpu_time_total", row_limit=-1, max_name_column_width=24, header="own header")
    found = read(tmp_path, text)
    kernels = found.arrow("kernels").to_pylist()
    assert len(kernels) == len(averages) and sum(r["calls"] for r in kernels) == sum(x.count for x in averages)
    spent = sum(x.self_cpu_time_total for x in averages) * 1e-6
    assert sum(r["time_s"] for r in kernels) == pytest.approx(spent, rel=1e-3, abs=1e-6)
    left = [r["sample"] for r in found.arrow("lines").to_pylist() if r["status"] == "unread"]
    assert all(set(x) == {"="} or x == "own header" for x in left)


# --- rocprof, DeepSpeed -----------------------------------------------------------------------------------------------


@needs_corpus
def test_rocprof_stats() -> None:
    want, found = expected("rocprof/"), rows("rocprof/", "kernels")
    assert len(found) == want["rows"] and unread("rocprof/") == 0
    assert round(sum(r["time_s"] for r in found) * 1e9) == want["sum_ns"]
    assert sum(r["share"] for r in found) * 100 == pytest.approx(want["sum_pct"])
    assert found[-1]["share"] == pytest.approx(3.017171467763816e-07)


def test_rocprof_statistics_and_traces() -> None:
    assert unread("rocprof") == 0
    assert [(r["section"], r["kind"], r["calls"]) for r in rows("rocprof", "kernels")] == [
        (1, "kernel", 1001), (1, "kernel", 1001), (1, "kernel", 1), (2, "api", 1220), (2, "api", 2)
    ]  # fmt: skip
    assert [(r["kind"], r["start_ns"], r["duration_ns"]) for r in rows("rocprof", "events")] == [
        ("kernel", 4484384343929154, 5920),
        ("kernel", 4484384527705139, 401121),
        ("kernel", 1678314002982197, 100080),
        ("range", 1520113900128482, 0),
        ("runtime", 1520113899684965, 1806657),
    ]


def test_timestamps_of_this_century_are_whole(tmp_path: Path) -> None:
    """Nanoseconds since 1970 have 19 digits; a double holds 16."""
    text = '"Kernel_Name","Start_Timestamp","End_Timestamp"\n"f()",1723522100051220001,1723522100051220354\n'
    (found,) = read(tmp_path, text).arrow("events").to_pylist()
    assert (found["start_ns"], found["duration_ns"]) == (1723522100051220001, 353)


def test_deepspeed_comms() -> None:
    found = [(r["op"], r["bytes"], r["time_s"], r["busbw_gbps"]) for r in rows("deepspeed_comms", "collectives")]
    assert [x[0] for x in found] == [
        "reduce_scatter_base",
        "broadcast",
        "broadcast",
        "all_gather_into_tensor",
        "barrier",
    ]
    assert found[1][1:] == pytest.approx((2048, 0.08e-3, 0.41 / 8))
    assert found[4][1:] == (0, pytest.approx(1.8e-3), None)  # a barrier moves no bytes
    assert unread("deepspeed_comms") == 0


def test_titles_that_come_again_are_one_word(tmp_path: Path) -> None:
    """Pandas takes no dictionary that holds a word twice."""
    table = "Time(%)  Total Time  Instances  Average  Name\n  100.0        3360          2   1680.0  f\n\n"
    found = read(tmp_path, 2 * f"CUDA Kernel Statistics (nanoseconds)\n\n{table}")
    frame = found.arrow("kernels").to_pandas()
    assert frame["report"].tolist() == ["CUDA Kernel", "CUDA Kernel"] and frame["section"].tolist() == [1, 2]


@pytest.mark.parametrize(("last", "codes"), [("33.4", set()), ("33.6", {"row-inconsistent"})])
def test_shares_of_one_decimal_are_no_contradiction(tmp_path: Path, last: str, codes: set[str]) -> None:
    rows = "".join(f"   {share}  {300 + k}  1  {300 + k}.0  f{k}\n" for k, share in enumerate(("33.2", "33.3", last)))
    text = "CUDA Kernel Statistics (nanoseconds)\n\nTime(%)  Total Time  Instances  Average  Name\n" + rows
    assert set(perflog.lint(read(tmp_path, text))["code"]) == codes
