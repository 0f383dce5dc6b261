"""Records that wait for the line that closes their step.

In: the records of each batch, by kind. Out: the complete records: their closing line has been read, their
run has ended, or too many wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct, field

from perflog.arrays import Ints, Mask
from perflog.parsing.assemble.ranks.rank_streams import StreamOf
from perflog.parsing.assemble.scopes import closes_step
from perflog.parsing.match.records import FormatLine, Records, join

MOST_PENDING = 1 << 19
"""Records that may wait for a closing line; beyond it all are released, those without one with an unknown step."""

ENOUGH_TO_VOTE = 1 << 13
"""Records of a run after which its ranks are decided, before the run has been read to its end (and checked there)."""


class ReleaseLimit(Struct, frozen=True):
    """The last position with complete records: of all streams, and of single streams where that is later."""

    position: int
    by_stream: Mapping[int, int] = field(default_factory=dict)

    def of(self, streams: Ints) -> Ints:
        """Return the limit for records of these streams."""
        return np.array([max(self.position, self.by_stream.get(s, -1)) for s in streams.tolist()], np.int64)


NO_LIMIT = ReleaseLimit(np.iinfo(np.int64).max)


class PendingRecords:
    """Holds records by kind until they are complete."""

    def __init__(self) -> None:
        self._parts: dict[int, list[Records]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._all()))

    def _all(self) -> Iterator[Records]:
        return (records for parts in self._parts.values() for records in parts if len(records))

    def add(self, kind: int, records: Records) -> None:
        """Add the records of a kind that a batch holds."""
        self._parts.setdefault(kind, []).append(records)

    def first_position(self) -> int | None:
        """Return the position of the first record that waits."""
        return min((int(records.positions[0]) for records in self._all()), default=None)

    def limit(
        self,
        lines: Sequence[FormatLine],
        run_start: int,
        needs_votes: bool,
        stream_of: StreamOf | None,
        waits_for_run: bool = False,
    ) -> ReleaseLimit:
        """Return up to where records are complete.

        Args:
            lines: The lines of the kinds.
            run_start: Position at which the current run begins. What waits of earlier runs is complete.
            needs_votes: Whether the current run has rank rules and no votes yet; then its first records wait for some.
            stream_of: Returns the stream of records if streams close their steps separately; None: all together.
            waits_for_run: Whether records wait for the end of their run.
        """
        last = max((int(records.positions[-1]) for records in self._all()), default=-1)
        if len(self) > MOST_PENDING:
            return ReleaseLimit(last)
        if waits_for_run:
            return ReleaseLimit(min(last, run_start - 1))
        if needs_votes and 0 < self._count_from(run_start) < ENOUGH_TO_VOTE:
            last = min(last, run_start - 1)
        if not any(closes_step(line) for _, line in lines):
            return ReleaseLimit(last)
        closing = [r for kind, parts in self._parts.items() if closes_step(lines[kind][1]) for r in parts if len(r)]
        ends = {-1: min(last, run_start - 1)}  # by stream; -1: all
        for records in closing:
            if stream_of is None:
                ends[-1] = max(ends[-1], min(last, int(records.positions[-1])))
                continue
            for stream, position in zip(stream_of(records).tolist(), records.positions.tolist(), strict=True):
                ends[stream] = max(ends.get(stream, -1), min(last, position))
        return ReleaseLimit(ends.pop(-1), ends)

    def _count_from(self, position: int) -> int:
        """Return the number of records from a position on."""
        return sum(len(records) - int(np.searchsorted(records.positions, position)) for records in self._all())

    def release(self, limit: ReleaseLimit, stream_of: StreamOf | None = None) -> dict[int, Records]:
        """Take out the records up to a limit, by kind."""
        complete: dict[int, Records] = {}
        for kind, parts in self._parts.items():
            if not parts:
                continue
            records = join(parts)
            done: slice | Mask
            left: slice | Mask
            if limit.by_stream and stream_of is not None:
                done = records.positions <= limit.of(stream_of(records))
                left = ~done
            else:
                stop = int(np.searchsorted(records.positions, limit.position, "right"))
                done, left = slice(0, stop), slice(stop, None)
            released, waiting = records.take(done), records.take(left)
            if len(released):
                complete[kind] = released
            self._parts[kind] = [waiting.copy()] if len(waiting) else []
        return complete
