"""The critical path of a device and the threads that launch its work, inside a window of time.

It is walked back from the end of the window: from work to what bound its begin, the work before it on its stream, work
of another stream, or its launch; on a thread through its calls, back to the work that a call waited for, or to the
thread that it took over from. So the pieces of the path cover the window without gap or overlap.

Critical path method: Kelley and Walker 1959, doi:10.1145/1460299.1460318; of parallel programs: Yang and Miller 1988;
of host and device: https://github.com/facebookresearch/HolisticTraceAnalysis.

Known limit: the path is as right as the dependencies. Where a trace records no waits, a rule guesses them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from perflog.arrays import Ints
from perflog.metrics.traces.call_tree import NO_CALL
from perflog.metrics.traces.operators.device_ranges import range_of
from perflog.metrics.traces.replays.dependencies import FREE, LAUNCH, NO_WORK, OTHER_STREAM, STREAM, Dependencies, turn
from perflog.statistics.groups import groups_of
from perflog.tables.columns import NULL

Codes = npt.NDArray[np.int16]
Places = npt.NDArray[np.int32]  # there are as many pieces as calls, millions

UNKNOWN_WAIT = "unknown"
"""Kind of pieces before work with an unknown cause of its wait."""

HOST_KINDS = {
    "launch": "from the begin of the call that launches work to its begin, where the launch bound it",
    "synchronisation": "from the end of the work that a call waited for to its return",
    "runtime": "calls of the runtime or driver",
    "operator": "operators, outside of calls inside them",
    "python": "frames of Python, outside of calls inside them",
    "idle host": "no call is traced in the thread, or only ranges",
}
DEVICE_KINDS = {
    "gap": "between work and the work that it bound, no longer than a launch takes",
    "waiting": "the same, if longer: an event, another rank, or what the trace does not show",
    UNKNOWN_WAIT: "the trace does not show what the next work waited for",
}
"""Kinds of pieces of a path on the host, and on the device in addition to the categories of work; their meanings."""

LAUNCHING, SYNCHRONISATION, _RUNTIME, _OPERATOR, _PYTHON, _IDLE, _GAP, _WAITING, _UNKNOWN = range(9)
_OWN = (*HOST_KINDS, *DEVICE_KINDS)

HOST_TIME = (SYNCHRONISATION, _RUNTIME, _OPERATOR, _PYTHON, _IDLE)
LAUNCHES = (LAUNCHING, _RUNTIME)
HOST_CALLS = (LAUNCHING, _RUNTIME, _OPERATOR, _PYTHON, _IDLE)
WAITS = (_WAITING,)
"""Kinds, as indices into `kinds_of`, that are time of the host, of launches, and waits for other streams or ranks."""
_KIND_BY_CALL = {"runtime": _RUNTIME, "cpu": _OPERATOR, "python": _PYTHON}


def kinds_of(dependencies: Dependencies) -> list[str]:
    """Return the kinds of pieces: the kinds above, then the categories of the work of the device."""
    return [*_OWN, *dependencies.device.work.categories]


def is_host(kind: str) -> bool:
    """Return whether a piece of this kind is on the host."""
    return kind in HOST_KINDS


def kinds_of_work(dependencies: Dependencies) -> Codes:
    """Return the kind of each piece of work, as an index into `kinds_of`."""
    kinds: Codes = (dependencies.device.work.does + len(_OWN)).astype(np.int16)
    return kinds


def kinds_of_calls(dependencies: Dependencies) -> Codes:
    """Return the kind of the time of each call outside of calls inside it; one entry more, for NO_CALL."""
    assert dependencies.calls is not None
    kind, kinds = dependencies.calls.rows.codes("kind")
    return np.append(np.array([_KIND_BY_CALL.get(word, _IDLE) for word in kinds], np.int16)[kind], np.int16(_IDLE))


def waits_of(dependencies: Dependencies, tasks: Ints) -> tuple[Ints, Ints, Codes, Codes]:
    """Return the time between the begin of work and what bound it, as two lengths in ns, and the kind of each.

    The second part of a launch is its excess over the usual length.
    """
    lengths = np.where(dependencies.bound_by[tasks] == FREE, 0, dependencies.starts[tasks] - dependencies.since[tasks])
    usual, is_launch = dependencies.usual_ns, dependencies.bound_by[tasks] == LAUNCH
    known = (dependencies.launched[tasks] != NULL) | (dependencies.launching[tasks] != NO_CALL)
    between = np.where(known, np.where(lengths > usual, _WAITING, _GAP), _UNKNOWN)
    first = np.where(is_launch, np.minimum(lengths, usual), lengths)
    kinds = np.where(is_launch, LAUNCHING, between).astype(np.int16)
    return first, lengths - first, kinds, np.full(len(tasks), _WAITING, np.int16)


class CriticalPath(Struct, frozen=True, eq=False):
    """The pieces of a path, in order of time: each ends where the next one begins, in ns.

    `kinds`: index into `kinds_of`. `tasks`: the task that runs or that the piece delays, or NO_WORK. `calls`: the call
    of the host, or the call that launched the task, or NO_CALL.
    """

    walk: PathWalk
    starts: Ints
    ends: Ints
    kinds: Codes
    tasks: Places
    calls: Places

    @property
    def dependencies(self) -> Dependencies:
        return self.walk.dependencies

    def names(self) -> tuple[Places, Sequence[str | None]]:
        """Return the name of each piece as a code, and the names: of the work, or of the call; None for other time."""
        work, words = self.dependencies.device.work.rows.codes("name")
        codes = np.full(len(self.kinds), -1, np.int32)
        runs = self.kinds >= len(_OWN)
        codes[runs] = work[self.tasks[runs]]
        names: list[str | None] = list(words)
        if self.dependencies.calls is not None:
            call, more = self.dependencies.calls.rows.codes("name")
            called = np.isin(self.kinds, (SYNCHRONISATION, _RUNTIME, _OPERATOR, _PYTHON))
            call_names = call[self.calls[called]]
            codes[called] = np.where(call_names < 0, -1, call_names + len(words))
            names += more
        codes[codes < 0] = len(names)
        return codes, [*names, None]

    def ranges(self) -> tuple[Places, Sequence[str | None]]:
        """Return the innermost range or module around each piece as a code, and their names; None for no range.

        It is the range of the call, or of the launch.
        """
        range_by_call, words = self.walk.ranges_of_calls
        return range_by_call[self.calls], [*words, None]


_Pieces = tuple[Ints, Ints, Codes, Places, Places]
"""Starts, ends, kinds, tasks and calls of pieces, as in `CriticalPath`."""

_Collect = Callable[[Ints, Ints, Codes, Places, Places], None]
_BLOCK = 1 << 18  # pieces that are made, or summed up, at once


class _KindSums:
    """Sums up pieces by kind: `times` in ns, `numbers` of pieces. Small parts are summed up together."""

    def __init__(self, kinds: int) -> None:
        self.times, self.numbers = np.zeros((2, kinds), np.int64)
        self._parts: list[tuple[Ints, Codes]] = []  # lengths and kinds
        self.waiting = 0

    def add(self, starts: Ints, ends: Ints, kinds: Codes, tasks: Places, calls: Places) -> None:  # noqa: ARG002
        self._parts.append((ends - starts, kinds))
        self.waiting += len(kinds)
        if self.waiting >= _BLOCK:
            self.finish()

    def finish(self) -> None:
        """Sum up what waits."""
        lengths, kinds = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        self._parts, self.waiting = [], 0
        self.times += _sums(lengths, kinds, len(self.times))
        self.numbers += np.bincount(kinds[lengths > 0], minlength=len(self.numbers))


def _sums(lengths: Ints, kinds: Codes, count: int) -> Ints:
    """Return the exact sum of the lengths of each of `count` kinds."""
    if int(lengths.sum()) < 1 << 53:  # each sum of the faster way is a double that holds it exactly
        return np.bincount(kinds, lengths, count).astype(np.int64)
    sums = np.zeros(count, np.int64)
    np.add.at(sums, kinds, lengths)
    return sums


def _no_walk(*columns: npt.NDArray[Any]) -> None:  # noqa: ARG001
    raise AssertionError("no walk is under way")


class PathWalk:
    """Walks the critical paths of a device. Indices that all windows need are prepared once.

    `step_threads`: the thread of each annotated step, or NO_CALL if it launches nothing.
    """

    def __init__(self, dependencies: Dependencies) -> None:
        self.dependencies = self._dependencies = dependencies
        self._kinds_of_work = kinds_of_work(dependencies)
        self._kinds_of_calls = np.zeros(0, np.int16) if dependencies.calls is None else kinds_of_calls(dependencies)
        order, bound = dependencies.order, dependencies.bound_by
        self._first = np.flatnonzero(dependencies.before[order] == NO_WORK)  # indices of the first work of each stream
        heads = np.where(bound[order] != STREAM, np.arange(len(order)), 0)
        self._heads = np.maximum.accumulate(heads)  # index of the first task of a run that streams alone bound
        self._begins = dependencies.starts[order]
        self._jumps = {thread: self._jumps_of(thread) for thread in dependencies.timelines}
        self.step_threads = _threads_of_steps(dependencies)
        self._collect: _Collect = _no_walk

    def path(self, start: int, end: int, step_thread: int = NO_CALL) -> CriticalPath:
        """Return the critical path of the window [start, end), in ns.

        It ends with the work that runs at the end of the window; if none does, in `step_thread`, or else in the thread
        that launched last.
        """
        pieces: list[_Pieces] = []
        self._walk(start, end, step_thread, lambda *columns: pieces.append(columns))
        return self._joined(pieces)

    def kinds(self, start: int, end: int, step_thread: int = NO_CALL) -> tuple[Ints, Ints]:
        """Return the time in ns and the number of the pieces of each of `kinds_of` on the path, without keeping it."""
        sums = _KindSums(len(kinds_of(self._dependencies)))
        self._walk(start, end, step_thread, sums.add)
        if sums.waiting:
            sums.finish()
        return sums.times, sums.numbers

    def _walk(self, start: int, end: int, step_thread: int, collect: _Collect) -> None:
        """Collect the pieces of the path of a window, each time some that lie before all the others."""
        self._collect = collect
        self._add(*([end],) * 2, [_UNKNOWN], [NO_WORK], [NO_CALL])  # of no length: there is a piece
        work, thread, after, time = *self._last(end, step_thread), turn(end), end
        while time > start:
            if work != NO_WORK:
                time, head = self._back_on_stream(work, time, start)
                if time <= start:
                    break
                time, work, thread = self._before_work(head, time, start)
                after = turn(time)
            elif thread != NO_CALL:
                time, work, thread, after = self._back_on_thread(thread, after, time, start)
            else:
                self._add([start], [time], [_UNKNOWN], [NO_WORK], [NO_CALL])
                time = start
        self._collect = _no_walk

    def last_thread(self, end: int) -> int:
        """Return the thread in which the path of a window ends that is no step, or NO_CALL."""
        return self._last(end, NO_CALL)[1]

    def _thread_at(self, end: int) -> int:
        """The thread that launched last before, or NO_CALL."""
        last = NO_CALL, NULL
        for first, stop in self._streams():
            place = int(np.searchsorted(self._begins[first:stop], end)) - 1
            if place >= 0:
                work = int(self._dependencies.order[first + place])
                last = max(
                    last,
                    (int(self._dependencies.threads[work]), int(self._dependencies.starts[work])),
                    key=lambda pair: pair[1],
                )
        return last[0]

    def _last(self, end: int, step_thread: int) -> tuple[int, int]:
        """Return the work that runs longest over the end of a window; else the thread that the path ends in."""
        last = NO_WORK
        for first, stop in self._streams():
            place = int(np.searchsorted(self._begins[first:stop], end)) - 1
            work = int(self._dependencies.order[first + place]) if place >= 0 else NO_WORK
            if work != NO_WORK and self._dependencies.ends[work] >= end:
                last = (
                    work if last == NO_WORK or self._dependencies.ends[work] > self._dependencies.ends[last] else last
                )
        if last != NO_WORK or step_thread != NO_CALL:
            return last, NO_CALL if last != NO_WORK else step_thread
        return NO_WORK, self._thread_at(end)

    def _streams(self) -> list[tuple[int, int]]:
        """Return the first index and the end of the tasks of each stream."""
        return list(zip(self._first.tolist(), [*self._first[1:].tolist(), len(self._dependencies.order)], strict=True))

    def _back_on_stream(self, work: int, time: int, start: int) -> tuple[int, int]:
        """Go back over work that only the work before on its stream bound. Return the time, and the first of it."""
        dependencies, last = self._dependencies, int(self._dependencies.places[work])
        first = int(self._heads[last])
        shown = first + max(int(np.searchsorted(self._begins[first : last + 1], start, "right")) - 1, 0)
        tasks = dependencies.order[shown : last + 1]
        begins = np.maximum(dependencies.starts[tasks], start)
        ends = np.append(np.minimum(dependencies.ends[tasks[:-1]], dependencies.starts[tasks[1:]]), time)
        ends = np.maximum(ends, begins)
        calls = dependencies.launching[tasks]
        lengths, _, kinds, _ = waits_of(dependencies, tasks)
        gaps = np.append(lengths[1:], 0) > 0
        both = np.repeat(np.arange(len(tasks)), 1 + gaps)
        is_gap = np.append(False, np.diff(both) == 0)  # the second row of a task is the gap after it
        following = np.minimum(both + 1, len(tasks) - 1)
        self._add(
            np.where(is_gap, ends[both], begins[both]),
            np.where(is_gap, begins[following], ends[both]),
            np.where(is_gap, kinds[following], self._kinds_of_work[tasks[both]]),
            np.where(is_gap, tasks[following], tasks[both]),
            np.where(is_gap, calls[following], calls[both]),
        )
        return int(begins[0]), int(tasks[0])

    def _before_work(self, work: int, time: int, start: int) -> tuple[int, int, int]:
        """Go from the begin of work to what bound it. Return the time, and the work or the thread."""
        dependencies, bound = self._dependencies, int(self._dependencies.bound_by[work])
        if bound == FREE:
            return time, NO_WORK, NO_CALL
        one = np.array([work])
        lengths, more, kind, longer = (int(each[0]) for each in waits_of(dependencies, one))
        since = time - lengths - more
        pieces = [(since, since + lengths, kind), (since + lengths, time, longer)]
        for begin, end, what in reversed(pieces):
            if end > max(begin, start):
                self._add([max(begin, start)], [end], [what], [work], [int(dependencies.launching[work])])
        if bound == OTHER_STREAM:
            return since, int(dependencies.sources[work]), NO_CALL
        return since, NO_WORK, int(dependencies.threads[work])

    def _jumps_of(self, thread: int) -> tuple[Ints, Ints, Ints, Ints]:
        """Return where a thread waited or took over: its turn, the time, and the indices among waits and hand-overs."""
        waits, overs = self._dependencies.waits, self._dependencies.hand_overs
        i, j = np.flatnonzero(waits.threads == thread), np.flatnonzero(overs.threads == thread)
        turns = np.concatenate([2 * waits.returns[i], 2 * overs.times[j] + 1])
        times = np.concatenate([waits.returns[i], overs.times[j]])
        places = np.concatenate([i, np.full(len(j), -1)]), np.concatenate([np.full(len(i), -1), j])
        order = np.argsort(turns, kind="stable")
        return turns[order], times[order], places[0][order], places[1][order]

    def _back_on_thread(self, thread: int, after: int, time: int, start: int) -> tuple[int, int, int, int]:
        """Go back over the calls of a thread. Return the time, the work or the thread, and the last turn on it."""
        dependencies = self._dependencies
        turns, times, waits, overs = self._jumps[thread]
        place = int(np.searchsorted(turns, after, "right")) - 1
        if place < 0 or times[place] <= start:
            self._add_calls(thread, start, time)
            return start, NO_WORK, NO_CALL, after
        at = int(times[place])
        if (wait := int(waits[place])) >= 0:
            self._add_calls(thread, at, time)
            work = int(dependencies.waits.tasks[wait])
            ended = int(dependencies.ends[work])
            if at > max(ended, start):
                self._add(
                    [max(ended, start)], [at], [SYNCHRONISATION], [NO_WORK], [int(dependencies.waits.calls[wait])]
                )
            return ended, work, NO_CALL, after
        over = int(overs[place])
        ended = int(dependencies.hand_overs.ends[over])
        self._add_calls(thread, max(ended, start), time)
        return ended, NO_WORK, int(dependencies.hand_overs.sources[over]), 2 * ended

    def _add_calls(self, thread: int, start: int, end: int) -> None:
        """Add the innermost calls of a thread in an interval of time."""
        line = self._dependencies.timelines[thread]
        first, last = (int(np.searchsorted(line.begins, *at)) for at in ((start, "right"), (end, "left")))
        # Piece i ends at begins[i] and belongs to calls[i - 1]; the first and the last one are cut.
        for stop in range(last + 1, first, -_BLOCK):
            begin = max(stop - _BLOCK, first)
            lower = start if begin == first else line.begins[begin - 1]
            upper = end if stop == last + 1 else line.begins[stop - 1]
            edges = np.concatenate([[lower], line.begins[begin : stop - 1], [upper]])
            calls = line.calls[begin - 1 : stop - 1] if begin else np.append(NO_CALL, line.calls[: stop - 1])
            tasks = np.broadcast_to(np.int64(NO_WORK), len(calls))
            self._add(edges[:-1], edges[1:], self._kinds_of_calls[calls], tasks, calls)

    def _add(self, *columns: npt.ArrayLike) -> None:
        """Collect pieces that lie before all the others: starts, ends, kinds, tasks, calls."""
        starts, ends, kinds, tasks, calls = columns
        self._collect(
            np.asarray(starts, np.int64), np.asarray(ends, np.int64), np.asarray(kinds, np.int16),
            np.asarray(tasks, np.int32), np.asarray(calls, np.int32),
        )  # fmt: skip

    def _joined(self, pieces: list[_Pieces]) -> CriticalPath:
        columns = [list(column) for column in zip(*pieces[::-1], strict=True)]
        pieces.clear()
        long = np.concatenate(columns[1]) > np.concatenate(columns[0])
        for i, parts in enumerate(columns):  # one by one, to save memory
            columns[i] = [np.concatenate(parts)[long]]
        return CriticalPath(self, *(column for (column,) in columns))

    @cached_property
    def ranges_of_calls(self) -> tuple[Places, Sequence[str]]:
        """The innermost range or module that each call is or lies in, as a code, and their names.

        The code after the last one is no range. One entry more, for NO_CALL.
        """
        tree = self._dependencies.calls
        if tree is None:
            return np.zeros(1, np.int32), []
        (kind, kinds), (name, names) = tree.rows.codes("kind"), tree.rows.codes("name")
        alike = groups_of(kind, name)
        words: dict[str, int] = {}
        code_of = np.full(len(alike.first), -1, np.int64)
        for i, call in enumerate(alike.first.tolist()):
            named = range_of(kinds[kind[call]], names[name[call]]) if name[call] >= 0 else None
            if named is not None:
                code_of[i] = words.setdefault(named[0], len(words))
        codes = code_of[alike.inverse]
        around = np.where((codes >= 0) | (tree.parents == NO_CALL), np.arange(len(codes)), tree.parents)
        while (around != (further := around[around])).any():
            around = further
        codes = np.append(codes[around], -1)
        codes[codes < 0] = len(words)
        return codes.astype(np.int32), list(words)


def _threads_of_steps(dependencies: Dependencies) -> Ints:
    """The thread of each annotated step; NO_CALL if it launches nothing."""
    calls, steps = dependencies.calls, dependencies.device.steps
    threads = np.full(len(steps.lines), NO_CALL, np.int64)
    if calls is not None and len(threads):
        found = np.flatnonzero(np.isin(calls.rows["line"], steps.lines))
        order = np.argsort(steps.lines)
        places = order[np.searchsorted(steps.lines[order], calls.rows["line"][found])]
        threads[places] = np.searchsorted(calls.begins, found, "right") - 1
        threads[~np.isin(threads, list(dependencies.timelines))] = NO_CALL
    return threads
