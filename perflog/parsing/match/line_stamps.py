"""Times at which lines were printed, from the time stamps before them.

In: the records of a batch. Out: for each record the time that is before it on its line (`Stamps`).

Times without a year or a date count from the start of the first year, or day, of the log: where they go back, a year or
a day has passed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perflog.arrays import Bytes, Ints
from perflog.parsing.match.records import Batch, Stamps
from perflog.parsing.match.stamp_layouts import DAY_NS, NO_TIME, YEAR_NS, Layout, layout_of
from perflog.tables.schema import CLOCKS, NO_DATE, NO_YEAR

HEAD_BYTES = 200
"""Of a line, in which a stamp is looked for."""

_MOST_LAYOUTS = 32  # that are kept for the next batch: the layouts of a log differ by the width of labels and fractions
_MOST_NEW = 512  # in a batch: with more, labels say nothing of the layout, and each costs a pass over the lines
_MOST_FRUITLESS = 8  # lines in a row without a stamp, or with a layout of their own; the rest of a batch then has none
_BACK = {NO_YEAR: YEAR_NS // 2, NO_DATE: 3600 * 10**9}
"""By how much times go back, at least, where a year or a day has passed. Lines of several processes go back less."""
_DRIFT, _SECOND = 0.2, 10**9  # of a step; in nanoseconds
_UNSURE = 0.1  # of the time from the first step to the last, at most, that rounded clocks may differ by


class StampReader:
    """Reads the stamps of a log, batch after batch."""

    def __init__(self) -> None:
        self._layouts: list[Layout] = []  # the oldest first
        self._last: dict[int, int] = {}  # by clock without a year or a date: the last time

    def read(self, batch: Batch, positions: Sequence[Ints]) -> list[Stamps | None]:
        """Return the stamps of records of several kinds, given their positions; None: no record of the kind has one."""
        found = [self._stamps_at(batch, kind_positions) for kind_positions in positions]
        stamped = [
            (kind_positions, stamps)
            for kind_positions, stamps in zip(positions, found, strict=True)
            if stamps is not None
        ]
        for clock, period in ((NO_YEAR, YEAR_NS), (NO_DATE, DAY_NS)):
            self._carry(CLOCKS.index(clock), period, _BACK[clock], stamped)
        return found

    def _stamps_at(self, batch: Batch, positions: Ints) -> Stamps | None:
        """Return the stamps of the records at these positions; None if no record has one.

        Known layouts are tried first. Then the first line without a stamp shows a new layout, which is tried on all
        others without one, and so on with the next line.
        """
        rows = batch.rows(positions)
        starts = batch.starts[rows].astype(np.int64)
        ends = np.minimum(batch.ends[rows].astype(np.int64), starts + HEAD_BYTES)
        data = np.frombuffer(batch.chunk.data, np.uint8)
        stamps = Stamps.unknown(len(positions))
        left = np.arange(len(positions))  # indices of the records without a stamp
        for layout in list(self._layouts):
            left = _fill(stamps, layout, data, starts, ends, left)
        fruitless = new = 0
        while len(left) and fruitless < _MOST_FRUITLESS and new < _MOST_NEW:
            first, others = left[0], left[1:]
            new_layout = layout_of(bytes(data[starts[first] : ends[first]]))
            if new_layout is not None:
                self._layouts.append(new_layout)
                new += 1
                others = _fill(stamps, new_layout, data, starts, ends, left)
            fruitless = 0 if len(others) < len(left) - 1 else fruitless + 1
            left = others[others != first]  # also if its own layout does not read it: each line is tried once
        self._layouts = self._layouts[-_MOST_LAYOUTS:]
        return stamps if (stamps.time != NO_TIME).any() else None

    def _carry(self, clock: int, period: int, back: int, stamped: Sequence[tuple[Ints, Stamps]]) -> None:
        """Add the years or days that have passed to the times of a clock that does not print them."""
        with_clock = [(positions, stamps, np.flatnonzero(stamps.clock == clock)) for positions, stamps in stamped]
        with_clock = [each for each in with_clock if len(each[2])]
        if not with_clock:
            return
        order = np.argsort(np.concatenate([positions[rows] for positions, _, rows in with_clock]), kind="stable")
        times = np.concatenate([stamps.time[rows] for _, stamps, rows in with_clock])
        ordered = times[order]
        last = self._last.get(clock, int(ordered[0]))
        jumps = np.diff(ordered, prepend=last % period)
        passed = np.cumsum((jumps < -back).astype(np.int64) - (jumps > period - back)) + last // period
        times[order] = ordered + np.maximum(passed, 0) * period
        self._last[clock] = int(times[order[-1]])
        for (_, stamps, rows), part in zip(
            with_clock, np.split(times, np.cumsum([len(rows) for _, _, rows in with_clock])[:-1]), strict=True
        ):
            stamps.time[rows] = part


def _fill(stamps: Stamps, layout: Layout, data: Bytes, starts: Ints, ends: Ints, rows: Ints) -> Ints:
    """Fill the stamps of the rows that have this layout. Return the rows that have another."""
    times = layout.read(data, starts[rows], ends[rows])
    fits = times != NO_TIME
    filled = rows[fits]
    stamps.time[filled], stamps.clock[filled], stamps.resolution[filled] = times[fits], layout.clock, layout.resolution
    others: Ints = rows[~fits]
    return others


def go_in_step(times_ns: Ints, others_ns: Ints) -> bool:
    """Return whether two clocks of the same steps, in order, differ by up to a step, and do not drift apart.

    Clocks of whole seconds differ by a second more. If that is a large part of the time that the steps take, they do
    not show whether two runs are equally fast.
    """
    ahead, step = others_ns - times_ns, np.median(np.diff(times_ns))
    whole = 0 if (times_ns % _SECOND).any() else _SECOND
    is_near = np.abs(ahead).max() <= step + whole and np.ptp(ahead) <= step * _DRIFT + whole
    return bool(is_near and whole <= _UNSURE * np.ptp(times_ns))
