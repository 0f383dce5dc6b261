"""Spans of time at a level of detail: short neighbours become one span, with the number of its events."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from perflog.arrays import Ints


class Spans(Struct, frozen=True, eq=False):
    """Spans of time in order of their begin, in ns. Arrays have one entry for each span.

    `kinds` and `names`: codes. `events`: number of events that a span holds; `times`: time of the events of its kind.
    """

    starts: Ints
    ends: Ints
    kinds: Ints
    names: Ints
    events: Ints
    times: Ints

    def __len__(self) -> int:
        return len(self.starts)

    def inside(self, start: int, end: int) -> Spans:
        """Return the spans in a window, cut at its ends, with their times reduced accordingly."""
        index = np.flatnonzero((self.starts < end) & (self.ends > start))
        starts, ends = np.maximum(self.starts[index], start), np.minimum(self.ends[index], end)
        cut = np.minimum(self.times[index], ends - starts)
        return Spans(starts, ends, self.kinds[index], self.names[index], self.events[index], cut)


def spans_of(starts: Ints, ends: Ints, kinds: Ints, names: Ints, events: Ints | None = None) -> Spans:
    """Return events as spans, in order of their begin, without events of length 0."""
    index = np.flatnonzero(ends > starts)
    index = index[np.argsort(starts[index], kind="stable")]
    number = np.ones(len(index), np.int64) if events is None else events[index]
    return Spans(starts[index], ends[index], kinds[index], names[index], number, ends[index] - starts[index])


def merged(spans: Spans, grain: int) -> Spans:
    """Merge spans shorter than `grain` ns that follow each other and begin in the same `grain` ns, counted from 0.

    If the first begins before 0, they are counted from there.

    A merged span lasts from the begin of the first to the end of the last. It has the kind that takes most of its time,
    and the name of the longest of this kind.
    """
    first = np.flatnonzero(_first(spans, grain))
    if len(first) == len(spans):
        return spans
    begins = np.zeros(len(spans), np.int64)
    begins[first] = 1
    kinds, lengths = int(spans.kinds.max()) + 1, spans.ends - spans.starts
    groups, group_by_span = np.unique((np.cumsum(begins) - 1) * kinds + spans.kinds, return_inverse=True)
    times = np.zeros(len(groups), np.int64)
    np.add.at(times, group_by_span, lengths)
    most = np.lexsort((times, groups // kinds))[np.append(np.flatnonzero(np.diff(groups // kinds)), len(groups) - 1)]
    longest = np.lexsort((lengths, group_by_span))[(np.cumsum(np.bincount(group_by_span)) - 1)[most]]
    return Spans(
        spans.starts[first], np.maximum.reduceat(spans.ends, first), spans.kinds[longest], spans.names[longest],
        np.add.reduceat(spans.events, first), times[most],
    )  # fmt: skip


def _first(spans: Spans, grain: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Flag the spans that begin a merged span."""
    flags = np.ones(len(spans), np.bool_)
    if grain > 0 and len(spans):
        begin = min(int(spans.starts[0]), 0)  # spans on both sides of 0 may be in one cell, too
        short, cells = spans.ends - spans.starts < grain, (spans.starts - begin) // grain
        flags[1:] = ~(short[1:] & short[:-1] & (cells[1:] == cells[:-1]))
    return flags


def grain_for(tracks: Sequence[Spans], most: int) -> int:
    """Return the smallest of 0 and the powers of two, in ns, with which all tracks together have at most `most` spans.

    Spans do not become fewer than one for each track.
    """
    grain, most = 0, max(most, len(tracks))
    while sum(int(_first(spans, grain).sum()) for spans in tracks if len(spans)) > most:
        grain = 2 * grain or 256
    return grain
