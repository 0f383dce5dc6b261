"""The section of a comparison: the verdict, findings about the sides, the settings that differ, the numbers."""

from __future__ import annotations

from perflog.analysis.compare import Comparison
from perflog.output.presenters.compare import sentence
from perflog.output.report.cells import HeaderCell
from perflog.output.report.data import ReportData
from perflog.output.report.html.elements import (
    MAX_MESSAGE,
    Html,
    join,
    link,
    shortened,
    sortable_table,
    tag,
    text_cell,
)
from perflog.output.report.html.metric_tables import metric_table, rows_shown

_MAX_LISTED = 100  # settings, headlines or findings


def comparison_section(report: ReportData) -> Html:
    """Return the section of the comparison, or the reason why the runs are not compared; empty of one side."""
    comparison = report.comparison
    if comparison is None:
        return tag("p", f"Not compared: {report.not_compared}") if report.not_compared else Html()
    limits = rows_shown(report)
    headlines = (
        tag("li", sentence(row), " (", "; ".join(filter(None, (row.reason, row.advice))), ")")
        for row in comparison.headlines[:_MAX_LISTED]
    )
    return join((
        tag("ul", *headlines),
        *(tag("p", text, class_="faint") for text in comparison.warnings if text not in report.warnings),
        *_findings(comparison),
        tag("details", tag("summary", "Settings that differ"), _settings(comparison)),
        *(
            metric_table(table, limits[table.name], report, "compare SIDES --format csv")
            for table in report.comparison_tables
        ),
    ))  # fmt: skip


def _findings(comparison: Comparison) -> list[Html]:
    """Return the findings about all sides together; findings about single runs are in the section of findings."""
    about_sides = [finding for finding in comparison.finding_records if finding.run is None]
    return [
        tag(
            "article",
            tag("h3", tag("span", finding.severity, class_="badge"), " ", tag("code", finding.code)),
            tag("p", f"{finding.case}: " if finding.case else "", shortened(finding.message, MAX_MESSAGE)),
            tag("p", link("metric-comparison", "Go to the numbers")),
            class_=f"finding {finding.severity}",
        )
        for finding in about_sides[:_MAX_LISTED]
    ]


def _settings(comparison: Comparison) -> Html:
    if not comparison.setting_records:
        return tag("p", "None that the logs show.")
    names = [*(["case"] if len(comparison.cases) > 1 else []), "setting", *comparison.sides]
    records = [row.record for row in comparison.setting_records[:_MAX_LISTED]]
    rows = (tag("tr", *(text_cell(record[name]) for name in names)) for record in records)
    return sortable_table("settings that differ", [HeaderCell(name) for name in names], rows)
