"""Holders of blocks: the ranges, modules and operators around each allocation."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from support.trace_tables import by_hand

from perflog.metrics.traces.over_time import memory_holders as module
from perflog.metrics.traces.over_time.memory_holders import HeldMemory, Holder, held_memory
from perflog.metrics.traces.work_tree import OUTSIDE, PATH_MARK, Word
from perflog.tables.columns import NULL

Event = dict[str, Any]


def event(kind: str, start: int, end: int | None, name: str, **more: Any) -> Event:
    usual: Event = {"kind": kind, "name": name, "process": "9", "thread": "1", "start_ns": start}
    return usual | {"duration_ns": None if end is None else end - start} | more


def block(time: int, size: int, address: int, **more: Any) -> Event:
    return event("memory", time, None, "[memory]", rank=0, device=0, bytes=size, address=address) | more


def held(*events: Event) -> list[HeldMemory]:
    return held_memory(by_hand([{"rank": 0} | each for each in events]))


CALLS = [
    event("range", 0, 100, "forward"),
    event("cpu", 10, 50, "aten::bmm"),
    event("cpu", 20, 30, "aten::empty"),
    event("cpu", 60, 70, "aten::empty"),
]


def test_the_holder_is_the_operator_that_does_more_than_allocate() -> None:
    [found] = held(*CALLS, block(25, 10, 1), block(40, 20, 2), block(65, 30, 3), block(90, 40, 4), block(120, 50, 5))
    at = [found.holders[code] for code in found.holder_by_block.tolist()]
    assert at == [
        Holder("forward", "aten::bmm"), Holder("forward", "aten::bmm"), Holder("forward", "aten::empty"),
        Holder("forward", None), Holder(OUTSIDE, None),
    ]  # fmt: skip
    assert dict(zip(found.holders, found.at_peak.tolist(), strict=True)) == {
        at[0]: 30, at[2]: 30, at[3]: 40, at[4]: 50,
    }  # fmt: skip
    assert dict(zip(found.holders, found.blocks_at(2).tolist(), strict=True)) == {
        at[0]: 2,
        at[2]: 1,
        at[3]: 0,
        at[4]: 0,
    }
    assert dict(zip(found.holders, found.bytes_at(0).tolist(), strict=True))[at[0]] == 10
    assert found.unexplained_at(0) is None  # no totals are printed


def test_names_of_holders() -> None:
    assert Holder(f"a{PATH_MARK}b", "aten::mm").name == "b: aten::mm"
    assert Holder("a", None).name == "a"


def test_what_is_freed_has_no_bytes() -> None:
    [found] = held(*CALLS, block(25, 10, 1), block(45, -10, 1), block(65, 5, 3))
    assert found.bytes_at(2).sum() == 5 and found.blocks_at(1).sum() == 0


def test_what_no_block_explains() -> None:
    [found] = held(*CALLS, block(25, 10, 1), block(40, 20, 2))
    printed = replace(found.curve, totals={"allocated": np.array([NULL, 95]), "reserved": np.array([NULL, NULL])})
    explained = HeldMemory(printed, found.holder_by_block, found.holders)
    assert [explained.unexplained_at(event) for event in (0, 1)] == [95 - 10, 95 - 30]


def test_another_thread_holds_nothing() -> None:
    [found] = held(*CALLS, block(25, 10, 1, thread="2"))
    assert found.holders == [Holder(OUTSIDE, None)]


def test_the_call_of_the_runtime_has_the_thread_and_the_time() -> None:
    """As in exports of Nsight Systems: events of memory name the call, and no thread."""
    runtime = event("runtime", 22, 28, "cudaMalloc", correlation=5)
    [found] = held(*CALLS, runtime, block(500, 10, 1, thread=None, correlation=5),
                   block(25, 20, 2, thread=None, correlation=6), block(65, 30, 3))  # fmt: skip
    at = [found.holders[code] for code in found.holder_by_block.tolist()]
    sizes = dict(zip(found.curve.blocks.sizes.tolist(), at, strict=True))
    assert sizes == {
        10: Holder("forward", "aten::bmm"), 20: Holder(OUTSIDE, None), 30: Holder("forward", "aten::empty"),
    }  # fmt: skip


def test_without_calls_all_is_outside() -> None:
    [found] = held(block(25, 10, 1), block(30, 20, 2))
    assert found.holders == [Holder(OUTSIDE, None)]
    assert found.at_peak.tolist() == [30]
    assert held() == []


def test_devices_of_a_file_have_holders_of_their_own() -> None:
    first, second = held(*CALLS, block(25, 10, 1), block(40, 20, 1, device=1))
    assert (first.curve.device, second.curve.device) == (0, 1)
    assert (first.at_peak.tolist(), second.at_peak.tolist()) == ([10], [20])


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("range:a range:b", (f"a{PATH_MARK}b", None)),
        ("range:a operator:x range:b operator:y", (f"a{PATH_MARK}b", "y")),
        ("range:a operator:x operator:aten::to operator:aten::empty_strided", ("a", "x")),
        ("operator:aten::new_zeros operator:aten::empty", (OUTSIDE, "aten::new_zeros")),
        ("operator:aten::clone", (OUTSIDE, "aten::clone")),
        ("", (OUTSIDE, None)),
    ],
)  # fmt: skip
def test_paths(names: str, expected: tuple[str, str | None]) -> None:
    words = [Word(name, kind) for kind, _, name in (word.partition(":") for word in names.split())]
    joined: Any = SimpleNamespace(words=words, parents=range(-1, len(words) - 1))
    assert module._holder(joined, len(words) - 1) == Holder(*expected)
