"""The section of the linter's findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from perflog.analysis.lint import SEVERITIES, Finding
from perflog.output.report.data import FigureSource, MetricTable, ReportData, RuleFindings
from perflog.output.report.html.elements import MAX_MESSAGE, Html, join, link, shortened, tag, with_code
from perflog.output.report.html.links import left_out_note, lines_link, row_anchor, rows_of_run, run_link
from perflog.output.report.html.metric_tables import rows_shown

_MAX_FINDINGS = 8  # of one rule
_MAX_RUNS, _MAX_LINES = 9, 5  # of one finding: runs, and lines of each


def findings_section(report: ReportData) -> Html:
    """Return a card for each rule with findings: the message, the runs, the lines, what to do."""
    if not report.findings:
        return tag("p", "No findings.")
    counts = Counter(finding.severity for group in report.findings for finding in group.findings)
    totals = [
        tag("li", tag("span", f"{counts[s]} {s}{'s' * (counts[s] != 1)}", class_=f"badge {s}"))
        for s in SEVERITIES
        if counts[s]
    ]
    return join([tag("ul", *totals, class_="tally"), *(_card(group, report) for group in report.findings)])


def _card(group: RuleFindings, report: ReportData) -> Html:
    rule, severity = group.rule, group.findings[0].severity
    note = left_out_note(len(group.findings) - _MAX_FINDINGS, "lint RUN")
    tables = set(rule.needs) - {"runs", "lines"}
    related = [metric for metric in report.metrics if set(metric.needs) & tables]
    metrics = join((link(f"metric-{metric.name}", metric.title) for metric in related), ", ")
    return tag(
        "article",
        tag("h3", tag("span", severity, class_="badge"), " ", rule.title, " ", tag("code", rule.code)),
        tag("ul", *(tag("li", *_finding(f, rule.needs, related, report)) for f in group.findings[:_MAX_FINDINGS])),
        tag("p", note, class_="more") if note else "",
        tag("p", tag("strong", "Why it matters: "), with_code(rule.why)),
        tag("p", tag("strong", "What to do: "), with_code(group.findings[0].action)),
        tag("p", tag("strong", "Metrics: "), metrics) if metrics else "",
        id=f"finding-{severity}-{rule.code}",
        class_=f"finding {severity}",
    )


def _finding(
    finding: Finding, tables: tuple[str, ...], related: list[MetricTable], report: ReportData
) -> Iterator[object]:
    """Give the run, the message, the lines that prove it, and a link to the first numbers of the run."""
    if len(report.runs) > 1:
        yield from (run_link(report, finding.run), ": ")
    yield shortened(finding.message, MAX_MESSAGE)
    lines = finding.evidence["lines"]
    for run, numbers in islice(lines.items(), _MAX_RUNS):
        yield from (" · ", f"{report.names[run]}, " if len(lines) > 1 else "")
        sources = (FigureSource(run, str(number)) for number in numbers[:_MAX_LINES])
        yield from ("line ", join((lines_link(report, source, *tables) for source in sources), ", "))
        yield " and more" if len(numbers) > _MAX_LINES else ""
    if len(lines) > _MAX_RUNS:
        yield f" · and {len(lines) - _MAX_RUNS} more runs"
    limits = rows_shown(report)
    shown = ((metric, i) for metric in related for i in rows_of_run(metric, finding.run) if i < limits[metric.name])
    for metric, index in islice(shown, 1):
        yield from (" · ", link(row_anchor(metric, index), "numbers"))
