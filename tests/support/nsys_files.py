"""SQLite exports of Nsight Systems as tests make them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Row = dict[str, Any]
TID = (7 << 24) + 9  # thread 9 of process 7, on machine 0


def write_tables(path: Path, tables: Mapping[str, Iterable[Row]]) -> Path:
    """Write a database with these tables; the columns are those of the first row."""
    with sqlite3.connect(path) as db:
        for table, table_rows in tables.items():
            rows = list(table_rows)
            names = ", ".join(f'"{name}"' for name in rows[0])
            db.execute(f"CREATE TABLE {table} ({names})")
            marks = ", ".join("?" for _ in rows[0])
            db.executemany(f"INSERT INTO {table} VALUES ({marks})", [tuple(row.values()) for row in rows])
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
