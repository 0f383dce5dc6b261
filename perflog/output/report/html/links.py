"""Anchors of the page, links to them, and the limits of the page's lists."""

from __future__ import annotations

from perflog.output.report.data import FigureSource, MetricTable, ReportData
from perflog.output.report.html.elements import Html, breakable, link
from perflog.units import count

MAX_RUNS = 150
"""Runs with listed details, and logs."""

MAX_SHAPES = 200
"""Line shapes that are listed."""


def run_anchor(report: ReportData, id: str) -> str:
    """Return the anchor of the details of a run."""
    place = report.places[id]
    return f"run-{place}" if place <= MAX_RUNS else "runs"


def run_link(report: ReportData, id: str) -> Html:
    """Return the name of a run, linked to its details."""
    return link(run_anchor(report, id), breakable(report.names[id]), class_="name")


def lines_link(report: ReportData, source: FigureSource, *tables: str) -> Html:
    """Return the lines of a source, linked to the samples of lines, if possible to one of the tables' samples."""
    listed = {shape.table for shape in report.shapes[:MAX_SHAPES]}
    anchor = next((f"lines-{table}" for table in tables if table in listed), "lines")
    return link(anchor, source.lines, class_="lines")


def left_out_note(left_out: int, command: str) -> str:
    """Return the note below a table that leaves rows out, with the command that prints all of them."""
    return f"{count(left_out, 'more row')}: perflog {command}" if left_out > 0 else ""


def row_anchor(table: MetricTable, index: int) -> str:
    """Return the anchor of a row by its index from 0."""
    return f"{table.name}-{index + 1}"
