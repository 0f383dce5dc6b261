"""When ranks were ready for collectives that queue up on their stream, and what they did until then, by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.trace_tables import Event, by_hand, kernel, reduce

from perflog.metrics import Tables
from perflog.metrics.traces.collectives.collective_matching import matched_collectives
from perflog.metrics.traces.replays.arrivals import (
    OwnWork,
    _holds_host,
    _just_ended,
    lines_of_collectives,
    own_work,
)
from perflog.metrics.traces.replays.dependencies import NO_WORK
from perflog.tables.columns import NULL

US = 1000


def call(rank: int, start: int, end: int, name: str = "cudaLaunchKernel", **more: Any) -> Event:
    usual = {"kind": "runtime", "name": name, "process": str(rank), "thread": "1", "rank": rank, "part": rank}
    return usual | {"start_ns": US * start, "duration_ns": US * (end - start)} | more


def rank_events(rank: int, first: int, waits_for_all: bool = True) -> list[Event]:
    """A step with three gradients of 100 us each, reduced in 130 us, then a part of the next; the times of the work.

    The first kernel begins at `first`, the other rank's at 0 or 60. Nothing of the step waits for its collectives but
    the optimizer at 550. The next step's kernel is launched when data is loaded, `first` after a synchronisation.
    """
    where = {"rank": rank, "part": rank, "device": rank}
    begins = [first + 100 * k for k in range(3)]
    reduces = [(begins[0] + 100, 290), (290, 420), (420, 550)]
    numbers = iter(range(1, 20))
    events = []

    def launched(at: int, event: Event) -> None:
        number = next(numbers)
        events.extend([call(rank, at, at + 1, correlation=number), event | where | {"correlation": number}])

    for k, begin in enumerate(begins):
        launched(-50 + 4 * k, kernel(US * begin, US * (begin + 100), "gemm", stream=7))
        launched(-48 + 4 * k, reduce(US * reduces[k][0], US * reduces[k][1], stream=20))
    launched(-30, kernel(US * 550, US * 600, "adam", stream=7))
    events.append(call(rank, -20, 605, "cudaDeviceSynchronize"))
    if first:
        events.append(call(rank, 605, 605 + first, "load") | {"kind": "range"})
    launched(610 + first, kernel(US * (615 + first), US * (715 + first), "gemm", stream=7))
    launched(612 + first, reduce(US * (715 + first), US * 905, stream=20))
    return events


def found_of(tables: Tables) -> list[OwnWork]:
    (matched,) = matched_collectives(tables)
    found = own_work(tables)
    return [found[id(device)] for device in matched.job.members]


def test_ranks_are_ready_when_their_work_has_ended_and_not_when_their_stream_is_free() -> None:
    tables = by_hand([*rank_events(0, 0), *rank_events(1, 60)])
    early, late = (each.arrivals for each in found_of(tables))
    assert (early.ready // US).tolist() == [100, 200, 300, 715]
    assert (late.ready // US).tolist() == [160, 260, 360, 775]
    for arrivals in (early, late):
        assert arrivals.follows.tolist() == [NULL, *arrivals.lines[:2].tolist(), NULL]
        # The next step began after the last collective of this one: its host had waited for the optimizer.
        assert arrivals.came_from.tolist() == [NULL] * 3 + [arrivals.lines[2]]
    assert (late.since[1:] // US).tolist() == [160, 260, 550]
    assert late.since[0] == NULL


def test_what_ranks_do_on_their_own() -> None:
    tables = by_hand([*rank_events(0, 0), *rank_events(1, 60)])
    early, late = (
        {(each.doing, each.name): each.ns // US for each in work.times if each.ns} for work in found_of(tables)
    )
    assert late == {
        ("compute", "gemm"): 300, ("compute", "adam"): 50, ("idle", "load"): 60, ("idle", "cudaDeviceSynchronize"): 5,
        ("idle", None): 10,
    }  # fmt: skip
    assert early == {what: time for what, time in late.items() if what != ("idle", "load")}


def test_only_ranks_of_a_job_with_known_launches_have_arrivals() -> None:
    alone = by_hand(rank_events(0, 0))
    assert lines_of_collectives(alone) == {} and own_work(alone) == {}
    without = [[e for e in rank_events(r, 60 * r) if e["kind"] != "runtime"] for r in (0, 1)]
    tables = by_hand([*without[0], *without[1]])
    assert len(lines_of_collectives(tables)) == 2 and own_work(tables) == {}


def test_a_host_that_launches_nothing_during_collectives_waits_for_them() -> None:
    """No call says that it waits. Each kernel is launched 5 us after a collective; rank 1 computes longer."""
    events = []
    for rank, length in ((0, 100), (1, 150)):
        where = {"rank": rank, "part": rank, "device": rank}
        for k in range(4):
            begin, number = 300 * k, 10 * rank + 2 * k
            last = kernel(US * begin, US * (begin + length), "gemm", stream=7, correlation=number)
            moving = reduce(US * (begin + length + 5), US * (begin + 295), stream=7, correlation=number + 1)
            events += [call(rank, begin - 3, begin - 1, correlation=number), last | where]
            at = begin + length + 1
            events += [call(rank, at, at + 2, correlation=number + 1), moving | where]
    for work in found_of(by_hand(events)):
        arrivals = work.arrivals
        assert arrivals.came_from.tolist() == [NULL, *arrivals.lines[:3].tolist()]
        assert (arrivals.since[1:] // US).tolist() == [295, 595, 895]
        assert np.isin(arrivals.follows, [NULL]).all()


def test_work_of_one_graph_comes_before_the_collectives_of_the_same_launch() -> None:
    """Each rank launches three kernels and collectives at once, rank 1's take longer. The last one waits for none."""
    events = []
    for rank, length in ((0, 100), (1, 150)):
        where = {"rank": rank, "part": rank, "device": rank, "correlation": 1 + 10 * rank}
        events.append(call(rank, 0, 5, "cudaGraphLaunch", correlation=1 + 10 * rank))
        for k in range(3):
            begin = 10 + length * k
            events.append(kernel(US * begin, US * (begin + length), stream=7) | where)
            moving = reduce(US * (begin + length), US * (170 + 150 * k), stream=20)
            events.append(moving | where)
        events.append(reduce(US * 470, US * 500, stream=20) | where)
    for work, length in zip(found_of(by_hand(events)), (100, 150), strict=True):
        assert (work.arrivals.ready // US).tolist() == [10 + length * k for k in (1, 2, 3, 3)]
        assert (work.arrivals.since[1:] // US).tolist() == [10 + length * k for k in (1, 2, 3)]


def test_a_collective_that_begins_when_another_one_ends_comes_from_it() -> None:
    """Both follow a kernel, on streams of their own. What the second one sends is what the first one brought."""
    events = []
    for rank, length in ((0, 100), (1, 150)):
        where = {"rank": rank, "part": rank, "device": rank}
        for begin in (10, 310):
            work = [kernel(US * begin, US * (begin + length), stream=7)]
            work.append(reduce(US * (begin + length), US * (begin + 190), stream=20))
            work.append(reduce(US * (begin + 190), US * (begin + 220), stream=24))
            for k, event in enumerate(work):
                number = 1000 * rank + begin + k
                events += [call(rank, begin - 9 + k, begin - 8 + k, correlation=number)]
                events += [event | where | {"correlation": number}]
    for arrivals in (found.arrivals for found in found_of(by_hand(events))):
        assert arrivals.came_from[1::2].tolist() == arrivals.lines[::2].tolist()
        assert (arrivals.ready[1::2] // US).tolist() == (arrivals.since[1::2] // US).tolist() == [200, 500]


def test_what_just_ended_before_a_task_in_a_gap_of_its_stream() -> None:
    """Collectives are task 0, and task 5 of half a microsecond. Times are exact up to a microsecond."""
    starts = [0, 103_000, 104_000, 160_000, 99_000, 200_000, 200_000, 98_999]
    ends = [100_000, 110_000, 110_000, 170_000, 110_000, 200_500, 210_000, 110_000]
    before = [NO_WORK, NO_WORK, 8, NO_WORK, NO_WORK, NO_WORK, NO_WORK, NO_WORK]
    graph: Any = SimpleNamespace(
        starts=np.array([*starts, 90_000]), ends=np.array([*ends, 101_000]), before=np.array([*before, NO_WORK]),
        usual_ns=50_000,
    )  # fmt: skip
    found = _just_ended(graph, np.array([0, 5])).tolist()
    assert found == [NO_WORK, 0, NO_WORK, NO_WORK, 0, NO_WORK, NO_WORK, NO_WORK, NO_WORK]


@pytest.mark.parametrize(("meanwhile", "holds"), [(1, True), (2, False)])
def test_a_host_that_seldom_launches_during_collectives_waits_for_them(meanwhile: int, holds: bool) -> None:
    """They run for half of the time: a tenth of the launches that would fall into it are 1.5 of 30."""
    launched = np.array([NULL, *range(100, 130 - meanwhile), *range(60, 60 + meanwhile)])
    device: Any = SimpleNamespace(span=200)
    graph: Any = SimpleNamespace(launched=launched, starts=np.array([0]), ends=np.array([100]), device=device)
    assert _holds_host(graph, np.array([0])) == holds
