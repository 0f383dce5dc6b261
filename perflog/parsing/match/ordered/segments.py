"""The segments of a batch one by one, for passes that read unread lines in log order, after the scan."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from msgspec.structs import replace

from perflog.arrays import Ints, Mask
from perflog.parsing.match.rank_labels import split_rank_label
from perflog.parsing.match.records import BLANK, Batch, FormatLine, Records, join, owners

Opener = TypeVar("Opener")

MAX_LENGTH = 1 << 16
"""Bytes of a line that these passes read."""

LINES_ABOVE = 64
"""Lines searched for the rule above a line, where several ranks write."""


@dataclass
class Segments:
    """The segments of a batch, by row. `unread` masks those still unread, `records` are those read here."""

    batch: Batch
    unread: Mask = field(init=False)
    records: dict[int, list[Records]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.unread = np.zeros(len(self.batch.starts), np.bool_)
        self.unread[self.batch.rows(self.batch.unread)] = True
        self.unread &= self.batch.ends - self.batch.starts < MAX_LENGTH

    def lines(self, rows: range, label: int) -> Iterator[tuple[int, str]]:
        """Yield row and string of the segments with a rank label, without it; for label -1 all segments, whole."""
        view, part = memoryview(self.batch.chunk.data), slice(rows.start, rows.stop)
        starts, ends = self.batch.starts[part].tolist(), self.batch.ends[part].tolist()
        for row, start, end in zip(rows, starts, ends, strict=True):
            text = bytes(view[start:end])
            label_of_line, text = split_rank_label(text) if label >= 0 else (-1, text)
            if label_of_line == label:
                yield row, text.decode("utf-8", "backslashreplace")

    def above(self, row: int, label: int) -> tuple[int, str] | None:
        """Return the segment directly above one, where a rule may be, and its string; None if it is not unread.

        Nothing of this batch is above row -1, which is in an earlier batch.
        """
        first = max(row - (LINES_ABOVE if label >= 0 else 1), 0)
        above = list(self.lines(range(first, max(row, 0)), label))[-1:]
        return above[0] if above and self.unread[above[0][0]] else None

    def add(self, kind: int, rows: Ints, columns: Mapping[str, object], label: int) -> None:
        """Add records of a kind at segments that were unread."""
        self.unread[rows] = False
        labels = None if label < 0 else np.full(len(rows), label, np.int64)
        self.records.setdefault(kind, []).append(Records(self.batch.positions_of(rows), dict(columns), labels))


def rows_and_labels(batch: Batch, records: Records) -> list[tuple[int, int]]:
    """Return row and rank label of each record, -1 for none."""
    return list(zip(batch.rows(records.positions).tolist(), records.known_labels.tolist(), strict=True))


def stretches(
    still_open: Mapping[int, Opener], openers: Sequence[tuple[int, int, Opener]], count: int, logs: Sequence[int] = ()
) -> Iterator[tuple[int, list[tuple[int, Opener, int]]]]:
    """Yield the stretches of a batch under what opens them, label by label: a header, the first line of a block.

    Args:
        still_open: What is open where the batch begins, by rank label.
        openers: Row and rank label of each line that opens something, and what it opens, in log order.
        count: The number of segments of the batch.
        logs: The row at which each log but the first begins, where several are read together.

    Yields:
        A label, and of each of its stretches the row of the opener (-1: an earlier batch), the opener, and the row at
        which the stretch ends at the latest.
    """
    every = [(-1, label, opener) for label, opener in still_open.items()] + [*openers]
    for label in dict.fromkeys(label for _, label, _ in every):
        openers_here = [(row, opener) for row, label_of_opener, opener in every if label_of_opener == label]
        stops = [row for row, _ in openers_here[1:]] + [count]
        if logs:
            ends = [*logs, count]
            stops = [
                min(stop, ends[bisect_right(logs, row)]) for (row, _), stop in zip(openers_here, stops, strict=True)
            ]
        yield label, [(row, opener, stop) for (row, opener), stop in zip(openers_here, stops, strict=True)]


def with_records(batch: Batch, new: Mapping[int, list[Records]], lines: Sequence[FormatLine]) -> Batch:
    """Return the batch with more records, on lines that were unread."""
    records = dict(batch.records) | {kind: join(parts) for kind, parts in new.items()}
    positions = [records[kind].positions for kind in new]
    unread = batch.unread[~np.isin(batch.unread, np.concatenate(positions))] if positions else batch.unread
    is_read = {kind: lines[kind][1].read for kind in records}
    blank = batch.owner.get(BLANK, np.empty(0, np.int64))
    owner, unread = owners(records, blank, unread, is_read, batch.has_parts)
    return replace(batch, records=records, owner=owner, unread=unread)


def without_records(batch: Batch, removed: Mapping[int, Mask], lines: Sequence[FormatLine]) -> Batch:
    """Return the batch without the records that `removed` marks, by kind; their segments become unread."""
    kept = {kind: batch.records[kind].take(~mask) for kind, mask in removed.items()}
    records = {kind: part for kind, part in (dict(batch.records) | kept).items() if len(part)}
    freed = [batch.records[kind].positions[mask] for kind, mask in removed.items()]
    segments = np.sort(np.concatenate([batch.unread_segments, *freed]))
    blank = batch.owner.get(BLANK, np.empty(0, np.int64))
    is_read = {kind: lines[kind][1].read for kind in records}
    owner, unread = owners(records, blank, segments, is_read, batch.has_parts)
    parts = segments[~np.isin(segments, unread)]  # other records read the rest of their lines
    return replace(batch, records=records, owner=owner, unread=unread, unread_parts=parts)
