"""Tables of metrics on a page: how many rows each may have, their cells and links, and definitions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace

from perflog.metrics import MetricColumn
from perflog.output.report.data import FigureSource, MetricTable
from perflog.output.report.html.metric_tables import definitions, metric_table, rows_shown

COLUMNS = (MetricColumn("name", meaning="its name"), MetricColumn("time_s", "s", "lower", "time `of` it"))


def table(rows: int, name: str = "steps", columns: tuple[MetricColumn, ...] = COLUMNS, **more: Any) -> MetricTable:
    made = [{"name": f"n{n}", "time_s": 0.5} for n in range(rows)]
    sources = [(FigureSource("a", f"{n}–9"),) for n in range(rows)]
    usual = {"needs": ("steps",), "columns": columns, "rows": made, "windows": [""] * rows, "sources": sources}
    return MetricTable(name, "the title", "the formula", "the source", **usual | more)


def report(*tables: MetricTable, weight: int = 0, runs: int = 2) -> Any:
    plots = [SimpleNamespace(sketch=SimpleNamespace(weight=weight))]
    return SimpleNamespace(
        light_plots=plots, comparison_tables=tables[:1], metrics=tables[1:], runs=range(runs), shapes=[],
        places={"a": 1, "b": 2}, names={"a": "first_run", "b": "second"},
    )  # fmt: skip


def test_small_tables_are_whole_and_large_ones_share_what_is_left() -> None:
    """6,000 cells, or what the weight of the plots leaves, at least 2,000; a row has three more cells than columns."""
    small, large, other = table(10), table(5000, "large"), table(5000, "other")
    assert rows_shown(report(small, large, other)) == {"steps": 10, "large": 595, "other": 595}
    assert rows_shown(report(large, weight=350_000 - 38 * 3000)) == {"large": 600}
    assert rows_shown(report(large, weight=10**6)) == {"large": 400}
    assert rows_shown(report(large)) == {"large": 1200}
    assert rows_shown(report(*(table(5, str(n)) for n in range(3000))))["2999"] == 1


def test_rows_of_several_runs_have_links_to_their_sources() -> None:
    text = metric_table(table(3), 2, report(), "analyze RUN steps")
    assert text.count("<tr id=") == 2 and 'id="steps-1"' in text and 'id="steps-2"' in text
    assert "1 more row: perflog analyze RUN steps" in text and 'data-needs="steps"' in text
    row = text.partition('<tr id="steps-1">')[2].partition("</tr>")[0]
    assert row == (
        '<td><a href="#run-1" class="name">first_<wbr>run</a></td><td>n0</td><td data-value="0.5">500 ms</td>'
        '<td><a href="#lines" class="lines">0–9</a></td>'
    )
    heads = text.partition("<thead>")[2].partition("</thead>")[0]
    assert [part.partition("</button>")[0] for part in heads.split('<button type="button"')[1:]] == [
        ">run", ' title="its name">name', ' title="time `of` it">time', ">lines"
    ]  # fmt: skip
    assert 'data-of="steps.time_s" class="number"' in heads
    assert '<h3 id="metric-steps" class="title">the title <code>steps</code></h3>' in text
    assert "more rows" not in metric_table(table(3), 3, report(), "x")


def test_one_run_needs_no_column_and_windows_have_one() -> None:
    text = metric_table(table(1), 1, report(runs=1), "x")
    assert ">run</button>" not in text and "#run-1" not in text
    windows = metric_table(table(2, windows=["", "5–9"]), 2, report(), "x")
    assert ">steps</button>" in windows and '<td class="window">5–9</td>' in windows
    named = metric_table(replace(table(1), rows=[{"name": "b", "time_s": None}]), 1, report(), "x")
    assert '<td><a href="#run-2" class="name">second</a></td><td data-value>-</td>' in named


def test_definitions_of_columns() -> None:
    text = definitions([table(0), table(0, "other", needs=(), columns=(MetricColumn("rate", "1/s", "higher"),))])
    assert '<section id="def-steps" class="definition">' in text
    assert '<p>Computed from table steps. <a href="#metric-steps">Go to the numbers</a></p>' in text
    assert (
        '<dt id="steps.time_s" data-unit="s"><code>time_s</code> <span class="unit">s, lower is better</span></dt>'
        "<dd>time <code>of</code> it</dd>"
    ) in text
    assert '<span class="unit">1/s, higher is better</span></dt><dd>see the formula</dd>' in text
    assert "Computed from tables a and b. " in definitions([table(0, needs=("a", "b"))]) and text.count("Computed") == 1
