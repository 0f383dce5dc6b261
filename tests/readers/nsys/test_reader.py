"""Exports of Nsight Systems: schemas, devices, processes, graphs, domains, what is missing, what is damaged."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.field_logs import needs_corpus
from support.metrics_logs import rows as metric_rows
from support.nsys_files import (
    DOMAINS,
    STRINGS,
    TEXTS,
    TID,
    A,
    B,
    Row,
    call,
    kernel,
    nvtx,
    rows,
    write_export,
    write_node,
    write_tables,
)  # fmt: skip
from support.paths import SHARED
from support.reading import proof_of

import perflog
from perflog.errors import InputError
from perflog.metrics import device_time
from perflog.parsing.input.source import open_source
from perflog.readers.events.event_columns import KIND_CODE, MISSING
from perflog.readers.nsys import export
from perflog.readers.nsys.reader import NsysReader
from perflog.readers.nsys.tables import DROPPED_COLUMNS

CORPUS = SHARED / "corpus" / "nsys"


@needs_corpus
def test_a_real_export() -> None:
    (line,) = (x for x in (CORPUS.parent / "index.tsv").read_text().splitlines() if "report1.sqlite" in x)
    expected = json.loads(line.split("\t")[8])
    log = perflog.read(next(CORPUS.glob("*report1.sqlite")))
    events = rows(log)
    counts = Counter(r["kind"] for r in events)
    kernels, copies = ([r for r in events if r["kind"] == kind] for kind in ("kernel", "memcpy"))
    assert (counts["kernel"], counts["memcpy"], counts["runtime"]) == (
        expected["kernels"],
        expected["memcpy"],
        expected["runtime"],
    )
    assert sum(r["duration_ns"] for r in kernels) == expected["kernel_ns"]
    assert sum(r["duration_ns"] for r in copies) == expected["memcpy_ns"]
    assert (
        kernels[0]["name"].startswith(expected["top3"][0][0])
        and len({r["device"] for r in kernels}) == expected["devices"]
    )
    run = rows(log, "runs")[0]
    assert (run["format"], run["device"], run["program"]) == ("nsys_sqlite", "NVIDIA GeForce RTX 3060", "./vecAdd")
    assert json.loads(run["config"])["EXPORT_SCHEMA_VERSION"] == "3.24.0"
    assert log.line_account["total"] == log.line_account["read"] + log.line_account["context"]


def test_the_same_claim_on_a_made_export(tmp_path: Path) -> None:
    path = write_export(tmp_path / "report1.sqlite")
    log = perflog.read(path)
    events = rows(log)
    assert [(r["kind"], r["name"], r["device"], r["correlation"], r["duration_ns"], r["bytes"]) for r in events] == [
        ("runtime", "cudaLaunchKernel", None, 1, 5, None),
        ("kernel", "gemm(float*)", 0, 1, 38, None),
        ("kernel", "gemm(float*)", 2, None, 3, None),
        ("memcpy", "Memcpy Host-to-Device", 1, 2, 4, 64),
        ("memcpy", "Memcpy kind 99", 1, 2, 4, 64),
    ]
    assert [r["line"] for r in events] == [1, 2, 3, 4, 5]
    assert events[0]["start_ns"] == 1_767_718_840_395_831_760
    assert (events[0]["process"], events[0]["thread"]) == ("7", "9")
    run = rows(log, "runs")[0]
    assert (run["device"], run["program"], json.loads(run["config"])["clock"]) == ("A100, T4", "./vecAdd", "epoch")
    assert log.line_account == {"total": 10, "read": 5, "context": 5, "unread": 0}


def test_ranges_reach_through_calls_of_the_same_process(tmp_path: Path) -> None:
    other = (8 << 24) + 9
    ranges: list[Row] = [
        {"start": 0, "end": 100, "eventType": 59, "text": "outer", "textId": None, "globalTid": TID},
        {"start": 10, "end": 60, "eventType": 59, "text": None, "textId": 4, "globalTid": TID},
        {"start": 20, "end": None, "eventType": 34, "text": "point", "textId": None, "globalTid": TID},
        {"start": 0, "end": None, "eventType": 75, "text": "domain", "textId": None, "globalTid": TID},
        {"start": 200, "end": 300, "eventType": 59, "text": "ProfilerStep#6", "textId": None, "globalTid": TID},
    ]
    path = write_tables(
        tmp_path / "r.sqlite",
        {
            "StringIds": STRINGS,
            "NVTX_EVENTS": ranges,
            "CUPTI_ACTIVITY_KIND_RUNTIME": [call(50, 55, 1), call(50, 55, 1, globalTid=other), call(210, 211, 2)],
            "CUPTI_ACTIVITY_KIND_KERNEL": [
                kernel(400, 500), kernel(400, 500, globalPid=other), kernel(400, 500, correlationId=2)
            ],
        },
    )  # fmt: skip
    log = perflog.read(path)
    events = rows(log)
    assert [(r["name"], r["range"], r["step"]) for r in events if r["kind"] == "kernel"] == [
        ("gemm(float*)", "layer 1", None), ("gemm(float*)", None, None), ("gemm(float*)", None, 6),
    ]  # fmt: skip
    assert [(r["kind"], r["name"], r["range"]) for r in events if r["category"] == "NVTX_EVENTS"] == [
        ("range", "outer", None), ("range", "layer 1", "outer"), ("mark", "point", "layer 1"),
        ("range", "ProfilerStep#6", None),
    ]  # fmt: skip
    assert log.line_account == {"total": 11, "read": 10, "context": 1, "unread": 0}
    (step,) = rows(log, "steps")
    assert (step["step"], step["step_time_s"]) == (6, 100e-9)


def test_old_columns_and_missing_ones(tmp_path: Path) -> None:
    path = write_tables(
        tmp_path / "old.sqlite", {"CUPTI_ACTIVITY_KIND_KERNEL": [{"start": 1, "end": 4, "shortName": 2}]}
    )
    (row,) = rows(perflog.read(path))
    filled = {k: v for k, v in row.items() if v is not None and k not in ("run", "line", "part")}
    assert filled == {"kind": "kernel", "category": "CUPTI_ACTIVITY_KIND_KERNEL", "start_ns": 1, "duration_ns": 3}
    run = rows(perflog.read(path), "runs")[0]
    assert json.loads(run["config"])["clock"] == "trace" and run["device"] is None


@pytest.mark.parametrize("largest", [1 << 20, 0])
def test_an_event_without_the_number_of_its_name_has_no_name(
    tmp_path: Path, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of string 1 is not taken for it, nor the number that stands for none. Large numbers are found too."""
    monkeypatch.setattr("perflog.readers.nsys.export._LARGEST_NAME_ID", largest)
    tables: dict[str, list[Row]] = {
        "StringIds": [{"id": 1, "value": "first"}],
        "CUPTI_ACTIVITY_KIND_KERNEL": [kernel(0, 1, demangledName=name) for name in (None, 1, None, 5)],
        "CUPTI_ACTIVITY_KIND_MEMCPY": [{"start": 2, "end": 3, "copyKind": kind} for kind in (None, 1)],
        "CUPTI_ACTIVITY_KIND_MEMSET": [{"start": 4, "end": 5, "bytes": 64}],
    }
    events = rows(perflog.read(write_tables(tmp_path / "r.sqlite", tables)))
    assert [row["name"] for row in events] == [
        None, "first", None, None, None, "Memcpy Host-to-Device", "Memset",
    ]  # fmt: skip


def test_an_export_without_events_is_an_error(tmp_path: Path) -> None:
    path = write_tables(tmp_path / "r.sqlite", {"CUPTI_ACTIVITY_KIND_KERNEL": [kernel(0, 1)]})
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL")
    db.close()
    with pytest.raises(InputError, match="no events"):
        perflog.read(path)


def test_more_rows_than_are_read_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perflog.readers.databases.sqlite._BATCH_ROWS", 500)
    count = 1200
    path = write_tables(
        tmp_path / "rank3.sqlite",
        {
            "StringIds": STRINGS,
            "CUPTI_ACTIVITY_KIND_RUNTIME": [call(i, i + 1, count - i) for i in range(count)],
            "NVTX_EVENTS": [{"start": 10, "end": 20, "eventType": 59, "text": "few", "globalTid": TID}],
            "CUPTI_ACTIVITY_KIND_KERNEL": [kernel(2 * i, 2 * i + 3, correlationId=i) for i in range(count)],
        },
    )
    log = perflog.read(path)
    events = log.arrow("events").select(["kind", "range", "rank", "rank_by", "correlation"]).to_pylist()
    assert Counter(r["kind"] for r in events) == {"runtime": count, "kernel": count, "range": 1}
    within = {r["correlation"] for r in events if r["range"] and r["kind"] == "kernel"}
    assert within == set(range(count - 19, count - 9))
    assert {(r["rank"], r["rank_by"]) for r in events} == {(3, "file")}


def test_packed_and_damaged_exports(tmp_path: Path) -> None:
    tables = {"StringIds": STRINGS, "CUPTI_ACTIVITY_KIND_KERNEL": [kernel(i, i + 1) for i in range(5000)]}
    path = write_tables(tmp_path / "whole", tables)
    raw = path.read_bytes()
    (tmp_path / "packed.gz").write_bytes(gzip.compress(raw))
    assert perflog.read(tmp_path / "packed.gz").run_keys[0].id == perflog.read(path).run_keys[0].id
    (tmp_path / "torn.sqlite").write_bytes(raw[: len(raw) // 2])
    with pytest.raises(InputError, match="damaged"):
        perflog.read(tmp_path / "torn.sqlite")


def test_another_database(tmp_path: Path) -> None:
    path = write_tables(tmp_path / "x.sqlite", {"things": [{"a": 1}]})
    with pytest.raises(InputError, match="without tables of GPU activity"):
        perflog.read(path)
    assert list(tmp_path.iterdir()) == [path]  # nothing is left beside it


def synchronisation(start: int, type: int, correlation: int, stream: int, event: int, sync: int | None) -> Row:
    return {"start": start, "end": start + 1, "deviceId": 0, "contextId": 1, "streamId": stream, "globalPid": TID,
            "correlationId": correlation, "syncType": type, "eventId": event, "eventSyncId": sync}  # fmt: skip


def record(correlation: int, stream: int, event: int, sync: int | None, process: int = TID) -> Row:
    return {"deviceId": 0, "contextId": 1, "streamId": stream, "correlationId": correlation, "globalPid": process,
            "eventId": event, "eventSyncId": sync}  # fmt: skip


@pytest.mark.parametrize("numbered", [True, False])
def test_a_synchronisation_has_the_record_that_it_waits_for(tmp_path: Path, numbered: bool) -> None:
    """By a number, or in older exports as the last record of the event that came before."""
    tables = {
        "StringIds": STRINGS,
        "CUPTI_ACTIVITY_KIND_KERNEL": [kernel(100, 138)],
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": [
            synchronisation(20, 2, 20, 7, 4, 501), synchronisation(60, 2, 60, 9, 4, 502),
            synchronisation(61, 1, 61, 0xFFFFFFFF, 5, 503), synchronisation(62, 3, 62, 8, 0xFFFFFFFF, 0),
            synchronisation(63, 2, 63, 8, 6, 504),
        ],
        "CUPTI_ACTIVITY_KIND_CUDA_EVENT": [
            record(50, 14, 4, 502), record(10, 13, 4, 501), record(70, 15, 4, 505), record(55, 16, 5, 503),
            record(30, 99, 4, 502, process=TID + (8 << 24)),
        ],
    }  # fmt: skip
    if not numbered:
        for table in list(tables)[2:]:
            tables[table] = [{k: v for k, v in row.items() if k != "eventSyncId"} for row in tables[table]]
    log = perflog.read(write_tables(tmp_path / "a.sqlite", tables))
    waits = [r for r in rows(log) if r["kind"] == "sync"]
    assert [(r["name"], r["waits_for_stream"], r["waits_for_record"]) for r in waits] == [
        ("Stream wait sync", 13, 10), ("Stream wait sync", 14, 50), ("Event sync", 16, 55),
        ("Stream sync", None, None), ("Stream wait sync", None, None),
    ]  # fmt: skip


def test_the_path_follows_recorded_waits_of_streams(tmp_path: Path) -> None:
    names = [*STRINGS, *({"id": i, "value": v} for i, v in ((5, "cudaEventRecord"), (6, "cudaStreamWaitEvent")))]
    launches = [(10, 15_000, 45_000, 8, 2), (25_000, 46_000, 57_000, 8, 2), (29_000, 70_000, 80_000, 7, 1)]
    tables = {
        "StringIds": names,
        "CUPTI_ACTIVITY_KIND_RUNTIME": [
            *(call(at, at + 2000, number) for number, (at, *_) in enumerate(launches, 1)),
            call(20_000, 21_000, 8, nameId=5), call(27_000, 28_000, 9, nameId=6),
        ],
        "CUPTI_ACTIVITY_KIND_KERNEL": [
            kernel(start, end, streamId=stream, correlationId=number, demangledName=name)
            for number, (_, start, end, stream, name) in enumerate(launches, 1)
        ],
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": [synchronisation(27_000, 2, 9, 7, 4, 501)],
        "CUPTI_ACTIVITY_KIND_CUDA_EVENT": [record(8, 8, 4, 501)],
    }  # fmt: skip
    table = perflog.metrics.critical_path(perflog.read(write_tables(tmp_path / "a.sqlite", tables)))
    times = {row["kind"]: row["time_s"] for row in table[table["by"] == "kind"].to_dict("records")}
    assert times["gemm"] == pytest.approx(30e-6 + 10e-6)  # the second one of stream 8 began after the record
    assert times["waiting"] == pytest.approx(25e-6)


def test_the_launch_of_a_kernel(tmp_path: Path) -> None:
    def launch(start: int, grid: tuple[int | None, ...], static: int | None, dynamic: int | None) -> Row:
        sizes = dict(zip(("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"), (*grid, 128, 1, 1), strict=True))
        more = {"registersPerThread": 32, "staticSharedMemory": static, "dynamicSharedMemory": dynamic}
        return kernel(start, start + 5, **sizes, **more)

    launches = [
        launch(10, (8, 4, 0), 16, 1024), launch(20, (8, 4, None), None, 1024), launch(30, (8, 4, 0), 16, None),
        launch(40, (1, 1, 1), None, None),
    ]  # fmt: skip
    path = write_tables(tmp_path / "a.sqlite", {"StringIds": STRINGS, "CUPTI_ACTIVITY_KIND_KERNEL": launches})
    found = [[row[name] for name in ("grid", "block", "shared_bytes")] for row in rows(perflog.read(path))]
    block = "[128, 1, 1]"
    assert found == [
        ["[8, 4, 0]", block, 1040], [None, block, 1024], ["[8, 4, 0]", block, 16], ["[1, 1, 1]", block, None]
    ]  # fmt: skip
    assert {row["registers"] for row in rows(perflog.read(path))} == {32}


def test_a_row_with_an_odd_cell_costs_only_itself(tmp_path: Path) -> None:
    kernels = [kernel(10, 14), kernel(20, 25, streamId="seven"), kernel(30, 36, streamId=9)]
    path = write_tables(tmp_path / "a.sqlite", {"StringIds": STRINGS, "CUPTI_ACTIVITY_KIND_KERNEL": kernels})
    log = perflog.read(path)
    assert [(row["line"], row["start_ns"], row["duration_ns"], row["stream"]) for row in rows(log)] == [
        (1, 10, 4, 7), (3, 30, 6, 9)
    ]  # fmt: skip
    assert log.line_account["unread"] == 1


# --- graphs -----------------------------------------------------------------------------------------------------------


def graph(start: int, end: int, **more: Any) -> Row:
    return {
        "start": start, "end": end, "deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": 5, "globalPid": A,
        "graphId": 3, "graphExecId": 4,
    } | more  # fmt: skip


def test_cuda_graphs_are_work_of_the_gpu(tmp_path: Path) -> None:
    """Kernels of 1 + 51 ns and graphs of 47 ns in 100 ns: idle is 1 %, and was 48 % without the graphs."""
    tables: dict[str, list[Row]] = {
        "CUPTI_ACTIVITY_KIND_KERNEL": [kernel(0, 1), kernel(49, 100)],
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": [graph(1, 21), graph(21, 48)],
    }
    log = perflog.read(write_tables(tmp_path / "g.sqlite", tables))
    graphs = [(r["kind"], r["name"], r["context"], r["duration_ns"]) for r in rows(log) if r["kind"] == "graph"]
    assert graphs == [("graph", "CUDA graph 3", 1, 20), ("graph", "CUDA graph 3", 1, 27)]
    (found,) = metric_rows(device_time(log), part="trace")
    assert (found["idle_share"], found["compute_share"], found["events"]) == (0.01, 0.99, 4)
    assert log.line_account == {"total": 4, "read": 4, "context": 0, "unread": 0}


def test_a_graph_is_in_the_range_and_step_of_its_launch(tmp_path: Path) -> None:
    tables: dict[str, list[Row]] = {
        "NVTX_EVENTS": [nvtx(0, 100, text="ProfilerStep#4"), nvtx(10, 60, text="replay")],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [call(20, 30, 5)],
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": [graph(200, 300)],
    }
    events = rows(perflog.read(write_tables(tmp_path / "g.sqlite", tables)))
    assert [(r["step"], r["range"]) for r in events if r["kind"] == "graph"] == [(4, "replay")]


# --- processes of a node ----------------------------------------------------------------------------------------------


def test_each_process_has_its_gpu_and_its_steps(tmp_path: Path) -> None:
    log = perflog.read(write_node(tmp_path))
    kernels = [(r["process"], r["device"], r["device_name"]) for r in rows(log) if r["kind"] == "kernel"]
    assert kernels == [("7", 0, "NVIDIA H100")] * 2 + [("8", 1, "NVIDIA H100")] * 2
    found = metric_rows(device_time(log), part="step")
    assert [(r["device"], r["step"], r["compute_share"]) for r in found] == [
        (0, 1, 0.5), (0, 2, 0.5), (1, 1, 0.5), (1, 2, 0.5),
    ]  # fmt: skip


def test_steps_of_several_processes_are_not_printed_again(tmp_path: Path) -> None:
    log = perflog.read(write_node(tmp_path))
    assert [(r["source"], r["step"], r["copy"]) for r in rows(log, "steps")] == [
        ("process 7", 1, 1), ("process 7", 2, 1), ("process 8", 1, 1), ("process 8", 2, 1),
    ]  # fmt: skip


def test_exports_of_the_ranks_of_a_job_are_one_run(tmp_path: Path) -> None:
    """Each rank sees its GPU as device 0. An export of several processes is no rank."""
    for rank in (0, 1):
        gpus = [{"id": n, "name": f"GPU {n}", "cuDevice": n} for n in (0, 1)]
        write_tables(
            tmp_path / f"report_rank{rank}.sqlite",
            {
                "TARGET_INFO_GPU": gpus,
                "TARGET_INFO_CUDA_DEVICE": [{"gpuId": rank, "cudaId": 0, "pid": 7}],
                "META_DATA_CAPTURE": [{"name": "PROCESS_0:COMMAND", "value": "train"}],
                "META_DATA_EXPORT": [{"name": "EXPORT_TIME", "value": str(rank)}],
                "CUPTI_ACTIVITY_KIND_KERNEL": [kernel(100, 150 + rank, correlationId=None)],
            },
        )
    log = perflog.read(tmp_path)
    (run,) = rows(log, "runs")
    assert (run["program"], run["device"], log.run_keys[0].log) == (
        "train", "GPU 0, GPU 1", f"{tmp_path}/report_rank{{0..1}}.sqlite",
    )  # fmt: skip
    files = json.loads(run["config"])["files"]
    assert [(file["name"], file["rank"], file["EXPORT_TIME"]) for file in files] == [
        ("report_rank0.sqlite", 0, "0"), ("report_rank1.sqlite", 1, "1"),
    ]  # fmt: skip
    found = [(r["rank"], r["rank_by"], r["device"], r["duration_ns"]) for r in rows(log)]
    assert found == [(0, "file", 0, 50), (1, "file", 1, 51)]
    with open_source(str(write_node(tmp_path))) as source:
        assert NsysReader().rank_info(source) is None


def test_mpi_names_the_ranks_of_processes(tmp_path: Path) -> None:
    log = perflog.read(
        write_node(tmp_path, MPI_RANKS=[{"globalTid": A + 9, "rank": 4}, {"globalTid": B + 9, "rank": 5}])
    )
    assert {(r["process"], r["rank"], r["rank_by"]) for r in rows(log)} == {("7", 4, "process"), ("8", 5, "process")}
    steps = [(r["rank"], r["step"], r["copy"], r["step_time_s"]) for r in rows(log, "steps")]
    assert sorted(steps) == [(4, 1, 1, 100e-9), (4, 2, 1, 100e-9), (5, 1, 1, 100e-9), (5, 2, 1, 100e-9)]
    assert [(r["rank"], r["device"]) for r in metric_rows(device_time(log), part="trace")] == [(4, 0), (5, 1)]


def test_ranges_have_their_domain(tmp_path: Path) -> None:
    ranges = [nvtx(1, 2, text="a"), nvtx(1, 2, textId=10, domainId=1), nvtx(1, 2, text="c", domainId=2)]
    other = nvtx(1, 2, text="d", domainId=1, globalTid=B)  # a domain has its number in its process only
    path = write_tables(tmp_path / "d.sqlite", {"StringIds": TEXTS, "NVTX_EVENTS": [*DOMAINS, *ranges, other]})
    log = perflog.read(path)
    assert [(r["name"], r["domain"]) for r in rows(log)] == [
        ("a", None), ("ncclAllReduce", "NCCL"), ("c", "my domain"), ("d", None),
    ]  # fmt: skip
    assert log.line_account == {"total": 6, "read": 4, "context": 2, "unread": 0}


# --- other tables -----------------------------------------------------------------------------------------------------


def test_what_is_not_read_is_said(tmp_path: Path) -> None:
    """Tables with start and end are events; points are declared, or unread."""
    tables: dict[str, list[Row]] = {
        "StringIds": STRINGS,
        "CUPTI_ACTIVITY_KIND_KERNEL": [kernel(1, 2)],
        "UCX_SOME_EVENTS": [{"start": 3, "end": 9, "globalTid": TID, "textId": 4}],
        "SCHED_EVENTS": [{"start": 1, "cpu": 0}] * 5,
        "GENERIC_EVENTS": [{"rawTimestamp": 1, "timestamp": 1, "typeId": 2, "data": "{}"}] * 2,
        "CUDA_GPU_MEMORY_USAGE_EVENTS": [
            {"start": 4, "globalPid": A, "deviceId": 0, "contextId": 1, "bytes": 1024, "memoryOperationType": 0}
        ],
        "ENUM_CUDA_DEV_MEM_EVENT_OPER": [{"id": 0, "label": "Allocation"}],
    }
    log = perflog.read(write_tables(tmp_path / "o.sqlite", tables))
    assert [(r["kind"], r["name"], r["category"], r["duration_ns"], r["bytes"]) for r in rows(log)] == [
        ("kernel", "gemm(float*)", "CUPTI_ACTIVITY_KIND_KERNEL", 1, None),
        ("memory", "GPU memory: Allocation", "CUDA_GPU_MEMORY_USAGE_EVENTS", None, 1024),
        (None, "layer 1", "UCX_SOME_EVENTS", 6, None),
    ]
    assert log.line_account == {"total": 10, "read": 3, "context": 5, "unread": 2}
    shapes = {r["status"]: r["shape"] for r in rows(log, "lines") if r["status"] != "read"}
    assert shapes == {
        "context": "SCHED_EVENTS: times at which threads went on and off a CPU", "unread": "GENERIC_EVENTS",
    }  # fmt: skip


@pytest.mark.parametrize("owner", [TID, TID | 3 << 48])
def test_a_process_on_another_machine_number(tmp_path: Path, owner: int) -> None:
    tables: dict[str, list[Row]] = {
        "TARGET_INFO_CUDA_DEVICE": [{"gpuId": 6, "cudaId": 0, "pid": 7}],
        "CUPTI_ACTIVITY_KIND_KERNEL": [kernel(1, 2, globalPid=owner)],
    }
    (row,) = rows(perflog.read(write_tables(tmp_path / "m.sqlite", tables)))
    assert (row["process"], row["device"]) == ("7", 6)


def test_copies_tell_the_memory_at_both_ends(tmp_path: Path) -> None:
    usual = {"start": 5, "end": 9, "deviceId": 0, "streamId": 8, "correlationId": 2, "bytes": 64, "copyKind": 1,
             "srcKind": 0, "dstKind": 2, "srcDeviceId": None, "dstDeviceId": None}  # fmt: skip
    tables: dict[str, list[Row]] = {
        "StringIds": STRINGS,
        "CUPTI_ACTIVITY_KIND_MEMCPY": [
            usual, usual | {"srcKind": 1}, usual | {"srcKind": None}, usual | {"dstKind": 7},
            usual | {"copyKind": 10, "srcKind": 2, "srcDeviceId": 0, "dstDeviceId": 3},
            usual | {"copyKind": 8, "srcKind": 2, "srcDeviceId": 1, "dstDeviceId": 1},
        ],
        "ENUM_CUDA_MEM_KIND": [{"id": 7, "label": "Unknown"}, {"id": 1, "label": "Pinned"}],
    }  # fmt: skip
    log = perflog.read(write_tables(tmp_path / "c.sqlite", tables))
    assert [row["name"] for row in rows(log)] == [
        "Memcpy Host-to-Device (Pageable -> Device)", "Memcpy Host-to-Device (Pinned -> Device)",
        "Memcpy Host-to-Device", "Memcpy Host-to-Device", "Memcpy Peer-to-Peer (Device 0 -> Device 3)",
        "Memcpy Device-to-Device (Device -> Device)",
    ]  # fmt: skip
    assert log.figure_account["unread"] == 0


def test_the_proof_is_the_first_row_of_each_table(tmp_path: Path) -> None:
    tables = {
        "StringIds": STRINGS,
        "CUPTI_ACTIVITY_KIND_KERNEL": [kernel(1, 2), kernel(3, 4)],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [call(0, 1, 1)],
        "GPU_METRICS": [{"timestamp": at, "typeId": 3, "metricId": 2, "value": 1.5} for at in range(3)],
    }
    path = write_tables(tmp_path / "a.sqlite", tables)
    log = perflog.read(path)
    first = {row["category"]: row["line"] for row in reversed(rows(log))}
    first["GPU_METRICS"] = min(row["line"] for row in rows(log, "counters"))
    proof = proof_of(path)
    assert {name: place for place, name, _ in proof} == first and len(first) == 3
    assert {name: text for _, name, text in proof}["CUPTI_ACTIVITY_KIND_KERNEL"] == "2 rows"


def test_a_communicator_without_a_rank_names_no_rank(tmp_path: Path) -> None:
    """Of several, the largest one has all ranks."""

    def ranks_of(*payloads: dict[str, int]) -> set[tuple[int | None, str | None]]:
        ranges = [nvtx(n, n + 1, text="init", jsonText=json.dumps(each)) for n, each in enumerate(payloads)]
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.sqlite"
        return {(r["rank"], r["rank_by"]) for r in rows(perflog.read(write_tables(path, {"NVTX_EVENTS": ranges})))}

    assert ranks_of({"No. of ranks": 16, "Rank": 5}) == {(5, "process")}
    assert ranks_of({"No. of ranks": 2, "Rank": 1}, {"No. of ranks": 16, "Rank": 5}) == {(5, "process")}
    assert ranks_of({"No. of ranks": 16}) == {(None, None)}


# --- what becomes of every value, against sqlite3 ---

KERNEL, CALL = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME"


def account(log: perflog.Log) -> dict[str, tuple[int, int, int]]:
    """Stored, dropped and unread values of each column."""
    names = ("figures_stored", "figures_dropped", "figures_unread")
    rows = log.arrow("lines").to_pylist()
    return {r["shape"]: (r[names[0]], r[names[1]], r[names[2]]) for r in rows if r[names[0]] is not None}


def test_every_value_is_stored_dropped_or_unread(tmp_path: Path) -> None:
    tables = {
        "StringIds": STRINGS,
        KERNEL: [
            kernel(i, i + 1, launchType=1, warpsLost=3 if i else None, shortName=2 if i else None) for i in range(4)
        ],
        CALL: [call(0, 1, 1, returnValue=0)],
        "SCHED_EVENTS": [{"start": 1, "cpu": 0}] * 5,
        "COMPOSITE_EVENTS": [{"start": 1, "cpu": 0, "cpuCycles": 7}] * 2,
    }
    log = perflog.read(write_tables(tmp_path / "k.sqlite", tables))
    shown = account(log)
    assert {shown[f"{KERNEL}.{name}"] for name in ("start", "end", "deviceId", "streamId", "demangledName")} == {
        (4, 0, 0)
    }
    assert shown[f"{KERNEL}.launchType"] == (0, 4, 0) and shown[f"{KERNEL}.shortName"] == (0, 3, 0)
    assert shown[f"{KERNEL}.warpsLost"] == (0, 0, 3)
    assert shown["SCHED_EVENTS.*"] == (0, 10, 0) and shown["COMPOSITE_EVENTS.*"] == (0, 0, 6)
    first = {row["shape"]: row["first_line"] for row in log.arrow("lines").to_pylist()}
    for table in (KERNEL, CALL):  # of a table that has its first event there
        assert first[f"{table}.start"] == min(r["line"] for r in rows(log) if r["category"] == table)
    assert log.figure_account == {"total": 4 * 9 + 3 + 6 + 10 + 5, "stored": 33, "dropped": 18, "unread": 9}


@needs_corpus
def test_every_value_of_a_real_export() -> None:
    (path,) = CORPUS.glob("*.sqlite")
    log = perflog.read(path)
    shown = account(log)
    with sqlite3.connect(path) as db:
        tables = {row["category"] for row in log.arrow("events").to_pylist()}
        counts = Counter[str]()
        for table in tables:
            for _, column, *_ in db.execute(f"PRAGMA table_info({table})").fetchall():
                counts[f"{table}.{column}"] = db.execute(f'SELECT count("{column}") FROM {table}').fetchone()[0]
        launches = db.execute(
            f"SELECT gridX, gridY, gridZ, blockX, blockY, blockZ, registersPerThread,"
            f" staticSharedMemory + dynamicSharedMemory FROM {KERNEL}"
        ).fetchall()
    assert {name: sum(figures) for name, figures in shown.items() if not name.endswith(".*")} == +counts
    assert log.figure_account["unread"] == shown["COMPOSITE_EVENTS.*"][2] == 241 * 6
    dropped = {name.partition(".")[2] for name, figures in shown.items() if figures[1] and not name.endswith(".*")}
    assert dropped <= set(DROPPED_COLUMNS)
    kernels = [r for r in log.arrow("events").to_pylist() if r["kind"] == "kernel"]
    assert [(r["grid"], r["block"], r["registers"], r["shared_bytes"]) for r in kernels] == [
        (str(list(row[:3])), str(list(row[3:6])), row[6], row[7]) for row in launches
    ]


# --- parts of an export by themselves ---


def table_of(kind: str) -> Any:
    return SimpleNamespace(kind=kind)


def test_only_points_and_ranges_are_events() -> None:
    """Other types only name something; an export without types has ranges alone."""
    ranges, kernels, others = map(table_of, ("range", "kernel", "odd"))
    types = np.array([34, 59, 60, 75, 33])
    expected = [KIND_CODE["mark"], KIND_CODE["range"], KIND_CODE["range"], -2, -2]
    assert export._kinds(ranges, types).tolist() == expected
    assert export._kinds(ranges, np.full(2, MISSING)).tolist() == [KIND_CODE["range"]] * 2
    assert export._kinds(kernels, types).tolist() == [KIND_CODE["kernel"]] * 5
    assert export._kinds(others, types).tolist() == [-1] * 5
    assert export._kinds(ranges, types[:0]).tolist() == []


@pytest.mark.parametrize("largest", [5, 1023, 1024, 1 << 32])
def test_a_number_of_a_process_is_one_number(largest: int) -> None:
    numbers = [MISSING, -1, 0, 1, largest]
    pairs = [(number, process) for process in (0, 1, 7) for number in numbers]
    found = export._pair(np.array([n for n, _ in pairs]), np.array([p for _, p in pairs], np.int32)).tolist()
    assert len(set(found)) == 3 * (len(numbers) - 1) and found[0] == found[1]  # what is missing is -1
