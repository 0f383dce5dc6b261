"""Replay of the collectives of a job, against times that are worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from perflog.metrics.traces.replays.arrivals import Arrivals
from perflog.metrics.traces.replays.rank_replay import _ALL, JobCalls, RankReplay, _last_before, replay_of_ranks
from perflog.tables.columns import NULL

Call = tuple[int, int, int, int]
"""Collective, rank, begin and end of a call in us."""

US = 1000


def matched(calls: Sequence[Call], ops: Sequence[str] = ("all_reduce",) * 9, reasons: Sequence[Any] = ()) -> Any:
    keys = sorted({key for key, *_ in calls})
    rows = [
        {"key": key, "member": rank, "start": US * start, "length": US * (end - start), "line": 100 * rank + key}
        for key, rank, start, end in calls
    ]
    why = [*reasons, *[None] * len(keys)][: len(keys)]
    places = {"group": None, "place": range(len(keys)), "again": 0, "size": 2, "src_rank": None, "dst_rank": None}
    collectives = pd.DataFrame({"op": ops[: len(keys)], "reason": why} | places, index=keys, dtype=object)
    columns = ["key", "member", "start", "length", "line"]
    ranks = range(1 + max((rank for _, rank, *_ in calls), default=0))
    return SimpleNamespace(
        calls=pd.DataFrame(rows, columns=columns), collectives=collectives,
        job=SimpleNamespace(members=[SimpleNamespace(rank=rank) for rank in ranks]),
        loose=pd.DataFrame({"member": [], "length": [], "size": pd.array([], "Int64")}),
    )  # fmt: skip


def replayed(job: Any, windows: Sequence[tuple[int, int]], known: Sequence[Arrivals | None] = ()) -> RankReplay | None:
    """The replay of a job, all times in us."""
    found = replay_of_ranks(job, [(US * begin, US * end) for begin, end in windows], known)
    if found is None:
        return None
    return RankReplay(
        found.traced // US, found.unchanged // US, [each // US for each in found.without],
        [each // US for each in found.alone], found.ideal // US, found.without_slowest // US,
    )  # fmt: skip


TWO = [(0, 0, 10, 40), (0, 1, 30, 40), (1, 0, 50, 90), (1, 1, 80, 90)]
"""Rank 0 comes 10 after the begin and after the first collective, rank 1 30 and 40; each takes 10 from then on."""
WINDOWS = [(0, 100)] * 2


def test_a_rank_that_is_as_fast_as_the_median() -> None:
    """Rank 1 comes 10 after the begin and after the first collective, as rank 0: the lower median of two."""
    found = replayed(matched(TWO), WINDOWS)
    faster = (10 + 10) + (10 + 10) + 10
    assert found == RankReplay(
        traced=100, unchanged=100, without=[100, faster], alone=[faster, 100], ideal=faster, without_slowest=faster
    )


def test_the_order_of_the_calls_does_not_count() -> None:
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(4)
        assert replayed(matched([TWO[k] for k in order]), WINDOWS) == replayed(matched(TWO), WINDOWS)


def test_ranks_may_leave_other_collectives_early() -> None:
    """A broadcast: rank 0 does not wait for rank 1."""
    calls = [(0, 0, 10, 20), (0, 1, 30, 40), (1, 0, 30, 50), (1, 1, 45, 50)]
    found = replayed(matched(calls, ["broadcast", "all_reduce"]), WINDOWS)
    assert found is not None and (found.traced, found.unchanged) == (100, 100)
    # Rank 1 comes at 10 instead of 30, rank 0 10 after its end at 20: the second ends at 35, and the window 50 later.
    assert (found.without, found.alone) == ([100, 85], [85, 100])
    assert found.ideal == 80  # rank 0 comes to the second after 5, as rank 1


@pytest.mark.parametrize(("op", "faster"), [("broadcast", 80), ("all_reduce", 80), (None, 80)])
def test_ranks_wait_for_each_other_where_all_leave_after_the_last_one_came(op: Any, faster: int) -> None:
    found = replayed(matched([(0, 0, 10, 40), (0, 1, 30, 40)], [op]), WINDOWS)
    assert found is not None and (found.unchanged, found.without) == (100, [100, faster])


@pytest.mark.parametrize(
    ("calls", "reasons", "is_known"),
    [
        (TWO, [None, None], True),
        (TWO, ["clocks", None], True),
        (TWO, ["clocks", "clocks"], False),
        ([(0, 0, -5, 40), (0, 1, 100, 140)], [], False),  # outside of the windows
        ([(0, 0, 0, 40), (0, 1, 99, 140)], [], True),
        ([], [], False),
    ],
)
def test_collectives_that_are_known_in_the_windows(calls: list[Call], reasons: list[Any], is_known: bool) -> None:
    assert (replayed(matched(calls, reasons=reasons), WINDOWS) is not None) == is_known


def test_windows_of_their_own() -> None:
    found = replayed(matched(TWO), [(5, 95), (0, 110)])
    assert found is not None and (found.traced, found.unchanged) == (110, 110)


def test_ranks_are_compared_where_all_come_from_one_collective() -> None:
    """Rank 0 takes part in one more collective before the second one of both."""
    calls = [*TWO[:2], (2, 0, 45, 48), (1, 0, 50, 90), (1, 1, 80, 90)]
    of = JobCalls.of(matched(calls), [(0, 100 * US)] * 2, 0, [None] * 2)
    assert of is not None
    columns = zip(of.keys.tolist(), of.members.tolist(), of.alone // US, of.longer // US, strict=True)
    by_call = {(key, member): (alone, longer) for key, member, alone, longer in columns}
    assert by_call[0, 0] == (10, 0) and by_call[0, 1] == (30, 20)
    assert by_call[1, 0] == (2, 0) and by_call[1, 1] == (40, 0)
    assert by_call[2, 0] == (5, 0)


def test_groups_of_one_size_are_one_place_in_the_program() -> None:
    """Ranks 0 and 1, 2 and 3 are groups; then all four meet. Ranks 2 and 3 take 60 in between, the others 20."""
    calls = [(0, 0, 10, 20), (0, 1, 10, 20), (1, 2, 10, 20), (1, 3, 10, 20)]
    calls += [(2, rank, 40 + 40 * (rank > 1), 90) for rank in range(4)]
    job = matched(calls)
    windows = [(0, 100)] * 4
    found = replayed(job, windows)
    assert found is not None and found.ideal == 100  # each pair is compared with itself, as far as is known
    for names in (["tp", "tp", "world"], ["tp0", "tp1", "world"]):
        job.collectives = job.collectives.assign(group=names, place=[1, 1, 1], size=[2, 2, 4])
        found = replayed(job, windows)
        assert found is not None and (found.without, found.ideal) == ([100] * 4, 60)


def test_ranks_with_programs_of_their_own_are_not_compared() -> None:
    """Each rank of a pipeline computes between a collective of all and a send or receive: nobody else does so."""
    calls = [(0, rank, 10, 20) for rank in range(3)]
    calls += [(1, 0, 50, 60), (1, 1, 50, 60), (2, 1, 90, 95), (2, 2, 90, 95)]
    job = matched(calls, ["all_reduce", "send_recv", "send_recv"])
    job.collectives = job.collectives.assign(
        group="pp", place=1, size=[3, 2, 2], src_rank=[None, 0, 1], dst_rank=[None, 1, 2]
    )
    assert replayed(job, [(0, 96)] * 3) is None


def test_stages_compare_what_they_do_after_the_same_way() -> None:
    """Two stages of two ranks each. After a receive stage 0 goes backward and takes 40, stage 1 forward and takes 20.

    Rank 1 takes 30 more than the other rank of its stage.
    """
    calls = [(0, 0, 10, 20), (0, 2, 10, 20), (1, 1, 10, 20), (1, 3, 10, 20)]
    calls += [(2, 0, 60, 95), (2, 1, 90, 95), (3, 2, 40, 45), (3, 3, 40, 45)]
    job = matched(calls, ["send_recv", "send_recv", "all_reduce", "all_reduce"])
    job.collectives = job.collectives.assign(
        group=["pp0", "pp1", "tp0", "tp1"], place=1, src_rank=[2, 3, None, None], dst_rank=[0, 1, None, None]
    )
    found = replayed(job, [(0, 96), (0, 96), (0, 46), (0, 46)])
    assert found is not None and found.without == [96, 66, 96, 96]


@pytest.mark.parametrize(("size", "is_known"), [(2, False), (1, True), (None, False)])
def test_communication_that_is_not_matched_may_be_waiting(size: int | None, is_known: bool) -> None:
    job = matched(TWO)
    job.loose = pd.DataFrame({"member": [1], "length": [40 * US], "size": pd.array([size], "Int64")})
    assert (replayed(job, WINDOWS) is not None) == is_known


def arrivals(rank: int, ready: Sequence[int], came_from: Sequence[int], follows: Sequence[int]) -> Arrivals:
    """Arrivals at collectives 0, 1, ...; `came_from` and `follows` by their keys, -1 for none."""

    def lines(keys: Sequence[int]) -> Any:
        return np.array([NULL if key < 0 else 100 * rank + key for key in keys], np.int64)

    times, nothing = US * np.array(ready, np.int64), np.zeros(len(ready), np.int64)
    return Arrivals(lines(range(len(ready))), times, lines(came_from), nothing, lines(follows))


def test_collectives_that_queue_up_hide_when_a_rank_was_ready() -> None:
    """Each rank computes 10 for each of three gradients, rank 1 begins 30 later. Rank 0's collectives queue up.

    From collective to collective rank 1 seems to be slower all the time; it was late once, by 30.
    """
    calls = [(0, 0, 10, 45), (0, 1, 40, 45), (1, 0, 45, 55), (1, 1, 50, 55), (2, 0, 55, 65), (2, 1, 60, 65)]
    job, windows = matched(calls), [(0, 65)] * 2
    known = [arrivals(0, [10, 20, 30], [-1] * 3, [-1, 0, 1]), arrivals(1, [40, 50, 60], [-1] * 3, [-1] * 3)]
    found = replayed(job, windows, known)
    # As fast as the median, rank 1 comes 30 earlier, and so does all that follows.
    assert found is not None and (found.unchanged, found.without, found.ideal) == (65, [65, 35], 35)
    assert replayed(job, windows) is None  # two of six calls begin at once: compute may not wait for them


def test_a_rank_that_is_late_is_late_for_all_that_comes_after() -> None:
    """Both ranks come to all collectives from the begin: what rank 1 is late in the first one adds up."""
    calls = [(0, 0, 10, 45), (0, 1, 40, 45), (1, 0, 100, 125), (1, 1, 120, 125)]
    known = [arrivals(0, [10, 100], [-1, -1], [-1, -1]), arrivals(1, [40, 120], [-1, -1], [-1, -1])]
    found = replayed(matched(calls), [(0, 200)] * 2, known)
    # Rank 1: 40 and 80 on its own, rank 0: 10 and 90. The lower medians are 10 and 80; rank 0 decides then.
    assert found is not None and found.without[1] == 200 - 20
    # Rank 0 takes 10 less than its 90; rank 1 decides.
    assert found.without[0] == 200


def test_a_rank_comes_from_where_most_come_from() -> None:
    """All work from the first collective until the third, rank 2 for 100 longer.

    Its last kernel begins by chance when the second collective ends, which nobody waits for.
    """
    calls = [(key, rank, *times) for key, times in enumerate([(10, 20), (20, 60)]) for rank in range(3)]
    calls += [(2, rank, 120 + 100 * (rank == 2), 240) for rank in range(3)]
    ready = [[10, 15, 120], [10, 15, 120], [10, 15, 220]]
    known = [arrivals(rank, ready[rank], [-1, -1, int(rank == 2)], [-1, 0, -1]) for rank in range(3)]
    found = replayed(matched(calls), [(0, 240)] * 3, known)
    assert found is not None and (found.unchanged, found.without) == (240, [240, 240, 140])
    known[2] = arrivals(2, ready[2], [-1, -1, -1], [-1, 0, -1])
    assert replayed(matched(calls), [(0, 240)] * 3, known) == found


def test_the_three_per_cent_slowest_ranks() -> None:
    """Of 40 ranks two: each comes later than the others by its number of tens, where it has one."""
    late = {7: 30, 11: 20, 13: 10}
    calls = [(0, rank, 100 + late.get(rank, 0), 200) for rank in range(40)]
    found = replayed(matched(calls), [(0, 300)] * 40)
    assert found is not None and found.unchanged == 300
    assert found.without[7] == 300 - 10 and found.without[11] == 300
    assert found.without_slowest == 300 - 20 and found.ideal == 300 - 30
    assert (found.alone[7], found.alone[11], found.alone[0]) == (300, 290, 270)


def test_the_way_of_the_call_before() -> None:
    assert _last_before(np.array([2, 0, 3, 0, 0])).tolist() == [_ALL, 2, 2, 3, 3]
    assert _last_before(np.array([0, 0, 3])).tolist() == [_ALL] * 3
