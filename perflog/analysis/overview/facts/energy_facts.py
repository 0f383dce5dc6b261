"""Energy facts: the joules of a token, else a sample, and what they cost, in sentences with figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from perflog.analysis.overview.run_groups import RunGroup
from perflog.metrics import Options, Tables
from perflog.metrics.power.energy import ALL, GPU, NODE, ONE, energy
from perflog.metrics.power.energy_cases import energy_cases
from perflog.tables.nulls import records
from perflog.units import first_few, show

_UNITS = ("token", "sample")
_MEASURED = {ALL: "all GPUs", ONE: "one GPU", GPU: "the GPU, or of all", NODE: "the machine"}
_MOST_TABLES, _LEAST_CASES = 3, 2


def energy_facts(tables: Tables, groups: Sequence[RunGroup], options: Options) -> Iterator[str]:
    """Yield the energy and the cost of a token, else of a sample: of a single run, or the least and the most of all."""
    rows = {row["run"]: row for row in records(energy.table(tables, options))}
    yield from _of_units(rows, groups, options)
    totals = _by_mark(rows, groups, "energy_run_j")
    if totals:
        source = _total(list(rows.values())) if len(totals) == 1 else ""
        yield f"Energy of a run: {_ends(totals, 'J')}{source}."
    yield from _of_cases(tables, options)


def _of_units(rows: Mapping[str, Mapping[str, Any]], groups: Sequence[RunGroup], options: Options) -> Iterator[str]:
    """Yield the energy and the cost of a token, else of a sample."""
    for unit in _UNITS:
        joules = _by_mark(rows, groups, f"energy_{unit}_j")
        costs = _by_mark(rows, groups, f"cost_million_{unit}s")
        if joules:
            yield f"Energy: {_ends(joules, 'J')} a {unit}{_power(list(rows.values())) if len(joules) == 1 else ''}."
        if costs:
            yield f"Cost, {options.gpu_hour:g} for a GPU hour: {_ends(costs, '')} for a million {unit}s."
        if joules or costs:
            return


def _of_cases(tables: Tables, options: Options) -> Iterator[str]:
    """Yield for each table of cases which one takes the least energy and which the most."""
    table = energy_cases.table(tables, options)
    rows_by_table = [rows for _, rows in table.groupby(["run", "table", "unit", "source"], sort=False, dropna=False)]
    for rows in rows_by_table[:_MOST_TABLES]:
        if len(rows) < _LEAST_CASES:
            continue
        unit, of = rows["unit"].iloc[0], rows["of"].iloc[0]
        what = f"{'an' if unit[0] in 'aeiou' else 'a'} {unit}" if isinstance(unit, str) else "a case"
        measured = f" of {_MEASURED.get(of, of)}" if isinstance(of, str) else ""
        low, high = rows.loc[rows["energy_unit_j"].idxmin()], rows.loc[rows["energy_unit_j"].idxmax()]
        ends = [f"{show(row['energy_unit_j'], 'J')} ({row['case']})" for row in (low, high)]
        together = "" if isinstance(unit, str) else f", {show(rows['energy_unit_j'].sum(), 'J')} together"
        yield f"Energy{measured}, {what} ({rows['source'].iloc[0]}): least {ends[0]}, most {ends[1]}{together}."
        costs = rows[rows["cost_million"].notna()]
        if len(costs):
            least = costs.loc[costs["cost_million"].idxmin()]
            price = f"{options.gpu_hour:g} for a GPU hour"
            yield f"Cost, {price}: least {show(least['cost_million'], '')} for a million {unit}s ({least['case']})."


def _total(rows: Sequence[Mapping[str, Any]]) -> str:
    """What the energy of a run is for, and the energy of its machine."""
    row = next(row for row in rows if row["energy_run_j"] is not None)
    of = f", of {_MEASURED.get(row['run_of'], row['run_of'])}" if row["run_of"] else ""
    machine = f"; {show(row['energy_machine_j'], 'J')} of the machine" if row["energy_machine_j"] is not None else ""
    return f"{of} ({row['run_source']}){machine}"


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
    """The only value; of several the least and the most, with their runs, or the value that they share."""
    low, high = min(values, key=lambda mark: values[mark]), max(values, key=lambda mark: values[mark])
    least, most = show(values[low], unit), show(values[high], unit)
    if least == most:
        return least if len(values) == 1 else f"{least} ({first_few(values)})"
    return f"{least} ({low}) to {most} ({high})"


def _power(rows: Sequence[Mapping[str, Any]]) -> str:
    """The power that the energy of a run was computed from, and its source."""
    row = next((row for row in rows if row["power_w"] is not None), None)
    if row is None or "/" in row["source"] or row["source"].endswith("token"):
        source = next(row["source"] for row in rows if row["source"])
        return f" ({source})"
    of = "for all GPUs" if row["of"] == ALL else "a GPU" if row["of"] == ONE else ""
    mean = f", mean of {row['measured']:,}" if (row["measured"] or 1) > 1 else ""
    return f", at {' '.join(filter(None, (show(row['power_w'], 'W'), of)))} ({row['source']}{mean})"
