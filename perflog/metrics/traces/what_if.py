"""How much earlier a window of a trace would end if something took no time: the longest path, computed anew.

The dependencies stay as they are. Work begins when all that it depends on has ended: the work before it on its stream,
its launch, work of another stream. What bound it in the trace is followed by the same time as in the trace; what did
not bind it may be followed at once, a launch by the shortest time that any launch of the device took. A thread takes as
long as in the trace between its waits and hand-overs. So if nothing is left out, all ends when it did.

In the order of the launches, everything depends only on what came before. Works between two waits of a thread are taken
at once: the begins on a stream are a running maximum (b[i] = max(b[i-1] + step[i], c[i]), a scan of sums), for all
things that may take no time side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from perflog.metrics.traces.call_tree import NO_CALL
from perflog.metrics.traces.dependencies import FREE, LAUNCH, NO_WORK, OTHER_STREAM, STREAM, Dependencies, turn
from perflog.metrics.traces.path_walk import (
    LAUNCHING,
    SYNCHRONISATION,
    PathWalk,
    is_host,
    kinds_of,
    kinds_of_calls,
    kinds_of_work,
    waits_of,
)
from perflog.tables.columns import NULL

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int16]
Flags = npt.NDArray[np.bool_]

Thing = tuple[int, int]
"""A kind of pieces of a path, as an index into `kinds_of`, and the code of a name in `CriticalPath.names`, or ALL."""

ALL = -1
"""In place of a name: all of a kind."""

_BLOCK = 1 << 13  # pieces of work that are taken at once
_HOST_AT_ONCE = 4  # things of the host: each takes a column over all its calls
_UNNAMED = -2
_NO_NAME = np.array([_UNNAMED])
_SYNC, _LAUNCHING = np.array([SYNCHRONISATION]), np.array([LAUNCHING])
_LONG_AGO = np.iinfo(np.int64).min // 2


class WhatIf:
    """Computes what a device would gain. What all windows need is prepared once."""

    def __init__(self, dependencies: Dependencies, walk: PathWalk) -> None:
        of = self.of = dependencies
        self._walk = walk
        self.kinds = kinds_of(of)
        self.work_kinds, (self.work_names, self.words) = kinds_of_work(of), of.device.work.rows.codes("name")
        self.call_kinds, self.call_names = np.zeros(0, np.int16), np.zeros(0, np.int32)
        if of.calls is not None:
            codes = of.calls.rows.codes("name")[0] + len(self.words)
            self.call_kinds, self.call_names = kinds_of_calls(of), np.append(codes, _UNNAMED).astype(np.int32)
        self.reach = np.maximum.accumulate(of.ends)
        launched = np.flatnonzero(of.bound_by == LAUNCH)
        self.fastest = int((of.starts - of.since)[launched].min()) if len(launched) else 0
        self.streams = np.empty(len(of.order), np.int64)
        self.streams[of.order] = np.cumsum(of.before[of.order] == NO_WORK)
        # Where works of a stream overlap, the next one follows the begin of the one before, not its end.
        self.until_next = of.ends.copy()
        later = np.flatnonzero(of.before != NO_WORK)
        self.until_next[of.before[later]] = np.minimum(of.ends[of.before[later]], of.starts[later])
        self.is_source = np.zeros(len(of.starts), np.bool_)
        self.is_source[of.waits.works] = True
        self.is_source[of.sources[of.sources != NO_WORK]] = True

    def gains(self, start: int, end: int, things: Sequence[Thing], step_thread: int = NO_CALL) -> Ints:
        """Return for each thing by how many ns the window [start, end) would be shorter if it took no time.

        The window ends with its last work and, if it is a step, its thread: see `PathWalk.path`.
        """
        on_thread = [is_host(self.kinds[kind]) and kind not in (LAUNCHING, SYNCHRONISATION) for kind, _ in things]
        host = [i for i, on in enumerate(on_thread) if on]
        groups = [host[i : i + _HOST_AT_ONCE] for i in range(0, len(host), _HOST_AT_ONCE)]
        groups.append([i for i, on in enumerate(on_thread) if not on])
        thread = step_thread if step_thread != NO_CALL else self._walk.last_thread(end)
        gains = np.zeros(len(things), np.int64)
        for group in filter(None, groups):
            ends = _Window(self, [things[i] for i in group], start, end).ends(thread)
            gains[group] = ends[0] - ends[1:]
        return gains


class _Window:
    """A window of a device in which things take no time. Columns stand for the things; in the first, all take it."""

    def __init__(self, of: WhatIf, things: Sequence[Thing], start: int, end: int) -> None:
        self._all, self._of, self._start, self._end = of, of.of, start, end
        self._things = list(enumerate(things, 1))
        self._columns = len(things) + 1
        self._threads = {thread: _Clock(self, of, thread, start, end) for thread in self._of.timelines}
        self._stream_ends: dict[int, Ints] = {}  # when the next work of a stream may begin
        self._work_ends: dict[int, Ints] = {}  # of what others wait for
        self._top = np.full(self._columns, start)

    def ends(self, thread: int) -> Ints:
        """Return the end of the window in each column: of its works, and of a thread unless that is NO_CALL."""
        of = self._of
        first, last = np.searchsorted(self._all.reach, self._start, "right"), np.searchsorted(of.starts, self._end)
        works = np.arange(first, last)
        works = works[np.argsort(of.turns[works], kind="stable")]
        place = 0
        for stop, change in self._changes(works):
            for begin in range(place, stop, _BLOCK):
                self._advance(works[begin : min(begin + _BLOCK, stop)])
            place = max(place, stop)
            change()
        for begin in range(place, len(works), _BLOCK):
            self._advance(works[begin : begin + _BLOCK])
        if thread in self._threads:
            self._top = np.maximum(self._top, self._threads[thread].at(np.array([self._end]))[0])
        return self._top

    def flags(self, kinds: Ints | Codes, names: Ints | npt.NDArray[np.int32]) -> Flags:
        """Flag what takes no time, in each column. Names are codes of `CriticalPath.names`."""
        flags = np.zeros((len(kinds), self._columns), np.bool_)
        for column, (kind, name) in self._things:
            flags[:, column] = (kinds == kind) if name == ALL else (kinds == kind) & (names == name)
        return flags

    def _changes(self, works: Ints) -> list[tuple[int, Callable[[], None]]]:
        """What happens to threads in the window, with the number of works whose turn is before, in order.

        Works that wait for another stream are a stop too: all before them must be known.
        """
        of, turns = self._of, self._of.turns[works]
        waits, overs = of.waits, of.hand_overs
        changes: list[tuple[int, int, Callable[[], None]]] = []
        first, last = np.searchsorted(waits.returns, (self._start, self._end), "right")
        changes += [(2 * int(waits.returns[i]), 0, partial(self._wait, i)) for i in range(first, last)]
        first, last = np.searchsorted(overs.times, (self._start, self._end), "right")
        for i in range(first, last):
            ended: list[Ints] = []
            changes.append((2 * int(overs.ends[i]), 1, partial(self._leave, i, ended)))
            changes.append((turn(int(overs.times[i])), 2, partial(self._take_over, i, ended)))
        changes.sort(key=lambda change: change[:2])
        places = np.searchsorted(turns, [key for key, _, _ in changes], "right").tolist()
        stops = [(place, 1, i, change) for i, (place, (_, _, change)) in enumerate(zip(places, changes, strict=True))]
        dependent = np.flatnonzero(of.bound_by[works] == OTHER_STREAM).tolist()
        stops += [(place, 0, 0, _nothing) for place in dependent]
        return [(place, change) for place, _, _, change in sorted(stops, key=lambda stop: stop[:3])]

    def _wait(self, i: int) -> None:
        """A thread returns from a call that waited for work."""
        waits = self._of.waits
        call, work, returned = int(waits.calls[i]), int(waits.works[i]), int(waits.returns[i])
        clock, ended = self._threads[int(waits.threads[i])], int(self._of.ends[work])
        called = clock.at(waits.begins[i : i + 1])[0]
        skipped = self.flags(_SYNC, self._all.call_names[call : call + 1])[0] * max(
            returned - max(ended, self._start), 0
        )
        clock.set(returned, np.maximum(called, self._work_ends.get(work, ended) + (returned - ended) - skipped))

    def _leave(self, i: int, ended: list[Ints]) -> None:
        """The last call of a thread ends before another one takes over."""
        overs = self._of.hand_overs
        ended.append(self._threads[int(overs.sources[i])].at(overs.ends[i : i + 1])[0])

    def _take_over(self, i: int, ended: list[Ints]) -> None:
        """A thread takes over from another one."""
        overs = self._of.hand_overs
        clock, times = self._threads[int(overs.threads[i])], np.array([overs.ends[i], overs.times[i]])
        between = np.diff(clock.alone(times), axis=0)[0]
        idle_since = overs.idle_since[i : i + 1]
        before = clock.at(idle_since)[0] if idle_since[0] != NULL else _LONG_AGO
        clock.set(int(overs.times[i]), np.maximum(before, ended[0] + between))

    def _advance(self, works: Ints) -> None:
        """Compute when works begin and end whose turn comes next. None of them is the source of another one of them."""
        of = self._of
        if not len(works):
            return
        begins, bound = of.starts[works], of.bound_by[works]
        nothing = self.flags(self._all.work_kinds[works], self._all.work_names[works])
        first, more, kind, longer = waits_of(of, works)
        since = of.since[works]
        skipped = self.flags(kind, _NO_NAME) * self._inside(since, since + first)[:, None]
        skipped += self.flags(longer, _NO_NAME) * self._inside(begins - more, begins)[:, None]
        delays = (first + more)[:, None] - skipped
        possible = np.full(nothing.shape, _LONG_AGO)
        free = bound == FREE
        possible[free] = begins[free, None]
        self._launch(works, delays, possible)
        for i in np.flatnonzero(bound == OTHER_STREAM).tolist():
            source = int(of.sources[works[i]])
            ended = self._work_ends.get(source, of.ends[source])
            possible[i] = np.maximum(possible[i], ended + delays[i])
        follows = np.where((bound == STREAM)[:, None], delays, 0)
        begun = self._begins(works, possible, follows, nothing)
        lengths = of.ends[works] - begins
        ended = begun + lengths[:, None] - nothing * self._inside(begins, of.ends[works])[:, None]
        for i in np.flatnonzero(self._all.is_source[works]).tolist():
            self._work_ends[int(works[i])] = ended[i]
        until = np.minimum(of.ends[works], self._end)
        ended = begun + (until - begins)[:, None] - nothing * self._inside(begins, until)[:, None]
        self._top = np.maximum(self._top, ended.max(axis=0))

    def _inside(self, begins: Ints, ends: Ints) -> Ints:
        """How much of these times lies behind the begin of the window: what was before stays as it was."""
        return np.maximum(ends - np.maximum(begins, self._start), 0)

    def _launch(self, works: Ints, delays: Ints, possible: Ints) -> None:
        """Raise the times at which works may begin to those that their launches allow."""
        of = self._of
        no_delay = self.flags(_LAUNCHING, _NO_NAME)[0]
        for thread, clock in self._threads.items():
            index = np.flatnonzero((of.threads[works] == thread) & (of.launched[works] != NULL))
            if len(index):
                launched = of.launched[works[index]]
                least = np.minimum(of.starts[works[index]] - launched, self._all.fastest)[:, None] * ~no_delay
                is_bound = (of.bound_by[works[index]] == LAUNCH)[:, None]
                possible[index] = clock.at(launched) + np.where(is_bound, delays[index], least)

    def _begins(self, works: Ints, possible: Ints, follows: Ints, nothing: Flags) -> Ints:
        """When works begin: not before it is possible, nor before the work before them on their stream has ended.

        `follows`: how long after that they begin at the earliest.
        """
        of, begun = self._of, np.empty(possible.shape, np.int64)
        streams = self._all.streams[works]
        lengths = (self._all.until_next[works] - of.starts[works])[:, None]
        lengths = lengths - nothing * self._inside(of.starts[works], self._all.until_next[works])[:, None]
        for stream in np.unique(streams).tolist():
            index = np.flatnonzero(streams == stream)
            index = index[np.argsort(of.places[works[index]])]
            steps = follows[index]
            before, work = self._stream_ends.get(stream), of.before[works[index[0]]]
            if before is None:  # work of before the window
                before = np.array([_LONG_AGO if work == NO_WORK else self._all.until_next[work]])
            earliest = possible[index]
            earliest[0] = np.maximum(earliest[0], before + steps[0])
            steps[0] = 0
            steps[1:] += lengths[index[:-1]]
            sums = np.cumsum(steps, axis=0)
            begun[index] = sums + np.maximum.accumulate(earliest - sums, axis=0)
            self._stream_ends[stream] = begun[index[-1]] + lengths[index[-1]]
        return begun


class _Clock:
    """When a thread gets to each time of the trace, in each column of a window."""

    def __init__(self, window: _Window, of: WhatIf, thread: int, start: int, end: int) -> None:
        line = self._line = of.of.timelines[thread]
        self._start = start
        first, last = np.searchsorted(line.begins, start, "right"), np.searchsorted(line.begins, end)
        calls = np.append(line.calls[first - 1] if first else NO_CALL, line.calls[first:last])
        self._begins = np.append(start, line.begins[first:last])
        nothing = window.flags(of.call_kinds[calls], of.call_names[calls])
        self._later = np.zeros(nothing.shape[1], np.int64)  # than alone
        self._of_host = np.flatnonzero(nothing.any(axis=0))  # the columns in which the thread skips anything
        self._nothing = nothing[:, self._of_host]
        self._skipped = np.zeros(self._nothing.shape, np.int64)  # until each begin
        lengths = np.diff(self._begins)
        for column in range(len(self._of_host)):  # one by one: all at once would be as large as the result
            np.cumsum(lengths * self._nothing[:-1, column], out=self._skipped[1:, column])
        self._blocked = self._blocked_until(np.array([start]))

    def at(self, times: Ints) -> Ints:
        """Return when it gets to each time. Rows are the times."""
        return self.alone(times) + self._later

    def alone(self, times: Ints) -> Ints:
        """Return when it would if it waited for nothing."""
        inside = np.maximum(times, self._start)
        place = np.searchsorted(self._begins, inside, "right") - 1
        skipped = self._skipped[place] + (inside - self._begins[place])[:, None] * self._nothing[place]
        alone: Ints = np.repeat(
            (times - self._blocked_until(inside) + self._blocked)[:, None], len(self._later), axis=1
        )
        alone[:, self._of_host] -= skipped
        return alone

    def set(self, time: int, to: Ints) -> None:
        """Let it get to a time at these times, and go on from there."""
        self._later = to - self.alone(np.array([time]))[0]

    def _blocked_until(self, times: Ints) -> Ints:
        until: Ints = self._line.blocked[np.searchsorted(self._line.blocked_until, times, "right")]
        return until


def _nothing() -> None:
    pass
