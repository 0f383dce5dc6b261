"""A run with timed events as a Chrome trace: each event at its start, on its thread or stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

Event = dict[str, Any]

NOTE = "Times are those of the events. The first event begins at 0, which is otherData.start_ns."

_ROWS = 1 << 14  # rows turned into events at a time
# Arguments have the names that torch.profiler gives them: programs that read its traces then find them.
_ARGS = {
    "external": "External id", "correlation": "correlation", "device": "device", "stream": "stream", "bytes": "bytes",
    "collective": "Collective name", "group": "Process Group Name", "seq": "Seq", "ranks": "Group size",
    "dtype": "dtype", "step": "step", "range": "range", "line": "line",
}  # fmt: skip


def first_start(events: pa.Table) -> int:
    """Return the start of the first event in nanoseconds."""
    import pyarrow.compute as pc

    return int(pc.min(events["start_ns"]).as_py() or 0)


def tracks(events: pa.Table, first: int) -> Iterator[Event]:
    """Return the trace events of table `events`, in microseconds from `first` on; names of processes and threads last.

    Rows without a start are left out, because they have no place on a time axis.
    """
    processes: dict[tuple[Any, ...], int] = {}
    threads: dict[tuple[int, Any], int] = {}
    for batch in events.to_batches(max_chunksize=_ROWS):
        for row in batch.to_pylist():
            if row["start_ns"] is None:
                continue
            on_host = row["device"] is None
            process = row["part"], row["rank"], row["process"] if on_host else None, row["device"]
            pid = processes.setdefault(process, len(processes) + 1)
            tid = threads.setdefault((pid, row["thread"] if on_host else row["stream"]), len(threads) + 1)
            args = {name: row[column] for column, name in _ARGS.items() if row[column] is not None}
            event = {"name": row["name"] or "", "cat": row["category"] or "", "pid": pid, "tid": tid}
            event |= {"ts": (row["start_ns"] - first) / 1e3, "args": args}
            has_duration = row["duration_ns"] is not None and row["duration_ns"] >= 0
            yield (
                {"ph": "X", "dur": row["duration_ns"] / 1e3, **event}
                if has_duration
                else {"ph": "i", "s": "t", **event}
            )
    yield from _names(processes, threads)


def _names(processes: dict[tuple[Any, ...], int], threads: dict[tuple[int, Any], int]) -> Iterator[Event]:
    devices = set()
    for (_, rank, process, device), pid in processes.items():
        names = [f"rank {rank}"] if rank is not None else []
        names.append(f"device {device}" if device is not None else f"process {process}")
        devices |= {pid} if device is not None else set()
        yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": ", ".join(names)}}
        yield {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": pid}}
    for (pid, thread), tid in threads.items():
        name = f"{'stream' if pid in devices else 'thread'} {thread}"
        yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}
