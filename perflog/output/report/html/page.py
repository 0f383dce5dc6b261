"""A report as one HTML file: nothing is loaded from elsewhere, and all links lead to places in the file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from importlib.resources import files

from perflog import __version__
from perflog.output.report.data import ReportData
from perflog.output.report.html.comparison import comparison_section
from perflog.output.report.html.elements import Html, join, link, shortened, tag
from perflog.output.report.html.findings import findings_section
from perflog.output.report.html.metric_tables import definitions, metric_table, rows_shown
from perflog.output.report.html.overview import overview_section
from perflog.output.report.html.plots import plots_section
from perflog.output.report.html.runs import lines_section, runs_section

Section = tuple[str, str, Html, Sequence[tuple[str, str]]]
"""Anchor, heading, content, and the anchors and titles that the table of contents lists below it."""


def to_html(report: ReportData) -> str:
    """Return a report as an HTML page."""
    sections = list(_sections(report))
    title = shortened(report.title)
    body = tag(
        "div",
        tag("header", tag("h1", title), tag("p", _subtitle(report), class_="faint")),
        _table_of_contents(sections),
        tag(
            "main",
            *(tag("section", tag("h2", heading), content, id=anchor) for anchor, heading, content, _ in sections),
        ),
        class_="page",
    )
    script = tag("script", Html(_resource("page.js")))
    root = tag("html", _head(title), tag("body", body, _SOURCE_PANEL, script), lang="en")
    return f"<!doctype html>\n{root}\n"


def _sections(report: ReportData) -> Iterator[Section]:
    yield "overview", "Overview", overview_section(report), ()
    yield "runs", "Runs", runs_section(report), ()
    if report.comparison or report.not_compared:
        below = [(f"metric-{table.name}", table.title) for table in report.comparison_tables]
        yield "comparison", "Comparison", comparison_section(report), below
    yield "findings", "Findings", findings_section(report), ()
    if report.plots:
        yield "plots", "Plots", plots_section(report), ()
    if report.metrics:
        limits = rows_shown(report)
        tables = (metric_table(m, limits[m.name], report, f"analyze RUN {m.name} --format csv") for m in report.metrics)
        yield "metrics", "Metrics", join(tables), [(f"metric-{m.name}", m.title) for m in report.metrics]
    yield "definitions", "Definitions", definitions((*report.comparison_tables, *report.metrics)), ()
    yield "lines", "Lines of the logs", lines_section(report), ()


def _subtitle(report: ReportData) -> str:
    runs, logs = len(report.runs), len(report.logs)
    return f"{runs} run{'s' * (runs != 1)} of {logs} log{'s' * (logs != 1)}, read by perflog {__version__}"


def _table_of_contents(sections: Sequence[Section]) -> Html:
    entries = [
        tag("li", link(anchor, heading), tag("ol", *(tag("li", link(*entry)) for entry in below)) if below else "")
        for anchor, heading, _, below in sections
    ]
    return tag("nav", tag("ol", *entries), aria_label="Contents")


_SOURCE_PANEL = tag(
    "aside",
    tag("button", "×", type="button", aria_label="Close"),
    tag("h2"),
    tag("dl"),
    id="source",
    hidden=True,
    aria_live="polite",
    aria_label="Meaning and source of a number",
)
"""The panel that page.js fills when a number is clicked."""


# --- head ---------------------------------------------------------------------------------------------------------


def _head(title: Html) -> Html:
    policy = (
        f"default-src 'none'; img-src data:; style-src {_allowed(_resource('page.css'))}; "
        f"script-src {_allowed(_resource('page.js'))}; base-uri 'none'; form-action 'none'"
    )
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Html(_resource("page.css"))),
    )


def _resource(name: str) -> str:
    return files("perflog.output.report.html").joinpath(name).read_text("utf-8")


def _allowed(inline: str) -> Html:
    """Return the source expression that makes a browser accept this inline text and no other."""
    digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
    return Html(f"'sha256-{digest}'")
