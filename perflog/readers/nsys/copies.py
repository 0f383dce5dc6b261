"""Copies in an export of Nsight Systems: their names state the memory at both ends, as in torch.profiler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from perflog.arrays import Codes
from perflog.readers.event_columns import MISSING, distinct_tuples
from perflog.readers.nsys.tables import COPY_ENDS
from perflog.readers.sqlite import Database, columns_of, integers
from perflog.readers.string_interning import Interners

if TYPE_CHECKING:
    import pyarrow as pa

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
