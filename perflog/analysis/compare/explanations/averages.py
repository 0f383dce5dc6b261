"""Averages that the logs print, and the mean of the same steps on the other sides.

Two printed averages are comparable only if they cover the same steps, so each window is recomputed for every side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perflog.analysis.compare.sides import Case, Side
from perflog.metrics.registry import column, columns_of
from perflog.metrics.step_series import StepSeries, step_series
from perflog.tables.columns import NULL
from perflog.tables.schema import TABLES


class AverageRow(Struct, frozen=True):
    """An average that a log prints, or the mean of the same steps of another run."""

    case: Annotated[str, column("the configuration that the sides share")]
    figure: Annotated[str, column("what the log averages")]
    window_first: Annotated[int | None, column("first step of the mean")]
    window_last: Annotated[int | None, column("last step of the mean")]
    side: Annotated[str, column("name of the side")]
    run: Annotated[str, column("run id")]
    line: Annotated[int | None, column("line that prints it")]
    value: Annotated[float | None, column("mean over these steps, in base units; null where the run lacks one of them")]
    unit: Annotated[str | None, column("base unit")]
    printed: Annotated[bool, column("true: the log prints it; false: computed from the printed steps")]


COLUMNS = columns_of(AverageRow)

_COLUMNS = [column.name for column in TABLES["steps"] if column.type == "float64"]


def averages(sides: Sequence[Side], cases: Sequence[Case]) -> list[AverageRow]:
    """Return every average that a side prints, and for every side the mean of the same steps."""
    rows: list[AverageRow] = []
    for case in cases:
        printed = [list(_printed(case.name, side, runs)) for side, runs in zip(sides, case.runs, strict=True)]
        for figure in dict.fromkeys(row.figure for side_rows in printed for row in side_rows):
            figure_rows = [[row for row in side_rows if row.figure == figure] for side_rows in printed]
            windows = {window_of(row): None for side_rows in figure_rows for row in side_rows}
            for window in windows:
                for side, runs, side_rows in zip(sides, case.runs, figure_rows, strict=True):
                    same = [row for row in side_rows if window_of(row) == window]
                    if window != (None, None):
                        unit = next(row.unit for side_rows in figure_rows for row in side_rows)
                        printing = {row.run for row in same}
                        wanted = AverageRow(case.name, figure, *window, side.name, "", None, None, unit, printed=False)
                        same += _computed(side, [r for r in runs if r not in printing], wanted)
                    rows += same
    return rows


def window_of(row: AverageRow) -> tuple[int | None, int | None]:
    """Return the first and last step of an average; None if no window of steps has the printed average."""
    return row.window_first, row.window_last


def _printed(case: str, side: Side, runs: Sequence[str]) -> Iterator[AverageRow]:
    """The averages that runs print."""
    summaries = side.tables.rows("summaries")
    names = ("key", "window_first", "window_last", "run", "line", "value", "unit")
    for key, first, last, run, line, value, unit in summaries.where(summaries.one_of("run", runs)).records(*names):
        window = _known(first), _known(last)
        yield AverageRow(case, key, *window, side.name, run, _known(line), _known(value), unit, printed=True)


_Number = TypeVar("_Number", int, float)


def _known(value: _Number) -> _Number | None:
    """None for an integer or a number that is null."""
    return None if value == NULL or value != value else value


def _computed(side: Side, runs: Sequence[str], wanted: AverageRow) -> Iterator[AverageRow]:
    """The mean over the window of a row, in runs that do not print it."""
    printed = _printed_steps(side, wanted.figure) if runs else {}
    first, last = wanted.window_first, wanted.window_last
    for run in runs:
        steps = printed.get(run)
        if steps is None or first is None or last is None:
            continue
        inside = (steps.steps >= first) & (steps.steps <= last)
        complete = int(inside.sum()) * steps.averaged == last - first + 1
        yield replace(wanted, run=run, value=float(np.mean(steps.values[inside])) if complete else None)


def _printed_steps(side: Side, figure: str) -> dict[str, StepSeries]:
    """Return all values of a column of `steps` by run; empty if there is no such column."""
    column = next((name for name in (figure, f"{figure}_s") if name in _COLUMNS), None)
    return {series.run: series for series in step_series(side.tables, column, 0)} if column else {}
