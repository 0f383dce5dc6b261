"""The tables of a comparison, in the form that reports show metrics in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import asdict, replace

from perflog.analysis.compare import Comparison, VerdictRule
from perflog.analysis.compare.explanations.attribution import COLUMNS as ATTRIBUTION_COLUMNS
from perflog.analysis.compare.explanations.averages import COLUMNS as AVERAGE_COLUMNS
from perflog.analysis.compare.explanations.operators import COLUMNS as OPERATOR_COLUMNS
from perflog.analysis.compare.explanations.operators import OperatorRow, time_basis
from perflog.analysis.compare.rows import COLUMNS as COMPARISON_COLUMNS
from perflog.metrics import MetricColumn
from perflog.output.report.data import FigureSource, MetricTable, TableRow, informative_columns, range_text
from perflog.output.sheets import Quantity
from perflog.tables.nulls import none_if_null

_COLUMNS_OF_CHANGES = (
    "case", "side", "kind", "metric", "statistic", "base_value", "side_value", "change", "change_low", "change_high",
    "p_holm", "verdict", "reason", "advice",
)  # fmt: skip
_IN_UNIT_OF_ROW = ("base_value", "base_low", "base_high", "side_value", "side_low", "side_high", "shift", "value")
_LEFT_OUT = ("unit",)
_IN_TITLES = ("case", "side", "part")  # or above the table: no column where all rows have one value

_AVERAGES = MetricTable(
    name="averages",
    title="printed averages, computed over the same steps",
    formula="mean of the printed steps of a window, on each side; the window is the one that gives the printed average",
    source="the logs",
)
_ATTRIBUTION = MetricTable(
    name="attribution",
    title="where the difference went",
    formula="difference = side - base, of medians of steady steps; share = difference / difference of the whole",
    source="the format of the log declares the parent of each phase",
)


_OPERATORS = MetricTable(
    name="operators",
    title="GPU time by operator on both sides",
    formula="GPU time of the work that an operator launched, in a steady step, or in a trace without annotated steps; "
    "mean over steps and devices; the rows inside an operator, and what it launches itself, add up to it",
    source="operators are matched by what is around them, their names and the shapes of their inputs",
)


def _operators(rows: Sequence[OperatorRow]) -> MetricTable:
    """Return the head of the table of operators: its title says what the times are of, where all are of the same."""
    parts = {time_basis(row) for row in rows}
    return replace(_OPERATORS, title=", ".join([_OPERATORS.title, *parts])) if len(parts) == 1 else _OPERATORS


def _changes(rule: VerdictRule) -> MetricTable:
    return MetricTable(
        name="comparison",
        title="comparison",
        formula="change = side / base - 1, of geometric means over runs of a statistic of their steady steps; "
        f"{rule.level:.0%} interval of Welch's t, within one run per side of a block bootstrap",
        source=f"regression or improvement from {rule.threshold:.0%}, equivalent if surely less; p adjusted by Holm",
    )


def comparison_tables(comparison: Comparison, runs: Sequence[TableRow]) -> list[MetricTable]:
    """Return the changes, averages, attribution and operators of a comparison, each table only if it has rows."""
    run_lines = {run["run"]: range_text(run["first_line"], run["last_line"]) for run in runs}
    by_name = {c.name: c for c in COMPARISON_COLUMNS}
    columns_of_changes = [by_name[name] for name in _COLUMNS_OF_CHANGES]
    tables = (
        (_changes(comparison.rule), columns_of_changes, comparison.row_records),
        (_AVERAGES, AVERAGE_COLUMNS, comparison.summary_records),
        (_ATTRIBUTION, ATTRIBUTION_COLUMNS, comparison.attribution_records),
        (_operators(comparison.operator_records), OPERATOR_COLUMNS, comparison.operator_records),
    )
    return [
        _with_rows(table, columns, [*map(asdict, rows)], comparison, run_lines)
        for table, columns, rows in tables
        if rows
    ]


def _with_rows(
    table: MetricTable,
    columns: Sequence[MetricColumn],
    raw_rows: Sequence[TableRow],
    comparison: Comparison,
    run_lines: Mapping[str, str],
) -> MetricTable:
    rows = [{name: _plain(value, name, row) for name, value in row.items()} for row in raw_rows]
    constant = {c.name for c in columns if c.name in _IN_TITLES and len({row[c.name] for row in rows}) == 1}
    shown = [c for c in columns if c.name not in _LEFT_OUT and c.name not in constant]
    sources = [
        tuple(FigureSource(run, _printed_line(row) or run_lines[run]) for run in _runs_of(row, comparison))
        for row in raw_rows
    ]
    windows = [_window(row, comparison) for row in raw_rows]
    return replace(table, columns=informative_columns(shown, rows), rows=rows, sources=sources, windows=windows)


def _runs_of(row: TableRow, comparison: Comparison) -> list[str]:
    """Return the run of a row, or else the runs of both sides in its case."""
    if "run" in row:
        return [row["run"]]
    case = next(case for case in comparison.cases if case.name == row["case"])
    sides = zip(comparison.sides, case.runs, strict=True)
    return [run for side, runs in sides if side in (comparison.sides[0], row["side"]) for run in runs]


def _printed_line(row: TableRow) -> str:
    """Return the number of the line that prints a row's value; empty where no line does."""
    return "" if row.get("line") is None else str(row["line"])


def _window(row: TableRow, comparison: Comparison) -> str:
    if "window_first" in row:
        return "unknown" if row["window_first"] is None else range_text(row["window_first"], row["window_last"])
    warmups = zip(comparison.cases, comparison.warmup, strict=True)
    cut = next(warmup for case, warmup in warmups if case.name == row["case"])
    return f"without the first {cut}" if cut else "all"


def _plain(value: object, name: str, row: TableRow) -> object:
    """Return None for a missing value, and a value with its unit if the row holds the unit."""
    if none_if_null(value) is None:
        return None
    if name in _IN_UNIT_OF_ROW and isinstance(value, int | float):
        return Quantity(value, row["unit"] or "")
    return value
