"""The pages of the server: the list of runs, and errors. The page of a run is a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from urllib.parse import urlencode

from perflog import plots
from perflog.analysis.run_list import RunList
from perflog.analysis.track import Track
from perflog.metrics import Options
from perflog.output.presenters import track
from perflog.output.presenters.runs import runs_sheet
from perflog.output.report.data import PlotSketch
from perflog.output.report.html.elements import Html, breakable, join, tag
from perflog.output.report.html.plots import figure
from perflog.output.sheets import Sheet, SheetColumn, cell
from perflog.serve.source import Snapshot
from perflog.units import UTC as UTC_UNIT
from perflog.units import count
from perflog.version import installed_version

_IN_NAME = ("run", "label", "index", "log")
"""Columns that the name of a run holds."""

_NAME = SheetColumn("log", short="run")

PAGE_ROWS = 200
"""Runs on one page of the list."""

MOST_SIDES = 12
"""Runs that one comparison takes."""


class ListQuery:
    """What a reader asks of the list of runs: a condition, an order, a page.

    Args:
        where: A condition, as `perflog runs --where` has it.
        sort: Name of a column; with `-` in front the largest comes first.
        page: The page, from 1.
    """

    def __init__(self, where: str = "", sort: str = "", page: int = 1) -> None:
        self.where, self.sort, self.page = where.strip(), sort.strip(), max(page, 1)

    def link(self, **changed: object) -> str:
        """Return the address of the list with some of it changed."""
        values = {"where": self.where, "sort": self.sort, "page": self.page} | changed
        shown = {name: value for name, value in values.items() if value and (name, value) != ("page", 1)}
        return f"/?{urlencode(shown)}" if shown else "/"

    def track(self) -> str:
        """Return the address of the figures of these runs over versions."""
        return f"/track?{urlencode({'where': self.where})}" if self.where else "/track"


def list_page(title: str, snapshot: Snapshot, query: ListQuery, error: str = "") -> str:
    """Return the page that lists the runs. With an error it says so, and lists all runs."""
    runs = RunList(snapshot.facts)
    if not error:
        runs.select(query.where or None, query.sort or None)
    number = len(runs.keys)
    begin = min((query.page - 1) * PAGE_ROWS, max(number - 1, 0) // PAGE_ROWS * PAGE_ROWS)
    columns = [name for name in runs.brief() if name not in _IN_NAME]
    runs.keys = runs.keys[begin : begin + PAGE_ROWS]
    heading = tag(
        "header",
        tag("h1", breakable(title)),
        tag("p", _subtitle(number, len(snapshot.log), snapshot), " · ", tag("a", "over versions", href=query.track()),
            class_="faint"),
    )  # fmt: skip
    search = tag(
        "form",
        tag("input", type="search", name="where", value=query.where, placeholder="loss < 2 and model = gpt",
            aria_label="Condition on the runs", size=40),
        tag("input", type="hidden", name="sort", value=query.sort) if query.sort else "",
        tag("button", "Filter"),
        tag("a", "all runs", href="/") if query.where else "",
        action="/", method="get", role="search",
    )  # fmt: skip
    form = tag(
        "form",
        _table(runs, columns, snapshot, query),
        tag("p", tag("button", "Compare the chosen runs"), " the first one chosen is the base", class_="faint"),
        action="/compare", method="get",
    )  # fmt: skip
    warnings = tag("ul", *(tag("li", text) for text in snapshot.log.warnings[:20]), class_="warnings")
    body = (
        heading, search, tag("p", error, class_="error", role="alert") if error else "",
        tag("main", form, _pages(query, begin, number), id="runs"),
        warnings if snapshot.log.warnings else "",
    )  # fmt: skip
    return document(title, *body, version=snapshot.version)


def track_page(title: str, found: Track, where: str, by: str, snapshot: Snapshot) -> str:
    """Return the page of the figures over versions: the answer, the plot, the changes and what is left out."""
    read = tag("p", tag("a", "All runs", href="/"), f", read at {_clock(snapshot.read_at)}", class_="faint")
    heading = tag("header", tag("h1", breakable(title), f": by {found.by}"), read)
    search = tag(
        "form",
        tag("input", type="search", name="where", value=where, placeholder="branch = main", size=40,
            aria_label="Condition on the runs"),
        tag("input", name="by", value=by, placeholder="commit, date or a setting", size=20, aria_label="Versions"),
        tag("button", "Show"),
        action="/track", method="get", role="search",
    )  # fmt: skip
    parts = [_sheet(sheet) for sheet in track.sheets(found)]
    rows, drawn = found.points, Html("")
    if len(rows):
        history = plots.history
        sketch = history.sketched(rows, found.tables, Options())
        drawn = figure(PlotSketch(history.name, history.title, history.caption, history.metric, sketch), "p0")
    answer, tables = parts[:1], parts[1:]
    return document(f"{title}: over versions", heading, search, tag("main", *answer, drawn, *tables), draws=True)


def _sheet(sheet: Sheet) -> Html:
    """Return a sheet as a part of a page: sentences, or a table."""
    if sheet.prose:
        return join(tag("p", text) for row in sheet.rows for text in row)
    heads = (tag("th", c.title, scope="col", class_="number" if c.number else None) for c in sheet.columns)
    rows = (tag("tr", *map(_cell, sheet.columns, row)) for row in sheet.rows)
    table = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows))
    note = tag("p", sheet.note, class_="faint") if sheet.note else ""
    return join((tag("h2", sheet.title or sheet.key, class_="title"), tag("div", table, class_="scroll"), note))


def error_page(text: str, help: str = "") -> str:
    """Return the page of an error."""
    return document(
        "perflog", tag("h1", text), tag("p", help) if help else "", tag("p", tag("a", "All runs", href="/"))
    )


def document(title: str, *body: object, version: str = "", draws: bool = False) -> str:
    """Return a page in the style of reports, with the server's script; `version`: of the runs that it shows.

    `draws`: whether it has plots.
    """
    plot_files = (tag("link", rel="stylesheet", href="/pictures.css"), tag("script", src="/pictures.js", defer=True))
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("link", rel="stylesheet", href="/page.css"),
        tag("link", rel="stylesheet", href="/serve.css"),
        tag("script", src="/serve.js", defer=True),
        *(plot_files if draws else ()),
    )
    root = tag("html", head, tag("body", tag("div", *body, class_="page"), data_version=version or None), lang="en")
    return f"<!doctype html>\n{root}\n"


def bar(title: str, snapshot: Snapshot, address: str) -> Html:
    """Return the line above a report: the way back, and when the log was read."""
    read = f"read at {_clock(snapshot.read_at)}"
    again = [" The files change: ", tag("a", "read them again", href=address), "."] if snapshot.grows else []
    return tag("p", tag("a", "All runs", href="/"), f" of {title}, {read}.", *again, class_="page faint")


def _subtitle(shown: int, number: int, snapshot: Snapshot) -> str:
    which = f"{shown:,} of {number:,} runs" if shown != number else count(number, "run")
    grows = "; files change, the list follows" if snapshot.grows else ""
    return f"{which}, read at {_clock(snapshot.read_at)} by perflog {installed_version()}{grows}"


def _clock(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%H:%M:%S} UTC"


def _table(runs: RunList, columns: Sequence[str], snapshot: Snapshot, query: ListQuery) -> Html:
    sheet = runs_sheet(runs, columns)
    head = tag("tr", tag("td"), *(_head(column, query) for column in (_NAME, *sheet.columns)))
    rows = []
    for key, values in zip(runs.keys, sheet.rows, strict=True):
        name = snapshot.names[key.id]
        box = tag("input", type="checkbox", name="run", value=name, aria_label=f"Choose {name}")
        link = tag("a", breakable(name), href=f"/run?{urlencode({'run': name})}", title=key.id)
        label = tag("div", breakable(key.label), class_="faint") if key.label and key.label != name else ""
        cells = [_cell(column, value) for column, value in zip(sheet.columns, values, strict=True)]
        rows.append(tag("tr", tag("td", box), tag("th", link, label, scope="row"), *cells))
    table = tag("table", tag("thead", head), tag("tbody", *rows))
    return tag("div", table, class_="scroll") if rows else tag("p", "No run has this.")


def _head(column: SheetColumn, query: ListQuery) -> Html:
    down, up = f"-{column.name}", column.name
    target = up if query.sort == down else down if query.sort == up or column.number else up
    mark = " ▲" if query.sort == up else " ▼" if query.sort == down else ""
    order = "ascending" if query.sort == up else "descending" if query.sort == down else None
    link = tag("a", f"{column.title or column.name}{mark}", href=query.link(sort=target, page=1))
    return tag("th", link, scope="col", aria_sort=order, class_="number" if column.number else None)


def _cell(column: SheetColumn, value: object) -> Html:
    unit = "" if column.unit == UTC_UNIT else column.unit
    text = "-" if value is None else breakable(value) if isinstance(value, str) else cell(value, unit)
    return tag("td", text, class_="number" if column.number else None)


def _pages(query: ListQuery, begin: int, number: int) -> Html:
    if number <= PAGE_ROWS:
        return Html("")
    page, last = begin // PAGE_ROWS + 1, (number - 1) // PAGE_ROWS + 1
    links: Mapping[str, int] = {"first": 1, "previous": page - 1, "next": page + 1, "last": last}
    parts = [tag("a", name, href=query.link(page=to)) for name, to in links.items() if 1 <= to <= last and to != page]
    return tag("nav", f"Page {page:,} of {last:,} ", join(parts, " "), aria_label="Pages")
