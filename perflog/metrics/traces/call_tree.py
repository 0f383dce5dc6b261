"""Calls of the host in traces: which event of a thread lies in which, and which call launched the work of a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from perflog.metrics.registry import Tables
from perflog.metrics.traces.device_work import has_valid_times, integers
from perflog.tables.arrow import Where, one_of

if TYPE_CHECKING:
    import pandas as pd

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

CALL_KINDS = ("range", "python", "cpu", "runtime")
"""Kinds of events that are calls of the host, the outermost first where two begin and end together."""

NO_CALL = -1
"""In place of the index of a call: there is none, or the trace does not tell which."""

_ROUNDED_NS = 1000  # old traces hold whole microseconds: an inner call may end so much later than the outer one


@dataclass(frozen=True, eq=False)
class CallTree:
    """Calls of the host in one file of a run. All arrays have one entry for each call, the outer before the inner one.

    `rows`: rows of table `events` with a start and a duration: line, kind, name, thread (number of process and thread),
    start_ns, end_ns, correlation, external, and the columns that were asked for. `parents`: index of the innermost call
    of the same thread that contains a call, or NO_CALL.
    """

    run: str
    part: int
    rows: pd.DataFrame
    parents: Ints

    def __len__(self) -> int:
        return len(self.parents)

    @cached_property
    def starts(self) -> Ints:
        return integers(self.rows["start_ns"])

    @cached_property
    def ends(self) -> Ints:
        return integers(self.rows["end_ns"])

    @cached_property
    def kinds(self) -> npt.NDArray[Any]:
        kinds: npt.NDArray[Any] = self.rows["kind"].to_numpy()
        return kinds

    def nearest(self, chosen: Flags) -> Ints:
        """Return for each call the innermost of the chosen calls that it lies in, itself included, or NO_CALL."""
        found = np.where(chosen, np.arange(len(self)), self.parents)
        while len(open_ := np.flatnonzero((found != NO_CALL) & ~np.append(chosen, False)[found])):
            found[open_] = self.parents[found[open_]]
        return found

    def launches(self, work: pd.DataFrame) -> Ints:
        """Return for each piece of device work the index of the call that launched it, or NO_CALL.

        That is the only call of the runtime with its correlation number; else the only operator with its external
        number, as in traces of PyTorch before 2022. A number of several calls does not tell which of them it was.

        Args:
            work: Rows with columns correlation and external, such as `TraceDevice.rows`.
        """
        is_runtime = self.kinds == "runtime"
        found = _join(work["correlation"], self.rows["correlation"], is_runtime)
        open_ = np.flatnonzero(found == NO_CALL)
        if len(open_) and "external" in work:
            found[open_] = _join(work["external"].iloc[open_], self.rows["external"], self.kinds == "cpu")
        return found


def call_trees(
    tables: Tables, *columns: str, kinds: tuple[str, ...] = CALL_KINDS, name: Callable[[str, str], bool] | None = None
) -> Iterator[CallTree]:
    """Yield the calls of the host in each file of traces that has any, one file after the other.

    Args:
        tables: Tables of the runs.
        columns: Columns of table `events` that the rows shall have too.
        kinds: Kinds of events, of `CALL_KINDS`, that count. The others are left out, as if they were not in the trace.
        name: Returns whether events of a kind and name count. None: all do.
    """
    where: Where = {"kind": one_of(*kinds)}
    wanted = ("kind", "name", "process", "thread", "start_ns", "duration_ns", "correlation", "external", *columns)
    for (run, part), events in tables.chosen_by_file("events", where, *wanted):
        counts = has_valid_times(events)
        if name is not None:
            counts &= _named(events, name)
        rows = events[counts]
        if not len(rows):
            continue
        threads = rows.groupby(["process", "thread"], dropna=False, sort=False).ngroup().to_numpy(np.int64)
        starts, lengths = integers(rows["start_ns"]), integers(rows["duration_ns"])
        levels = np.array([*map(CALL_KINDS.index, kinds)], np.int64)
        level = levels[[kinds.index(kind) for kind in rows["kind"]]]
        order = np.lexsort((rows["line"].to_numpy(np.int64), level, -lengths, starts, threads))
        ends = starts + lengths
        parents = _parents(threads[order], starts[order], ends[order])
        rows = rows.assign(thread=threads, end_ns=ends).drop(columns=["run", "part", "process", "duration_ns"])
        yield CallTree(run, part, rows.iloc[order].reset_index(drop=True), parents)


def _named(events: pd.DataFrame, counts: Callable[[str, str], bool]) -> Flags:
    """Flag the events whose kind and name count."""
    pairs = list(zip(events["kind"], events["name"], strict=True))
    passed = {(kind, text): isinstance(text, str) and counts(kind, text) for kind, text in dict.fromkeys(pairs)}
    return np.array([passed[pair] for pair in pairs], np.bool_)


def _join(numbers: pd.Series[int], known: pd.Series[int], chosen: Flags) -> Ints:
    """Return for each number the index of the only chosen row with this number, or NO_CALL."""
    index = np.flatnonzero(chosen & known.notna().to_numpy(bool))
    of_index = integers(known.iloc[index])
    distinct, first, times = np.unique(of_index, return_index=True, return_counts=True)
    found = np.full(len(numbers), NO_CALL, np.int64)
    asked = np.flatnonzero(numbers.notna().to_numpy(bool))
    if not len(distinct) or not len(asked):
        return found
    wanted = integers(numbers.iloc[asked])
    place = np.minimum(np.searchsorted(distinct, wanted), len(distinct) - 1)
    certain = (distinct[place] == wanted) & (times[place] == 1)
    found[asked[certain]] = index[first[place[certain]]]
    return found


def _parents(threads: Ints, starts: Ints, ends: Ints) -> Ints:
    """Return the index of the innermost interval of the same thread that contains each interval, or NO_CALL.

    The intervals are in order of thread and start, the outer first. Where those of a thread nest, the depth of one is
    the number of those that began before it and have not ended, and its parent is the last one before it of the depth
    above. A thread whose intervals do not nest shows it: then some parent does not contain its child.
    """
    parents = np.full(len(starts), NO_CALL, np.int64)
    ends = np.maximum(ends, starts + 1)  # one without length would have ended before it began
    edges = np.flatnonzero(np.diff(threads, prepend=-1, append=-1))
    for first, last in pairwise(edges.tolist()):
        start, end = starts[first:last], ends[first:last]
        found = _parents_by_depth(start, end)
        inner = found != NO_CALL
        if (end[found[inner]] < end[inner]).any():
            found = _parents_one_by_one(start, end)
        parents[first:last] = np.where(found == NO_CALL, NO_CALL, found + first)
    return parents


def _parents_by_depth(starts: Ints, ends: Ints) -> Ints:
    depths = np.arange(len(starts)) - np.searchsorted(np.sort(ends), starts, "right")
    order = np.argsort(depths, kind="stable")
    levels = np.split(order, np.flatnonzero(np.diff(depths[order])) + 1)
    parents = np.full(len(starts), NO_CALL, np.int64)
    for above, level in pairwise(levels):
        parents[level] = above[np.searchsorted(above, level) - 1]
    return parents


def _parents_one_by_one(starts: Ints, ends: Ints) -> Ints:
    """The same for intervals that overlap: one that ends a rounding later than another one still lies in it."""
    parents = np.full(len(starts), NO_CALL, np.int64)
    # Of those that began before, each that ends later than all that began after it: no other one can be a parent. The
    # last one ends first.
    open_: list[tuple[int, int]] = []  # end, index
    for index, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        least = max(end - _ROUNDED_NS, start + 1)
        while open_ and open_[-1][0] < least:
            open_.pop()
        if open_:
            parents[index] = open_[-1][1]
        while open_ and open_[-1][0] <= end:
            open_.pop()
        open_.append((end, index))
    return parents
