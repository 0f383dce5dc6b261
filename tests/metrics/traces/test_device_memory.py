"""Memory of devices from events by hand: curves, blocks, and the totals that a trace prints."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from support import trace_tables

from perflog.metrics import Tables
from perflog.metrics.traces.device_steps import TraceSteps
from perflog.metrics.traces.over_time import device_memory as module
from perflog.metrics.traces.over_time.device_memory import MemoryCurve, device_memory, memory_name
from perflog.tables.columns import NULL
from perflog.tables.schema import TABLES

Event = dict[str, Any]


def memory(time: int, size: int | None, address: int | None = 7, **more: Any) -> Event:
    usual: Event = {"kind": "memory", "name": "[memory]", "rank": 0, "device": 0, "process": "9", "duration_ns": None}
    return usual | {"start_ns": time, "bytes": size, "address": address} | more


def curves(*events: Event, totals: list[Event] | None = None) -> list[MemoryCurve]:
    tables = trace_tables.by_hand(list(events))
    counters = pd.DataFrame(
        [{"run": "r", "part": 0} | row for row in totals or []], columns=[c.name for c in TABLES["counters"]]
    )
    return device_memory(
        Tables({**{name: tables[name] for name in ("runs", "events", "steps", "lines")}, "counters": counters})
    )


def total(line: int, value: float, name: str = "device memory allocated") -> Event:
    return {"line": line, "name": name, "value": value}


def blocks(*events: tuple[int, int]) -> tuple[list[tuple[int, int, int]], int]:
    """Blocks as begin, end and size, of events with an address and bytes."""
    addresses, sizes = np.array(events, np.int64).reshape(-1, 2).T
    found, unknown = module._blocks(addresses, sizes)
    return sorted(zip(found.born.tolist(), found.ends.tolist(), found.sizes.tolist(), strict=True)), unknown


def test_blocks() -> None:
    assert blocks((7, 10), (8, 20), (7, -10), (7, 30)) == ([(0, 2, 10), (1, 4, 20), (3, 4, 30)], 0)
    assert blocks((7, 10), (7, 20), (7, -20)) == ([(0, 1, 10), (1, 2, 20)], 0)  # the event that freed it is missing
    assert blocks((7, -5), (8, 1), (8, -1), (8, -4)) == ([(1, 2, 1)], 9)  # nothing allocated them
    assert blocks((7, 10), (8, -3)) == ([(0, 2, 10)], 3)
    assert blocks((NULL, 10), (8, 0), (8, 5)) == ([(2, 3, 5)], 0)
    assert blocks() == ([], 0)


def test_the_curve_without_printed_totals_is_of_the_blocks() -> None:
    [curve] = curves(memory(5, 10), memory(9, 30, 8), memory(12, -10), memory(14, -4, 99))
    assert (curve.is_printed, curve.reserved, curve.freed_unknown) == (False, None, 4)
    assert curve.allocated.tolist() == curve.live.tolist() == [10, 40, 30, 30]
    assert curve.peak == 1
    assert [curve.living(event).tolist() for event in range(4)] == [[0], [0, 1], [1], [1]]
    assert curve.bytes_of(np.array([False, True])).tolist() == [0, 30, 30, 30]
    assert curve.before(np.array([4, 5, 6, 14, 99])).tolist() == [-1, -1, 0, 2, 3]


def test_events_are_in_order_of_time_and_line() -> None:
    [curve] = curves(memory(9, 30, 8, line=5), memory(5, 10, line=4), memory(9, 1, 9, line=2))
    assert curve.rows["line"].tolist() == [4, 2, 5]
    assert curve.live.tolist() == [10, 11, 41]


def test_printed_totals_are_carried_on() -> None:
    [curve] = curves(
        *(memory(at, 10, at) for at in range(1, 6)),
        totals=[total(4, 700), total(2, 500), total(2, 900, "device memory reserved"), total(3, float("nan")),
                total(1, 5, "host memory pinned"), total(77, 1)],
    )  # fmt: skip
    assert curve.totals["allocated"].tolist() == [NULL, 500, NULL, 700, NULL]
    assert curve.is_printed and curve.allocated.tolist() == [500, 500, 500, 700, 700]
    assert curve.reserved is not None and curve.reserved.tolist() == [900] * 5
    assert curve.peak == 3


def test_an_allocator_that_reserves_nothing_has_no_curve_of_it() -> None:
    [curve] = curves(memory(1, 10), totals=[total(1, 10, "host memory allocated"), total(1, 0, "host memory reserved")])
    assert curve.is_printed and curve.reserved is None
    [curve] = curves(memory(1, 10), totals=[total(1, 1, "host memory reserved")])
    assert not curve.is_printed and curve.reserved is not None


def test_each_device_process_and_rank_has_a_curve() -> None:
    found = curves(
        memory(1, 10, device=None), memory(2, 20, device=1, device_name="H100"), memory(3, 30, process="8"),
        memory(4, 40, rank=None), memory(5, None), memory(6, 50),
    )  # fmt: skip
    assert [(c.rank, c.device, c.process, c.device_name, c.live.tolist()) for c in found] == [
        (None, 0, "9", None, [40]), (0, 0, "9", None, [50]), (0, 0, "8", None, [30]), (0, 1, "9", "H100", [20]),
        (0, None, "9", None, [10]),
    ]  # fmt: skip
    assert [memory_name(c) for c in found] == [
        "memory of device 0 (process 9)", "memory of device 0 (rank 0)", "memory of device 0 (rank 0)",
        "memory of device 1 (rank 0)", "memory of the host (rank 0)",
    ]  # fmt: skip
    [alone] = curves(memory(1, 10, rank=None, process=None))
    assert memory_name(alone) == "memory of device 0"
    assert curves() == curves(memory(1, None)) == []


def test_steps_of_events() -> None:
    [curve] = curves(
        memory(5, 10), memory(10, 10, 8), memory(19, 10, 9), memory(20, 10, 10),
        trace_tables.step(3, 10, 20, process="9"),
    )  # fmt: skip
    assert [curve.step_at(event) for event in range(4)] == [None, 3, 3, None]


def steps(number: int) -> TraceSteps:
    once = np.array([number])
    return TraceSteps(once, once, once + 1, once)


def test_steps_are_of_the_process_or_the_only_ones() -> None:
    first, second = steps(1), steps(2)
    assert module._steps_of("a", {"a": first, "b": second}) is first
    assert module._steps_of("c", {"a": first}) is first
    assert len(module._steps_of("c", {"a": first, "b": second}).numbers) == 0
    assert len(module._steps_of(None, {}).numbers) == 0


@pytest.mark.parametrize(
    ("values", "expected"),
    [([NULL, 3, NULL, 5, NULL], [3, 3, 3, 5, 5]), ([NULL, NULL], [NULL, NULL]), ([0], [0]), ([], [])],
)
def test_carried(values: list[int], expected: list[int]) -> None:
    assert module.carried(np.array(values, np.int64)).tolist() == expected
