"""Arguments of Chrome trace events as columns: which argument fills which column of which events, and its count."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import msgspec
import numpy as np
import pytest

from perflog.readers.chrome.argument_columns import ArgumentColumns, EventArgs
from perflog.readers.events.event_columns import KIND_CODE, KINDS, MISSING, TEXT_COLUMNS
from perflog.readers.events.string_interning import WorkerInterner

CODES = (*TEXT_COLUMNS, "kind")


def read(*events: tuple[str, dict[str, Any]]) -> tuple[dict[str, list[Any]], dict[str, int]]:
    """The columns of events, given by kind and arguments, with their strings; and how many values were taken."""
    interners = {name: WorkerInterner() for name in TEXT_COLUMNS}
    args = [msgspec.json.decode(json.dumps(given).encode(), type=EventArgs) for _, given in events]
    counts = Counter(key for _, given in events for key in given)
    reader = ArgumentColumns(interners, counts)
    kinds = np.array([KIND_CODE.get(kind, -1) for kind, _ in events], np.int8)
    columns = {}
    for name, column in reader.columns(args, kinds).items():
        texts = KINDS if name == "kind" else interners[name].new_texts() if name in interners else ()
        missing = -1 if name in CODES else MISSING
        columns[name] = [
            None if value == missing else texts[value] if name in CODES else value for value in column.tolist()
        ]
    return columns, {key: count for key, count in reader.taken.items() if count}


@pytest.mark.parametrize(
    ("key", "column"),
    [
        ("stream", "stream"), ("context", "context"), ("bytes", "bytes"), ("registers per thread", "registers"),
        ("shared memory", "shared_bytes"), ("Bytes", "bytes"), ("correlation", "correlation"),
        ("External id", "external"), ("external id", "external"),
    ],
)  # fmt: skip
def test_numbers_of_work_on_devices(key: str, column: str) -> None:
    columns, taken = read(("kernel", {key: 7}), ("kernel", {}), ("memcpy", {key: "8"}), ("kernel", {key: "x"}))
    assert columns[column] == [7, None, 8, None]
    assert taken == {key: 2}


def test_arguments_are_also_found_where_nobody_expects_them() -> None:
    columns, taken = read(("cpu", {"stream": 7, "device": 1}), ("kernel", {"stream": 8, "device": 2}), ("cpu", {}))
    assert columns["stream"] == [7, 8, None]
    assert columns["device"] == [None, 2, None]  # the column is for work on devices
    assert taken == {"stream": 2, "device": 1}


def test_the_bytes_of_an_event_have_two_names() -> None:
    columns, _ = read(("memcpy", {"bytes": 5, "Bytes": 9}), ("memcpy", {"Bytes": 9}))
    assert columns["bytes"] == [5, 9]
    columns, _ = read(("cpu", {"External id": 5, "external id": 9}), ("cpu", {"external id": 9}))
    assert columns["external"] == [5, 9]


@pytest.mark.parametrize(
    ("key", "column"),
    [("wait_on_stream", "waits_for_stream"), ("wait_on_cuda_event_record_corr_id", "waits_for_record")],
)
def test_what_a_synchronisation_waits_for(key: str, column: str) -> None:
    columns, taken = read(("sync", {key: 7}), ("sync", {key: -1}), ("sync", {key: 0}), ("sync", {}))
    assert columns[column] == [7, None, 0, None]
    assert taken == {key: 3}


def test_the_size_of_a_launch_is_its_json() -> None:
    columns, taken = read(("kernel", {"grid": [8, 1, 1], "block": [128, 1, 1]}), ("kernel", {"grid": [8, 1, 1]}))
    assert columns["grid"] == [columns["grid"][0]] * 2
    assert json.loads(columns["grid"][0]) == [8, 1, 1]
    assert [None if text is None else json.loads(text) for text in columns["block"]] == [[128, 1, 1], None]
    assert taken == {"grid": 2, "block": 1}


def test_inputs_of_operators() -> None:
    given = {"Input Dims": [[2, 3]], "Input type": ["float"], "Input Strides": [[3, 1]], "Concrete Inputs": ["1"]}
    columns, taken = read(("cpu", given | {"Record function id": 4, "Call stack": "a;b"}), ("cpu", {}), ("", given))
    for name, key in {
        "shapes": "Input Dims", "input_types": "Input type", "input_strides": "Input Strides",
        "input_values": "Concrete Inputs",
    }.items():  # fmt: skip
        assert [None if text is None else json.loads(text) for text in columns[name]] == [given[key], None, given[key]]
    assert (columns["record"], columns["stack"]) == ([4, None, None], ["a;b", None, None])
    assert taken == dict.fromkeys(given, 2) | {"Record function id": 1, "Call stack": 1}
    older, _ = read(("cpu", {"Input dims": [[2]]}))
    assert json.loads(older["shapes"][0]) == [[2]]


MEMORY = {"Addr": 64, "Bytes": 512, "Total Allocated": 1000, "Total Reserved": 2000}


@pytest.mark.parametrize(
    ("given", "device"),
    [
        ({"Device Id": 3, "Device Type": 1}, 3),
        ({"Device Id": 0, "Device Type": 0}, None),  # the host
        ({"Device Id": -1, "Device Type": 1}, None),
        ({"Device Id": 3}, 3),
        ({}, None),
    ],
)
def test_an_instant_of_memory_is_known_by_its_arguments(given: dict[str, int], device: int | None) -> None:
    columns, _ = read(("mark", MEMORY | given), ("mark", {"name": "x"}), ("kernel", {"device": 5}))
    assert columns["kind"] == ["memory", "mark", "kernel"]
    assert columns["address"] == [64, None, None]
    assert columns["device"] == [device, None, 5]
    assert columns["bytes"] == [512, None, None]


def test_any_argument_of_memory_makes_an_instant_one() -> None:
    for key in ("Addr", "Total Allocated", "Total Reserved"):
        columns, _ = read(("mark", {key: 1}), ("mark", {}), ("cpu", {key: 1}))
        assert columns["kind"] == ["memory", "mark", "cpu"]
    assert "kind" not in read(("mark", {"Device Id": 1}))[0]


COLLECTIVE = {
    "Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 4000, "dtype": "BFloat16",
    "Group size": 8, "Process Group Name": "7", "Process Group Description": "tp", "Seq": 12,
}  # fmt: skip


def test_a_collective() -> None:
    columns, taken = read(
        ("kernel", COLLECTIVE), ("kernel", {}), ("kernel", {"Seq": 13, "Src Rank": 2, "Dst Rank": 3, "bytes": 5})
    )
    expected = {
        "collective": ["allreduce", None, None], "bytes": [8000, None, 5], "dtype": ["BFloat16", None, None],
        "ranks": [8, None, None], "group": ["7", None, None], "group_description": ["tp", None, None],
        "seq": [12, None, 13], "src_rank": [None, None, 2], "dst_rank": [None, None, 3],
    }  # fmt: skip
    assert {name: columns[name] for name in expected} == expected
    assert taken == dict.fromkeys(COLLECTIVE, 1) | {"Seq": 2, "Src Rank": 1, "Dst Rank": 1, "bytes": 1}


@pytest.mark.parametrize(
    ("given", "size"),
    [
        ({"In msg nelems": 6, "Out msg nelems": 2, "dtype": "Float"}, 24),
        ({"In msg nelems": 6, "dtype": "Float"}, 24),
        ({"In msg nelems": 0, "Out msg nelems": 0, "dtype": "Float"}, 0),
        ({"In msg nelems": 6, "dtype": "Unheard"}, None),
        ({"In msg nelems": -6, "dtype": "Float"}, None),
        ({"In msg nelems": 6, "dtype": "Float", "bytes": 100}, 100),  # the larger one
        ({"In msg nelems": 60, "dtype": "Float", "bytes": 100}, 240),
    ],
)
def test_the_bytes_of_a_message(given: dict[str, Any], size: int | None) -> None:
    columns, taken = read(("kernel", {"Collective name": "x"} | given))
    assert columns["bytes"] == [size]
    counted = sum(taken.get(key, 0) for key in ("In msg nelems", "Out msg nelems"))
    assert counted == (
        0
        if given["dtype"] == "Unheard"
        else sum(given.get(key, -1) >= 0 for key in ("In msg nelems", "Out msg nelems"))
    )


@pytest.mark.parametrize(
    ("given", "group"),
    [
        ({"Process Group Name": "7", "Process Group Ranks": "[0, 1]"}, "7"),
        ({"Process Group Name": "", "Process Group Ranks": "[0, 1]"}, "[0, 1]"),
        ({"Process Group Ranks": [0, 1]}, "[0, 1]"),
        ({}, None),
    ],
)
def test_a_group_without_a_name_is_known_by_its_ranks(given: dict[str, Any], group: str | None) -> None:
    assert read(("kernel", {"Collective name": "x", "Process Group Name": ""} | given))[0]["group"] == [group]


def test_arguments_of_a_collective_beside_none_are_taken() -> None:
    columns, taken = read(("cpu", {"Collective name": "x"}), ("cpu", {"In split size": "[1]", "Out split size": "[2]"}))
    assert (columns["in_split"], columns["out_split"]) == ([None, "[1]"], [None, "[2]"])
    assert taken == {"Collective name": 1, "In split size": 1, "Out split size": 1}
    assert "collective" not in read(("cpu", {"stream": 1}))[0]


def test_work_on_a_device_has_no_inputs() -> None:
    columns, _ = read(("cpu", {"Input Dims": [[2, 3]], "Input type": ["float"]}), ("kernel", {}), ("kernel", {}))
    assert [text is None for text in columns["shapes"]] == [False, True, True]
    assert columns["input_types"] == ['["float"]', None, None]
