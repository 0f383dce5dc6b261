"""Memory in an export of Nsight Systems: sizes with their sign, totals of pools, and the names of copies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.nsys_files import write_tables

from perflog.parsing.input.source import Source
from perflog.readers.databases.sqlite import Database
from perflog.readers.events.event_columns import MISSING
from perflog.readers.events.string_interning import new_interners
from perflog.readers.nsys.memory import copy_names, memory_columns, memory_labels, pool_readings
from perflog.readers.nsys.tables import COPY_ENDS, MEMORY_KIND, POOL_NAME, POOL_TOTALS


def batch(**columns: Sequence[int | None]) -> pa.RecordBatch:
    return pa.record_batch({name: pa.array(values, pa.int64()) for name, values in columns.items()})


def test_what_is_freed_counts_as_negative() -> None:
    operations = {
        "bytes": np.array([64, 64, -64, MISSING, 64]), "name": np.array([0, 1, 1, 1, MISSING]),
        "address": np.arange(5),
    }  # fmt: skip
    found = memory_columns(batch(**{MEMORY_KIND: [2] * 5}), operations, {})
    assert found["bytes"].tolist() == [64, -64, -64, MISSING, 64]
    assert found["address"].tolist() == [0, 1, 2, 3, 4]
    assert "device" not in found


def test_memory_of_the_host_is_on_no_device() -> None:
    operations = {name: np.zeros(5, np.int64) for name in ("bytes", "name", "address")}
    rows = {"device": np.full(5, 3), "device_name": np.full(5, 1)}
    found = memory_columns(batch(**{MEMORY_KIND: [0, 1, 2, 4, None]}), operations, rows)
    assert found["device"].tolist() == [MISSING, MISSING, 3, 3, 3]
    assert found["device_name"].tolist() == [-1, -1, 1, 1, 1]


def test_the_totals_of_a_pool_are_counters() -> None:
    interners = new_interners()
    totals = list(POOL_TOTALS.values())
    given: dict[str, list[int | None]] = {name: [None] * 4 for name in totals}
    given[totals[0]], given[POOL_NAME] = [100, 200, None, 400], [0xAB, 0xAB, 0xAB, 0]
    given[totals[-1]] = [None, 7, None, None]
    rows = {"place": np.arange(1, 5), "start": np.arange(10, 14), "thread": np.zeros(4, np.int64)}
    found = pool_readings(batch(**given), rows, interners)

    def shown(reading: dict[str, Any]) -> list[Any]:
        texts = [
            [interners[name].texts[code] for code in reading[name].tolist()] for name in ("name", "subject", "unit")
        ]
        return [reading["place"].tolist(), reading["start"].tolist(), reading["value"].tolist(), *texts]

    counters = list(POOL_TOTALS)
    assert [shown(reading) for reading in found] == [
        [[1, 2], [10, 11], [100.0, 200.0], [counters[0]] * 2, ["memory pool 0xab"] * 2, ["B"] * 2],
        [[2], [11], [7.0], [counters[-1]], ["memory pool 0xab"], ["B"]],
    ]
    assert "thread" not in found[0]


USUAL = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed", 5: "Device Static", 6: "Managed Static"}


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (None, USUAL),
        ([{"id": 2, "label": "HBM"}, {"id": 9, "label": "Far"}, {"id": 1, "label": ""}], USUAL | {2: "HBM", 9: "Far"}),
        ([{"id": 2, "name": "HBM"}], USUAL),
    ],
)
def test_the_names_of_kinds_of_memory(tmp_path: Path, table: Any, expected: dict[int, str]) -> None:
    tables = {"ENUM_CUDA_MEM_KIND": table} if table else {"NVTX_EVENTS": [{"start": 1}]}
    file = write_tables(tmp_path / "export.sqlite", tables)
    db = Database(str(file), Source("export.sqlite", str(file)))
    try:
        assert memory_labels(db) == expected
    finally:
        db.close()


def test_the_name_of_a_copy_has_the_memory_at_both_ends() -> None:
    interners = new_interners()
    name = interners["name"].code("Memcpy")
    ends = [
        (1, 2, 0, 0), (2, 2, 0, 3), (2, 2, None, 3), (2, 2, 3, None), (8, 2, 0, 0), (1, 9, 0, 0), (7, 1, 0, 0),
        (1, 2, 0, 0),
    ]  # fmt: skip
    given = dict(zip(COPY_ENDS, map(list, zip(*ends, strict=True)), strict=True))
    codes = np.array([name] * 7 + [-1], np.int32)
    found = copy_names(batch(**given), codes, USUAL | {7: "Unknown", 8: ""}, interners)
    assert [None if code < 0 else interners["name"].texts[code] for code in found.tolist()] == [
        "Memcpy (Pinned -> Device)", "Memcpy (Device 0 -> Device 3)", "Memcpy (Device -> Device)",
        "Memcpy (Device -> Device)", "Memcpy", "Memcpy", "Memcpy", None,
    ]  # fmt: skip
