"""The work of devices in steady steps, event by event."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.trace_tables import Event, by_hand, kernel, step

from perflog.metrics.compared import Steady
from perflog.metrics.traces.device_work import TraceDevice, trace_devices
from perflog.metrics.traces.steady_work import (
    STEP,
    TRACE,
    places_of_work,
    steady_devices,
    steady_steps,
    step_at,
    windows,
    work_times,
)

STEPS = {7: (0, 100), 3: (100, 180), 5: (200, 300)}  # numbers need not rise


def devices(*events: Event, steps: dict[int, tuple[int, int]] = STEPS) -> list[TraceDevice]:
    return trace_devices(by_hand([*events, *(step(number, *window) for number, window in steps.items())]))


def test_steady_steps_are_those_of_all_devices() -> None:
    one, two = devices(kernel(0, 10)), devices(kernel(0, 10), steps={3: (0, 10), 5: (10, 20), 9: (20, 30)})

    def steps(of: list[TraceDevice], first: int | None, cut: int) -> list[int] | None:
        found = steady_steps(of, first, cut)
        return None if found is None else found.tolist()

    assert steps([*one, *two], None, 0) == [3, 5] and steps([*one, *two], None, 1) == [5]
    assert steps([*one, *two], 5, 0) == [5] and steps([*one, *two], 6, 0) == []
    assert steps(one, None, 1) == [3, 5] and steps(two, None, 9) == []
    assert steps([*one, *devices(kernel(0, 10), steps={4: (0, 10)})], None, 0) is None


def test_runs_that_are_compared_have_steady_devices() -> None:
    runs = [kernel(0, 10), kernel(0, 10, device=1), kernel(5, 5, device=2), kernel(0, 10, run="s")]
    tables = by_hand([*runs, step(1, 0, 10), step(2, 10, 20), kernel(0, 9, run="t")])
    found = list(steady_devices(tables, Steady({"r": 1, "s": 0}, {})))
    assert [(of.run, [device.device for device in of.devices], of.part) for of in found] == [
        ("r", [0, 1], STEP), ("s", [0], TRACE),
    ]  # fmt: skip
    assert found[0].steps is not None and found[0].steps.tolist() == [2] and found[1].steps is None
    (later,) = steady_devices(tables, Steady({"r": 0}, {"r": 2}))
    assert later.steps is not None and later.steps.tolist() == [2]


def test_windows_of_steps() -> None:
    (device,) = devices(kernel(10, 20), kernel(30, 40))
    starts, ends = windows(device, np.array([3, 7]))
    assert (starts.tolist(), ends.tolist()) == ([100, 0], [180, 100])
    assert [edge.tolist() for edge in windows(device, None)] == [[10], [40]]


@given(
    st.lists(st.tuples(st.integers(-9, 320), st.integers(0, 50), st.integers(0, 2)), min_size=1),
    st.permutations([3, 5, 7]),
    st.integers(0, 3),
)
def test_times_of_events_in_steps(pieces: list[tuple[int, int, int]], order: list[int], number: int) -> None:
    """An event counts in the step in which it begins, if the trace does not state which one launched it."""
    steps = np.array(order[:number], np.int64)
    (device,) = devices(*(kernel(start, start + length, "abc"[code]) for start, length, code in pieces))
    names, words = device.work.rows.codes("name")
    codes = np.array(["abc".find(word) for word in words])[names]
    expected = np.zeros((3, number), np.int64)
    for start, length, code in pieces:
        of = next((each for each, (begin, end) in STEPS.items() if begin <= start < end), None)
        if of in order[:number]:
            expected[code, order.index(of)] += length
    assert work_times(device, steps, codes, 3).tolist() == expected.tolist()
    whole = [[sum(length for _, length, each in pieces if each == code)] for code in range(3)]
    assert work_times(device, None, codes, 3).tolist() == whole


def test_work_belongs_to_the_step_that_launched_it() -> None:
    (device,) = devices(kernel(10, 20, step=5), kernel(110, 120), kernel(210, 220, step=4), kernel(220, 230, step=3))
    assert places_of_work(device, np.array([5, 3])).tolist() == [0, -1, -1, 1]
    assert places_of_work(device, np.array([], np.int64)).tolist() == [-1] * 4
    assert places_of_work(device, None).tolist() == [0] * 4


@pytest.mark.parametrize(
    ("time", "number"), [(-1, -1), (0, 7), (99, 7), (100, 3), (179, 3), (180, -1), (200, 5), (299, 5), (300, -1)]
)
def test_the_step_at_a_time(time: int, number: int) -> None:
    (device,) = devices(kernel(0, 10))
    assert step_at(device.steps, np.array([time])).tolist() == [number]
