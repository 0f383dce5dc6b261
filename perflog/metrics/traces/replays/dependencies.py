"""What the work of a device and the threads that launch it waited for: the dependencies of a trace as columns.

Work of a device waits for the work before it on its stream and for its launch; the later one is what bound it. A thread
waits for the device in synchronisations, and in copies that end while their call runs. It takes over from another
thread of its process where it was idle until the last call of the other thread had ended: autograd's thread takes over
from its caller, and the caller from autograd's thread.

Some traces record which streams wait for each other, and what a call waits for. Without such records, a rule applies:
work that begins long after its launch and after the work before it waited for the work of other streams that ended last
before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from perflog.arrays import Ints, Mask
from perflog.metrics.run_tables import Tables
from perflog.metrics.traces.call_tree import NO_CALL, CallTree, call_trees
from perflog.metrics.traces.device_work import TraceDevice
from perflog.metrics.traces.idle_causes import USUAL, DeviceIdle, idle_causes, is_wait
from perflog.metrics.traces.intervals import union
from perflog.metrics.traces.launches import Launches
from perflog.metrics.traces.operators.device_ranges import range_of
from perflog.metrics.traces.replays.recorded_waits import CallWaits, FileWaits, StreamWaits, recorded_waits
from perflog.statistics.groups import groups_of
from perflog.tables.columns import NULL

Codes = npt.NDArray[np.int8]

NO_WORK = -1
"""Replaces the index of a task: there is none."""

FREE, STREAM, LAUNCH, OTHER_STREAM = range(4)
"""What bound the begin of work: nothing in the trace, the work before it on its stream, its launch, the work of
another stream.
"""

_Time = TypeVar("_Time", int, Ints)

_FULL = 1000  # launches that have not begun: a queue of CUDA holds 1024, and then the call that launches waits too
_SOLID = ("cpu", "runtime")  # kinds of calls that are work of a thread; ranges and frames of Python only surround it


class Waits(Struct, frozen=True, eq=False):
    """Calls that waited for work of the device, in order of their return.

    Each has its thread, its begin and return in ns, its index in the tree of calls, and the work.
    """

    threads: Ints
    begins: Ints
    returns: Ints
    calls: Ints
    tasks: Ints


class HandOvers(Struct, frozen=True, eq=False):
    """Moments at which a thread takes over from another one, in order of time.

    `threads[i]` continues at `times[i]`, after its last call had ended at `idle_since[i]`. The last call of
    `sources[i]` before had ended at `ends[i]`.
    """

    threads: Ints
    times: Ints
    idle_since: Ints
    sources: Ints
    ends: Ints


class Timeline(Struct, frozen=True, eq=False):
    """A thread over time: from `begins[i]` to `begins[i + 1]` its innermost call is `calls[i]`, or NO_CALL.

    `blocked_until`: ends of the launches that found the queue full. `blocked`: their cumulative excess over a usual
    launch; one entry more, the first is 0.
    """

    begins: Ints
    calls: npt.NDArray[np.int32]
    blocked_until: Ints
    blocked: Ints


class Dependencies(Struct, frozen=True, eq=False):
    """The dependencies of the work of a device. Arrays have one entry for each piece of work, in order of its begin.

    Times are in ns. `order`: the tasks of one stream after the other; `places`: the index of each in `order`. `before`:
    the task before on its stream, or NO_WORK. `launched`: begin of the call that launched it, of one that loads a
    module the usual time before its end, or NULL; `threads`: the thread of that call, an index into the tree of calls;
    `launching`: the call. `turns`: the order of the launches; nothing depends on a task with a later turn. `bound_by`:
    FREE, STREAM, LAUNCH or OTHER_STREAM, and `since`: when that had ended. `sources`: the task of another stream that
    bound it, or NO_WORK. `usual_ns`: a task that begins later after its launch, or after the task before it, waits for
    something else. `timelines`: the threads that launch.
    """

    device: TraceDevice
    calls: CallTree | None
    starts: Ints
    ends: Ints
    order: Ints
    places: Ints
    before: Ints
    launched: Ints
    threads: Ints
    launching: Ints
    turns: Ints
    bound_by: Codes
    since: Ints
    sources: Ints
    usual_ns: int
    timelines: Mapping[int, Timeline]
    waits: Waits
    hand_overs: HandOvers


def dependencies(tables: Tables) -> Iterator[Dependencies]:
    """Yield the dependencies of each device with work, file by file. One file is in memory at a time."""
    trees = call_trees(tables)
    tree: CallTree | None = None
    recorded = recorded_waits(tables)
    for idle in idle_causes(tables):
        place = idle.device.run, idle.device.part
        launching = bool(((idle.launches.starts != NULL) & ~idle.launches.is_operator).any())
        while launching and (tree is None or (tree.run, tree.part) != place):
            tree = next(trees)  # both go through the files in one order
        yield _dependencies(idle, tree if launching else None, recorded.get(place))


def turn(time: _Time) -> _Time:
    """Return the last turn of a launch before a time at which a thread continues: its launches at that time come later.

    Example:
        >>> turn(5)
        11
    """
    return 2 * time + 1


def _dependencies(idle: DeviceIdle, calls: CallTree | None, recorded: FileWaits | None) -> Dependencies:
    work, launches = idle.device.work, idle.launches
    starts, ends = work.starts, work.ends
    order, before = by_stream(work.rows["stream"])
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    launched = np.full(len(starts), NULL, np.int64)
    threads, launching = (np.full(len(starts), NO_CALL, np.int64) for _ in range(2))
    if calls is not None:
        known = np.flatnonzero((launches.starts != NULL) & ~launches.is_operator)  # an operator begins before it does
        launched[known] = np.minimum(launches.starts, starts)[known]
        in_tree = {thread: i for i, thread in enumerate(calls.threads)}
        tree_threads = np.array([in_tree.get(thread, NO_CALL) for thread in launches.names], np.int64)
        threads[known] = tree_threads[launches.threads[known]]
        launching[known] = calls.around(launches)[known]
    queues, held_up = _blocked(launched, threads, starts, launches)
    turns, overtaken = _turns(starts, launched, order, before)
    launched[overtaken] = NULL  # an earlier launch on its stream was later: this one held nothing up
    bound_by, since = _bound(starts, ends, before, launched)
    usual = round(USUAL * (idle.latency_ns or _median_gap(starts - since, bound_by)))
    loaded = _after_long_calls(idle, bound_by, usual)
    launched[loaded] = since[loaded] = np.minimum(launches.ends, starts)[loaded] - usual
    streams = _Streams(work.rows["stream"], order, turns)
    stream_waits = None if recorded is None else recorded.stream_waits(idle.device)
    if stream_waits is not None and len(stream_waits.streams):
        sources = _recorded_sources(streams, stream_waits, starts, ends)
    else:
        sources = _likely_sources(starts, ends, launched, since, usual)
    sources[(ends[sources] <= since) | (turns[sources] >= turns)] = NO_WORK  # it held nothing up, or came later
    other = sources != NO_WORK
    bound_by[other], since[other] = OTHER_STREAM, ends[sources[other]]
    timelines: dict[int, Timeline] = {}
    waits, hand_overs = _NO_WAITS, _NO_HAND_OVERS
    if calls is not None:
        timelines = {thread: _timeline(calls, thread, *queue) for thread, queue in queues.items()}
        call_waits = None if recorded is None else recorded.call_waits(idle.device)
        waits = _waits(idle, calls, streams, threads, launching, held_up, call_waits)
        hand_overs = _hand_overs(calls, timelines)
    return Dependencies(
        idle.device, calls, starts, ends, order, places, before, launched, threads, launching, turns, bound_by,
        since, sources, usual, timelines, waits, hand_overs,
    )  # fmt: skip


def by_stream(streams: Ints) -> tuple[Ints, Ints]:
    """Return the work of one stream after the other, each in order of begin, and the work before each, or NO_WORK.

    `streams`: of work in order of begin.
    """
    order = np.argsort(streams, kind="stable")
    before = np.full(len(order), NO_WORK, np.int64)
    alike = np.flatnonzero(streams[order[1:]] == streams[order[:-1]])
    before[order[alike + 1]] = order[alike]
    return order, before


def _blocked(
    launched: Ints, threads: Ints, starts: Ints, launches: Launches
) -> tuple[dict[int, tuple[Ints, Ints]], Ints]:
    """Return for each thread that launches the ends of calls that found the queue full, and their cumulative excess.

    Such a call waits until the device has begun something. Its excess over the median of the others is no work of the
    host. A call that launches a graph is one launch. Also returned: the work of the last call of each row of such
    calls, after which the thread has waited for the device.
    """
    known = np.flatnonzero(threads != NO_CALL)
    known = np.sort(known[groups_of(threads[known], launches.starts[known]).first])  # the first work of each call
    begins, ends = launched[known], launches.ends[known]
    ascending = np.sort(begins, kind="stable")  # merges parts that ascend, as most are
    queue = np.searchsorted(ascending, begins) - np.searchsorted(starts[known], begins, "right")
    lengths, full = ends - launches.starts[known], queue >= _FULL
    usual = round(float(np.median(lengths[~full]))) if not full.all() else 0
    excess = np.maximum(lengths - usual, 0)
    by_thread, last = {}, []
    for thread in np.unique(threads[known]).tolist():
        index = np.flatnonzero(threads[known] == thread)
        index = index[np.argsort(ends[index], kind="stable")]
        waited = (full & (excess > 0))[index]
        last.append(known[index[waited & ~np.append(waited[1:], False)]])
        index = index[waited]
        by_thread[thread] = ends[index], np.append(0, np.cumsum(excess[index]))
    return by_thread, np.concatenate([_NOTHING, *last])


def _turns(starts: Ints, launched: Ints, order: Ints, before: Ints) -> tuple[Ints, Mask]:
    """Return the turn of each task, and flags of tasks that were launched before their predecessor on the stream.

    A task with an unknown launch has its turn when it begins.
    """
    turns = np.where(launched == NULL, 2 * starts - 1, 2 * launched + 2)
    stream_turns = turns[order]
    for part in np.split(np.arange(len(order)), np.flatnonzero(before[order] == NO_WORK)[1:]):
        stream_turns[part] = np.maximum.accumulate(stream_turns[part])
    latest = np.empty(len(order), np.int64)
    latest[order] = stream_turns
    return latest, latest > turns


def _bound(starts: Ints, ends: Ints, before: Ints, launched: Ints) -> tuple[Codes, Ints]:
    """What bound the begin of each piece of work, its launch or the work before it, and when that had ended."""
    has_before = before != NO_WORK
    ended = np.where(has_before, np.minimum(ends[before], starts), NULL)
    late = launched > ended
    bound_by = np.where(late, LAUNCH, np.where(has_before, STREAM, FREE)).astype(np.int8)
    return bound_by, np.maximum(ended, launched)


def _after_long_calls(idle: DeviceIdle, bound_by: Codes, usual: int) -> Mask:
    """Flag kernels that their launch bound, with a call that took longer than usual and returned when they began.

    A first launch loads the module of its kernel: the call hands the kernel over at its end. A copy may begin late in
    its call because it waits for something else.
    """
    work, calls = idle.device.work, idle.launches
    is_long = (bound_by == LAUNCH) & (calls.ends - calls.starts > usual) & (work.starts >= calls.ends - usual)
    flags: Mask = is_long & ~work.rows.one_of("kind", ["memcpy"])
    return flags


def _median_gap(delays: Ints, bound_by: Codes) -> float:
    """Return the median time between consecutive tasks of a stream, where no launch found the device idle."""
    gaps = delays[(bound_by == STREAM) & (delays > 0)]
    return float(np.median(gaps)) if len(gaps) else 0.0


class _Streams:
    """The work of each stream in the order of its launches. `turns`: of all work, in order of its begin."""

    def __init__(self, work_streams: Ints, order: Ints, turns: Ints) -> None:
        self.turns = turns
        self._tasks, self._task_turns, self._streams = order, turns[order], work_streams[order]

    def launched_before(self, streams: Ints, times: Ints) -> Ints:
        """Return the last work that was launched on each stream before a time, or NO_WORK."""
        first, places = self._places(streams, times)
        return np.where(places > first, self._tasks[places - 1], NO_WORK)

    def launched_after(self, streams: Ints, times: Ints) -> Ints:
        """Return the first work that was launched on each stream after a time, or NO_WORK."""
        _, places = self._places(streams, times)
        inside = places < np.searchsorted(self._streams, streams, "right")
        return np.where(inside, self._tasks[np.minimum(places, len(self._tasks) - 1)], NO_WORK)

    def _places(self, streams: Ints, times: Ints) -> tuple[Ints, Ints]:
        """Return the index of the first task of each stream, and of its first that was launched after a time."""
        first, end = (np.searchsorted(self._streams, streams, side) for side in ("left", "right"))
        places = np.empty(len(streams), np.int64)
        for begin, stop in sorted(set(zip(first.tolist(), end.tolist(), strict=True))):
            index = np.flatnonzero((first == begin) & (end == stop))  # a stream without work begins where one does
            places[index] = begin + np.searchsorted(self._task_turns[begin:stop], turn(times[index]), "right")
        return first, places


def _recorded_sources(streams: _Streams, waits: StreamWaits, starts: Ints, ends: Ints) -> Ints:
    """Return the recorded work of another stream that each piece of work waited for, or NO_WORK.

    A wait holds up the first work that is launched on its stream afterwards. Of several waits, the one for the work
    that ended last counts.
    """
    awaited = streams.launched_before(waits.awaited, waits.until)
    held = streams.launched_after(waits.streams, waits.called)
    known = np.flatnonzero((awaited != NO_WORK) & (held != NO_WORK))
    known = known[ends[awaited[known]] <= starts[held[known]]]  # else the trace contradicts itself
    known = known[np.argsort(ends[awaited[known]], kind="stable")]
    sources = np.full(len(starts), NO_WORK, np.int64)
    sources[held[known]] = awaited[known]
    return sources


def _likely_sources(starts: Ints, ends: Ints, launched: Ints, since: Ints, usual: int) -> Ints:
    """The same where nothing is recorded.

    It is the last work that ended before, if the launch and the work before on its stream were longer ago than a launch
    takes. Where the launch is not known, the work before on its stream is all that counts.
    """
    by_end = np.argsort(ends, kind="stable")
    last = np.searchsorted(ends[by_end], starts, "right") - 1
    sources = np.where(last >= 0, by_end[last], NO_WORK)
    late = starts - since > np.where(launched == NULL, 0, usual)
    return np.where((since == NULL) | late, sources, NO_WORK)


def _timeline(calls: CallTree, thread: int, blocked_until: Ints, blocked: Ints) -> Timeline:
    return Timeline(*calls.changes(thread), blocked_until, blocked)


def _waits(
    idle: DeviceIdle,
    calls: CallTree,
    streams: _Streams,
    threads: Ints,
    launching: Ints,
    held_up: Ints,
    recorded: CallWaits | None,
) -> Waits:
    """Return the calls of the launching threads that waited for the device: copies for themselves, others for the
    recorded work, or else for the last work that ended before they returned.

    `held_up`: tasks with the last launches that a full queue held up: they waited too.
    """
    work, launches = idle.device.work, idle.launches
    (kind, kinds), (name, names) = calls.rows.codes("kind"), calls.rows.codes("name")
    waits = np.array([*(is_wait(word) for word in names), False], np.bool_)[name]
    waits &= np.array([*(word == "runtime" for word in kinds), False], np.bool_)[kind]
    waiting = np.flatnonzero(waits)
    waiting = waiting[np.isin(calls.thread_of(waiting), np.unique(threads))]
    waiting = np.append(waiting, launching[held_up])
    by_end = np.argsort(work.ends, kind="stable")
    last_ended = np.searchsorted(work.ends[by_end], calls.ends[waiting], "right") - 1
    awaited = np.where(last_ended >= 0, by_end[last_ended], NO_WORK)
    if recorded is not None and len(recorded.lines):
        lines, returns = calls.rows["line"][waiting], calls.ends[waiting]
        awaited = _recorded_tasks(streams, recorded, lines, awaited, work.ends, returns)
    waiting, awaited = waiting[awaited != NO_WORK], awaited[awaited != NO_WORK]
    copies = np.flatnonzero(work.rows.one_of("kind", ["memcpy"]) & (launching != NO_CALL))
    copies = copies[work.ends[copies] <= launches.ends[copies]]
    waiting, awaited = np.append(launching[copies], waiting), np.append(copies, awaited)
    waiting, first = np.unique(waiting, return_index=True)  # a call that copies waits for its copy
    awaited = awaited[first]
    is_possible = (work.ends[awaited] > calls.starts[waiting]) & (streams.turns[awaited] <= 2 * calls.ends[waiting])
    is_possible &= (threads[awaited] == NO_CALL) | (launches.starts[awaited] < calls.ends[waiting])
    waiting, awaited = waiting[is_possible], awaited[is_possible]
    is_innermost = ~np.isin(waiting, calls.parents[waiting])  # not around another call that waits
    waiting, awaited = waiting[is_innermost], awaited[is_innermost]
    order = np.argsort(calls.ends[waiting], kind="stable")
    waiting, awaited = waiting[order], awaited[order]
    return Waits(calls.thread_of(waiting), calls.starts[waiting], calls.ends[waiting], waiting, awaited)


def _recorded_tasks(
    streams: _Streams, recorded: CallWaits, lines: Ints, tasks: Ints, ends: Ints, returns: Ints
) -> Ints:
    """Return the work that each call waited for, where the trace records it; else the given one.

    A call that waited for another device waited for no work of this one. `ends`: of all work; `lines`, `returns`: of
    the calls.
    """
    place = np.minimum(np.searchsorted(recorded.lines, lines), len(recorded.lines) - 1)
    known = np.flatnonzero(recorded.lines[place] == lines)
    place = place[known]
    awaited = streams.launched_before(recorded.awaited[place], recorded.until[place])
    awaited[~recorded.is_here[place]] = NO_WORK
    fits = (awaited == NO_WORK) | (ends[awaited] <= returns[known])  # else the trace contradicts itself
    tasks = tasks.copy()
    tasks[known[fits]] = awaited[fits]
    return tasks


def _hand_overs(calls: CallTree, timelines: Mapping[int, Timeline]) -> HandOvers:
    """The moments at which these threads take over from another one of their process."""
    if len(timelines) < 2:
        return _NO_HAND_OVERS
    solid = np.append(_is_work(calls), False)
    at_work = {thread: _at_work(line, solid) for thread, line in timelines.items()}
    columns = []
    for thread, pieces in at_work.items():
        busy = union(*pieces)
        begins, idle_since = busy.starts, np.append(NULL, busy.ends[:-1])[: len(busy.starts)]
        sources, ended = np.full(len(begins), NO_CALL, np.int64), idle_since.copy()
        for other, (starts, ends) in at_work.items():
            if other == thread or not len(ends) or calls.threads[other][0] != calls.threads[thread][0]:
                continue
            last = np.maximum(np.searchsorted(ends, begins, "right") - 1, 0)
            later = (ends[last] <= begins) & (starts[last] >= idle_since) & (ends[last] > ended)
            sources[later], ended[later] = other, ends[last][later]
        index = np.flatnonzero(sources != NO_CALL)
        here = np.full(len(index), thread, np.int64)
        columns.append((here, begins[index], idle_since[index], sources[index], ended[index]))
    joined = [np.concatenate(column) for column in zip(*columns, strict=True)]
    index = np.argsort(joined[1], kind="stable")
    return HandOvers(*(column[index] for column in joined))


def _is_work(calls: CallTree) -> Mask:
    """Flag the calls in which a thread does work: frames of Python, ranges and steps only surround such calls."""
    (kind, kinds), (name, names) = calls.rows.codes("kind"), calls.rows.codes("name")
    steps = [(found := range_of("cpu", word)) is not None and found[1] == "step" for word in names]
    is_step = np.array([*steps, False], np.bool_)
    return np.array([*(word in _SOLID for word in kinds), False], np.bool_)[kind] & ~is_step[name]


def _at_work(line: Timeline, solid: Mask) -> tuple[Ints, Ints]:
    """Return begins and ends of the intervals in which a thread does work, in order of time."""
    ends = np.append(line.begins[1:], line.begins[-1:])
    index = np.flatnonzero(solid[line.calls])
    return line.begins[index], ends[index]


_NOTHING = np.zeros(0, np.int64)
_NO_WAITS = Waits(_NOTHING, _NOTHING, _NOTHING, _NOTHING, _NOTHING)
_NO_HAND_OVERS = HandOvers(_NOTHING, _NOTHING, _NOTHING, _NOTHING, _NOTHING)
