"""The tables of a comparison, with what their columns mean and the runs that their rows are of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from perflog.analysis.compare import Comparison, VerdictRule
from perflog.analysis.compare.attribution import COLUMNS as PARTS
from perflog.analysis.compare.averages import COLUMNS as AVERAGES
from perflog.analysis.compare.rows import COLUMNS as ROWS
from perflog.metrics import MetricColumn
from perflog.output.report.subject import Measured, Row, Source, span, telling
from perflog.output.sheets import Quantity

_ORDER = (
    "case", "side", "kind", "metric", "base_value", "side_value", "ratio", "ratio_low", "ratio_high",
    "verdict", "reason",
)  # fmt: skip
_IN_UNIT = ("base_value", "base_low", "base_high", "side_value", "side_low", "side_high", "shift", "value")
_LEFT_OUT = ("unit", "better", "derived", "base", "fails")

_AVERAGES = Measured(
    name="averages",
    title="printed averages, and those of the same steps",
    formula="mean of the printed steps of a window, on each side; the window is the one that gives the printed figure",
    source="the logs",
)
_PARTS = Measured(
    name="attribution",
    title="where the difference went",
    formula="difference = side - base, of medians of steady steps; share = difference / that of the whole",
    source="what is part of what: the format of the log",
)


def _ratios(rule: VerdictRule) -> Measured:
    return Measured(
        name="comparison",
        title="comparison",
        formula="ratio = median of the base / median of the side where lower is better, else the inverse; a median is "
        f"that of the runs' medians of steady steps; {rule.level:.0%} interval from {rule.draws} bootstrap draws",
        source=f"regression or improvement from {rule.threshold:.0%} (asv, pytest-benchmark), equivalent within "
        f"{rule.equivalence:.0%}; bootstrap of runs, then of circular blocks of steps; p: Mann-Whitney U, Holm",
    )


def compared(found: Comparison, runs: Sequence[Row]) -> list[Measured]:
    """Rows, printed averages and attribution of a comparison, each if it has any."""
    lines = {r["run"]: span(r["first_line"], r["last_line"]) for r in runs}
    tables = (
        (_ratios(found.rule), ROWS, found.row_records),
        (_AVERAGES, AVERAGES, found.summary_records),
        (_PARTS, PARTS, found.attribution_records),
    )
    return [_filled(about, columns, given, found, lines) for about, columns, given in tables if given]


def _filled(
    about: Measured, columns: Sequence[MetricColumn], given: Sequence[Row], found: Comparison, lines: Mapping[str, str]
) -> Measured:
    rows = [{name: _plain(value, name, row) for name, value in row.items()} for row in given]
    alike = {c.name for c in columns if c.name in ("case", "side") and len({row[c.name] for row in rows}) == 1}
    kept = [c for c in columns if c.name not in _LEFT_OUT and c.name not in alike]
    kept.sort(key=lambda c: _ORDER.index(c.name) if c.name in _ORDER else len(_ORDER))
    sources = [tuple(Source(run, _line(row) or lines[run]) for run in _runs(row, found)) for row in given]
    windows = [_window(row, found) for row in given]
    return replace(about, columns=telling(kept, rows), rows=rows, sources=sources, windows=windows)


def _runs(row: Row, found: Comparison) -> list[str]:
    """The runs that a row is of: its own, or those of both sides in its case."""
    if "run" in row:
        return [row["run"]]
    case = next(case for case in found.cases if case.name == row["case"])
    sides = zip(found.sides, case.runs, strict=True)
    return [run for side, runs in sides if side in (found.sides[0], row["side"]) for run in runs]


def _line(row: Row) -> str:
    """The line that prints it."""
    return "" if row.get("line") is None else str(row["line"])


def _window(row: Row, found: Comparison) -> str:
    if "window_first" in row:
        return "unknown" if row["window_first"] is None else span(row["window_first"], row["window_last"])
    cut = next(cut for case, cut in zip(found.cases, found.warmup, strict=True) if case.name == row["case"])
    return f"without the first {cut}" if cut else "all"


def _plain(value: object, name: str, row: Row) -> object:
    """None for what is missing; with its unit what is in the unit of its row."""
    if value is None or value != value:
        return None
    if name in _IN_UNIT and isinstance(value, int | float):
        return Quantity(value, row["unit"] or "")
    return value
