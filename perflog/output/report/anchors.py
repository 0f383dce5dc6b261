"""Where things stand on a page, and links to them."""

from __future__ import annotations

from collections.abc import Iterator

from perflog.output.report.element import Html, link
from perflog.output.report.grid import short
from perflog.output.report.subject import Measured, Source, Subject

MOST_RUNS = 200
"""Runs and logs that are listed."""


def run(subject: Subject, id: str) -> Html:
    """The name of a run, linked to what is said of it."""
    place = next((i for i, one in enumerate(subject.runs, 1) if one["run"] == id), 0)
    return link(f"run-{place}" if 0 < place <= MOST_RUNS else "ran", short(subject.names[id]))


def lines(subject: Subject, source: Source, *tables: str) -> Html:
    """Lines of a log, linked to the samples of its lines, if possible of those that a table is made of."""
    sha = next(one["log_sha256"] for one in subject.runs if one["run"] == source.run)
    place = next(i for i, one in enumerate(subject.logs, 1) if one.sha256 == sha)
    shown = {shape.table for shape in subject.logs[place - 1].shapes[:MOST_SHAPES]}
    end = next((f"-{table}" for table in tables if table in shown), "")
    return link(f"lines-{place}{end}" if place <= MOST_RUNS else "lines", source.lines, class_="lines")


def more(left: int, command: str) -> str:
    """What to say of rows that are left out, and the command that prints them."""
    return f"{left} more rows: perflog {command}" if left > 0 else ""


MOST_SHAPES = 60
"""Line shapes of a log that are listed."""


def rows_of(one: Measured, id: str) -> Iterator[int]:
    """Places of the rows that are of a run."""
    return (i for i, sources in enumerate(one.sources) if any(source.run == id for source in sources))


def row(one: Measured, place: int) -> str:
    """Anchor of a row, by its place from 0."""
    return f"{one.name}-{place + 1}"
