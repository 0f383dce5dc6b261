"""Sheets of metrics: columns, titles, roles and limits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from perflog.metrics import MetricColumn, Options
from perflog.output import terminal
from perflog.output.presenters import metrics as module
from perflog.output.presenters.metrics import metric_list_sheet, metric_sheet, metric_sheets

if TYPE_CHECKING:
    import pytest

COLUMNS = (
    MetricColumn("run"), MetricColumn("label"), MetricColumn("name"), MetricColumn("time_s", "s"),
    MetricColumn("share", "1"),
    MetricColumn("hidden_s", "s", brief=False), MetricColumn("n"), MetricColumn("empty", "s"),
)  # fmt: skip
METRIC: Any = SimpleNamespace(
    name="steps", title="steps of a run", columns=COLUMNS, main="time_s", formula="the formula", source="the source"
)


def table(*rows: tuple[Any, ...]) -> pd.DataFrame:
    names = ["run", "label", "name", "time_s", "share", "n"]
    made = pd.DataFrame(rows, columns=names).assign(hidden_s=1.0, empty=np.nan)
    return made[[column.name for column in COLUMNS]]


ONE = table(("r", "one", "a", 0.5, 0.25, 3), ("r", "one", "b", np.nan, 0.75, 4))
TWO = table(("r", "one", "a", 0.5, 0.25, 3), ("q", "two", "a", 1.5, 0.75, 3))


def test_people_see_no_empty_columns_and_programs_all() -> None:
    shown = metric_sheet(METRIC, ONE, "text")
    assert [(c.name, c.title, c.unit, c.number, c.role) for c in shown.columns] == [
        ("name", "name", "", False, ""), ("time_s", "time", "s", True, "verdict"), ("share", "share", "1", True, ""),
        ("n", "n", "", True, "detail"),
    ]  # fmt: skip
    assert list(shown.rows) == [("a", 0.5, 0.25, 3), ("b", None, 0.75, 4)]
    assert (shown.key, shown.title, shown.note) == ("steps", "steps of a run of one", "the formula\nthe source")
    whole = metric_sheet(METRIC, ONE, "json")
    assert [column.name for column in whole.columns] == [column.name for column in COLUMNS]
    assert (whole.title, whole.note) == ("", "") and type(next(iter(whole.rows))[6]) is int


def test_several_runs_have_a_column() -> None:
    """Their labels if all have one; what is the same in all rows and has no unit is a detail."""
    shown = metric_sheet(METRIC, TWO, "md")
    assert (shown.title, [c.name for c in shown.columns][:2]) == ("steps of a run", ["label", "name"])
    assert {c.name: c.role for c in shown.columns} == {
        "label": "run", "name": "detail", "time_s": "verdict", "share": "", "n": "detail"
    }  # fmt: skip
    unlabelled = metric_sheet(METRIC, TWO.assign(label=["one", None]), "text")
    assert [(c.name, c.role) for c in unlabelled.columns][:2] == [("run", "run"), ("label", "detail")]
    assert metric_sheet(METRIC, ONE.assign(label=None), "text").title == "steps of a run of r"
    assert metric_sheet(METRIC, ONE.assign(label=None, run=""), "text").title == "steps of a run"


def test_names_of_runs_replace_their_ids() -> None:
    names = metric_sheet(METRIC, TWO.assign(label=None), "text", run_names={"r": "#1"})
    assert [row[0] for row in names.rows] == ["#1", "q"]


def test_limits_of_rows() -> None:
    long = table(*(("r", "one", str(n), 1.0, 0.5, n) for n in range(42)))
    for format, limit, count in (
        ("text", None, 40),
        ("text", 0, 42),
        ("text", 42, 42),
        ("json", None, 42),
        ("json", 5, 5),
    ):
        shown = metric_sheet(METRIC, long, format, limit)
        assert len(list(shown.rows)) == count
    assert metric_sheet(METRIC, long, "text").note.startswith("2 more rows: --limit 0 shows all 42\nthe formula")
    assert metric_sheet(METRIC, long[:0], "text").note == "these runs have no data to compute it from"


def test_kernels_have_short_names_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels: Any = SimpleNamespace(**vars(METRIC) | {"name": "kernels", "columns": (*COLUMNS, MetricColumn("by"))})
    long = "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>(int)"
    rows = table(("r", "one", long, 0.5, 0.25, 3), ("r", "one", long, 0.5, 0.25, 3)).assign(by=["name", "category"])
    monkeypatch.setattr(terminal, "width", lambda: 80)
    first, second = (row[0] for row in metric_sheet(kernels, rows, "text").rows)
    assert len(first) < len(long) and second == long
    assert next(iter(metric_sheet(METRIC, rows, "text").rows))[0] == long
    monkeypatch.setattr(terminal, "width", lambda: None)
    assert next(iter(metric_sheet(kernels, rows, "text").rows))[0] == long


def test_named_metrics_are_shown_and_of_all_those_with_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    some, none = (
        SimpleNamespace(**vars(METRIC) | {"name": name, "table": lambda *_, rows=rows: rows})
        for name, rows in (("some", ONE), ("none", ONE[:0]))
    )
    monkeypatch.setattr(module, "METRICS", {"some": some, "none": none})
    monkeypatch.setattr(module, "get", {"some": some, "none": none}.__getitem__)
    monkeypatch.setattr(module, "marks_of", lambda _: {"r": "mark"})
    monkeypatch.setattr(module, "printed_names", lambda _: {"r": "printed"})
    log: Any = {}
    (shown,) = metric_sheets(log, [], Options(), "text")
    assert (shown.key, list(shown.marks)) == ("some", ["r"])
    assert [each.key for each in metric_sheets(log, ["none", "some"], Options(), "md")] == ["none", "some"]
    *tables, formulas, sources = metric_sheets(log, [], Options(), "json")
    assert [each.marks for each in tables] == [{}] and next(iter(tables[0].rows))[0] == "r"
    assert (list(formulas.rows), list(sources.rows)) == ([("some", "the formula")], [("some", "the source")])
    monkeypatch.setattr(module, "METRICS", {"some": SimpleNamespace(**vars(some) | {"needs": ("steps", "events")})})
    assert list(metric_list_sheet().rows) == [("some", "steps of a run", "steps, events", "the formula")]
