"""Metrics on a page: each table with the formula, the window and the lines behind its figures."""

from __future__ import annotations

from collections.abc import Sequence

from perflog.metrics import MetricColumn
from perflog.output.report import anchors
from perflog.output.report.element import Html, join, link, tag
from perflog.output.report.grid import Head, figure, grid, numeric, words
from perflog.output.report.subject import Measured, Subject

_CELLS = 14_000  # of all tables together: at 100 bytes each about half of what a report may weigh
_OWN = 3  # cells of a row that say where it is from

_BETTER = {"lower": "lower is better", "higher": "higher is better"}


def shown(subject: Subject) -> dict[str, int]:
    """Rows that are shown of each table: small tables whole, and the others share evenly what that leaves."""
    rows, left = {}, _CELLS
    small = sorted((*subject.compared, *subject.measured), key=lambda one: len(one.rows) * (len(one.columns) + _OWN))
    for others, one in zip(range(len(small), 0, -1), small, strict=True):
        rows[one.name] = min(len(one.rows), max(left // others // (len(one.columns) + _OWN), 1))
        left -= rows[one.name] * (len(one.columns) + _OWN)
    return rows


def table(one: Measured, limit: int, subject: Subject, command: str) -> Html:
    """A section with the first rows; `command` is what prints them all."""
    numbers = {c.name for c in one.columns if numeric(row[c.name] for row in one.rows)}
    heads = [Head(_name(c), c.name in numbers, c.meaning) for c in one.columns]
    run = [Head("run")] if len(subject.runs) > 1 else []
    rows = (_row(one, place, numbers, subject) for place in range(limit))
    more = anchors.more(len(one.rows) - limit, command)
    return tag(
        "section",
        tag("h3", one.title, " ", tag("code", one.name), id=f"metric-{one.name}"),
        tag("p", one.formula, " ", link(f"def-{one.name}", "Definition"), class_="formula"),
        grid(one.title, [*run, *heads, Head("steps"), Head("lines")], rows, more),
        data_needs=" ".join(one.needs),
    )


def _row(one: Measured, place: int, numbers: set[str], subject: Subject) -> Html:
    row, sources = one.rows[place], one.sources[place]
    cells = [
        figure(row[c.name], c.unit, f"{one.name}.{c.name}") if c.name in numbers else _words(row[c.name], subject)
        for c in one.columns
    ]
    runs = tag("td", join((anchors.run(subject, source.run) for source in sources), ", "))
    window = tag("td", one.windows[place], class_="window")
    lines = tag("td", join((anchors.lines(subject, source, *one.needs) for source in sources), ", "))
    return tag("tr", runs if len(subject.runs) > 1 else "", *cells, window, lines, id=anchors.row(one, place))


def _words(value: object, subject: Subject) -> Html:
    return words(anchors.run(subject, value) if isinstance(value, str) and value in subject.names else value)


def _name(column: MetricColumn) -> str:
    return column.short.replace("_", " ")


# --- definitions --------------------------------------------------------------------------------------------------


def definitions(every: Sequence[Measured]) -> Html:
    """What the columns of tables mean."""
    return join(map(_definition, every))


def _definition(one: Measured) -> Html:
    needs = f"Computed from {' and '.join(one.needs)}. " if one.needs else ""
    return tag(
        "section",
        tag("h3", one.title, " ", tag("code", one.name)),
        tag("p", tag("strong", "Formula: "), one.formula),
        tag("p", tag("strong", "Source: "), one.source),
        tag("p", needs, link(f"metric-{one.name}", "Its table")),
        tag("dl", *(_column(one, column) for column in one.columns)),
        id=f"def-{one.name}",
        class_="definition",
    )


def _column(one: Measured, column: MetricColumn) -> Html:
    told = ", ".join(x for x in (column.unit, _BETTER.get(column.better or "")) if x)
    name = tag("dt", tag("code", column.name), " ", tag("span", told, class_="unit"),
               id=f"{one.name}.{column.name}", data_unit=column.unit)  # fmt: skip
    return tag("div", name, tag("dd", column.meaning or "see the formula"))
