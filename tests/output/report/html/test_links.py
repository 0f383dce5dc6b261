"""Anchors of a page: to runs, lines and rows, as far as the page lists them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from perflog.output.report.data import FigureSource
from perflog.output.report.html import links as module


@pytest.mark.parametrize(
    ("place", "anchor"), [(1, "run-1"), (module.MAX_RUNS, "run-150"), (module.MAX_RUNS + 1, "runs")]
)
def test_runs_beyond_those_that_are_listed_are_in_the_list_of_runs(place: int, anchor: str) -> None:
    report: Any = SimpleNamespace(places={"r": place}, names={"r": "name"})
    assert module.run_anchor(report, "r") == anchor
    assert module.run_link(report, "r") == f'<a href="#{anchor}" class="name">name</a>'


@pytest.mark.parametrize(
    ("tables", "anchor"),
    [(["steps"], "lines-steps"), (["phases", "steps", "runs"], "lines-steps"), (["phases"], "lines"), ([], "lines")],
)
def test_lines_are_among_the_samples_of_their_table(tables: list[str], anchor: str) -> None:
    shapes = [SimpleNamespace(table=table) for table in ["runs", "steps", *["other"] * 198, "phases"]]
    report: Any = SimpleNamespace(shapes=shapes)
    link = module.lines_link(report, FigureSource("r", "5–9"), *tables)
    assert link == f'<a href="#{anchor}" class="lines">5–9</a>'


@pytest.mark.parametrize(("left_out", "note"), [(-3, ""), (0, ""), (1, "1 more row: perflog runs")])
def test_a_note_on_rows_that_are_left_out(left_out: int, note: str) -> None:
    assert module.left_out_note(left_out, "runs") == note


def test_rows_count_from_1() -> None:
    table: Any = SimpleNamespace(name="steps")
    assert module.row_anchor(table, 0) == "steps-1"
