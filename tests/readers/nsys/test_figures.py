"""Exports of Nsight Systems: graphs, GPUs and ranks of processes, NVTX domains and payloads, counters, other tables."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from support.metrics_logs import rows as metric_rows
from support.nsys_files import STRINGS, TID, Row, call, kernel, write_tables

import perflog
from perflog.metrics import counters, device_time

A, B = 7 << 24, 8 << 24  # two processes


def rows(log: perflog.Log, table: str = "events") -> list[Row]:
    table_rows: list[Row] = log.arrow(table).to_pylist()
    return table_rows


def nvtx(start: int, end: int | None, **more: Any) -> Row:
    usual = {"start": start, "end": end, "eventType": 59, "text": None, "textId": None, "globalTid": TID, "domainId": 0}
    return usual | more


def graph(start: int, end: int, **more: Any) -> Row:
    return {
        "start": start, "end": end, "deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": 5, "globalPid": A,
        "graphId": 3, "graphExecId": 4,
    } | more  # fmt: skip


# --- graphs -----------------------------------------------------------------------------------------------------------


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


def node(tmp_path: Path, **more: list[Row]) -> perflog.Log:
    """Two processes that each see one GPU as device 0, each with two steps of 100 ns, half of them computed."""
    ranges, kernels = [], []
    for process, shift in ((A, 0), (B, 1000)):
        for number in (1, 2):
            begin = shift + 100 * number
            ranges.append(nvtx(begin, begin + 100, text=f"ProfilerStep#{number}", globalTid=process + 9))
            kernels.append(kernel(begin, begin + 50, globalPid=process, correlationId=None))
    tables: dict[str, list[Row]] = {
        "TARGET_INFO_GPU": [{"id": n, "name": "NVIDIA H100", "cuDevice": n, "pwGpuId": n} for n in (0, 1)],
        "TARGET_INFO_CUDA_DEVICE": [{"gpuId": 0, "cudaId": 0, "pid": 7}, {"gpuId": 1, "cudaId": 0, "pid": 8}],
        "NVTX_EVENTS": ranges,
        "CUPTI_ACTIVITY_KIND_KERNEL": kernels,
    }
    return perflog.read(write_tables(tmp_path / "node.sqlite", tables | more))


def test_each_process_has_its_gpu_and_its_steps(tmp_path: Path) -> None:
    log = node(tmp_path)
    kernels = [(r["process"], r["device"], r["device_name"]) for r in rows(log) if r["kind"] == "kernel"]
    assert kernels == [("7", 0, "NVIDIA H100")] * 2 + [("8", 1, "NVIDIA H100")] * 2
    found = metric_rows(device_time(log), part="step")
    assert [(r["device"], r["step"], r["compute_share"]) for r in found] == [
        (0, 1, 0.5), (0, 2, 0.5), (1, 1, 0.5), (1, 2, 0.5),
    ]  # fmt: skip


def test_mpi_names_the_ranks_of_processes(tmp_path: Path) -> None:
    log = node(tmp_path, MPI_RANKS=[{"globalTid": A + 9, "rank": 4}, {"globalTid": B + 9, "rank": 5}])
    assert {(r["process"], r["rank"], r["rank_by"]) for r in rows(log)} == {("7", 4, "process"), ("8", 5, "process")}
    steps = [(r["rank"], r["step"], r["copy"], r["step_time_s"]) for r in rows(log, "steps")]
    assert sorted(steps) == [(4, 1, 1, 100e-9), (4, 2, 1, 100e-9), (5, 1, 1, 100e-9), (5, 2, 1, 100e-9)]
    assert [(r["rank"], r["device"]) for r in metric_rows(device_time(log), part="trace")] == [(4, 0), (5, 1)]


# --- NVTX: domains and payloads ---------------------------------------------------------------------------------------

DOMAINS = [nvtx(0, None, eventType=75, text="NCCL", domainId=1), nvtx(0, None, eventType=75, textId=9, domainId=2)]
TEXTS = [*STRINGS, {"id": 9, "value": "my domain"}, {"id": 10, "value": "ncclAllReduce"}]


def test_ranges_have_their_domain(tmp_path: Path) -> None:
    ranges = [nvtx(1, 2, text="a"), nvtx(1, 2, textId=10, domainId=1), nvtx(1, 2, text="c", domainId=2)]
    other = nvtx(1, 2, text="d", domainId=1, globalTid=B)  # a domain has its number in its process only
    path = write_tables(tmp_path / "d.sqlite", {"StringIds": TEXTS, "NVTX_EVENTS": [*DOMAINS, *ranges, other]})
    log = perflog.read(path)
    assert [(r["name"], r["domain"]) for r in rows(log)] == [
        ("a", None), ("ncclAllReduce", "NCCL"), ("c", "my domain"), ("d", None),
    ]  # fmt: skip
    assert log.line_account == {"total": 6, "read": 4, "context": 2, "unread": 0}


def check_nccl(log: perflog.Log) -> None:
    (init, reduce, send) = rows(log)
    assert (init["ranks"], init["group"], init["bytes"], init["collective"]) == (16, "18446744073709551615", None, None)
    assert (reduce["bytes"], reduce["collective"], reduce["group"]) == (1 << 33, "ncclAllReduce", "77")
    assert (send["bytes"], send["collective"], send["group"]) == (4096, "ncclSend", "77")
    assert (send["dst_rank"], send["src_rank"]) == (3, None)
    values = [(r["line"], r["key"], r["value"], r["text"]) for r in rows(log, "values")]
    assert values == [
        (3, "Rank", 5.0, None), (3, "CUDA_device", 1.0, None), (4, "Reduction_operation", None, "Sum"),
    ]  # fmt: skip
    assert {(r["rank"], r["rank_by"]) for r in rows(log)} == {(5, "process")}


def test_payloads_of_nccl_as_json(tmp_path: Path) -> None:
    payloads = [
        {"NCCL communicator ID": (1 << 64) - 1, "No. of ranks": 16, "Rank": 5, "CUDA device": 1},
        {"NCCL communicator ID": 77, "Message size [bytes]": 1 << 33, "Reduction operation": "Sum"},
        {"NCCL communicator ID": 77, "Message size [bytes]": 4096, "Peer rank": 3},
    ]
    names = ("ncclCommInitRank", "ncclAllReduce", "ncclSend")
    ranges = [
        nvtx(n, n + 1, text=name, domainId=1, jsonText=json.dumps(payload))
        for n, (name, payload) in enumerate(zip(names, payloads, strict=True))
    ]
    domains = [domain | {"jsonText": None} for domain in DOMAINS]
    check_nccl(perflog.read(write_tables(tmp_path / "j.sqlite", {"StringIds": TEXTS, "NVTX_EVENTS": domains + ranges})))


def test_sizes_of_messages_are_those_of_the_kernels(tmp_path: Path) -> None:
    """By the call that launched a kernel, on its thread. A group launches behind the ranges: its kernel has no size."""
    payload = {"NCCL communicator ID": 77, "Message size [bytes]": 1 << 33}
    ranges = [
        nvtx(10, 20, text="ncclAllReduce", domainId=1, jsonText=json.dumps(payload)),
        nvtx(30, 40, text="ncclSend", domainId=1, jsonText=json.dumps(payload | {"Peer rank": 3})),
        nvtx(45, 60, text="ncclGroupEnd", domainId=1, jsonText=None),
        nvtx(10, 20, text="ncclBroadcast", domainId=1, jsonText=json.dumps(payload), globalTid=TID + 1),
    ]
    tables: dict[str, list[Row]] = {
        "StringIds": STRINGS,
        "NVTX_EVENTS": ranges,
        "CUPTI_ACTIVITY_KIND_RUNTIME": [call(12, 13, 1), call(35, 36, 2), call(50, 51, 3), call(70, 71, 4)],
        "CUPTI_ACTIVITY_KIND_KERNEL": [kernel(100 * n, 100 * n + 9, correlationId=n) for n in (1, 2, 3, 4)],
    }
    events = rows(perflog.read(write_tables(tmp_path / "n.sqlite", tables)))
    columns = ("bytes", "collective", "group", "dst_rank", "range")
    assert [tuple(r[c] for c in columns) for r in events if r["kind"] == "kernel"] == [
        (1 << 33, "ncclAllReduce", "77", None, "ncclAllReduce"),
        (1 << 33, "ncclSend", "77", 3, "ncclSend"),
        (None, None, None, None, "ncclGroupEnd"),
        (None, None, None, None, None),
    ]


def test_payloads_of_nccl_as_structs(tmp_path: Path) -> None:
    """As `nsys export --include-blobs=true` writes them, with their schemas."""
    fields = {
        100: [("NCCL communicator ID", 18, None), ("No. of ranks", 5, 8), ("Rank", 5, 12), ("CUDA device", 5, 16)],
        101: [("NCCL communicator ID", 18, None), ("Message size [bytes]", 22, 8), ("Reduction operation", 900, 16)],
        102: [("NCCL communicator ID", 18, None), ("Message size [bytes]", 22, 8), ("Peer rank", 5, 16)],
    }
    payloads = [
        (100, struct.pack("<Qiiii", (1 << 64) - 1, 16, 5, 1, 0)),
        (101, struct.pack("<QQii", 77, 1 << 33, 0, 0)),
        (102, struct.pack("<QQii", 77, 4096, 3, 0)),
    ]
    names = ("ncclCommInitRank", "ncclAllReduce", "ncclSend")
    ranges = [
        nvtx(n, n + 1, text=name, domainId=1,
             binaryData=struct.pack("<IIIIQQ", 1, 0, schema, 0, len(raw), 32 + len(raw)) + raw)
        for n, (name, (schema, raw)) in enumerate(zip(names, payloads, strict=True))
    ]  # fmt: skip
    tables: dict[str, list[Row]] = {
        "StringIds": TEXTS,
        "NVTX_PAYLOAD_SCHEMAS": [{"domainId": 1, "schemaId": n, "payloadSize": 24} for n in fields],
        "NVTX_PAYLOAD_SCHEMA_ENTRIES": [
            {"domainId": 1, "schemaId": n, "idx": k, "type": kind, "name": name, "offset": offset}
            for n, of_schema in fields.items()
            for k, (name, kind, offset) in enumerate(of_schema)
        ],
        "NVTX_PAYLOAD_ENUM_ENTRIES": [{"domainId": 1, "schemaId": 900, "idx": 0, "name": "Sum", "value": 0}],
        "NVTX_EVENTS": [domain | {"binaryData": None} for domain in DOMAINS] + ranges,
    }
    check_nccl(perflog.read(write_tables(tmp_path / "b.sqlite", tables)))


def test_a_number_as_payload(tmp_path: Path) -> None:
    ranges = [
        nvtx(1, 2, text="tokens", int64Value=4096, doubleValue=None),
        nvtx(3, 4, text="loss", int64Value=None, doubleValue=2.5),
        nvtx(5, 6, text="none", int64Value=None, doubleValue=None),
    ]
    log = perflog.read(write_tables(tmp_path / "n.sqlite", {"NVTX_EVENTS": ranges}))
    assert [(r["line"], r["key"], r["value"]) for r in rows(log, "values")] == [
        (1, "payload", 4096),
        (2, "payload", 2.5),
    ]


# --- counters ---------------------------------------------------------------------------------------------------------


def test_gpu_metrics_are_counters_of_their_gpu(tmp_path: Path) -> None:
    types = [0x1000100000000 | gpu for gpu in (0, 1)]
    names = [
        {"typeId": kind, "sourceId": 1, "typeName": f"GPU Metrics [{kind & 255}]", "metricId": n, "metricName": name}
        for kind in types
        for n, name in ((0, "SM Active [Throughput %]"), (7, "DRAM Read Bandwidth [Throughput %]"))
    ]
    readings = [
        {"rawTimestamp": 1, "timestamp": at, "typeId": types[gpu], "metricId": metric, "value": value}
        for at, gpu, metric, value in ((100, 0, 0, 90), (100, 1, 0, 10), (200, 0, 0, 70), (200, 0, 7, 33))
    ]
    log = node(tmp_path, GPU_METRICS=readings, TARGET_INFO_GPU_METRICS=names)
    sampled = [(r["line"], r["device"], r["name"], r["start_ns"], r["value"]) for r in rows(log, "counters")]
    assert sampled == [
        (9, 0, "SM Active [Throughput %]", 100, 90.0), (10, 1, "SM Active [Throughput %]", 100, 10.0),
        (11, 0, "SM Active [Throughput %]", 200, 70.0), (12, 0, "DRAM Read Bandwidth [Throughput %]", 200, 33.0),
    ]  # fmt: skip
    found = [
        (r["device"], r["device_name"], r["counter"], r["mean"], r["readings"]) for r in metric_rows(counters(log))
    ]
    assert found == [
        (0, "NVIDIA H100", "SM Active [Throughput %]", 80.0, 2),
        (1, "NVIDIA H100", "SM Active [Throughput %]", 10.0, 1),
        (0, "NVIDIA H100", "DRAM Read Bandwidth [Throughput %]", 33.0, 1),
    ]
    assert log.line_account == {"total": 12, "read": 12, "context": 0, "unread": 0}


def test_network_metrics_alone(tmp_path: Path) -> None:
    """A capture of nothing else: `nsys profile --trace=none --nic-metrics=lf`."""
    reading = {"start": 100, "end": 200, "globalId": 55, "portId": 1, "metricsListId": 2, "metricsIdx": 0, "value": 8}
    tables: dict[str, list[Row]] = {
        "NET_NIC_METRIC": [reading, reading | {"start": 200, "end": 300, "value": 4, "globalId": 56}],
        "TARGET_INFO_NETWORK_METRICS": [
            {"metricsListId": 2, "metricsIdx": 0, "name": "IB: Bytes sent", "description": "", "unit": "bytes/ms"}
        ],
        "NIC_ID_MAP": [{"nicId": 0, "globalId": 55}],
        "TARGET_INFO_NIC_INFO": [{"GUID": 1, "nicId": 0, "name": "mlx5_0"}],
    }
    log = perflog.read(write_tables(tmp_path / "nic.sqlite", tables))
    columns = ("name", "subject", "start_ns", "duration_ns", "value", "unit")
    assert [tuple(r[c] for c in columns) for r in rows(log, "counters")] == [
        ("IB: Bytes sent", "mlx5_0 port 1", 100, 100, 8.0, "bytes/ms"),
        ("IB: Bytes sent", "network interface 56 port 1", 200, 100, 4.0, "bytes/ms"),
    ]


def test_counters_whose_names_are_missing(tmp_path: Path) -> None:
    reading = {"timestamp": 5, "typeId": 3, "metricId": 2, "value": 1.5}
    log = perflog.read(write_tables(tmp_path / "c.sqlite", {"GPU_METRICS": [reading]}))
    (row,) = rows(log, "counters")
    assert (row["name"], row["device"], row["value"], row["subject"]) == ("counter 2", None, 1.5, None)


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
