"""Launches of traces: the call that launched each piece of work, where one call has its number."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.trace_tables import Event, by_hand, kernel

from perflog.metrics.traces.launches import launches_by_file, places_of
from perflog.tables.columns import NULL


def call(start: int, end: int, number: int | None, thread: str = "1", **more: object) -> Event:
    usual = {"kind": "runtime", "device": None, "correlation": number, "process": "9", "thread": thread}
    return kernel(start, end, "cudaLaunchKernel", **(usual | more))


def operator(start: int, end: int, number: int, thread: str = "5") -> Event:
    return call(start, end, None, thread, kind="cpu", external=number)


def launched(*events: Event) -> list[tuple[int, int, str | None, bool] | None]:
    """Begin and end of the launch of each piece of work, its thread, and whether an operator launched it."""
    ((_, [(_, found)]),) = launches_by_file(by_hand(list(events)))
    columns = found.starts, found.ends, found.threads, found.is_operator
    return [
        None if start == NULL else (start, end, found.names[thread][1], bool(is_operator))
        for start, end, thread, is_operator in zip(*(column.tolist() for column in columns), strict=True)
    ]


def test_the_call_with_the_number_of_the_work_launched_it() -> None:
    work = [kernel(100 + k, 101 + k, correlation=number) for k, number in enumerate((3, 1, 2, 4, None, 1))]
    calls = [call(30, 35, 3, "2"), call(10, 12, 1), call(20, 24, 2), call(21, 22, 2), call(40, 41, None)]
    assert launched(*calls, *work) == [
        (30, 35, "2", False), (10, 12, "1", False),
        None,  # two calls have its number
        None, None,
        (10, 12, "1", False),  # one call may launch several
    ]  # fmt: skip


def test_calls_without_times_launch_nothing() -> None:
    work = [kernel(100, 101, correlation=1), kernel(101, 102, correlation=2), kernel(102, 103, correlation=3)]
    calls = [call(10, 5, 1), call(10, 12, 2, start_ns=None), call(10, 10, 3)]
    assert launched(*calls, *work) == [None, None, (10, 10, "1", False)]


def test_an_operator_launches_what_no_call_does() -> None:
    work = [kernel(100, 101, correlation=1, external=7), kernel(101, 102, correlation=2, external=8)]
    work += [kernel(102, 103, external=9), kernel(103, 104, external=6)]
    host = [call(10, 12, 1), operator(5, 20, 7), operator(30, 40, 8), operator(50, 60, 9), operator(51, 52, 9)]
    assert launched(*host, *work) == [(10, 12, "1", False), (30, 40, "5", True), None, None]
    assert launched(*host[1:], *work)[:2] == [(5, 20, "5", True), (30, 40, "5", True)]
    assert launched(*work) == [None] * 4


def test_threads_of_calls_and_of_operators() -> None:
    """A thread or a process that the trace does not name is None; threads of both kinds are told apart."""
    work = [kernel(100, 101, correlation=1), kernel(101, 102, external=8), kernel(102, 103, correlation=2)]
    host = [call(10, 12, 1, "7"), call(20, 22, 2, "8"), operator(30, 40, 8, "9"), operator(50, 60, 9, "6")]
    assert [each and each[2] for each in launched(*host, *work)] == ["7", "9", "8"]
    unnamed = call(10, 12, 1) | {"thread": None, "process": None}
    ((_, [(_, found)]),) = launches_by_file(by_hand([unnamed, *host[1:], *work]))
    assert found.names[found.threads[0]] == (None, None)


def test_each_file_has_its_own_numbers() -> None:
    events = [kernel(100, 101, correlation=1), kernel(200, 201, correlation=1, part=1, rank=1)]
    events += [call(10, 12, 1), kernel(300, 301, correlation=1, part=2, rank=2), call(20, 22, 1, part=1)]
    found = list(launches_by_file(by_hand(events)))
    starts = {place: [launches.starts.tolist() for _, launches in devices] for place, devices in found}
    assert starts == {("r", 0): [[10]], ("r", 1): [[20]], ("r", 2): [[NULL]]}
    assert found[-1][0] == ("r", 2)  # without a call: the last


@given(st.lists(st.integers(0, 9), unique=True), st.lists(st.integers(-2, 11)))
def test_places_of_numbers(numbers: list[int], wanted: list[int]) -> None:
    numbers.sort()
    found = places_of(np.array(numbers, np.int64), np.array(wanted, np.int64))
    assert found.tolist() == [numbers.index(each) if each in numbers else -1 for each in wanted]


def test_each_process_of_a_file_has_its_own_numbers() -> None:
    """A database holds the calls of several processes; two of them share the device."""
    calls = [call(10 * k, 10 * k + 5, 1 + k % 2, process=process) for k, process in enumerate(("8", "8", "9", "9"))]
    work = [kernel(100 + k, 101 + k, correlation=1, process=process) for k, process in enumerate(("8", "9", "9"))]
    begins = [found and found[0] for found in launched(*calls, *work)]
    assert begins == [0, 20, 20]
    # A Chrome trace has the work of a device in a process of its own, and one device may have no process.
    for process in ("0", None):
        assert launched(*calls, kernel(100, 101, correlation=1, process=process)) == [None]
    # Other programs name a process of the host for the work that another one launched.
    assert launched(*calls, call(50, 51, 7, process="9"), kernel(100, 101, correlation=7, process="8")) == [
        (50, 51, "1", False)
    ]
