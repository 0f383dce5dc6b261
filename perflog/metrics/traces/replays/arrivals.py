"""Arrivals: when each rank was ready for each collective, and since when it had worked on its own until then.

The kernel of a collective begins when its stream is free. A rank whose collectives queue up was ready earlier, when the
work launched before had ended. What this work waited for leads back to a collective, over streams, launches and waits
of the host: between the two the rank was on its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from msgspec import Struct

from perflog.arrays import Ints, Mask
from perflog.metrics.run_tables import Tables, cached
from perflog.metrics.traces.call_tree import NO_CALL
from perflog.metrics.traces.collectives.collective_matching import MatchedCollectives, matched_collectives
from perflog.metrics.traces.device_work import TraceDevice
from perflog.metrics.traces.intervals import union
from perflog.metrics.traces.replays.dependencies import (
    LAUNCH,
    NO_WORK,
    OTHER_STREAM,
    STREAM,
    Dependencies,
    by_stream,
    dependencies,
)
from perflog.metrics.traces.replays.own_time import OwnTime, own_time
from perflog.tables.columns import NULL

_ROUNDED_NS = 1000  # old traces hold whole microseconds: what waits may begin so much earlier than the other ends
_SELDOM = 0.1  # of the launches that would fall into collectives by chance


class Arrivals(Struct, frozen=True, eq=False):
    """The arrivals of a device at its collectives, in the order of their launches. Times are in ns.

    `lines`: the line of each kernel. `ready`: when the rank was ready for it. `came_from`: the line of the collective
    that what it did before had waited for, or NULL. `since`: from when on it was on its own, the end of that collective
    or the arrival before; NULL of the first one without a collective before. `follows`: the line of the collective
    before on its stream, if that held it up, or NULL.
    """

    lines: Ints
    ready: Ints
    came_from: Ints
    since: Ints
    follows: Ints


class OwnWork(Struct, frozen=True, eq=False):
    """The arrivals of a device, and what it did meanwhile, in sums over the times from `since` to `ready`."""

    arrivals: Arrivals
    times: list[OwnTime]


def own_work(tables: Tables, found: Mapping[int, OwnWork] | None = None) -> Mapping[int, OwnWork]:
    """Return the work between collectives by the id of the device; only of jobs, and where launches are known.

    Args:
        tables: Tables of the runs.
        found: The same, if the caller has already gone through the dependencies.
    """
    return cached(tables, "work between collectives", lambda: _all_own_work(tables) if found is None else found)


def _all_own_work(tables: Tables) -> dict[int, OwnWork]:
    lines = lines_of_collectives(tables)
    devices = (each for each in dependencies(tables) if id(each.device) in lines) if lines else ()
    found = {id(each.device): own_work_of(each, lines.get(id(each.device))) for each in devices}
    return {device: work for device, work in found.items() if work is not None}


def lines_of_collectives(tables: Tables) -> dict[int, Ints]:
    """Return the lines of the collectives with known waits of each device, by the id of the device."""
    return {
        id(device): lines
        for matched in matched_collectives(tables)
        for device, lines in _lines_of_members(matched)
        if len(lines)
    }


def _lines_of_members(matched: MatchedCollectives) -> Iterator[tuple[TraceDevice, Ints]]:
    known = matched.collectives.index[matched.collectives["reason"].isna()]
    calls = matched.calls[matched.calls["key"].isin(known)]
    for member, device in enumerate(matched.job.members):
        yield device, calls["line"][calls["member"] == member].to_numpy(np.int64)


def own_work_of(device_graph: Dependencies, lines: Ints | None) -> OwnWork | None:
    """Return the arrivals of a device at the collectives of these lines; None if their launches are not known."""
    if lines is None or device_graph.calls is None:
        return None
    found = _arrivals(device_graph, lines)
    if found is None:
        return None
    alone = found.since != NULL
    return OwnWork(found, own_time(device_graph, found.since[alone], found.ready[alone]))


def _arrivals(device_graph: Dependencies, lines: Ints) -> Arrivals | None:
    is_call = np.isin(device_graph.device.work.rows["line"], lines)
    calls = np.flatnonzero(is_call)
    calls = calls[np.argsort(device_graph.turns[calls], kind="stable")]
    if not len(calls):
        return None
    starts, ends, launched = device_graph.starts, device_graph.ends, device_graph.launched
    bound = _bound_by(device_graph, calls)
    roots = _roots(bound, calls)
    last = _last_launched_before(device_graph, is_call, calls)
    # Work that still runs when the collective begins did not hold it up.
    worked = (last != NO_WORK) & (ends[last] <= starts[calls] + _ROUNDED_NS) & (ends[last] > launched[calls])
    known = np.where(launched[calls] == NULL, starts[calls], launched[calls])
    ready = np.minimum(np.where(worked, ends[last], known), starts[calls])
    before = _before_on_stream(device_graph, calls)
    queued = (before != NO_WORK) & (starts[calls] - ends[before] <= device_graph.usual_ns)
    queued &= ready <= ends[before]
    ready = np.where(queued, ready, starts[calls])  # what else held it up is time of the rank
    held_up = np.where(queued, _waited_for_by_host(device_graph, calls, calls), bound[calls])
    worked &= queued | (held_up == NO_WORK) | (ends[held_up] <= ends[last])
    source = roots[np.where(worked, last, held_up)]
    reached = np.append(NULL, np.maximum.accumulate(ready)[:-1])
    row_lines = device_graph.device.work.rows["line"]
    return Arrivals(
        lines=row_lines[calls],
        ready=ready,
        came_from=np.where(source == NO_WORK, NULL, row_lines[source]),
        since=np.maximum(np.where(source == NO_WORK, NULL, ends[source]), reached),
        follows=np.where(queued, row_lines[before], NULL),
    )


def _bound_by(device_graph: Dependencies, calls: Ints) -> Ints:
    """Return the work that each task waited for, or NO_WORK; of a launch, what its host waited for last before."""
    by = device_graph.bound_by
    bound = np.where(by == STREAM, device_graph.before, np.where(by == OTHER_STREAM, device_graph.sources, NO_WORK))
    launched = np.flatnonzero(by == LAUNCH)
    bound[launched] = _waited_for_by_host(device_graph, calls, launched)
    ended = _just_ended(device_graph, calls)
    return np.where(ended == NO_WORK, bound, ended)


def _roots(bound: Ints, calls: Ints) -> Ints:
    """Return for each task the collective that what it waited for leads back to, or NO_WORK; also for no task."""
    parents = np.append(bound, NO_WORK)
    parents[calls] = calls
    while ((above := parents[parents]) != parents).any():
        parents = above
    return parents


def _just_ended(device_graph: Dependencies, calls: Ints) -> Ints:
    """Return the collective that ended shortly before each task, in a gap of the task's stream, or NO_WORK.

    The launch may have come as late by chance, and then `bound_by` is the launch. A rank that seems to come from an
    earlier collective than it did would never arrive earlier in a replay.
    """
    starts, ends, before = device_graph.starts, device_graph.ends, device_graph.before
    last = _last_ended(ends, calls, starts + _ROUNDED_NS)
    gap = np.where(before == NO_WORK, NULL, ends[before])
    is_close = (last != NO_WORK) & (starts[last] < starts) & (ends[last] > gap)
    is_close &= starts - ends[last] <= device_graph.usual_ns
    return np.where(is_close, last, NO_WORK)


def _waited_for_by_host(device_graph: Dependencies, calls: Ints, tasks: Ints) -> Ints:
    """Return the work that the host waited for last before it launched each of these tasks, or NO_WORK."""
    waits, launched = device_graph.waits, device_graph.launched[tasks]
    last = np.append(NO_WORK, waits.tasks)[np.searchsorted(waits.returns, launched, "right")]
    if not _holds_host(device_graph, calls):
        return last
    ends = device_graph.ends
    ended = _last_ended(ends, calls, launched)
    later = (ended != NO_WORK) & ((last == NO_WORK) | (ends[ended] > ends[last]))
    return np.where(later, ended, last)


def _holds_host(device_graph: Dependencies, calls: Ints) -> bool:
    """Return whether the host waits for the collectives, although no call says so: it launches nothing meanwhile."""
    launched = device_graph.launched[device_graph.launched != NULL]
    running = union(device_graph.starts[calls], device_graph.ends[calls])
    meanwhile = running.inside(launched, launched + 1).mean() if len(launched) else 0.0
    return bool(meanwhile < _SELDOM * running.length / device_graph.device.span)


def _last_launched_before(device_graph: Dependencies, is_call: Mask, calls: Ints) -> Ints:
    """Return which of the work that was launched before each of these calls ended last, or NO_WORK."""
    order = np.argsort(device_graph.turns, kind="stable")
    ends = np.where(is_call[order], NULL, device_graph.ends[order])
    reached = np.maximum.accumulate(ends)
    latest = np.maximum.accumulate(np.where((ends == reached) & (ends != NULL), np.arange(len(order)), NO_WORK))
    before = np.searchsorted(device_graph.turns[order], device_graph.turns[calls]) - 1
    found = np.append(latest, NO_WORK)[before]
    in_launch = _last_of_same_launch(device_graph, is_call, calls)
    return np.where(in_launch != NO_WORK, in_launch, np.where(found == NO_WORK, NO_WORK, order[found]))


def _last_of_same_launch(device_graph: Dependencies, is_call: Mask, calls: Ints) -> Ints:
    """Return which of the work of one launch with each call, a CUDA graph, ended last before it began, or NO_WORK.

    The order of the nodes of a graph is not known, so this is the latest that the collective can have waited for.
    """
    tasks = np.flatnonzero(~is_call & (device_graph.launching != NO_CALL))
    launching = np.concatenate([device_graph.launching[tasks], device_graph.launching[calls]])
    times = np.concatenate([device_graph.ends[tasks], device_graph.starts[calls] + _ROUNDED_NS])
    order = np.lexsort((np.arange(len(times)), times, launching))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    latest = np.maximum.accumulate(np.where(order < len(tasks), np.arange(len(order)), NO_WORK))
    last = latest[place[len(tasks) :]]
    found = order[last]
    alike = (last != NO_WORK) & (launching[found] == device_graph.launching[calls])
    return np.where(alike, np.append(tasks, NO_WORK)[np.where(alike, found, -1)], NO_WORK)


def _before_on_stream(device_graph: Dependencies, calls: Ints) -> Ints:
    """Return for each of these calls the one before on its stream, or NO_WORK."""
    by_start = np.sort(calls)  # work is in order of its begin
    _, before = by_stream(device_graph.device.work.rows["stream"][by_start])
    found = np.where(before == NO_WORK, NO_WORK, by_start[before])
    return found[np.searchsorted(by_start, calls)]


def _last_ended(ends: Ints, calls: Ints, times: Ints) -> Ints:
    """Return which of these calls had ended last at each time, or NO_WORK. `ends`: of all work."""
    by_end = calls[np.argsort(ends[calls], kind="stable")]
    return np.append(by_end, NO_WORK)[np.searchsorted(ends[by_end], times, "right") - 1]
