"""Meanings of the numbers of rocprofv3: kernels, operations, markers, counters and devices of one process."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from perflog.readers.events.event_columns import MISSING
from perflog.readers.rocprof.symbols import ProcessOutput, Symbols, decode_json


def symbols(**parts: Any) -> Symbols:
    return Symbols(msgspec.json.decode(json.dumps(parts).encode(), type=ProcessOutput))


def agent(handle: int, node: Any = 0, kind: Any = "GPU", **more: Any) -> dict[str, Any]:
    return {"id": {"handle": handle}, "type": kind, "node_id": node} | more


def test_a_file_without_parts_names_nothing() -> None:
    found = symbols()
    assert (found.metadata, found.pid, found.kernels, found.devices, found.device_info) == ({}, None, {}, {}, [])
    assert (found.messages, found.regions, found.operation(0, 0)) == ({}, {}, (None, None))
    assert symbols(metadata=[1], agents=3, kernel_symbols="x", strings={"correlation_id": [1]}).metadata == {}
    assert symbols(metadata={"pid": 7}).pid == 7


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ({"formatted_kernel_name": "f", "kernel_name": "k"}, "f"),
        ({"formatted_kernel_name": "", "demangled_kernel_name": "d", "kernel_name": "k"}, "d"),
        ({"demangled_kernel_name": 5, "kernel_name": "k"}, "k"),
        ({"truncated_kernel_name": "t"}, "t"),
        ({"other": "x"}, None),
    ],
)
def test_a_kernel_has_the_name_that_says_most(names: dict[str, Any], expected: str | None) -> None:
    expected_kernels = {} if expected is None else {9: expected}
    assert symbols(kernel_symbols=[{"kernel_id": 9} | names]).kernels == expected_kernels
    assert symbols(kernel_symbols={"x": {"kernel_id": "9"} | names}).kernels == expected_kernels


def test_a_kernel_without_a_number_has_that_of_its_position() -> None:
    assert symbols(kernel_symbols=[{"kernel_name": "a"}, 5, {"kernel_name": "b"}]).kernels == {0: "a", 2: "b"}


def test_counters_are_named_by_their_handle() -> None:
    found = symbols(counters=[{"id": {"handle": 3}, "name": "GRBM"}, {"id": 4, "name": "SQ"}, {"id": 5}])
    assert [found.counter(number) for number in (3, 4, 5, MISSING)] == ["GRBM", "SQ", "counter 5", "counter"]


def test_operations_are_named_by_their_order() -> None:
    records = [{"kind": "HIP_API", "operations": ["hipMalloc", None, 5]}, {"operations": "x"}, 7, {"kind": "COPY"}]
    found = symbols(strings={"buffer_records": records})
    assert [found.operation(*pair) for pair in ((0, 0), (0, 1), (0, 2), (0, 3), (0, -1), (0, "0"))] == [
        ("HIP_API", "hipMalloc"), *[("HIP_API", None)] * 5
    ]  # fmt: skip
    assert [found.operation(kind, 0) for kind in (1, 2, 3, 4, -1, None)] == [
        (None, None), (None, None), ("COPY", None), (None, None), (None, None), (None, None)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "markers",
    [
        [
            {"key": 5, "value": "step"},
            {"key": "6", "value": "eval"},
            {"key": "x", "value": "y"},
            {"key": 7, "value": 8},
        ],
        {"5": "step", "6": "eval", "x": "y", "7": 8},
    ],
)
def test_markers_and_ranges_are_maps_in_two_forms(markers: Any) -> None:
    found = symbols(strings={"marker_api": markers, "correlation_id": {"external": markers}})
    assert found.messages == found.regions == {5: "step", 6: "eval"}


def test_a_list_with_other_values_keeps_its_entries() -> None:
    assert symbols(strings={"marker_api": [{"key": 5, "value": "step"}, 3]}).messages == {5: "step"}


@pytest.mark.parametrize(
    ("agents", "expected"),
    [
        ([agent(90, 0, "CPU"), agent(91, 1), agent(92, 2)], {91: 0, 92: 1}),
        ([agent(92, 2), agent(91, 1)], {91: 0, 92: 1}),  # in the order of their nodes
        ([agent(91, 1, 2), agent(92, 2, 1)], {91: 0}),  # types may be numbers
        ([agent(91, 1, logical_node_type_id=3), agent(92, 2, logical_node_type_id=0)], {91: 3, 92: 0}),
        ([agent(91, 1, logical_node_type_id=3), agent(92, 2, logical_node_type_id=3)], {91: 0, 92: 1}),
        ([agent(91, 1, logical_node_type_id=-1), agent(92, 2, logical_node_type_id=0)], {91: 0, 92: 1}),
        ([agent(91, 1, logical_node_type_id=3), agent(92, 2)], {91: 0, 92: 1}),
    ],
)
def test_devices_are_numbered_as_the_file_does(agents: list[dict[str, Any]], expected: dict[int, int]) -> None:
    found = symbols(agents=agents)
    assert found.devices == expected
    assert [info["device"] for info in found.device_info] == [*expected.values()]


def test_a_device_is_described() -> None:
    given = [
        agent(91, 1, product_name="MI300X", name="gfx942", cu_count=304, odd=1),
        agent(92, 2, name="gfx90a"),
        agent(93, 3),
    ]
    found = symbols(agents=given)
    assert found.device_names == {0: "MI300X", 1: "gfx90a", 2: ""}
    assert found.device_info[0] == {
        "device": 0, "node_id": 1, "product_name": "MI300X", "name": "gfx942", "cu_count": 304
    }  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "expected"),
    [(b"[1]", [1]), (b"nothing", None), (b'"\xff"', "\ufffd"), (b'"a\nb"', "a\nb"), (b"", None)],
)
def test_json_whose_names_are_no_utf8_is_read(raw: bytes, expected: Any) -> None:
    assert decode_json(raw) == expected
