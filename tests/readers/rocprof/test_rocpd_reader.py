"""rocpd databases: what is read of them, by queries of their own; schemas, merged files, what is damaged."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.nsys_files import Row, write_export, write_tables
from support.reading import proof_of
from support.rocpd_files import END, TEXT, RocpdProcess, sample_process, write_database
from support.rocprof_files import GEMM, PID, START

import perflog
from perflog.errors import InputError
from perflog.parsing.input.source import open_source
from perflog.readers.registry import find_reader
from perflog.readers.rocprof.rocpd_reader import RocpdReader


def rows(log: perflog.Log, table: str = "events") -> list[Row]:
    table_rows: list[Row] = log.arrow(table).to_pylist()
    return table_rows


def test_counts_are_those_of_the_tables(tmp_path: Path) -> None:
    path = write_database(tmp_path / "r_results.db")
    events = rows(perflog.read(path))
    with sqlite3.connect(path) as db:
        for table, kind in (("kernel_dispatch", "kernel"), ("memory_copy", "memcpy")):
            query = f'SELECT count(*), sum("end" - start) FROM rocpd_{table}{END}0'
            of_kind = [r for r in events if r["kind"] == kind]
            assert (len(of_kind), sum(r["duration_ns"] for r in of_kind)) == db.execute(query).fetchone()
    db.close()


def check(log: perflog.Log) -> None:
    events = rows(log)
    by_kind = {kind: [r for r in events if r["kind"] == kind] for kind in {r["kind"] for r in events}}
    assert [(r["name"], r["device"], r["stream"], r["step"], r["range"]) for r in by_kind["kernel"]] == [
        (GEMM, 0, 2, 5, "layer 1"), (GEMM, 1, 2, 5, None), (GEMM, 0, 2, None, "layer 9"),
    ]  # fmt: skip
    assert (by_kind["kernel"][0]["start_ns"], by_kind["kernel"][0]["duration_ns"]) == (START + 40, 300)
    copies = [(r["name"], r["device"], r["bytes"], r["correlation"], r["step"]) for r in by_kind["memcpy"]]
    assert copies == [("MEMORY_COPY_HOST_TO_DEVICE", 1, 4096, 12, 5)]
    calls = [(r["name"], r["category"], r["thread"], r["range"]) for r in by_kind["runtime"]]
    assert calls == [
        ("hipLaunchKernel", "HIP_RUNTIME_API", str(PID + 1), "layer 1"),
        ("hipLaunchKernel", "HIP_RUNTIME_API", str(PID + 1), None),
    ]
    assert [r["name"] for r in by_kind["range"]] == ["ProfilerStep#5", "layer 1"]
    assert [(r["name"], r["range"], r["duration_ns"]) for r in by_kind["mark"]] == [("loss", "layer 1", None)]
    assert [r["name"] for r in by_kind["library"]] == ["roctxProfilerPause"]
    assert [(r["name"], r["bytes"]) for r in by_kind[None]] == [("ALLOC", 512)]
    assert {r["process"] for r in events} == {str(PID)}
    assert log.line_account == {"total": 13, "read": 12, "context": 1, "unread": 0}
    (step,) = rows(log, "steps")
    assert (step["step"], step["step_time_s"]) == (5, 100e-9)
    (run,) = rows(log, "runs")
    assert (run["format"], run["device"], run["program"]) == ("rocpd_sqlite", "AMD Instinct MI300X", "./train --fast")
    assert json.loads(run["config"])["clock"] == "trace"


def test_what_becomes_of_each_row(tmp_path: Path) -> None:
    check(perflog.read(write_database(tmp_path / "r_results.db")))


def test_schema_4_tells_by_tracks_who_did_what(tmp_path: Path) -> None:
    tables = sample_process().named()
    tracks = [{"id": 1, "pid": PID, "tid": PID + 1, "agent_id": None, "queue_id": None, "stream_id": None}]
    for name in ("region", "kernel_dispatch", "memory_copy", "memory_allocate"):
        for row in tables[f"rocpd_{name}{END}"]:
            owner = {key: row.pop(key, None) for key in ("agent_id", "queue_id", "stream_id")}
            tracks.append({"id": len(tracks) + 1, "pid": PID, "tid": PID + 1} | owner)
            row["track_id"] = len(tracks)
            for key in ("nid", "pid", "tid"):
                del row[key]
    categories = [{"id": number + 50, "name": text} for text, number in TEXT.items()]
    for row in tables[f"rocpd_event{END}"]:
        row["category_id"] += 50
    check(
        perflog.read(
            write_tables(
                tmp_path / "r.db", tables | {f"rocpd_track{END}": tracks, f"rocpd_info_category{END}": categories}
            )
        )
    )


def test_views_show_nothing_twice(tmp_path: Path) -> None:
    path = write_database(tmp_path / "r.db")
    with sqlite3.connect(path) as db:
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_master")]
        for name in names:
            db.execute(f"CREATE VIEW `{name.removesuffix(END + '0')}` AS SELECT * FROM `{name}`")
    db.close()
    check(perflog.read(path))


def test_merged_processes_have_their_own_numbers(tmp_path: Path) -> None:
    other = RocpdProcess(77)
    other.range(0, 50, "other")
    other.call(20, 25, 11)
    other.kernel(40, 41, 11)
    log = perflog.read(write_database(tmp_path / "rank2.db", sample_process(), other))
    kernels = [(r["process"], r["step"], r["range"]) for r in rows(log) if r["kind"] == "kernel"]
    assert kernels[0] == (str(PID), 5, "layer 1") and kernels[3] == ("77", None, "other")
    assert [r["line"] for r in rows(log) if r["process"] == "77"] == [14, 15, 16]
    assert {(r["rank"], r["rank_by"]) for r in rows(log)} == {(2, "file")}


def test_what_is_missing_is_null(tmp_path: Path) -> None:
    """Tables without the end of their names, without events and without names."""
    path = write_tables(tmp_path / "r.db", {"rocpd_kernel_dispatch": [{"start": 4, "end": 9, "agent_id": 1}],
                                      "rocpd_region": [{"start": 1, "end": 2, "name_id": 1}]})  # fmt: skip
    events = rows(perflog.read(path))
    filled = [{k: v for k, v in row.items() if v is not None and k not in ("run", "line", "part")} for row in events]
    assert filled == [
        {"category": "region", "start_ns": 1, "duration_ns": 1},
        {"kind": "kernel", "category": "kernel_dispatch", "start_ns": 4, "duration_ns": 5},
    ]


def test_a_message_that_is_no_json(tmp_path: Path) -> None:
    process = sample_process()
    process.tables["event"][1]["extdata"] = "{torn"
    events = rows(perflog.read(write_database(tmp_path / "r.db", process)))
    assert Counter(r["kind"] for r in events)["kernel"] == 3
    assert [r["name"] for r in events if r["kind"] == "library"] == ["roctxThreadRangeA", "roctxProfilerPause"]


def test_packed_and_damaged_files(tmp_path: Path) -> None:
    big = sample_process()
    for i in range(3000):
        big.kernel(i, i + 1, 11)
    raw = write_database(tmp_path / "whole.db", big).read_bytes()
    (tmp_path / "packed.gz").write_bytes(gzip.compress(raw))
    assert perflog.read(tmp_path / "packed.gz").run_keys[0].id == perflog.read(tmp_path / "whole.db").run_keys[0].id
    (tmp_path / "torn.db").write_bytes(raw[: len(raw) // 2])
    with pytest.raises(InputError, match="damaged"):
        perflog.read(tmp_path / "torn.db")
    with pytest.raises(InputError, match="without kernels, copies or calls"):
        perflog.read(write_tables(tmp_path / "empty.db", {"rocpd_string_x": [{"id": 1, "string": "a"}]}))


def test_each_reader_takes_its_own(tmp_path: Path) -> None:
    for path, name in (
        (write_export(tmp_path / "n.sqlite"), "nsys_sqlite"),
        (write_database(tmp_path / "r.db"), "rocpd_sqlite"),
    ):
        with open_source(str(path)) as source:
            reader = find_reader(source)
        assert {reader.name if reader else None, rows(perflog.read(path), "runs")[0]["format"]} == {name}


def test_a_range_behind_calls_is_in_its_parent(tmp_path: Path) -> None:
    """The first pass reads ranges only: a row is told by its place among all rows, or it would be its own parent."""
    process = RocpdProcess()
    process.range(0, 100, "outer")
    for number in range(5):
        process.call(1 + number, 2 + number, 20 + number)
    process.range(10, 60, "ProfilerStep#5")
    process.range(20, 50, "inner")
    process.call(30, 31, 30)
    log = perflog.read(write_database(tmp_path / "r.db", process))
    ranges = [(r["line"], r["name"], r["range"], r["step"]) for r in rows(log) if r["kind"] == "range"]
    assert ranges == [(1, "outer", None, None), (7, "ProfilerStep#5", "outer", 5), (8, "inner", "outer", 5)]
    assert [(r["line"], r["step"]) for r in rows(log, "steps")] == [(7, 5)]


def test_counters_have_the_kernel_that_was_counted(tmp_path: Path) -> None:
    process = sample_process()
    first, second = (row["event_id"] for row in process.tables["kernel_dispatch"][:2])
    process.tables["info_pmc"] = [
        {"id": 4, "name": "SQ_WAVES", "symbol": "SQ_WAVES", "units": ""},
        {"id": 5, "name": "FETCH_SIZE", "symbol": "FETCH_SIZE:xcc=1", "units": "KiB"},
    ]
    process.tables["pmc_event"] = [
        {"id": 1, "event_id": first, "pmc_id": 4, "value": 64.0},
        {"id": 2, "event_id": first, "pmc_id": 5, "value": 12.5},
        {"id": 3, "event_id": second, "pmc_id": 4, "value": 8.0},
        {"id": 4, "event_id": process.tables["sample"][0]["event_id"], "pmc_id": 9, "value": 1.0},
    ]
    log = perflog.read(write_database(tmp_path / "r.db", process))
    columns = (
        "line",
        "name",
        "subject",
        "device",
        "process",
        "start_ns",
        "duration_ns",
        "correlation",
        "value",
        "unit",
    )
    who = (str(PID), START + 40, 300, 11)
    assert [tuple(r[c] for c in columns) for r in rows(log, "counters")] == [
        (13, "SQ_WAVES", GEMM, 0, *who, 64.0, None),
        (14, "FETCH_SIZE:xcc=1", GEMM, 0, *who, 12.5, "KiB"),
        (15, "SQ_WAVES", GEMM, 1, str(PID), START + 340, 5, 12, 8.0, None),
        (16, "9", None, None, str(PID), START + 15, None, 3, 1.0, None),
    ]
    assert Counter(r["kind"] for r in rows(log))["kernel"] == 3
    assert log.line_account == {"total": 16, "read": 15, "context": 1, "unread": 0}


def test_times_in_a_table_of_their_own(tmp_path: Path) -> None:
    """As the databases of ROCm 7.2 and newer have them."""
    tables = sample_process().named(END + "0")
    times: list[Row] = []

    def time(value: int) -> int:
        times.append({"id": len(times) + 1, "value": value})
        return len(times)

    for rows_of_table in tables.values():
        for row in rows_of_table:
            for name in ("start", "end", "timestamp"):
                if name in row:
                    row[f"{name}_id"] = time(row.pop(name))
    check(perflog.read(write_tables(tmp_path / "r.db", tables | {f"rocpd_timestamp{END}0": times})))


def test_databases_of_the_ranks_of_a_job_are_one_run(tmp_path: Path) -> None:
    """A database that `rocpd merge` has made of them is no rank: its steps have their processes."""
    for rank in (0, 1):
        write_database(tmp_path / f"rank{rank}_results.db", sample_process(70 + rank))
    log = perflog.read(tmp_path)
    (run,) = rows(log, "runs")
    assert [file["rank"] for file in json.loads(run["config"])["files"]] == [0, 1]
    assert [(r["rank"], r["step"], r["source"]) for r in rows(log, "steps")] == [(0, 5, None), (1, 5, None)]
    merged = write_database(tmp_path / "merged.db", sample_process(70), sample_process(71))
    assert [r["source"] for r in rows(perflog.read(merged), "steps")] == ["process 70", "process 71"]
    with open_source(str(merged)) as source:
        assert RocpdReader().rank_info(source) is None


def test_merged_nodes_number_their_devices_from_0(tmp_path: Path) -> None:
    """Device 0 of two nodes: one is busy for all of the time, the other for a tenth."""
    processes = [RocpdProcess(70), RocpdProcess(80)]
    for process, host, lengths in zip(processes, ("node7", "node8"), ((0, 100), (90, 100)), strict=True):
        process.tables["info_node"] = [{"id": 1, "hostname": host}]
        process.kernel(*lengths, 11)
    processes[1].kernel(0, 0, 12)
    log = perflog.read(write_database(tmp_path / "r.db", *processes))
    table = perflog.metrics.device_time(log)
    assert table["device"].tolist() == [0, 0]
    assert table["device_name"].tolist() == ["AMD Instinct MI300X of node7", "AMD Instinct MI300X of node8"]
    assert (table["busy_s"] * 1e9).round().tolist() == [100, 10]


# --- sizes and the account of figures ---------------------------------------------------------------------------------


def test_sizes_of_kernels_and_every_value(tmp_path: Path) -> None:
    process = RocpdProcess()
    sizes: dict[str, Any] = {"grid_size_x": 2048, "grid_size_y": 70000, "grid_size_z": 1}
    sizes |= {"workgroup_size_x": 256, "workgroup_size_y": 1, "workgroup_size_z": 1, "group_segment_size": 4096}
    process.kernel(40, 340, 11, **sizes, private_segment_size=16, odd=5)
    process.kernel(340, 345, 12, **sizes | {"grid_size_x": None}, private_segment_size=16, odd=None)
    path = write_database(tmp_path / "k.db", process)
    log = perflog.read(path)
    sizes_read = log.arrow("events").select(["grid", "block", "shared_bytes"]).to_pylist()
    whole, other = ([*row.values()] for row in sizes_read)
    assert (whole, other) == (["[2048, 70000, 1]", "[256, 1, 1]", 4096], [None, "[256, 1, 1]", 4096])
    names = ("figures_stored", "figures_dropped", "figures_unread")
    shown = {r["shape"]: [r[n] for n in names] for r in log.arrow("lines").to_pylist() if r[names[0]] is not None}
    with sqlite3.connect(path) as db:
        table = f"rocpd_kernel_dispatch{END}0"
        columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
        counts = db.execute(f"SELECT {', '.join(f'count({column})' for column in columns)} FROM {table}").fetchone()
    assert {name: sum(figures) for name, figures in shown.items()} == {
        f"kernel_dispatch.{column}": count for column, count in zip(columns, counts, strict=True)
    }
    assert (shown["kernel_dispatch.odd"], shown["kernel_dispatch.private_segment_size"]) == ([0, 0, 1], [0, 2, 0])
    assert shown["kernel_dispatch.grid_size_x"] == [1, 0, 0] and shown["kernel_dispatch.start"] == [2, 0, 0]
    assert log.figure_account["unread"] == 1
    reasons = {r["shape"]: bool(r["dropped_because"]) for r in log.arrow("lines").to_pylist()}
    assert reasons["kernel_dispatch.private_segment_size"] and not reasons["kernel_dispatch.odd"]


def test_the_proof_is_the_first_row_of_each_table(tmp_path: Path) -> None:
    other = RocpdProcess(77)
    other.call(20, 25, 11)
    path = write_database(tmp_path / "r.db", sample_process(), other)
    log = perflog.read(path)
    proof = proof_of(path)
    first = {r["line"] for r in rows(log) if r["kind"] == "kernel" or r["process"] == "77"}
    assert {min(first), 14} <= {place for place, _, _ in proof}
    assert (13, "pmc_event", "1 rows") in proof  # a reading of a counter is a row too
    assert sum(int(text.removesuffix(" rows")) for _, _, text in proof) == log.line_account["total"]
    assert [place for place, _, _ in proof] == sorted({place for place, _, _ in proof})
