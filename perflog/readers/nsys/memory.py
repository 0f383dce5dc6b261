"""Memory in an export of Nsight Systems: what was allocated and freed, and the totals of the pools it came from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from perflog.arrays import Codes
from perflog.readers.databases.sqlite import Database, columns_of, integers
from perflog.readers.events.event_columns import MISSING, EventColumns, distinct_tuples
from perflog.readers.events.string_interning import Interners
from perflog.readers.nsys.tables import COPY_ENDS, MEMORY_KIND, POOL_NAME, POOL_TOTALS

if TYPE_CHECKING:
    import pyarrow as pa

_FREED = 1  # ENUM_CUDA_DEV_MEM_EVENT_OPER: deallocation
_ON_HOST = (0, 1)  # ENUM_CUDA_MEM_KIND: pageable, pinned
_PLACE = ("place", "start", "process", "device", "device_name", "step")


MEMORY_COLUMNS = (MEMORY_KIND, POOL_NAME, *POOL_TOTALS.values())
"""What a query for events of memory selects besides, of the columns that the table has."""


def memory_columns(batch: pa.RecordBatch, operations: EventColumns, rows: EventColumns) -> EventColumns:
    """Return the columns in which events of memory differ from others.

    Args:
        batch: the rows of the table.
        operations: the numbers of the events' columns, by what they hold; `name` is the operation.
        rows: the events.
    """
    size, known = operations["bytes"], operations["bytes"] != MISSING
    kind = integers(columns_of(batch).get(MEMORY_KIND), batch.num_rows)
    columns: EventColumns = {
        "address": operations["address"],
        "bytes": np.where(known & (operations["name"] == _FREED), -np.abs(size), size),
    }
    if "device" in rows:
        on_host = np.isin(kind, _ON_HOST)
        columns["device"] = np.where(on_host, MISSING, rows["device"])
        columns["device_name"] = np.where(on_host, -1, rows["device_name"])
    return columns


def pool_readings(batch: pa.RecordBatch, rows: EventColumns, interners: Interners) -> list[EventColumns]:
    """Return the totals of memory pools as columns of table `counters`, each counter apart."""
    columns, count = columns_of(batch), batch.num_rows
    pools = integers(columns.get(POOL_NAME), count)
    readings = []
    for counter, name in POOL_TOTALS.items():
        value = integers(columns.get(name), count)
        index = np.flatnonzero((value != MISSING) & (pools != MISSING) & (pools != 0))
        if not len(index):
            continue
        distinct, pool_index = np.unique(pools[index], return_inverse=True)
        subjects = [interners["subject"].code(f"memory pool {pool:#x}") for pool in distinct.tolist()]
        readings.append(
            {each: rows[each][index] for each in _PLACE if each in rows}
            | {
                "name": np.full(len(index), interners["name"].code(counter), np.int64),
                "unit": np.full(len(index), interners["unit"].code("B"), np.int64),
                "subject": np.array(subjects, np.int64)[pool_index],
                "value": value[index].astype(np.float64),
            }
        )
    return readings


# --- copies ----------------------------------------------------------------------------------------------------------

_LABELS = "ENUM_CUDA_MEM_KIND"
_USUAL = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed", 5: "Device Static", 6: "Managed Static"}
_UNKNOWN = ("", "Unknown")


def memory_labels(db: Database) -> dict[int, str]:
    """Return the names of the kinds of memory by number."""
    if {"id", "label"} <= set(db.tables.get(_LABELS, ())):
        return _USUAL | {number: str(label) for number, label in db.rows(f"SELECT id, label FROM {_LABELS}") if label}
    return _USUAL


def copy_names(batch: pa.RecordBatch, names: Codes, labels: dict[int, str], interners: Interners) -> Codes:
    """Return the codes of the names of copies with the memory at both ends: `Memcpy Host-to-Device (Pinned -> Device)`.

    Ends on two devices have their numbers. A name stays as it is where an end is not known.
    """
    columns, count = columns_of(batch), batch.num_rows
    copies: list[npt.NDArray[Any]] = [names, *(integers(columns.get(name), count) for name in COPY_ENDS)]
    first, copy_index = distinct_tuples(copies)
    interner = interners["name"]
    codes = []
    distinct = zip(*(column[first].tolist() for column in copies), strict=True)
    for name, source, target, from_device, to_device in distinct:
        words = [labels.get(kind, "") for kind in (source, target)]
        if name < 0 or not set(words).isdisjoint(_UNKNOWN):
            codes.append(name)
            continue
        if from_device != to_device and MISSING not in (from_device, to_device):
            words = [f"{word} {number}" for word, number in zip(words, (from_device, to_device), strict=True)]
        codes.append(interner.code(f"{interner.texts[name]} ({words[0]} -> {words[1]})"))
    return np.array(codes, np.int32)[copy_index]
