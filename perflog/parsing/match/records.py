"""The records of a chunk, their positions in the log, and which kind accounts for each line.

A *segment* is a physical line, or what is between two lone carriage returns in it. A *position* is one
integer for a segment: the number of its physical line and its part of that line (`tables.row_order`). Records joined on
one line have a position each. A *kind* is the index of a line shape among the lines of a scanner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import replace

from perflog.arrays import Ints
from perflog.formats.model import Format, Line
from perflog.grouping import grouped
from perflog.parsing.input.chunks import Chunk
from perflog.tables.arrow import bytes_array, index_array, numbers_of
from perflog.tables.row_order import PART_BITS, PART_MASK

BLANK = -1
"""Kind of a line of whitespace."""

UNREAD = -2
"""Kind of an unread line, in the account of lines."""

FAILURE = -3
"""Kind of a line that belongs to the message of a failure."""

MAX_TEXT = 2000
"""Bytes of a line that are kept as its content."""

_FEW = 16  # strings, up to which a call of Arrow takes longer than copying each
_SHAPE_BYTES = 160  # of an unread line, which make its shape

Column = Any
"""Values of a field: a numpy int64 or float64 array, or an Arrow string array."""

FormatLine = tuple[Format, Line]
"""A line shape with the format that declares it, or with a family that shows it."""


def lines_of(formats: Iterable[Format]) -> list[FormatLine]:
    """Return the lines that the formats declare, as a scanner takes them."""
    return [(form, line) for form in formats for line in form.lines]


class Stamps(Struct):
    """Times at which lines were printed, from time stamps before them: a column each.

    Attributes:
        time: Nanoseconds since 1970, or since the start of the first year or day of the log; -1 if unknown.
        clock: What they count from: index into `CLOCKS`.
        resolution: Nanoseconds of the last printed digit.
    """

    time: Ints
    clock: Ints
    resolution: Ints

    @classmethod
    def unknown(cls, count: int) -> Stamps:
        """Return the stamps of `count` lines that have none."""
        return cls(np.full(count, -1), np.full(count, -1), np.ones(count, np.int64))

    def take(self, rows: Any) -> Stamps:
        """Return some of the stamps, by index, mask or slice."""
        return Stamps(self.time[rows], self.clock[rows], self.resolution[rows])

    def copy(self) -> Stamps:
        """Return a copy in memory of its own."""
        return Stamps(self.time.copy(), self.clock.copy(), self.resolution.copy())

    @classmethod
    def joined(cls, parts: Sequence[Stamps]) -> Stamps:
        """Return the stamps of several parts as one."""
        return cls(*(np.concatenate([getattr(p, name) for p in parts]) for name in ("time", "clock", "resolution")))


class Records(Struct):
    """Records of one kind in log order: positions, values by field, rank labels and stamps before the lines.

    A label of -1 means no label; `labels` and `stamps` are None if no record has one.
    """

    positions: Ints
    columns: dict[str, Column] = field(default_factory=dict)
    labels: Ints | None = None
    stamps: Stamps | None = None

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def known_labels(self) -> Ints:
        """The label of each record, -1 for those without one."""
        return np.full(len(self), -1, np.int64) if self.labels is None else self.labels

    def copy(self) -> Records:
        """Return a copy in memory of its own: the arrays of a batch are gone when the next batch is read."""
        columns = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in self.columns.items()}
        labels = None if self.labels is None else self.labels.copy()
        return Records(self.positions.copy(), columns, labels, None if self.stamps is None else self.stamps.copy())

    def take(self, rows: Any) -> Records:
        """Return some of the records, by index, mask or slice."""
        if isinstance(rows, slice):
            columns = {k: v[rows] for k, v in self.columns.items()}
        else:
            columns = {
                name: column[rows] if isinstance(column, np.ndarray) else column.take(index_array(rows))
                for name, column in self.columns.items()
            }
        labels = None if self.labels is None else self.labels[rows]
        return Records(self.positions[rows], columns, labels, None if self.stamps is None else self.stamps.take(rows))


def join(parts: Sequence[Records]) -> Records:
    """Join several parts of the records of one kind, in log order."""
    if len(parts) == 1:
        return parts[0]
    positions = np.concatenate([part.positions for part in parts])
    columns: dict[str, Column] = {}
    for name in parts[0].columns:
        arrays = [part.columns[name] for part in parts]
        columns[name] = np.concatenate(arrays) if isinstance(arrays[0], np.ndarray) else pa.concat_arrays(arrays)
    labels = None
    if any(part.labels is not None for part in parts):
        labels = np.concatenate([part.known_labels for part in parts])
    stamps = None
    if any(part.stamps is not None for part in parts):
        stamps = Stamps.joined([Stamps.unknown(len(p)) if p.stamps is None else p.stamps for p in parts])
    joined = Records(positions, columns, labels, stamps)
    in_order = bool((positions[1:] > positions[:-1]).all())
    return joined if in_order else joined.take(np.argsort(positions, kind="stable"))


class Cuts(Struct):
    """Where a scan has cut lines inside which records begin.

    Attributes:
        begins: byte offset at which each examined segment begins.
        ends: byte offset at which it ends.
        found: those that were cut, by index, each with the offsets of the records inside.
    """

    begins: Ints
    ends: Ints
    found: list[tuple[int, list[int]]]


class Batch(Struct):
    """A scanned chunk.

    Attributes:
        chunk: the chunk.
        records: its records by kind.
        owner: by kind, the positions of the physical lines that the kind accounts for.
        unread: positions of the unread lines.
        unread_parts: positions of unread segments on lines that another part accounts for.
        starts: byte offset at which each segment begins.
        ends: byte offset at which each segment ends.
        positions: the position of each segment; may be left empty where no line has parts.
        open_positions: positions of the segments that may lack their end, since another record begins there on the same
            line, or the log ends there; None if there are none.
        cuts: where lines were cut; None if none is, or nobody asks.
        failures: positions of the segments that belong to the messages of failures; None before the search.
    """

    chunk: Chunk
    records: dict[int, Records]
    owner: dict[int, Ints]
    unread: Ints
    unread_parts: Ints
    starts: Ints
    ends: Ints
    positions: Ints
    open_positions: Ints | None = None
    cuts: Cuts | None = None
    failures: Ints | None = None

    @property
    def has_parts(self) -> bool:
        """Whether lines consist of several segments."""
        return self.open_positions is not None or bool(self.chunk.returns)

    @property
    def is_torn(self) -> bool:
        """Whether records begin inside lines."""
        return self.open_positions is not None and len(self.open_positions) > len(self.chunk.unfinished)

    @property
    def unread_segments(self) -> Ints:
        """Places of all unread segments: of unread lines, and of lines that another part accounts for."""
        return np.sort(np.append(self.unread, self.unread_parts))

    def with_kinds(self, kind_of: Mapping[int, int]) -> Batch:
        """Return the batch with another number for each of its kinds."""
        records = {kind_of[kind]: records for kind, records in self.records.items()}
        return replace(
            self, records=records, owner={kind_of[kind]: positions for kind, positions in self.owner.items()}
        )

    def with_failures(self, positions: Ints) -> Batch:
        """Return the batch with the unread segments at some positions as segments of failures."""
        lines, parts = (np.isin(unread, positions, assume_unique=True) for unread in (self.unread, self.unread_parts))
        if not (lines.any() or parts.any()):
            return self
        owner = {**self.owner, FAILURE: self.unread[lines]}
        failures = np.sort(np.append(self.unread[lines], self.unread_parts[parts]))
        return replace(
            self, owner=owner, failures=failures, unread=self.unread[~lines], unread_parts=self.unread_parts[~parts]
        )

    def rows(self, positions: Ints) -> Ints:
        """Return the indices of the segments at some positions."""
        if self.has_parts:
            return np.searchsorted(self.positions, positions, "right") - 1
        return (positions >> PART_BITS) - self.chunk.first_line

    def rows_from(self, positions: Ints) -> Ints:
        """Return the indices of the first segments at or after some positions; there need be none at the positions."""
        if self.has_parts:
            return np.searchsorted(self.positions, positions)
        lines: Ints = (positions + PART_MASK) >> PART_BITS
        return (lines - self.chunk.first_line).clip(0, len(self.starts))

    def positions_of(self, rows: Ints) -> Ints:
        """Return the positions of segments; the inverse of `rows`."""
        return self.positions[rows] if self.has_parts else (rows + self.chunk.first_line) << PART_BITS

    def text(self, position: int, limit: int = MAX_TEXT) -> str:
        """Return the segment at a position as a string."""
        return self.texts(np.array([position], np.int64), limit)[0]

    def bytes_at(self, positions: Ints, limit: int | None = None) -> pa.Array:
        """Return the segments at some ascending positions as an Arrow array, at most `limit` bytes of each."""
        rows = self.rows(positions)
        starts, ends = self.starts[rows].astype(np.int64), self.ends[rows].astype(np.int64)
        return strings(self.chunk.data, starts, ends if limit is None else np.minimum(ends, starts + limit))

    def texts(self, positions: Ints, limit: int = MAX_TEXT) -> list[str]:
        """Return the segments at some positions as strings, at most `limit` bytes of each."""
        rows = self.rows(positions)
        starts, ends = self.starts[rows], self.ends[rows]
        spans = zip(starts.tolist(), np.minimum(ends, starts + limit).tolist(), strict=True)
        view = memoryview(self.chunk.data)
        return [str(view[start:end], "utf-8", "backslashreplace") for start, end in spans]


def segment_positions(chunk: Chunk, ends: Ints) -> Ints:
    """Return the position of each segment of a chunk."""
    if not chunk.returns:
        return np.arange(chunk.first_line, chunk.first_line + len(ends), dtype=np.int64) << PART_BITS
    ends_in_return = np.zeros(len(ends), np.bool_)
    ends_in_return[np.searchsorted(ends, chunk.returns)] = True
    line = np.zeros(len(ends), np.int64)
    line[1:] = np.cumsum(~ends_in_return[:-1])
    first_segment = np.searchsorted(line, np.arange(line[-1] + 1))
    part = np.arange(len(ends)) - first_segment[line]
    positions: Ints = ((line + chunk.first_line) << PART_BITS) + np.minimum(part, PART_MASK)
    return positions


def part_positions(positions: Ints, rows: Ints) -> Ints:
    """Return the positions of the parts into which segments were cut. `rows`: of each part, the row of its segment.

    The parts of a physical line are counted through all its segments.
    """
    lines = positions[rows] >> PART_BITS
    first = np.searchsorted(lines, lines)
    parts: Ints = (lines << PART_BITS) + np.minimum(np.arange(len(rows)) - first, PART_MASK)
    return parts


def owners(
    records: Mapping[int, Records], blank: Ints, unread: Ints, is_read: Mapping[int, bool], has_returns: bool
) -> tuple[dict[int, Ints], Ints]:
    """Decide which kind accounts for each physical line.

    If a line has several records: the first that is read, else an unread part, else a context, else whitespace.

    Args:
        records: the records by kind.
        blank: positions of whitespace segments.
        unread: positions of unread segments.
        is_read: by kind, whether its records are read, or are context.
        has_returns: whether lone carriage returns divide lines.

    Returns:
        By kind, the positions of the lines that it accounts for; and the positions of the lines that are unread.
    """
    owner = {kind: r.positions for kind, r in records.items()} | {BLANK: np.sort(blank)}
    has_parts = has_returns or any(
        len(positions) and bool((positions & PART_MASK).any()) for positions in owner.values()
    )
    if not has_parts:
        return owner, unread
    claims = [
        (0 if is_read.get(kind) else 3 if kind == BLANK else 2, kind, positions) for kind, positions in owner.items()
    ]
    claims.append((1, UNREAD, unread))
    lines, counts = np.unique(
        np.concatenate([positions >> PART_BITS for _, _, positions in claims]), return_counts=True
    )
    shared = lines[counts > 1]
    best: dict[int, tuple[int, int, int]] = {}  # by line: precedence, position, kind
    for precedence, kind, positions in claims:
        for position in positions[np.isin(positions >> PART_BITS, shared)].tolist():
            line = position >> PART_BITS
            claim = precedence, position, kind
            best[line] = min(best.get(line, claim), claim)
    winners = grouped((kind, position) for _, position, kind in best.values())

    def won(kind: int, positions: Ints) -> Ints:
        winning = np.array(winners.get(kind, []), np.int64)
        return positions[~np.isin(positions >> PART_BITS, shared) | np.isin(positions, winning)]

    return {kind: won(kind, positions) for kind, positions in owner.items()}, won(UNREAD, unread)


def unread_shapes(batch: Batch, positions: Ints) -> tuple[list[str], Ints]:
    """Return the shapes of unread lines, with `#` for each number, and for each line the index of its shape."""
    texts = batch.bytes_at(positions, _SHAPE_BYTES)
    masked = pc.replace_substring_regex(texts, pattern="[0-9]+", replacement="#")
    masked = pc.replace_substring_regex(masked, pattern="[ \t]+", replacement=" ").dictionary_encode()
    names = [x.decode("utf-8", "backslashreplace").strip() for x in masked.dictionary.to_pylist()]
    return names, numbers_of(masked.indices).astype(np.int64)


def strings(data: bytearray, begin: Ints, end: Ints) -> pa.Array:
    """Return the byte strings data[begin:end] as an Arrow array. They ascend and do not overlap.

    Begins and ends in turn are the offsets of an array of strings and the gaps between them; `take` drops the gaps.
    """
    if len(begin) <= _FEW:
        return bytes_array([bytes(data[first:last]) for first, last in zip(begin.tolist(), end.tolist(), strict=True)])
    offsets = np.empty(2 * len(begin), np.int32)
    offsets[0::2], offsets[1::2] = begin, end
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    with_gaps = pa.Array.from_buffers(pa.binary(), max(len(offsets) - 1, 0), buffers)
    return with_gaps.take(index_array(np.arange(0, len(with_gaps), 2)))
