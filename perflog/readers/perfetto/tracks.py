"""Tracks of a Perfetto trace: the process, thread, device and stream of an event, and what a counter counts.

A track is described by a packet, which may come after its events. A track inside another one belongs to its process
and thread.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from msgspec import Struct, field

from perflog.grouping import grouped
from perflog.lazy_patterns import lazy_pattern
from perflog.readers.events.device_names import device_number, stream_number, work_tracks
from perflog.readers.events.event_columns import MISSING
from perflog.readers.events.timestamps import number_in_name
from perflog.readers.messages.message_columns import FieldColumns
from perflog.readers.perfetto.packets import Packets

_DESCRIPTOR, _PROCESS_OF_PACKET, _THREAD_OF_PACKET = 60, 43, 44  # fields of a packet
_UUID, _NAME, _PROCESS, _THREAD, _PARENT, _COUNTER, _STATIC_NAME, _ATRACE_NAME = 1, 2, 3, 4, 5, 8, 10, 13
_PID, _PROCESS_NAME = 1, 6
_TID, _THREAD_NAME = 2, 5
_UNIT, _UNIT_FACTOR, _IS_DIFFERENCE, _UNIT_NAME = 3, 4, 5, 6
_UNITS = {1: "ns", 2: "", 3: "B"}
_DEEPEST = 100

# rocprofv3: "COMPUTE AGENT [4] QUEUE [0] (GPU)", "COPY to AGENT [4] THREAD [1] (GPU)", "STREAM [1]"
_AGENT = lazy_pattern(
    r"(?:(?:COMPUTE|COPY(?: BYTES)? to|COPY) )?\w*\s?\[(\d+)\] (?:(?:QUEUE|STREAM) \[(\d+)\]|THREAD \[\d+\])",
    re.IGNORECASE,
)
_ROCPROF_STREAM = lazy_pattern(r"STREAM \[\D*(\d+)\D*\]", re.IGNORECASE)


class Track(NamedTuple):
    """A track: names of its process and thread; the device and stream that it is; whether its events are work.

    `device` is None on the host, -1 for a device without a number.
    """

    process: str | None
    thread: str | None
    device: int | None
    stream: int
    is_work: bool


class _Described(Struct):
    name: str = ""
    parent: int = 0
    process: int | None = None
    process_name: str = ""
    thread: int | None = None
    thread_name: str = ""
    counter: tuple[str, int, bool] | None = None  # unit, factor, whether it prints differences


class Tracks(Struct):
    """The tracks of one file by their numbers. `process_names`: names of processes by number."""

    process_names: dict[int, str] = field(default_factory=dict)
    _tracks: dict[int, _Described] = field(default_factory=dict)
    _of_generation: dict[int, tuple[int | None, int | None, str]] = field(default_factory=dict)
    _work_tracks: dict[int, Callable[[str], bool]] = field(default_factory=dict)  # by the number of the parent

    def learn(self, packets: Packets) -> None:
        """Remember the tracks that packets describe."""
        _, described = packets.fields.messages(_DESCRIPTOR)
        self._learn_tracks(described)
        self._work_tracks = {}
        owner, threads = packets.fields.messages(_THREAD_OF_PACKET)  # until 2019: of all events of the sequence
        names = _texts(threads, _THREAD_NAME)
        numbers = zip(
            owner.tolist(), threads.integers(_PID, 0).tolist(), threads.integers(_TID, 0).tolist(), strict=True
        )
        for row, (packet, process, thread) in enumerate(numbers):
            self._of_generation[int(packets.generation[packet])] = process, thread, names.get(row, "")
        _, processes = packets.fields.messages(_PROCESS_OF_PACKET)
        self._name_processes(processes)

    def _name_processes(self, processes: FieldColumns) -> None:
        names = _texts(processes, _PROCESS_NAME)
        for row, number in enumerate(processes.integers(_PID, 0).tolist()):
            if name := names.get(row):
                self.process_names[number] = name

    def _learn_tracks(self, described: FieldColumns) -> None:
        names: dict[int, str] = {}
        for number in (_ATRACE_NAME, _STATIC_NAME, _NAME):
            names |= {row: name for row, name in _texts(described, number).items() if name}
        tracks = [self._tracks.setdefault(uuid, _Described()) for uuid in described.integers(_UUID, 0).tolist()]
        for row, (track, parent) in enumerate(zip(tracks, described.integers(_PARENT, 0).tolist(), strict=True)):
            track.name, track.parent = names.get(row, track.name), parent or track.parent
        owner, processes = described.messages(_PROCESS)
        self._name_processes(processes)
        for row, number in zip(owner.tolist(), processes.integers(_PID, 0).tolist(), strict=True):
            tracks[row].process = number
        owner, threads = described.messages(_THREAD)
        thread_names = _texts(threads, _THREAD_NAME)
        numbers = zip(
            owner.tolist(), threads.integers(_PID, 0).tolist(), threads.integers(_TID, 0).tolist(), strict=True
        )
        for index, (row, process, thread) in enumerate(numbers):
            track = tracks[row]
            track.process, track.thread, track.thread_name = process, thread, thread_names.get(index, "")
        owner, counters = described.messages(_COUNTER)
        units = _texts(counters, _UNIT_NAME)
        columns = (
            counters.integers(_UNIT, 0),
            counters.integers(_UNIT_FACTOR, 1),
            counters.integers(_IS_DIFFERENCE, 0),
        )
        for index, row in enumerate(owner.tolist()):
            unit, factor, differs = (int(column[index]) for column in columns)
            tracks[row].counter = units.get(index) or _UNITS.get(unit, ""), factor, bool(differs)

    def track(self, uuid: int, generation: int) -> Track:
        """Return a track; number 0 is the thread of the sequence."""
        if uuid == 0 and generation in self._of_generation:
            process, thread, name = self._of_generation[generation]
            return Track(_text(process), name or _text(thread), None, MISSING, False)
        chain = self._chain(uuid)
        process = next((track.process for track in chain if track.process is not None), None)
        owner = next((track for track in chain if track.thread is not None), None)
        thread_name = "" if owner is None else owner.thread_name or str(owner.thread)
        own_name = chain[0].name if chain else ""
        is_thread = owner is not None and chain[0] is owner
        name = thread_name if is_thread and (owner and owner.thread_name) else own_name or thread_name
        if not name and uuid:
            name = f"track {uuid & 0xFFFFFFFFFFFFFFFF:x}"
        device, stream, work = self._device(chain)
        return Track(_text(process), name or None, device, stream, work)

    def name(self, uuid: int) -> str:
        """Return the name of a track."""
        return next((track.name for track in self._chain(uuid) if track.name), "")

    def counter(self, uuid: int) -> tuple[str, int, bool]:
        """Return the unit of a counter, the number that its values are counted in, and whether they are differences."""
        track = self._tracks.get(uuid)
        return (track.counter if track else None) or ("", 1, False)

    def _chain(self, uuid: int) -> list[_Described]:
        """Return a track and those around it."""
        chain: list[_Described] = []
        while uuid in self._tracks and len(chain) < _DEEPEST:
            chain.append(self._tracks[uuid])
            uuid = chain[-1].parent
        return chain

    def _device(self, chain: list[_Described]) -> tuple[int | None, int, bool]:
        names = [name for track in chain for name in (track.name, track.process_name) if name]
        names += [self.process_names.get(track.process, "") for track in chain if track.process is not None]
        for name in names:
            if match := _AGENT.match(name):
                return number_in_name(match[1], -1), number_in_name(match[2], MISSING), True
            if match := _ROCPROF_STREAM.match(name):
                return -1, number_in_name(match[1], MISSING), True
            number = device_number(name)
            if number is not None:
                return number, stream_number(chain[0].name), self._is_work(chain[0])
        return None, MISSING, False

    def _is_work(self, track: _Described) -> bool:
        """Return whether the events of a track of a device are its work, by its name and those beside it."""
        if not self._work_tracks:
            names = grouped((described.parent, described.name) for described in self._tracks.values())
            self._work_tracks = {parent: work_tracks(beside) for parent, beside in names.items()}
        return self._work_tracks[track.parent](track.name)


def _texts(messages: FieldColumns, number: int) -> dict[int, str]:
    """Return the last string of a field by message, for messages that have it."""
    owner, starts, ends = messages.contents(number)
    spans = zip(owner.tolist(), starts.tolist(), ends.tolist(), strict=True)
    return {row: messages.text_at(start, end) for row, start, end in spans}


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)
