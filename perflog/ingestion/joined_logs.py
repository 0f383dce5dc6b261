"""Logs that look alike, joined into one chunk: read together, many small logs cost little more than one large one.

What is found in all of them together must be what each of them shows by itself. `JoinedLogs` says whether that is so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct

from perflog.arrays import Ints, Mask
from perflog.parsing.input.chunks import SLACK, Chunk
from perflog.parsing.match.records import BLANK, Batch
from perflog.tables.row_order import PART_BITS


class UnlikeLogsError(Exception):
    """Logs that are read together do not look alike.

    Attributes:
        groups: Positions of the logs that look alike as far as is known; () where nothing is known.
    """

    def __init__(self, groups: Sequence[Sequence[int]] = ()) -> None:
        super().__init__()
        self.groups = groups


class JoinedLogs(Struct, frozen=True, dict=True):
    """Several logs as one chunk. An empty line is between two of them: lines of two logs are never neighbours.

    Attributes:
        heads: The logs, each a chunk of its own.
        chunk: All of them.
        first_lines: The number of the first line of each log in the chunk.
        starts: The offset at which each log begins in the chunk.
    """

    heads: Sequence[Chunk]
    chunk: Chunk
    first_lines: Ints
    starts: Ints

    @classmethod
    def of(cls, heads: Sequence[Chunk]) -> JoinedLogs:
        """Join logs."""
        lines = np.array([head.lines + 1 for head in heads])
        sizes = np.array([head.size + 1 for head in heads])
        starts = np.cumsum(sizes) - sizes
        data = bytearray(b"\n").join(memoryview(head.data)[: head.size] for head in heads) + bytes(SLACK)
        each = list(zip(heads, starts.tolist(), strict=True))
        returns = [offset + start for head, start in each for offset in head.returns]
        cut = [offset + start for head, start in each for offset in head.cut]
        unfinished = [offset + start for head, start in each for offset in head.unfinished]
        lines_of_all = int(lines.sum()) - 1
        chunk = Chunk(data, len(data) - SLACK, 1, lines_of_all, returns, cut, is_last=True, unfinished=unfinished)
        return cls(heads, chunk, np.cumsum(lines) - lines + 1, starts)

    @cached_property
    def positions(self) -> Ints:
        """The position at which each log begins. The lines before the first one count for the first."""
        positions = self.first_lines << PART_BITS
        positions[0] = 0
        return positions

    @property
    def gaps(self) -> Ints:
        """The positions of the empty lines between the logs."""
        return (self.first_lines[1:] - 1) << PART_BITS

    def without_gaps(self, batch: Batch) -> Batch:
        """Return a batch of the chunk in which empty lines between the logs are no lines of a log."""
        batch.owner[BLANK] = np.setdiff1d(batch.owner[BLANK], self.gaps, assume_unique=True)
        return batch

    def counts(self, positions: Ints) -> Ints:
        """Return how many of some ascending positions each log has."""
        return np.diff(np.append(np.searchsorted(positions, self.positions), len(positions)))

    def firsts(self, batch: Batch, kinds: Iterable[int]) -> Ints:
        """Return the position of the first record of each kind (second axis) in each log (first axis): each has one."""
        every = [batch.records[kind].positions for kind in kinds]
        firsts = [positions[np.searchsorted(positions, self.positions)] for positions in every]
        return np.array(firsts, np.int64).reshape(len(firsts), len(self.heads)).T

    def check(self, have: Sequence[Ints | Mask]) -> None:
        """Check that the logs have the same of some things.

        Args:
            have: For each thing, a number for each log.

        Raises:
            UnlikeLogsError: They do not have the same.
        """
        table = np.array(have, np.int64).reshape(len(have), len(self.heads))
        if (table != table[:, :1]).any():
            _, group = np.unique(table, axis=1, return_inverse=True)
            group = group.ravel()
            raise UnlikeLogsError([np.flatnonzero(group == k).tolist() for k in range(int(group.max()) + 1)])
