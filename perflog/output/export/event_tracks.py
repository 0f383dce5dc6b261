"""A run with timed events as a Chrome trace: each event at its start, on its thread or stream, in a process a rank."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from perflog.metrics.run_tables import Tables
from perflog.metrics.traces.device_work import WORK_KINDS, name_in_context

Event = dict[str, Any]
"""An event of Chrome's trace format, or a row that becomes one: a JSON object."""

NOTE = (
    "Events and readings have their recorded times. Time 0 is otherData.start_ns. Events of a category `perflog_...` "
    "are computed."
)

_ROWS = 1 << 14  # rows turned into events at a time
# Arguments have the names that torch.profiler gives them: programs that read its traces then find them.
_ARGS = {
    "external": "External id", "correlation": "correlation", "device": "device", "stream": "stream",
    "context": "context", "bytes": "bytes", "collective": "Collective name", "group": "Process Group Name",
    "group_description": "Process Group Description", "group_ranks": "Process Group Ranks", "seq": "Seq",
    "ranks": "Group size", "src_rank": "Src Rank", "dst_rank": "Dst Rank", "in_split": "In split size",
    "out_split": "Out split size", "dtype": "dtype", "registers": "registers per thread",
    "shared_bytes": "shared memory", "stack": "Call stack", "record": "Record function id", "address": "Addr",
    "waits_for_stream": "wait_on_stream", "waits_for_record": "wait_on_cuda_event_record_corr_id",
    "step": "step", "range": "range", "line": "line",
}  # fmt: skip
_LISTS = {
    "shapes": "Input Dims", "input_types": "Input type", "input_strides": "Input Strides",
    "input_values": "Concrete Inputs", "grid": "grid", "block": "block",
}  # fmt: skip
_WHERE = ("rank", "process", "thread", "device_name", "kind", "name", "category", "start_ns", "duration_ns")
_ON_DEVICE = frozenset((*WORK_KINDS, "device_range"))  # also where the trace does not number its device

_HOST, _GPU = 0, 1  # c10::DeviceType

PATH, HOST, IDLE, COLLECTIVES, STREAM, RANGES = 10, 20, 30, 35, 40, 41
"""Places of the threads of a process, from the top: critical path, threads of the host, idle time, collectives, streams
each with its ranges. The tracks of the streams come last: no other track follows them.
"""


class Tracks:
    """Numbers of processes and threads in the trace, and the events that name and order them."""

    def __init__(self) -> None:
        self._processes: dict[tuple[int, int | None], int] = {}
        self._threads: dict[tuple[int, int, str], int] = {}

    def process(self, part: int, rank: int | None) -> int:
        """Return the number of the process of a rank, or of a file that names none."""
        return self._processes.setdefault((part, rank), len(self._processes) + 1)

    def thread(self, pid: int, place: int, name: str) -> int:
        """Return the number of the thread of a name, at an index in its process."""
        return self._threads.setdefault((pid, place, name), len(self._threads) + 1)

    def names(self) -> Iterator[Event]:
        """Return the events that name and order all processes and threads."""
        parts = len({part for part, _ in self._processes})
        for (part, rank), pid in self._processes.items():
            name = f"rank {rank}" if rank is not None else f"file {part}" if parts > 1 else "trace"
            order = pid if rank is None else rank
            yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
            yield {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": order}}
        for order, ((pid, _, name), tid) in enumerate(sorted(self._threads.items(), key=lambda item: item[0][:2])):
            yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}
            yield {"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": {"sort_index": order}}


def device_label(device: int | None, name: str | None = None) -> str:
    """Return the name of a device in the names of tracks."""
    return f"device {device}" if device is not None else name or "device"


def stream_place(stream: int | None, computed: bool = False) -> int:
    """Return the index of a stream in its process, or of its computed track, which follows it."""
    return (RANGES if computed else STREAM) + 2 * max(stream or 0, 0) + 10 * (stream is not None)


def _thread_of(row: Mapping[str, Any]) -> tuple[int, str]:
    """Return the index and the name of the thread of an event: its stream, or its thread on the host."""
    if row["device"] is None and row["kind"] not in _ON_DEVICE:
        return HOST, _joined(process=row["process"], thread=row["thread"]) or "host"
    name = row["device_name"]
    if name is not None and row["context"] is not None:
        name = name_in_context(name, row["context"])
    stream = _joined(stream=row["stream"])
    return stream_place(row["stream"]), ", ".join([device_label(row["device"], name), *([stream] if stream else [])])


def _joined(**parts: object) -> str:
    """Return what is known: `process 1, thread 2`."""
    return ", ".join(f"{word} {value}" for word, value in parts.items() if value is not None)


def _of_memory(args: Mapping[str, Any]) -> dict[str, Any]:
    """The additional arguments of a memory event: the device of the memory, and the number of bytes."""
    device = args.get("device")
    place = {"Device Type": _HOST, "Device Id": -1} if device is None else {"Device Type": _GPU, "Device Id": device}
    return place | ({"Bytes": args["bytes"]} if "bytes" in args else {})


def _list(text: str) -> Any:
    """A list that is printed as JSON; any other string stays a string, such as one with NaN, which JSON lacks."""
    try:
        return json.loads(text, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError):
        return text


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def only_rank(tables: Tables) -> dict[str, int] | None:
    """Return rank and world size of a trace with events of one rank only, as torch.profiler writes them."""
    import pyarrow.compute as pc

    ranks: set[int | None] = set()
    for _, events in tables.arrow_by_file("events", {}, "rank"):
        ranks |= set(pc.unique(events["rank"]).to_pylist())
    rank, *others = ranks
    if rank is None or others:
        return None
    world = tables.rows("runs")
    return {"rank": rank} | ({"world_size": int(world["world_size"][0])} if world.known("world_size").all() else {})


def first_start(tables: Tables) -> int | None:
    """Return the start of the first event in nanoseconds; None if no event has one."""
    import pyarrow.compute as pc

    starts = [pc.min(events["start_ns"]).as_py() for _, events in tables.arrow_by_file("events", {}, "start_ns")]
    return min((start for start in starts if start is not None), default=None)


def events_of(tables: Tables, first: int, tracks: Tracks) -> Iterator[Event]:
    """Return the trace events of table `events`, in microseconds from `first` on.

    Rows without a start are left out, because they have no position on a time axis.
    """
    for (_, part), events in tables.arrow_by_file("events", {}, *_WHERE, *_ARGS, *_LISTS):
        for batch in events.to_batches(max_chunksize=_ROWS):
            for row in batch.to_pylist():
                if row["start_ns"] is None:
                    continue
                pid = tracks.process(part, row["rank"])
                tid = tracks.thread(pid, *_thread_of(row))
                args = {name: row[column] for column, name in _ARGS.items() if row[column] is not None}
                args |= {name: _list(row[column]) for column, name in _LISTS.items() if row[column] is not None}
                if row["kind"] == "memory":
                    args |= _of_memory(args)
                event = {"name": row["name"] or "", "cat": row["category"] or "", "pid": pid, "tid": tid}
                event |= {"ts": (row["start_ns"] - first) / 1e3, "args": args}
                has_duration = row["duration_ns"] is not None and row["duration_ns"] >= 0
                yield (
                    {"ph": "X", "dur": row["duration_ns"] / 1e3, **event}
                    if has_duration
                    else {"ph": "i", "s": "t", **event}
                )
