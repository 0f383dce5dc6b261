"""Runs of a side that print what another of its runs prints: the same log again, or only its beginning.

They are no repeats: a comparison that counted them would take one run for several.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from perflog.analysis.compare.sides import LeftOut, Side
from perflog.arrays import Floats
from perflog.metrics import Tables
from perflog.tables.schema import TABLES

Figures = list[Floats]
"""The numbers of a run in columns: of its steps, then of its values, then of its summaries."""

_FEWEST = 5
"""Different numbers that a run must print to be called a copy: a few rounded ones agree by chance."""


def without_copies(side: Side) -> tuple[Side, list[LeftOut]]:
    """Return the side without copies, and these."""
    found, labels = copies([side]), side.labels
    left_out = [
        LeftOut(side.name, copy, labels[copy], f"a copy of {labels[run]}, or of its beginning")
        for copy, run in found.items()
    ]
    return side.without(found), left_out


def without_runs_of_base(sides: Sequence[Side], is_split: bool = False) -> tuple[list[Side], list[LeftOut], list[str]]:
    """Return the sides without runs of the base or copies of them, these, and the names of sides that have no others.

    A side that has no others stays as it is, and so do the sides that are the values of a setting (`is_split`).
    """
    base, kept = sides[0], [sides[0]]
    left_out: list[LeftOut] = []
    copied: list[str] = []
    for side in sides[1:]:
        labels = side.labels
        same = _same_as(base, side)
        if len(same) < len(labels) and not is_split:
            left_out += [LeftOut(side.name, r, labels[r], f"a run of {base.name}, or a copy of one") for r in same]
            side = side.without(same)
        elif len(same) == len(labels):
            copied.append(side.name)
        kept.append(side)
    return kept, left_out, copied


def _same_as(base: Side, side: Side) -> list[str]:
    """The runs of a side that are runs of the base, or print the same, or more, or less."""
    base_runs, runs = set(base.labels), list(side.labels)
    pairs = {} if base_runs.issuperset(runs) else copies([base, side])
    longer = {run for copy, run in pairs.items() if copy in base_runs}
    return [run for run in runs if run in base_runs or pairs.get(run) in base_runs or run in longer]


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
