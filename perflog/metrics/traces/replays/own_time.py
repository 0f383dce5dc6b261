"""What a device and its host did in given times: the work by state and name, the idle time by what the host was in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from perflog.arrays import Ints, Mask
from perflog.metrics.profiles.kernel_categories import ALLOCATION, category
from perflog.metrics.traces.call_tree import NO_CALL, CallTree
from perflog.metrics.traces.device_work import STATES, DeviceWork
from perflog.metrics.traces.intervals import Intervals, union
from perflog.metrics.traces.operators.device_ranges import range_of
from perflog.metrics.traces.replays.dependencies import Dependencies
from perflog.statistics.groups import groups_of
from perflog.tables.columns import NULL

IDLE = "idle"
"""What a device does while nothing runs on it."""

_CALLS = ("cpu", "runtime")  # kinds of calls that name what the host does where no range does


class OwnTime(NamedTuple):
    """How long a device did one thing, in ns.

    `doing`: a state of `STATES` or IDLE. `name`: of the work; of idle time what the host was in before it launched the
    next work: the range, or the call that allocates memory, else the operator or call. None: no call, or the next work
    was launched already.
    """

    doing: str
    name: str | None
    ns: int


def own_time(device_graph: Dependencies, starts: Ints, ends: Ints) -> list[OwnTime]:
    """Return what a device did in these times, which may overlap. All of it together is their union."""
    inside = union(starts, ends)
    return [*_working(device_graph.device.work, inside), *_idle(device_graph, inside)]


def _working(work: DeviceWork, inside: Intervals) -> Iterator[OwnTime]:
    """Yield states and names with their time, if no state of higher priority and no earlier piece runs."""
    states = np.array([STATES.index(state) for state in work.state_of], np.int64)[work.does]
    codes, words = work.rows.codes("name")
    in_state = work.states()
    for code, state in enumerate(STATES):
        index = np.flatnonzero(states == code)
        if len(index):
            begun, ended = work.starts[index], work.ends[index]
            begun = np.maximum(begun, np.append(begun[:1], np.maximum.accumulate(ended)[:-1]))
            times = inside.inside(begun, np.maximum(begun, ended))
            sums = np.bincount(codes[index] + 1, times, len(words) + 1)
            for name in np.flatnonzero(sums).tolist():
                yield OwnTime(state, words[name - 1] if name else None, round(sums[name]))
        inside = inside - in_state[state]


def idle_time(device_graph: Dependencies, inside: Intervals) -> Iterator[OwnTime]:
    """Yield the idle time before the next work is launched, by what the host is in; None: in no range or call."""
    work, calls = device_graph.device.work, device_graph.calls
    if calls is None:
        return
    idle = inside - work.busy
    begins, ends = work.busy.ends[:-1], work.busy.starts[1:]
    launcher = np.searchsorted(work.starts, ends)  # the work that ends each gap
    launched = device_graph.launched[launcher]
    labels, words = _labels(calls)
    sums = np.zeros(len(words) + 1)
    for thread, line in device_graph.timelines.items():
        chosen = np.flatnonzero((device_graph.threads[launcher] == thread) & (launched != NULL))
        host = idle & union(begins[chosen], np.clip(launched[chosen], begins[chosen], ends[chosen]))
        times = host.inside(line.begins, np.append(line.begins[1:], line.begins[-1:]))
        sums += np.bincount(labels[line.calls] + 1, times, len(words) + 1)
        sums[0] += host.length - times.sum()  # before the first call, and after the last one
    for name in np.flatnonzero(sums).tolist():
        yield OwnTime(IDLE, words[name - 1] if name else None, round(sums[name]))


def _idle(device_graph: Dependencies, inside: Intervals) -> Iterator[OwnTime]:
    """Yield all idle time: what no range or call explains is one."""
    named = [each for each in idle_time(device_graph, inside) if each.name is not None]
    yield from named
    left = (inside - device_graph.device.work.busy).length - sum(each.ns for each in named)
    if left > 0:
        yield OwnTime(IDLE, None, left)


def _labels(calls: CallTree) -> tuple[Ints, Sequence[str]]:
    """Return for each call what the host is in: the innermost range or call that allocates memory, else the outermost
    operator or call of the runtime.

    Steps are not ranges. One entry more, for no call; -1: no name.
    """
    (kind, kinds), (name, names) = calls.rows.codes("kind"), calls.rows.codes("name")
    pairs = groups_of(kind, name)
    first = pairs.first.tolist()
    found = [range_of(kinds[kind[i]], names[name[i]]) for i in first]
    is_allocation = [kinds[kind[i]] == "runtime" and category(names[name[i]], api=True) == ALLOCATION for i in first]
    is_range = np.array([each is not None and each[1] != "step" for each in found], np.bool_)
    is_range = (is_range | np.array(is_allocation, np.bool_))[pairs.inverse]
    is_call = np.isin(kind, [kinds.index(word) for word in _CALLS if word in kinds])
    is_call &= np.array([each is None for each in found], np.bool_)[pairs.inverse]
    around = _nearest(calls, is_range)
    outermost = _outermost(calls, is_call)
    labelled = np.where(around != NO_CALL, around, outermost)
    return np.where(labelled == NO_CALL, -1, np.append(name, -1)[labelled]), names


def _nearest(calls: CallTree, chosen: Mask) -> Ints:
    """Return the innermost chosen call around each call, itself included, or NO_CALL; one entry more, for no call."""
    parents = np.append(np.where(chosen, np.arange(len(calls)), calls.parents), NO_CALL)
    while ((above := parents[parents]) != parents).any():
        parents = above
    return parents


def _outermost(calls: CallTree, chosen: Mask) -> Ints:
    """Return the outermost chosen call around each call, itself included, or NO_CALL; one entry more, for no call."""
    found = np.append(np.where(chosen, np.arange(len(calls)), NO_CALL), NO_CALL)
    inner = np.arange(len(calls) + 1)
    inner[-1] = NO_CALL
    parents = np.append(calls.parents, NO_CALL)
    while ((inner := parents[inner]) != NO_CALL).any():
        found = np.where(found[inner] != NO_CALL, found[inner], found)
    return found
