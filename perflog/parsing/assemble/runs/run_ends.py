"""Times at which runs begin and end in the log: the first and the last time stamp of their lines.

In: the batches of a log, and the runs in them. Out: two rows of table `milestones` for each clock of a run that has
ended. Only some lines at both ends of a run are read, whatever they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from perflog.arrays import Ints
from perflog.parsing.assemble.runs.run_state import RunIndex, RunState
from perflog.parsing.match.line_stamps import HEAD_BYTES
from perflog.parsing.match.records import Batch, Stamps
from perflog.parsing.match.stamp_layouts import layout_of, may_have_stamp
from perflog.tables.row_order import PART_BITS, PART_MASK
from perflog.tables.schema import CLOCKS, TABLES
from perflog.tables.sink import table_from_columns

if TYPE_CHECKING:
    import pyarrow as pa

_LOOKED_AT = 24  # lines at each end of a run


class RunEnds:
    """Finds the lines with stamps at the ends of runs, and keeps their times.

    The sizes of the batches do not matter.
    """

    def positions(self, runs: RunIndex, batch: Batch) -> Ints:
        """Return the positions of the lines with stamps that may be the first or last of a run."""
        if not len(batch.starts):
            return np.zeros(0, np.int64)
        cuts = batch.rows_from(runs.starts[1:])
        lows, highs = np.append(0, cuts), np.append(cuts, len(batch.starts))
        first_lines = np.maximum(runs.starts >> PART_BITS, 1)
        last_lines = batch.positions_of(np.maximum(highs - 1, 0)) >> PART_BITS
        stops = batch.rows_from((first_lines + _LOOKED_AT) << PART_BITS)
        starts = batch.rows_from((last_lines - _LOOKED_AT + 1) << PART_BITS)
        found: dict[int, None] = {}
        for low, high, stop, start in zip(*(x.tolist() for x in (lows, highs, stops, starts)), strict=True):
            for rows in (range(low, min(high, stop)), range(high - 1, max(low, start) - 1, -1)):
                if rows:
                    found |= dict.fromkeys(self._first_of_each_clock(batch, rows))
        return batch.positions_of(np.array(sorted(found), np.int64))

    @staticmethod
    def _first_of_each_clock(batch: Batch, rows: range) -> Iterator[int]:
        """Yield the rows with the first stamp of each clock."""
        top, bottom = sorted((rows[0], rows[-1]))
        first, last = int(batch.starts[top]), int(batch.ends[bottom])
        with memoryview(batch.chunk.data) as data:
            if last - first <= _LOOKED_AT * HEAD_BYTES and not may_have_stamp(data[first:last]):
                return  # to cut short lines costs more than to search them
            bounds = zip(batch.starts[rows].tolist(), batch.ends[rows].tolist(), strict=True)
            heads = [bytes(data[start : min(end, start + HEAD_BYTES)]) for start, end in bounds]
        if not may_have_stamp(b"\n".join(heads)):
            return
        clocks = set()
        for row, head in zip(rows, heads, strict=True):
            layout = layout_of(head)
            if layout is not None and layout.clock not in clocks:
                clocks.add(layout.clock)
                yield row

    @staticmethod
    def add(runs: RunIndex, positions: Ints, stamps: Stamps | None) -> None:
        """Add the stamps at these positions to their runs."""
        if stamps is None:
            return
        for run, low, high in runs.split(positions):
            for position, time, clock in zip(
                positions[low:high].tolist(),
                stamps.time[low:high].tolist(),
                stamps.clock[low:high].tolist(),
                strict=True,
            ):
                if time < 0:
                    continue
                run.last_stamps[clock] = position, time
                if (position >> PART_BITS) - max(run.position >> PART_BITS, 1) < _LOOKED_AT:
                    run.first_stamps.setdefault(clock, (position, time))


def milestones_of(runs: Sequence[RunState]) -> pa.Table | None:
    """Return the first and last stamps of runs as rows of table `milestones`; None if they have none.

    A single stamp is no evidence, unless other lines of the run have some.
    """
    rows = [
        {
            "run": str(run.index), "line": position >> PART_BITS, "part": position & PART_MASK, "kind": "log",
            "edge": edge, "printed_ns": time, "clock": CLOCKS[clock],
        }
        for run in runs
        for edge, stamps in (("begin", run.first_stamps), ("end", run.last_stamps))
        for clock, (position, time) in stamps.items()
        if run.is_stamped or _has_both(run, clock)
        if edge == "begin" or _is_at_end(run, position)
    ]  # fmt: skip
    names = [column.name for column in TABLES["milestones"]]
    return table_from_columns("milestones", [[row.get(name) for row in rows] for name in names]) if rows else None


def _has_both(run: RunState, clock: int) -> bool:
    """Return whether a clock has stamps at both ends of a run."""
    first, last = run.first_stamps.get(clock), run.last_stamps.get(clock)
    return first is not None and last is not None and last[0] > first[0] and _is_at_end(run, last[0])


def _is_at_end(run: RunState, position: int) -> bool:
    return run.last_line - (position >> PART_BITS) < _LOOKED_AT
