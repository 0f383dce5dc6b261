"""Payloads of NCCL's calls on the kernels that they launched.

NCCL puts the size of a message into the payload of the NVTX range around its call. The call that launches the kernel is
inside that range, on the same thread, unless the program groups several operations: their kernel is launched when the
group ends, after all their ranges, and has no size.
"""

from __future__ import annotations

import numpy as np

from perflog.arrays import Ints
from perflog.readers.events.event_columns import MISSING, EventColumns
from perflog.readers.events.event_context import thread_lane
from perflog.readers.events.interval_index import IntervalIndex
from perflog.readers.nsys.payloads import Fields, PayloadReader


class CollectiveLaunches:
    """Joins ranges with payloads, the calls inside them, and the kernels that these launched by correlation number."""

    def __init__(self, payloads: PayloadReader) -> None:
        self._payloads = payloads
        self._fields: list[tuple[Fields, int]] = []  # each distinct payload, with the code of its range's name
        self._ranges: list[EventColumns] = []
        self._index: IntervalIndex | None = None
        self._numbers, self._codes = np.zeros(0, np.int64), np.zeros(0, np.int64)

    def add_ranges(self, rows: EventColumns, index: Ints, fields: Fields) -> None:
        """Remember the ranges at these rows, which have this payload."""
        names = rows["name"][index]
        for name in np.unique(names).tolist():
            chosen = index[names == name]
            chosen = chosen[rows["duration"][chosen] >= 0]
            columns = {column: rows[column][chosen] for column in ("process", "thread", "start", "duration")}
            self._ranges.append(columns | {"code": np.full(len(chosen), len(self._fields), np.int64)})
            self._fields.append((fields, name))

    def add_calls(self, calls: EventColumns) -> None:
        """Remember which calls are inside which ranges. All ranges must have been added."""
        if not self._ranges:
            return
        if self._index is None:
            ranges = {name: np.concatenate([r[name] for r in self._ranges]) for name in self._ranges[0]}
            ends = ranges["start"] + ranges["duration"]
            self._index = IntervalIndex(thread_lane(ranges), ranges["start"], ends, ranges["code"])
        codes = self._index.find(thread_lane(calls), calls["start"])
        chosen = np.flatnonzero((codes >= 0) & (calls["correlation"] != MISSING))
        numbers = np.append(self._numbers, calls["correlation"][chosen])
        order = np.argsort(numbers, kind="stable")
        self._numbers, self._codes = numbers[order], np.append(self._codes, codes[chosen])[order]

    def fill(self, kernels: EventColumns) -> None:
        """Fill the columns of collectives of kernels that such calls launched."""
        if not len(self._numbers):
            return
        places = np.minimum(np.searchsorted(self._numbers, kernels["correlation"]), len(self._numbers) - 1)
        codes = np.where(self._numbers[places] == kernels["correlation"], self._codes[places], -1)
        for code in np.unique(codes[codes >= 0]).tolist():
            fields, name = self._fields[code]
            index = np.flatnonzero(codes == code)
            self._payloads.fill(kernels, index, fields, np.full(len(index), name, np.int32))
