"""The sweep of a report: which configuration of many runs is best, and what each setting does on its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perflog.analysis.overview.run_groups import SINGLE_RUNS
from perflog.grouping import grouped
from perflog.metrics.many_runs.factors import LOSS
from perflog.output.report.cells import AnswerTable, Bar, Cell, HeaderCell, Sentence, change_cell, number
from perflog.output.report.data import ReportData, TableRow
from perflog.units import show, show_change, show_interval

_FEWEST = 3  # configurations: two are a comparison
_SWEEPS, _CONFIGURATIONS, _FAILED, _FACTOR_ROWS = 3, 8, 3, 24  # that are shown
_FIGURES = {"tokens_per_s": "tokens/s", "samples_per_s": "samples/s", "step_time_s": "s", LOSS: ""}
"""Units of the figures that sweeps compare. More of a rate is better, and less of a time and of a loss."""


def sweeps(report: ReportData) -> Iterator[Sentence | AnswerTable]:
    """Yield the best configuration of each sweep, its other configurations, and its settings.

    None of few runs, of runs of several programs, and where most runs belong to no sweep.
    """
    programs = {(run["format"], run["program"]) for run in report.runs if run["run"] in report.steps}
    if len(report.runs) <= SINGLE_RUNS or len(programs) > 1:
        return
    rows_by_sweep = _by_sweep(report.rows_of("configurations"))
    factors = _by_sweep(report.rows_of("factors"))
    rows_by_sweep = {name: rows for name, rows in rows_by_sweep.items() if len(rows) >= _FEWEST}
    swept = sum(row["runs"] + row["failed"] for rows in rows_by_sweep.values() for row in rows)
    if 2 * swept < len(report.runs):
        return
    several = len({name for name, _ in rows_by_sweep}) > 1
    for (name, figure), rows in list(rows_by_sweep.items())[:_SWEEPS]:
        place = f" of {name}" * several + f" by {figure}" * (figure == LOSS)
        best, second, *_ = rows
        next_best = "" if second["change"] is None else f"; the next best has {show_change(second['change'])}"
        value = show(best["value"], _FIGURES[best["figure"]], 4)
        text = f"Best of {len(rows)} configurations{place}: {best['configuration']}, {value}{next_best}."
        yield Sentence(text, "reason")
        yield _configurations(f"configurations{place}", rows)
        if (name, figure) in factors:  # not where each setting has one value, which some runs do not print
            yield _settings(f"what each setting does{place}", factors[name, figure])


def _by_sweep(rows: Sequence[TableRow]) -> dict[tuple[str, str], list[TableRow]]:
    return grouped(((row["sweep"], row["figure"]), row) for row in rows)


def _configurations(title: str, rows: Sequence[TableRow]) -> AnswerTable:
    """The best configurations, then some of those that failed."""
    measured = [row for row in rows if row["value"] is not None]
    failed = [row for row in rows if row["value"] is None]
    shown = [*measured[:_CONFIGURATIONS], *failed[:_FAILED]]
    unit, longest = _FIGURES[rows[0]["figure"]], max(row["value"] for row in measured)
    lines: list[list[Cell]] = [
        [
            row["configuration"], number(row["runs"]), number(row["failed"] or None),
            number(row["value"], text=_value(row, unit)), change_cell(row["change"] or None),
            Bar(0.0, (row["value"] or 0.0) / longest),
        ]
        for row in shown
    ]  # fmt: skip
    numbers = ("runs", "failed", "step" if unit == "s" else unit or LOSS, "change")
    heads = [HeaderCell(title), *(HeaderCell(name, number=True) for name in numbers), HeaderCell("")]
    left_out = len(rows) - len(shown)
    note = f"{left_out} more: perflog analyze RUN configurations" if left_out else ""
    return AnswerTable(title, heads, lines, note).without_empty_columns()


def _value(row: TableRow, unit: str) -> str | None:
    """A time with its unit, a rate without."""
    return None if row["value"] is None else show(row["value"], unit, 4).removesuffix(f" {unit}" if "/" in unit else "")


def _settings(title: str, rows: Sequence[TableRow]) -> AnswerTable:
    """The values of each setting against the first of them, in runs that agree in all other settings."""
    shown = rows[:_FACTOR_ROWS]
    changes = [0.0, *(row["change"] for row in shown if row["change"] is not None)]
    low, span = min(changes), (max(changes) - min(changes)) or 1.0
    higher = rows[0]["figure"] not in ("step_time_s", LOSS)
    lines: list[list[Cell]] = []
    for row in shown:
        base = row["value"] == row["base"]
        change = row["change"] or 0.0
        interval = None if row["change_low"] is None else show_interval(row["change_low"], row["change_high"])
        lines.append([
            row["factor"], row["value"], number(row["runs"]),
            number(0.0, text="base") if base else change_cell(row["change"]), interval,
            Bar(-low / span, (change - low) / span, better=(change > 0) == higher),
            number(row["best_in"]), row["also"],
        ])  # fmt: skip
    heads = [
        HeaderCell(title), HeaderCell("value"), HeaderCell("runs", number=True), HeaderCell("change", number=True),
        HeaderCell("interval"), HeaderCell(""),
        HeaderCell("best in", number=True, tooltip="number of groups of runs that agree in all other settings"),
        HeaderCell("also differs", tooltip="settings that may cause the change"),
    ]  # fmt: skip
    left_out = len(rows) - len(shown)
    note = f"{left_out} more: perflog analyze RUN factors" if left_out else ""
    return AnswerTable(title, heads, lines, note).without_empty_columns()
