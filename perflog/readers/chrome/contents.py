"""Contents of one trace, read piece by piece: rows in spill files, ranges and calls in memory, counts of events."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from msgspec import Struct, field

from perflog.parsing.input.source import Source
from perflog.readers.chrome.arguments import DROPPED
from perflog.readers.chrome.events import DecodedPiece, EventDecoder, TrackName
from perflog.readers.chrome.kinds import CONTEXT, UNREAD, role_and_kind
from perflog.readers.chrome.metadata import Metadata
from perflog.readers.events.event_columns import MISSING, TEXT_COLUMNS, EventColumns
from perflog.readers.events.event_context import STEP_NAME, select_calls, select_ranges, step_codes
from perflog.readers.events.event_table import EventAccount
from perflog.readers.events.spill_file import SpilledColumns, spill
from perflog.readers.events.string_interning import Interners

THIS_PROCESS, SHARED_CODES = -1, -2
"""Instead of the number of a worker: the codes come from the reading process itself; they need no translation."""


class SpilledPiece(Struct):
    """A decoded piece with its rows in the worker's spill file. The ranges and calls among them stay in memory."""

    decoded: DecodedPiece  # without its rows
    rows: SpilledColumns | None
    ranges: EventColumns
    calls: EventColumns
    earliest_start: int


class PieceDecoder:
    """The work of one worker: decodes pieces and spills their rows."""

    def __init__(self) -> None:
        self.decoder = EventDecoder()
        self._steps = np.zeros(0, np.int32)  # codes of names that are training steps
        self._names = 0

    def __call__(self, text: memoryview, spill_file: object) -> SpilledPiece | None:
        """Decode `[...]`; None if that is no array of whole events."""
        decoded = self.decoder.decode_list(text)
        return None if decoded is None else self.spill(decoded, spill_file)

    def spill(self, decoded: DecodedPiece, spill_file: object) -> SpilledPiece:
        """Put the rows of a piece into a spill file."""
        names = decoded.new_texts["name"]
        new_steps = [self._names + i for i, name in enumerate(names) if STEP_NAME.match(name)]
        self._steps = np.concatenate([self._steps, np.array(new_steps, np.int32)])
        self._names += len(names)
        rows, decoded.rows = decoded.rows, {}
        spilled = spill(spill_file, rows) if len(rows["place"]) else None
        starts = rows["start"][rows["start"] != MISSING]
        earliest_start = int(starts.min()) if len(starts) else MISSING
        return SpilledPiece(decoded, spilled, select_ranges(rows, self._steps), select_calls(rows), earliest_start)


def learn_texts(interners: Interners, worker: int, decoded: DecodedPiece) -> None:
    """Give codes to the strings that are new to a worker in this piece."""
    for name, texts in decoded.new_texts.items():
        interners[name].learn(worker, texts)


def translate(interners: Interners, worker: int, columns: EventColumns) -> EventColumns:
    """Return the columns of a worker with the codes of all workers."""
    if worker == SHARED_CODES:
        return columns
    return columns | {n: interners[n].translate(worker, columns[n]) for n in TEXT_COLUMNS if n in columns}


class TraceContents:
    """The contents of one trace as read.

    `pieces`: for each the worker with its rows in a spill file, their offset, and the position from which they count.
    `begin`: earliest start in the first piece that has any. `account` counts events by shape, `count` is their sum.
    """

    def __init__(self, source: Source, interners: Interners, spill_file: object) -> None:
        self.source = source
        self.metadata: Metadata = {}
        self.pieces: list[tuple[int, SpilledColumns, int]] = []
        self.count = 0
        self.begin = MISSING
        self.account = EventAccount()
        self.ranges: list[EventColumns] = []
        self.calls: list[EventColumns] = []
        self.readings: list[EventColumns] = []
        self.values: list[EventColumns] = []
        self.process_names: dict[str, str] = {}
        self.process_labels: dict[str, str] = {}
        self.thread_names: dict[tuple[str, str], str] = {}
        self.warnings: list[str] = []
        self._interners, self._spill_file = interners, spill_file
        self._pairs = BeginEndPairs()

    def add(self, worker: int, piece: SpilledPiece) -> None:
        """Add the next piece."""
        decoded = piece.decoded
        learn_texts(self._interners, worker, decoded)
        base = self.count + 1
        self.count += decoded.count
        for entry in decoded.phases:
            role = role_and_kind(entry.phase, entry.category)[0]
            status = "unread" if role == UNREAD else "context" if role == CONTEXT else "read"
            shape = f"{entry.phase} {entry.category or ''}".strip()
            self.account.add(status, shape, entry.count, base + entry.first, entry.sample)
        for index, text in decoded.damaged:
            self.account.add("unread", "damaged event", 1, base + index, text)
        self._add_names(decoded.names)
        if decoded.readings:
            readings = translate(self._interners, worker, decoded.readings)
            self.readings.append(readings | {"place": readings["place"].astype(np.int64) + base})
        if decoded.values:
            values = translate(self._interners, worker, decoded.values)
            self.values.append(values | {"place": values["place"].astype(np.int64) + base})
        for name, figures in decoded.figures.items():
            counted = self.account.figures_of(name, base + figures.first, figures.sample, DROPPED.get(name, ""))
            counted.stored += figures.stored
            counted.dropped += figures.dropped
            counted.unread += figures.unread
        for shape, first in decoded.without_reading:
            self.account.add("read", shape, -1, base + first)
            self.account.add("unread", f"{shape} without a number", 1, base + first)
        self.begin = piece.earliest_start if self.begin == MISSING else self.begin
        if piece.rows is not None:
            self.pieces.append((worker, piece.rows, base))
        ranges = translate(self._interners, worker, piece.ranges)
        self._keep(ranges, translate(self._interners, worker, piece.calls), base)
        if decoded.pairs:
            pairs = translate(self._interners, worker, decoded.pairs)
            for rows in self._pairs.add(pairs | {"place": pairs["place"].astype(np.int64) + base}):
                self._add_joined(rows)

    def _add_names(self, names: Iterable[TrackName]) -> None:
        for kind, process, thread, name in names:
            if kind == "thread_name":
                self.thread_names[process, thread] = name
            else:
                (self.process_names if kind == "process_name" else self.process_labels)[process] = name

    def add_unread(self, shape: str, sample: str) -> None:
        """Count one event that could not be decoded."""
        self.count += 1
        self.account.add("unread", shape, 1, self.count, sample)

    def finish(self) -> None:
        """Add the begins that never ended, and count the ends without a begin as unread."""
        for rows in self._pairs.unended():
            self._add_joined(rows)
        categories = self._interners["category"].texts
        for (phase, category), (count, first) in self._pairs.ends_without_begin.items():
            shape = f"{chr(phase)} {categories[category] if category >= 0 else ''}".strip()
            self.account.add("read", shape, -count, first)
            self.account.add("unread", f"{shape} without its begin", count, first)

    def _add_joined(self, rows: EventColumns) -> None:
        """Add events joined from begin and end: their codes are shared, their positions count in the file."""
        steps = step_codes(rows["name"], self._interners["name"].texts)
        self._keep(select_ranges(rows, steps), select_calls(rows), 0)
        self.pieces.append((SHARED_CODES, spill(self._spill_file, rows), 0))

    def _keep(self, ranges: EventColumns, calls: EventColumns, base: int) -> None:
        if len(ranges["place"]):
            self.ranges.append(ranges | {"place": ranges["place"].astype(np.int64) + base})
        if len(calls["start"]):
            self.calls.append(calls)


# --- pairs of begin and end ------------------------------------------------------------------------------------------

_BEGINS, _ON_THREAD = frozenset(b"BbS"), frozenset(b"BE")
_LIMIT = 1 << 63

# An event by its begin: the columns of its piece, the row in them, and the duration.
_Matched = tuple[EventColumns, int, int]


class BeginEndPairs(Struct):
    """Joins begins and ends of a file, piece by piece."""

    ends_without_begin: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """Phase and category -> number of ends without a begin, and the position of the first."""
    _open: dict[tuple[object, ...], list[tuple[EventColumns, int]]] = field(default_factory=dict)

    def add(self, piece: EventColumns) -> list[EventColumns]:
        """Return the events that end in this piece: the rows of their begins, with durations."""
        matched: list[_Matched] = []
        names = ("phase", "process", "thread", "category", "id", "start", "place")
        for row, (phase, process, thread, category, number, time, place) in enumerate(
            zip(*(piece[name].tolist() for name in names), strict=True)
        ):
            key = (process, thread) if phase in _ON_THREAD else (process, category, number, None)
            if phase in _BEGINS:
                self._open.setdefault(key, []).append((piece, row))
            elif begins := self._open.get(key):
                begin_piece, begin_row = begins.pop()
                start = int(begin_piece["start"][begin_row])
                known = MISSING not in (time, start) and abs(time - start) < _LIMIT
                matched.append((begin_piece, begin_row, time - start if known else MISSING))
            else:
                count, first = self.ends_without_begin.get((phase, category), (0, place))
                self.ends_without_begin[phase, category] = count + 1, first
        return _rows_of(matched)

    def unended(self) -> list[EventColumns]:
        """Return the begins that never ended: their durations are missing."""
        begins = [(piece, row, MISSING) for open_begins in self._open.values() for piece, row in open_begins]
        self._open = {}
        return _rows_of(begins)


def _rows_of(matched: list[_Matched]) -> list[EventColumns]:
    by_piece: dict[int, tuple[EventColumns, list[int], list[int]]] = {}
    for piece, row, duration in matched:
        _, rows, durations = by_piece.setdefault(id(piece), (piece, [], []))
        rows.append(row)
        durations.append(duration)
    events = []
    for piece, rows, durations in by_piece.values():
        columns = {name: column[rows] for name, column in piece.items() if name not in ("phase", "id")}
        events.append(columns | {"duration": np.array(durations, np.int64)})
    return events
