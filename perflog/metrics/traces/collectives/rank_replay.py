"""Replay of the collectives of a job: when it ends if one rank is as fast between collectives as the median rank.

A rank comes to a collective a time of its own after the collective before it had ended. A collective without early
leavers ends after its last rank has arrived. So the unchanged replay is the trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from perflog.arrays import Ints, Mask
from perflog.metrics.traces.collectives.collective_matching import TOGETHER, MatchedCollectives
from perflog.statistics.groups import groups_of

if TYPE_CHECKING:
    import pandas as pd


_FIRST = -1  # replaces the call before: there is none
Window = tuple[int, int]


class RankReplay(Struct, frozen=True):
    """Times of a job in ns: as traced, replayed unchanged, and replayed with ranks that are as fast as the median.

    `without`: one rank is, by its index in the job; `alone`: all others are; `ideal`: all are; `without_slowest`: the
    three per cent of the ranks with the longest `alone` are, at least one.
    """

    traced: int
    unchanged: int
    without: list[int]
    alone: list[int]
    ideal: int
    without_slowest: int


def replay_of_ranks(matched: MatchedCollectives, windows: Sequence[Window]) -> RankReplay | None:
    """Return the replay of a job; None if it is not known for any collective how long its ranks wait.

    Args:
        matched: The collectives of the job.
        windows: Begin and end of the time that counts, of each member of the job.
    """
    calls = _Calls.of(matched, windows)
    if calls is None:
        return None
    begin, last = min(start for start, _ in windows), max(end for _, end in windows)
    one = np.eye(len(windows), dtype=np.bool_)
    nobody, everybody = np.zeros((2, 1, len(windows)), np.bool_)
    everybody[:] = True
    unchanged, ideal, *each_rank = calls.replayed(np.concatenate([nobody, everybody, one, ~one]), begin)
    without, alone = each_rank[: len(windows)], each_rank[len(windows) :]
    slowest = np.zeros(len(windows), np.bool_)
    slowest[np.argsort(-np.array(alone), kind="stable")[: -(-len(windows) * _SLOWEST // 100)]] = True
    (without_slowest,) = calls.replayed(slowest[None], begin)
    return RankReplay(last - begin, unchanged, without, alone, ideal, without_slowest)


_SLOWEST = 3  # per cent of the ranks
_END = np.iinfo(np.int64).max  # key of the end of a window, a call without length


class _Calls(Struct, frozen=True, eq=False):
    """The calls of collectives, one collective after the other, and the end of each window; `heads`: first of each.

    `before`: the call of the same member that ended last before the call began, or _FIRST.
    """

    keys: Ints
    members: Ints
    starts: Ints
    ends: Ints
    together: Mask
    before: Ints
    heads: Ints

    @classmethod
    def of(cls, matched: MatchedCollectives, windows: Sequence[Window]) -> _Calls | None:
        known = matched.collectives[matched.collectives["reason"].isna()]
        calls = matched.calls[matched.calls["key"].isin(known.index)]
        if not len(calls):
            return None
        columns = _integers(calls, "key", "member", "start")
        ended = columns[2] + calls["length"].to_numpy(np.int64)
        inside = np.array([windows[m][0] <= a < windows[m][1] for m, a in zip(*columns[1:], strict=True)], np.bool_)
        keys, members, starts, ends = (column[inside] for column in (*columns, ended))
        if not len(keys):
            return None
        many = len(windows)
        edges = np.array([end for _, end in windows], np.int64)
        keys, members = np.append(keys, np.full(many, _END)), np.append(members, np.arange(many))
        starts, ends = np.append(starts, edges), np.append(ends, edges)
        together = set(known.index[known["op"].isin(TOGETHER)])
        groups = groups_of(keys)
        began = np.full(len(groups.first), np.iinfo(np.int64).min)
        np.maximum.at(began, groups.inverse, starts)
        order = np.lexsort((members, keys, began[groups.inverse], keys == _END))
        keys, members, starts, ends = (column[order] for column in (keys, members, starts, ends))
        heads = np.flatnonzero(np.diff(keys, prepend=_FIRST))
        flags = np.array([key in together for key in keys.tolist()], np.bool_)
        before = np.full(len(keys), _FIRST, np.int64)
        for member in range(many):
            own = np.flatnonzero(members == member)
            calls_of = own[keys[own] != _END]
            by_end = calls_of[np.argsort(ends[calls_of], kind="stable")]
            place = np.searchsorted(ends[by_end], starts[own], "right") - 1
            found = np.append(by_end, _FIRST)[place]  # at index -1 there is none
            before[own] = np.where(found < own, found, _FIRST)  # of its own collective, or of a later one: none
        return cls(keys, members, starts, ends, flags, before, heads)

    def replayed(self, faster: Mask, begin: int) -> list[int]:
        """Return how long the job takes if some ranks are as fast as the median; rows of flags, by index in the job."""
        own, saved = self.own_times(begin)
        less = saved[:, None] * faster.T[self.members]
        ended = np.full((len(own) + 1, len(faster)), begin, np.int64)  # the last one is the begin
        for rows in np.split(np.arange(len(own)), self.heads[1:]):
            arrived = ended[self.before[rows]] + own[rows, None] - less[rows]
            since = self.starts[rows]
            if self.together[rows[0]]:
                arrived = np.broadcast_to(arrived.max(axis=0), arrived.shape)
                since = since.max()
            ended[rows] = arrived + (self.ends[rows] - since)[:, None]
        top: list[int] = (ended[:-1][self.keys == _END].max(axis=0) - begin).tolist()
        return top

    def own_times(self, begin: int) -> tuple[Ints, Ints]:
        """Return the time of each call's rank before it, and how much longer that is than the median of the ranks.

        Ranks are compared where all have come from the same collective.
        """
        ended = np.append(self.ends, begin)
        own = self.starts - ended[self.before]
        saved = np.zeros(len(own), np.int64)
        came_from = np.append(self.keys, _FIRST)[self.before]
        for rows in np.split(np.arange(len(own)), self.heads[1:]):
            if len(rows) > 1 and (came_from[rows] == came_from[rows[0]]).all():
                saved[rows] = np.maximum(own[rows] - int(np.median(own[rows])), 0)
        return own, saved


def _integers(rows: pd.DataFrame, *names: str) -> list[Ints]:
    return [rows[name].to_numpy(np.int64) for name in names]
