"""The section of the linter's findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from perflog.analysis.lint import SEVERITIES, Finding
from perflog.analysis.overview.doubts import Doubt
from perflog.output.report.cells import HeaderCell
from perflog.output.report.data import FigureSource, MetricTable, ReportData
from perflog.output.report.html.elements import (
    MAX_MESSAGE,
    Html,
    join,
    link,
    shortened,
    sortable_table,
    tag,
    with_code,
)
from perflog.output.report.html.links import left_out_note, lines_link, row_anchor, run_link
from perflog.output.report.html.metric_tables import rows_shown
from perflog.units import count

_MAX_FINDINGS = 100  # of one rule
_MAX_RUNS, _MAX_LINES = 9, 5  # of one finding: runs, and lines of each


def findings_section(report: ReportData) -> Html:
    """Return a card for each rule with findings: what it found in how many runs, and what to do."""
    if not report.overview.doubts:
        return tag("p", "No findings.")
    counts = Counter(finding.severity for doubt in report.overview.doubts for finding in doubt.findings)
    totals = [tag("li", tag("span", count(counts[s], s), class_=f"badge {s}")) for s in SEVERITIES if counts[s]]
    return join([tag("ul", *totals, class_="tally"), *(_card(doubt, report) for doubt in report.overview.doubts)])


def _card(doubt: Doubt, report: ReportData) -> Html:
    rule, severity = doubt.rule, doubt.severity
    tables = set(rule.needs) - {"runs", "lines"}
    related = [metric for metric in report.metrics if set(metric.needs) & tables]
    metrics = join((link(f"metric-{metric.name}", metric.title) for metric in related), ", ")
    return tag(
        "article",
        tag("h3", tag("span", severity, class_="badge"), " ", rule.title, " ", tag("code", rule.code)),
        *_findings(doubt, related, report),
        tag("p", tag("strong", "Why it matters: "), with_code(rule.why)),
        tag("p", tag("strong", "What to do: "), with_code(rule.action)),
        tag("p", tag("strong", "Metrics: "), metrics) if metrics else "",
        id=f"finding-{rule.code}",
        class_=f"finding {severity}",
    )


def _findings(doubt: Doubt, related: list[MetricTable], report: ReportData) -> Iterator[Html]:
    """The first finding of a rule as a sentence; of several, a folded table with a row for each."""
    first, tables = doubt.findings[0], doubt.rule.needs
    yield tag("p", *_run_of(first, report), shortened(first.message, MAX_MESSAGE),
              " · ", _proof(first, tables, related, report))  # fmt: skip
    if len(doubt.findings) == 1:
        return
    rows = (
        tag("tr", tag("td", run_link(report, finding.run)), tag("td", shortened(finding.message, MAX_MESSAGE)),
            tag("td", _proof(finding, tables, related, report)))
        for finding in doubt.findings[:_MAX_FINDINGS]
    )  # fmt: skip
    summary = f"{len(doubt.findings)} findings in {report.in_words(len(doubt.runs_of_any_severity))}"
    note = left_out_note(len(doubt.findings) - _MAX_FINDINGS, "lint RUN")
    heads = [HeaderCell("run"), HeaderCell("finding"), HeaderCell("lines")]
    yield tag("details", tag("summary", summary), sortable_table(doubt.title, heads, rows, note))


def _run_of(finding: Finding, report: ReportData) -> tuple[object, ...]:
    return (run_link(report, finding.run), ": ") if len(report.runs) > 1 else ()


def _proof(finding: Finding, tables: tuple[str, ...], related: list[MetricTable], report: ReportData) -> Html:
    """The lines that prove a finding, and a link to the first numbers of its run."""
    lines = finding.evidence["lines"]
    places = []
    for run, numbers in islice(lines.items(), _MAX_RUNS):
        sources = (FigureSource(run, str(number)) for number in numbers[:_MAX_LINES])
        links = join((lines_link(report, source, *tables) for source in sources), ", ")
        name = (report.names[run], ", ") if len(lines) > 1 else ()
        places.append(join((*name, "line ", links, " and more" if len(numbers) > _MAX_LINES else "")))
    if len(lines) > _MAX_RUNS:
        places.append(Html(f"and {count(len(lines) - _MAX_RUNS, 'more run')}"))
    limits = rows_shown(report)
    numbers = ((metric, metric.first_rows[finding.run]) for metric in related if finding.run in metric.first_rows)
    shown = ((metric, index) for metric, index in numbers if index < limits[metric.name])
    places += [link(row_anchor(metric, index), "numbers") for metric, index in islice(shown, 1)]
    return join(places, " · ")
