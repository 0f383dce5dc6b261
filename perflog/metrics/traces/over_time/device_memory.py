"""Memory of devices in traces: how much was allocated and reserved after each event, and which blocks live when.

A profiler writes an event for each block that is allocated or freed, and PyTorch's adds the totals of its allocator.
If it prints them, they are the curve. Else the curve is the sum of the blocks with an allocation in the trace; memory
that was allocated before the trace began is not known then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

import numpy as np
from msgspec import Struct

from perflog.arrays import Ints, Mask
from perflog.metrics.run_tables import Tables, computed_list
from perflog.metrics.traces.device_steps import NO_STEPS, TraceSteps
from perflog.metrics.traces.device_work import step_windows
from perflog.statistics.groups import groups_of
from perflog.tables.arrow import Where, index_array, one_of
from perflog.tables.columns import NULL, Rows, rows_from_arrow

ALLOCATED, RESERVED = "allocated", "reserved"
ALLOCATOR_TOTALS = {f"{where} memory {total}": total for where in ("device", "host") for total in (ALLOCATED, RESERVED)}
"""Counters of table `counters` that PyTorch's allocators print: whether they are of allocated or reserved memory."""
_COLUMNS = ("rank", "name", "device", "device_name", "process", "thread", "start_ns", "bytes", "address", "correlation")


class Blocks(Struct, frozen=True, eq=False):
    """Blocks of memory with an allocation in the trace: number of the event that allocated each, and of its end.

    The end is the event that freed it, or that allocated its address again: then the event that freed it is missing in
    the trace. A block that outlives the trace ends after the last event.
    """

    born: Ints
    ends: Ints
    sizes: Ints


class MemoryCurve(Struct, frozen=True, eq=False, dict=True):
    """The memory of a device, or of the host, for one process of a file: an entry for each event, in order of time.

    `rows`: rows of table `events`: line, start_ns, bytes, process, thread, correlation. `totals`: allocated and
    reserved memory after each event in bytes, NULL where the trace does not print it. `freed_unknown`: bytes that were
    freed and have no allocation in the trace.
    """

    run: str
    part: int
    rank: int | None
    process: str | None
    device: int | None
    device_name: str | None
    steps: TraceSteps
    rows: Rows
    totals: Mapping[str, Ints]
    blocks: Blocks
    freed_unknown: int

    @property
    def times(self) -> Ints:
        times: Ints = self.rows["start_ns"]
        return times

    @cached_property
    def live(self) -> Ints:
        """Bytes of the blocks that live after each event."""
        return self.bytes_of(np.ones(len(self.blocks.born), np.bool_))

    def bytes_of(self, chosen: Mask) -> Ints:
        """Return the bytes of the chosen blocks that live after each event."""
        blocks, change = self.blocks, np.zeros(len(self.rows) + 1, np.int64)
        np.add.at(change, blocks.born[chosen], blocks.sizes[chosen])
        np.subtract.at(change, blocks.ends[chosen], blocks.sizes[chosen])
        return np.cumsum(change[:-1])

    @property
    def is_printed(self) -> bool:
        """Whether the trace prints how much is allocated."""
        return bool((self.totals[ALLOCATED] != NULL).any())

    @cached_property
    def allocated(self) -> Ints:
        """Bytes that are allocated after each event: as printed, else of the blocks."""
        return carried(self.totals[ALLOCATED]) if self.is_printed else self.live

    @cached_property
    def reserved(self) -> Ints | None:
        """Bytes that the allocator holds after each event; None if the trace does not print it."""
        known = self.totals[RESERVED]
        # PyTorch prints 0 for the host: its allocator reserves nothing.
        return carried(known) if (known > 0).any() else None

    @cached_property
    def peak(self) -> int:
        """Number of the first event after which most is allocated."""
        return int(self.allocated.argmax())

    def living(self, event: int) -> Ints:
        """Return the blocks that live after an event."""
        return np.flatnonzero((self.blocks.born <= event) & (self.blocks.ends > event))

    def step_at(self, event: int) -> int | None:
        """Return the number of the step in which an event lies."""
        time, steps = self.times[event], self.steps
        inside = np.flatnonzero((steps.starts <= time) & (time < steps.ends))
        return int(steps.numbers[inside[0]]) if len(inside) else None

    def before(self, times: Ints) -> Ints:
        """Return the number of the last event before each time, -1 if there is none."""
        return np.searchsorted(self.times, times, "left") - 1


def carried(values: Ints) -> Ints:
    """Return numbers with each NULL replaced by the last known one; before the first known one, by that one."""
    known = np.flatnonzero(values != NULL)
    if not len(known):
        return values
    last = np.maximum(np.searchsorted(known, np.arange(len(values)), "right") - 1, 0)
    filled: Ints = values[known[last]]
    return filled


@computed_list
def device_memory(tables: Tables) -> Iterator[MemoryCurve]:
    """Return the memory of devices and hosts in all traces, in order of run, file and device."""
    windows, totals = step_windows(tables), _printed_totals(tables)
    for file, events in tables.arrow_by_file("events", {"kind": one_of("memory")}, *_COLUMNS):
        rows = rows_from_arrow(events)
        index = np.flatnonzero(rows.known("start_ns", "bytes"))
        for device_rows in _by_device(rows, index):
            order = device_rows[np.lexsort((rows["line"][device_rows], rows["start_ns"][device_rows]))]
            own = rows_from_arrow(events.take(index_array(order)))
            blocks, freed_unknown = _blocks(own["address"], own["bytes"])
            rank, device = (_only(own[name]) for name in ("rank", "device"))
            process, name = (own.first_word(column) for column in ("process", "device_name"))
            yield MemoryCurve(
                *(*file, rank, process, device, name),
                _steps_of(process, windows.get(file, {})),
                own,
                {
                    total: _value_by_line(own["line"], *totals.get(file, {}).get(total, _NONE))
                    for total in (ALLOCATED, RESERVED)
                },
                blocks,
                freed_unknown,
            )


_NONE = (np.zeros(0, np.int64), np.zeros(0, np.int64))


def _printed_totals(tables: Tables) -> dict[tuple[str, int], dict[str, tuple[Ints, Ints]]]:
    """The printed totals of each file: by name the lines of the events that print them, and the bytes."""
    printed: dict[tuple[str, int], dict[str, tuple[Ints, Ints]]] = {}
    where: Where = {"name": one_of(*ALLOCATOR_TOTALS)}
    for file, readings in tables.arrow_by_file("counters", where, "name", "value"):
        rows = rows_from_arrow(readings)
        codes, names = rows.codes("name")
        for total in (ALLOCATED, RESERVED):
            chosen = np.array([ALLOCATOR_TOTALS.get(name) == total for name in names], np.bool_)[codes] & rows.known(
                "value"
            )
            if chosen.any():
                lines, values = rows["line"][chosen], rows["value"][chosen].astype(np.int64)
                order = np.argsort(lines, kind="stable")
                printed.setdefault(file, {})[total] = lines[order], values[order]
    return printed


def _value_by_line(lines: Ints, known: Ints, values: Ints) -> Ints:
    """The value of each line; NULL where none is known."""
    if not len(known):
        return np.full(len(lines), NULL, np.int64)
    index = np.minimum(np.searchsorted(known, lines), len(known) - 1)
    return np.where(known[index] == lines, values[index], NULL)


def _by_device(rows: Rows, index: Ints) -> Iterator[Ints]:
    """Yield the events of each device of each process and rank; the host's come last."""
    device = np.where(rows["device"][index] == NULL, np.iinfo(np.int64).max, rows["device"][index])
    alike = groups_of(rows["rank"][index], device, rows.codes("process")[0][index])
    in_groups = index[np.argsort(alike.inverse, kind="stable")]
    yield from np.split(in_groups, np.cumsum(alike.sizes)[:-1]) if len(index) else ()


def _only(values: Ints) -> int | None:
    return None if values[0] == NULL else int(values[0])


def _steps_of(process: str | None, windows: Mapping[str | None, TraceSteps]) -> TraceSteps:
    """The steps of a process, or the only ones of the file."""
    if process in windows:
        return windows[process]
    return next(iter(windows.values())) if len(windows) == 1 else NO_STEPS


def _blocks(address: Ints, sizes: Ints) -> tuple[Blocks, int]:
    """Return the blocks that events in order of time allocate and free, and the bytes freed that no event allocated."""
    index = np.flatnonzero((address != NULL) & (sizes != 0))
    order = index[np.lexsort((index, address[index]))]
    allocates = sizes[order] > 0
    same_as_next = np.append(address[order][1:] == address[order][:-1], False)[: len(order)]
    ends = np.where(same_as_next, np.append(order[1:], 0)[: len(order)], len(address))
    follows = np.append(False, same_as_next[:-1] & allocates[:-1])[: len(order)]
    unknown = ~allocates & ~follows
    born = order[allocates]
    return Blocks(born, ends[allocates], sizes[born]), -int(sizes[order[unknown]].sum())


def memory_name(curve: MemoryCurve) -> str:
    """Return the owner of a memory curve: `memory of device 0 (rank 1)`."""
    owner = "the host" if curve.device is None else f"device {curve.device}"
    who = f"rank {curve.rank}" if curve.rank is not None else f"process {curve.process}" if curve.process else ""
    return f"memory of {owner}{f' ({who})' if who else ''}"
