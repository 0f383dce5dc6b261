"""Blocks of several lines that belong together, such as the printout of a model.

In: the lines of `[[block]]` tables (begin, body, end). Out: the lines of each block, in `RunState.printouts` of the run
in which the block begins: column `printout` of table `runs`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perflog.arrays import Ints
from perflog.parsing.assemble.runs.run_state import RunIndex, RunState
from perflog.parsing.match.rank_labels import strip_rank_labels
from perflog.parsing.match.records import Batch, FormatLine

_BEGIN, _BODY, _END = range(3)
_ROLES = {"begin": _BEGIN, "body": _BODY, "end": _END}


class TextBlocks:
    """Collects the lines of blocks. A block may go on in the next batch.

    Args:
        logs: The positions at which logs begin that are read together, as one batch: no block goes on in the next log.
    """

    def __init__(self, logs: Sequence[int] = (0,)) -> None:
        self._logs = np.array(logs[1:], np.int64)
        self._open: tuple[RunState, list[str]] | None = None  # a block without an end so far

    @property
    def run(self) -> RunState | None:
        """The run of the block that goes on in the next batch."""
        return self._open[0] if self._open else None

    def feed(self, lines: Sequence[FormatLine], runs: RunIndex, batch: Batch) -> None:
        """Read the blocks of a batch. Its lines lie in these runs."""
        parts = [
            (_ROLES[lines[k][1].role], records)
            for k, records in batch.records.items()
            if lines[k][1].role in _ROLES and lines[k][1].keep
        ]
        if not parts:
            return
        labelled = any(records.labels is not None for _, records in parts)
        positions = np.concatenate([records.positions for _, records in parts])
        order = np.argsort(positions, kind="stable")
        roles = np.concatenate([np.full(len(records), role) for role, records in parts])[order]
        positions = positions[order]
        begins, ends = np.flatnonzero(roles == _BEGIN), np.flatnonzero(roles == _END)
        bounds = np.union1d(begins, np.searchsorted(positions, self._logs))
        if self._open is not None:
            self._continue(positions, begins, ends, batch, labelled)
        for begin in begins.tolist():
            following = int(np.searchsorted(bounds, begin, "right"))
            limit = int(bounds[following]) if following < len(bounds) else len(positions)
            k = int(np.searchsorted(ends, begin))
            closed = k < len(ends) and ends[k] < limit
            stop = int(ends[k]) if closed else limit - 1
            owner = runs.runs[int(runs.indices_at(positions[begin]))]
            self._open = owner, _texts(batch, positions[begin : stop + 1], labelled)
            if closed or limit < len(positions):
                self.finish()

    def _continue(self, positions: Ints, begins: Ints, ends: Ints, batch: Batch, labelled: bool) -> None:
        """Read the lines of the open block that come before the first new block."""
        assert self._open is not None
        limit = int(begins[0]) if len(begins) else len(positions)
        closed = len(ends) > 0 and int(ends[0]) < limit
        self._open[1].extend(_texts(batch, positions[: int(ends[0]) + 1 if closed else limit], labelled))
        if closed or len(begins):
            self.finish()

    def finish(self) -> None:
        """Store the open block: its end was read, another block begins, or the log ends in it."""
        if self._open is not None:
            run, texts = self._open
            run.printouts.append("\n".join(texts))
            self._open = None


def _texts(batch: Batch, positions: Ints, labelled: bool) -> list[str]:
    texts = batch.texts(positions) if len(positions) else []
    return [strip_rank_labels(t.encode()).decode() for t in texts] if labelled else texts
