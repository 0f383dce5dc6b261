"""Rows of comparisons with given fields, and sides with given values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from perflog.analysis.compare.measures import SideValues
from perflog.analysis.compare.rows import FigureRow
from perflog.analysis.compare.sides import Case, Side
from perflog.log import Log
from perflog.metrics.compared import Measure
from perflog.tables.sink import MemorySink

_FIELDS: dict[str, Any] = dict.fromkeys(FigureRow.__struct_fields__, math.nan) | {
    "case": "", "kind": "step", "metric": "step_time", "statistic": "median", "unit": "s", "better": "lower",
    "derived": False, "base": "base", "side": "side", "base_value": 1.0, "side_value": 1.0, "change": 0.0,
    "error": 0.01, "freedom": 20.0, "scope": "runs", "history_runs": 0, "sessions": None, "paired": False,
    "few_values": False, "p": 0.5, "p_both": 0.5, "p_holm": 0.5, "shift": None, "cliffs_delta": None, "drift": 0.0,
    "base_runs": 3, "side_runs": 3, "base_steps": 30, "side_steps": 30, "verdict": "inconclusive", "reason": "",
    "advice": "", "fails": False,
}  # fmt: skip


def figure_row(**fields: Any) -> FigureRow:
    """A row on three runs a side with equal medians of step times, but for these fields."""
    return FigureRow(**(_FIELDS | fields))


Values = Mapping[Measure, Sequence[Sequence[float]]]
"""Values of runs by measure."""


def made_sides(*sides: Values) -> tuple[list[Side], Case, list[SideValues]]:
    """Sides a, b, c ... with the runs a0, a1, b0 ..., which have these values; one case that all are in."""
    names = "abcdefgh"[: len(sides)]
    values = [SideValues() for _ in sides]
    for name, kept, of in zip(names, values, sides, strict=True):
        for measure, runs in of.items():
            for number, run in enumerate(runs):
                kept.add(measure, f"{name}{number}", np.array(run, np.float64))
    most = [max(map(len, of.values())) for of in sides]
    case = Case("", tuple(tuple(f"{name}{k}" for k in range(count)) for name, count in zip(names, most, strict=True)))
    return [Side(name, Log(MemorySink().fetch, [])) for name in names], case, values
