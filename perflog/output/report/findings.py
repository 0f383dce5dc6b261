"""What the linter found, on a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from perflog.analysis.lint import SEVERITIES, Finding
from perflog.output.report import anchors
from perflog.output.report.element import Html, join, link, prose, tag
from perflog.output.report.grid import short
from perflog.output.report.metrics import shown
from perflog.output.report.subject import Found, Measured, Source, Subject

LISTED = 8
"""Findings listed of one rule."""

_RUNS, _LINES = 9, 5  # of a finding


def findings(subject: Subject) -> Html:
    """A card for each rule that found something: what, in which runs, on which lines, what to do."""
    if not subject.found:
        return tag("p", "Nothing was found that makes these numbers doubtful.")
    counts = Counter(f.severity for one in subject.found for f in one.findings)
    tally = [
        tag("li", tag("span", f"{counts[s]} {s}{'s' * (counts[s] != 1)}", class_=f"badge {s}"))
        for s in SEVERITIES
        if counts[s]
    ]
    return join([tag("ul", *tally, class_="tally"), *(_card(one, subject) for one in subject.found)])


def _card(one: Found, subject: Subject) -> Html:
    severity = one.findings[0].severity
    more = anchors.more(len(one.findings) - LISTED, "lint RUN")
    looked_at = [m for m in subject.measured if set(m.needs) & (set(one.rule.needs) - {"runs", "lines"})]
    metrics = join((link(f"metric-{m.name}", m.title) for m in looked_at), ", ")
    return tag(
        "article",
        tag("h3", tag("span", severity, class_="badge"), " ", one.rule.title, " ", tag("code", one.rule.code)),
        tag("ul", *(tag("li", *_finding(f, one, looked_at, subject)) for f in one.findings[:LISTED])),
        tag("p", more, class_="more") if more else "",
        tag("p", tag("strong", "Why it matters: "), prose(one.rule.why)),
        tag("p", tag("strong", "What to do: "), prose(one.findings[0].action)),
        tag("p", tag("strong", "Metrics: "), metrics) if metrics else "",
        id=f"finding-{severity}-{one.rule.code}",
        class_=f"finding {severity}",
    )


def _finding(finding: Finding, found: Found, looked_at: list[Measured], subject: Subject) -> Iterator[object]:
    """The run, what was found, the lines that prove it, the first row of a metric that shows it."""
    if len(subject.runs) > 1:
        yield from (anchors.run(subject, finding.run), ": ")
    yield short(finding.message)
    lines = finding.evidence["lines"]
    for run, numbers in islice(lines.items(), _RUNS):
        yield from (" · ", f"{subject.names[run]}, " if len(lines) > 1 else "")
        yield from ("line ", _lines(subject, run, numbers, found), " and more" if len(numbers) > _LINES else "")
    if len(lines) > _RUNS:
        yield f" · and {len(lines) - _RUNS} more runs"
    limits = shown(subject)
    rows = ((one, i) for one in looked_at for i in anchors.rows_of(one, finding.run) if i < limits[one.name])
    for one, place in islice(rows, 1):
        yield from (" · ", link(anchors.row(one, place), "figures"))


def _lines(subject: Subject, run: str, numbers: list[int], found: Found) -> Html:
    sources = (Source(run, str(n)) for n in numbers[:_LINES])
    return join((anchors.lines(subject, one, *found.rule.needs) for one in sources), ", ")
