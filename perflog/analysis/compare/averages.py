"""Averages that the logs print, and the mean of the same steps on the other sides.

Two printed averages are comparable only if they cover the same steps, so each window is recomputed for every side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from perflog.analysis.compare.sides import Case, ResultRow, Side
from perflog.metrics import MetricColumn
from perflog.metrics.step_series import StepSeries, step_series
from perflog.tables.columns import NULL
from perflog.tables.schema import TABLES

COLUMNS = (
    MetricColumn("case", meaning="the configuration that the sides share"),
    MetricColumn("figure", meaning="what the log averages"),
    MetricColumn("window_first", meaning="first step of the mean"),
    MetricColumn("window_last", meaning="last step of the mean"),
    MetricColumn("side", meaning="name of the side"),
    MetricColumn("run", meaning="run id"),
    MetricColumn("line", meaning="line that prints it"),
    MetricColumn("value", meaning="mean over these steps, in base units; null where the run lacks one of them"),
    MetricColumn("unit", meaning="base unit"),
    MetricColumn("printed", meaning="true: the log prints it; false: computed from the printed steps"),
)

_COLUMNS = [column.name for column in TABLES["steps"] if column.type == "float64"]


def averages(sides: Sequence[Side], cases: Sequence[Case]) -> list[ResultRow]:
    """Return every average that a side prints, and for every side the mean of the same steps."""
    rows: list[ResultRow] = []
    for case in cases:
        printed = [_printed(side, runs) for side, runs in zip(sides, case.runs, strict=True)]
        for figure in dict.fromkeys(row["figure"] for of_side in printed for row in of_side):
            of_figure = [[row for row in of_side if row["figure"] == figure] for of_side in printed]
            windows = {window_of(row): None for of_side in of_figure for row in of_side}
            for window in windows:
                for side, runs, of_side in zip(sides, case.runs, of_figure, strict=True):
                    same = [row for row in of_side if window_of(row) == window]
                    if window != (None, None):
                        unit = next(row["unit"] for of_side in of_figure for row in of_side)
                        printing = {row["run"] for row in same}
                        same += list(_computed(side, [r for r in runs if r not in printing], figure, window, unit))
                    rows += [{"case": case.name, "side": side.name} | row for row in same]
    return [{c.name: row.get(c.name) for c in COLUMNS} for row in rows]


def window_of(row: ResultRow) -> tuple[int | None, int | None]:
    """Return the first and last step of an average; None where no window of steps gives the printed figure."""
    return row["window_first"], row["window_last"]


def _printed(side: Side, runs: Sequence[str]) -> list[ResultRow]:
    """The averages that runs print."""
    summaries = side.tables.rows("summaries")
    names = ("run", "line", "value", "unit", "window_first", "window_last", "key")
    printed = (
        dict(zip(names, row, strict=True)) for row in summaries.where(summaries.one_of("run", runs)).records(*names)
    )
    return [_with_nulls(row) | {"figure": row["key"], "printed": True} for row in printed]


def _with_nulls(row: ResultRow) -> ResultRow:
    """The row with None for an integer or a number that is null."""
    return {name: None if value == NULL or value != value else value for name, value in row.items() if name != "key"}


def _computed(side: Side, runs: Sequence[str], figure: str, window: tuple[Any, Any], unit: str) -> Iterator[ResultRow]:
    """The mean over a window in runs that do not print it."""
    printed = _printed_steps(side, figure) if runs else {}
    for run in runs:
        steps = printed.get(run)
        if steps is None:
            continue
        inside = (steps.steps >= window[0]) & (steps.steps <= window[1])
        complete = int(inside.sum()) * steps.averaged == window[1] - window[0] + 1
        value = float(np.mean(steps.values[inside])) if complete else None
        row: ResultRow = {"figure": figure, "run": run, "unit": unit, "printed": False, "value": value}
        yield row | {"window_first": window[0], "window_last": window[1]}


def _printed_steps(side: Side, figure: str) -> dict[str, StepSeries]:
    """Return all values of a figure's column of `steps` by run; none if there is no such column."""
    column = next((name for name in (figure, f"{figure}_s") if name in _COLUMNS), None)
    return {series.run: series for series in step_series(side.tables, column, 0)} if column else {}
