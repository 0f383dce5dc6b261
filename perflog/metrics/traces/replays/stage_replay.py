"""Replay of a pipeline in which all ranks compute equally long: what unequal stages cost.

Stages do different things, so none is compared with another: all that a rank computes becomes longer or shorter by one
factor. A rank that never waited would have to wait then for what it receives. So it is ready for a send or collective
after the one before, after what it had waited for, and after what it had received until then.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from perflog.arrays import Ints
from perflog.metrics.traces.collectives.collective_matching import MatchedCollectives
from perflog.metrics.traces.intervals import Intervals
from perflog.metrics.traces.replays.arrivals import Arrivals
from perflog.metrics.traces.replays.rank_replay import (
    END,
    ENOUGH,
    FIRST,
    RECEIVES,
    JobCalls,
    Window,
    unmatched_times,
)

_ENDED, _READY, _STARTED = range(3)  # what happens, in order at one time


class StageReplay(Struct, frozen=True):
    """Times of a pipeline in ns: as traced, replayed unchanged, and replayed with equal computation on all ranks."""

    traced: int
    unchanged: int
    equal: int


def replay_of_stages(
    matched: MatchedCollectives,
    windows: Sequence[Window],
    arrivals: Sequence[Arrivals],
    computing: Sequence[Intervals],
) -> StageReplay | None:
    """Return the replay of a pipeline in which each rank computes as long as the mean rank; None if it is none.

    Args:
        matched: The collectives of the job.
        windows: Begin and end of the time that counts, of each member of the job.
        arrivals: When each member was ready for its collectives.
        computing: The time in which each member computes.
    """
    known = matched.collectives[matched.collectives["reason"].isna()]
    begin, last = min(start for start, _ in windows), max(end for _, end in windows)
    calls = JobCalls.of(matched, windows, begin, arrivals) if known["src_rank"].notna().any() else None
    if calls is None:
        return None
    alone = np.bincount(calls.members, calls.alone, len(windows))
    if (unmatched_times(matched) > (1 - ENOUGH) * alone).any():
        return None
    edges = [(np.array([start]), np.array([end])) for start, end in windows]
    times = np.array([each.inside(*edge).sum() for each, edge in zip(computing, edges, strict=True)], np.float64)
    if not times.all():
        return None
    paths = _Paths.of(calls)
    less = np.zeros(len(calls.members), np.int64)
    for member, share in enumerate(1 - times.mean() / times):
        rows = np.flatnonzero(calls.members == member)
        inside = computing[member].inside(paths.since[rows], calls.ready[rows])
        less[rows] = np.round(share * inside).astype(np.int64)
    alone = calls.ready - paths.since
    return StageReplay(last - begin, _replayed(calls, paths, alone), _replayed(calls, paths, alone - less))


class _Paths(Struct, frozen=True):
    """What each call of a member waits for before it is ready, and since when the member had worked on its own.

    `before`: the arrival before, or FIRST. `sources`: calls with an end that it waits for, or FIRST: the one that it
    came from, and the last receive from each side, if that had ended before the member went on: it may receive ahead.
    """

    before: list[int]
    sources: list[list[int]]
    since: Ints

    @classmethod
    def of(cls, calls: JobCalls) -> _Paths:
        before, came_from = np.full(len(calls.ready), FIRST, np.int64), calls.came_from.copy()
        for rows in calls.in_order:
            arrived: list[tuple[int, int]] = []
            for row, ready in zip(rows.tolist(), calls.ready[rows].tolist(), strict=True):
                place = bisect_right(arrived, (ready, END))  # what it launched before may be ready later
                before[row] = arrived[place - 1][1] if place else FIRST
                insort(arrived, (ready, row))
        came_end = np.append(calls.ends, calls.begin)[came_from]
        came_from = np.where(came_end <= calls.ready, came_from, FIRST)
        came_end = np.append(calls.ends, calls.begin)[came_from]
        since = np.maximum(came_end, np.append(calls.ready, calls.begin)[before])
        received = [_last_received(calls, way, since) for way in RECEIVES]
        return cls(before.tolist(), [each.tolist() for each in (came_from, *received)], since)


def _last_received(calls: JobCalls, way: int, since: Ints) -> Ints:
    found = np.full(len(since), FIRST, np.int64)
    for rows in calls.in_order:
        places = np.where(calls.ways[rows] == way, np.arange(len(rows)), -1)
        last = np.append(-1, np.maximum.accumulate(places)[:-1])
        received = np.where(last < 0, FIRST, rows[last])
        found[rows] = np.where((received != FIRST) & (calls.ends[received] <= since[rows]), received, FIRST)
    return found


def _replayed(calls: JobCalls, paths: _Paths, alone: Ints) -> int:
    """Return how long the job takes if its members are on their own for these times before each call."""
    rows = np.arange(len(alone))
    together = np.flatnonzero(calls.together[calls.heads])
    edges = np.append(calls.heads, len(rows))
    single = np.flatnonzero(~calls.together & (calls.keys != END))
    moments = [(calls.ready, _READY, rows), (calls.starts[calls.keys != END], _STARTED, rows[calls.keys != END])]
    first_ends = np.minimum.reduceat(calls.ends, calls.heads)[together]
    moments += [(first_ends, _ENDED, calls.heads[together]), (calls.ends[single], _ENDED, single)]
    times = np.concatenate([time for time, *_ in moments])
    kinds = np.concatenate([np.full(len(time), kind) for time, kind, _ in moments])
    who = np.concatenate([row for *_, row in moments])
    place = np.argsort(np.concatenate(calls.in_order), kind="stable")  # at one time, a member arrives in its order
    following = dict(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
    ready, started, ended = ([calls.begin] * (len(rows) + 1) for _ in range(3))  # the last one is the begin
    own, starts, ends, follows = alone.tolist(), calls.starts.tolist(), calls.ends.tolist(), calls.follows.tolist()
    is_together = calls.together.tolist()
    for moment in np.lexsort((place[who], kinds, times)).tolist():
        kind, row = int(kinds[moment]), int(who[moment])
        if kind == _READY:
            ready[row] = max(ready[paths.before[row]], *(ended[calls_of[row]] for calls_of in paths.sources)) + own[row]
        elif kind == _STARTED:
            free = ended[follows[row]] + starts[row] - ends[follows[row]] if follows[row] != FIRST else calls.begin
            started[row] = max(ready[row], free)
        else:
            members = range(row, following[row]) if is_together[row] else range(row, row + 1)
            arrived, since = max(started[each] for each in members), max(starts[each] for each in members)
            for each in members:
                ended[each] = arrived + ends[each] - since
    last: int = max(ready[row] for row in np.flatnonzero(calls.keys == END).tolist())
    return last - calls.begin
