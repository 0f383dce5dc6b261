"""A report as one HTML file: nothing is loaded from elsewhere, and all links lead to places in the file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence

from msgspec import Struct

from perflog.output.report.data import ReportData
from perflog.output.report.html.comparison import comparison_section
from perflog.output.report.html.elements import Html, breakable, folded, join, link, shortened, tag
from perflog.output.report.html.findings import findings_section
from perflog.output.report.html.metric_tables import definitions, metric_table, rows_shown
from perflog.output.report.html.overview import job_section, overview_section
from perflog.output.report.html.plots import first_plots, more_plots
from perflog.output.report.html.resources import script, style
from perflog.output.report.html.runs import lines_section, runs_section
from perflog.output.report.sections import Section, sections
from perflog.units import count
from perflog.version import installed_version


class Page(Struct, frozen=True):
    """A page: its head, and what its body holds. `detail`: the address at which a server has more of its curves."""

    head: Html
    body: Html
    detail: str | None = None

    def written(self, above: Html | None = None) -> str:
        """Return the page as a string; `above`: what comes first, such as the way back of a server."""
        root = tag("html", self.head, tag("body", above or "", self.body, data_detail=self.detail), lang="en")
        return f"<!doctype html>\n{root}\n"


def to_html(report: ReportData) -> str:
    """Return a report as an HTML page."""
    return page_of(report).written()


def page_of(report: ReportData, detail: str | None = None) -> Page:
    """Return a report as a page. With an address of its server for details it may ask that server."""
    written = list(sections(report, _WRITERS))
    title = breakable(report.title)
    body = tag(
        "div",
        tag("header", tag("h1", title), tag("p", _subtitle(report), class_="faint")),
        _table_of_contents([section for section, _ in written]),
        tag(
            "main",
            *(_section(section, content) for section, content in written if section.seen),
            tag("div", _FILTER, id="details"),
            *(_section(section, content) for section, content in written if not section.seen),
            tag("p", "Folded parts are not printed: open those that you want on paper.", class_="on-paper faint"),
        ),
        class_="page",
    )
    scripts = (tag("script", Html(script(name))) for name in _SCRIPTS)
    head = _head(shortened(report.title), asks=detail is not None)
    return Page(head, join((body, _SOURCE_PANEL, *scripts)), detail)


def _section(section: Section, content: str) -> Html:
    heading = tag("h2", section.heading)
    parts = (heading, Html(content)) if section.seen else (folded(heading, Html(content)),)
    return tag("section", *parts, id=section.anchor)


def _metrics(report: ReportData) -> Html:
    limits = rows_shown(report)
    return join(metric_table(m, limits[m.name], report, f"analyze RUN {m.name} --format csv") for m in report.metrics)


_WRITERS = {
    "overview": overview_section,
    "job": job_section,
    "comparison": comparison_section,
    "plots": first_plots,
    "findings": findings_section,
    "more-plots": more_plots,
    "metrics": _metrics,
    "runs": runs_section,
    "definitions": lambda report: definitions((*report.comparison_tables, *report.metrics)),
    "lines": lines_section,
}


_FILTER = tag("input", id="filter", type="search", placeholder="Filter the details", aria_label="Filter the details")
"""The search box: page.js looks for its content in the rows, findings and runs of the details."""


def _subtitle(report: ReportData) -> str:
    runs, logs = count(len(report.runs) - len(report.hosts), "run"), count(len(report.logs), "log")
    return f"{runs} of {logs}, read by perflog {installed_version()}"


def _table_of_contents(shown: Sequence[Section]) -> Html:
    entries = (tag("li", link(section.anchor, section.heading)) for section in shown)
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


_SCRIPTS = ("page", "pictures")
_STYLES = ("colors", "page", "pictures")


# --- head ---------------------------------------------------------------------------------------------------------


_SAME_SERVER = "; connect-src 'self'"


def _head(title: Html, asks: bool) -> Html:
    policy = (
        f"default-src 'none'; img-src data:; style-src {_allowed(style(*_STYLES))}; "
        f"script-src {' '.join(_allowed(script(name)) for name in _SCRIPTS)}; base-uri 'none'; form-action 'none'"
        f"{_SAME_SERVER if asks else ''}"
    )
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Html(style(*_STYLES))),
    )


def _allowed(inline: str) -> Html:
    """Return the source expression that makes a browser accept this inline script or style and no other."""
    digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
    return Html(f"'sha256-{digest}'")
