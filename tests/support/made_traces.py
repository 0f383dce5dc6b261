"""Made traces of threads, and of the work that they launch, as events of PyTorch's profiler; times in us."""

from __future__ import annotations

import json
import random
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

from support.plain_path import plain_path

import perflog
from perflog.metrics import Tables
from perflog.metrics.traces.call_tree import NO_CALL
from perflog.metrics.traces.replays.critical_path import critical_paths
from perflog.metrics.traces.replays.dependencies import Dependencies
from perflog.metrics.traces.replays.path_walk import HOST_TIME, LAUNCHES, CriticalPath, kinds_of
from perflog.metrics.traces.replays.path_walk import WAITS as WAITING
from perflog.metrics.traces.replays.replay import ALL, Replay, Replayed
from perflog.metrics.traces.replays.what_if import WhatIf

US = 1000

Call = tuple[int, int, str, int, int]
"""Pause before, length, what it does; of work: time from the begin of the call to its begin, length."""

PLAIN = ("op", "7", "8", "copy", "sync", "python", "nested")
AWAITING = ("op", "7", "8", "copy", "sync", "record", "wait", "event", "stream", "wait")
"""What calls do; the second with calls that record events, and streams and calls that wait for them or for a stream."""

WAITS = {
    "wait": ("cudaStreamWaitEvent", "Stream Wait Event"), "event": ("cudaEventSynchronize", "Event Sync"),
    "stream": ("cudaStreamSynchronize", "Stream Sync"),
}  # fmt: skip


def event(cat: str, name: str, start: float, length: float, tid: int = 1, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 9, "tid": tid, "ts": start, "dur": length, "args": args}


def traced(path: Path, *events: dict[str, Any]) -> perflog.Log:
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return perflog.read(path)


def pieces(path: CriticalPath) -> list[tuple[int, int, str, str | None]]:
    words, (codes, names) = kinds_of(path.dependencies), path.names()
    columns = zip(path.starts.tolist(), path.ends.tolist(), path.kinds.tolist(), codes.tolist(), strict=True)
    return [(start, end, words[kind], names[code]) for start, end, kind, code in columns]


def synchronisation(
    does: str, at: int, length: int, tid: int, number: int, stream: int, record: tuple[int, int]
) -> list[dict[str, Any]]:
    """A call that waits or lets a stream wait, and what the profiler says of it. `record`: stream and number."""
    name, said = WAITS[does]
    args = {"device": 0, "stream": stream, "correlation": number}
    if does != "stream":
        args |= {"wait_on_stream": record[0], "wait_on_cuda_event_record_corr_id": record[1]}
    return [
        event("cuda_runtime", name, at, length, tid, correlation=number),
        event("cuda_sync", said, at, length, stream, **args) | {"pid": 0},
    ]


def random_threads(seed: int, does: tuple[str, ...]) -> list[list[Call]]:
    """One to three threads with some calls each."""
    chance = random.Random(seed)

    def call() -> Call:
        pause, length, delay, lasts = (chance.randint(*ends) for ends in ((0, 6), (1, 8), (0, 20), (0, 12)))
        return pause, length, chance.choice(does), delay, lasts

    return [[call() for _ in range(chance.randint(3, 10))] for _ in range(chance.randint(1, 3))]


def made(threads: list[list[tuple[int, int, str, int, int]]]) -> list[dict[str, Any]]:
    """Events of threads of one process, each with its calls one after the other."""
    events, number = [], 0
    records = [(-1, -1)]  # stream and number of the events that were recorded; first one that is not known
    for tid, calls in enumerate(threads, 1):
        at = 0
        for pause, length, does, delay, lasts in calls:
            at += pause
            stream = 7 + lasts % 2
            if does == "record":
                number += 1
                records.append((stream, number))
                events.append(event("cuda_runtime", "cudaEventRecord", at, length, tid, correlation=number))
            elif does in WAITS:
                number += 1
                events += synchronisation(does, at, length, tid, number, stream, records[delay % len(records)])
            if does in ("7", "8", "copy", "nested"):
                number += 1
                stream = 8 if does == "8" else 7
                copies = does == "copy"
                name = "cudaMemcpyAsync" if copies else "cudaLaunchKernel"
                begin = at + (length >= 4) if does == "nested" else at
                if does == "nested":
                    events.append(event("cpu_op", "aten::mm", at, length, tid))
                events.append(
                    event(
                        "cuda_runtime",
                        name,
                        begin,
                        min(2, length) if does == "nested" else length,
                        tid,
                        correlation=number,
                    )
                )
                what = (
                    ("gpu_memcpy", "Memcpy HtoD")
                    if copies
                    else ("kernel", "relu" if stream == 8 else f"gemm{lasts % 2}")
                )
                work = event(*what, begin + delay, lasts, tid=stream, device=0, stream=stream, correlation=number)
                events.append(work | {"pid": 0})
            elif does == "sync":
                events.append(event("cuda_runtime", "cudaDeviceSynchronize", at, length, tid))
            else:
                cat, name = ("cpu_op", "aten::add") if does == "op" else ("python_function", "step.py: step")
                events.append(event(cat, name, at, length, tid))
            at += length
    return events


def length(of: Dependencies, start: int, end: int, thread: int = NO_CALL) -> int:
    """The length of the longest path of a window if all takes the time that it took."""
    return int(Replay(Replayed(of), [], start, end).ends(thread)[0]) - start


def check(log: perflog.Log, events: list[dict[str, Any]], steps: dict[int, tuple[int, int, Any]]) -> None:
    """Compare pieces and gains of the trace and of its steps with the oracle."""
    for paths in critical_paths(Tables(log)):
        oracle, of = plain_path(events), paths.trace.dependencies
        what_if, words = WhatIf(of, paths.walk), kinds_of(of)
        first, last = min(each.start for each in oracle.work), max(each.end for each in oracle.work)
        windows = [(first, last, None), *((start, end, main) for start, end, main in steps.values() if end > start)]
        assert of.usual_ns == oracle.usual
        for start, end, main in windows:
            thread = (
                NO_CALL if main is None else paths.walk.step_threads[list(steps.values()).index((start, end, main))]
            )
            path = paths.walk.path(start, end, thread)
            found = pieces(path)
            assert (found[0][0], found[-1][1]) == (start, end)
            assert all(one[1] == two[0] and one[0] < one[1] for one, two in pairwise(found))
            assert found == oracle.path(start, end, main)
            times: Counter[tuple[str, str | None]] = Counter()
            for begin, until, kind, name in found:
                times[kind, None] += until - begin
                if name is not None:
                    times[kind, name] += until - begin
            codes, names = path.names()
            code_of = {
                (words[kind], names[code]): (kind, code)
                for kind, code in zip(path.kinds.tolist(), codes.tolist(), strict=True)
            }
            times = Counter(dict(times.most_common(12)))  # the longest are all that there are in small traces
            removed = [(words.index(kind), ALL) if name is None else code_of[kind, name] for kind, name in times]
            whole = oracle.length(start, end, lambda kind, name: False, main)
            gains = what_if.gains(start, end, removed, thread).tolist()
            for (kind, name), gain in zip(times, gains, strict=True):
                zero = lambda k, n, kind=kind, name=name: k == kind and name in (None, n)  # noqa: E731 (short)
                assert gain == whole - oracle.length(start, end, zero, main)
                assert 0 <= gain <= times[kind, name]
            work = tuple(i for i, kind in enumerate(words) if kind in {each.kind for each in oracle.work})
            sets = [HOST_TIME, LAUNCHES, WAITING, work]
            gains = what_if.gains(start, end, [(some, ALL) for some in sets], thread).tolist()
            for some, gain in zip(sets, gains, strict=True):
                together = lambda k, n, kinds={words[i] for i in some}: k in kinds  # noqa: E731
                assert gain == whole - oracle.length(start, end, together, main)
            if found[0][2] != "unknown":
                assert whole == end - start
                assert length(of, start, end, thread if thread != NO_CALL else paths.walk.last_thread(end)) == whole
