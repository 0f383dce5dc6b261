"""Dependencies of the work of a device: what bound it, what calls waited for, and which thread took over, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.trace_tables import Event, by_hand, kernel

from perflog.metrics.traces.idle_causes import USUAL
from perflog.metrics.traces.launches import Launches
from perflog.metrics.traces.replays import dependencies as module
from perflog.metrics.traces.replays.dependencies import (
    FREE,
    LAUNCH,
    NO_WORK,
    OTHER_STREAM,
    STREAM,
    Dependencies,
    dependencies,
    turn,
)
from perflog.metrics.traces.replays.recorded_waits import CallWaits, StreamWaits
from perflog.tables.columns import NULL


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def call(start: int, end: int, number: int | None = None, name: str = "cudaLaunchKernel", **more: Any) -> Event:
    usual: Event = {"kind": "runtime", "name": name, "process": "9", "thread": "1", "rank": 0, "correlation": number}
    return usual | {"start_ns": start, "duration_ns": end - start} | more


def work(start: int, end: int, number: int | None = None, stream: int = 7, **more: Any) -> Event:
    return kernel(start, end, stream=stream, correlation=number) | more


def made(*events: Event) -> Dependencies:
    [found] = dependencies(by_hand(list(events)))
    return found


def test_what_bound_the_begin_of_work() -> None:
    """The second kernel waits for the first, the third for its launch; the first has no launch and none before it."""
    found = made(work(100, 200), call(110, 112, 2), work(205, 300, 2), call(400, 402, 3), work(410, 500, 3))
    assert found.bound_by.tolist() == [FREE, STREAM, LAUNCH]
    assert found.since.tolist() == [NULL, 200, 400]
    assert found.launched.tolist() == [NULL, 110, 400]
    assert found.before.tolist() == [NO_WORK, 0, 1]
    assert found.sources.tolist() == [NO_WORK] * 3
    assert found.turns.tolist() == [2 * 100 - 1, 2 * 110 + 2, 2 * 400 + 2]
    assert found.calls is not None
    assert (found.threads.tolist()[1:], found.calls.starts[found.launching[1:]].tolist()) == ([0, 0], [110, 400])


def test_the_order_of_streams() -> None:
    found = made(work(0, 10, stream=8), work(5, 20), work(30, 40, stream=8), work(50, 60))
    assert found.order.tolist() == [1, 3, 0, 2] and found.places.tolist() == [2, 0, 3, 1]
    assert found.before.tolist() == [NO_WORK, NO_WORK, 0, 1]
    assert found.calls is None and found.timelines == {} and len(found.waits.calls) == 0


def test_work_that_begins_late_waited_for_another_stream() -> None:
    """It begins long after its launch and the work before it: when the last work of any stream had ended."""
    found = made(
        call(0, 2, 1), work(10, 20, 1), call(2, 4, 2), work(14, 990, 2, 8), call(5, 7, 3), work(1000, 1100, 3),
        call(1200, 1202, 4), work(1210, 1300, 4, 8),
    )  # fmt: skip
    assert found.usual_ns == USUAL * 10  # the launches that found the device idle took 10
    assert found.sources.tolist() == [NO_WORK, NO_WORK, 1, NO_WORK]
    assert found.bound_by.tolist() == [LAUNCH, LAUNCH, OTHER_STREAM, LAUNCH]
    assert found.since.tolist() == [0, 2, 990, 1200]


def test_work_that_ended_earlier_held_nothing_up() -> None:
    """The kernel begins late, and the last work before is the one on its stream."""
    early = [event for at in (0, 20, 40) for event in (call(at, at + 2, at), work(at + 5, at + 10, at))]
    found = made(*early, call(46, 48, 4), work(500, 510, 4))
    assert (found.bound_by[3], found.sources[3], found.since[3]) == (STREAM, NO_WORK, 50)


def test_the_trace_records_what_a_stream_waits_for() -> None:
    """Not for the work that ended last, but for all that was launched before the record."""
    said = work(27, 28, 5, 7, kind="sync", name="Stream Wait Event", waits_for_stream=8, waits_for_record=3)
    found = made(
        call(0, 2, 1), work(5, 15, 1), call(20, 22, 2), work(25, 55, 2, 8), call(23, 24, 3, "cudaEventRecord"),
        call(24, 26, 4), work(55, 66, 4, 8), call(27, 28, 5, "cudaStreamWaitEvent"), said, call(28, 30, 6),
        work(72, 82, 6),
    )  # fmt: skip
    assert found.sources.tolist() == [NO_WORK, NO_WORK, NO_WORK, 1] and found.since[3] == 55


def test_launches_by_an_operator_are_unknown() -> None:
    found = made(
        work(10, 20, external=5), call(0, 2, 5, "aten::mm", kind="cpu", external=5), call(30, 31, 2), work(35, 40, 2)
    )
    assert found.launched.tolist() == [NULL, 30]


def test_turns() -> None:
    assert (turn(5), turn(ints(1, 2)).tolist()) == (11, [3, 5])
    order, before = ints(0, 1, 3, 2), ints(NO_WORK, 0, NO_WORK, 1)
    starts, launched = ints(10, 20, 30, 25), ints(8, 6, NULL, 9)
    before = ints(NO_WORK, 0, 3, NO_WORK)
    turns, overtaken = module._turns(starts, launched, order, before)
    assert turns.tolist() == [18, 18, 59, 20]
    assert overtaken.tolist() == [False, True, False, False]
    assert module._turns(starts, ints(8, 9, NULL, 60), order, before)[0].tolist() == [18, 20, 122, 122]


def test_bounds_and_gaps() -> None:
    starts, ends = ints(10, 20, 30, 33), ints(15, 31, 32, 40)
    bound_by, since = module._bound(starts, ends, ints(NO_WORK, 0, 1, 2), ints(NULL, 15, 31, 32))
    assert bound_by.tolist() == [FREE, STREAM, LAUNCH, STREAM]
    assert since.tolist() == [NULL, 15, 31, 32]  # the work before the third ended after it began: it counts until then
    bound_by, since = module._bound(starts, ends, ints(NO_WORK, 0, 1, 2), ints(3, NULL, NULL, NULL))
    assert (bound_by.tolist(), since.tolist()) == ([LAUNCH, STREAM, STREAM, STREAM], [3, 15, 30, 32])
    kinds = np.array([STREAM, STREAM, LAUNCH, STREAM, STREAM], np.int8)
    assert module._median_gap(ints(4, 0, 99, 8, 1), kinds) == 4.0
    assert module._median_gap(ints(0, 5), np.array([STREAM, LAUNCH], np.int8)) == 0.0


def streams() -> module._Streams:
    """Tasks 0, 2 and 4 on stream 7, 1 and 3 on stream 9, launched at 10, 20, ..., 50."""
    of, order = ints(7, 9, 7, 9, 7), ints(0, 2, 4, 1, 3)
    return module._Streams(of, order, 2 * ints(10, 20, 30, 40, 50) + 2)


def test_the_work_launched_before_and_after_a_time() -> None:
    asked, times = ints(7, 7, 7, 9, 8, 6, 10), ints(9, 30, 99, 40, 99, 99, 99)
    before = streams().launched_before(asked, times)
    assert before.tolist() == [NO_WORK, 0, 4, 1, NO_WORK, NO_WORK, NO_WORK]  # a launch at a time comes after it
    after = streams().launched_after(asked, ints(9, 30, 50, 51, 0, 0, 0))
    assert after.tolist() == [0, 2, 4, NO_WORK, NO_WORK, NO_WORK, NO_WORK]


def test_recorded_sources() -> None:
    """Of several waits the one for the work that ended last counts; one that ended after the begin is no wait."""
    starts, ends = ints(10, 20, 60, 70, 80), ints(30, 40, 65, 75, 90)
    waits = StreamWaits(ints(7, 7, 9, 9, 8), ints(25, 25, 35, 35, 0), ints(9, 7, 7, 7, 7), ints(25, 25, 25, 35, 99))
    found = module._recorded_sources(streams(), waits, starts, ends)
    assert found.tolist() == [NO_WORK, NO_WORK, 1, 2, NO_WORK]
    late = module._recorded_sources(streams(), waits, ints(10, 20, 39, 64, 80), ends)
    assert late.tolist() == [NO_WORK, NO_WORK, 0, 0, NO_WORK]
    reverse = StreamWaits(*(column[::-1] for column in (waits.streams, waits.called, waits.awaited, waits.until)))
    assert module._recorded_sources(streams(), reverse, starts, ends).tolist() == found.tolist()


def test_likely_sources() -> None:
    starts, ends = ints(10, 20, 60, 61), ints(19, 50, 70, 80)
    found = module._likely_sources(starts, ends, ints(0, 0, 0, NULL), ints(NULL, 15, 50, 60), 5)
    assert found.tolist() == [NO_WORK, NO_WORK, 1, 1]
    found = module._likely_sources(starts, ends, ints(0, 0, 0, NULL), ints(9, 14, 55, 61), 5)
    assert found.tolist() == [NO_WORK, 0, NO_WORK, NO_WORK]


def test_recorded_tasks_of_calls() -> None:
    recorded = CallWaits(ints(3, 5, 8), ints(7, 9, 7), ints(35, 99, 99), np.array([True, True, False]))
    ends, lines = ints(11, 21, 31, 41, 51), ints(5, 3, 4, 8)
    found = module._recorded_tasks(streams(), recorded, lines, ints(0, 0, 0, 0), ends, ints(41, 31, 99, 99))
    assert found.tolist() == [3, 2, 0, NO_WORK]
    contradicts = module._recorded_tasks(streams(), recorded, lines, ints(0, 1, 0, 0), ends, ints(40, 30, 99, 99))
    assert contradicts.tolist() == [0, 1, 0, NO_WORK]


def blocked(*rows: tuple[int, int, int], full: int = 1) -> Any:
    """Launches as begin, end of the call and begin of the work, all of thread 0."""
    begins, ends, starts = (ints(*column) for column in zip(*rows, strict=True))
    threads = np.zeros(len(rows), np.int64)
    launches = Launches(begins, ends, threads, [("9", "1")], np.zeros(len(rows), np.bool_))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_FULL", full)
        by_thread, last = module._blocked(begins, threads, starts, launches)
    return {thread: (until.tolist(), excess.tolist()) for thread, (until, excess) in by_thread.items()}, last.tolist()


def test_launches_that_find_the_queue_full() -> None:
    """Their excess over the median of the others is no work of the host."""
    rows = [(0, 2, 10), (3, 5, 20), (6, 16, 30), (17, 26, 40), (100, 102, 101), (103, 109, 110)]
    found, last = blocked(*rows, full=1)
    # at 3, 6, 17, 26 the first waits to begin; those that begin at 3, 6 and 17 find one or more launches before them
    assert found == {0: ([16, 26], [0, 8, 15])} and last == [3]
    assert blocked(*rows, full=99) == ({0: ([], [0])}, [])
    assert blocked(*rows[:3], full=0) == ({0: ([2, 5, 16], [0, 2, 4, 14])}, [2])  # no other: all of it is excess


def test_rows_of_full_launches_are_apart() -> None:
    rows = [(0, 2, 10), (3, 9, 20), (50, 52, 60), (53, 59, 70), (90, 92, 95)]
    assert blocked(*rows)[1] == [1, 3]


def test_calls_that_waited_for_the_device() -> None:
    """For the last work that ended before they returned; a copy that ends while its call runs is waited for."""
    found = made(
        call(0, 2, 1), work(10, 100, 1), call(3, 110, None, "cudaStreamSynchronize"),
        call(120, 160, 2, "cudaMemcpy"), work(130, 150, 2, kind="memcpy", name="Memcpy DtoH"),
        call(170, 175, None, "cudaDeviceSynchronize"),  # nothing had to end
        call(180, 190, 3), work(200, 300, 3), call(190, 310, None, "cudaEventSynchronize", thread="2"),
        call(191, 290, None, "cudaEventSynchronize"),
    )  # fmt: skip
    waits = found.waits
    assert list(zip(waits.begins.tolist(), waits.returns.tolist(), waits.tasks.tolist(), strict=True)) == [
        (3, 110, 0), (120, 160, 1),
    ]  # fmt: skip
    assert found.calls is not None
    assert found.calls.starts[waits.calls].tolist() == [3, 120] and waits.threads.tolist() == [0, 0]


def test_only_calls_that_wait_by_their_name_do() -> None:
    found = made(
        call(0, 2, 1), work(10, 100, 1), call(3, 110, None, "cudaEventRecord"), operator(3, 112),
        call(120, 121, 2), work(130, 140, 2),
    )  # fmt: skip
    assert len(found.waits.begins) == 0


@pytest.mark.parametrize(("stream", "task"), [(7, 0), (8, 1)])
def test_a_call_waits_for_the_stream_that_the_trace_records(stream: int, task: int) -> None:
    said = work(8, 60, 4, stream, kind="sync", name="Stream Sync")
    found = made(
        call(0, 2, 1), work(10, 30, 1), call(4, 6, 3), work(12, 50, 3, 8), call(8, 60, 4, "cudaStreamSynchronize"),
        said, call(70, 71, 5), work(75, 80, 5),
    )  # fmt: skip
    assert (found.waits.begins.tolist(), found.waits.tasks.tolist()) == ([8], [task])


def test_of_calls_inside_each_other_the_inner_one_waits() -> None:
    found = made(
        call(0, 2, 1), work(10, 100, 1), call(3, 112, None, "cudaStreamSynchronize"),
        call(4, 110, None, "cudaEventSynchronize"), call(120, 121, 2), work(130, 140, 2),
    )  # fmt: skip
    assert found.waits.begins.tolist() == [4]


def operator(start: int, end: int, thread: str = "1", **more: Any) -> Event:
    return call(start, end, None, "aten::mm", kind="cpu", thread=thread) | more


def test_a_thread_takes_over_where_it_was_idle_until_another_had_ended() -> None:
    """Autograd's thread takes over from its caller, and the caller from autograd's thread."""
    found = made(
        operator(0, 10), operator(20, 60, "2"), operator(70, 80),
        call(30, 31, 1, thread="2"), work(40, 50, 1), call(72, 73, 2), work(90, 95, 2),
    )  # fmt: skip
    overs = found.hand_overs
    rows = [column.tolist() for column in (overs.times, overs.threads, overs.sources, overs.idle_since, overs.ends)]
    assert list(zip(*rows, strict=True)) == [(20, 1, 0, NULL, 10), (70, 0, 1, 10, 60)]


@pytest.mark.parametrize(
    "changed",
    [
        {"process": "8"},  # of another process
        {"start_ns": 5},  # it began before the first thread was idle
        {"kind": "range"},  # a range only surrounds calls
        {"start_ns": -10, "duration_ns": 20},  # both ended at once
    ],
)
def test_no_hand_over(changed: dict[str, Any]) -> None:
    inner = {"process": changed.get("process", "9")}
    found = made(
        operator(0, 10), operator(20, 60, "2") | changed, operator(70, 80),
        call(62, 63, 1, thread="3") | inner, work(64, 65, 1), call(72, 73, 2), work(90, 95, 2),
    )  # fmt: skip
    assert 1 not in found.hand_overs.sources.tolist()


def test_one_thread_takes_over_from_none() -> None:
    found = made(operator(0, 10), operator(20, 60), call(30, 31, 1), work(40, 50, 1))
    assert len(found.hand_overs.times) == 0


def test_each_device_has_its_own_dependencies() -> None:
    events = [call(0, 2, 1), work(10, 20, 1), call(3, 4, 2), work(12, 30, 2, device=1)]
    events += [event | {"run": "s", "rank": 1} for event in events]
    found = list(dependencies(by_hand(events)))
    assert [(d.device.run, d.device.device, len(d.starts)) for d in found] == [
        ("r", 0, 1), ("r", 1, 1), ("s", 0, 1), ("s", 1, 1),
    ]  # fmt: skip
    assert [d.calls.run for d in found if d.calls is not None] == ["r", "r", "s", "s"]
