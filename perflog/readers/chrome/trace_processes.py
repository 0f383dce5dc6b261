"""Processes of a Chrome trace that holds several ranks: the rank, labels and correlations of their events."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from perflog.arrays import Codes, Ints
from perflog.readers.chrome.contents import TraceContents
from perflog.readers.events.event_columns import MISSING, EventColumns
from perflog.readers.events.event_table import BY_PROCESS, EventOrigin
from perflog.readers.events.string_interning import Interners
from perflog.readers.processes import merged_labels, process_ranks

_CORRELATION_BITS = 44  # profilers count from 1; the bits above number the labels or ranks


class TraceProcesses:
    """Ranks and labels of the processes of a trace, by their codes in the interner.

    A merged trace keeps the metadata of one of its ranks, so the rank that it states is not the rank of all processes.
    """

    def __init__(self, trace: TraceContents, origin: EventOrigin, interners: Interners) -> None:
        interner = interners["process"]
        ranges = {code for piece in trace.ranges for code in np.unique(piece["process"]).tolist() if code >= 0}
        processes = {interner.texts[code] for code in ranges} | set(trace.process_names) | set(trace.process_labels)
        merged, names = bool(merged_labels(processes)), trace.process_names
        if not process_ranks(processes, names):
            names = trace.process_labels
        has_ranks = bool(process_ranks(processes, names))
        # Devices have no ranges: the processes of all events of the trace are among the strings of the interner.
        labels = merged_labels(interner.texts) if merged else {}
        ranks = process_ranks(interner.texts, names) if has_ranks else {}
        self._origin = replace(origin, rank=None, rank_by=None) if merged or ranks else origin
        self._ranks: Ints | None = None
        self._labels: Ints | None = None
        self._label_codes: Codes | None = None
        numbers = {label: number for number, label in enumerate(dict.fromkeys(labels.values()), 1)}
        if merged or has_ranks:  # the last entry is for code -1
            self._ranks = np.array([*(ranks.get(text, MISSING) for text in interner.texts), MISSING], np.int64)
        if merged:
            self._labels = np.array([*(numbers.get(labels.get(text, ""), 0) for text in interner.texts), 0], np.int64)
            codes = {text: interners["device_name"].code(label) for text, label in labels.items()}
            self._label_codes = np.array([*(codes.get(text, -1) for text in interner.texts), -1], np.int32)
        elif self._ranks is not None:
            self._labels = np.where(self._ranks == MISSING, 0, self._ranks + 1)

    def columns(self, rows: EventColumns) -> EventColumns:
        """Return columns `rank` and `device_name` of a merged trace: each rank numbers its devices from 0."""
        columns: EventColumns = {}
        if self._ranks is not None:
            columns["rank"] = self._ranks[rows["process"]]
        if self._label_codes is not None and "device" in rows:
            codes = self._label_codes[rows["process"]]
            columns["device_name"] = np.where(rows["device"] == MISSING, -1, codes).astype(np.int32)
        return columns

    def own_correlation(self, rows: EventColumns) -> Ints:
        """Return correlation numbers that differ between the labels, or the ranks, of a merged trace."""
        numbers: Ints = rows["correlation"]
        if self._labels is None:
            return numbers
        known = (numbers >= 0) & (numbers < 1 << _CORRELATION_BITS)
        return np.where(known, numbers + (self._labels[rows["process"]] << _CORRELATION_BITS), numbers)

    def origin(self, process: int) -> EventOrigin:
        """Return the origin of the events of a process."""
        if self._ranks is None:
            return self._origin
        rank = int(self._ranks[process])
        return self._origin if rank == MISSING else replace(self._origin, rank=rank, rank_by=BY_PROCESS)
