"""Replay of the collectives of a job, against times that are worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from perflog.metrics.traces.collectives.rank_replay import RankReplay, _Calls, replay_of_ranks

Call = tuple[int, int, int, int]
"""Collective, rank, begin and end of a call."""


def matched(calls: Sequence[Call], ops: Sequence[str] = ("all_reduce",) * 9, reasons: Sequence[Any] = ()) -> Any:
    keys = sorted({key for key, *_ in calls})
    rows = [{"key": key, "member": rank, "start": start, "length": end - start} for key, rank, start, end in calls]
    why = [*reasons, *[None] * len(keys)][: len(keys)]
    collectives = pd.DataFrame({"op": ops[: len(keys)], "reason": why}, index=keys, dtype=object)
    return SimpleNamespace(
        calls=pd.DataFrame(rows, columns=["key", "member", "start", "length"]), collectives=collectives
    )


TWO = [(0, 0, 10, 40), (0, 1, 30, 40), (1, 0, 50, 90), (1, 1, 80, 90)]
"""Rank 0 comes 10 after the begin and after the first collective, rank 1 30 and 40; each takes 10 from then on."""
WINDOWS = [(0, 100)] * 2


def test_a_rank_that_is_as_fast_as_the_median() -> None:
    """Rank 1 comes 20 after the begin and 25 after the first collective: medians of both ranks."""
    found = replay_of_ranks(matched(TWO), WINDOWS)
    faster = (20 + 10) + (25 + 10) + 10
    assert found == RankReplay(
        traced=100, unchanged=100, without=[100, faster], alone=[faster, 100], ideal=faster, without_slowest=faster
    )


def test_the_order_of_the_calls_does_not_count() -> None:
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(4)
        assert replay_of_ranks(matched([TWO[k] for k in order]), WINDOWS) == replay_of_ranks(matched(TWO), WINDOWS)


def test_ranks_may_leave_other_collectives_early() -> None:
    """A broadcast: rank 0 does not wait for rank 1."""
    calls = [(0, 0, 10, 20), (0, 1, 30, 40), (1, 0, 30, 50), (1, 1, 45, 50)]
    found = replay_of_ranks(matched(calls, ["broadcast", "all_reduce"]), WINDOWS)
    assert found is not None and (found.traced, found.unchanged) == (100, 100)
    # Rank 1 comes at 20 instead of 30, and 5 after its end at 30: the second ends at 40, and the window 50 later.
    assert (found.without, found.alone, found.ideal) == ([100, 90], [90, 100], 90)


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
    assert (replay_of_ranks(matched(calls, reasons=reasons), WINDOWS) is not None) == is_known


def test_windows_of_their_own() -> None:
    found = replay_of_ranks(matched(TWO), [(5, 95), (0, 110)])
    assert found is not None and (found.traced, found.unchanged) == (110, 110)


def test_ranks_are_compared_where_all_come_from_one_collective() -> None:
    """Rank 0 takes part in one more collective before the second one of both."""
    calls = [*TWO[:2], (2, 0, 45, 48), (1, 0, 50, 90), (1, 1, 80, 90)]
    of = _Calls.of(matched(calls), WINDOWS)
    assert of is not None
    own, saved = of.own_times(0)
    by_call = {(int(k), int(m)): (int(o), int(s)) for k, m, o, s in zip(of.keys, of.members, own, saved, strict=True)}
    assert by_call[0, 0] == (10, 0) and by_call[0, 1] == (30, 10)
    assert by_call[1, 0] == (2, 0) and by_call[1, 1] == (40, 0)
    assert by_call[2, 0] == (5, 0)


def test_the_three_per_cent_slowest_ranks() -> None:
    """Of 40 ranks two: each comes later than the others by its number of tens, where it has one."""
    late = {7: 30, 11: 20, 13: 10}
    calls = [(0, rank, 100 + late.get(rank, 0), 200) for rank in range(40)]
    found = replay_of_ranks(matched(calls), [(0, 300)] * 40)
    assert found is not None and found.unchanged == 300
    assert found.without[7] == 300 - 10 and found.without[11] == 300
    assert found.without_slowest == 300 - 20 and found.ideal == 300 - 30
    assert (found.alone[7], found.alone[11], found.alone[0]) == (300, 290, 270)
