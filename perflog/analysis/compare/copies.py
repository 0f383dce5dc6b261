"""Runs of a side that print what another of its runs prints: the same log again, or only its beginning.

They are no repeats: a comparison that counted them would take one run for several.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from perflog.analysis.compare.sides import Side
from perflog.metrics import Tables
from perflog.tables.schema import TABLES

_FEWEST = 5
"""Different figures that a run prints before it can be called a copy: a few rounded ones agree by chance."""


def without_copies(side: Side) -> tuple[Side, list[str]]:
    """Return the side without copies, and a warning for each run that was left out."""
    left_out = copies([side])
    if not left_out:
        return side, []
    repeats = side.log.select(*(key for key in side.log.run_keys if key.id not in left_out))
    labels = side.labels
    warnings = [
        f"{side.name}: {labels[copy]} has the figures of {labels[run]}, or only their beginning: it is no repeat and "
        "does not count"
        for copy, run in left_out.items()
    ]
    return Side(side.name, repeats), warnings


def copies(sides: Sequence[Side]) -> dict[str, str]:
    """Return the runs that print what another run prints, or its beginning, and that run."""
    return dict(_copies({run: figures for side in sides for run, figures in _figures(side.tables)}))


def _copies(printed: dict[str, bytes]) -> Iterator[tuple[str, str]]:
    """Pairs of a copy and the longer run that has all its figures."""
    by_first: dict[bytes, list[str]] = {}
    for run in sorted(printed, key=lambda run: -len(printed[run])):
        by_first.setdefault(printed[run][:64], []).append(run)
    for alike in by_first.values():
        copies: set[str] = set()
        for run, other in combinations(alike, 2):
            if run not in copies and other not in copies and printed[run].startswith(printed[other]):
                copies.add(other)
                yield other, run


def _figures(tables: Tables) -> Iterator[tuple[str, bytes]]:
    """The figures of each run as bytes: those of its steps, else its values, else its summaries."""
    columns: dict[str, Sequence[str]] = {
        "steps": [c.name for c in TABLES["steps"] if c.type == "float64"], "values": ["value"], "summaries": ["value"]
    }  # fmt: skip
    seen: set[str] = set()
    for name, names in columns.items():
        for run, rows in tables.rows_by_run(name).items():
            figures = np.column_stack([rows[column] for column in names])
            if run not in seen and any(len(np.unique(some)) >= _FEWEST for some in (figures[:_FEWEST], figures)):
                seen.add(run)
                yield run, figures.tobytes()
