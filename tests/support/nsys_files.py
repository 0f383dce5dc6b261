"""SQLite exports of Nsight Systems as tests make them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import perflog

Row = dict[str, Any]
A, B = 7 << 24, 8 << 24  # two processes
TID = A + 9  # thread 9 of process 7, on machine 0


def rows(log: perflog.Log, table: str = "events") -> list[Row]:
    """Return the rows of a table of a log."""
    table_rows: list[Row] = log.arrow(table).to_pylist()
    return table_rows


def write_tables(path: Path, tables: Mapping[str, Iterable[Row]]) -> Path:
    """Write a database with these tables; the columns are those of the first row."""
    with sqlite3.connect(path) as db:
        for table, table_rows in tables.items():
            given = list(table_rows)
            names = ", ".join(f'"{name}"' for name in given[0])
            db.execute(f"CREATE TABLE {table} ({names})")
            marks = ", ".join("?" for _ in given[0])
            db.executemany(f"INSERT INTO {table} VALUES ({marks})", [tuple(row.values()) for row in given])
    db.close()
    return path


def kernel(start: int, end: int, **more: Any) -> Row:
    return {"start": start, "end": end, "deviceId": 0, "streamId": 7, "correlationId": 1, "globalPid": TID,
            "demangledName": 1, "shortName": 2} | more  # fmt: skip


def call(start: int, end: int, correlation: int, **more: Any) -> Row:
    return {"start": start, "end": end, "globalTid": TID, "correlationId": correlation, "nameId": 3} | more


STRINGS = [{"id": i, "value": v} for i, v in enumerate(("gemm(float*)", "gemm", "cudaLaunchKernel", "layer 1"), 1)]


def write_export(path: Path) -> Path:
    """Write an export of two kernels, two copies and a call, on three devices, and a table that no reader reads."""
    return write_tables(
        path,
        {
            "StringIds": STRINGS,
            "META_DATA_EXPORT": [{"name": "EXPORT_SCHEMA_VERSION", "value": "3.24.0"}],
            "META_DATA_CAPTURE": [{"name": "PROCESS_0:COMMAND", "value": "./vecAdd"}],
            "TARGET_INFO_GPU": [{"id": i, "name": name} for i, name in enumerate(("A100", "A100", "T4"))],
            "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": 1_767_718_840_395_831_670}],
            "CUPTI_ACTIVITY_KIND_KERNEL": [kernel(100, 138), kernel(200, 203, deviceId=2, correlationId=None)],
            "CUPTI_ACTIVITY_KIND_MEMCPY": [
                {"start": 5, "end": 9, "deviceId": 1, "streamId": 8, "correlationId": 2, "bytes": 64, "copyKind": kind}
                for kind in (1, 99)
            ],
            "CUPTI_ACTIVITY_KIND_RUNTIME": [call(90, 95, 1)],
            "SCHED_EVENTS": [{"start": 1, "cpu": 0}] * 5,
        },
    )


def nvtx(start: int, end: int | None, **more: Any) -> Row:
    """Return a range of thread 9 of process 7."""
    usual = {"start": start, "end": end, "eventType": 59, "text": None, "textId": None, "globalTid": TID, "domainId": 0}
    return usual | more


DOMAINS = [nvtx(0, None, eventType=75, text="NCCL", domainId=1), nvtx(0, None, eventType=75, textId=9, domainId=2)]
TEXTS = [*STRINGS, {"id": 9, "value": "my domain"}, {"id": 10, "value": "ncclAllReduce"}]


def write_node(tmp_path: Path, **more: list[Row]) -> Path:
    """Write an export of two processes. Each sees a GPU as device 0, and has two steps of 100 ns, half computed."""
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
    return write_tables(tmp_path / "node.sqlite", tables | more)
