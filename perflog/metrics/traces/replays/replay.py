"""Replay of a window of a trace with some pieces taking no time: when its tasks and threads end then.

Tasks are pieces of work of the device: kernels, copies, memsets. In the order of the launches, everything depends only
on what came before. The tasks of a block are replayed at once. On a stream they begin at a running maximum
(b[i] = max(b[i-1] + step[i], c[i]), a scan of sums), for all removals side by side. Where tasks wait for another stream
of the block, or threads wait, the streams are cut into segments that depend on each other by their ends alone; only
these are processed one by one. Such scans: Blelloch, https://www.cs.cmu.edu/~guyb/papers/Ble93.pdf.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from perflog.arrays import Floats, Ints, Mask
from perflog.metrics.traces.call_tree import NO_CALL
from perflog.metrics.traces.replays.dependencies import FREE, LAUNCH, NO_WORK, OTHER_STREAM, STREAM, Dependencies
from perflog.metrics.traces.replays.path_walk import LAUNCHING, SYNCHRONISATION, kinds_of_calls, kinds_of_work, waits_of
from perflog.tables.columns import NULL

Codes = npt.NDArray[np.int16]

PieceKind = tuple[int | tuple[int, ...], int]
"""A kind of pieces of a path, as an index into `kinds_of`, and the code of a name in `CriticalPath.names`, or ALL.

Several kinds instead of one: all of them take no time together.
"""

Shares = Mask | Floats

ALL = -1
"""Replaces the name: all of a kind."""


class Change(Struct, frozen=True, eq=False):
    """What takes less time in a replay: pieces of some kinds, as in `PieceKind`, limited by the other fields.

    `tasks`: for each task the share of its own time that is left out; of a delay, 1 for tasks without this delay.
    `calls`: for each call whether its time is left out; one entry more, for NO_CALL. None: of all. `free`: flags of
    tasks that do not wait for other streams; the task before on its stream or its launch is known.
    """

    kinds: int | tuple[int, ...]
    name: int = ALL
    tasks: Shares | None = None
    calls: Mask | None = None
    free: Mask | None = None


_BLOCK = 1 << 13  # pieces of work that are taken at once
_UNNAMED = -2
_NO_NAME = np.array([_UNNAMED])
_SYNC, _LAUNCHING = np.array([SYNCHRONISATION]), np.array([LAUNCHING])
_NEVER = np.iinfo(np.int64).min // 2
_WAIT, _PAUSE, _LEAVE, _TAKE_OVER, _END = range(5)  # at equal times, a wait comes first


class Replayed:
    """Data that all windows of a device need, prepared once."""

    def __init__(self, dependencies: Dependencies) -> None:
        self.dependencies = dependencies
        self.work_kinds, (self.work_names, words) = (
            kinds_of_work(dependencies),
            dependencies.device.work.rows.codes("name"),
        )
        self.call_kinds, self.call_names = np.zeros(0, np.int16), np.zeros(0, np.int32)
        if dependencies.calls is not None:
            codes = dependencies.calls.rows.codes("name")[0] + len(words)
            self.call_kinds, self.call_names = kinds_of_calls(dependencies), np.append(codes, _UNNAMED).astype(np.int32)
        self.reach = np.maximum.accumulate(dependencies.ends)
        launched = np.flatnonzero(dependencies.bound_by == LAUNCH)
        self.fastest = int((dependencies.starts - dependencies.since)[launched].min()) if len(launched) else 0
        self.streams = np.empty(len(dependencies.order), np.int32)
        self.streams[dependencies.order] = np.cumsum(dependencies.before[dependencies.order] == NO_WORK)
        # Where tasks of a stream overlap, the next one follows the begin of the one before, not its end.
        self.until_next = dependencies.ends.copy()
        later = np.flatnonzero(dependencies.before != NO_WORK)
        self.until_next[dependencies.before[later]] = np.minimum(
            dependencies.ends[dependencies.before[later]], dependencies.starts[later]
        )
        self.last_use = np.full(len(dependencies.starts), _NEVER)  # the last turn at which something waits for a work
        needs = np.flatnonzero(dependencies.bound_by == OTHER_STREAM)
        np.maximum.at(self.last_use, dependencies.sources[needs], dependencies.turns[needs])
        np.maximum.at(self.last_use, dependencies.waits.tasks, 2 * dependencies.waits.returns)

    def inside(self, start: int, end: int) -> slice:
        """Return the slice of tasks that may run in a window."""
        return slice(
            int(np.searchsorted(self.reach, start, "right")), int(np.searchsorted(self.dependencies.starts, end))
        )

    def calls_inside(self, start: int, end: int) -> int:
        """Return the number of intervals of the calls of all threads in a window."""
        lines = self.dependencies.timelines.values()
        return sum(int(np.subtract(*np.searchsorted(line.begins, (end, start)))) for line in lines)


class _Changes(NamedTuple):
    """What happens to threads, in order.

    `places`: number of tasks before; `what`: a thread returns from a wait, ends its last call before it takes over or
    before another one does, or takes over; `threads`: which; `source`: index of the wait or hand-over.
    """

    places: Ints
    what: Ints
    threads: Ints
    source: Ints

    def part(self, part: slice) -> _Changes:
        return _Changes(*(column[part] for column in self))


class _Block(Struct, frozen=True, eq=False):
    """Tasks that are replayed at once, one stream after the other. Rows are the tasks, columns the removals.

    `begin`: position of the block in the order of the turns; `positions`: of each task in the block, `rows`: the row at
    each position. `heads`: the first row of each stream. `possible`: when each task may begin, as far as known before
    the block is replayed; `launched`: as its launch allows, if its thread is no later than alone. `delays`: how long
    after what bound it a task begins. `sums`: when each would begin if each followed the one before on its stream at
    once, up to a constant that the tasks of a stream share. `until_next`: how long after its begin the next one may
    follow; `lengths`: how long it runs; `nothing`: the share of this that is left out.
    """

    begin: int
    tasks: Ints
    positions: Ints
    rows: Ints
    heads: Ints
    possible: Ints
    launched: Ints
    delays: Ints
    sums: Ints
    until_next: Ints
    lengths: Ints
    nothing: Shares


class _Segments(Struct, frozen=True, eq=False):
    """Parts of the streams of a block: each is begun by one thread, as late as at its begin.

    A row that another stream or a thread waits for ends a segment. A row that waits for another stream begins one.

    `segment_by_row`: segment of each row. `firsts`: first row. `follow`: whether the segment follows the one before in
    its stream. `threads`: thread that launches it, or NO_CALL. `sources`: row that the first row waits for, or NO_WORK.
    `offsets`: largest known (begin - sum) of each segment. `launched`: the same of what launches allow. `later`: how
    much later than alone its thread is.
    """

    segment_by_row: Ints
    firsts: Ints
    follow: Mask
    threads: Ints
    sources: Ints
    offsets: Ints
    launched: Ints
    later: Ints


class Replay:
    """A window of a device with some pieces taking no time: a column for each removal, after one without removals."""

    def __init__(self, replayed: Replayed, removed: Sequence[PieceKind | Change], start: int, end: int) -> None:
        self._all, self._dependencies, self._start, self._end = replayed, replayed.dependencies, start, end
        changes = [each if isinstance(each, Change) else Change(*each) for each in removed]
        self._removed = list(enumerate(changes, 1))
        parts = any(each.tasks is not None and each.tasks.dtype != np.bool_ for each in changes)
        self._shares: type[np.float64 | np.bool_] = np.float64 if parts else np.bool_
        self._columns = len(removed) + 1
        inside = replayed.inside(start, end)
        self._tasks = inside.start + np.argsort(self._dependencies.turns[inside], kind="stable")
        self._first, self._positions = inside.start, np.empty(len(self._tasks), np.int64)
        self._positions[self._tasks - inside.start] = np.arange(len(self._tasks))
        self._thread, self._host_end, self._returned = NO_CALL, end, np.zeros(0, np.int64)
        self._clocks = {thread: _Clock(self, replayed, thread, start, end) for thread in self._dependencies.timelines}
        self._later = {thread: np.zeros(self._columns, np.int64) for thread in self._clocks}  # than alone
        self._paused: dict[int, Ints] = {}  # when the last call before a hand-over ended, of the thread itself
        self._left: dict[int, Ints] = {}  # and of the thread that it takes over from
        self._stream_ends: dict[int, Ints] = {}  # when the next work of a stream may begin
        self._work_ends: dict[int, Ints] = {}  # of tasks that something after their block waits for
        self._top = np.full(self._columns, start)

    def ends(self, thread: int, host_end: int | None = None) -> Ints:
        """Return the end of the window in each column: of its tasks, and of a thread unless that is NO_CALL.

        The thread ends where it is at `host_end`, by default the end of the window.
        """
        self._thread, self._host_end = thread, self._end if host_end is None else host_end
        self._changes = self._changes_of_threads()
        count = len(self._tasks)
        for begin in range(0, max(count, 1), _BLOCK):
            stop = min(begin + _BLOCK, count)
            last = stop if stop < count else count + 1  # changes may come after the last work
            changes = self._changes.part(slice(*np.searchsorted(self._changes.places, (begin, last)).tolist()))
            self._advance(begin, stop, changes)
        if thread in self._clocks:
            self._top = np.maximum(self._top, self._returned)
        return self._top

    def left_out(
        self,
        kinds: Ints | Codes,
        names: Ints | npt.NDArray[np.int32],
        tasks: Ints | None = None,
        calls: Ints | npt.NDArray[np.int32] | None = None,
    ) -> Shares:
        """Return the share of the time of each that is left out, in each column.

        Args:
            kinds: Kind of each.
            names: Name of each, as codes of `CriticalPath.names`.
            tasks: The task that it is, or that it delays.
            calls: The call that it is.
        """
        shares: Shares = np.zeros((len(kinds), self._columns), self._shares)  # type: ignore[assignment]
        for column, change in self._removed:
            is_kind = np.isin(kinds, change.kinds) if isinstance(change.kinds, tuple) else kinds == change.kinds
            chosen = is_kind if change.name == ALL else is_kind & (names == change.name)
            if calls is not None and change.calls is not None:
                chosen = chosen & change.calls[calls]
            if tasks is None or change.tasks is None:
                shares[:, column] = chosen
            else:
                shares[:, column] = chosen * change.tasks[tasks]
        return shares

    def _changes_of_threads(self) -> _Changes:
        """What happens to threads in the window, in order."""
        waits, overs = self._dependencies.waits, self._dependencies.hand_overs
        i = np.arange(*np.searchsorted(waits.returns, (self._start, self._end), "right"))
        j = np.arange(*np.searchsorted(overs.times, (self._start, self._end), "right"))
        paused = j[overs.idle_since[j] != NULL]
        last = np.array([self._thread] if self._thread in self._clocks else [], np.int64)
        times = [2 * waits.returns[i], 2 * overs.idle_since[paused], 2 * overs.ends[j], 2 * overs.times[j] + 1]
        turns = np.concatenate([*times, np.full(len(last), 2 * self._host_end + 1)])
        event_indices = np.concatenate([i, paused, j, j, np.zeros(len(last), np.int64)])
        what = np.repeat([_WAIT, _PAUSE, _LEAVE, _TAKE_OVER, _END], [len(i), len(paused), len(j), len(j), len(last)])
        threads = np.concatenate([waits.threads[i], overs.threads[paused], overs.sources[j], overs.threads[j], last])
        order = np.lexsort((what, turns))
        places = np.searchsorted(self._dependencies.turns[self._tasks], turns[order], "right")
        return _Changes(places, what[order], threads[order], event_indices[order])

    def _advance(self, begin: int, stop: int, changes: _Changes) -> None:
        """Compute when the tasks at these positions begin and end, and what the changes among them do to threads."""
        dependencies, block = self._dependencies, self._block(begin, stop)
        waits = np.flatnonzero(changes.what == _WAIT)
        waited = np.full(len(changes.what), NO_WORK)  # rows
        waited[waits] = self._rows_of(dependencies.waits.tasks[changes.source[waits]], block)
        sources = np.full(len(block.tasks), NO_WORK)
        needs = np.flatnonzero(dependencies.bound_by[block.tasks] == OTHER_STREAM)
        sources[needs] = self._rows_of(dependencies.sources[block.tasks[needs]], block)
        for row in needs[sources[needs] == NO_WORK].tolist():
            ended = self._end_of(int(dependencies.sources[block.tasks[row]]))
            block.possible[row] = np.maximum(block.possible[row], ended + block.delays[row])
        segments = self._segments(block, sources, waited, changes)
        self._go_through(block, segments, waited, changes)
        possible = np.maximum(block.possible, block.launched + segments.later[segments.segment_by_row])
        needs = needs[sources[needs] != NO_WORK]
        ended = self._ends_of_segments(block, segments, sources[needs])
        possible[needs] = np.maximum(possible[needs], ended + block.delays[needs])
        self._finish(block, possible)

    def _block(self, begin: int, stop: int) -> _Block:
        """Return the block of the tasks at these positions, with all that does not depend on others of the block."""
        dependencies = self._dependencies
        streams = self._all.streams[self._tasks[begin:stop]]
        positions = np.argsort(streams, kind="stable")
        tasks, heads = self._tasks[begin:stop][positions], np.flatnonzero(np.diff(streams[positions], prepend=-1))
        rows = np.empty(len(tasks), np.int64)
        rows[positions] = np.arange(len(tasks))
        begins, bound = dependencies.starts[tasks], dependencies.bound_by[tasks]
        nothing = self.left_out(self._all.work_kinds[tasks], self._all.work_names[tasks], tasks)
        first, more, kind, longer = waits_of(dependencies, tasks)
        since = dependencies.since[tasks]
        skipped = _times(self.left_out(kind, _NO_NAME, tasks), self._inside(since, since + first))
        skipped += _times(self.left_out(longer, _NO_NAME, tasks), self._inside(begins - more, begins))
        delays = (first + more)[:, None] - skipped
        for column, change in self._removed:
            if change.free is not None:
                delays[change.free[tasks] & (bound == OTHER_STREAM), column] = _NEVER
        follows = np.where((bound == STREAM)[:, None], delays, 0)
        until_next, lengths = (
            (ends[tasks] - begins)[:, None] - _times(nothing, self._inside(begins, ends[tasks]))
            for ends in (self._all.until_next, dependencies.ends)
        )
        possible = np.full(nothing.shape, _NEVER)
        free = bound == FREE
        possible[free] = begins[free, None]
        for head in heads.tolist():
            possible[head] = np.maximum(possible[head], self._stream_end(tasks[head]) + follows[head])
        steps = follows
        steps[1:] += until_next[:-1]
        launched = self._launched(tasks, delays)
        return _Block(
            begin, tasks, positions, rows, heads, possible, launched, delays, np.cumsum(steps, axis=0), until_next,
            lengths, nothing,
        )  # fmt: skip

    def _stream_end(self, work: int) -> Any:
        """When the work before on the stream of one, in another block or before the window, lets it begin."""
        before = self._dependencies.before[work]
        no_earlier = _NEVER if before == NO_WORK else self._all.until_next[before]
        return self._stream_ends.get(int(self._all.streams[work]), no_earlier)

    def _end_of(self, work: int) -> Any:
        """When a work of another block, or of before the window, has ended."""
        return self._work_ends.get(work, self._dependencies.ends[work])

    def _rows_of(self, tasks: Ints, block: _Block) -> Ints:
        """Return the rows of tasks in a block; NO_WORK for tasks of other blocks."""
        rows = np.full(len(tasks), NO_WORK)
        inside = np.flatnonzero((tasks >= self._first) & (tasks < self._first + len(self._tasks)))
        places = self._positions[tasks[inside] - self._first] - block.begin
        here = (places >= 0) & (places < len(block.tasks))
        rows[inside[here]] = block.rows[places[here]]
        return rows

    def _inside(self, begins: Ints, ends: Ints) -> Ints:
        """Return how much of these times lies after the begin of the window: earlier time does not change."""
        return np.maximum(ends - np.maximum(begins, self._start), 0)

    def _launched(self, tasks: Ints, delays: Ints) -> Ints:
        """Return when launches allow tasks to begin, if their threads are no later than alone."""
        dependencies, launched = self._dependencies, np.full(delays.shape, _NEVER)
        no_delay = self.left_out(_LAUNCHING, _NO_NAME)[0].astype(np.bool_)
        for thread, clock in self._clocks.items():
            index = np.flatnonzero((dependencies.threads[tasks] == thread) & (dependencies.launched[tasks] != NULL))
            if len(index):
                begins = dependencies.launched[tasks[index]]
                least = np.minimum(dependencies.starts[tasks[index]] - begins, self._all.fastest)[:, None] * ~no_delay
                is_bound = (dependencies.bound_by[tasks[index]] == LAUNCH)[:, None]
                launched[index] = clock.alone(begins) + np.where(is_bound, delays[index], least)
        return launched

    def _segments(self, block: _Block, sources: Ints, waited: Ints, changes: _Changes) -> _Segments:
        """Cut the streams of a block: `sources` and `waited` are rows that tasks and threads wait for."""
        dependencies, count = self._dependencies, len(block.tasks)
        threads = np.where(dependencies.launched[block.tasks] == NULL, NO_CALL, dependencies.threads[block.tasks])
        is_head, is_cut = np.zeros((2, count), np.bool_)
        is_head[block.heads] = True
        following = np.append(sources[sources != NO_WORK], waited[waited != NO_WORK]) + 1
        is_cut[following[following < count]] = True
        # A thread is as late as at its last change: each launch has the thread and the number of its changes.
        late = np.where(threads == NO_CALL, NO_CALL, threads * (len(changes.what) + 1))
        for thread in np.unique(changes.threads).tolist():
            in_thread = threads == thread
            places = changes.places[changes.threads == thread] - block.begin
            late[in_thread] += np.searchsorted(places, block.positions[in_thread], "right")
        known = (late != NO_CALL) | is_head
        last = np.maximum.accumulate(np.where(known, np.arange(count), 0))
        is_cut[1:] |= (late[1:] != NO_CALL) & (late[1:] != late[last[:-1]])
        firsts = np.flatnonzero(is_head | is_cut | (sources != NO_WORK))
        segment_by_row = np.cumsum(np.bincount(firsts, minlength=count)) - 1
        offsets = np.maximum.reduceat(block.possible - block.sums, firsts) if count else block.possible
        launched = np.maximum.reduceat(block.launched - block.sums, firsts) if count else block.launched
        segment_threads = np.maximum.reduceat(threads, firsts) if count else threads
        later = np.zeros(offsets.shape, np.int64)
        return _Segments(
            segment_by_row, firsts, ~is_head[firsts], segment_threads, sources[firsts], offsets, launched, later
        )

    def _go_through(self, block: _Block, segments: _Segments, waited: Ints, changes: _Changes) -> None:
        """Complete `offsets` and `later` of the segments, and what the changes do to the threads, in order."""
        firsts, sources = segments.firsts, segments.sources
        places = np.append(2 * block.positions[firsts] + 1, 2 * (changes.places - block.begin))
        needs = np.flatnonzero(sources != NO_WORK)
        source_segments = np.full(len(firsts), NO_WORK)
        source_segments[needs] = segments.segment_by_row[sources[needs]]
        waits = np.zeros(segments.offsets.shape, np.int64)  # from the sum of the source to the sum of the waiting row
        rows = sources[needs]
        waits[needs] = block.sums[rows] + block.lengths[rows] + block.delays[firsts[needs]] - block.sums[firsts[needs]]
        offsets, launched = list(segments.offsets), list(segments.launched)
        follow, threads, source = segments.follow.tolist(), segments.threads.tolist(), source_segments.tolist()
        stay, reach = self._shifts(changes)
        for i in np.argsort(places, kind="stable").tolist():
            if i >= len(offsets):
                self._change(i - len(offsets), changes, (stay, reach), waited, block, segments)
                continue
            top = offsets[i]
            if follow[i]:
                np.maximum(top, offsets[i - 1], out=top)
            if threads[i] != NO_CALL:
                later = self._later[threads[i]]
                segments.later[i] = later
                np.maximum(top, launched[i] + later, out=top)
            if source[i] != NO_WORK:
                np.maximum(top, offsets[source[i]] + waits[i], out=top)

    def _ends_of_segments(self, block: _Block, segments: _Segments, rows: Ints) -> Ints:
        """Return when the tasks of these rows end, the last of their segments."""
        ends: Ints = segments.offsets[segments.segment_by_row[rows]] + block.sums[rows] + block.lengths[rows]
        return ends

    def _shifts(self, changes: _Changes) -> tuple[Ints, Ints]:
        """What to add to how late a thread is, and to the end that it waits for: the larger sum is how late it gets."""
        stay, reach = np.zeros((2, len(changes.what), self._columns), np.int64)
        waits, overs = self._dependencies.waits, self._dependencies.hand_overs
        for thread in np.unique(changes.threads).tolist():
            clock = self._clocks[thread]
            in_thread = np.flatnonzero(changes.threads == thread)
            wait, pause, leave, take, end = (in_thread[changes.what[in_thread] == what] for what in range(5))
            stay[end] = clock.alone(np.full(len(end), self._host_end))
            stay[pause] = clock.alone(overs.idle_since[changes.source[pause]])
            stay[leave] = clock.alone(overs.ends[changes.source[leave]])
            stay[take] = -clock.alone(overs.times[changes.source[take]])
            reach[take] = -clock.alone(overs.ends[changes.source[take]])
            at = changes.source[wait]
            ended, returned = self._dependencies.ends[waits.tasks[at]], waits.returns[at]
            returns, names = clock.alone(returned), self._all.call_names[waits.calls[at]]
            stay[wait] = clock.alone(waits.begins[at]) - returns
            calls = waits.calls[at]
            nothing = self.left_out(np.broadcast_to(_SYNC, names.shape), names, calls=calls)
            skipped = _times(nothing, np.maximum(returned - np.maximum(ended, self._start), 0))
            reach[wait] = (returned - ended)[:, None] - skipped - returns
        return stay, reach

    def _change(
        self, i: int, changes: _Changes, shifts: tuple[Ints, Ints], waited: Ints, block: _Block, segments: _Segments
    ) -> None:
        """Make a thread as late as a change of it does."""
        what, thread, index = int(changes.what[i]), int(changes.threads[i]), int(changes.source[i])
        (stay, reach), later = (shift[i] for shift in shifts), self._later[thread]
        if what == _END:
            self._returned = later + stay
        elif what in (_PAUSE, _LEAVE):
            (self._paused if what == _PAUSE else self._left)[index] = later + stay
        elif what == _TAKE_OVER:
            self._later[thread] = np.maximum(self._paused.pop(index, _NEVER) + stay, self._left.pop(index) + reach)
        elif waited[i] != NO_WORK:
            ended = self._ends_of_segments(block, segments, waited[i : i + 1])[0]
            self._later[thread] = np.maximum(later + stay, ended + reach)
        else:
            self._later[thread] = np.maximum(
                later + stay, self._end_of(int(self._dependencies.waits.tasks[index])) + reach
            )

    def _finish(self, block: _Block, possible: Ints) -> None:
        """Note the ends that other blocks need, and the last end in the window."""
        if not len(block.tasks):
            return
        dependencies, begun = self._dependencies, possible - block.sums
        stops = np.append(block.heads[1:], len(block.tasks))
        for head, stop in zip(block.heads.tolist(), stops.tolist(), strict=True):
            np.maximum.accumulate(begun[head:stop], out=begun[head:stop])
        begun += block.sums
        for last in (stops - 1).tolist():
            self._stream_ends[int(self._all.streams[block.tasks[last]])] = begun[last] + block.until_next[last]
        ended = begun + block.lengths
        for row in np.flatnonzero(self._all.last_use[block.tasks] >= dependencies.turns[block.tasks].max()).tolist():
            self._work_ends[int(block.tasks[row])] = ended[row].copy()
        over = np.flatnonzero(dependencies.ends[block.tasks] > self._end)  # they count as far as the window goes
        begins = dependencies.starts[block.tasks[over]]
        inside = self._inside(begins, np.array([self._end]))
        ended[over] = begun[over] + (self._end - begins)[:, None] - _times(block.nothing[over], inside)
        self._top = np.maximum(self._top, ended.max(axis=0))


def _times(shares: Shares, times: Ints) -> Ints:
    """Return these shares of times, in ns; one column for each removal."""
    left_out = shares * times[:, None]
    return np.rint(left_out).astype(np.int64) if left_out.dtype == np.float64 else left_out.astype(np.int64, copy=False)


class _Clock:
    """When a thread gets to each time of the trace if it waits for nothing, in each column of a window."""

    def __init__(self, window: Replay, replayed: Replayed, thread: int, start: int, end: int) -> None:
        line = self._line = replayed.dependencies.timelines[thread]
        self._start = start
        first, last = np.searchsorted(line.begins, start, "right"), np.searchsorted(line.begins, end)
        before = line.calls[first - 1 : first] if first else np.array([NO_CALL], np.int32)
        calls = np.concatenate([before, line.calls[first:last]])
        self._begins = np.append(start, line.begins[first:last])
        nothing = window.left_out(replayed.call_kinds[calls], replayed.call_names[calls], calls=calls).astype(np.bool_)
        del calls  # there may be millions
        self._columns = nothing.shape[1]
        self._of_host = np.flatnonzero(nothing.any(axis=0))  # the columns in which the thread skips anything
        self._nothing = nothing[:, self._of_host]
        self._skipped = np.zeros(self._nothing.shape, np.int64)  # until each begin
        lengths = np.diff(self._begins)
        for column in range(len(self._of_host)):  # one by one: all at once would be as large as the result
            np.cumsum(lengths * self._nothing[:-1, column], out=self._skipped[1:, column])
        self._blocked = self._blocked_until(np.array([start]))

    def alone(self, times: Ints) -> Ints:
        """Return when it gets to each time. Rows are the times."""
        inside = np.maximum(times, self._start)
        place = np.searchsorted(self._begins, inside, "right") - 1
        skipped = self._skipped[place] + (inside - self._begins[place])[:, None] * self._nothing[place]
        alone: Ints = np.repeat((times - self._blocked_until(inside) + self._blocked)[:, None], self._columns, axis=1)
        alone[:, self._of_host] -= skipped
        return alone

    def _blocked_until(self, times: Ints) -> Ints:
        until: Ints = self._line.blocked[np.searchsorted(self._line.blocked_until, times, "right")]
        return until
