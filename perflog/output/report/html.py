"""A report as one HTML file that needs nothing beside it and asks for nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from importlib.resources import files

from perflog import __version__
from perflog.output.report.element import Html, join, link, tag
from perflog.output.report.findings import findings
from perflog.output.report.grid import short
from perflog.output.report.metrics import definitions, shown, table
from perflog.output.report.pictures import pictures
from perflog.output.report.runs import lines, ran
from perflog.output.report.subject import Subject
from perflog.output.report.verdicts import verdicts

Section = tuple[str, str, Html, Sequence[tuple[str, str]]]
"""Anchor, heading, content, and what the table of contents lists below it."""


def html(subject: Subject) -> str:
    """The page of a report."""
    sections = list(_sections(subject))
    body = tag(
        "div",
        tag("header", tag("h1", short(subject.title)), tag("p", _told(subject), class_="faint")),
        _contents(sections),
        tag(
            "main",
            *(tag("section", tag("h2", heading), content, id=anchor) for anchor, heading, content, _ in sections),
        ),
        class_="page",
    )
    root = tag("html", _head(short(subject.title)), tag("body", body, _WITNESS, _script()), lang="en")
    return f"<!doctype html>\n{root}\n"


def _sections(subject: Subject) -> Iterator[Section]:
    yield "ran", "What ran", ran(subject), ()
    if subject.comparison is not None:
        below = [(f"metric-{one.name}", one.title) for one in subject.compared]
        yield "comparison", "Comparison", verdicts(subject), below
    yield "findings", "Findings", findings(subject), ()
    if subject.pictures:
        yield "pictures", "Pictures", pictures(subject), ()
    if subject.measured:
        limits = shown(subject)
        tables = (table(m, limits[m.name], subject, f"analyze RUN {m.name} --format csv") for m in subject.measured)
        yield "metrics", "Metrics", join(tables), [(f"metric-{m.name}", m.title) for m in subject.measured]
    every = (*subject.compared, *subject.measured)
    yield "definitions", "Definitions", definitions(every), ()
    yield "lines", "Lines of the logs", lines(subject), ()


def _told(subject: Subject) -> str:
    runs, logs = len(subject.runs), len(subject.logs)
    return f"{runs} run{'s' * (runs != 1)} of {logs} log{'s' * (logs != 1)}, read by perflog {__version__}"


def _contents(sections: Sequence[Section]) -> Html:
    entries = [
        tag("li", link(anchor, heading), tag("ol", *(tag("li", link(*one)) for one in below)) if below else "")
        for anchor, heading, _, below in sections
    ]
    return tag("nav", tag("ol", *entries), aria_label="Contents")


_WITNESS = tag(
    "aside",
    tag("button", "×", type="button", aria_label="Close"),
    tag("h2"),
    tag("dl"),
    id="witness",
    hidden=True,
    aria_live="polite",
    aria_label="Where the figure is from",
)


# --- head ---------------------------------------------------------------------------------------------------------


def _head(title: Html) -> Html:
    policy = (
        f"default-src 'none'; img-src data:; style-src {_allowed(_file('page.css'))}; "
        f"script-src {_allowed(_file('page.js'))}; base-uri 'none'; form-action 'none'"
    )
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Html(_file("page.css"))),
    )


def _script() -> Html:
    return tag("script", Html(_file("page.js")))


def _file(name: str) -> str:
    return files("perflog.output.report").joinpath(name).read_text("utf-8")


def _allowed(inline: str) -> Html:
    """The source expression that lets a browser use this text and no other."""
    digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
    return Html(f"'sha256-{digest}'")
