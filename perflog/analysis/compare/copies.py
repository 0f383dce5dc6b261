"""Runs of a side that print what another of its runs prints: the same log again, or only its beginning.

They are no repeats: a comparison that counted them would take one run for several.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from perflog.analysis.compare.sides import Case, LeftOut, Side
from perflog.arrays import Floats
from perflog.metrics import Tables
from perflog.tables.schema import TABLES

Figures = list[Floats]
"""The columns of figures of a run: those of its steps, then its values, then its summaries."""

_FEWEST = 5
"""Different figures that a run prints before it can be called a copy: a few rounded ones agree by chance."""


def without_copies(side: Side) -> tuple[Side, list[LeftOut]]:
    """Return the side without copies, and these."""
    found, labels = copies([side]), side.labels
    left_out = [
        LeftOut(side.name, copy, labels[copy], f"no repeat but the figures of {labels[run]}, or only their beginning")
        for copy, run in found.items()
    ]
    return side.without(found), left_out


def copied_sides(sides: Sequence[Side], cases: Sequence[Case]) -> list[str]:
    """Return the names of the sides all of whose runs are runs of the base, or print the same."""
    base = {run for case in cases for run in case.runs[0]}
    found: list[str] = []
    for k, side in enumerate(sides[1:], 1):
        runs = {run for case in cases for run in case.runs[k]}
        of_base = copies([sides[0], side]) if runs - base else {}
        same = {run for run in runs if of_base.get(run) in base}
        same |= {run for copy, run in of_base.items() if copy in base}
        if runs and runs <= base | same:
            found.append(side.name)
    return found


def copies(sides: Sequence[Side]) -> dict[str, str]:
    """Return the runs that print what another run prints, or its beginning, and that run."""
    alike: dict[bytes, list[tuple[str, Figures]]] = {}
    for side in sides:
        for run, figures in _figures(side.tables):
            alike.setdefault(_first(figures), []).append((run, figures))
    return dict(pair for runs in alike.values() for pair in _copies(runs))


def _copies(runs: list[tuple[str, Figures]]) -> Iterator[tuple[str, str]]:
    """Pairs of a copy and the longer run that has all its figures."""
    left_out: set[str] = set()
    for (run, figures), (other, beginning) in combinations(sorted(runs, key=lambda of: -sum(map(len, of[1]))), 2):
        if run not in left_out and other not in left_out and _begins(figures, beginning):
            left_out.add(other)
            yield other, run


def _begins(figures: Figures, beginning: Figures) -> bool:
    """Whether each column begins as another one: a run that prints its losses again in other times is no copy."""
    return all(np.array_equal(a[: len(b)], b, equal_nan=True) for a, b in zip(figures, beginning, strict=True))


def _first(figures: Figures) -> bytes:
    """The first row of the steps of a run, else its first value, else its first summary."""
    *steps, values, summaries = figures
    return next((b"".join(c[:1].tobytes() for c in of) for of in (steps, [values], [summaries]) if len(of[0])), b"")


def _figures(tables: Tables) -> Iterator[tuple[str, Figures]]:
    """The columns of figures of each run that prints enough different ones."""
    columns: dict[str, Sequence[str]] = {
        "steps": [c.name for c in TABLES["steps"] if c.type == "float64"], "values": ["value"], "summaries": ["value"]
    }  # fmt: skip
    by_table = {name: tables.rows_by_run(name) for name in columns}
    for run in dict.fromkeys(run for rows in by_table.values() for run in rows):
        rows = {name: tables.rows_of(name, run) for name in columns}
        figures = [rows[name][column] for name in columns for column in columns[name]]
        if any(
            _vary([rows[name][column][:size] for column in columns[name]])
            for name in columns
            for size in (_FEWEST, None)
        ):
            yield run, figures


def _vary(figures: Figures) -> bool:
    """Whether there are enough different figures."""
    return len(np.unique(np.concatenate(figures))) >= _FEWEST
