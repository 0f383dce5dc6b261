"""Replay of the collectives of a job: when it ends if one rank is as fast between collectives as the median rank.

A rank is ready for a collective a time of its own after the collective that it came from had ended, see `arrivals`; the
kernel begins then, or when the collective before on its stream has ended. A collective that no rank leaves before the
last one has arrived ends after that. So the unchanged replay is the trace. Ranks are compared from arrival to arrival.

Ranks that do other things than all others, as the first and last stage of a pipeline, and communication that is not
matched, hide what a rank costs: there is no replay then.

Known limits: where the launches are not known, a rank is ready when its kernel begins, and came from the collective
that had ended last. There is no replay then if collectives queue up: compute may not wait for them. Of a CUDA graph it
is not known what a collective in a queue had waited for: a rank seems to be ready later than it was, and the gain of
another one is too small.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from perflog.arrays import Ints, Mask
from perflog.metrics.traces.collectives.collective_matching import MatchedCollectives
from perflog.metrics.traces.replays.arrivals import Arrivals
from perflog.statistics.groups import groups_of
from perflog.statistics.samples import lower_median

if TYPE_CHECKING:
    import pandas as pd


FIRST = -1  # replaces the call before: there is none
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


def replay_of_ranks(
    matched: MatchedCollectives, windows: Sequence[Window], arrivals: Sequence[Arrivals | None] = ()
) -> RankReplay | None:
    """Return the replay of a job; None if it is not known for any collective how long its ranks wait.

    Args:
        matched: The collectives of the job.
        windows: Begin and end of the time that counts, of each member of the job.
        arrivals: When each member was ready for its collectives; None where that is not known; by default of all.
    """
    arrivals = arrivals or [None] * len(windows)
    begin, last = min(start for start, _ in windows), max(end for _, end in windows)
    calls = JobCalls.of(matched, windows, begin, arrivals)
    if calls is None or (not all(arrivals) and calls.queued() > _FEW):
        return None
    if calls.comparable(unmatched_times(matched)) < ENOUGH:
        return None
    one = np.eye(len(windows), dtype=np.bool_)
    nobody, everybody = np.zeros((2, 1, len(windows)), np.bool_)
    everybody[:] = True
    unchanged, ideal, *each_rank = calls.replayed(np.concatenate([nobody, everybody, one, ~one]))
    without, alone = each_rank[: len(windows)], each_rank[len(windows) :]
    slowest = np.zeros(len(windows), np.bool_)
    slowest[np.argsort(-np.array(alone), kind="stable")[: -(-len(windows) * _SLOWEST // 100)]] = True
    (without_slowest,) = calls.replayed(slowest[None])
    return RankReplay(last - begin, unchanged, without, alone, ideal, without_slowest)


_SLOWEST = 3  # per cent of the ranks
_AT_ONCE = 5000  # ns after the collective before: the kernel had waited for its stream
_FEW = 0.1  # of the calls
ENOUGH = 0.75  # of the time of each rank on its own
_ALL, _WAYS = 5, 6  # 1 to 4: a send or receive, to or from earlier or later ranks; _ALL: a collective of all; 0: none
RECEIVES = (1, 3)
END = np.iinfo(np.int64).max  # key of the end of a window, a call without length


class JobCalls(Struct, frozen=True, eq=False):
    """The calls of collectives, one collective after the other, and the end of each window; `heads`: first of each.

    Times are in ns. `begin`: of the job. `together`: flags of collectives that end after the last arrival. `ready`:
    when the member was ready. `came_from`: the call of the same member that it came from, or FIRST; `follows`: the
    call that held it up on its stream, or FIRST. `alone`: how long the member was on its own since it came from there,
    or since its arrival before. `longer`: by how much that is longer than the median of the ranks, in sums since
    `came_from`. `is_compared`: whether there is another rank to compare it with. `ways`: of sends and receives.
    `in_order`: the calls of each member in the order of its arrivals.
    """

    begin: int
    keys: Ints
    members: Ints
    starts: Ints
    ends: Ints
    together: Mask
    heads: Ints
    ready: Ints
    came_from: Ints
    follows: Ints
    alone: Ints
    longer: Ints
    is_compared: Mask
    ways: Ints
    in_order: Sequence[Ints]

    @classmethod
    def of(
        cls,
        matched: MatchedCollectives,
        windows: Sequence[Window],
        begin: int,
        arrivals: Sequence[Arrivals | None],
    ) -> JobCalls | None:
        known = matched.collectives[matched.collectives["reason"].isna()]
        calls = matched.calls[matched.calls["key"].isin(known.index)]
        if not len(calls):
            return None
        columns = _integers(calls, "key", "member", "start", "line")
        ended = columns[2] + calls["length"].to_numpy(np.int64)
        inside = np.array([windows[m][0] <= a < windows[m][1] for m, a in zip(*columns[1:3], strict=True)], np.bool_)
        keys, members, starts, lines, ends = (column[inside] for column in (*columns, ended))
        if not len(keys):
            return None
        many = len(windows)
        edges = np.array([end for _, end in windows], np.int64)
        keys, members = np.append(keys, np.full(many, END)), np.append(members, np.arange(many))
        starts, ends, lines = np.append(starts, edges), np.append(ends, edges), np.append(lines, np.full(many, END))
        groups = groups_of(keys)
        began = np.full(len(groups.first), np.iinfo(np.int64).min)
        np.maximum.at(began, groups.inverse, starts)
        order = np.lexsort((members, keys, began[groups.inverse], keys == END))
        keys, members, starts, ends, lines = (column[order] for column in (keys, members, starts, ends, lines))
        ranks = [member.rank for member in matched.job.members]
        rows = _Rows(begin, keys, members, starts, ends, lines, _program(known, keys, members, ranks))
        for member, its_arrivals in enumerate(arrivals):
            rows.add(member, its_arrivals)
        rows.agree_on_sources()
        heads = np.flatnonzero(np.diff(keys, prepend=FIRST))
        overlap = np.maximum.reduceat(starts, heads) <= np.minimum.reduceat(ends, heads)
        together = (keys != END) & np.repeat(overlap, np.diff(np.append(heads, len(keys))))
        return cls(
            begin, keys, members, starts, ends, together, heads,
            rows.ready, rows.came_from, rows.follows, rows.alone, *rows.longer(), rows.ways, rows.in_order,
        )  # fmt: skip

    def comparable(self, elsewhere: Ints) -> float:
        """Return the least share of a member's time on its own that is compared with other ranks.

        Args:
            elsewhere: Time in ns in which each member may have waited for others unseen.
        """
        whole = np.bincount(self.members, self.alone)
        known = np.bincount(self.members, self.alone * self.is_compared) - elsewhere
        return float((known[whole > 0] / whole[whole > 0]).min(initial=1.0))

    def queued(self) -> float:
        """Return the share of the calls that begin as soon as the collective that they came from has ended."""
        calls = np.flatnonzero((self.came_from != FIRST) & (self.keys != END))
        return float((self.alone[calls] < _AT_ONCE).mean()) if len(calls) else 0.0

    def replayed(self, faster: Mask) -> list[int]:
        """Return how long the job takes if some ranks are as fast as the median; rows of flags, by index in the job."""
        own = self.ready - np.append(self.ends, self.begin)[self.came_from]
        less = self.longer[:, None] * faster.T[self.members]
        ended = np.full((len(own) + 1, len(faster)), self.begin, np.int64)  # the last one is the begin
        held_up = self.follows != FIRST
        late = np.where(held_up, self.starts - self.ends[self.follows], 0)
        for rows in np.split(np.arange(len(own)), self.heads[1:]):
            arrived = ended[self.came_from[rows]] + own[rows, None] - less[rows]
            queued = np.flatnonzero(held_up[rows])
            free = ended[self.follows[rows[queued]]] + late[rows[queued], None]
            arrived[queued] = np.maximum(arrived[queued], free)
            since = self.starts[rows]
            if self.together[rows[0]]:
                arrived = np.broadcast_to(arrived.max(axis=0), arrived.shape)
                since = since.max()
            ended[rows] = arrived + (self.ends[rows] - since)[:, None]
        top: list[int] = (ended[:-1][self.keys == END].max(axis=0) - self.begin).tolist()
        return top


class _Rows:
    """The columns of `JobCalls` that are found member by member.

    `program`: numbers that are equal for calls that ranks compare, and ways of sends and receives. What a stage of a
    pipeline does after one depends on its way: forward or backward, in another order on each stage.
    """

    def __init__(
        self, begin: int, keys: Ints, members: Ints, starts: Ints, ends: Ints, lines: Ints,
        program: tuple[Ints, Ints],
    ) -> None:  # fmt: skip
        self._begin, self._keys, self._members, self._starts = begin, keys, members, starts
        self._ends, self._lines, (self._alike, self.ways) = ends, lines, program
        self.ready, self.alone = starts.copy(), np.zeros(len(keys), np.int64)
        self.came_from, self.follows, self._before = (np.full(len(keys), FIRST, np.int64) for _ in range(3))
        self.in_order: list[Ints] = []  # rows of each member in the order of its arrivals

    def add(self, member: int, arrivals: Arrivals | None) -> None:
        """Fill in the rows of a member."""
        own = np.flatnonzero(self._members == member)
        calls, end = own[self._keys[own] != END], own[self._keys[own] == END]
        by_end = calls[np.argsort(self._ends[calls], kind="stable")]
        place = np.searchsorted(self._ends[by_end], self._starts[own], "right") - 1
        found = np.append(by_end, FIRST)[place]  # at index -1 there is none
        self.came_from[own] = np.where(found < own, found, FIRST)  # of its own collective, or of a later one: none
        in_order = calls[np.argsort(self._starts[calls], kind="stable")]
        if arrivals is not None:
            by_line = calls[np.argsort(self._lines[calls], kind="stable")]
            chosen = np.flatnonzero(np.isin(arrivals.lines, self._lines[by_line]))
            in_order = self._row_of(by_line, arrivals.lines[chosen])
            self.ready[in_order] = arrivals.ready[chosen]
            for column, lines in ((self.came_from, arrivals.came_from), (self.follows, arrivals.follows)):
                rows = self._row_of(by_line, lines[chosen])
                column[in_order] = np.where(rows < in_order, rows, FIRST)
        in_order = np.append(in_order, end)
        ways = self.ways[in_order]
        self._alike[in_order] = _WAYS * self._alike[in_order] + np.where(ways == _ALL, _ALL, _last_before(ways))
        self._before[in_order] = np.append(FIRST, self._alike[in_order][:-1])
        self.in_order.append(in_order)

    def _row_of(self, by_line: Ints, lines: Ints) -> Ints:
        """Return the row with each of these lines among the rows, which are in order of line, or FIRST."""
        place = np.minimum(np.searchsorted(self._lines[by_line], lines), len(by_line) - 1)
        return np.where(self._lines[by_line[place]] == lines, by_line[place], FIRST)

    def agree_on_sources(self) -> None:
        """Let a member come from the collective from which most members came, if that is earlier; find `alone` then.

        Work may begin when another collective ends by chance. The member would be compared from then on only.
        """
        width = int(self._alike.max()) + 1
        calls = self._members * width + self._alike
        by_call = np.argsort(calls, kind="stable")
        calls = calls[by_call]
        came_from = np.append(self._alike, FIRST)[self.came_from]
        for rows in self._compared():
            sources, counts = np.unique(came_from[rows], return_counts=True)
            most = int(sources[counts.argmax()])
            if len(sources) > 1 and 2 * counts.max() > len(rows):
                others = rows[came_from[rows] != most]
                wanted = self._members[others] * width + most
                index = np.minimum(np.searchsorted(calls, wanted), len(calls) - 1)
                own = self.came_from[others]
                found = by_call[index] if most != FIRST else np.full(len(others), FIRST)
                is_known = (calls[index] == wanted) | (most == FIRST)
                self.came_from[others] = np.where(is_known, np.minimum(found, own), own)
        for in_order in self.in_order:
            reached = np.append(self._begin, np.maximum.accumulate(self.ready[in_order])[:-1])
            since = np.maximum(np.append(self._ends, self._begin)[self.came_from[in_order]], reached)
            self.alone[in_order] = np.maximum(self.ready[in_order] - since, 0)

    def _compared(self) -> Iterator[Ints]:
        """Yield the rows of calls at the same place of the program, after the same one before."""
        groups = groups_of(self._alike, self._before)
        order = np.argsort(groups.inverse, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(groups.inverse[order])) + 1):
            if len(rows) > 1:
                yield rows

    def longer(self) -> tuple[Ints, Mask]:
        """Return how much longer each member was on its own than the median, in sums since `came_from`; what counts.

        Ranks are compared where they arrive at the same place of the program, and had arrived at the same one before.
        """
        more, is_compared = np.zeros(len(self.alone), np.int64), np.zeros(len(self.alone), np.bool_)
        for rows in self._compared():
            more[rows] = np.maximum(self.alone[rows] - int(lower_median(self.alone[rows])), 0)
            is_compared[rows] = True
        sums = np.zeros(len(more), np.int64)
        for in_order in self.in_order:
            until = np.append(0, np.cumsum(more[in_order]))
            reached = np.maximum.accumulate(self.ready[in_order])
            came_end = np.append(self._ends, self._begin)[self.came_from[in_order]]
            first = np.searchsorted(reached, came_end, "right")  # the first arrival after it had come from there
            first = np.minimum(first, np.arange(len(in_order)))
            sums[in_order] = until[1:] - until[first]
        return sums, is_compared


def _program(collectives: pd.DataFrame, keys: Ints, members: Ints, ranks: Sequence[int | None]) -> tuple[Ints, Ints]:
    """Return a number for each call, the same one at the same place of the program on several ranks, and its way.

    Tensor-parallel groups of different ranks are one place: they have one size, and often names of their own. Sends to
    later ranks are one place, and so are receives from later ranks.
    """
    import pandas as pd

    rows = collectives.reindex(keys)
    sizes = rows["size"].where(rows["group"].notna()).astype("Float64").to_numpy(np.float64, na_value=np.nan)
    source, target = (
        rows[end].astype("Float64").to_numpy(np.float64, na_value=np.nan) for end in ("src_rank", "dst_rank")
    )
    sends = source == np.array([np.nan if rank is None else rank for rank in ranks])[members]
    programs = [pd.factorize(rows[name])[0] for name in ("op", "place", "again")]
    to = np.nan_to_num(np.sign(target - source)).astype(np.int64)
    together = groups_of(keys)
    ways = np.where(to == 0, _ALL * (together.sizes[together.inverse] == len(ranks)), 2 + to + sends)
    by_size = np.isfinite(sizes)
    sized = groups_of(np.nan_to_num(sizes).astype(np.int64), *programs, ways).inverse
    alike = groups_of(by_size.astype(np.int64), np.where(by_size, sized, keys)).inverse
    return alike, ways


def _last_before(ways: Ints) -> Ints:
    """Return the last way that is not 0 before each of these; _ALL: none."""
    last = np.maximum.accumulate(np.where(ways > 0, np.arange(len(ways)), -1))
    return np.append(_ALL, np.where(last < 0, _ALL, ways[last])[:-1])


def unmatched_times(matched: MatchedCollectives) -> Ints:
    """Return how long the unmatched communication of each member takes, in ns: it may wait for others."""
    loose = matched.loose[~(matched.loose["size"] == 1).fillna(False)]
    times = np.zeros(len(matched.job.members), np.int64)
    np.add.at(times, loose["member"].to_numpy(np.int64), loose["length"].to_numpy(np.int64))
    return times


def _integers(rows: pd.DataFrame, *names: str) -> list[Ints]:
    return [rows[name].to_numpy(np.int64) for name in names]
