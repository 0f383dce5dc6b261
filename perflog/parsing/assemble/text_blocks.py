"""Blocks of several lines that are one thing: their text is kept on the run in which they begin."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perflog.formats.model import Format, Line
from perflog.parsing.assemble.runs import RunState
from perflog.parsing.match.numeric import Ints
from perflog.parsing.match.rank_labels import strip_rank_labels
from perflog.parsing.match.records import Batch

_ROLES = {"begin": 0, "body": 1, "end": 2}


class TextBlocks:
    """Gathers blocks over several chunks."""

    def __init__(self) -> None:
        self._block: tuple[RunState, list[str]] | None = None  # goes on in the next chunk

    @property
    def run(self) -> RunState | None:
        """The run whose printout goes on in the next chunk."""
        return self._block[0] if self._block else None

    def feed(self, lines: Sequence[tuple[Format, Line]], runs: Sequence[RunState], batch: Batch) -> None:
        """The blocks of a chunk, whose runs are the last of `runs`."""
        found = [(_ROLES[lines[k][1].role], r.places) for k, r in batch.records.items() if lines[k][1].role in _ROLES]
        if not found:
            return
        labelled = any(r.labels is not None for k, r in batch.records.items() if lines[k][1].role in _ROLES)
        places = np.concatenate([at for _, at in found])
        order = np.argsort(places, kind="stable")
        role = np.concatenate([np.full(len(at), r) for r, at in found])[order]
        places = places[order]
        begins, ends = np.flatnonzero(role == 0), np.flatnonzero(role == 2)
        if self._block is not None:  # begun in an earlier chunk
            self._go_on(places, begins, ends, batch, labelled)
        for i, begin in enumerate(begins.tolist()):
            limit = int(begins[i + 1]) if i + 1 < len(begins) else len(places)
            k = int(np.searchsorted(ends, begin))
            closed = k < len(ends) and ends[k] < limit
            stop = int(ends[k]) if closed else limit - 1
            owner = next(r for r in reversed(runs) if r.place <= places[begin])
            self._block = owner, _texts(batch, places[begin : stop + 1], labelled)
            if closed or limit < len(places):
                self._keep()

    def _go_on(self, places: Ints, begins: Ints, ends: Ints, batch: Batch, labelled: bool) -> None:
        assert self._block is not None
        first = int(begins[0]) if len(begins) else len(places)
        closed = len(ends) > 0 and int(ends[0]) < first
        self._block[1].extend(_texts(batch, places[: int(ends[0]) + 1 if closed else first], labelled))
        if closed or len(begins):
            self._keep()

    def finish(self) -> None:
        """The log has ended; a printout that was cut off there is kept too."""
        self._keep()

    def _keep(self) -> None:
        """The printout at hand is complete."""
        if self._block is not None:
            run, rows = self._block
            run.printout.append("\n".join(rows))
            self._block = None


def _texts(batch: Batch, places: Ints, labelled: bool) -> list[str]:
    texts = batch.texts(places) if len(places) else []
    return [strip_rank_labels(t.encode()).decode() for t in texts] if labelled else texts
