"""Anchors of the page, links to them, and the limits of the page's lists."""

from __future__ import annotations

from collections.abc import Iterator

from perflog.analysis.lint import Finding
from perflog.output.report.data import FigureSource, MetricTable, ReportData, RuleFindings
from perflog.output.report.html.elements import Html, link, shortened

MAX_RUNS = 1000
"""Runs and logs that are listed."""

MAX_SHAPES = 60
"""Line shapes that are listed of a log."""


def run_link(report: ReportData, id: str) -> Html:
    """Return the name of a run, linked to its details."""
    place = report.places[id]
    return link(f"run-{place}" if place <= MAX_RUNS else "runs", shortened(report.names[id]))


def lines_link(report: ReportData, source: FigureSource, *tables: str) -> Html:
    """Return the lines of a source, linked to the samples of their log, if possible to one of the tables' samples."""
    place = report.log_places[source.run]
    listed = {shape.table for shape in report.logs[place - 1].shapes[:MAX_SHAPES]}
    suffix = next((f"-{table}" for table in tables if table in listed), "")
    return link(f"lines-{place}{suffix}" if place <= MAX_RUNS else "lines", source.lines, class_="lines")


def findings_by_run(report: ReportData) -> dict[str, list[RuleFindings]]:
    """Return, by run id, the rules with findings on the run: of each the findings that name it."""
    of_runs: dict[str, list[RuleFindings]] = {}
    for group in report.findings:
        members: dict[str, list[Finding]] = {}
        for finding in group.findings:
            for run in dict.fromkeys((finding.run, *finding.lines)):
                members.setdefault(run, []).append(finding)
        for run, findings in members.items():
            of_runs.setdefault(run, []).append(RuleFindings(group.rule, findings))
    return of_runs


def left_out_note(left_out: int, command: str) -> str:
    """Return the note below a table that leaves rows out, with the command that prints all of them."""
    return f"{left_out} more rows: perflog {command}" if left_out > 0 else ""


def rows_of_run(table: MetricTable, id: str) -> Iterator[int]:
    """Return the indices of the rows of a run."""
    return (i for i, sources in enumerate(table.sources) if any(source.run == id for source in sources))


def row_anchor(table: MetricTable, index: int) -> str:
    """Return the anchor of a row by its index from 0."""
    return f"{table.name}-{index + 1}"
