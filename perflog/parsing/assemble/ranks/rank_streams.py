"""Streams of records: whether the labelled ranks of a run close their steps separately, or all together.

In: the rank labels of the lines that close steps. Out: the stream of each record, which is its rank label where each
rank closes its own steps, else -1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from perflog.arrays import Ints
from perflog.parsing.assemble.runs.run_state import RunIndex, RunState
from perflog.parsing.match.rank_labels import process_labels
from perflog.parsing.match.records import Records

StreamOf = Callable[[Records], Ints]
"""Returns the stream of each record."""


class RankStreams:
    """Decides it for each run: as `known` from an earlier reading of the log, else by `guess`.

    `corrections` holds the runs that have ended and for which this was wrong.
    """

    def __init__(self, guess: bool, known: Mapping[int, bool]) -> None:
        self.corrections: dict[int, bool] = {}
        self._guess, self._known = guess, known
        self._closing_ranks: dict[int, set[int]] = {}  # by run: labels of the ranks that close steps

    def separate(self, run: RunState) -> bool:
        """Return whether the labelled ranks of a run close their own steps."""
        return self._known.get(run.index, self._guess)

    def of(self, runs: RunIndex) -> StreamOf | None:
        """Return the function that gives the stream of each record in these runs; None if all are in one stream."""
        separate = np.array([self.separate(run) for run in runs.runs], np.bool_)
        if not separate.any():
            return None
        return lambda records: np.where(
            separate[runs.indices_at(records.positions)], process_labels(records.known_labels), -1
        )

    def add_closing(self, runs: RunIndex, records: Records) -> None:
        """Remember which ranks close steps."""
        if records.labels is not None:
            for run, low, high in runs.split(records.positions):
                labels = set(np.unique(process_labels(records.labels[low:high])).tolist()) - {-1}
                if labels:
                    self._closing_ranks.setdefault(run.index, set()).update(labels)

    def end(self, run: RunState) -> None:
        """Check a run that has ended: more than one rank closes steps if and only if the ranks are separate."""
        ranks = self._closing_ranks.pop(run.index, set())
        if ranks and (len(ranks) > 1) != self.separate(run):
            self.corrections[run.index] = len(ranks) > 1
