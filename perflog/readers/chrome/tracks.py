"""Tracks of devices: what runs there is device work, also where the trace's categories do not say so.

The traces of JAX, TensorFlow, Ascend and others have no categories that name kernels. Their metadata names processes
and threads, and `device_names` decides which of them are devices and streams.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from perflog.arrays import Codes, Ints
from perflog.lazy_patterns import lazy_pattern
from perflog.readers.chrome.contents import TraceContents
from perflog.readers.events.device_names import device_number, stream_number, work_kind, work_tracks
from perflog.readers.events.event_columns import KIND_CODE, MISSING, EventColumns
from perflog.readers.events.string_interning import Interners

# Summaries in the name of a device.
_NO_WORK = lazy_pattern(r"overlap analysis|freq|counter|bandwidth|memory", re.IGNORECASE)


class DeviceTracks:
    """The tracks of devices in a trace, by process and thread."""

    def __init__(self, trace: TraceContents, interners: Interners) -> None:
        names = trace.process_labels | trace.process_names
        devices = {process: number for process, name in names.items() if (number := device_number(name)) is not None}
        for process, label in trace.process_labels.items():  # Kineto: the name is the name of the program
            if process not in devices and (number := device_number(label)) is not None:
                devices[process] = number
        devices = {p: n for p, n in devices.items() if not _NO_WORK.search(trace.process_names.get(p, ""))}
        self._names = interners["name"].texts
        self._device = _by_code(devices, interners["process"].texts)
        threads: dict[str, list[str]] = {process: [] for process in devices}
        for (process, _), name in trace.thread_names.items():
            if process in devices:
                threads[process].append(name)
        is_work = {process: work_tracks(names) for process, names in threads.items()}
        kinds = {track: is_work[track[0]](name) for track, name in trace.thread_names.items() if track[0] in devices}
        codes = {
            name: {text: code for code, text in enumerate(interners[name].texts)} for name in ("process", "thread")
        }
        self._tracks = {
            (codes["process"].get(process, -1) << 32) + codes["thread"].get(thread, -1): (work, stream_number(name))
            for (process, thread), work in kinds.items()
            for name in (trace.thread_names[process, thread],)
        }

    def columns(self, rows: EventColumns) -> EventColumns:
        """Return columns `kind`, `device` and `stream` where events of an unknown category are on tracks of devices."""
        device = self._device[rows["process"]]
        chosen = np.flatnonzero((rows["kind"] == -1) & (device != MISSING))
        if not len(chosen):
            return {}
        lanes = (rows["process"][chosen].astype(np.int64) << 32) + rows["thread"][chosen]
        distinct, index = np.unique(lanes, return_inverse=True)
        tracks = [self._tracks.get(lane, (True, MISSING)) for lane in distinct.tolist()]
        work, stream = (np.array(column)[index] for column in zip(*tracks, strict=True))
        columns = {name: _copy_or_missing(rows, name) for name in ("device", "stream")}
        columns["device"][chosen] = np.where(device[chosen] < 0, MISSING, device[chosen])
        columns["stream"][chosen] = stream
        columns["kind"] = rows["kind"].copy()
        columns["kind"][chosen] = np.where(work, self._work_kinds(rows["name"][chosen]), KIND_CODE["device_range"])
        return columns

    def _work_kinds(self, names: Codes) -> npt.NDArray[np.int8]:
        distinct, index = np.unique(names, return_inverse=True)
        kinds = [KIND_CODE[work_kind(self._names[code])] if code >= 0 else -1 for code in distinct.tolist()]
        return np.array(kinds, np.int8)[index]


def _by_code(numbers: dict[str, int], texts: list[str]) -> Ints:
    return np.array([*(numbers.get(text, MISSING) for text in texts), MISSING], np.int64)


def _copy_or_missing(rows: EventColumns, name: str) -> Ints:
    return rows[name].copy() if name in rows else np.full(len(rows["place"]), MISSING, np.int64)
