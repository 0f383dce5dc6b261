"""The step and the range of each event: by its time on the host, by its call on a device, by its stream in a step."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import numpy as np
import pytest

from perflog.readers.events.event_columns import KIND_CODE, MISSING, EventColumns
from perflog.readers.events.event_context import EventContext, select_calls, select_ranges, step_codes, thread_lane
from perflog.readers.events.string_interning import new_interners

LAST = (1 << 63) - 1


class Event(NamedTuple):
    kind: str
    start: int
    duration: int = 1
    name: str = "x"
    process: int = 1
    thread: int = 1
    correlation: int = MISSING


def context(
    events: list[Event], calls_as_rows: bool = False
) -> tuple[list[tuple[int | None, str | None]], EventContext]:
    """Step and range of each event."""
    interners = new_interners()
    rows: EventColumns = {
        name: np.array([getattr(event, name) for event in events], np.int64)
        for name in ("start", "duration", "process", "thread", "correlation")
    }
    rows["kind"] = np.array([KIND_CODE[event.kind] for event in events], np.int8)
    rows["name"] = np.array([interners["name"].code(event.name) if event.name else -1 for event in events], np.int32)
    rows["place"] = np.arange(1, len(events) + 1)
    steps = step_codes(rows["name"], interners["name"].texts)
    found = EventContext([select_ranges(rows, steps)], interners)
    if not calls_as_rows:
        found.add_calls(select_calls(rows))
    else:
        is_call = rows["kind"] == KIND_CODE["runtime"]
        found.fill({name: column[is_call] for name, column in rows.items()}, calls=True)
    filled = found.fill(rows)
    texts = interners["range"].texts
    pairs = zip(filled["step"].tolist(), filled["range"].tolist(), strict=True)
    return [(None if step == MISSING else step, None if code < 0 else texts[code]) for step, code in pairs], found


def step(number: int, start: int, duration: int, kind: str = "range", **more: Any) -> Event:
    return Event(kind, start, duration, f"ProfilerStep#{number}", **more)


EVENTS = [
    step(7, 0, 100), Event("range", 10, 50, "forward"), Event("range", 20, 10, "layer"),
    Event("runtime", 25, 1, "launch", correlation=5), Event("runtime", 70, 1, "launch", correlation=6),
    Event("runtime", 150, 1, "launch", correlation=8),
    Event("kernel", 200, 5, "gemm", 9, 9, correlation=5), Event("kernel", 210, 5, "gemm", 9, 9, correlation=6),
    Event("kernel", 25, 5, "gemm", 1, 1, correlation=7), Event("kernel", 220, 5, "gemm", 9, 9, correlation=8),
    Event("cpu", 25), Event("cpu", 60), Event("cpu", 25, thread=2), Event("cpu", 25, process=2), Event("cpu", 100),
]  # fmt: skip


@pytest.mark.parametrize("calls_as_rows", [False, True])
def test_work_on_a_device_has_the_step_and_range_of_its_call(calls_as_rows: bool) -> None:
    found, _ = context(EVENTS, calls_as_rows)
    assert found == [
        (7, None), (7, None), (7, "forward"),  # a range has its parent
        (7, "layer"), (7, None), (None, None),
        (7, "layer"), (7, None), (None, None), (None, None),  # the range around its own time is of the host
        (7, "layer"), (7, None), (7, None), (None, None), (None, None),
    ]  # fmt: skip


def test_steps_that_a_device_shows_are_of_their_stream() -> None:
    events = [
        step(3, 0, 100, "device_range", process=9, thread=4), Event("kernel", 50, 5, "gemm", 9, 4),
        Event("kernel", 50, 5, "gemm", 9, 5), Event("cpu", 50, process=9, thread=4),
        Event("kernel", 100, 5, "gemm", 9, 4),
    ]  # fmt: skip
    found, steps = context(events)
    assert found == [(3, None), (3, None), (None, None), (None, None), (None, None)]
    assert steps.host_steps == []  # only steps of the host are measured


def test_the_steps_of_the_host_are_in_order() -> None:
    events = [
        step(8, 100, 20),
        step(7, 0, 50),
        step(7, 60, 10, process=2),
        step(9, 200, -1),
        Event("range", 0, 9, "Profiler"),
    ]
    _, found = context(events)
    assert found.host_steps == [(7, 2, 50, 0), (7, 3, 10, 60), (8, 1, 20, 100)]  # number, position, duration, start
    assert found.host_step_processes == [1, 2, 1]


@pytest.mark.parametrize(
    ("name", "is_step"),
    [
        ("ProfilerStep#12", True), ("ProfilerStep # 12", True), ("ProfilerStep#1234567890", False), ("step 12", True),
        ("iteration_12", True), ("train_step 12", True), ("Optimizer.step 12", False), ("step", False),
    ],
)  # fmt: skip
def test_the_name_of_a_step(name: str, is_step: bool) -> None:
    assert step_codes(np.array([0, -1, 0]), [name]).tolist() == ([0] if is_step else [])
    found, _ = context([Event("cpu", 0, 100, name), Event("cpu", 50)])
    assert found[1] == ((12, None) if is_step else (None, None))  # of any kind


@pytest.mark.parametrize(
    ("outer", "inner", "step"),
    [("step {}", "iter {}", 1), ("step {}", "ProfilerStep#{}", 5), ("ProfilerStep#{}", "iter {}", 1)],
)
def test_ranges_of_one_name_are_steps(outer: str, inner: str, step: int) -> None:
    """The profiler's own, else those that take longest; the others are ranges."""
    ranges = [Event("range", 0, 100, outer.format(1)), Event("range", 20, 30, inner.format(5))]
    found, context_of_file = context([*ranges, Event("cpu", 30)])
    assert [number for number, *_ in context_of_file.host_steps] == [step]
    assert found[2] == (step, inner.format(5) if step == 1 else outer.format(1))


def test_a_range_without_an_end_has_nothing_inside() -> None:
    assert context([Event("range", 0, -1, "open"), Event("cpu", 5)])[0] == [(None, None), (None, None)]
    assert context([Event("range", 10, LAST, "long"), Event("cpu", LAST - 1)])[0][1] == (None, "long")


def test_a_range_without_a_name_hides_the_one_around_it() -> None:
    found, _ = context(
        [Event("range", 0, 100, "outer"), Event("range", 10, 20, ""), Event("cpu", 15), Event("cpu", 50)]
    )
    assert found == [(None, None), (None, "outer"), (None, None), (None, "outer")]


def test_a_thread_of_a_negative_number_is_a_lane_of_its_own() -> None:
    lanes = thread_lane({"process": np.array([0, 1, 1, 0]), "thread": np.array([-1, -1, 5, 5])})
    assert len(set(lanes.tolist())) == 4
    assert (lanes >> 32).tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize("seed", range(8))
def test_against_a_search_through_all_ranges(seed: int) -> None:
    draw = random.Random(seed)

    def nested(begin: int, end: int, depth: int) -> list[Event]:
        events, at = [], begin
        while depth and at < end - 4:
            first, last = sorted(draw.sample(range(at, end + 1), 2))
            events += [Event("range", first, last - first, f"r{draw.randrange(5)}", thread=depth % 2 + 1)]
            events += nested(first, last, depth - 1)
            at = last
        return events

    events = [step(number, 40 * number, 40) for number in range(3)] + nested(0, 120, 4)
    probes = [Event("cpu", draw.randrange(130), thread=draw.randrange(3)) for _ in range(30)]
    calls = [Event("runtime", draw.randrange(130), correlation=number, thread=1) for number in range(20)]
    kernels = [Event("kernel", 1000, process=5, correlation=draw.randrange(25)) for _ in range(20)]
    found, _ = context([*events, *probes, *calls, *kernels])

    def expected(event: Event) -> tuple[int | None, str | None]:
        around = [e for e in events if e.start <= event.start < e.start + e.duration]
        steps = [int(e.name.partition("#")[2]) for e in around if "#" in e.name]
        ranges = [e for e in around if "#" not in e.name and e.thread == event.thread]
        innermost = min(ranges, key=lambda e: (e.duration, -events.index(e)), default=None)
        return (steps[0] if steps else None, innermost.name if innermost else None)

    of_call = {call.correlation: expected(call) for call in calls}
    begin = len(events)
    assert found[begin : begin + 50] == [expected(event) for event in (*probes, *calls)]
    assert found[begin + 50 :] == [of_call.get(kernel.correlation, (None, None)) for kernel in kernels]
