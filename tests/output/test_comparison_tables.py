"""The tables of a comparison, as reports show them."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from support.figure_rows import figure_row

from perflog.analysis.compare.explanations.averages import AverageRow
from perflog.analysis.compare.sides import Case
from perflog.output.report import comparison_tables as module
from perflog.output.report.comparison_tables import comparison_tables
from perflog.output.report.data import FigureSource, MetricTable
from perflog.output.sheets import Quantity

if TYPE_CHECKING:
    import pytest

RUNS = [{"run": run, "first_line": 1, "last_line": 9} for run in ("a0", "a1", "b0", "c0")]
CASES = (Case("one", (("a0",), ("b0",), ("c0",))), Case("two", (("a1",), ("b0",), ())))


def tables(**fields: Any) -> list[MetricTable]:
    usual = dict.fromkeys(("row_records", "summary_records", "attribution_records", "operator_records"), ())
    rule = SimpleNamespace(level=0.95, threshold=0.05)
    more = {"sides": ("base", "side", "other"), "cases": CASES, "warmup": (2, 0), "rule": rule}
    comparison: Any = SimpleNamespace(**usual | more | fields)
    return comparison_tables(comparison, RUNS)


def test_the_changes_of_each_case_and_side() -> None:
    """Runs of the base and of the side in the case are the sources; values have the unit of their row."""
    rows = (
        figure_row(case="one", side="side", base_value=1.0, side_value=math.nan, p_holm=0.5),
        figure_row(case="two", side="side"),
    )
    (table,) = tables(row_records=rows)
    assert (table.name, table.title) == ("comparison", "comparison")
    assert "95% interval" in table.formula and "from 5%" in table.source
    names = [column.name for column in table.columns]
    assert names[:2] == ["case", "kind"] and "side" not in names and "unit" not in names
    assert table.rows[0]["base_value"] == Quantity(1.0, "s") and table.rows[0]["side_value"] is None
    assert table.rows[0]["p_holm"] == 0.5
    assert table.sources == [
        (FigureSource("a0", "1–9"), FigureSource("b0", "1–9")),
        (FigureSource("a1", "1–9"), FigureSource("b0", "1–9")),
    ]
    assert table.windows == ["without the first 2", "all"]
    (of_one,) = tables(row_records=rows[:1])
    assert "case" not in [column.name for column in of_one.columns]


def test_averages_name_their_run_line_and_window() -> None:
    printed = AverageRow("one", "step_time", 5, 9, "side", "b0", 42, 1.5, "s", printed=True)
    unknown = AverageRow("one", "step_time", None, None, "base", "a0", None, 2.0, None, printed=False)
    (table,) = tables(summary_records=(printed, unknown))
    assert table.name == "averages" and table.windows == ["5–9", "unknown"]
    assert table.sources == [(FigureSource("b0", "42"),), (FigureSource("a0", "1–9"),)]
    assert [row["value"] for row in table.rows] == [Quantity(1.5, "s"), Quantity(2.0, "")]


def test_each_table_has_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tables() == []
    assert [table.name for table in tables(row_records=(figure_row(case="one", side="side"),), summary_records=(
        AverageRow("one", "x", 1, 2, "side", "b0", 1, 1.0, "s", printed=True),
    ))] == ["comparison", "averages"]  # fmt: skip
    monkeypatch.setattr(module, "time_basis", lambda row: row)
    assert module._operators(["of a step", "of a step"]).title.endswith("sides, of a step")  # type: ignore[list-item]
    assert module._operators(["of a step", "of a trace"]).title.endswith("on both sides")  # type: ignore[list-item]
