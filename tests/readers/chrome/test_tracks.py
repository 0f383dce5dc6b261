"""Tracks of devices in Chrome traces without categories of work: which events are work, on which device and stream."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

from perflog.readers.chrome.tracks import DeviceTracks
from perflog.readers.events.event_columns import KINDS, MISSING, EventColumns
from perflog.readers.events.string_interning import new_interners

if TYPE_CHECKING:
    from perflog.readers.chrome.contents import TraceContents

Track = tuple[str, str]
"""Process and thread of an event."""


def read(
    names: dict[str, str],
    threads: dict[Track, str],
    events: list[tuple[str, str, str | None]],
    labels: dict[str, str] | None = None,
    **columns: list[int],
) -> list[tuple[str | int | None, ...]]:
    """Kind, device and stream of events, given by process, thread and name; all None where nothing was added."""
    interners = new_interners()
    codes = {
        column: [-1 if text is None else interners[column].code(text) for text in texts]
        for column, texts in zip(("process", "thread", "name"), zip(*events, strict=True), strict=True)
    }
    rows: EventColumns = {column: np.array(numbers, np.int32) for column, numbers in codes.items()}
    rows |= {"kind": np.full(len(events), -1, np.int8), "place": np.arange(len(events))}
    rows |= {name: np.array(numbers) for name, numbers in columns.items()}
    trace = SimpleNamespace(process_names=names, process_labels=labels or {}, thread_names=threads)
    found = DeviceTracks(cast("TraceContents", trace), interners).columns(rows)
    if not found:
        return [(None, None, None)] * len(events)
    return [
        (None if kind < 0 else KINDS[kind], *(None if number == MISSING else number for number in numbers))
        for kind, *numbers in zip(*(found[name].tolist() for name in ("kind", "device", "stream")), strict=True)
    ]  # fmt: skip


STREAMS = {("1", "10"): "stream 14", ("1", "11"): "stream 15", ("1", "12"): "steps", ("2", "20"): "stream 3"}


def test_events_on_streams_are_work_and_others_of_the_device_are_ranges() -> None:
    events: list[tuple[str, str, str | None]] = [
        ("1", "10", "gemm"), ("1", "11", "MemcpyH2D"), ("1", "12", "step 1"), ("2", "20", "python"), ("1", "11", None),
    ]  # fmt: skip
    assert read({"1": "/device:GPU:0", "2": "python"}, STREAMS, events) == [
        ("kernel", 0, 14), ("memcpy", 0, 15), ("device_range", 0, None), (None, None, None), (None, 0, 15)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("/device:TPU:3", 3), ("GPU 7", 7), ("Ascend Hardware", None), ("GPU 7 memory", "host"), ("python", "host"),
        ("/device:GPU:2 counters", "host"), ("NPU", None),
    ],
)  # fmt: skip
def test_which_processes_are_devices(name: str, device: Any) -> None:
    (found,) = read({"1": name}, {}, [("1", "10", "gemm")])
    assert found == ((None, None, None) if device == "host" else ("kernel", device, None))


def test_the_label_of_a_process_names_its_device() -> None:
    events: list[tuple[str, str, str | None]] = [("1", "10", "gemm"), ("2", "20", "gemm"), ("3", "30", "gemm")]
    names = {"1": "python", "2": "python", "3": "GPU 5"}
    assert read(names, {}, events, {"1": "GPU 4", "2": "CPU", "3": "CPU"}) == [
        ("kernel", 4, None), (None, None, None), ("kernel", 5, None)
    ]  # fmt: skip


def test_without_streams_all_tracks_of_a_device_have_work() -> None:
    threads = {("1", "10"): "default", ("1", "11"): "other"}
    events: list[tuple[str, str, str | None]] = [("1", "10", "gemm"), ("1", "11", "copy-start.1"), ("1", "12", "gemm")]
    assert read({"1": "GPU 0"}, threads, events) == [("kernel", 0, None), ("memcpy", 0, None), ("kernel", 0, None)]


def test_a_known_kind_stays_with_its_device_and_stream() -> None:
    events: list[tuple[str, str, str | None]] = [("1", "10", "gemm"), ("1", "10", "gemm")]
    known = KINDS.index("sync")
    found = read({"1": "GPU 6"}, STREAMS, events, kind=[known, -1], device=[5, MISSING], stream=[4, 9])
    assert found == [("sync", 5, 4), ("kernel", 6, 14)]
    assert read({"1": "GPU 6"}, STREAMS, events, kind=[known, known]) == [(None, None, None)] * 2


def test_a_process_without_a_name_is_no_device() -> None:
    assert read({"1": "GPU 6"}, {}, [("2", "10", "gemm"), ("1", "10", "gemm")]) == [
        (None, None, None), ("kernel", 6, None)
    ]  # fmt: skip
