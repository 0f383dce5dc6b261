"""Rows of comparisons with given fields."""

from __future__ import annotations

import math
from typing import Any

from perflog.analysis.compare.rows import FigureRow

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
