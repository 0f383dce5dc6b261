"""Events of a trace as Chrome's: their tracks, times and arguments."""

from __future__ import annotations

from typing import Any

from support.trace_tables import Event, by_hand, kernel

from perflog.metrics import Tables
from perflog.output.export.event_tracks import Tracks, device_label, events_of, first_start, only_rank, stream_place


def exported(*events: Event, first: int = 0) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    tracks = Tracks()
    return list(events_of(by_hand(list(events)), first, tracks)), list(tracks.names())


def tracks_of(*events: Event) -> list[str]:
    """The track of each event."""
    found, names = exported(*events)
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in names if e["name"] == "thread_name"}
    processes = {e["pid"]: e["args"]["name"] for e in names if e["name"] == "process_name"}
    return [f"{processes[e['pid']]}: {threads[e['pid'], e['tid']]}" for e in found]


def test_each_event_has_its_time_and_arguments() -> None:
    work = kernel(
        5000, 7500, correlation=3, bytes=8, shapes="[[2, 3]]", grid="[1, NaN]", block="[1, 1e999]", category="c"
    )
    found, _ = exported(
        work, kernel(6000, 6000) | {"name": None}, kernel(1, 1, start_ns=None), kernel(9, 8),
        kernel(9, 9, duration_ns=None), first=4000,
    )  # fmt: skip
    first, second, wrong, unknown = found
    assert first == {
        "ph": "X", "dur": 2.5, "name": "gemm", "cat": "c", "pid": 1, "tid": 1, "ts": 1.0,
        "args": {"correlation": 3, "device": 0, "stream": 7, "bytes": 8, "line": 1, "Input Dims": [[2, 3]],
                 "grid": "[1, NaN]", "block": "[1, 1e999]"},
    }  # fmt: skip
    assert (second["ph"], second["dur"], second["name"], second["cat"]) == ("X", 0.0, "", "")
    assert [(each["ph"], each["s"], "dur" in each) for each in (wrong, unknown)] == [("i", "t", False)] * 2


def test_memory_is_on_the_host_or_on_a_device() -> None:
    usual = {"kind": "memory", "stream": None, "bytes": 64}
    host = usual | {"device": None}
    on_device, on_host, unknown = exported(
        kernel(0, 1) | usual, kernel(0, 1) | host, kernel(0, 1) | host | {"bytes": None}
    )[0]
    memory = [{name: each["args"].get(name) for name in ("Device Type", "Device Id", "Bytes")}
              for each in (on_device, on_host, unknown)]  # fmt: skip
    assert [tuple(each.values()) for each in memory] == [(1, 0, 64), (0, -1, 64), (0, -1, None)]


def test_tracks_of_devices_and_threads() -> None:
    host = {"kind": "cpu", "device": None, "stream": None}
    assert tracks_of(
        kernel(0, 1), kernel(0, 1, stream=None), kernel(0, 1, device=None, device_name="GPU"),
        kernel(0, 1, device=None), kernel(0, 1) | host | {"process": "9", "thread": "1"}, kernel(0, 1) | host,
        kernel(0, 1) | host | {"thread": "0"},
        kernel(0, 1, kind="device_range", device=None), kernel(0, 1, kind="sync", device=None, process="9"),
    ) == [
        "rank 0: device 0, stream 7", "rank 0: device 0", "rank 0: GPU, stream 7", "rank 0: device, stream 7",
        "rank 0: process 9, thread 1", "rank 0: host", "rank 0: thread 0", "rank 0: device, stream 7",
        "rank 0: process 9",
    ]  # fmt: skip
    assert tracks_of(kernel(0, 1, rank=None)) == ["trace: device 0, stream 7"]
    assert [text.partition(":")[0] for text in tracks_of(kernel(0, 1, rank=None), kernel(0, 1, rank=None, part=3))] == [
        "file 0", "file 3"
    ]  # fmt: skip
    assert (device_label(0, "x"), device_label(None, "x"), device_label(None)) == ("device 0", "x", "device")


def test_the_order_of_processes_and_threads() -> None:
    """By rank; the host before the streams, which are in order and have their computed tracks after them."""
    tracks = Tracks()
    late, early = tracks.process(0, 5), tracks.process(0, 2)
    unknown = tracks.process(1, None)
    assert (late, early, unknown, tracks.process(0, 5)) == (1, 2, 3, 1)
    places = [stream_place(stream, computed) for stream in (None, 0, 7) for computed in (False, True)]
    assert places == sorted(set(places)) and stream_place(-3) == stream_place(0) != stream_place(1)
    threads = [tracks.thread(late, place, str(place)) for place in (*reversed(places), 20)]
    assert threads == list(range(1, 8)) and tracks.thread(late, 20, "20") == 7 != tracks.thread(early, 20, "20")
    named = list(tracks.names())
    sort = {e["pid"]: e["args"]["sort_index"] for e in named if e["name"] == "process_sort_index"}
    assert sort == {1: 5, 2: 2, 3: 3}
    order = [e["tid"] for e in named if e["name"] == "thread_sort_index"]
    assert order == [7, 6, 5, 4, 3, 2, 1, 8]
    assert [e["args"]["sort_index"] for e in named if e["name"] == "thread_sort_index"] == list(range(8))


def test_a_trace_of_one_rank_has_it_for_all() -> None:
    def rank(*events: Event, **runs: Any) -> dict[str, int] | None:
        tables = by_hand(list(events))
        frames = {name: tables[name] for name in ("runs", "events")}
        return only_rank(Tables(frames | {"runs": frames["runs"].assign(**runs)}))

    assert rank(kernel(0, 1, rank=3), kernel(5, 6, rank=3), world_size=8) == {"rank": 3, "world_size": 8}
    assert rank(kernel(0, 1)) == {"rank": 0}
    assert rank(kernel(0, 1, rank=3), kernel(5, 6)) is rank(kernel(0, 1, rank=None)) is None
    assert rank(kernel(0, 1), kernel(0, 1, part=1, rank=1)) is None


def test_the_first_start() -> None:
    assert first_start(by_hand([kernel(9, 10), kernel(5, 6, part=1), kernel(1, 1, start_ns=None)])) == 5
    assert first_start(by_hand([kernel(1, 1, start_ns=None)])) is None
