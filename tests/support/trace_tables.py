"""Tables of traces for tests: the ranks of a real one, read by plain json, and events made by hand."""

from __future__ import annotations

import gzip
import json
from functools import cache
from typing import Any

import pandas as pd
import pyarrow as pa
from support.paths import SHARED

import perflog
from perflog.metrics import Tables
from perflog.tables.schema import TABLES, arrow_schema
from perflog.tables.sink import MemorySink

Event = dict[str, Any]

CORPUS = SHARED / "corpus" / "torchtrace"
NAME = "facebookresearch__HolisticTraceAnalysis__sampled_rank-{}.json.gz"

KINDS = {
    "kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset", "cuda_runtime": "runtime", "cpu_op": "cpu",
    "user_annotation": "range", "gpu_user_annotation": "device_range", "cuda_sync": "sync", "Trace": "span",
}  # fmt: skip


@cache
def raw(rank: int) -> list[Event]:
    """The complete events of a rank's trace, as its JSON has them."""
    with gzip.open(CORPUS / NAME.format(rank)) as file:
        return [event for event in json.load(file)["traceEvents"] if event["ph"] == "X"]


def real(*ranks: int, apart: bool = False) -> Tables:
    """The real trace as the tables of one run, or of a run for each rank."""
    events: list[Event] = []
    for rank in ranks:
        run = f"r{rank}" if apart else "r"
        for line, event in enumerate(raw(rank), 1):
            args = event["args"]
            events.append(
                {
                    "run": run, "line": line, "part": 0 if apart else rank, "rank": rank, "name": event["name"],
                    "kind": KINDS[event["cat"]], "start_ns": event["ts"] * 1000,
                    "duration_ns": round(event["dur"] * 1000), "device": args.get("device"),
                    "stream": args.get("stream"), "correlation": args.get("correlation"),
                    "step": int(event["name"][13:]) if event["name"].startswith("ProfilerStep#") else None,
                }
            )  # fmt: skip
    return by_hand(events)


def kernel(start: int, end: int, name: str = "gemm", **more: Any) -> Event:
    """A kernel of rank 0, in ns."""
    usual = {"kind": "kernel", "rank": 0, "device": 0, "stream": 7}
    return usual | {"name": name, "start_ns": start, "duration_ns": end - start} | more


def reduce(start: int, end: int, **more: Any) -> Event:
    """A collective's kernel, in ns."""
    return kernel(start, end, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)") | more


def step(number: int, start: int, end: int, **more: Any) -> Event:
    """An annotated step of rank 0, in ns."""
    return kernel(start, end, f"ProfilerStep#{number}", kind="range", device=None, stream=None, step=number) | more


def by_hand(events: list[Event], **config: Any) -> Tables:
    """Tables of these events, of run `r` where they name none; each run's clock is that of the epoch."""
    filled: list[Event] = [{"run": "r", "line": at, "part": 0} | event for at, event in enumerate(events, 1)]
    names = dict.fromkeys(event["run"] for event in filled)
    runs = [
        {
            "run": name, "line": 1, "part": 0, "index": 1, "log": f"/traces/{name}.json",
            "log_sha256": name, "format": "a_trace", "label": name, "first_line": 1, "last_line": len(events),
            "config": json.dumps({"clock": "epoch"} | config),
        }
        for name in names
    ]  # fmt: skip
    steps = [
        {
            "run": e["run"], "line": e["line"], "part": 0, "step": e["step"], "rank": e["rank"], "copy": 1,
            "steps_averaged": 1, "step_time_s": e["duration_ns"] / 1e9,
        }
        for e in filled
        if e["kind"] == "range" and e.get("step") is not None and (e["duration_ns"] or 0) > 0
    ]  # fmt: skip
    read = {"status": "read", "shape": "X", "count": len(events), "first_line": 1, "line": 1}
    files = dict.fromkeys((e["run"], e["part"]) for e in filled)
    account = [read | {"run": name, "part": part} for name, part in files]
    made = {"runs": runs, "events": filled, "steps": steps, "lines": account}
    frames = {name: pd.DataFrame(rows, columns=[c.name for c in TABLES[name]]) for name, rows in made.items()}
    return Tables(frames)


def log(tables: Tables, name: str = "") -> perflog.Log:
    """The same as a log; `name` makes it another."""
    kept = MemorySink()
    for table in ("runs", "events", "steps", "counters", "lines"):
        frame = tables[table]
        frame = frame.assign(run=frame["run"] + name) if len(frame) else frame
        if table == "runs" and name:
            frame = frame.assign(log=f"/traces/{name}.json", log_sha256=name, label=name)
        kept.add(table, pa.Table.from_pandas(frame, arrow_schema(table), preserve_index=False))
    return perflog.Log(kept.fetch)
