"""Events written as a begin and an end: events of a thread are nested, asynchronous events have an id."""

from __future__ import annotations

import numpy as np
from msgspec import Struct, field

from perflog.readers.event_columns import MISSING, EventColumns

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
