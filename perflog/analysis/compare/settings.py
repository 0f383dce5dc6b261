"""In what the sides differ: settings, and what the printed averages are averages of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from perflog.analysis.compare.rows import Row
from perflog.analysis.compare.sides import OF_A_TRACE, Case, Side
from perflog.metrics import Column
from perflog.metrics.step_series import Series, series

SUMMARIES = (
    Column("case", meaning="the configuration that the sides share"),
    Column("figure", meaning="what the log sums up"),
    Column("window_first", meaning="first step of the mean"),
    Column("window_last", meaning="last step of the mean"),
    Column("side", meaning="name of the side"),
    Column("run", meaning="run id"),
    Column("line", meaning="line that prints it"),
    Column("value", meaning="mean over these steps, in base units; null where the run has not all of them"),
    Column("unit", meaning="base unit"),
    Column("printed", meaning="whether the log prints it; else it is computed from the printed steps"),
)
_NOT_SAID = "-"
_NAMES_A_START = ("pid", "tag", "started", *OF_A_TRACE)


def settings(sides: Sequence[Side], cases: Sequence[Case]) -> list[Row]:
    """Settings in which the sides differ, by case: a column for each side, with all values it has."""
    made: list[Row] = []
    for case in cases:
        said = [[side.settings[run] for run in runs] for side, runs in zip(sides, case.runs, strict=True)]
        for name in dict.fromkeys(name for runs in said for one in runs for name in one):
            values = [tuple(dict.fromkeys(one.get(name, _NOT_SAID) for one in runs)) for runs in said]
            if name not in _NAMES_A_START and len({frozenset(v) for v in values if v}) > 1:
                texts = dict(zip((side.name for side in sides), map(" | ".join, values), strict=True))
                made.append({"case": case.name, "setting": name, **texts})
    return made


# --- printed averages ---------------------------------------------------------------------------------------------


def summaries(sides: Sequence[Side], cases: Sequence[Case]) -> list[Row]:
    """Every window that a side prints an average of, and for every side the mean of the same steps."""
    made: list[Row] = []
    for case in cases:
        printed = [_printed(side, runs) for side, runs in zip(sides, case.runs, strict=True)]
        for figure in dict.fromkeys(one["figure"] for ones in printed for one in ones):
            mine = [[one for one in ones if one["figure"] == figure] for ones in printed]
            windows = {_window(one): None for ones in mine for one in ones}
            for window in windows:
                for side, runs, ones in zip(sides, case.runs, mine, strict=True):
                    rows = [one for one in ones if _window(one) == window]
                    if window != (None, None):
                        unit = next(one["unit"] for ones in mine for one in ones)
                        have = {one["run"] for one in rows}
                        rows += list(_computed(side, [r for r in runs if r not in have], figure, window, unit))
                    made += [{"case": case.name, "side": side.name} | one for one in rows]
    return [{c.name: one.get(c.name) for c in SUMMARIES} for one in made]


def _window(one: Row) -> tuple[int | None, int | None]:
    return one["window_first"], one["window_last"]


def _printed(side: Side, runs: Sequence[str]) -> list[Row]:
    same = ("run", "line", "value", "unit", "window_first", "window_last")
    made = {}
    for log in side.logs:
        for row in log.arrow("summaries").to_pylist():
            if row["run"] in runs:
                one = {name: row[name] for name in same} | {"figure": row["key"], "printed": True}
                made[row["run"], row["line"], row["part"], row["key"]] = one
    return list(made.values())


def _computed(side: Side, runs: Sequence[str], figure: str, window: tuple[Any, Any], unit: str) -> Iterator[Row]:
    for run in runs:
        steps = printed_steps(side, run, figure)
        if steps is None:
            continue
        inside = (steps.steps >= window[0]) & (steps.steps <= window[1])
        whole = int(inside.sum()) * steps.averaged == window[1] - window[0] + 1
        value = float(np.mean(steps.values[inside])) if whole else None
        made: Row = {"figure": figure, "run": run, "unit": unit, "printed": False, "value": value}
        yield made | {"window_first": window[0], "window_last": window[1]}


def printed_steps(side: Side, run: str, figure: str) -> Series | None:
    """All values of a figure's column in a run; None where it is no column of `steps`, or the run does not print it."""
    for tables in side.tables:
        steps = tables["steps"]
        column = next((name for name in (figure, f"{figure}_s") if name in steps), None)
        mine = {name: tables[name][tables[name]["run"] == run] for name in ("runs", "steps")}
        if column and len(mine["runs"]):
            return next(series(mine, column, 0), None)
    return None
