"""Events written as a begin and an end: on a thread they nest, asynchronous ones are told apart by their id."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from perflog.readers.columns import NONE, Columns

_BEGINS, _ON_THREAD = frozenset(b"BbS"), frozenset(b"BE")
_LARGEST = 1 << 63


@dataclass
class Pairs:
    """Joins begins and ends, chunk by chunk."""

    lonely: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """Ends without a begin: phase and category -> how many, and the place of the first."""
    _open: dict[tuple[object, ...], list[tuple[Columns, int]]] = field(default_factory=dict)

    def feed(self, chunk: Columns) -> list[Columns]:
        """The events that end in this chunk: the rows of their begins, with durations. `place` counts in the file."""
        ended: list[tuple[Columns, int, int]] = []
        names = ("phase", "process", "thread", "category", "id", "start", "place")
        for i, (phase, process, thread, category, number, time, place) in enumerate(
            zip(*(chunk[n].tolist() for n in names), strict=True)
        ):
            key = (process, thread) if phase in _ON_THREAD else (process, category, number, None)
            if phase in _BEGINS:
                self._open.setdefault(key, []).append((chunk, i))
            elif begun := self._open.get(key):
                rows, at = begun.pop()
                start = int(rows["start"][at])
                known = NONE not in (time, start) and abs(time - start) < _LARGEST
                ended.append((rows, at, time - start if known else NONE))
            else:
                count, first = self.lonely.get((phase, category), (0, place))
                self.lonely[phase, category] = count + 1, first
        return _taken(ended)

    def rest(self) -> list[Columns]:
        """The begins that never ended: their durations are not known."""
        left = [(rows, at, NONE) for begun in self._open.values() for rows, at in begun]
        self._open = {}
        return _taken(left)


def _taken(ended: list[tuple[Columns, int, int]]) -> list[Columns]:
    by_chunk: dict[int, tuple[Columns, list[int], list[int]]] = {}
    for rows, at, duration in ended:
        _, places, durations = by_chunk.setdefault(id(rows), (rows, [], []))
        places.append(at)
        durations.append(duration)
    out = []
    for rows, places, durations in by_chunk.values():
        taken = {name: column[places] for name, column in rows.items() if name not in ("phase", "id")}
        out.append(taken | {"duration": np.array(durations, np.int64)})
    return out
