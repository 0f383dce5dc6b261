"""Counts how often a rank measured the same phase in a step: column `occurrence` of table `phases`.

In: rows with their groups, steps and ranks. Out: the k of each k-th time, from 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from perflog.arrays import Ints
from perflog.formats.model import Line
from perflog.parsing.assemble.attributed_rows import AttributedRows

Counts = npt.NDArray[np.int32]
_WIDEST = 16  # records of a group that are compared pair by pair


def occurrences(groups: Ints, members: Ints) -> Counts:
    """Count the records of each of `members` (a rank, or a rank and a phase) within its group (a step), from 1."""
    n = len(groups)
    if n == 0:
        return np.empty(0, np.int32)
    heads = np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]]))
    sizes = np.diff(np.append(heads, n))
    width = int(sizes[0])
    if width <= _WIDEST and bool((sizes == width).all()) and bool((groups[heads[1:]] > groups[heads[:-1]]).all()):
        by_group = members.reshape(-1, width)
        counts = np.ones(by_group.shape, np.int32)
        for j in range(1, width):
            for i in range(j):
                counts[:, j] += by_group[:, i] == by_group[:, j]
        return counts.ravel()
    order = np.lexsort((members, groups))
    first = np.ones(n, np.bool_)
    first[1:] = (groups[order][1:] != groups[order][:-1]) | (members[order][1:] != members[order][:-1])
    start = np.maximum.accumulate(np.where(first, np.arange(n), 0))
    ordinal = np.empty(n, np.int32)
    ordinal[order] = np.arange(n) - start + 1
    return ordinal


class PhaseCounter:
    """Counts the phases of each step and rank.

    Closing lines make the steps. Where a line prints its own step, or no line closes one, the steps are the
    stretches of a rank's records with the same step: the count of the last one goes on in the next stretch of the log.
    A record without a step counts as the first of a new step.
    """

    def __init__(self) -> None:
        # By line and rank: run and step of the last record, and the counts of the phases in that step.
        self._last: dict[tuple[Line, int], tuple[Any, dict[Any, int]]] = {}

    def count(self, rows: AttributedRows, phases: Sequence[Any] | None = None) -> Counts:
        """Return the count of each record of a kind. `phases` are the phases of the records, if they differ."""
        closed = rows.steps_are_closed and rows.step_is_of_group
        if phases is None and closed:
            return occurrences(rows.groups.number, rows.ranks.rank)
        phases = phases or [None] * len(rows)
        codes = {phase: k for k, phase in enumerate(dict.fromkeys(phases))}
        members = rows.ranks.rank * len(codes) + np.array([codes[phase] for phase in phases], np.int64)
        if closed:
            return occurrences(rows.groups.number, members)
        order = np.argsort(rows.ranks.rank, kind="stable")
        rank, run, step, known = (x[order] for x in (rows.ranks.rank, rows.groups.run, rows.step, rows.step_known))
        changes = (np.diff(run) != 0) | (np.diff(step) != 0) | ~(known[1:] & known[:-1])
        groups = np.empty(len(rows), np.int64)
        groups[order] = np.concatenate([[0], np.cumsum(changes)])
        counts = occurrences(groups, members)
        for rank_rows in np.split(order, np.flatnonzero(np.diff(rank)) + 1):
            self._continue(rows, rank_rows, groups[rank_rows], phases, counts)
        return counts

    def _continue(
        self, rows: AttributedRows, rank_rows: Ints, groups: Ints, phases: Sequence[object], counts: Counts
    ) -> None:
        """Add the counts of the last stretch to the first step of a rank, and remember the rank's last step."""
        key = rows.line, int(rows.ranks.rank[rank_rows[0]])
        before, counted = self._last.get(key, (None, {}))
        if _step_of(rows, rank_rows[0]) == before:
            for i in rank_rows[groups == groups[0]].tolist():
                counts[i] += counted.get(phases[i], 0)
        last = _step_of(rows, rank_rows[-1])
        in_last = {phases[i]: int(counts[i]) for i in rank_rows[groups == groups[-1]].tolist()}
        self._last[key] = last, (counted | in_last if last == before else in_last)


def _step_of(rows: AttributedRows, i: int) -> Any:
    """Return run and step of a record; without a step something that equals nothing."""
    return (rows.groups.run_words[i].as_py(), int(rows.step[i])) if rows.step_known[i] else math.nan
