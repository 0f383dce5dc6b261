"""Replay of a pipeline with equal computation on all ranks, against times that are worked out by hand; times in us."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from perflog.metrics.traces.intervals import union
from perflog.metrics.traces.replays.arrivals import Arrivals
from perflog.metrics.traces.replays.stage_replay import StageReplay, replay_of_stages
from perflog.tables.columns import NULL

US = 1000
BEGIN = 5_000_000  # ns: of the time that counts, 0 in the tests
Arrival = tuple[int, int, int | None]
"""The transfer, when the rank is ready for it, and the transfer that it came from."""


def replayed(
    transfers: Sequence[tuple[int, int]],
    calls: Sequence[tuple[int, int, int, int]],
    arrivals: Sequence[Sequence[Arrival]],
    computing: Sequence[Sequence[tuple[int, int]]],
    end: int,
    queued: Mapping[tuple[int, int], int] | None = None,
) -> StageReplay | None:
    """The replay of two ranks, all times in us.

    `transfers`: sender and receiver of each; `calls`: transfer, rank, begin and end; `queued`: by rank and transfer the
    one before on its stream, which held it up.
    """
    keys = range(len(transfers))
    rows = [
        {
            "key": key,
            "member": rank,
            "start": BEGIN + US * begin,
            "length": US * (until - begin),
            "line": 100 * rank + key,
        }
        for key, rank, begin, until in calls
    ]
    collectives = pd.DataFrame(
        {
            "op": "send_recv", "reason": None, "group": None, "place": keys, "again": 0, "size": 2,
            "src_rank": [source for source, _ in transfers], "dst_rank": [target for _, target in transfers],
        },
        index=keys, dtype=object,
    )  # fmt: skip
    matched: Any = SimpleNamespace(
        calls=pd.DataFrame(rows), collectives=collectives,
        job=SimpleNamespace(members=[SimpleNamespace(rank=rank) for rank in (0, 1)]),
        loose=pd.DataFrame({"member": [], "length": [], "size": pd.array([], "Int64")}),
    )  # fmt: skip
    known = []
    for rank, each in enumerate(arrivals):
        lines = np.array([100 * rank + key for key, *_ in each])
        came_from = np.array([NULL if source is None else 100 * rank + source for *_, source in each])
        before = [(queued or {}).get((rank, key)) for key, *_ in each]
        follows = np.array([NULL if key is None else 100 * rank + key for key in before])
        ready = BEGIN + US * np.array([ready for _, ready, _ in each])
        known.append(Arrivals(lines, ready, came_from, np.full(len(each), NULL), follows))
    times = [union(*(BEGIN + US * np.array(edges) for edges in zip(*each, strict=True))) for each in computing]
    found = replay_of_stages(matched, [(BEGIN, BEGIN + US * end)] * 2, known, times)
    return found and StageReplay(found.traced // US, found.unchanged // US, found.equal // US)


def test_two_stages_of_40_and_60_compute_50_each() -> None:
    """Forward to rank 1 (0 and 1), and back (2 and 3). Each transfer takes 2 from the arrival of both ranks.

    Rank 0 computes 10 four times, rank 1 30 twice. With equal stages these are 12.5 and 25: rank 1 has the first
    micro-batch at 14.5, the second at 41.5, rank 0 its last gradient at 68.5 and is done at 81.
    """
    calls = [
        (0, 0, 10, 12), (0, 1, 0, 12), (1, 0, 20, 44), (1, 1, 42, 44), (2, 0, 20, 44), (2, 1, 42, 44),
        (3, 0, 54, 76), (3, 1, 74, 76),
    ]  # fmt: skip
    arrivals: list[list[Arrival]] = [
        [(0, 10, None), (1, 20, None), (2, 20, None), (3, 54, 2)],
        [(0, 0, None), (2, 42, 0), (1, 42, 0), (3, 74, 1)],
    ]
    computing = [[(0, 20), (44, 54), (76, 86)], [(12, 42), (44, 74)]]
    transfers = [(0, 1), (0, 1), (1, 0), (1, 0)]
    assert replayed(transfers, calls, arrivals, computing, 86) == StageReplay(traced=86, unchanged=86, equal=81)
    assert replayed(transfers, calls, arrivals, [[(0, 20)], [(90, 91)]], 86) is None  # a rank that never computes


def test_a_stage_that_never_waited_waits_for_what_it_receives() -> None:
    """Rank 1 has the second micro-batch long before it needs it. Rank 0 computes 10 and 30, rank 1 60 and 60.

    With 80 each, rank 1 is done with the first at 62, has the second at 82, and sends it back at 122.
    """
    calls = [
        (0, 0, 10, 12), (0, 1, 0, 12), (1, 0, 40, 42), (1, 1, 12, 42), (2, 0, 40, 74), (2, 1, 72, 74),
        (3, 0, 74, 134), (3, 1, 132, 134),
    ]  # fmt: skip
    arrivals: list[list[Arrival]] = [
        [(0, 10, None), (1, 40, None), (2, 40, None), (3, 74, 2)],
        [(0, 0, None), (1, 12, 0), (2, 72, 0), (3, 132, 0)],
    ]
    found = replayed([(0, 1), (0, 1), (1, 0), (1, 0)], calls, arrivals, [[(0, 40)], [(12, 132)]], 134)
    assert found == StageReplay(traced=134, unchanged=134, equal=124)


def test_ranks_without_sends_are_no_pipeline() -> None:
    calls = [(0, 0, 10, 12), (0, 1, 0, 12)]
    nobody: Any = (None, None)
    assert replayed([nobody], calls, [[(0, 10, None)], [(0, 0, None)]], [[(0, 10)], [(12, 20)]], 20) is None


def test_a_transfer_follows_the_one_before_on_its_stream() -> None:
    """Rank 0 computes 10 and 2, then idles; its second transfer begins 1 after the first has ended. Rank 1 takes 36.

    With 24 each, rank 0 is ready at 20 and 24. The first transfer ends at 26, the second begins at 27 and ends at 33.
    What rank 0 does then takes 36 as before.
    """
    calls = [(0, 0, 10, 16), (0, 1, 0, 16), (1, 0, 17, 23), (1, 1, 16, 23)]
    arrivals: list[list[Arrival]] = [[(0, 10, None), (1, 12, None)], [(0, 0, None), (1, 16, 0)]]
    computing = [[(0, 12)], [(23, 59)]]
    found = replayed([(0, 1), (0, 1)], calls, arrivals, computing, 59, {(0, 1): 0})
    assert found == StageReplay(traced=59, unchanged=59, equal=69)
