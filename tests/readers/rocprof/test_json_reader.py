"""JSON of rocprofv3: what is read of it, by a count of its own; other versions, several processes, what is damaged."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.reading import proof_of
from support.rocprof_files import (
    AGENTS,
    GEMM,
    KIND,
    OPERATIONS,
    PID,
    START,
    Row,
    kernel,
    record,
    sample_process,
    write_output,
)

import perflog
from perflog.errors import InputError
from perflog.parsing.input.source import open_source
from perflog.readers.events.event_columns import KIND_CODE
from perflog.readers.events.string_interning import StringInterner
from perflog.readers.registry import find_reader
from perflog.readers.rocprof import events
from perflog.readers.rocprof.json_reader import _fill_external_ranges


def rows(log: perflog.Log, table: str = "events") -> list[Row]:
    table_rows: list[Row] = log.arrow(table).to_pylist()
    return table_rows


def counted(path: Path) -> dict[str, tuple[int, int, Counter[Any]]]:
    """Of each array with times: records, nanoseconds, and the kernels' names, by plain JSON."""
    out = {}
    for output in json.loads(path.read_text())["rocprofiler-sdk-tool"]:
        names = {s["kernel_id"]: s.get("formatted_kernel_name", s.get("demangled_kernel_name"))
                 for s in output["kernel_symbols"]}  # fmt: skip
        for array, records in output["buffer_records"].items():
            timed = [r for r in records if "start_timestamp" in r]
            length = sum(r["end_timestamp"] - r["start_timestamp"] for r in timed)
            kernels = Counter(names.get(r["dispatch_info"]["kernel_id"]) for r in timed if "dispatch_info" in r)
            out[array] = len(timed), length, kernels
    return out


def test_counts_are_those_of_the_json(tmp_path: Path) -> None:
    path = write_output(tmp_path / "r_results.json")
    counts, events = counted(path), rows(perflog.read(path))
    for array, kind in (("kernel_dispatch", "kernel"), ("memory_copy", "memcpy")):
        of_kind = [r for r in events if r["kind"] == kind]
        assert (len(of_kind), sum(r["duration_ns"] for r in of_kind)) == counts[array][:2]
    assert Counter(r["name"] for r in events if r["kind"] == "kernel") == counts["kernel_dispatch"][2]
    calls = [r for r in events if r["kind"] == "runtime"]
    assert len(calls) == counts["hip_api"][0] + counts["hsa_api"][0]
    assert len(events) == sum(count for count, _, _ in counts.values())


def test_what_becomes_of_each_record(tmp_path: Path) -> None:
    log = perflog.read(write_output(tmp_path / "r_results.json"))
    events = rows(log)
    assert [r["line"] for r in events] == list(range(1, len(events) + 1))
    by_kind = {kind: [r for r in events if r["kind"] == kind] for kind in {r["kind"] for r in events}}
    assert [(r["name"], r["device"], r["stream"], r["step"], r["range"]) for r in by_kind["kernel"]] == [
        (GEMM, 0, 2, 5, "layer 1"), ("ncclDevKernel_Generic", 1, 2, 5, None), (None, 0, 2, None, None),
    ]  # fmt: skip
    assert by_kind["kernel"][0]["start_ns"] == START + 40 and by_kind["kernel"][0]["duration_ns"] == 300
    copies = [(r["name"], r["device"], r["bytes"], r["correlation"]) for r in by_kind["memcpy"]]
    assert copies == [("MEMORY_COPY_HOST_TO_DEVICE", 1, 4096, 13), ("MEMORY_COPY_HOST_TO_DEVICE", 0, 16, 13)]
    calls = [(r["name"], r["category"], r["thread"], r["range"]) for r in by_kind["runtime"]]
    assert calls[0] == ("hipLaunchKernel", "HIP_RUNTIME_API", "4101", "layer 1")
    assert calls[3] == ("hsa_init", "HSA_CORE_API", "4101", None)
    assert [(r["name"], r["range"], r["duration_ns"]) for r in by_kind["mark"]] == [("loss", "layer 1", None)]
    assert [r["name"] for r in by_kind["range"]] == ["ProfilerStep#5", "layer 1"]
    assert [r["name"] for r in by_kind["library"]] == ["roctxProfilerPause", "ncclAllReduce"]
    assert [(r["name"], r["bytes"]) for r in by_kind[None]] == [("MEMORY_ALLOCATION_ALLOCATE", 512)]
    assert {r["process"] for r in events} == {str(PID)} and {r["external"] for r in events} == {None}
    assert log.line_account == {"total": 18, "read": 15, "context": 3, "unread": 0}
    (step,) = rows(log, "steps")
    assert (step["step"], step["step_time_s"]) == (5, 100e-9)


def test_the_run(tmp_path: Path) -> None:
    (run,) = rows(perflog.read(write_output(tmp_path / "rank3_results.json")), "runs")
    assert (run["format"], run["device"], run["program"]) == ("rocprofv3_json", "AMD Instinct MI300X", "./train --fast")
    config = json.loads(run["config"])
    (process_config,) = config["files"][0]["processes"]
    assert config["clock"] == "trace" and config["files"][0]["rank"] == 3 and process_config["pid"] == PID
    assert [(d["device"], d["node_id"]) for d in process_config["devices"]] == [(0, 1), (1, 2)]


def test_processes_have_their_own_numbers(tmp_path: Path) -> None:
    other = sample_process(
        metadata={"pid": 77},
        strings={"buffer_records": OPERATIONS, "marker_api": {"1": "other", "2": "inner"}},
        kernel_symbols=[{"kernel_id": 7, "truncated_kernel_name": "theirs"}],
    )
    events = rows(perflog.read(write_output(tmp_path / "r_results.json", sample_process(), other)))
    kernels = [(r["process"], r["name"], r["step"], r["range"]) for r in events if r["kind"] == "kernel"]
    assert kernels[0] == (str(PID), GEMM, 5, "layer 1")
    assert kernels[3] == ("77", "theirs", None, "inner")
    assert [r["line"] for r in events if r["kind"] == "range"] == [1, 2, 19, 20]


def test_ranks_are_one_run(tmp_path: Path) -> None:
    names = [str(write_output(tmp_path / f"rank{n}_results.json", sample_process(metadata={"pid": n}))) for n in (0, 1)]
    log = perflog.read(str(tmp_path / "rank{0,1}_results.json"))
    assert {(r["part"], r["rank"], r["process"]) for r in rows(log)} == {(0, 0, "0"), (1, 1, "1")}
    assert [f["name"] for f in json.loads(rows(log, "runs")[0]["config"])["files"]] == [Path(n).name for n in names]


def test_another_shape_of_the_same(tmp_path: Path) -> None:
    """One process that is not in a list, handles without objects, no names, no streams: what is there is read."""
    bare = kernel(5, 9, 0, thread_id=1 << 63, stream_id=None)
    bare["dispatch_info"] |= {"agent_id": 91, "queue_id": {"handle": 2**64 - 16}}
    del bare["correlation_id"]
    unended = kernel(9, 0, 3, end_timestamp=0)
    output = {
        "agents": AGENTS[:2],
        "kernel_symbols": {"a": {"kernel_id": 7, "kernel_name": "_Z4gemm"}},
        "buffer_records": {"kernel_dispatch": [bare, unended], "hip_api": {}, "new_thing": [{"x": 1}]},
    }
    path = tmp_path / "r.json"
    path.write_text("\ufeff\n" + json.dumps({"rocprofiler-sdk-tool": output}), "utf-8")
    log = perflog.read(path)
    first, second = rows(log)
    assert (first["name"], first["device"], first["stream"], first["thread"]) == ("_Z4gemm", None, None, None)
    assert (first["correlation"], first["category"], first["process"]) == (None, "kernel_dispatch", None)
    assert (second["correlation"], second["duration_ns"]) == (3, None)
    assert log.line_account == {"total": 3, "read": 2, "context": 1, "unread": 0}


def test_kernels_named_by_their_range_lie_in_it(tmp_path: Path) -> None:
    output = sample_process(
        buffer_records={"kernel_dispatch": [kernel(1, 2, 5, correlation_id={"internal": 5, "external": 600})]}
    )
    output["strings"]["correlation_id"]["external"] = [{"key": 600, "value": "layer 9"}]
    (row,) = rows(perflog.read(write_output(tmp_path / "r.json", output)))
    assert (row["name"], row["range"], row["external"]) == (GEMM, "layer 9", 600)


def test_more_records_than_become_rows_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "BATCH", 200)
    count = 2 * 200 + 10
    output = sample_process(
        buffer_records={
            "kernel_dispatch": [kernel(i, i + 2, count - i) for i in range(count)],
            "hip_api": [record("HIP_RUNTIME_API", 1, i, i + 1, i) for i in range(count)],
            "marker_api": [record("MARKER_CORE_RANGE_API", 1, 10, 20, 2)],
        }
    )
    found = rows(perflog.read(write_output(tmp_path / "r.json", output)))
    assert Counter(r["kind"] for r in found) == {"kernel": count, "runtime": count, "range": 1}
    assert {r["correlation"] for r in found if r["kind"] == "kernel" and r["range"]} == set(range(10, 20))


def test_a_damaged_record_costs_no_other(tmp_path: Path) -> None:
    records = [kernel(1, 2, 5), "?", {"dispatch_info": 7}, kernel(3, 4, 5)]
    output = sample_process(buffer_records={"kernel_dispatch": records})
    log = perflog.read(write_output(tmp_path / "r.json", output))
    assert [r["line"] for r in rows(log)] == [1, 4]
    assert log.line_account == {"total": 4, "read": 2, "context": 0, "unread": 2}


def test_names_that_are_no_utf8(tmp_path: Path) -> None:
    raw = write_output(tmp_path / "whole.json").read_bytes().replace(b"void gemm", b"void\x8dgemm")
    (tmp_path / "r.json").write_bytes(raw)
    names = {r["name"] for r in rows(perflog.read(tmp_path / "r.json"))}
    assert GEMM.replace("void gemm", "void\ufffdgemm") in names


def test_packed_and_damaged_files(tmp_path: Path) -> None:
    path = write_output(tmp_path / "r.json")
    raw = path.read_bytes()
    (tmp_path / "packed.gz").write_bytes(gzip.compress(raw))
    assert perflog.read(tmp_path / "packed.gz").run_keys[0].id == perflog.read(path).run_keys[0].id
    for name, text in (("torn", raw[: len(raw) // 2]), ("spoilt", raw.replace(b'"agents":', b'"agents"'))):
        (tmp_path / name).write_bytes(text)
        with pytest.raises(InputError, match="damaged"):
            perflog.read(tmp_path / name)
    with pytest.raises(InputError, match="no records"):
        perflog.read(write_output(tmp_path / "empty.json", sample_process(buffer_records={})))
    (tmp_path / "list.json").write_text('{"rocprofiler-sdk-tool": []}')
    with pytest.raises(InputError, match="no records"):
        perflog.read(tmp_path / "list.json")


def test_each_reader_takes_its_own(tmp_path: Path) -> None:
    event = {"ph": "X", "ts": 1, "dur": 2, "pid": 1, "tid": 1, "cat": "kernel", "name": "rocprofiler-sdk-tool"}
    trace = {"schemaVersion": 1, "said": {"rocprofiler-sdk-tool": [sample_process()]}, "traceEvents": [event]}
    (tmp_path / "trace.json").write_text(json.dumps(trace))
    ours = write_output(tmp_path / "r.json", sample_process(metadata={"traceEvents": [event]}))
    for path, name in ((tmp_path / "trace.json", "chrome_trace"), (ours, "rocprofv3_json")):
        with open_source(str(path)) as source:
            reader = find_reader(source)
        assert {reader.name if reader else None, rows(perflog.read(path), "runs")[0]["format"]} == {name}
    (tmp_path / "other.json").write_text('{"rocprofiler": [1]}\n')
    with open_source(str(tmp_path / "other.json")) as source:
        assert find_reader(source) is None


def test_kernels_of_counters_count_where_there_are_no_others(tmp_path: Path) -> None:
    inner = {key: value for key, value in kernel(1, 4, 5).items() if key not in ("kind", "operation", "thread_id")}
    counters = {"counter_collection": [{"thread_id": 9, "dispatch_data": inner, "records": [{"value": 1.0}]}]}
    output = sample_process(buffer_records={"kernel_dispatch": []}, callback_records=counters)
    log = perflog.read(write_output(tmp_path / "r.json", output))
    (row,) = rows(log)
    assert (row["kind"], row["name"], row["device"], row["duration_ns"]) == ("kernel", GEMM, 0, 3)
    assert log.line_account == {"total": 1, "read": 1, "context": 0, "unread": 0}
    log = perflog.read(write_output(tmp_path / "both.json", sample_process(callback_records=counters)))
    assert log.line_account == {"total": 19, "read": 16, "context": 3, "unread": 0}


def test_only_work_of_a_device_has_the_name_of_one(tmp_path: Path) -> None:
    events = rows(perflog.read(write_output(tmp_path / "r.json", sample_process())))
    assert {(row["device"] is None, row["device_name"] is None) for row in events} == {(True, True), (False, False)}


def test_markers_of_older_versions(tmp_path: Path) -> None:
    """Before ranges had a kind of their own, pushing one was an operation among others."""
    kinds = [*OPERATIONS, {"kind": "MARKER_CORE_API", "operations": ["roctxMarkA", "roctxRangePushA"]}]
    old = {"kind": len(KIND)}
    markers = [record("NONE", 1, 0, 9, 1) | old, record("NONE", 0, 4, 4, 3) | old]
    output = sample_process(buffer_records={"marker_api": markers, "kernel_dispatch": []})
    output["strings"]["buffer_records"] = kinds
    events = rows(perflog.read(write_output(tmp_path / "r.json", output)))
    assert [(r["kind"], r["name"]) for r in events] == [("range", "ProfilerStep#5"), ("mark", "loss")]


def test_counters_are_figures_and_no_kernels(tmp_path: Path) -> None:
    """Three kernels with two counters each are three kernels and six readings."""
    names = [{"id": {"handle": 333}, "name": "SQ_WAVES"}, {"id": {"handle": 334}, "name": "VALUBusy"}]
    collected = [
        {
            "thread_id": 9,
            "dispatch_data": {k: v for k, v in kernel(10 * n, 10 * n + 4, n + 1).items() if k != "kind"},
            "records": [
                {"counter_id": {"handle": 333}, "value": 64},
                {"counter_id": {"handle": 334}, "value": 0.5 * n},
            ],
        }
        for n in range(3)
    ]
    more = {"counters": names, "callback_records": {"counter_collection": collected}}
    output = sample_process(buffer_records={"kernel_dispatch": []}, **more)
    log = perflog.read(write_output(tmp_path / "r.json", output))
    assert [(r["kind"], r["duration_ns"]) for r in rows(log)] == [("kernel", 4)] * 3
    columns = ("line", "name", "subject", "device", "start_ns", "duration_ns", "correlation", "value")
    assert [tuple(r[c] for c in columns) for r in rows(log, "counters")] == [
        (n + 1, name, GEMM, 0, START + 10 * n, 4, n + 1, value)
        for n in range(3)
        for name, value in (("SQ_WAVES", 64.0), ("VALUBusy", 0.5 * n))
    ]
    assert log.line_account == {"total": 3, "read": 3, "context": 0, "unread": 0}
    log = perflog.read(write_output(tmp_path / "both.json", sample_process(**more)))
    assert Counter(r["kind"] for r in rows(log))["kernel"] == 3 and len(rows(log, "counters")) == 6


def test_sizes_of_kernels_and_every_field(tmp_path: Path) -> None:
    output = sample_process()
    for row in output["buffer_records"]["kernel_dispatch"][:2]:
        row["dispatch_info"] |= {"grid_size": {"x": 2048, "y": 70000, "z": 1}, "group_segment_size": 4096, "odd": 1}
    path = write_output(tmp_path / "o.json", output)
    log = perflog.read(path)
    kernels = [r for r in log.arrow("events").to_pylist() if r["kind"] == "kernel"]
    assert [(r["grid"], r["block"], r["shared_bytes"]) for r in kernels] == [
        *[("[2048, 70000, 1]", "[256, 1, 1]", 4096)] * 2, (None, "[256, 1, 1]", None),
    ]  # fmt: skip
    names = ("figures_stored", "figures_dropped", "figures_unread")
    shown = {r["shape"]: [r[n] for n in names] for r in log.arrow("lines").to_pylist() if r[names[0]] is not None}
    assert shown["kernel_dispatch.grid_size"] == [2, 0, 0] and shown["kernel_dispatch.size"] == [0, 6, 0]
    assert shown["kernel_dispatch.odd"] == [0, 0, 2] and shown["memory_copy.bytes"] == [2, 0, 0]
    keys = Counter[str]()
    for array, records in output["buffer_records"].items():
        for name in re.findall(r'"(\w+)":', json.dumps(records)):
            keys[f"{array}.{name}"] += 1
    structure = {"handle", "correlation_id", "dispatch_info", "record", "x", "y", "z"}
    assert {name: sum(figures) for name, figures in shown.items()} == {
        name: count for name, count in keys.items() if name.partition(".")[2] not in structure
    }


@pytest.mark.parametrize("odd", [[{"handle": 90}], [90], {}, "90", 1.5, None])
def test_an_odd_device_is_unknown(tmp_path: Path, odd: Any) -> None:
    process = sample_process()
    process["buffer_records"]["kernel_dispatch"][0]["dispatch_info"]["agent_id"] = {"handle": odd}
    events = rows(perflog.read(write_output(tmp_path / "a.json", process)))
    devices = [row["device"] for row in events if row["kind"] == "kernel"]
    assert len(devices) == 3 and devices.count(None) == 1


def test_a_device_may_be_named_by_a_number(tmp_path: Path) -> None:
    process = sample_process()
    for agent in process["agents"]:
        agent |= {"product_name": 5}
    assert perflog.read(write_output(tmp_path / "a.json", process)).arrow("runs")["device"].to_pylist() == ["5"]


def test_the_proof_is_the_first_record_of_each_array(tmp_path: Path) -> None:
    path = write_output(tmp_path / "r_results.json")
    proof, log = proof_of(path), perflog.read(path)
    kernels = [r["line"] for r in rows(log) if r["kind"] == "kernel"]
    assert (min(kernels), "kernel_dispatch", f"{len(kernels)} records") in proof
    assert [place for place, _, _ in proof] == sorted({place for place, _, _ in proof})
    assert sum(int(text.removesuffix(" records")) for _, _, text in proof) == log.line_account["total"]


def test_a_kernel_has_the_range_of_its_launch_unless_one_is_known() -> None:
    names = StringInterner()
    first = names.code("known")
    kind = KIND_CODE["kernel"]
    rows = {
        "kind": np.array([kind, kind, KIND_CODE["memcpy"], kind]), "range": np.array([first, -1, -1, -1]),
        "external": np.array([5, 5, 5, 6]),
    }  # fmt: skip
    symbols: Any = SimpleNamespace(regions={5: "launch"})
    found = _fill_external_ranges(rows, symbols, names)["range"].tolist()
    assert found == [first, names.code("launch"), -1, -1]


def test_numbers_of_handles_and_values() -> None:
    """A handle without a number has none, and comes before those behind it."""
    handles = [(None, 5), (events.Handle(7), 5), (events.Handle(None), 5), (0, 5), (None, None), ()]
    assert [events._first_number(*each) for each in handles] == [5, 7, None, 0, None, None]
    values = [events._real(value) for value in (3, 2.5, True, "2", None)]
    assert values[:2] == [3.0, 2.5] and all(value != value for value in values[2:])
