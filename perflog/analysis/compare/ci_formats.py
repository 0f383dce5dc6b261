"""A comparison as JSON for services that keep benchmark results: github-action-benchmark and Bencher."""

from __future__ import annotations

import math

from perflog.analysis.compare.comparison import Comparison
from perflog.analysis.compare.rows import FigureRow
from perflog.units import show


def github_action_benchmark(comparison: Comparison) -> list[dict[str, object]]:
    """Return entries of github-action-benchmark's `customSmallerIsBetter`, in base units.

    One entry per measure that is better when lower, and per side but the base: the service compares with its own
    history. The base is named in `extra`.
    """
    return [
        {"name": f"{_benchmark(row)}: {_measure(row)}", "unit": row.unit, "value": row.side_value}
        | ({} if (arm := _longer_arm(row)) is None else {"range": f"± {arm:.6g}"})
        | {"extra": _extra(row)}
        for row in comparison.row_records
        if row.better == "lower"
    ]


def bencher(comparison: Comparison) -> dict[str, dict[str, dict[str, float]]]:
    """Return the Bencher Metric Format: benchmark -> measure -> value with its interval, of every side but the base."""
    benchmarks: dict[str, dict[str, dict[str, float]]] = {}
    for row in comparison.row_records:
        values = {"value": row.side_value, "lower_value": row.side_low, "upper_value": row.side_high}
        known = {k: v for k, v in values.items() if not math.isnan(v)}
        benchmarks.setdefault(_benchmark(row), {})[_measure(row)] = known
    return benchmarks


def _benchmark(row: FigureRow) -> str:
    return f"{row.side} ({row.case})" if row.case else str(row.side)


def _measure(row: FigureRow) -> str:
    """The metric, with the statistic if it is not the first one of the metric."""
    return row.metric if row.statistic in ("median", "value") else f"{row.metric} {row.statistic}"


def _longer_arm(row: FigureRow) -> float | None:
    """The distance from the median to the farther end of its interval."""
    arm = max(row.side_high - row.side_value, row.side_value - row.side_low)
    return None if math.isnan(arm) else float(arm)


def _extra(row: FigureRow) -> str:
    base = f"base {row.base}: {show(row.base_value, row.unit)}"
    return f"{base}\nchange {row.change_in_words}\n{row.verdict}"
