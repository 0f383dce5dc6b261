"""Chrome traces that hold several processes: each event has the step, range and rank of its own process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import perflog
from perflog.metrics import device_time
from perflog.parsing.input.rank_names import MAX_RANK
from perflog.readers.chrome.metadata import (
    TraceHeader,
    base_time_ns,
    device_names,
    distributed_info_in,
    parse_header,
    parse_trailer,
    rank_info,
    without_rank,
    world_size,
)
from perflog.readers.interface import RankInfo
from perflog.readers.processes import merged_labels, process_label

Row = dict[str, Any]


def x(name: str, cat: str, pid: Any, ts: float, dur: float, tid: Any = 1, **args: Any) -> Row:
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def of_rank(label: str, host: int, start: float) -> list[Row]:
    """A step of 100 us of one rank: its kernel runs for half of it. All ranks count calls from 1."""
    return [
        x("ProfilerStep#1", "user_annotation", f"{label}{host}", start, 100),
        x(f"part of {label}", "user_annotation", f"{label}{host}", start + 5, 20),
        x("cudaLaunchKernel", "cuda_runtime", f"{label}{host}", start + 10, 2, correlation=1),
        x("sgemm", "kernel", f"{label}0", start + 40, 50, 7, device=0, stream=7, correlation=1),
    ]


def merged(path: Path, labels: tuple[str, str]) -> perflog.Log:
    events = [*of_rank(labels[0], 4242, 1000), *of_rank(labels[1], 4343, 1100)]
    info = {"rank": 0, "world_size": 2}  # of the first rank: tools keep what the first file says
    path.write_text(json.dumps({"distributedInfo": info, "traceEvents": events}))
    return perflog.read(path)


@pytest.mark.parametrize(
    ("labels", "ranks"),
    [(("[TP00] ", "[TP01] "), (None, None)), (("rank0_", "rank1_"), (0, 1)), (("[Rank 3] ", "[Rank 5] "), (3, 5))],
)
def test_a_merged_trace(tmp_path: Path, labels: tuple[str, str], ranks: tuple[int | None, int | None]) -> None:
    log = merged(tmp_path / "merged.json", labels)
    kernels = [r for r in log.arrow("events").to_pylist() if r["kind"] == "kernel"]
    assert [(r["rank"], r["step"], r["range"], r["correlation"]) for r in kernels] == [
        (rank, 1, f"part of {label}", 1) for rank, label in zip(ranks, labels, strict=True)
    ]
    assert {r["rank_by"] for r in kernels} == ({None} if ranks[0] is None else {"process"})
    steps = log.arrow("steps").select(["rank", "step", "step_time_s"]).to_pylist()
    assert [(r["rank"], r["step_time_s"]) for r in steps] == [(rank, 100e-6) for rank in ranks]
    table = device_time(log)
    in_steps = table[table["part"] == "step"]
    assert (in_steps["busy_s"] / in_steps["span_s"]).round(12).tolist() == [0.5, 0.5]


def test_ranks_in_the_names_of_processes(tmp_path: Path) -> None:
    """Numbers alone as process: metadata names the rank of each."""
    events: list[Row] = []
    for rank, (host, device) in enumerate(((1, 2), (3, 4))):
        for pid, kind in ((host, "python"), (device, "GPU 0")):
            name = {"name": f"rank {rank} {kind}"}
            events.append({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": name})
        events.append(x("k", "kernel", device, 10, 5, device=0, stream=7))
        events.append(x("op", "cpu_op", host, 5, 5))
    path = tmp_path / "t.json"
    path.write_text(json.dumps(events))
    rows = perflog.read(path).arrow("events").select(["name", "rank", "rank_by"]).to_pylist()
    assert [(r["name"], r["rank"], r["rank_by"]) for r in rows] == [
        ("k", 0, "process"), ("op", 0, "process"), ("k", 1, "process"), ("op", 1, "process"),
    ]  # fmt: skip


def test_labels() -> None:
    processes = ("[TP00-DP01] 12", "rank3_0", "Rank 1 - 99", "[TP00] Spans", "4242", "Spans")
    assert [process_label(p) for p in processes] == ["[TP00-DP01]", "rank3", "Rank 1", "[TP00]", "", ""]
    assert merged_labels(["Process 1", "Process 2", "3"]) == {}  # one label is no merge


# --- the functions ----------------------------------------------------------------------------------------------------

EVENT = b'{"ph": "X", "ts": 1}'


@pytest.mark.parametrize(
    ("head", "first", "metadata", "wrapped"),
    [
        (b"[" + EVENT, 1, {}, False), (b"\xef\xbb\xbf [ \n" + EVENT + b", ", 7, {}, False),
        (b'[{"ph": "M"}]', 1, {}, False), (b'{"a": 1, "traceEvents": [', 25, {"a": 1}, True),
        (b'{"traceEvents" : [', 18, {}, True),
        (b'{"n": {"traceEvents": [7]}, "traceEvents": [', 44, {"n": {"traceEvents": [7]}}, True),
    ],
)  # fmt: skip
def test_the_head_of_a_trace(head: bytes, first: int, metadata: Row, wrapped: bool) -> None:
    assert parse_header(head) == TraceHeader(first, metadata, wrapped)


@pytest.mark.parametrize(
    "head",
    [b"[", b"[7", b'[{"ph": "XX", "ts": 1}]', b'[{"ph": "X"}]', b'[{"ts": 1}]', b'[{"ph": 5, "ts": 1}]', b"[{", b"{",
     b"x", b'{"a": [', b'{"a" "traceEvents": [', b'x{"traceEvents": ['],
)  # fmt: skip
def test_other_heads(head: bytes) -> None:
    assert parse_header(head) is None


def test_metadata_after_the_events() -> None:
    assert parse_trailer(b', "a": 1}') == {"a": 1} and parse_trailer(b"}") == {}
    assert parse_trailer(b', "a"') is parse_trailer(b"]") is None
    assert distributed_info_in(b'..."distributedInfo" : {"rank": 3}, ...') == {"distributedInfo": {"rank": 3}}
    assert distributed_info_in(b'"distributedInfo": {x, "distributedInfo": {"rank": 4}') == {
        "distributedInfo": {"rank": 4}
    }
    assert distributed_info_in(b'"distributedInfo": {"rank": 3') == distributed_info_in(b"") == {}


@pytest.mark.parametrize(
    ("job", "rank", "size"),
    [
        ({"rank": 3, "world_size": 8}, 3, "8"), ({"rank": "3"}, 3, None), ({"rank": 0}, 0, None), ({}, None, None),
        ({"rank": -1}, None, None), ({"rank": True}, None, None), ({"rank": "a"}, None, None), ("x", None, None),
        ({"rank": MAX_RANK}, MAX_RANK, None), ({"rank": MAX_RANK + 1}, None, None), ({"rank": 1.0}, None, None),
    ],
)  # fmt: skip
def test_the_rank_of_a_trace(job: Any, rank: int | None, size: str | None) -> None:
    assert rank_info({"distributedInfo": job}) == RankInfo(rank, size)
    assert rank_info({}) == RankInfo()


def test_metadata_without_the_rank() -> None:
    given = {"a": 1, "distributedInfo": {"rank": 3, "world_size": 8}}
    assert without_rank(given) == {"a": 1, "distributedInfo": {"world_size": 8}}
    assert given["distributedInfo"] == {"rank": 3, "world_size": 8}
    assert without_rank({"distributedInfo": 5}) == {"distributedInfo": 5}


def test_the_clock_the_size_of_the_job_and_the_devices() -> None:
    assert [base_time_ns({"baseTimeNanoseconds": base}) for base in (7, "8", "x", None)] == [7, 8, 0, 0]
    jobs: tuple[Any, ...] = ({"world_size": 8}, {"world_size": "4"}, {}, 5, None)
    assert [world_size({"distributedInfo": job}) for job in jobs] == [8, 4, None, None, None]
    devices = [{"name": "A100"}, 5, {"name": 7}, {}, {"name": "T4"}]
    assert list(device_names({"deviceProperties": devices})) == ["A100", "T4"]
    assert list(device_names({"deviceProperties": 5})) == list(device_names({})) == []
