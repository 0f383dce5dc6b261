"""Waits that a trace records: of streams for events of other streams, and of calls for an event or for a stream.

The correlation number of a synchronisation identifies the call that requested it. The number of the call that recorded
the event identifies what is waited for: all work launched before it on the stream of the event.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from perflog.arrays import Ints, Mask
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics.run_tables import Tables
from perflog.metrics.traces.device_work import TraceDevice
from perflog.metrics.traces.launches import numbered_once, places_of
from perflog.tables.arrow import Where, one_of
from perflog.tables.columns import NULL, Rows, rows_from_arrow

_CALLS = lazy_pattern(r"EventRecord|WaitEvent|(Event|Stream)Synchronize")
_STREAM_WAIT, _EVENT_WAIT, _RECORD = "WaitEvent", "EventSynchronize", "EventRecord"
_COLUMNS = ("rank", "device", "stream", "correlation", "waits_for_stream", "waits_for_record")


class StreamWaits(Struct, frozen=True, eq=False):
    """Waits of streams of a device: what is launched on stream `streams[i]` after `called[i]` waits for other work.

    It waits for all work launched on stream `awaited[i]` before `until[i]`. Times are times of calls, in ns.
    """

    streams: Ints
    called: Ints
    awaited: Ints
    until: Ints


class CallWaits(Struct, frozen=True, eq=False):
    """Calls that wait for the device, in order of their lines.

    Call i waits for all that was launched on stream `awaited[i]` before `until[i]`, in ns. `is_here`: whether that is
    work of this device.
    """

    lines: Ints
    awaited: Ints
    until: Ints
    is_here: Mask


class FileWaits(Struct, frozen=True, eq=False):
    """The recorded waits in one file of a run. Columns have one entry for each wait.

    `is_stream`: a stream waits, not a call. `ranks`, `devices`: NULL where the trace does not have it.
    """

    is_stream: Mask
    ranks: Ints
    devices: Ints
    streams: Ints
    lines: Ints
    called: Ints
    awaited: Ints
    until: Ints

    def stream_waits(self, device: TraceDevice) -> StreamWaits:
        """Return the waits of the streams of a device."""
        index = np.flatnonzero(self.is_stream & self._on(device))
        return StreamWaits(*(column[index] for column in (self.streams, self.called, self.awaited, self.until)))

    def call_waits(self, device: TraceDevice) -> CallWaits:
        """Return the waits of calls, for the work of a device or of another one."""
        index = np.flatnonzero(~self.is_stream)
        index = index[np.argsort(self.lines[index], kind="stable")]
        return CallWaits(self.lines[index], self.awaited[index], self.until[index], self._on(device)[index])

    def _on(self, device: TraceDevice) -> Mask:
        flags = np.ones(len(self.lines), np.bool_)
        for numbers, own in ((self.ranks, device.rank), (self.devices, device.device)):
            flags &= True if own is None else (numbers == own) | (numbers == NULL)
        return flags


def recorded_waits(tables: Tables) -> dict[tuple[str, int], FileWaits]:
    """Return the recorded waits of each file of a run that has any."""
    where: Where = {"kind": one_of("sync")}
    waits = dict(tables.arrow_by_file("events", where, *_COLUMNS))
    if not waits:
        return {}
    where = {"kind": one_of("runtime"), "name": lambda name: name and _CALLS.search(name)}
    calls = tables.arrow_by_file("events", where, "name", "correlation", "start_ns")
    found = {
        file: _waits(rows_from_arrow(waits[file]), rows_from_arrow(events)) for file, events in calls if file in waits
    }
    return {file: file_waits for file, file_waits in found.items() if len(file_waits.lines)}


def _waits(waits: Rows, calls: Rows) -> FileWaits:
    """Return the waits in a file with a known call; waits for an event also need the call that recorded it."""
    # A number of several calls does not identify one of them.
    numbers, calls = numbered_once(calls.where(calls.known("correlation", "start_ns")), "correlation")
    call, record = (places_of(numbers, waits[name]) for name in ("correlation", "waits_for_record"))
    does = _words(calls, (_STREAM_WAIT, _EVENT_WAIT, _RECORD))
    is_stream, for_event = does[0][call], does[1][call]
    has_record = does[2][record] & (waits["waits_for_stream"] != NULL)
    for_stream = (call >= 0) & ~is_stream & ~for_event & ~does[2][call] & (waits["stream"] != NULL)
    chosen = np.flatnonzero(((is_stream & (waits["stream"] != NULL)) | for_event) & has_record | for_stream)
    call, record, for_stream = call[chosen], record[chosen], for_stream[chosen]
    starts, lines = np.append(calls["start_ns"], NULL), np.append(calls["line"], NULL)
    return FileWaits(
        is_stream=is_stream[chosen],
        ranks=waits["rank"][chosen],
        devices=waits["device"][chosen],
        streams=waits["stream"][chosen],
        lines=lines[call],
        called=starts[call],
        awaited=np.where(for_stream, waits["stream"][chosen], waits["waits_for_stream"][chosen]),
        until=np.where(for_stream, starts[call], starts[record]),
    )


def _words(calls: Rows, words: tuple[str, ...]) -> list[Mask]:
    """For each word which calls have it in their names; one entry more, for no call."""
    codes, names = calls.codes("name")
    return [np.append(np.array([*(word in name for name in names), False], np.bool_)[codes], False) for word in words]
