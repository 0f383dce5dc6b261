"""A comparison for services that keep benchmark results: github-action-benchmark and Bencher."""

from __future__ import annotations

from typing import Any

from perflog.analysis.compare.outcome import Comparison
from perflog.analysis.compare.rows import Row
from perflog.units import show


def github_action_benchmark(found: Comparison) -> list[dict[str, Any]]:
    """Entries of github-action-benchmark's `customSmallerIsBetter`: what is better when lower, of every side but the
    base, in base units. The service compares with its own history; the base stands in `extra`.
    """
    return [
        {"name": f"{_benchmark(one)}: {one['metric']}", "unit": one["unit"], "value": one["side_value"]}
        | ({} if _half(one) is None else {"range": f"± {_half(one):.6g}"})
        | {"extra": _extra(one)}
        for one in found.records
        if one["better"] == "lower"
    ]


def bencher(found: Comparison) -> dict[str, dict[str, dict[str, float]]]:
    """Bencher Metric Format: benchmark -> measure -> value with its interval, of every side but the base."""
    made: dict[str, dict[str, dict[str, float]]] = {}
    for one in found.records:
        values = {"value": one["side_value"], "lower_value": one["side_low"], "upper_value": one["side_high"]}
        made.setdefault(_benchmark(one), {})[one["metric"]] = {k: v for k, v in values.items() if v == v}
    return made


def _benchmark(one: Row) -> str:
    return f"{one['side']} ({one['case']})" if one["case"] else str(one["side"])


def _half(one: Row) -> float | None:
    """The longer arm of the interval."""
    arm = max(one["side_high"] - one["side_value"], one["side_value"] - one["side_low"])
    return float(arm) if arm == arm else None


def _extra(one: Row) -> str:
    interval = f" [{one['ratio_low']:.4g}, {one['ratio_high']:.4g}]" if one["ratio_low"] == one["ratio_low"] else ""
    ratio = f"{one['ratio']:.4g}{interval}"
    return f"base {one['base']}: {show(one['base_value'], one['unit'])}\nratio {ratio}\n{one['verdict']}"
