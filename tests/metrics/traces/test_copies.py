"""Copies of traces: directions, bandwidths and exposed times, against the events themselves."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.field_logs import CORPUS, needs_corpus
from support.trace_tables import in_ns, small

import perflog
from perflog.metrics import copies
from perflog.metrics.traces.copies import way_of


def event(cat: str, name: str, start: float, length: float, stream: int = 7, **args: Any) -> dict[str, Any]:
    given = {"device": 0, "stream": stream} | args
    return {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": stream, "ts": start, "dur": length, "args": given}


def trace(path: Path, *events: dict[str, Any]) -> perflog.Log:
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return perflog.read(path)


def test_copies_by_direction_and_memory(tmp_path: Path) -> None:
    """Two copies of 4 MB in 1 ms and 3 ms: 2 GB/s; half a millisecond of them is beside a kernel."""
    pinned, pageable = "Memcpy HtoD (Pinned -> Device)", "Memcpy DtoH (Device -> Pageable)"
    log = trace(
        tmp_path / "a.json",
        event("gpu_memcpy", pinned, 0, 1000, bytes=4_000_000),
        event("gpu_memcpy", pinned, 2000, 3000, bytes=4_000_000),
        event("gpu_memcpy", pageable, 6000, 100),
        event("gpu_memset", "Memset (Device)", 6500, 100, bytes=64),
        event("kernel", "gemm", 4500, 1000, stream=8),
        event("kernel", "gemm", 9000, 1000, stream=8),
    )
    first, second = copies(log).to_dict("records")
    assert (first["direction"], first["memory"], first["calls"]) == ("host to device", "pinned", 2)
    assert (first["bytes"], first["bandwidth"]) == (8_000_000, pytest.approx(2.0))
    assert (first["time_s"], first["exposed_s"], first["share"]) == pytest.approx((4e-3, 3.5e-3, 0.35))
    assert (second["direction"], second["memory"], second["time_s"]) == ("device to host", "pageable", 1e-4)
    assert copies(log)["bandwidth"].isna().tolist() == [False, True]


def test_the_overview_tells_the_bandwidth_of_copies(tmp_path: Path) -> None:
    log = trace(
        tmp_path / "a.json",
        event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 0, 9000, bytes=18_000_000),
        event("kernel", "gemm", 9000, 1000),
    )
    assert any("1 call x 9 ms at 2 GB/s" in text for text in perflog.overview(log).reasons)


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("Memcpy HtoD (Pinned -> Device)", ("host to device", "pinned")),
        ("Memcpy DtoD (Device -> Device)", ("device to device", None)),
        ("Memcpy PtoP (Device -> Device)", ("peer to peer", None)),
        ("Memcpy DtoA (Device -> Array)", ("device to array", None)),
        ("Memcpy Host-to-Device", ("host to device", None)),
        ("Memcpy Device-to-Host (Device -> Pinned)", ("device to host", "pinned")),
        ("Memcpy Peer-to-Peer (Device 0 -> Device 1)", ("peer to peer", None)),
        ("[CUDA memcpy DtoH]", ("device to host", None)),
        ("MEMORY_COPY_DEVICE_TO_HOST", ("device to host", None)),
        ("CopyHostToDevice", ("host to device", None)),
        ("Memory decompression", ("Memory decompression", None)),
        ("photo_copy", ("photo_copy", None)),
    ],
)
def test_the_way_of_a_copy(name: str, way: tuple[str, str | None]) -> None:
    assert way_of(name) == way


@needs_corpus
@pytest.mark.parametrize("rank", [0, 1])
def test_every_copy_of_a_real_trace(rank: int) -> None:
    (path,) = (CORPUS / "torchtrace").glob(f"*rank-{rank}.json.gz")
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    calls, sizes, times = Counter[str](), Counter[str](), Counter[str]()
    for one in events:
        if one.get("cat") == "gpu_memcpy":
            name = one["name"]
            calls[name] += 1
            sizes[name] += one["args"]["bytes"]
            times[name] += round(one["dur"] * 1000)
    table = copies(perflog.read(path))
    found = {(row["direction"], row["memory"]): row for row in table.astype(object).to_dict("records")}
    assert len(found) == len(calls) == len(table)
    for name in calls:
        direction, memory = way_of(name)
        row = next(row for key, row in found.items() if key[0] == direction and (memory is None or key[1] == memory))
        assert (row["calls"], row["bytes"]) == (calls[name], sizes[name])
        assert row["time_s"] * 1e9 == pytest.approx(times[name])
        assert row["bandwidth"] == pytest.approx(sizes[name] / times[name])


def test_a_copy_of_a_nanosecond_has_a_bandwidth_and_one_of_no_time_has_none(tmp_path: Path) -> None:
    name = "Memcpy HtoD (Pinned -> Device)"
    lengths = (0.001, 0)
    log = trace(tmp_path / "a.json", *(event("gpu_memcpy", name, 10 * n, at, bytes=2) for n, at in enumerate(lengths)))
    (row,) = copies(log).to_dict("records")
    assert (row["calls"], row["bytes"], row["bandwidth"]) == (2, 4, 2.0)


def test_all_columns_of_a_small_trace() -> None:
    assert in_ns(copies(small())) == [
        {
            "rank": 0, "device": 0, "device_name": "H100", "direction": "host to device", "memory": "pinned",
            "calls": 1, "bytes": 1000, "time_s": 50, "bandwidth": 20.0, "median_bytes": 1000, "exposed_s": 30,
            "share": pytest.approx(30 / 650), "first_line": 8,
        }
    ]  # fmt: skip
