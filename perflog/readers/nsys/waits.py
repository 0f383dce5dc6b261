"""Synchronisations in an export of Nsight Systems: which records of CUDA events they wait for.

An export has a table of records if it was profiled with `nsys profile --cuda-event-trace=true`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perflog.arrays import Ints
from perflog.readers.databases.sqlite import Database, columns_of, integers, odd_rows, query_of
from perflog.readers.events.event_columns import MISSING, EventColumns, distinct_tuples
from perflog.readers.nsys.tables import EVENT_NUMBERS

if TYPE_CHECKING:
    import pyarrow as pa

_TABLE = "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
_OWNER, _CONTEXT, _STREAM, _CORRELATION = "globalPid", "contextId", "streamId", "correlationId"
_EVENT, _SYNC = EVENT_NUMBERS
_NO_EVENT = (0xFFFFFFFF, -1, MISSING)  # CUPTI_SYNCHRONIZATION_INVALID_VALUE: it waits for no event
_BITS = 33  # of a correlation number below an event: CUPTI's have 32


class EventRecords:
    """The records of CUDA events in an export: on which stream, and in which call."""

    def __init__(self, db: Database) -> None:
        self._records = _records(db)

    def awaited(self, batch: pa.RecordBatch, waits: EventColumns) -> EventColumns:
        """Return stream and correlation number of the record that each synchronisation waits for.

        A number identifies it. Older exports only state the event: then it is the last record of that event with
        an earlier call.

        Args:
            batch: rows of the table of synchronisations.
            waits: numbers of these rows, by what they hold: owner, context, correlation.
        """
        columns, count = columns_of(batch), batch.num_rows
        event, number = (integers(columns.get(name), count) for name in EVENT_NUMBERS)
        records, place = self._records, np.full(count, -1, np.int64)
        if len(records[_EVENT]):
            by_number = _last_before((records[_OWNER], records[_SYNC]), None, (waits["owner"], number), None)
            by_event = _last_before(
                (records[_OWNER], records[_CONTEXT], records[_EVENT]), records[_CORRELATION],
                (waits["owner"], waits["context"], event), waits["correlation"],
            )  # fmt: skip
            known = (number > 0) & (by_number >= 0)
            place = np.where(np.isin(event, _NO_EVENT), -1, np.where(known, by_number, by_event))
        names = {"waits_for_stream": _STREAM, "waits_for_record": _CORRELATION}
        return {name: np.append(records[column], MISSING)[place] for name, column in names.items()}


def _records(db: Database) -> dict[str, Ints]:
    """The columns of the table of records; MISSING where it lacks one."""
    names = (_OWNER, _CONTEXT, _STREAM, _CORRELATION, *EVENT_NUMBERS)
    present = db.tables.get(_TABLE, ())
    pieces: dict[str, list[Ints]] = {name: [np.zeros(0, np.int64)] for name in names}
    if {_STREAM, _CORRELATION, _EVENT} <= set(present):
        query = query_of(_TABLE, {name: name for name in names if name in present})
        for _, batch in db.batches([(None, query)]):
            columns, even = columns_of(batch), ~odd_rows(batch)
            for name in names:
                pieces[name].append(integers(columns.get(name), batch.num_rows)[even])
    return {name: np.concatenate(columns) for name, columns in pieces.items()}


def _last_before(records: tuple[Ints, ...], numbers: Ints | None, waits: tuple[Ints, ...], before: Ints | None) -> Ints:
    """Return for each wait the index of the record of the same event with the largest number below its own, or -1.

    Without numbers it is the last record of the event.

    Args:
        records: what identifies the event of each record.
        numbers: number of each record.
        waits: what identifies the event of each wait.
        before: number of each wait.
    """
    _, code = distinct_tuples([np.concatenate(pair) for pair in zip(records, waits, strict=True)])
    record_event, wait_event = np.split(code, [len(records[0])])
    numbers = np.arange(len(record_event)) if numbers is None else numbers
    before = np.full(len(wait_event), len(record_event), np.int64) if before is None else before
    numbers, before = (np.clip(each, 0, (1 << _BITS) - 1) for each in (numbers, before))
    keys = record_event << _BITS | numbers
    order = np.argsort(keys, kind="stable")
    place = np.searchsorted(keys[order], wait_event << _BITS | before) - 1
    found = order[np.maximum(place, 0)]
    return np.where((place >= 0) & (record_event[found] == wait_event), found, -1)
