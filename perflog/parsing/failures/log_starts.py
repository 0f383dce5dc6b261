"""Where the first line of a log is printed again: the program has started again, and failures are of another start."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perflog.arrays import Ints
from perflog.parsing.failures.failure import Failure
from perflog.parsing.failures.kinds import needles
from perflog.parsing.match.records import MAX_TEXT, Batch
from perflog.tables.row_order import PART_BITS, PART_MASK

_LEAST_OPENING = 10  # characters of the first line of a log by which it is known again
_LEAST_LINES = 3  # that a start of a program prints: what is printed more often is not its first line
_LINES_AFTER = 5  # lines after a failure in which a new start begins
_DIGITS = np.isin(np.arange(256), np.frombuffer(b"0123456789", np.uint8))  # of all bytes


class LogStarts:
    """Remembers where the first line of one log is printed."""

    def __init__(self) -> None:
        self._opening: bytes | None = None  # the first line of the log, if it reports no failure
        self._openings: list[Ints] = []  # positions at which it is printed
        self._similar: list[Ints] = []  # with other digits too, as in a time stamp

    def set_sections(self, failures: Sequence[Failure]) -> None:
        """Count for each failure how often the first line was printed again before it."""
        openings = self._starts(failures)
        for failure in failures:
            failure.section = max(int(np.searchsorted(openings, failure.position)) - 1, 0)

    def find(self, batch: Batch) -> None:
        """Remember where a batch has the first line of the log."""
        if not len(batch.starts):
            return
        data = np.frombuffer(batch.chunk.data, np.uint8)
        if self._opening is None:
            first = data[batch.starts[0] : batch.ends[0]].tobytes()
            text = first[:MAX_TEXT].decode("utf-8", "backslashreplace").rstrip()
            is_plain = _LEAST_OPENING <= len(text) < MAX_TEXT and not any(literal in first for literal in needles())
            self._opening = first if is_plain else b""
        opening = np.frombuffer(self._opening, np.uint8)
        if not len(opening):
            return
        rows: Ints = np.flatnonzero(batch.ends.astype(np.int64) - batch.starts == len(opening))
        digits = _DIGITS[opening]
        letters = np.flatnonzero(~digits)
        for part in (letters[::8], letters):  # few bytes first: most lines differ in them
            if len(rows):
                bytes_of = batch.starts[rows].astype(np.int64)[:, None] + part
                rows = rows[(data[bytes_of] == opening[part]).all(axis=1)]
        if len(rows) and digits.any():
            bytes_of = data[batch.starts[rows].astype(np.int64)[:, None] + np.flatnonzero(digits)]
            rows, bytes_of = (part[_DIGITS[bytes_of].all(axis=1)] for part in (rows, bytes_of))
            is_same = (bytes_of == opening[digits]).all(axis=1)
            self._openings.append(batch.positions_of(rows[is_same]))
            self._similar.append(batch.positions_of(rows))
        elif len(rows):
            self._openings.append(batch.positions_of(rows))

    def _starts(self, failures: Sequence[Failure]) -> Ints:
        """Return the segments that are the first line of the log, printed again; [] if that line may be any other.

        With other digits it counts only if a failure always directly precedes it.
        """
        none = np.zeros(0, np.int64)
        ends = np.array(sorted(failure.last_line for failure in failures), np.int64)
        similar: Ints = np.concatenate([none, *self._similar])
        similar = similar[similar & PART_MASK == 0]  # no part of a bar
        again = similar[1:] >> PART_BITS
        before: Ints = np.append(-_LINES_AFTER, ends)[np.searchsorted(ends, again)]
        if len(again) and (again - before < _LINES_AFTER).all():
            return similar
        openings: Ints = np.concatenate([none, *self._openings])
        return openings if (np.diff(openings >> PART_BITS) >= _LEAST_LINES).all() else none
