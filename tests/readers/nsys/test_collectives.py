"""Payloads of NCCL's calls on the kernels that they launched."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from perflog.readers.events.event_columns import MISSING, EventColumns
from perflog.readers.nsys.collectives import CollectiveLaunches
from perflog.readers.nsys.payloads import Fields, PayloadReader


class Payloads:
    """Notes what it is asked to fill."""

    def __init__(self) -> None:
        self.filled: list[tuple[list[int], Fields, list[int]]] = []

    def fill(self, _rows: EventColumns, index: Any, fields: Fields, names: Any) -> None:
        self.filled.append((index.tolist(), fields, names.tolist()))


def columns(**lists: list[int]) -> EventColumns:
    return {name: np.array(values, np.int64) for name, values in lists.items()}


def ranges(*rows: tuple[int, int, int, int]) -> EventColumns:
    """Name, thread, start and duration of each range."""
    name, thread, start, duration = (list(column) for column in zip(*rows, strict=True))
    return columns(name=name, thread=thread, start=start, duration=duration, process=[1] * len(rows))


def calls(*rows: tuple[int, int, int]) -> EventColumns:
    """Thread, start and correlation of each call."""
    thread, start, correlation = (list(column) for column in zip(*rows, strict=True))
    return columns(thread=thread, start=start, correlation=correlation, process=[1] * len(rows))


def filled(
    launches: CollectiveLaunches, payloads: Payloads, *correlations: int
) -> list[tuple[list[int], str, list[int]]]:
    payloads.filled.clear()
    launches.fill(columns(correlation=list(correlations)))
    return [(index, str(fields["payload"]), names) for index, fields, names in payloads.filled]


def made() -> tuple[CollectiveLaunches, Payloads]:
    payloads = Payloads()
    return CollectiveLaunches(cast("PayloadReader", payloads)), payloads


def test_a_kernel_has_the_payload_of_the_range_around_its_call() -> None:
    launches, payloads = made()
    rows = ranges((3, 1, 100, 50), (3, 1, 200, 50), (4, 1, 300, 50), (3, 2, 100, 50))
    launches.add_ranges(rows, np.array([0, 2]), {"payload": "a"})
    launches.add_ranges(rows, np.array([1, 3]), {"payload": "b"})
    launches.add_calls(calls((1, 100, 20), (1, 149, 10), (1, 210, 12), (1, 310, 13), (2, 120, 14), (1, 260, 15)))
    assert sorted(filled(launches, payloads, 10, 12, 13, 14, 15, 20, 99, MISSING)) == [
        ([0, 5], "a", [3, 3]), ([1, 3], "b", [3, 3]), ([2], "a", [4])
    ]  # fmt: skip


def test_what_is_in_no_range_has_no_payload() -> None:
    launches, payloads = made()
    rows = ranges((3, 1, 100, 50), (3, 1, 200, MISSING))
    launches.add_ranges(rows, np.array([0, 1]), {"payload": "a"})
    launches.add_calls(calls((1, 99, 1), (1, 160, 2), (1, 210, 3), (3, 110, 4), (1, 110, MISSING)))
    assert filled(launches, payloads, 1, 2, 3, 4, MISSING) == []


def test_calls_may_come_in_several_batches() -> None:
    launches, payloads = made()
    launches.add_ranges(ranges((3, 1, 100, 50)), np.array([0]), {"payload": "a"})
    launches.add_calls(calls((1, 110, 9)))
    launches.add_calls(calls((1, 120, 4)))
    assert filled(launches, payloads, 4, 9, 5) == [([0, 1], "a", [3, 3])]


def test_without_ranges_nothing_is_filled() -> None:
    launches, payloads = made()
    launches.add_calls(calls((1, 110, 9)))
    assert filled(launches, payloads, 9) == []
