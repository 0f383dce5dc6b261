"""Tables of traces for tests: the ranks of a real one, read by plain json, and events made by hand."""

from __future__ import annotations

import gzip
import json
from functools import cache
from typing import Any

import pandas as pd
import pyarrow as pa
from support.metrics_logs import rows
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


def host(start: int, end: int, name: str = "cudaLaunchKernel", number: int | None = None, **more: Any) -> Event:
    """A call of the runtime in thread 1 of process 9, in ns; `number`: it launches the work of this number."""
    usual = {"kind": "runtime", "device": None, "stream": None, "process": "9", "thread": "1", "correlation": number}
    return kernel(start, end, name, **usual) | more


@cache
def small() -> Tables:
    """Two steps of a device, in ns, with each kind of event a few times: its tables are known to the last column.

    It computes from 50 to 150, copies to 200, communicates from 180 to 300, computes from 360 to 380 and 520 to 700.
    The host synchronises until 320, then launches at 340; it loads data in step 2, and launches at 500 and 510.
    """
    at: Event = {"process": "9", "thread": "1"}
    on: Event = {"device_name": "H100"}
    return by_hand([
        step(1, 0, 400, **at), step(2, 400, 1000, **at),
        host(10, 40, "aten::mm", kind="cpu"), host(20, 30, number=1), kernel(50, 150, correlation=1, **on),
        host(100, 140, "aten::copy_", kind="cpu"), host(110, 130, "cudaMemcpyAsync", 2),
        kernel(150, 200, "Memcpy HtoD (Pinned -> Device)", kind="memcpy", correlation=2, bytes=1000, **on),
        host(160, 170, number=3), reduce(180, 300, stream=8, correlation=3, **on),
        host(210, 320, "cudaStreamSynchronize"), host(340, 350, number=4), kernel(360, 380, correlation=4, **on),
        host(400, 480, "load", kind="range"), host(490, 530, "aten::relu", kind="cpu"), host(500, 505, number=5),
        kernel(520, 640, "relu", correlation=5, **on), host(510, 515, number=6), kernel(640, 700, correlation=6, **on),
    ])  # fmt: skip


@cache
def small_job() -> Tables:
    """Two ranks that compute and reduce four times, from 20 ns on every 1000 ns; rank 1 computes 120 ns instead of 80.

    The all-reduce begins when the rank has computed, and ends on both ranks at 240.
    """
    group = {"group": "dp", "group_ranks": "[0, 1]", "ranks": 2, "collective": "allreduce", "dtype": "BFloat16"}
    events = []
    for rank in (0, 1):
        on: Event = {"rank": rank, "part": rank, "device": rank, "device_name": "H100"}
        at: Event = {"rank": rank, "part": rank, "process": str(rank)}
        for k in range(4):
            begin, computed, number = 1000 * k, 1000 * k + 100 + 40 * rank, 10 * rank + 2 * k
            events += [
                host(begin, begin + 10, number=number, **at),
                kernel(begin + 20, computed, correlation=number, **on),
                host(begin + 10, begin + 20, number=number + 1, **at),
                reduce(computed, begin + 240, stream=8, correlation=number + 1, seq=k, bytes=4096, **on, **group),
            ]
    return by_hand(events)


def in_ns(table: pd.DataFrame, *left_out: str) -> list[Event]:
    """The rows of a metric with None for null and times in ns, without its run, label and some other columns."""
    return [
        {
            name: round(value * 1e9, 3) if name.endswith("_s") and value is not None else value
            for name, value in row.items()
            if name not in ("run", "label", *left_out)
        }
        for row in rows(table)
    ]


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
