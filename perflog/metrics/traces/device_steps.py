"""Annotated steps as windows of time: on the host as they are annotated, and on a device with the work of each.

A step on a device begins with its annotation, or later if work from before still runs. It ends when the host has left
the annotation and the work that the step launched is done, or the work of a later step begins. So windows of steps in a
row touch and do not overlap, and work that runs after the annotation of its step is no time of the next one.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from perflog.arrays import Ints
from perflog.tables.columns import NULL

_FAR = np.iinfo(np.int64).max


class TraceSteps(Struct, frozen=True):
    """Time windows of the annotated steps of a file, in order of time, on its host's clock in ns.

    Step `numbers[i]` lasts from `starts[i]` to `ends[i]`; line `lines[i]` of the file holds its annotation.
    """

    numbers: Ints
    starts: Ints
    ends: Ints
    lines: Ints


NO_STEPS = TraceSteps(*(np.zeros(0, np.int64) for _ in range(4)))


def on_device(annotated: TraceSteps, begins: Ints, ends: Ints, launched_in: Ints) -> TraceSteps:
    """Return the steps as windows of a device.

    Args:
        annotated: The steps as the host annotates them.
        begins: Begin of each piece of work of the device, in order.
        ends: End of each.
        launched_in: Number of the step that launched each, or NULL.
    """
    steps = annotated
    if not len(steps.numbers) or not (launched_in != NULL).any():
        return steps
    order = np.argsort(steps.numbers)
    match = np.minimum(np.searchsorted(steps.numbers[order], launched_in), len(order) - 1)
    own = steps.numbers[order][match] == launched_in
    step_of_work = order[match[own]]
    first, last = np.full(len(order), _FAR), steps.ends.copy()
    np.minimum.at(first, step_of_work, begins[own])
    np.maximum.at(last, step_of_work, ends[own])
    later = np.append(np.minimum.accumulate(first[::-1])[::-1][1:], _FAR)  # the first work of all steps after it
    until = np.maximum.accumulate(np.maximum(steps.ends, np.minimum(last, later)))
    still = _running(steps.starts, begins[~own], ends[~own])
    since = np.maximum(steps.starts, np.minimum(np.minimum(still, first), until))
    since[1:] = np.maximum(since[1:], until[:-1])
    return TraceSteps(steps.numbers, since, until, steps.lines)


def _running(times: Ints, begins: Ints, ends: Ints) -> Ints:
    """Return when the work that began before each time has ended; 0 if there is none. `begins` are in order."""
    reach = np.append(0, np.maximum.accumulate(ends))
    return reach[np.searchsorted(begins, times)]
