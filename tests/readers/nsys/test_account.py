"""Exports of Nsight Systems: sizes of kernels, and what becomes of every value of a table, against sqlite3."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

from support.field_logs import CORPUS, needs_corpus
from support.nsys_files import STRINGS, call, kernel, write_tables

import perflog
from perflog.parsing.input.source import open_source
from perflog.readers.databases.sqlite import Database
from perflog.readers.nsys.tables import DROPPED_COLUMNS

KERNEL, CALL = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME"


def account(log: perflog.Log) -> dict[str, tuple[int, int, int]]:
    """Stored, dropped and unread values of each column."""
    names = ("figures_stored", "figures_dropped", "figures_unread")
    rows = log.arrow("lines").to_pylist()
    return {r["shape"]: (r[names[0]], r[names[1]], r[names[2]]) for r in rows if r[names[0]] is not None}


def launch(x: Any, **more: Any) -> dict[str, Any]:
    sizes = {"gridX": x, "gridY": 65535, "gridZ": 1, "blockX": 128, "blockY": 2, "blockZ": 1}
    return sizes | {"registersPerThread": 126, "staticSharedMemory": 1024, "dynamicSharedMemory": 512} | more


def test_sizes_of_kernels(tmp_path: Path) -> None:
    kernels = [
        kernel(0, 1, **launch(2**31 - 1)),
        kernel(2, 3, **launch(None, registersPerThread=None, staticSharedMemory=None)),
        kernel(4, 5, **launch(7, staticSharedMemory=None, dynamicSharedMemory=None)),
    ]
    log = perflog.read(write_tables(tmp_path / "k.sqlite", {"StringIds": STRINGS, KERNEL: kernels}))
    rows = log.arrow("events").select(["grid", "block", "registers", "shared_bytes"]).to_pylist()
    assert [list(row.values()) for row in rows] == [
        ["[2147483647, 65535, 1]", "[128, 2, 1]", 126, 1536],
        [None, "[128, 2, 1]", None, 512],
        ["[7, 65535, 1]", "[128, 2, 1]", 126, None],
    ]


def test_every_value_is_stored_dropped_or_unread(tmp_path: Path) -> None:
    tables = {
        "StringIds": STRINGS,
        KERNEL: [kernel(i, i + 1, launchType=1, warpsLost=3 if i else None) for i in range(4)],
        CALL: [call(0, 1, 1, returnValue=0)],
        "SCHED_EVENTS": [{"start": 1, "cpu": 0}] * 5,
        "COMPOSITE_EVENTS": [{"start": 1, "cpu": 0, "cpuCycles": 7}] * 2,
    }
    log = perflog.read(write_tables(tmp_path / "k.sqlite", tables))
    shown = account(log)
    assert {shown[f"{KERNEL}.{name}"] for name in ("start", "end", "deviceId", "streamId", "demangledName")} == {
        (4, 0, 0)
    }
    assert shown[f"{KERNEL}.launchType"] == (0, 4, 0) and shown[f"{KERNEL}.shortName"] == (0, 4, 0)
    assert shown[f"{KERNEL}.warpsLost"] == (0, 0, 3)
    assert shown["SCHED_EVENTS.*"] == (0, 10, 0) and shown["COMPOSITE_EVENTS.*"] == (0, 0, 6)
    assert log.figure_account == {"total": 4 * 9 + 3 + 6 + 10 + 6, "stored": 33, "dropped": 19, "unread": 9}


def test_columns_are_counted_in_the_order_of_the_export(tmp_path: Path) -> None:
    """Columns that cannot be null are not read: they come first. The order is the same in every process."""
    path = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(path)) as file, file:
        names = [f"c{i}" for i in range(12)]
        file.execute(f"CREATE TABLE t ({', '.join(f'{n} INTEGER NOT NULL' for n in names)}, late, later)")
        file.execute(f"INSERT INTO t VALUES ({', '.join('1' for _ in names)}, NULL, 2)")
    with closing(Database(str(path), open_source(str(path)))) as database:
        assert list(database.counts_of_values("t").items()) == [*((n, 1) for n in names), ("late", 0), ("later", 1)]


@needs_corpus
def test_every_value_of_a_real_export() -> None:
    (path,) = (CORPUS / "nsys").glob("*.sqlite")
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
