"""Sheets of baselines: `perflog baseline`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from perflog.analysis.compare.baselines import Baseline, members
from perflog.analysis.run_list import RunList
from perflog.log import Log
from perflog.output.sheets import Sheet, SheetColumn, pairs, sheet
from perflog.units import UTC

_FACTS = ("label", "ingested", "commit", "branch", "median_step", "log")
"""What tells of a run, as far as one of the runs has it."""


def list_sheet(known: Mapping[str, Baseline], log: Log) -> Sheet:
    """Return one row for each baseline."""
    rows = []
    for baseline in known.values():
        present = members(baseline, log)[-1]
        level = baseline.levels[-1]
        chosen = baseline.where or ""
        rows.append(
            (baseline.name, len(present), chosen, baseline.last, len(baseline.levels), level.began, level.reason)
        )
    return sheet("baselines", "baseline runs# where last# level# since reason", rows)


def show_sheets(baseline: Baseline, log: Log) -> Iterator[Sheet]:
    """Return what a baseline is, its levels and its runs, the latest first."""
    levels = members(baseline, log)
    about: list[tuple[str, Any]] = [("baseline", baseline.name), ("where", baseline.where), ("last", baseline.last)]
    yield pairs("baseline", about, baseline.name)
    rows = [
        (number, level.began, len(level_runs), level.reason)
        for number, (level, level_runs) in enumerate(zip(baseline.levels, levels, strict=True), 1)
    ]
    yield sheet("levels", "level# since runs# reason", rows, "levels")
    runs = [(number, key) for number, level_runs in enumerate(levels, 1) for key in level_runs]
    shown = RunList(log)
    shown.keys = [key for _, key in runs]
    facts = {name: of for name in _FACTS if (of := _facts(shown, name))}
    units = {name: shown.unit(name) for name in facts}
    columns = [SheetColumn("level", number=True), SheetColumn("run", role="run")]
    columns += [
        SheetColumn(
            name,
            unit,
            name == "median_step",
            f"{name} (UTC)" if unit == UTC else "",
            "" if name == "median_step" else "detail",
        )
        for name, unit in units.items()
    ]
    cells = [[number, key.id, *(of.get(key.id) for of in facts.values())] for number, key in reversed(runs)]
    yield Sheet("runs", tuple(columns), cells, title="runs")


def _facts(runs: RunList, name: str) -> Mapping[str, object]:
    """A fact of the runs that have it; nothing if none has."""
    from perflog.errors import UsageError

    try:
        facts = runs.facts(name)
    except UsageError:
        return {}
    return {key.id: facts[key.id] for key in runs.keys if facts.get(key.id) is not None}
