"""Chrome traces that hold several processes: each event has the step, range and rank of its own process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import perflog
from perflog.metrics import device_time

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
