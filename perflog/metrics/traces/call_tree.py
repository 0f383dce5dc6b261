"""Calls of the host in traces: the innermost call around each event of a thread and around each launch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from perflog.arrays import Codes, Ints, Mask
from perflog.metrics.run_tables import Tables
from perflog.metrics.traces.device_work import has_times
from perflog.metrics.traces.launches import Launches, Thread, threads_of
from perflog.readers.events.interval_index import nested_parents
from perflog.statistics.groups import distinct
from perflog.tables.arrow import Where, index_array, one_of
from perflog.tables.columns import Rows, rows_from_arrow

if TYPE_CHECKING:
    import pyarrow as pa


RANGE_KINDS = ("range", "python", "cpu")
"""Kinds of events that may be ranges or modules, or operators."""

CALL_KINDS = (*RANGE_KINDS, "runtime")
"""Kinds of events that are calls of the host, the outermost first where two begin and end together."""

NO_CALL = -1
"""Replaces the index of a call: there is none, or the trace does not show which."""

_NEVER = np.int64(np.iinfo(np.int64).min)
_ROUNDED_NS = 1000  # old traces hold whole microseconds: an inner call may end so much later than the outer one


class CallTree(Struct, frozen=True, eq=False, dict=True):
    """Calls of the host in one file of a run. All arrays have one entry for each call, the outer before the inner one.

    `rows`: rows of table `events` with a start and a duration: line, kind, name, start_ns, duration_ns, and the columns
    that were asked for. `parents`: index of the innermost call of the same thread that contains a call, or NO_CALL.
    `threads` are in the order of the calls: the calls of thread i begin at `begins[i]`.
    """

    run: str
    part: int
    rows: Rows
    parents: Ints
    threads: Sequence[Thread]
    begins: Ints

    def __len__(self) -> int:
        return len(self.parents)

    @cached_property
    def starts(self) -> Ints:
        return self.rows["start_ns"]

    @cached_property
    def ends(self) -> Ints:
        ends: Ints = self.starts + self.rows["duration_ns"]
        return ends

    def around(self, launches: Launches) -> Ints:
        """Return for each launch the innermost call of its thread that it begins in, or NO_CALL."""
        found = np.full(len(launches.starts), NO_CALL, np.int64)
        place = {thread: i for i, thread in enumerate(self.threads)}
        for code, thread in enumerate(launches.names):
            if (i := place.get(thread)) is not None:
                index = np.flatnonzero(launches.threads == code)
                found[index] = self.innermost(i, launches.starts[index])
        return found

    def innermost(self, thread: int, times: Ints) -> Ints:
        """Return the innermost call of a thread at each time, or NO_CALL.

        What began last before it either lasts until then, or lies in all that do.
        """
        first, last = int(self.begins[thread]), int(self.begins[thread + 1])
        found = np.searchsorted(self.starts[first:last], times, "right") + first - 1
        found[found < first] = NO_CALL
        while len(over := np.flatnonzero((found != NO_CALL) & (self.ends[found] <= times))):
            found[over] = self.parents[found[over]]
        return found

    def thread_of(self, calls: Ints) -> Ints:
        """Return the thread of each of these calls."""
        return np.searchsorted(self.begins, calls, "right") - 1

    def changes(self, thread: int) -> tuple[Ints, Codes]:
        """Return the times at which a call of a thread begins or ends, and the innermost call from each on."""
        if thread not in self._changes:
            part = slice(int(self.begins[thread]), int(self.begins[thread + 1]))
            times = distinct(np.concatenate([self.starts[part], self.ends[part]]))
            self._changes[thread] = times, self.innermost(thread, times).astype(np.int32)  # many are in memory
        return self._changes[thread]

    @cached_property
    def _changes(self) -> dict[int, tuple[Ints, Codes]]:
        return {}


def call_trees(
    tables: Tables,
    *columns: str,
    kinds: tuple[str, ...] = CALL_KINDS,
    name: Callable[[str, str], bool] | None = None,
    chosen: Callable[[tuple[str, int], Rows], Mask] | None = None,
) -> Iterator[CallTree]:
    """Yield the calls of the host in each file of traces that has any, one file after the other.

    Args:
        tables: Tables of the runs.
        columns: Columns of table `events` that the rows shall have too.
        kinds: Kinds of events, of `CALL_KINDS`, that count. The others are left out, as if they were not in the trace.
        name: Returns whether events of a kind and name count. None: all do.
        chosen: Mask the calls of a run and part that count, among those with these kinds, names and times. None: all.
    """
    where: Where = {"kind": one_of(*kinds)}
    not_asked_for = [name for name in ("run", "part", *_ONLY_FOR_THREADS) if name not in columns]
    for file, events in tables.arrow_by_file("events", where, *dict.fromkeys([*_COLUMNS, *columns])):
        tree = _call_tree(file, events, not_asked_for, name, chosen)
        del events  # the caller needs the memory
        if tree is not None:
            yield tree


def _call_tree(
    file: tuple[str, int],
    events: pa.Table,
    not_asked_for: list[str],
    name: Callable[[str, str], bool] | None,
    chosen: Callable[[tuple[str, int], Rows], Mask] | None,
) -> CallTree | None:
    """The calls among the events of a file, without some columns; None if there are none."""
    rows = rows_from_arrow(events)
    counts = has_times(rows)
    if name is not None:
        counts &= _named(rows, name)
    index = np.flatnonzero(counts)
    if chosen is not None and len(index):
        index = index[chosen(file, rows.where(index))]
    if not len(index):
        return None
    threads, names = threads_of(rows)
    index = _outer_first(rows, threads, index)
    threads = threads[index]
    begins = np.searchsorted(threads, np.arange(len(names) + 1))
    ordered = rows_from_arrow(events.drop_columns(not_asked_for).take(index_array(index)))
    del rows, index
    ends = ordered["start_ns"] + ordered["duration_ns"]
    return CallTree(*file, ordered, _parents(threads, ordered["start_ns"], ends), names, begins)


def _outer_first(rows: Rows, threads: Ints, index: Ints) -> Ints:
    """Return these rows by thread and start; rows that begin together by length, longest first, then outer kind first.

    The rows are by line, which decides last.
    """
    starts = rows["start_ns"]
    for key in (starts, threads):
        if (np.diff(key[index]) < 0).any():
            index = index[np.argsort(key[index], kind="stable")]
    same = (starts[index[1:]] == starts[index[:-1]]) & (threads[index[1:]] == threads[index[:-1]])
    together = np.flatnonzero(np.append(same, False) | np.append(False, same))
    kind, words = rows.codes("kind")
    level = np.array([CALL_KINDS.index(word) if word in CALL_KINDS else 0 for word in words], np.int64)
    some = index[together]
    keys = (level[kind[some]], -rows["duration_ns"][some], starts[some], threads[some])
    index[together] = some[np.lexsort(keys)]
    return index


_ONLY_FOR_THREADS = "process", "thread"
_COLUMNS = ("kind", "name", *_ONLY_FOR_THREADS, "start_ns", "duration_ns")


def _named(rows: Rows, counts: Callable[[str, str], bool]) -> Mask:
    """Flag the events with a kind and name that `counts` accepts."""
    (kind, kinds), (name, names) = rows.codes("kind"), rows.codes("name")
    passed = np.zeros((len(kinds), len(names) + 1), np.bool_)
    passed[kind, name] = True
    for i, j in np.argwhere(passed).tolist():
        passed[i, j] = j < len(names) and counts(kinds[i], names[j])
    flags: Mask = passed[kind, name]
    return flags


def _parents(threads: Ints, starts: Ints, ends: Ints) -> Ints:
    """Return the index of the innermost interval of the same thread that contains each interval, or NO_CALL.

    The intervals are in order of thread and start, the outer first.
    """
    parents = np.full(len(starts), NO_CALL, np.int64)
    ends = np.maximum(ends, starts + 1)  # one without length would have ended before it began
    edges = np.flatnonzero(np.diff(threads, prepend=-1, append=-1))
    for first, last in pairwise(edges.tolist()):
        start, end = starts[first:last], ends[first:last]
        found, wrong = nested_parents(start, end)
        if wrong.any():  # only calls between two times without an open call are processed again
            reach = np.maximum.accumulate(end)
            group = np.cumsum(np.append(False, start[1:] >= reach[:-1]))
            again = np.flatnonzero(np.isin(group, group[wrong]))
            parents_in_group = _parents_of_overlapping(start[again], end[again])
            found[again] = np.where(parents_in_group == NO_CALL, NO_CALL, again[parents_in_group])
        parents[first:last] = np.where(found == NO_CALL, NO_CALL, found + first)
    return parents


def _parents_of_overlapping(starts: Ints, ends: Ints) -> Ints:
    """The same for intervals of one thread that overlap: one that ends a rounding later than another still lies in it.

    The parent of an interval is the last one before it that ends late enough. It is found in a tree with the latest end
    below each node: up to the first node to the left that ends late enough, then down to the last such interval.
    """
    least = np.maximum(ends - _ROUNDED_NS, starts + 1)
    latest = [ends]  # of the nodes of each level; two nodes have one parent
    while len(latest[-1]) > 1:
        below = latest[-1] = np.append(latest[-1], np.full(len(latest[-1]) % 2, _NEVER))
        latest.append(np.maximum(below[::2], below[1::2]))
    rest, found = np.arange(len(starts)), []
    for level, ends_of_level in enumerate(latest[:-1]):
        left = (rest >> level) - 1
        has_one = (left & 1 == 0) & (ends_of_level[left] >= least[rest])  # left of it, and below the same node
        found.append((rest[has_one], left[has_one]))
        rest = rest[~has_one]
    intervals, nodes = np.zeros((2, 0), np.int64)
    for level in range(len(found) - 1, -1, -1):
        intervals, nodes = (np.append(*pair) for pair in zip((intervals, nodes), found[level], strict=True))
        if level:
            right = 2 * nodes + 1
            nodes = right - (latest[level - 1][right] < least[intervals])
    parents = np.full(len(starts), NO_CALL, np.int64)
    parents[intervals] = nodes
    return parents
