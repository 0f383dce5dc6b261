"""Which record of a CUDA event a synchronisation waits for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.nsys_files import Row, write_tables

from perflog.parsing.input.source import Source
from perflog.readers.databases.sqlite import Database
from perflog.readers.events.event_columns import MISSING
from perflog.readers.nsys.tables import EVENT_NUMBERS
from perflog.readers.nsys.waits import EventRecords

EVENT, NUMBER = EVENT_NUMBERS


def record(event: int, stream: int, correlation: int, number: Any = 0, owner: int = 1, context: int = 1) -> Row:
    return {
        "globalPid": owner, "contextId": context, "streamId": stream, "correlationId": correlation,
        EVENT: event, NUMBER: number,
    }  # fmt: skip


def awaited(path: Path, records: list[Row], *waits: tuple[int | None, int, int], **others: Any) -> list[Any]:
    """Stream and correlation of the record of each wait, which is given by event, number and own correlation."""
    tables = {"CUPTI_ACTIVITY_KIND_CUDA_EVENT": records} if records else {"NVTX_EVENTS": [{"start": 1}]}
    file = write_tables(path / "export.sqlite", tables)
    db = Database(str(file), Source("export.sqlite", str(file)))
    try:
        events, numbers, calls = (list(column) for column in zip(*waits, strict=True))
        batch = pa.record_batch({EVENT: pa.array(events, pa.int64()), NUMBER: pa.array(numbers, pa.int64())})
        ones = np.ones(len(waits), np.int64)
        rows = {"owner": ones, "context": ones, "correlation": np.array(calls)} | others
        found = EventRecords(db).awaited(batch, rows)
    finally:
        db.close()
    pairs = zip(found["waits_for_stream"].tolist(), found["waits_for_record"].tolist(), strict=True)
    return [None if MISSING in pair else pair for pair in pairs]


def test_the_last_record_of_the_event_before_the_call(tmp_path: Path) -> None:
    records = [record(5, 7, 30), record(5, 8, 10), record(5, 9, 20), record(6, 1, 5)]
    waits = [(5, 0, 10), (5, 0, 11), (5, 0, 20), (5, 0, 21), (5, 0, 99), (6, 0, 9), (7, 0, 9), (4, 0, 9)]
    assert awaited(tmp_path, records, *waits) == [None, (8, 10), (8, 10), (9, 20), (7, 30), (1, 5), None, None]


def test_a_number_identifies_the_record(tmp_path: Path) -> None:
    records = [record(5, 7, 10, 1), record(5, 8, 20, 2), record(6, 9, 30, 2)]
    assert awaited(tmp_path, records, (5, 1, 99), (5, 2, 99), (5, 3, 99), (5, 0, 99), (5, -1, 15)) == [
        (7, 10), (9, 30), (8, 20), (8, 20), (7, 10)
    ]  # fmt: skip


@pytest.mark.parametrize("event", [0xFFFFFFFF, -1, None])
def test_a_synchronisation_without_an_event_waits_for_none(tmp_path: Path, event: int | None) -> None:
    records = [record(0xFFFFFFFF if event is None else event, 7, 10, 1)]
    assert awaited(tmp_path, records, (event, 1, 99)) == [None]


def test_events_of_other_processes_and_contexts_are_others(tmp_path: Path) -> None:
    records = [record(5, 7, 10, owner=2), record(5, 8, 20, context=2), record(5, 9, 5)]
    assert awaited(tmp_path, records, (5, 0, 99)) == [(9, 5)]
    numbered = [record(5, 7, 10, 4, owner=2), record(5, 8, 20, 4, context=2)]
    (tmp_path / "other").mkdir()
    assert awaited(tmp_path / "other", numbered, (5, 4, 99)) == [(8, 20)]  # a number is of its process


def test_an_export_without_records_or_their_streams(tmp_path: Path) -> None:
    assert awaited(tmp_path, [], (5, 0, 99)) == [None]
    (tmp_path / "other").mkdir()
    short = [{name: value for name, value in record(5, 7, 10).items() if name != "streamId"}]
    assert awaited(tmp_path / "other", short, (5, 0, 99)) == [None]


def test_an_odd_record_is_left_out(tmp_path: Path) -> None:
    assert awaited(tmp_path, [record(5, 7, 10), record(5, 8, 20) | {"streamId": "x"}], (5, 0, 99)) == [(7, 10)]
