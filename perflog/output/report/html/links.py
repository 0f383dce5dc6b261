"""Anchors of the page, links to them, and the limits of the page's lists."""

from __future__ import annotations

from collections.abc import Iterator

from perflog.output.report.data import FigureSource, MetricTable, ReportData
from perflog.output.report.html.elements import Html, link, shortened

MAX_RUNS = 200
"""Runs and logs that are listed."""

MAX_SHAPES = 60
"""Line shapes that are listed of a log."""


def run_link(report: ReportData, id: str) -> Html:
    """Return the name of a run, linked to its row in the table of runs."""
    place = next((i for i, run in enumerate(report.runs, 1) if run["run"] == id), 0)
    return link(f"run-{place}" if 0 < place <= MAX_RUNS else "runs", shortened(report.names[id]))


def lines_link(report: ReportData, source: FigureSource, *tables: str) -> Html:
    """Return the lines of a source, linked to the samples of their log, if possible to one of the tables' samples."""
    sha256 = next(run["log_sha256"] for run in report.runs if run["run"] == source.run)
    place = next(i for i, log in enumerate(report.logs, 1) if log.sha256 == sha256)
    listed = {shape.table for shape in report.logs[place - 1].shapes[:MAX_SHAPES]}
    suffix = next((f"-{table}" for table in tables if table in listed), "")
    return link(f"lines-{place}{suffix}" if place <= MAX_RUNS else "lines", source.lines, class_="lines")


def left_out_note(left_out: int, command: str) -> str:
    """Return the note below a table that leaves rows out, with the command that prints all of them."""
    return f"{left_out} more rows: perflog {command}" if left_out > 0 else ""


def rows_of_run(table: MetricTable, id: str) -> Iterator[int]:
    """Return the indices of the rows of a run."""
    return (i for i, sources in enumerate(table.sources) if any(source.run == id for source in sources))


def row_anchor(table: MetricTable, index: int) -> str:
    """Return the anchor of a row by its index from 0."""
    return f"{table.name}-{index + 1}"
