"""Launches in traces: which call of the host launched the work of a device, when and in which thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct

from perflog.arrays import Ints, Mask
from perflog.grouping import grouped
from perflog.metrics.run_tables import Tables, cached
from perflog.metrics.traces.device_work import TraceDevice, has_times, trace_devices
from perflog.statistics.groups import groups_of
from perflog.tables.arrow import Where, one_of
from perflog.tables.columns import NULL, Rows, rows_from_arrow

Thread = tuple[str | None, str | None]
"""Process and thread, as named in the trace."""


class Launches(Struct, frozen=True, eq=False):
    """The launch of each piece of work of a device: start and end of the call in ns, and its thread as an index.

    The call is the only one of the runtime with the correlation number of the work, in its process where the work names
    it: databases hold several processes, and each numbers its calls from 1. Else it is the only operator with its
    external number, as in traces of PyTorch before 2022. A number of several calls does not identify one of them.
    `is_operator` flags launches found by an operator. Where no call is known, the numbers are NULL.
    """

    starts: Ints
    ends: Ints
    threads: Ints
    names: Sequence[Thread]
    is_operator: Mask


def launches_by_file(tables: Tables) -> Iterator[_FileLaunches]:
    """Yield the devices of each file with their launches, one file after the other.

    Args:
        tables: Tables of the runs.

    Yields:
        Run and part of the file, and its devices as in `trace_devices`. Files without a call of the runtime come last.
    """
    devices = grouped(((device.run, device.part), device) for device in trace_devices(tables))
    if len(devices) == 1:  # several metrics ask for the launches of the only file
        yield from cached(tables, "launches of the only file", lambda: list(_found_by_file(tables, devices)))
    else:
        yield from _found_by_file(tables, devices)


_FileLaunches = tuple[tuple[str, int], list[tuple[TraceDevice, Launches]]]


def _found_by_file(tables: Tables, devices: dict[tuple[str, int], list[TraceDevice]]) -> Iterator[_FileLaunches]:
    for file, events in tables.arrow_by_file("events", {"kind": one_of("runtime")}, "correlation", *_TIMES):
        if file_devices := devices.pop(file, []):
            calls = _FileCalls(rows_from_arrow(events))
            launches = [(device, _launches(device, calls, tables)) for device in file_devices]
            del events, calls  # the caller needs the memory
            yield file, launches
    for file, file_devices in devices.items():
        yield file, [(device, _launches(device, None, tables)) for device in file_devices]


_TIMES = ("process", "thread", "start_ns", "duration_ns")


class Calls:
    """Calls with a unique number, in order of the number."""

    def __init__(self, rows: Rows, number: str) -> None:
        self.numbers, rows = numbered_once(rows.where(rows.known(number) & has_times(rows)), number)
        self.starts, self.lengths = rows["start_ns"], rows["duration_ns"]
        self.threads, self.names = threads_of(rows)

    def places(self, numbers: Ints) -> Ints:
        """Return the index of the call of each number, or -1."""
        return places_of(self.numbers, numbers)


class _FileCalls:
    """The calls of the runtime in a file, of all its processes or of one."""

    def __init__(self, rows: Rows) -> None:
        self._rows, (self._codes, words) = rows, rows.codes("process")
        self.processes = {words[code]: code for code in np.unique(self._codes).tolist() if code >= 0}
        self._found: dict[str | None, Calls] = {}

    def of(self, process: str | None) -> Calls:
        """Return the calls of a process; None: of all."""
        if process not in self._found:
            rows = self._rows if process is None else self._rows.where(self._codes == self.processes[process])
            self._found[process] = Calls(rows, "correlation")
        return self._found[process]

    def by_process(self, rows: Rows) -> Iterator[tuple[Ints, Calls]]:
        """Yield indices of rows with the calls of their process; with all calls where none of these launched any."""
        codes, words = rows.codes("process")
        for code in np.unique(codes).tolist():
            index = np.flatnonzero(codes == code)
            own = self.of(words[code] if code >= 0 and words[code] in self.processes else None)
            yield index, own if (own.places(rows["correlation"][index]) >= 0).any() else self.of(None)


def numbered_once(rows: Rows, number: str) -> tuple[Ints, Rows]:
    """Return the rows with a unique number, in order of the number, and these numbers."""
    numbers = rows[number]
    if (np.diff(numbers) <= 0).any():  # as they mostly are not
        numbers, first, times = np.unique(numbers, return_index=True, return_counts=True)
        numbers, rows = numbers[times == 1], rows.where(first[times == 1])
    return numbers, rows


def places_of(numbers: Ints, wanted: Ints) -> Ints:
    """Return the index of each wanted number among ascending ones, or -1."""
    if not len(numbers):
        return np.full(len(wanted), -1, np.int64)
    match = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
    return np.where(numbers[match] == wanted, match, -1)


def threads_of(rows: Rows) -> tuple[Ints, list[Thread]]:
    """Return the threads of rows of table `events` as codes, and the threads of the codes."""
    (process, processes), (thread, threads) = rows.codes("process"), rows.codes("thread")
    pairs = groups_of(process, thread)
    names = zip(process[pairs.first].tolist(), thread[pairs.first].tolist(), strict=True)
    return pairs.inverse, [(_word(processes, i), _word(threads, j)) for i, j in names]


def _word(words: Sequence[str], code: int) -> str | None:
    return words[code] if code >= 0 else None


def _launches(device: TraceDevice, calls: _FileCalls | None, tables: Tables) -> Launches:
    rows = device.work.rows
    starts, ends, threads = (np.full(len(rows), NULL, np.int64) for _ in range(3))
    is_operator = np.zeros(len(rows), np.bool_)
    names: list[Thread] = []

    def fill(index: Ints, calls: Calls, rows: Ints) -> None:
        index, rows = index[rows >= 0], rows[rows >= 0]
        starts[index], ends[index] = calls.starts[rows], calls.starts[rows] + calls.lengths[rows]
        threads[index] = calls.threads[rows] + len(names)
        names.extend(calls.names)

    for index, own_calls in calls.by_process(rows) if calls is not None else ():
        fill(index, own_calls, own_calls.places(rows["correlation"][index]))
    open_ = np.flatnonzero((starts == NULL) & rows.known("external"))
    if len(open_):
        operators = _operators(device, tables)
        if operators is not None:
            fill(open_, operators, operators.places(rows["external"][open_]))
        is_operator[open_] = starts[open_] != NULL
    return Launches(starts, ends, threads, names, is_operator)


def _operators(device: TraceDevice, tables: Tables) -> Calls | None:
    """The operators of the file of a device by their external numbers; None if it has no operators."""
    where: Where = {"kind": one_of("cpu"), "run": one_of(device.run), "part": one_of(device.part)}
    for _, events in tables.arrow_by_file("events", where, "external", *_TIMES):
        return Calls(rows_from_arrow(events), "external")
    return None
