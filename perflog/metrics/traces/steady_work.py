"""The work of devices of traces in each steady step of a run; without annotated steps, in the whole trace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct

from perflog.arrays import Ints
from perflog.grouping import grouped
from perflog.metrics.compared import Steady
from perflog.metrics.run_tables import Tables
from perflog.metrics.traces.device_steps import TraceSteps
from perflog.metrics.traces.device_work import TraceDevice, trace_devices

STEP, TRACE = "step", "trace"
"""The part of a trace that times of devices cover: the steady steps, or the whole trace."""


class SteadyDevices(Struct, frozen=True):
    """The devices of a run with work, and the steady steps that they have; None: they have no step in common."""

    run: str
    devices: Sequence[TraceDevice]
    steps: Ints | None

    @property
    def part(self) -> str:
        """What their times are of: STEP, or TRACE where they have no annotated steps."""
        return TRACE if self.steps is None else STEP


def devices_by_run(tables: Tables) -> dict[str, list[TraceDevice]]:
    """Return the devices of each run that has a trace."""
    return grouped(
        (device.run, device) for device in (trace_devices(tables) if tables.count("events") else ()) if device.busy
    )


def steady_devices(tables: Tables, steady: Steady) -> Iterator[SteadyDevices]:
    """Yield the devices of each run that is compared."""
    for run, devices in devices_by_run(tables).items():
        if run in steady.cuts:
            yield SteadyDevices(run, devices, steady_steps(devices, steady.first.get(run), steady.cuts[run]))


def steady_steps(devices: Sequence[TraceDevice], first: int | None, cut: int) -> Ints | None:
    """Return the steady steps that all devices of a run have: from step `first` on, or without the first `cut` steps.

    None where the devices have no annotated step in common.
    """
    common = devices[0].steps.numbers
    for device in devices[1:]:
        common = np.intersect1d(common, device.steps.numbers)
    if not len(common):
        return None
    return common[cut:] if first is None else common[common >= first]


def windows(device: TraceDevice, steps: Ints | None) -> tuple[Ints, Ints]:
    """Return starts and ends of these steps of a device; without steps, of the whole trace."""
    if steps is None:
        busy = device.work.busy
        return busy.starts[:1], busy.ends[-1:]
    order = np.argsort(device.steps.numbers)
    places = order[np.searchsorted(device.steps.numbers[order], steps)]
    return device.steps.starts[places], device.steps.ends[places]


def work_times(device: TraceDevice, steps: Ints | None, codes: Ints, size: int) -> Ints:
    """Return the time in ns of the events of each code, in each of these steps; without steps, of the whole trace.

    An event belongs to the step that launched it; if the trace does not state it, to the step in which it began.
    """
    work, number = device.work, 1 if steps is None else len(steps)
    sums = np.zeros(size * number, np.int64)
    place = places_of_work(device, steps)
    inside = place >= 0
    np.add.at(sums, codes[inside] * number + place[inside], (work.ends - work.starts)[inside])
    return sums.reshape(size, number)


def places_of_work(device: TraceDevice, steps: Ints | None) -> Ints:
    """Return the index of the step of each event among these steps, -1 if it is in none; without steps, 0."""
    if steps is None:
        return np.zeros(len(device.work.starts), np.int64)
    return _places(_step_of_event(device), steps)


def _places(step: Ints, steps: Ints) -> Ints:
    """Return the index of each step among some steps, -1 if it is none of them."""
    if not len(steps):
        return np.full(len(step), -1, np.int64)
    order = np.argsort(steps)
    match = order[np.minimum(np.searchsorted(steps, step, sorter=order), len(steps) - 1)]
    return np.where(steps[match] == step, match, -1)


def _step_of_event(device: TraceDevice) -> Ints:
    """The step of each event; -1 outside of all steps."""
    work = device.work
    if work.rows.known("step").any():
        launched_by: Ints = work.rows["step"]
        return launched_by
    return step_at(device.steps, work.starts)


def step_at(steps: TraceSteps, times: Ints) -> Ints:
    """Return the step in which each time lies; -1 outside of all steps."""
    last_begun = np.searchsorted(steps.starts, times, "right") - 1
    inside = (last_begun >= 0) & (times < np.append(steps.ends, 0)[last_begun])
    return np.where(inside, np.append(steps.numbers, -1)[last_begun], -1)
