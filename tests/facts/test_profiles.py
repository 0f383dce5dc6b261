"""What profilers print is in the tables: figures of public logs, counted by other means, and of short cuts of them."""

from __future__ import annotations

import csv
import json
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from support.field_logs import CORPUS, needs_corpus
from support.reading import DATA

import perflog

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
    assert sizes["copied"] == pytest.approx(13627.435e6) and sizes["copies"] == 294


def test_nsys_of_2019_prints_ns_without_saying_so() -> None:
    found = rows("nsys_2019", "kernels")
    assert [(r["section"], r["kind"], round(r["time_s"] * 1e9)) for r in found] == [
        (1, "api", 294859478), (1, "api", 18405301), (2, "kernel", 3360), (3, "memcpy", 89602913)
    ]  # fmt: skip
    assert {r["key"]: r["value"] for r in rows("nsys_2019", "values")}["copied"] == 68906 * 2**10


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


# --- torch.profiler ---------------------------------------------------------------------------------------------------


@needs_corpus
def test_key_averages() -> None:
    name = "torchtrace/chenwg2000"
    want, found = expected(name), list(sections(name).values())
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
    assert found[4][1:] == pytest.approx((0, 1.8e-3, 0.0))
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
