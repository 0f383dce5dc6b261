"""What changes in each scenario of a trace: the pieces of its replay that take no time, or less."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perflog.arrays import Floats, Ints, Mask
from perflog.metrics.profiles.kernel_categories import ALLOCATION, category
from perflog.metrics.traces.call_tree import NO_CALL, CallTree
from perflog.metrics.traces.device_work import COMMUNICATION, COMPUTE, MEMORY, WAITING
from perflog.metrics.traces.idle_causes import DATA_RANGE, is_wait
from perflog.metrics.traces.replays.dependencies import NO_WORK, OTHER_STREAM, Dependencies
from perflog.metrics.traces.replays.path_walk import HOST_CALLS, HOST_TIME, LAUNCHES, WAITS, kinds_of, waits_of
from perflog.metrics.traces.replays.replay import Change
from perflog.statistics.groups import groups_of
from perflog.tables.columns import NULL

SCENARIOS = {
    "host": "the host is infinitely fast: its calls, the time between them, and its return from waits take no time",
    "launches": "calls of the runtime, and the time from a launch to its work, take no time",
    "graphs": "CUDA graphs launch all work: between the calls that these cannot hold, those that wait for the device, "
    "copy at once, allocate memory or load data, the host takes no time",
    "device": "all work of the device but waiting takes no time; of communication with ranks without a trace only what "
    "other work hides",
    "compute": "kernels that compute take no time",
    "kernels": "kernels of one category take no time",
    "roofline": "operators of one class take the least time that the device's peaks allow, where that is known; needs "
    "`gpu`",
    "communication": "kernels that communicate take no time",
    "hidden": "nothing waits for communication, and each stream communicates as long as it does",
    "copies": "copies and memsets take no time",
    "waits": "launched work begins as soon as all that is known to hold it up has ended, and kernels that only wait "
    "take no time",
    "stream": "what is launched on one stream waits for no event, other stream or rank",
    "rank": "between collectives the rank is as fast as the median of the ranks, of two as the faster one; time of the "
    "whole job",
    "stages": "each rank of a pipeline computes as long as the mean rank; time of the whole job",
}
"""The change of each replay."""

RANK, STAGES = OF_JOB = ("rank", "stages")
"""The scenarios of a job, not of a device."""

_STATES = {"compute": COMPUTE, "communication": COMMUNICATION, "copies": MEMORY}
_CATEGORIES = 4  # of kernels that compute: the ones that take most time
_MOSTLY = 0.5  # of the launched work
_STREAMS = 3  # streams with waits that are left out one by one: the ones that wait longest


class Scenario(Struct, frozen=True, eq=False):
    """A change, and what it applies to. `bound`: why its gain is a bound.

    `subject`: the category of the kernels, the class of the operators, or the number of the stream. `communicates`:
    work that takes its time on its stream all the same, although nothing waits for it.
    """

    name: str
    subject: str | None
    change: Change
    bound: str | None = None
    communicates: Mask | None = None


def scenarios(
    dependencies: Dependencies, roof: Mapping[str, Floats] | None = None, *, peers: bool = True
) -> Iterator[Scenario]:
    """Yield the scenarios of a device; only of what there is.

    Args:
        dependencies: Its dependencies.
        roof: By class of operators: of each piece of work the share of its time above the least that peaks allow.
        peers: Whether all ranks with which it communicates have a trace. Else its communication may wait for them:
            what nothing hides may be no work of the device, and each gain is a bound.
    """
    for each in _scenarios(dependencies, roof or {}, peers=peers):
        yield each if peers or each.bound else replace(each, bound=_ABSENT)


def _scenarios(dependencies: Dependencies, roof: Mapping[str, Floats], *, peers: bool) -> Iterator[Scenario]:
    work, first = dependencies.device.work, len(kinds_of(dependencies)) - len(dependencies.device.work.categories)
    lengths = np.bincount(work.does, dependencies.ends - dependencies.starts, len(work.categories))

    def kinds(*states: str) -> tuple[int, ...]:
        return tuple(first + i for i, state in enumerate(work.state_of) if state in states and lengths[i] > 0)

    yield Scenario("host", None, Change(HOST_TIME))
    yield Scenario("launches", None, Change(LAUNCHES))
    if dependencies.calls is not None and not _launched_by_graphs(dependencies, dependencies.calls):
        yield Scenario("graphs", None, Change(HOST_CALLS, calls=_held_by_graphs(dependencies.calls)), _ALL_CAPTURED)
    own = None if peers else _hidden(dependencies)
    yield Scenario("device", None, Change(kinds(COMPUTE, COMMUNICATION, MEMORY), tasks=own))
    yield Scenario("waits", None, Change((*WAITS, *kinds(WAITING))))
    for name, state in _STATES.items():
        if kinds(state):
            yield Scenario(name, None, Change(kinds(state)))
    if moving := kinds(COMMUNICATION):
        flags = np.array([state == COMMUNICATION for state in work.state_of], np.bool_)[work.does]
        yield Scenario("hidden", None, Change(moving), _AS_EARLY, flags)
    if len(computing := kinds(COMPUTE)) > 1:
        for kind in sorted(computing, key=lambda kind: -lengths[kind - first])[:_CATEGORIES]:
            yield Scenario("kernels", work.categories[kind - first], Change(kind))
    for operators, above in roof.items():
        yield Scenario("roofline", operators, Change(tuple(range(first, first + len(work.categories))), tasks=above))
    yield from _streams(dependencies)


def _launched_by_graphs(dependencies: Dependencies, calls: CallTree) -> bool:
    """Whether graphs launch most of the work already."""
    name, names = calls.rows.codes("name")
    launches_graph = np.array([*("graphlaunch" in word.lower() for word in names), False], np.bool_)[name]
    launching = dependencies.launching[dependencies.launching != NO_CALL]
    return bool(len(launching) and launches_graph[launching].mean() > _MOSTLY)


def _hidden(dependencies: Dependencies) -> Floats:
    """The share of each piece of work beside which the device computes; of work that does not communicate, all."""
    starts, ends, work = dependencies.starts, dependencies.ends, dependencies.device.work
    hidden = work.states()[COMPUTE].inside(starts, ends) / np.maximum(ends - starts, 1)
    moves = np.array([state == COMMUNICATION for state in work.state_of], np.bool_)[work.does]
    return np.where(moves, hidden, 1.0)


_ALL_CAPTURED = "graphs may not hold all that lies between these calls"
_AS_EARLY = "what is sent may not be there earlier"
_ABSENT = "communication may wait for ranks without a trace"


def _streams(dependencies: Dependencies) -> Iterator[Scenario]:
    """The streams that wait longest for others, where there are several."""
    streams = dependencies.device.work.rows["stream"]
    first, more, kind, _ = waits_of(dependencies, np.arange(len(streams)))
    times = np.where(np.isin(kind, WAITS), first, 0) + more
    other = dependencies.bound_by == OTHER_STREAM
    alike = groups_of(streams)
    numbers, place = streams[alike.first], alike.inverse
    waiting = np.bincount(place, times + other, len(numbers))  # one that waits without a gap counts too
    if len(numbers) < 2:
        return
    for i in np.argsort(-waiting, kind="stable")[:_STREAMS].tolist():
        if waiting[i] > 0 and numbers[i] != NULL:
            own = place == i
            free = own & ((dependencies.before != NO_WORK) | (dependencies.launched != NULL))
            yield Scenario("stream", str(int(numbers[i])), Change(WAITS, tasks=own, free=free))


def _held_by_graphs(calls: CallTree) -> Mask:
    """Flag the calls that CUDA graphs make needless; one entry more, for the time between calls."""
    (kind, kinds), (name, names) = calls.rows.codes("kind"), calls.rows.codes("name")
    loads = np.array([*(DATA_RANGE.search(word) is not None for word in names), False], np.bool_)[name]
    loads &= np.array([*(word in ("range", "cpu") for word in kinds), False], np.bool_)[kind]
    in_runtime = np.array([*(word == "runtime" for word in kinds), False], np.bool_)[kind]
    stay = in_runtime.copy()
    for code in np.unique(name[in_runtime]).tolist():
        word = names[code] if code >= 0 else ""
        stay[name == code] &= is_wait(word) or category(word, api=True) == ALLOCATION
    outside = loads | stay
    around: Ints = calls.parents.copy()
    while (around != NO_CALL).any():  # all that lies in a range that loads data stays too
        outside |= (around != NO_CALL) & loads[around]
        around = np.where(around == NO_CALL, NO_CALL, calls.parents[around])
    return np.append(~outside, True)
