"""Exported traces: the same events when they are read again, and tracks that show what the metrics say."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.field_logs import CORPUS, needs_corpus
from support.known_inputs import TRACES
from support.paths import TESTS
from support.trace_tables import by_hand, kernel, reduce, step
from support.trace_tables import log as log_of

import perflog
from perflog.metrics import Tables, critical_path, device_ranges, launches
from perflog.metrics.traces.idle_causes import CAUSES, idle_causes

REAL = CORPUS / "torchtrace/facebookresearch__HolisticTraceAnalysis__sampled_rank-1.json.gz"
NSYS = CORPUS / "nsys/p4arth__cuda-perf-sandbox__report1.sqlite"
DATA = TESTS / "data"
SAME = (  # processes and threads are numbered anew
    "name", "kind", "category", "device", "stream", "context", "duration_ns", "step", "range", "correlation",
    "external", "collective", "group", "seq", "ranks", "dtype", "shapes", "grid", "block", "registers", "shared_bytes",
)  # fmt: skip


def read(folder: Path, *events: dict[str, Any]) -> perflog.Log:
    """These events of a Chrome trace."""
    (folder / "in.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return perflog.read(folder / "in.json")


def exported(log: perflog.Log, folder: Path) -> dict[str, Any]:
    count = perflog.export.perfetto(log, folder / "out.json")
    document: dict[str, Any] = json.loads((folder / "out.json").read_text("utf-8"))
    assert len(document["traceEvents"]) == count
    check_format(document["traceEvents"])
    return document


def check_format(events: list[dict[str, Any]]) -> None:
    """The rules of the trace event format for any events."""
    named = {(each["pid"], each["tid"]) for each in events if each["name"] == "thread_name"}
    flows: Counter[tuple[str, str, int]] = Counter()
    for each in events:
        assert isinstance(each["name"], str) and isinstance(each["pid"], int) and isinstance(each["tid"], int)
        if each["ph"] == "M":
            assert each["name"] in ("process_name", "process_sort_index", "thread_name", "thread_sort_index")
            continue
        assert isinstance(each["cat"], str) and each["ts"] >= 0
        if each["ph"] in "sf":
            flows[each["ph"], each["cat"], each["id"]] += 1
        elif each["ph"] == "C":
            assert all(isinstance(value, int | float) for value in each["args"].values())
        else:
            assert (each["pid"], each["tid"]) in named
            assert each["dur"] >= 0 if each["ph"] == "X" else (each["ph"], each["s"]) == ("i", "t")
    starts, ends = ({key[1:]: n for key, n in flows.items() if key[0] == phase} for phase in "sf")
    assert starts == ends == dict.fromkeys(starts, 1)


def check_nesting(document: dict[str, Any]) -> None:
    """Slices of a thread lie in each other or beside each other: a viewer has no place for others."""
    of_threads: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for each in document["traceEvents"]:
        if each["ph"] == "X":
            start, length = round(each["ts"] * 1e3), round(each["dur"] * 1e3)
            of_threads.setdefault((each["pid"], each["tid"]), []).append((start, -length))
    for pieces in of_threads.values():
        ends: list[int] = []
        for start, length in sorted(pieces):
            while ends and ends[-1] <= start:
                ends.pop()
            assert not ends or start - length <= ends[-1]
            ends.append(start - length)


def slices(document: dict[str, Any], category: str) -> list[tuple[str, int, int]]:
    """Name, start and end in ns of the slices of a category, on the clock of the trace."""
    first = document["otherData"]["start_ns"]
    return [
        (each["name"], first + round(each["ts"] * 1e3), first + round((each["ts"] + each["dur"]) * 1e3))
        for each in document["traceEvents"]
        if each.get("cat") == category and each["ph"] == "X"
    ]


def check_tracks(log: perflog.Log, document: dict[str, Any]) -> None:
    """Idle slices are the idle time by cause, with that of steps around the work; those of the path cover the span."""
    idle: Counter[str] = Counter()
    for name, start, end in slices(document, "perflog_idle"):
        idle[name] += end - start
    for cause in CAUSES:
        assert idle[cause] == sum(getattr(of_device, cause).length for of_device in idle_causes(Tables(log)))
    path = slices(document, "perflog_path")
    rows = critical_path(log)
    rows = rows[(rows["part"] == "trace") & (rows["by"] == "kind")]
    times: Counter[str] = Counter()
    for each in document["traceEvents"]:
        if each.get("cat") == "perflog_path":
            times[each["args"]["kind"]] += round(each["dur"] * 1e3)
    assert {kind: ns * 1e-9 for kind, ns in times.items()} == pytest.approx(
        dict(rows.groupby("kind")["time_s"].sum().items())
    )
    assert sum(end - start for _, start, end in path) * 1e-9 == pytest.approx(float(rows["time_s"].sum()))
    threads: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for each in document["traceEvents"]:
        if str(each.get("cat")).startswith("perflog_") and each["ph"] == "X":
            threads.setdefault((each["pid"], each["tid"]), []).append((each["ts"], each["ts"] + each["dur"]))
    for places in threads.values():
        places.sort()
        assert all(one[1] <= two[0] + 5e-4 for one, two in pairwise(places))


def check_again(log: perflog.Log, document: dict[str, Any], path: Path) -> None:
    """What is read again are the events, and nothing of what was computed."""
    again, first = perflog.read(path), document["otherData"]["start_ns"]
    ours, theirs = log.table("events"), again.table("events")
    ours = ours[ours["start_ns"].notna()].reset_index(drop=True)
    assert list(theirs["start_ns"] + first) == list(ours["start_ns"])
    for column in SAME:
        assert theirs[column].astype(str).tolist() == ours[column].astype(str).tolist(), column


@pytest.mark.parametrize("path", [each for each in TRACES if each.stem != "2026_quotes"], ids=lambda path: path.stem)
def test_small_traces(path: Path, tmp_path: Path) -> None:
    log = perflog.read(path)
    document = exported(log, tmp_path)
    check_tracks(log, document)
    check_again(log, document, tmp_path / "out.json")


@needs_corpus
def test_a_real_trace(tmp_path: Path) -> None:
    log = perflog.read(REAL)
    document = exported(log, tmp_path)
    check_nesting(document)
    check_tracks(log, document)
    check_again(log, document, tmp_path / "out.json")
    again = perflog.read(tmp_path / "out.json")
    for metric in (launches, critical_path, device_ranges):
        columns = [name for name in metric(log).columns if name not in ("run", "label", "first_line")]
        pd.testing.assert_frame_equal(metric(log)[columns], metric(again)[columns])
    names = {each["args"]["name"] for each in document["traceEvents"] if each["name"] == "process_name"}
    assert names == {f"rank {document['distributedInfo']['rank']}"}


@needs_corpus
def test_a_database_of_nsight_systems(tmp_path: Path) -> None:
    log = perflog.read(NSYS)
    document = exported(log, tmp_path)
    check_nesting(document)
    check_tracks(log, document)


def threads(document: dict[str, Any]) -> list[str]:
    """The names of the threads, in the order in which a viewer shows them."""
    of_tid: dict[int, dict[str, Any]] = {}
    for each in document["traceEvents"]:
        if each["name"] in ("thread_name", "thread_sort_index"):
            of_tid.setdefault(each["tid"], {}).update(each["args"])
    return [thread["name"] for thread in sorted(of_tid.values(), key=lambda thread: thread["sort_index"])]


def test_a_device_without_a_number_has_tracks_for_its_streams(tmp_path: Path) -> None:
    document = exported(perflog.read(DATA / "nvprof_gpu_trace.txt"), tmp_path)
    assert threads(document) == [
        "Tesla V100-SXM2, context 1, critical path",
        "Tesla V100-SXM2, context 1, idle time",
        "Tesla V100-SXM2, context 1, stream 13",
        "Tesla V100-SXM2, context 1, stream 14",
    ]


def test_names_of_threads_leave_out_what_is_unknown(tmp_path: Path) -> None:
    nowhere: dict[str, Any] = {"device": None, "stream": None}
    events = [
        kernel(0, 10, **nowhere),
        kernel(20, 30, device=0, stream=None),
        kernel(40, 50, kind="runtime", **nowhere),
        kernel(60, 70, kind="runtime", thread="5", **nowhere),
        kernel(80, 90, kind="runtime", process="3", thread="5", stream=7, device=None),
        step(1, 0, 100),
    ]
    shown = threads(exported(log_of(by_hand(events)), tmp_path))
    assert {"device", "device 0", "host", "thread 5", "process 3, thread 5"} <= set(shown)
    assert not [name for name in shown if "None" in name]


def test_collectives_stand_above_all_streams(tmp_path: Path) -> None:
    events = [
        reduce(at, at + 50, stream=stream, group="world", seq=at, collective="allreduce", ranks=2, **of)
        for at, stream in ((100, 0), (200, None), (300, 0))
        for rank in (0, 1)
        for of in ({"rank": rank, "part": rank},)
    ]
    shown = threads(exported(log_of(by_hand(events)), tmp_path))
    of_one = shown[: len(shown) // 2]
    assert of_one[-3:] == ["device 0, collectives of world", "device 0", "device 0, stream 0"]


@pytest.mark.parametrize(
    ("printed", "exported_as"),
    [
        ("[1e3, -2.5]", [1000.0, -2.5]),
        *(
            (text, text)
            for text in ("NaN", "[Infinity]", "[1, -Infinity]", "[1e999]", "[" * 10_000, "[" * 5000 + "]" * 5000)
        ),
    ],
    ids=lambda value: str(value)[:20],
)
def test_values_of_inputs_are_json_or_stay_as_printed(printed: str, exported_as: Any, tmp_path: Path) -> None:
    call = {"ph": "X", "cat": "cpu_op", "name": "aten::x", "pid": 1, "tid": 1, "ts": 1, "dur": 2}
    log = read(tmp_path, call | {"args": {"Concrete Inputs": printed, "Input Dims": [[1]]}})
    assert log.table("events")["input_values"].tolist() == [printed]
    (shown,) = [each for each in exported(log, tmp_path)["traceEvents"] if each["ph"] == "X"]
    assert shown["args"]["Concrete Inputs"] == exported_as


def test_time_0_is_the_first_reading_or_event(tmp_path: Path) -> None:
    work = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 100, "dur": 9, "args": {"device": 0}}
    for first in (40, 300):
        log = read(
            tmp_path, work, *({"ph": "C", "name": "sm", "pid": 3, "ts": first + i, "args": {"v": i}} for i in range(3))
        )
        document = exported(log, tmp_path)
        begin = document["otherData"]["start_ns"]
        assert begin == min(first, 100) * 1000
        times = [each["ts"] for each in document["traceEvents"] if each.get("cat") == "counter"]
        assert [at + begin / 1000 for at in times] == [first, first + 1, first + 2]
        assert min(each["ts"] for each in document["traceEvents"] if "ts" in each) == 0


turn = st.tuples(st.integers(0, 20), st.integers(0, 9), st.sampled_from([None, 0, 7]), st.booleans())
"""Time before the call, time of the work, its stream, and whether a range lies around the call."""


@given(st.lists(turn, min_size=1, max_size=8), st.lists(st.integers(0, 99), max_size=4), st.booleans())
def test_any_trace_is_well_formed(
    tmp_path_factory: pytest.TempPathFactory, turns: list[tuple[int, int, int | None, bool]], readings: list[int],
    has_number: bool,
) -> None:  # fmt: skip
    """Calls follow each other on a thread, work on a stream; readings come at any time."""
    folder = tmp_path_factory.mktemp("made")
    now, free = 30, dict.fromkeys((None, 0, 7), 0)
    events: list[dict[str, Any]] = []
    for number, (wait, lasts, stream, in_range) in enumerate(turns, 1):
        call = {"ph": "X", "pid": 9, "tid": 1, "ts": now + wait}
        if in_range:
            events.append(call | {"cat": "user_annotation", "name": "forward > attention", "dur": 4})
        args = {"correlation": number}
        events.append(call | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "dur": 3, "args": args})
        begin = max(now + wait + 1, free[stream])
        where = ({"device": 0} if has_number else {}) | ({} if stream is None else {"stream": stream})
        work = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 5, "ts": begin, "dur": lasts}
        events.append(work | {"args": args | where})
        now, free[stream] = now + wait + 4, begin + lasts
    events += [{"ph": "C", "name": "sm", "pid": 3, "ts": at, "args": {"value": at}} for at in readings]
    log = read(folder, *events)
    document = exported(log, folder)
    check_nesting(document)
    check_tracks(log, document)
    assert document["otherData"]["start_ns"] == min([*readings, *(each["ts"] for each in events)]) * 1000
