"""Energy facts: the joules of a token, else a sample, and what they cost, in sentences with figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from perflog.analysis.overview.run_groups import RunGroup
from perflog.metrics import Options, Tables
from perflog.metrics.energy import ALL, energy
from perflog.tables.nulls import records
from perflog.units import show

_UNITS = ("token", "sample")


def energy_facts(tables: Tables, groups: Sequence[RunGroup], options: Options) -> Iterator[str]:
    """Yield the energy and the cost of a token, else of a sample: of a single run, or the least and the most of all."""
    rows = {row["run"]: row for row in records(energy.table(tables, options))}
    for unit in _UNITS:
        joules = _by_mark(rows, groups, f"energy_{unit}_j")
        costs = _by_mark(rows, groups, f"cost_million_{unit}s")
        if joules:
            yield f"Energy: {_ends(joules, 'J')} a {unit}{_power(list(rows.values())) if len(joules) == 1 else ''}."
        if costs:
            yield f"Cost, {options.gpu_hour:g} for a GPU hour: {_ends(costs, '')} for a million {unit}s."
        if joules or costs:
            return


def _by_mark(rows: Mapping[str, Mapping[str, Any]], groups: Sequence[RunGroup], column: str) -> dict[str, float]:
    """The mean of a column over the runs of each group that all have it."""
    found = {}
    for group in groups:
        values = [rows[run][column] if run in rows else None for run in group.runs]
        known = [value for value in values if value is not None]
        if known and len(known) == len(values):
            found[group.mark] = fmean(known)
    return found


def _ends(values: Mapping[str, float], unit: str) -> str:
    """The only value, or the least and the most, with their runs."""
    low, high = min(values, key=lambda mark: values[mark]), max(values, key=lambda mark: values[mark])
    if len(values) == 1:
        return show(values[low], unit)
    return f"{show(values[low], unit)} ({low}) to {show(values[high], unit)} ({high})"


def _power(rows: Sequence[Mapping[str, Any]]) -> str:
    """The power behind the energy of a run, and where it is from."""
    row = next(row for row in rows if row["power_w"] is not None)
    of = "for all GPUs" if row["of"] == ALL else "a GPU"
    mean = f", mean of {row['measured']:,}" if (row["measured"] or 1) > 1 else ""
    return f", at {show(row['power_w'], 'W')} {of} ({row['source']}{mean})"
