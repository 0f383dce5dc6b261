"""Waits that a trace records: who waits, what they wait for, and which prove nothing."""

from __future__ import annotations

from typing import Any

from support.trace_tables import Event, by_hand, kernel

from perflog.metrics.traces.device_work import trace_devices
from perflog.metrics.traces.replays.recorded_waits import FileWaits, recorded_waits


def call(name: str, start: int, number: int | None, **more: Any) -> Event:
    usual = {"kind": "runtime", "device": None, "stream": None, "correlation": number}
    return kernel(start, start + 5, name) | usual | more


def sync(number: int, stream: int | None, awaited: int | None = None, record: int | None = None, **more: Any) -> Event:
    usual = {"kind": "sync", "correlation": number, "stream": stream}
    return kernel(0, 1, "sync") | usual | {"waits_for_stream": awaited, "waits_for_record": record} | more


RECORD = call("cudaEventRecord", 50, 90)


def waits_of(*events: Event) -> FileWaits | None:
    return recorded_waits(by_hand([*events, kernel(0, 1)])).get(("r", 0))


def listed(*events: Event) -> list[tuple[bool, int, int, int, int]]:
    """Whether a stream waits, line and begin of the call, the awaited stream, and until when it was filled."""
    found = waits_of(*events)
    assert found is not None
    columns = (found.is_stream, found.lines, found.called, found.awaited, found.until)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_what_each_wait_waits_for() -> None:
    """A stream or a call waits for what was launched before the record of its event, a call also for its stream."""
    calls = [RECORD, call("cudaStreamWaitEvent", 60, 1), call("cudaEventSynchronize", 70, 2)]
    calls.append(call("cudaStreamSynchronize", 80, 3))
    waits = [sync(1, 7, 20, 90), sync(2, 7, 21, 90), sync(2, None, 21, 90), sync(3, 7)]
    assert listed(*calls, *waits) == [
        (True, 2, 60, 20, 50), (False, 3, 70, 21, 50), (False, 3, 70, 21, 50), (False, 4, 80, 7, 80),
    ]  # fmt: skip


def test_waits_that_prove_nothing_are_left_out() -> None:
    wait, event = call("cudaStreamWaitEvent", 60, 1), call("cudaEventSynchronize", 70, 2)
    stream = call("cudaStreamSynchronize", 80, 3)
    for calls, found in (
        ([wait, RECORD], sync(1, None, 20, 90)),  # which stream waits is not known
        ([wait, RECORD], sync(1, 7, None, 90)),  # for which one
        ([wait, RECORD], sync(1, 7, 20, 91)),  # no call recorded the event
        ([wait, call("cudaEventQuery", 50, 90)], sync(1, 7, 20, 90)),
        ([wait, call("cudaStreamSynchronize", 50, 90)], sync(1, 7, 20, 90)),
        ([wait, RECORD, RECORD], sync(1, 7, 20, 90)),  # two have its number
        ([wait, wait, RECORD], sync(1, 7, 20, 90)),
        ([event, RECORD], sync(2, 7, None, 90)),
        ([event], sync(2, 7, 20, 90)),
        ([stream], sync(3, None)),
        ([stream], sync(4, 7)),
        ([call("cudaStreamSynchronize", 80, 3, start_ns=None)], sync(3, 7)),
        ([RECORD], sync(90, 7)),  # a call that records an event waits for nothing
        ([call("cudaDeviceSynchronize", 80, 3)], sync(3, 7)),
    ):
        assert waits_of(*calls, found) is None
    assert waits_of(RECORD, wait) is None


def test_waits_of_a_device() -> None:
    """A wait without a rank or device may be one of any device; calls that wait for another device are flagged."""
    calls = [RECORD, call("cudaStreamSynchronize", 80, 3), call("cudaStreamWaitEvent", 60, 1)]
    calls.append(call("cudaStreamSynchronize", 75, 4))
    waits = [sync(1, 7, 20, 90), sync(1, 8, 21, 90, device=1), sync(1, 9, 22, 90, rank=1)]
    waits += [sync(1, 10, 23, 90, device=None, rank=None), sync(4, 5, device=1), sync(3, 6)]
    tables = by_hand([*calls, *waits, kernel(0, 1)])
    (found,) = recorded_waits(tables).values()
    (device,) = trace_devices(tables)
    streams = found.stream_waits(device)
    assert streams.streams.tolist() == [7, 10] and streams.awaited.tolist() == [20, 23]
    assert streams.called.tolist() == [60, 60] and streams.until.tolist() == [50, 50]
    calls_wait = found.call_waits(device)
    assert calls_wait.lines.tolist() == [2, 4]
    assert calls_wait.awaited.tolist() == [6, 5] and calls_wait.until.tolist() == [80, 75]
    assert calls_wait.is_here.tolist() == [True, False]
    (unnamed,) = trace_devices(by_hand([kernel(0, 1, rank=None, device=None)]))
    assert found.stream_waits(unnamed).streams.tolist() == [7, 8, 9, 10]


def test_each_file_has_its_own_waits() -> None:
    calls = [call("cudaStreamSynchronize", 80, 3, part=part) for part in (0, 1)]
    tables = by_hand([*calls, sync(3, 7, part=1), sync(3, 7, part=2), kernel(0, 1)])
    assert list(recorded_waits(tables)) == [("r", 1)]
