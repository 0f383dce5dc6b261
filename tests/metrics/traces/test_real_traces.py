"""Each metric of device work on each real trace here, against loops over the events of its file.

The loops are in `support.raw_traces` and here, and share no code with perflog. Traces of four profilers: torch.profiler
of three versions, Nsight Systems, nvprof; and torch.profiler on the CPU, recorded by the test, which has no device.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from typing import Any

import pytest
from support.commands import DATA
from support.field_logs import CORPUS, needs_corpus
from support.metrics_logs import rows
from support.raw_traces import (
    AUTOGRAD,
    NS,
    STATES,
    RawTrace,
    Work,
    category,
    chrome_json,
    chrome_trace,
    nsys_database,
    nvprof_gpu_trace,
    span_of,
    time_by_range,
)
from support.trainer_ranks import ForkedRanks

import perflog
from perflog.metrics import (
    METRICS,
    collective_bandwidth,
    copies,
    counters,
    device_kernels,
    device_ranges,
    device_time,
    launch_queue,
    launches,
    waterfall,
)

EXCERPTS = DATA.parent / "traces" / "excerpts"
KINETO = [
    CORPUS / f"torchtrace/facebookresearch__HolisticTraceAnalysis__sampled_rank-{rank}.json.gz" for rank in (0, 1)
]
OF_TORCH = [
    *(pytest.param(path, marks=needs_corpus) for path in KINETO),
    EXCERPTS / "pytorch__kineto__gpu_metrics_input.json",
    EXCERPTS / "facebookresearch__HolisticTraceAnalysis__backward_thread.json",
]
REAL = [
    *OF_TORCH,
    pytest.param(CORPUS / "nsys/p4arth__cuda-perf-sandbox__report1.sqlite", marks=needs_corpus),
    pytest.param(CORPUS / "nvprof/samhachem99__CS533_Final_Project__nvprof_gpu_output.txt", marks=needs_corpus),
    DATA / "nvprof_gpu_trace.txt",
]
every_trace = pytest.mark.parametrize("path", REAL, ids=lambda path: path.name[:60])
every_trace_of_torch = pytest.mark.parametrize("path", OF_TORCH, ids=lambda path: path.name[:60])

NAMES_OF_STATES = {"compute": "compute", "communication": "communication", "copies": "memory"}
BAR_OF_CAUSE = {
    "data": "data", "sync": "host-bound idle", "host": "host-bound idle", "launch": "idle with work queued",
    "waiting": "idle with work queued", "unknown": "idle",
}  # fmt: skip
Window = tuple[int, int]


@cache
def raw(path: Path) -> RawTrace:
    """The work of a trace, by a reader of its own."""
    readers: Mapping[str, Callable[[Path], RawTrace]] = {".sqlite": nsys_database, ".txt": nvprof_gpu_trace}
    return readers.get(path.suffix, chrome_trace)(path)


@cache
def read(path: Path) -> perflog.Log:
    return perflog.read(path)


def windows(trace: RawTrace) -> dict[int | None, Window]:
    """The whole trace, and its annotated steps."""
    steps: dict[int | None, Window] = {number: window for number, window in trace.steps.items()}  # noqa: C416 (types)
    whole = min(work.start for work in trace.work), max(work.end for work in trace.work)
    return {None: whole} | steps


def length_inside(parts: Sequence[Window], window: Window) -> int:
    """Sum of the times of parts inside a window."""
    return sum(max(min(end, window[1]) - max(start, window[0]), 0) for start, end in parts)


def ns(value: Any) -> int:
    return round(float(value) * 1e9)


# --- where the time goes ------------------------------------------------------------------------------------------


@every_trace
def test_device_time(path: Path) -> None:
    trace = raw(path)
    found = rows(device_time(read(path)))
    assert [row["step"] for row in found] == list(windows(trace))
    for row, (low, high) in zip(found, windows(trace).values(), strict=True):
        inside = [work for work in trace.work if work.start < high and work.end > low]
        clipped = [replace(work, start=max(work.start, low), end=min(work.end, high)) for work in inside]
        times = RawTrace(clipped, {}).time_by_state() if clipped else dict.fromkeys(STATES, 0)
        for state, name in NAMES_OF_STATES.items():
            assert ns(row[f"{name}_s"]) == times[state]
        busy = sum(times[state] for state in STATES)
        assert (ns(row["span_s"]), ns(row["busy_s"]), ns(row["idle_s"])) == (high - low, busy, high - low - busy)
        assert row["events"] == sum(low <= work.start < high for work in trace.work)
        moving = [work for work in clipped if work.state == "communication"]
        assert row["overlap"] == (pytest.approx(RawTrace(clipped, {}).hidden()) if moving else None)


@every_trace
def test_kernels_by_name(path: Path) -> None:
    trace = raw(path)
    by_name: dict[str, list[Work]] = defaultdict(list)
    for work in trace.work:
        by_name[re.sub(r" \[\d+\]$", "", work.name)].append(work)  # nvprof: the number of the launch
    table = device_kernels(read(path))
    found = {row["name"]: row for row in rows(table, by="name")}
    whole = sum(work.end - work.start for work in trace.work)
    busy = trace.span - trace.time_by_state()["idle"]
    steps = sum(end - start for start, end in trace.steps.values())
    assert set(found) == set(by_name)
    for name, row in found.items():
        lengths = [work.end - work.start for work in by_name[name]]
        figures = [ns(row[f"{key}_s"]) for key in ("time", "min", "max")]
        assert (row["calls"], *figures) == (len(lengths), sum(lengths), min(lengths), max(lengths))
        assert (row["avg_s"], row["median_s"]) == pytest.approx((mean(lengths) * NS, median(lengths) * NS))
        times = [(work.start, work.end) for work in by_name[name]]
        in_steps = sum(length_inside(times, step) for step in trace.steps.values())
        assert row["share_step"] == (pytest.approx(in_steps / steps) if steps else None)
        assert (row["share_kernel"], row["share_busy"]) == pytest.approx((sum(lengths) / whole, sum(lengths) / busy))
        assert row["state"] == NAMES_OF_STATES[by_name[name][0].state]
    categories = rows(table, by="category")
    assert sum(row["calls"] for row in categories) == len(trace.work)
    assert ns(sum(row["time_s"] for row in categories)) == whole


@every_trace
def test_copies(path: Path) -> None:
    trace = raw(path)
    ways: dict[tuple[str, str | None], list[Work]] = defaultdict(list)
    words = {"H": "host", "D": "device", "Host": "host", "Device": "device"}
    for work in trace.work:
        if work.state == "copies" and (way := re.search(r"(Host|Device|H|D)-?to-?(Host|Device|H|D)\b", work.name)):
            memory = re.search("Pageable|Pinned", work.name)
            ways[f"{words[way[1]]} to {words[way[2]]}", memory[0].lower() if memory else None].append(work)
    found = {(row["direction"], row["memory"]): row for row in rows(copies(read(path)))}
    assert set(found) == set(ways)
    for key, works in ways.items():
        row, sizes = found[key], [work.copied for work in works if work.copied is not None]
        time = sum(work.end - work.start for work in works)
        others = [work for work in trace.work if work.state != "copies"]
        exposed = RawTrace([*others, *works], {}).time_by_state()["copies"]
        assert (row["calls"], ns(row["time_s"]), ns(row["exposed_s"])) == (len(works), time, exposed)
        assert row["share"] == pytest.approx(exposed / trace.span)
        assert (row["bytes"], row["median_bytes"]) == pytest.approx((sum(sizes), median(sizes)), rel=1e-4)
        assert row["bandwidth"] == pytest.approx(sum(sizes) / time, rel=1e-4)  # nvprof prints five digits of a size


# --- idle time and launches ---------------------------------------------------------------------------------------


def queue_in(known: Sequence[Work], window: Window) -> float:
    """Mean number of pieces of work that are launched and have not begun."""
    waiting = length_inside([(work.launch or 0, work.start) for work in known], window)
    return waiting / (window[1] - window[0])


@every_trace
def test_launches(path: Path) -> None:
    trace = raw(path)
    parts, latency = trace.idle_parts()
    known = sorted((work for work in trace.work if work.launch is not None), key=lambda work: work.start)
    found = rows(launches(read(path)))
    assert [row["step"] for row in found] == list(windows(trace))
    for row, window in zip(found, windows(trace).values(), strict=True):
        causes = {cause: length_inside(parts[cause], window) for cause in (
            "data", "sync", "host", "launch", "waiting", "unknown")}  # fmt: skip
        assert ns(row["idle_s"]) == sum(causes.values())
        if not known:
            assert row["host_s"] is row["launches"] is row["queue"] is None
            continue
        assert {cause: ns(row[f"{cause}_s"]) for cause in causes} == causes
        begun = [work for work in known if window[0] <= work.start < window[1]]
        assert row["launches"] == len(begun)
        assert row["queue"] == pytest.approx(queue_in(known, window))
        moments = [window[0], *(work.launch for work in known if window[0] <= (work.launch or 0) < window[1])]
        longest = max(sum((work.launch or 0) <= at < work.start for work in known) for at in moments if at is not None)
        assert row["queue_max"] == longest
        if begun:
            calls, lengths = [work.call or 0 for work in begun], [work.end - work.start for work in begun]
            medians = [median(work.start - (work.launch or 0) for work in begun), median(calls), median(lengths)]
            assert [row[f"{name}_s"] for name in ("delay", "call", "work")] == pytest.approx([m * NS for m in medians])
            short = sum(length < call for length, call in zip(lengths, calls, strict=True))
            assert row["short_share"] == pytest.approx(short / len(begun))
            assert row["latency_s"] == (None if latency is None else pytest.approx(latency * NS))


@every_trace
def test_the_queue_over_time(path: Path) -> None:
    trace = raw(path)
    known = [work for work in trace.work if work.launch is not None]
    found = rows(launch_queue(read(path)))
    if not known:
        assert found == []
        return
    parts, _ = trace.idle_parts()
    begin, _ = windows(trace)[None]
    edges = [begin + k * trace.span // 200 for k in range(201)]
    periods = [window for window in pairwise(edges) if window[1] > window[0]]
    idle = [part for of_cause in parts.values() for part in of_cause]
    for row, window in zip(found, periods, strict=True):
        length = window[1] - window[0]
        assert ns(row["at_s"]) == window[0] - begin
        assert row["queue"] == pytest.approx(queue_in(known, window))
        assert row["busy_share"] == pytest.approx(1 - length_inside(idle, window) / length)
        late = sum(length_inside(parts[cause], window) for cause in ("data", "sync", "host"))
        assert row["host_share"] == pytest.approx(late / length)


@every_trace
def test_the_waterfall(path: Path) -> None:
    """One rank: communication is not divided into waiting and transfer."""
    trace = raw(path)
    found = rows(waterfall(read(path)))
    whole = [*trace.steps.values()] or [windows(trace)[None]]
    parts, _ = trace.idle_parts()
    times: Counter[str] = Counter()
    for low, high in whole:
        inside = [work for work in trace.work if work.start < high and work.end > low]
        clipped = [replace(work, start=max(work.start, low), end=min(work.end, high)) for work in inside]
        times.update({state: n for state, n in RawTrace(clipped, {}).time_by_state().items() if state != "idle"})
        for cause, of_cause in parts.items():
            times[BAR_OF_CAUSE[cause]] += length_inside(of_cause, (low, high))
    assert {row["of"] for row in found} == {"traced step" if trace.steps else "trace"}
    means = {bar: pytest.approx(time / len(whole)) for bar, time in times.items() if time}
    assert {row["bar"]: row["time_s"] * 1e9 for row in found} == means


# --- ranges, collectives, counters --------------------------------------------------------------------------------


@every_trace_of_torch
def test_gpu_time_by_range(path: Path) -> None:
    found = rows(device_ranges(read(path)))
    if set(time_by_range(path)) == {"(outside of ranges)"}:
        assert found == []
        return
    assert {row["path"]: ns(row["exclusive_s"]) for row in found if row["exclusive_s"]} == dict(time_by_range(path))
    whole = sum(work.end - work.start for work in raw(path).work)
    inclusive: Counter[str] = Counter()
    for text, time in time_by_range(path).items():
        names = text.split(" > ")
        for depth in range(len(names)):
            inclusive[" > ".join(names[: depth + 1])] += time
    for row in found:
        assert ns(row["gpu_s"]) == inclusive[row["path"]]
        assert row["share"] == pytest.approx(inclusive[row["path"]] / whole)


@every_trace
def test_time_of_collectives(path: Path) -> None:
    """Of one rank, with what its kernels wait. None of these traces tells the sizes of messages."""
    moving = [work for work in raw(path).work if work.state == "communication"]
    found = rows(collective_bandwidth(read(path)))
    assert sum(row["calls"] for row in found) == len(moving)
    assert ns(sum(row["time_s"] for row in found)) == sum(work.end - work.start for work in moving)
    assert {row["busbw"] for row in found} <= {None}


# --- traces without a device, recorded here -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A trace of one process, and those of two ranks that exchange through gloo."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("recorded")
    script = str(DATA.parent / "support" / "record_trace.py")
    found = []
    for ranks in (1, 2):
        (here := folder / str(ranks)).mkdir()
        ForkedRanks(ranks, folder / f"{ranks}.out", script, str(here)).end()
        found += sorted(here.iterdir())
    return found


def test_metrics_of_device_work_have_no_rows_without_a_device(recorded: list[Path]) -> None:
    assert len(recorded) == 3
    names = ("device_time", "device_kernels", "launches", "launch_queue", "copies", "stragglers", "lateness",
             "collective_wait", "collective_bandwidth", "rank_pairs", "rank_clocks")  # fmt: skip
    for log in (*map(read, recorded), perflog.read(*recorded[1:])):
        for name in names:
            assert not len(METRICS[name](log)), name


def test_host_time_by_range(recorded: list[Path]) -> None:
    """Each range, and all that begin before it in its thread and have not ended."""
    for path in recorded:
        entered, times = Counter[str](), Counter[str]()
        threads: dict[object, list[tuple[int, int, str]]] = defaultdict(list)
        for event in chrome_json(path)["traceEvents"]:  # type: ignore[attr-defined]
            if event.get("ph") == "X" and (name := range_name(event)):
                start, end = span_of(event)
                threads[event["pid"], event["tid"]].append((start, end, name))
        for ranges in threads.values():
            for start, end, name in ranges:
                around = [each for each in ranges if each[0] <= start and end <= each[1] and each[:2] != (start, end)]
                text = " > ".join([*(each[2] for each in sorted(around, key=lambda each: (each[0], -each[1]))), name])
                entered[text] += 1
                times[text] += end - start
        found = rows(device_ranges(read(path)))
        assert {row["path"]: row["entered"] for row in found} == entered
        assert {row["path"]: ns(row["host_s"]) for row in found} == times
        assert {row["gpu_s"] for row in found} == {None} and len(entered) > 8


def range_name(event: dict[str, Any]) -> str | None:
    name = str(event["name"])
    if category(event) == "user_annotation":
        return re.sub(r"^ProfilerStep#\d+$", "ProfilerStep#N", name)
    if category(event) == "python_function" and name.startswith("nn.Module: "):
        return name.removeprefix("nn.Module: ")
    return "backward (autograd)" if category(event) == "cpu_op" and name.startswith(AUTOGRAD) else None


def test_readings_of_memory(recorded: list[Path]) -> None:
    keys = {"host memory allocated": "Total Allocated", "host memory reserved": "Total Reserved"}
    for path in recorded:
        events = json.loads(path.read_text())["traceEvents"]
        readings = [event["args"] for event in events if event["name"] == "[memory]"]
        found = {row["counter"]: row for row in rows(counters(read(path)))}
        assert set(found) == set(keys) and len(readings) > 50
        for counter, key in keys.items():
            values = [args[key] for args in readings]
            row = found[counter]
            assert (row["readings"], row["min"], row["max"]) == (len(values), min(values), max(values))
            assert row["mean"] == pytest.approx(mean(values))
