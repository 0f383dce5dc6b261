"""Idle time of devices by its cause: what the host did, and how late the device began what was launched.

The causes are sets of time. They do not overlap, and together they are the idle time of a device.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from perflog.arrays import Ints, Mask
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics.profiles.kernel_categories import category
from perflog.metrics.run_tables import Tables
from perflog.metrics.traces.device_work import TraceDevice, has_times
from perflog.metrics.traces.intervals import EMPTY, Intervals, union
from perflog.metrics.traces.launches import Launches, launches_by_file, threads_of
from perflog.tables.arrow import Where, one_of
from perflog.tables.columns import NULL, rows_from_arrow

CAUSES = {
    "data": "the next work is not launched, and the host is in a range that loads data",
    "sync": "the next work is not launched, and the thread that launches it has waited for the device meanwhile",
    "host": "the next work is not launched, for other reasons, or the call that launches it still runs after `launch`",
    "launch": "the next work is launched, at most three times latency_s before",
    "waiting": "the next work is launched, longer before, and the call has returned: it waits for an event, another "
    "stream or another rank",
    "unknown": "the trace does not show when the next work was launched",
}
"""The causes of idle time, and when each holds."""

USUAL = 3
"""A launch that takes longer than this many medians waits for something else."""

DATA_RANGE = lazy_pattern(r"data_?load|load_?data|(get|next|fetch)_?batch", re.IGNORECASE)
"""Names of host ranges in which a program loads data."""


class DeviceIdle(Struct, frozen=True, eq=False):
    """Idle time of a device by cause, as sets of time: from its first work, or step, to the end of the last.

    `latency_ns`: the usual time from a launch to its work: the median of the launches that found the device idle; None
    if there are none.
    """

    device: TraceDevice
    launches: Launches
    data: Intervals
    sync: Intervals
    host: Intervals
    launch: Intervals
    waiting: Intervals
    unknown: Intervals
    latency_ns: float | None


def idle_causes(tables: Tables) -> Iterator[DeviceIdle]:
    """Yield the idle time of each device with work, file by file."""
    loading, waits = _loading(tables), _waits(tables)
    for file, devices in launches_by_file(tables):
        for device, launches in devices:
            if device.span:
                yield _idle(device, launches, loading.get(file, EMPTY), waits.get(file, {}))


def _idle(device: TraceDevice, launches: Launches, loading: Intervals, waits: dict[object, Ints]) -> DeviceIdle:
    """Divide each gap in the work of a device at the launch of the work that ends it.

    After the last work nothing more is launched, as far as the trace shows launches.
    """
    work, (since, until_end) = device.work, _whole(device)
    begins, ends = np.append(since, work.busy.ends[:-1]), work.busy.starts
    next_work = np.searchsorted(work.starts, ends)
    launched = launches.starts[next_work]
    known = (launched != NULL) & ~launches.is_operator[next_work]  # an operator begins before it launches
    after_last = union(work.busy.ends[-1:], np.array([until_end]))
    gaps = union(begins[~known], ends[~known])
    if not known.any():
        gaps, after_last = gaps | after_last, EMPTY
    begins, ends, launched, next_work = begins[known], ends[known], launched[known], next_work[known]
    until = np.clip(launched, begins, ends)
    inner = begins > since  # before the first work the device is not idle again
    late = (launched >= begins) & inner
    latency = float(np.median((ends - launched)[late])) if late.any() else None
    started = np.clip(launched + round(USUAL * (latency or 0)), until, ends)
    returned = np.clip(launches.ends[next_work], started, ends)  # a call that loads the module of its kernel takes long
    after_wait = _waited(launches, next_work, begins, launched, waits) & inner
    empty = union(begins, until) | union(started, returned) | after_last
    synced = union(begins[after_wait], until[after_wait])
    data = empty & loading
    return DeviceIdle(
        device, launches,
        data=data, sync=synced - data, host=empty - (synced | data),
        launch=union(until, started), waiting=union(returned, ends), unknown=gaps, latency_ns=latency,
    )  # fmt: skip


def _whole(device: TraceDevice) -> tuple[int, int]:
    """Begin and end of all that is asked about: of the work of a device, and of its steps."""
    busy, steps = device.work.busy, device.steps
    begins, ends = np.append(steps.starts, busy.starts[:1]), np.append(steps.ends, busy.ends[-1:])
    return int(begins.min()), int(ends.max())


def _waited(launches: Launches, next_work: Ints, gap_begins: Ints, launched: Ints, waits: dict[object, Ints]) -> Mask:
    """Flag the gaps in which the launching thread returned from a call that waits for the device, before the launch."""
    flags = np.zeros(len(next_work), np.bool_)
    threads = launches.threads[next_work]
    for code, thread in enumerate(launches.names):
        if (returns := waits.get(thread)) is not None:
            index = np.flatnonzero(threads == code)
            last = np.searchsorted(returns, launched[index], "right") - 1
            flags[index] = (last >= 0) & (returns[last] >= gap_begins[index])
    return flags


def _loading(tables: Tables) -> dict[tuple[str, int], Intervals]:
    """Time in which the host is in a range that loads data, by run and file."""
    where: Where = {"kind": one_of("range", "cpu"), "name": lambda name: name and DATA_RANGE.search(name)}
    found = {}
    for file, events in tables.arrow_by_file("events", where, "start_ns", "duration_ns"):
        rows = rows_from_arrow(events)
        rows = rows.where(has_times(rows))
        found[file] = union(rows["start_ns"], rows["start_ns"] + rows["duration_ns"])
    return found


def _waits(tables: Tables) -> dict[tuple[str, int], dict[object, Ints]]:
    """Times at which the calls of each thread return that wait for the device, by run and file."""
    where: Where = {"kind": one_of("runtime"), "name": lambda name: name and is_wait(name)}
    found: dict[tuple[str, int], dict[object, Ints]] = {}
    for file, events in tables.arrow_by_file("events", where, "process", "thread", "start_ns", "duration_ns"):
        rows = rows_from_arrow(events)
        rows = rows.where(has_times(rows))
        codes, threads = threads_of(rows)
        ends = rows["start_ns"] + rows["duration_ns"]
        found[file] = {thread: np.sort(ends[codes == code]) for code, thread in enumerate(threads)}
    return found


def is_wait(name: str) -> bool:
    """Return whether a call of the runtime holds the host until the device has done something.

    Example:
        >>> is_wait("cudaStreamSynchronize"), is_wait("cudaStreamWaitEvent"), is_wait("cudaMemcpyAsync")
        (True, False, False)
    """
    lower = name.lower()
    if "synchronize" in lower:
        return True
    # All names of a trace are asked for, and the patterns of categories take long for names of kernels.
    return "memcpy" in lower and "async" not in lower and category(name, api=True) == "memcpy"
