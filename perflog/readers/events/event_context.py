"""The step and the range of each event, known only after all ranges and calls of its file have been read.

A kernel is in the step and range in which it was launched, found through the correlation number of the call. An event
of the host is in the step of its process and in the innermost range of its thread.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from perflog.arrays import Codes, Ints, Mask
from perflog.lazy_patterns import lazy_pattern
from perflog.readers.events.event_columns import (
    KIND_CODE,
    MISSING,
    EventColumns,
    distinct_rows,
    distinct_values,
    on_device,
)
from perflog.readers.events.event_table import EventOrigin, by_process
from perflog.readers.events.interval_index import IntervalIndex
from perflog.readers.events.string_interning import Interners, StringInterner
from perflog.units import STEP_NAMES

STEP_NAME = lazy_pattern(rf"(?:profiler|train(?:ing)?)?[ _]?(?:{STEP_NAMES})[ _#:=-]*(\d{{1,9}})$", re.IGNORECASE)
"""Name of a range that is a training step. Nine digits at most, so that the number fits 32 bits."""
_PROFILER = "ProfilerStep"

_RANGE, _DEVICE_RANGE, _CALL = KIND_CODE["range"], KIND_CODE["device_range"], KIND_CODE["runtime"]
_RANGE_COLUMNS = ("kind", "name", "process", "thread", "start", "duration", "place", "is_step")
_CALL_COLUMNS = ("correlation", "process", "thread", "start")
_LAUNCH_COLUMNS = ("correlation", "step", "range")


def step_codes(codes: npt.NDArray[Any], names: Sequence[str], step_name: re.Pattern[str] = STEP_NAME) -> Codes:
    """Return the codes with names that are training steps."""
    steps = [code for code in np.unique(codes).tolist() if code >= 0 and step_name.match(names[code])]
    return np.array(steps, np.int32)


def select_ranges(rows: EventColumns, steps: Codes) -> EventColumns:
    """Return the ranges among events, and the training steps of any kind. `steps`: codes of the names of steps."""
    is_step = np.isin(rows["name"], steps)
    chosen = np.flatnonzero((rows["kind"] == _RANGE) | is_step)
    rows = rows | {"is_step": is_step}
    return {name: rows[name][chosen] for name in _RANGE_COLUMNS}


def select_calls(rows: EventColumns) -> EventColumns:
    """Return the calls among events that started work on a device."""
    chosen = np.flatnonzero((rows["kind"] == _CALL) & (rows["correlation"] != MISSING))
    return {name: rows[name][chosen] for name in _CALL_COLUMNS}


class EventContext:
    """Fills in the step and the range of events.

    `ranges` are the results of `select_ranges` for the file. `host_steps` holds number, position, duration and
    start in nanoseconds of each training step on the host, in order; `host_step_processes` the code of its process.
    `step_name` matches the name of a step up to its number, its first group. By default, of ranges with several such
    names, the profiler's own are steps, else those that take longest.
    """

    def __init__(
        self, ranges: Sequence[EventColumns], interners: Interners, step_name: re.Pattern[str] = STEP_NAME
    ) -> None:
        self._step_name, self._interners = step_name, interners
        every, names = _concatenate(ranges, _RANGE_COLUMNS), interners["name"].texts
        has_end, is_step = every["duration"] >= 0, self._are_steps(every, names)
        self._index_steps(_filter(every, has_end & is_step), names)
        self._index_ranges(_filter(every, has_end & ~is_step & (every["kind"] == _RANGE)), names, interners["range"])
        self._new_calls: list[EventColumns] = []
        self._launches = _concatenate([], _LAUNCH_COLUMNS)

    def steps_of(self, origins: Sequence[EventOrigin]) -> list[tuple[EventOrigin, int, int, int, int]]:
        """Return the steps of the host with the origin of each, by their processes, as `RunWriter` writes them."""
        named = by_process(origins, self.host_step_processes, self._interners["process"].texts)
        return [(origin, *step) for origin, step in zip(named, self.host_steps, strict=True)]

    def add_calls(self, calls: EventColumns) -> None:
        """Remember the step and range of calls, for the work that they start on a device."""
        self._remember(calls, *self._on_host(calls))

    def fill(self, rows: EventColumns, calls: bool = False) -> EventColumns:
        """Return the events with columns `step` and `range`. The calls that started them must have been added.

        `calls`: the events are calls, which are remembered as in `add_calls`.
        """
        kind = rows["kind"]
        device = on_device(kind)
        # On a device the ranges of the host say nothing; the steps that are shown on the event's own stream do.
        device_side = device | (kind == _DEVICE_RANGE)
        if device_side.all():
            step, range_code = self._on_stream(rows), np.full(len(kind), -1, np.int64)
        else:
            step, range_code = self._on_host(rows)
            if calls:
                self._remember(rows, step, range_code)
            index = np.flatnonzero(device_side)
            range_code[index] = -1
            step[index] = self._on_stream({name: rows[name][index] for name in ("process", "thread", "start")})
        self._fill_from_calls(rows["correlation"], np.flatnonzero(device), step, range_code)
        self._replace_by_parents(rows, np.flatnonzero(kind == _RANGE), range_code)
        return rows | {"step": np.where(step < 0, MISSING, step), "range": range_code}

    def _on_host(self, rows: EventColumns) -> tuple[Ints, Ints]:
        """Return the step and the range of events of the host, or -1."""
        lane, time = thread_lane(rows), rows["start"]
        return self._steps_of_process.find(lane >> 32, time), self._ranges_of_thread.find(lane, time)

    def _on_stream(self, rows: EventColumns) -> Ints:
        """Return the step that is shown on the stream of events, or -1."""
        return self._steps_of_stream.find(thread_lane(rows), rows["start"])

    def _remember(self, calls: EventColumns, step: Ints, range_code: Ints) -> None:
        chosen = np.flatnonzero((step >= 0) | (range_code >= 0))  # the other calls add nothing
        columns = calls["correlation"][chosen], step[chosen].astype(np.int32), range_code[chosen].astype(np.int32)
        self._new_calls.append(dict(zip(_LAUNCH_COLUMNS, columns, strict=True)))

    def _index_steps(self, steps: EventColumns, names: Sequence[str]) -> None:
        """Index steps by process on the host, and by stream where they are shown on a device."""
        numbers = np.array([self._step_number(names[code]) for code in steps["name"].tolist()], np.int64)
        end, shown_on_device = _end(steps), steps["kind"] == _DEVICE_RANGE
        lane, process, host = thread_lane(steps), steps["process"].astype(np.int64), ~shown_on_device
        self._steps_of_process = IntervalIndex(process[host], steps["start"][host], end[host], numbers[host])
        self._steps_of_stream = IntervalIndex(
            lane[shown_on_device], steps["start"][shown_on_device], end[shown_on_device], numbers[shown_on_device]
        )
        order = np.flatnonzero(host)[np.lexsort((steps["place"][host], numbers[host]))]
        columns = (numbers, steps["place"], steps["duration"], steps["start"])
        self.host_steps: list[tuple[int, int, int, int]] = list(zip(*(c[order].tolist() for c in columns), strict=True))
        self.host_step_processes: list[int] = steps["process"][order].tolist()

    def _are_steps(self, ranges: EventColumns, names: Sequence[str]) -> Mask:
        """Flag the ranges of the name that numbers the steps."""
        flags: Mask = ranges["is_step"].astype(np.bool_)
        codes, index = distinct_values(ranges["name"][flags].astype(np.int64))
        matches = [self._step_name.match(names[code]) for code in codes.tolist()]
        prefixes = [match.string[: match.start(1)] if match else "" for match in matches]
        if self._step_name is not STEP_NAME or len(set(prefixes)) < 2:
            return flags
        times = np.bincount(index, np.maximum(ranges["duration"][flags], 0), len(codes)).tolist()
        totals = dict.fromkeys(prefixes, 0.0)
        for prefix, time in zip(prefixes, times, strict=True):
            totals[prefix] += time
        longest = max(totals, key=lambda prefix: (prefix.startswith(_PROFILER), totals[prefix]))
        return flags & np.isin(ranges["name"], [c for c, p in zip(codes, prefixes, strict=True) if p == longest])

    def _step_number(self, name: str) -> int:
        match = self._step_name.match(name)
        return int(match[1]) if match else -1

    def _index_ranges(self, ranges: EventColumns, names: Sequence[str], interner: StringInterner) -> None:
        first, index = distinct_rows(ranges["name"].astype(np.int64))
        codes = [interner.code(names[code]) if code >= 0 else -1 for code in ranges["name"][first].tolist()]
        value = np.array(codes, np.int64)[index]
        self._ranges_of_thread = IntervalIndex(thread_lane(ranges), ranges["start"], _end(ranges), value)
        order = np.argsort(ranges["place"])
        self._range_places, self._range_parents = ranges["place"][order], self._ranges_of_thread.parents[order]

    def _fill_from_calls(self, correlation: Ints, device: Ints, step: Ints, range_code: Ints) -> None:
        """Give work on a device the step and range of the call that started it."""
        if not len(device):
            return
        if self._new_calls:
            launches = _concatenate([self._launches, *self._new_calls], _LAUNCH_COLUMNS)
            number, self._new_calls = launches["correlation"], []
            in_order = bool((number[1:] >= number[:-1]).all())
            order = slice(None) if in_order else np.argsort(number, kind="stable")
            self._launches = {name: column[order] for name, column in launches.items()}
        known = self._launches["correlation"]
        if not len(known):
            return
        number = correlation[device]
        index = np.minimum(np.searchsorted(known, number), len(known) - 1)
        launched = np.flatnonzero((known[index] == number) & (number != MISSING))
        device, index = device[launched], index[launched]
        step[device], range_code[device] = self._launches["step"][index], self._launches["range"][index]

    def _replace_by_parents(self, rows: EventColumns, ranges: Ints, range_code: Ints) -> None:
        """Give each range its parent. Its start is inside itself, so the index finds the range and not the parent."""
        if len(ranges) and len(self._range_places):
            places = rows["place"][ranges]
            index = np.minimum(np.searchsorted(self._range_places, places), len(self._range_places) - 1)
            same = self._range_places[index] == places
            range_code[ranges[same]] = self._range_parents[index[same]]


def thread_lane(columns: EventColumns) -> Ints:
    """Return process and thread of each event as one number."""
    return (columns["process"].astype(np.int64) << 32) | (columns["thread"].astype(np.int64) & 0xFFFFFFFF)


def _end(columns: EventColumns) -> Ints:
    """Return the ends of ranges; the last nanosecond that 64 bits hold where the end is beyond it."""
    start, duration, last = columns["start"], columns["duration"], np.iinfo(np.int64).max
    return np.where(start > last - duration, last, start + duration)


def _concatenate(pieces: Sequence[EventColumns], names: Sequence[str]) -> EventColumns:
    empty = np.zeros(0, np.int64)
    filled = [piece for piece in pieces if len(piece[names[0]])]
    return {name: np.concatenate([piece[name] for piece in filled]) if filled else empty for name in names}


def _filter(columns: EventColumns, mask: Mask) -> EventColumns:
    return {name: column[mask] for name, column in columns.items()}
