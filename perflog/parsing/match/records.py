"""Records of a chunk of a log, where they stand, and which line each kind accounts for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from perflog.formats.model import Format, Line
from perflog.parsing.input.chunks import Chunk
from perflog.parsing.match.numeric import Ints
from perflog.tables.arrow import index_array, numbers_of
from perflog.tables.row_order import PART_BITS, PART_MASK

BLANK = -1
"""FormatLine of a line of blanks."""

_SHAPE = 160  # bytes of an unread line that make its shape
TEXT = 2000
"""Bytes of a line that are kept as its text."""

Column = Any  # numpy int64 or float64 array, or an Arrow string array
FormatLine = tuple[Format, Line]


def lines_of(formats: Iterable[Format]) -> list[FormatLine]:
    """The lines that the formats declare, as a scanner takes them."""
    return [(form, line) for form in formats for line in form.lines]


@dataclass
class Records:
    """Records of one template in log order: their places, their columns, and the rank labels in front (-1 if none)."""

    places: Ints
    columns: dict[str, Column] = field(default_factory=dict)
    labels: Ints | None = None

    def __len__(self) -> int:
        return len(self.places)

    def copy(self) -> Records:
        """The same in memory of its own: a batch's arrays are gone when the next batch is read."""
        columns = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in self.columns.items()}
        return Records(self.places.copy(), columns, None if self.labels is None else self.labels.copy())

    def take(self, rows: Any) -> Records:
        """Rows by index, mask or slice."""
        if isinstance(rows, slice):
            columns = {k: v[rows] for k, v in self.columns.items()}
        else:
            columns = {k: v[rows] if isinstance(v, np.ndarray) else _pick(v, rows) for k, v in self.columns.items()}
        return Records(self.places[rows], columns, None if self.labels is None else self.labels[rows])


def _pick(column: pa.Array, rows: npt.NDArray[Any]) -> pa.Array:
    return column.take(index_array(rows))


def join(parts: Sequence[Records]) -> Records:
    """Several stretches of records of one template as one, in log order."""
    if len(parts) == 1:
        return parts[0]
    at = np.concatenate([p.places for p in parts])
    columns: dict[str, Column] = {}
    for name in parts[0].columns:
        pieces = [p.columns[name] for p in parts]
        array = isinstance(pieces[0], np.ndarray)
        columns[name] = np.concatenate(pieces) if array else pa.concat_arrays(pieces)
    label = None
    if any(p.labels is not None for p in parts):
        label = np.concatenate([np.full(len(p), -1, np.int64) if p.labels is None else p.labels for p in parts])
    out = Records(at, columns, label)
    if len(at) > 1 and not bool((at[1:] > at[:-1]).all()):
        out = out.take(np.argsort(at, kind="stable"))
    return out


@dataclass
class Batch:
    """What a chunk holds. `records` by kind; `owner` the places of the lines each kind accounts for."""

    chunk: Chunk
    records: dict[int, Records]
    owner: dict[int, Ints]
    unread: Ints  # places of unread lines
    starts: Ints
    ends: Ints
    places: Ints  # place of each segment; may be left out where no line has parts

    def rows(self, places: Ints) -> Ints:
        """Indices of the segments at several places."""
        if self.chunk.returns:
            return np.searchsorted(self.places, places, "right") - 1
        return (places >> PART_BITS) - self.chunk.first_line

    def places_of(self, rows: Ints) -> Ints:
        """The places of segments; the inverse of `rows`."""
        return self.places[rows] if self.chunk.returns else (rows + self.chunk.first_line) << PART_BITS

    def text(self, place: int, limit: int = TEXT) -> str:
        """The text of the segment at a place."""
        return self.texts(np.array([place], np.int64), limit)[0]

    def texts(self, places: Ints, limit: int = TEXT) -> list[str]:
        """The texts of the segments at several places, at most `limit` bytes of each."""
        rows = self.rows(places)
        starts, ends = self.starts[rows], self.ends[rows]
        pieces = zip(starts.tolist(), np.minimum(ends, starts + limit).tolist(), strict=True)
        view = memoryview(self.chunk.data)
        return [str(view[start:end], "utf-8", "backslashreplace") for start, end in pieces]


def segment_places(chunk: Chunk, ends: Ints) -> Ints:
    """The place of each segment: its physical line, and its part where lone CRs divide a line."""
    if not chunk.returns:
        return np.arange(chunk.first_line, chunk.first_line + len(ends), dtype=np.int64) << PART_BITS
    soft = np.zeros(len(ends), np.bool_)
    soft[np.searchsorted(ends, chunk.returns)] = True
    line = np.zeros(len(ends), np.int64)
    line[1:] = np.cumsum(~soft[:-1])
    head = np.searchsorted(line, np.arange(line[-1] + 1))
    part = np.arange(len(ends)) - head[line]
    places: Ints = ((line + chunk.first_line) << PART_BITS) + np.minimum(part, PART_MASK)
    return places


def owners(
    records: Mapping[int, Records], blank: Ints, unread: Ints, read: Mapping[int, bool], returns: bool
) -> tuple[dict[int, Ints], Ints]:
    """Which kind accounts for each physical line, and the lines that stay unread.

    Of several records on a line the first that is read, else what is unread, else context, else blank.
    """
    owner = {kind: r.places for kind, r in records.items()} | {BLANK: np.sort(blank)}
    if not returns and not any(len(at) and bool((at & PART_MASK).any()) for at in owner.values()):
        return owner, unread
    claims = [(0 if read.get(kind) else 3 if kind == BLANK else 2, kind, at) for kind, at in owner.items()]
    claims.append((1, BLANK - 1, unread))
    every = np.concatenate([at >> PART_BITS for _, _, at in claims])
    lines, counts = np.unique(every, return_counts=True)
    several = lines[counts > 1]
    best: dict[int, tuple[int, int, int]] = {}
    for rank, kind, at in claims:
        for place in at[np.isin(at >> PART_BITS, several)].tolist():
            line = place >> PART_BITS
            best[line] = min(best.get(line, (9, 0, 0)), (rank, place, kind))
    winners: dict[int, list[int]] = {}
    for _, place, kind in best.values():
        winners.setdefault(kind, []).append(place)

    def keep(kind: int, at: Ints) -> Ints:
        won = np.array(winners.get(kind, []), np.int64)
        return at[~np.isin(at >> PART_BITS, several) | np.isin(at, won)]

    return {kind: keep(kind, at) for kind, at in owner.items()}, keep(BLANK - 1, unread)


def unread_shapes(batch: Batch) -> tuple[list[str], Ints]:
    """Shapes of the unread lines, their numbers masked, and which of them each line has."""
    rows = batch.rows(batch.unread)
    begin = batch.starts[rows].astype(np.int64)
    end = np.minimum(batch.ends[rows], begin + _SHAPE)
    texts = strings(batch.chunk.data, begin, end)
    masked = pc.replace_substring_regex(texts, pattern="[0-9]+", replacement="#")
    masked = pc.replace_substring_regex(masked, pattern="[ \t]+", replacement=" ").dictionary_encode()
    names = [x.decode("utf-8", "backslashreplace").strip() for x in masked.dictionary.to_pylist()]
    return names, numbers_of(masked.indices).astype(np.int64)


def strings(data: bytearray, begin: Ints, end: Ints) -> pa.Array:
    """The byte strings data[begin:end] (ascending, not overlapping) as an Arrow array."""
    offsets = np.empty(2 * len(begin), np.int32)
    offsets[0::2], offsets[1::2] = begin, end
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    every = pa.Array.from_buffers(pa.binary(), max(len(offsets) - 1, 0), buffers)
    return every.take(index_array(np.arange(0, len(every), 2)))
