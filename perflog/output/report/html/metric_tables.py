"""Tables of metrics, each with its formula, and the definitions of their columns."""

from __future__ import annotations

from collections.abc import Iterable

from perflog.metrics import MetricColumn
from perflog.output.report.cells import HeaderCell
from perflog.output.report.data import MetricTable, ReportData, all_numbers
from perflog.output.report.html.elements import (
    Html,
    folded,
    join,
    link,
    number_cell,
    sortable_table,
    tag,
    text_cell,
    with_code,
)
from perflog.output.report.html.links import left_out_note, lines_link, row_anchor, run_link
from perflog.units import plural

_CELL_BYTES = 38
_MAX_BYTES = 350_000  # of all tables and plots together: a page is to weigh at most 600 kB
_MIN_CELLS, _MAX_CELLS = 2_000, 6_000  # of all tables together
_SOURCE_CELLS = 3  # cells of a row for its run, steps and lines

_BETTER = {"lower": "lower is better", "higher": "higher is better"}


def rows_shown(report: ReportData) -> dict[str, int]:
    """Return the number of rows shown of each table: small tables whole, the others an even share of what is left."""
    plot_weight = sum(plot.sketch.weight for plot in report.light_plots)
    shown, cells_left = {}, min(max((_MAX_BYTES - plot_weight) // _CELL_BYTES, _MIN_CELLS), _MAX_CELLS)
    tables = sorted((*report.comparison_tables, *report.metrics), key=lambda table: len(table.rows) * _width(table))
    for tables_left, table in zip(range(len(tables), 0, -1), tables, strict=True):
        shown[table.name] = min(len(table.rows), max(cells_left // tables_left // _width(table), 1))
        cells_left -= shown[table.name] * _width(table)
    return shown


def _width(table: MetricTable) -> int:
    return len(table.columns) + _SOURCE_CELLS


def metric_table(table: MetricTable, limit: int, report: ReportData, command: str) -> Html:
    """Return a section with the first rows of a table; `command` is the one that prints all rows."""
    numbers = {c.name for c in table.columns if all_numbers(row[c.name] for row in table.rows)}
    heads = [
        HeaderCell(c.short.replace("_", " "), c.name in numbers, c.meaning, f"{table.name}.{c.name}")
        for c in table.columns
    ]
    run_head = [HeaderCell("run")] if len(report.runs) > 1 else []
    window_head = [HeaderCell("steps")] if any(table.windows) else []
    rows = (_row(table, index, numbers, report) for index in range(limit))
    note = left_out_note(len(table.rows) - limit, command)
    return tag(
        "section",
        folded(
            tag("h3", table.title, " ", tag("code", table.name), id=f"metric-{table.name}", class_="title"),
            tag("p", table.formula, " ", link(f"def-{table.name}", "Definition"), class_="formula"),
            sortable_table(table.title, [*run_head, *heads, *window_head, HeaderCell("lines")], rows, note),
        ),
        data_needs=" ".join(table.needs),
    )


def _row(table: MetricTable, index: int, numbers: set[str], report: ReportData) -> Html:
    row, sources = table.rows[index], table.sources[index]
    cells = [
        number_cell(row[c.name], c.unit) if c.name in numbers else _text_or_run(row[c.name], report)
        for c in table.columns
    ]
    runs = tag("td", join((run_link(report, source.run) for source in sources), ", "))
    window = tag("td", table.windows[index], class_="window") if any(table.windows) else ""
    lines = tag("td", join((lines_link(report, source, *table.needs) for source in sources), ", "))
    return tag("tr", runs if len(report.runs) > 1 else "", *cells, window, lines, id=row_anchor(table, index))


def _text_or_run(value: object, report: ReportData) -> Html:
    return text_cell(run_link(report, value) if isinstance(value, str) and value in report.names else value)


# --- definitions --------------------------------------------------------------------------------------------------


def definitions(tables: Iterable[MetricTable]) -> Html:
    """Return the formula, the source and the meaning of the columns of each table."""
    return join(map(_definition, tables))


def _definition(table: MetricTable) -> Html:
    listed = f"{plural('table', len(table.needs))} {' and '.join(table.needs)}"
    needs = f"Computed from {listed}. " if table.needs else ""
    return tag(
        "section",
        tag("h3", table.title, " ", tag("code", table.name), class_="title"),
        tag("p", tag("strong", "Formula: "), table.formula),
        tag("p", tag("strong", "Source: "), table.source),
        tag("p", needs, link(f"metric-{table.name}", "Go to the numbers")),
        tag("dl", *(_column_definition(table, column) for column in table.columns)),
        id=f"def-{table.name}",
        class_="definition",
    )


def _column_definition(table: MetricTable, column: MetricColumn) -> Html:
    facts = ", ".join(fact for fact in (column.unit, _BETTER.get(column.better or "")) if fact)
    term = tag("dt", tag("code", column.name), " ", tag("span", facts, class_="unit"),
               id=f"{table.name}.{column.name}", data_unit=column.unit)  # fmt: skip
    return tag("div", term, tag("dd", with_code(column.meaning or "see the formula")))
