"""Tracks of metrics in an exported trace, made of events by hand; times in ns, those of a trace in us."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pandas as pd
import pytest
from support.trace_tables import Event, by_hand, kernel, reduce

from perflog.metrics import Tables
from perflog.metrics.traces.idle_causes import CAUSES
from perflog.output.export import metric_tracks as module
from perflog.output.export.event_tracks import Tracks
from perflog.output.export.metric_tracks import MetricTracks, first_reading
from perflog.tables.schema import TABLES

Slice = tuple[str, str, float, float]


def made(tables: Tables, first: int = 0) -> tuple[list[dict[str, Any]], dict[tuple[int, int], str]]:
    """The events of all tracks, and the names of their threads."""
    tracks = Tracks()
    events = list(MetricTracks(tables, first, tracks).events())
    return events, {(e["pid"], e["tid"]): e["args"]["name"] for e in tracks.names() if e["name"] == "thread_name"}


def slices(tables: Tables, category: str, first: int = 0) -> list[Slice]:
    """Track, name, begin and end of each slice of a category, in ns after the first time."""
    events, names = made(tables, first)
    return [
        (names[e["pid"], e["tid"]], e["name"], round(e["ts"] * 1e3, 3), round((e["ts"] + e["dur"]) * 1e3, 3))
        for e in events if e["cat"] == category and e["ph"] == "X"
    ]  # fmt: skip


def call(start: int, end: int, number: int, **more: Any) -> Event:
    usual = {"kind": "runtime", "device": None, "stream": None, "process": "9", "thread": "1", "correlation": number}
    return kernel(start, end, "cudaLaunchKernel") | usual | more


TRACE = by_hand(
    [call(100, 102, 1), kernel(105, 115, correlation=1), call(140, 142, 2), kernel(145, 155, correlation=2)]
)


def test_the_critical_path_is_a_track() -> None:
    events, names = made(TRACE, 100)
    path = [e for e in events if e["cat"] == "perflog_path"]
    assert set(names.values()) >= {"device 0, critical path", "device 0, idle time"}
    assert [(e["name"], round(e["ts"] * 1e3), round(e["dur"] * 1e3)) for e in path] == [
        ("idle host", 5, 35), ("launch", 40, 5), ("gemm", 45, 10),
    ]  # fmt: skip
    assert [e["args"] for e in path] == [{"kind": "idle host"}, {"kind": "launch"}, {"kind": "gemm"}]


def test_idle_time_has_its_cause() -> None:
    events, _ = made(TRACE)
    idle = [(e["name"], e["ts"], e["dur"], e["args"]) for e in events if e["cat"] == "perflog_idle"]
    assert idle == [
        ("host", 0.115, pytest.approx(0.025), {"meaning": CAUSES["host"]}),
        ("launch", 0.14, pytest.approx(0.005), {"meaning": CAUSES["launch"]}),
    ]


def readings(tables: Tables) -> list[tuple[str, float, float]]:
    events, _ = made(tables)
    return [(e["name"], e["ts"] * 1e3, e["args"]["value"]) for e in events if e["ph"] == "C"]


@pytest.mark.parametrize("at_once", [1, 2, 1 << 14])
def test_the_queue_of_launched_work(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each moment the number of launches whose work has not begun."""
    monkeypatch.setattr(module, "_AT_ONCE", at_once)
    work = [(0, 10), (3, 20), (3, 30), (25, 25), (40, 41)]
    events = [
        e
        for n, (at, begin) in enumerate(work, 1)
        for e in (call(at, at + 1, n), kernel(begin, begin + 5, correlation=n))
    ]
    times = sorted({time for pair in work for time in pair})
    waiting = [sum(at <= time < begin for at, begin in work) for time in times]
    found = readings(by_hand(events))
    assert [value for _, _, value in found] == waiting and [round(at) for _, at, _ in found] == times
    assert {name for name, _, _ in found} == {"device 0: launched and not begun"}


def test_ranges_are_above_the_work_of_each_stream() -> None:
    """Work of one range together; a slice ends where the next one begins."""
    around: dict[str, Any] = {"kind": "range", "device": None, "stream": None, "process": "9", "thread": "1"}
    events = [
        kernel(0, 30, "forward > attention", **around), kernel(30, 60, "backward", **around), call(1, 2, 1),
        call(3, 4, 2), call(31, 32, 3), call(33, 34, 4), kernel(5, 9, correlation=1), kernel(9, 45, correlation=2),
        kernel(40, 50, correlation=3), kernel(42, 60, correlation=4, stream=8), kernel(70, 75, stream=None),
    ]  # fmt: skip
    assert slices(by_hand(events), "perflog_range") == [
        ("device 0, ranges", "(launch not known)", 70, 75),
        ("device 0, stream 7: ranges", "forward > attention", 5, 40),
        ("device 0, stream 7: ranges", "backward", 40, 50),
        ("device 0, stream 8: ranges", "backward", 42, 60),
    ]


def test_ranks_wait_for_the_last_one() -> None:
    """Three collectives of 100 ns; in two of them rank 1 comes 40 ns late."""
    events = [
        reduce(at + 40 * (late and rank), at + 100, group="world", seq=at, collective="allreduce", ranks=2, **of)
        for at, late in ((1000, True), (2000, False), (3000, True))
        for rank in (0, 1)
        for of in ({"rank": rank, "part": rank},)
    ]
    found = slices(by_hand(events), "perflog_collective")
    assert {track for track, *_ in found} == {"device 0, collectives of world"}
    kinds = Counter((name.rpartition(": ")[2], round(end - start)) for _, name, start, end in found)
    assert kinds == {("waits", 40): 2, ("transfer", 60): 4, ("transfer", 100): 2}
    computed = [e["args"] for e in made(by_hand(events))[0] if e["cat"] == "perflog_collective"]
    assert {args.get("last") for args in computed} == {"rank 1", None}
    assert {args["place"] for args in computed} == {1000, 2000, 3000}  # their numbers in the trace


def test_collectives_without_a_group_are_those_of_their_stream() -> None:
    events = [reduce(at, at + 50, rank=rank, part=rank) for at in (100, 200, 300) for rank in (0, 1)]
    found = slices(by_hand(events), "perflog_collective")
    assert {track for track, *_ in found} == {"device 0, collectives of stream 7"} and len(found) == len(events)


def counters(*rows: dict[str, Any]) -> Tables:
    filled = [{"run": "r", "line": line, "part": 0} | row for line, row in enumerate(rows, 1)]
    frame = pd.DataFrame(filled, columns=[column.name for column in TABLES["counters"]])
    return Tables(dict(by_hand([kernel(100, 110)])) | {"counters": frame})


def test_each_counter_of_a_device_and_of_what_it_counts_is_a_track() -> None:
    active, sent = {"name": "SM Active", "unit": "%"}, {"name": "Bytes sent"}
    rows: list[dict[str, Any]] = [
        active | {"device": 0, "value": 40.0}, active | {"device_name": "GPU A", "value": 20.0},
        active | {"device_name": "GPU B", "value": 30.0}, sent | {"subject": "mlx5_0 port 1", "value": 7.0},
        sent | {"device": 0, "subject": "NVLink 1", "value": 8.0}, {"name": "load", "value": 9.0},
    ]  # fmt: skip
    elsewhere: list[dict[str, Any]] = [
        active | {"device": 0, "value": 1.0, "correlation": 3, "subject": "gemm"},  # of a kernel
        active | {"device": 0, "value": 1.0, "calls": 3, "subject": "gemm"},
        {"name": "last_enqueued_collective", "subject": "world", "value": 4.0},
        {"name": "power", "value": 300.0, "clock": "utc"}, {"name": "power", "value": None}, {"value": 1.0},
    ]  # fmt: skip
    tables = counters(*({"start_ns": 50, **row} for row in rows), *({"start_ns": 0, **row} for row in elsewhere))
    assert {name: value for name, _, value in readings(tables) if "begun" not in name} == {
        "device 0: SM Active (1)": 0.4, "GPU A: SM Active (1)": 0.2, "GPU B: SM Active (1)": 0.3,
        "mlx5_0 port 1: Bytes sent": 7.0, "device 0, NVLink 1: Bytes sent": 8.0, "load": 9.0,
    }  # fmt: skip
    assert first_reading(tables) == 50
    assert first_reading(by_hand([kernel(100, 110)])) is None
    assert first_reading(counters({"start_ns": 0, **elsewhere[0]})) is None


def test_readings_are_in_the_order_of_time() -> None:
    load = {"name": "load"}
    rows = [load | {"start_ns": at, "value": value} for at, value in ((30_000, 1.0), (10_000, 2.0), (20_000, 3.0))]
    found = readings(counters(*rows))
    assert [(round(at), value) for name, at, value in found if name == "load"] == [
        (10_000, 2.0), (20_000, 3.0), (30_000, 1.0),
    ]  # fmt: skip
