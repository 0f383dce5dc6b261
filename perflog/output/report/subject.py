"""What a report shows, as data."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from perflog.analysis.compare import Comparison
from perflog.analysis.lint import Finding, Rule
from perflog.metrics import MetricColumn

Row = dict[str, Any]


@dataclass(frozen=True)
class Source:
    """Where a figure is from, as far as it is known: a run, lines of its log."""

    run: str
    lines: str


@dataclass(frozen=True)
class Measured:
    """Rows of a metric, or of a comparison: what their columns mean, which of them say something.

    `windows` tells the steps behind each row, `sources` its runs and lines.
    """

    name: str
    title: str
    formula: str
    source: str
    needs: tuple[str, ...] = ()
    columns: tuple[MetricColumn, ...] = ()
    rows: Sequence[Row] = ()
    windows: Sequence[str] = ()
    sources: Sequence[tuple[Source, ...]] = ()


@dataclass(frozen=True)
class Found:
    """What a rule of the linter found."""

    rule: Rule
    findings: list[Finding]


@dataclass(frozen=True)
class Picture:
    """A plot as bytes of an SVG or PNG file, and its size in CSS pixels."""

    title: str
    says: str
    metric: str
    format: str
    data: bytes
    width: int
    height: int


@dataclass(frozen=True)
class Shape:
    """A line shape of a log: the table its records go to (None: no record), its lines in all runs, a sample."""

    status: str
    table: str | None
    count: int
    first_line: int
    sample: str


@dataclass(frozen=True)
class LogLines:
    """A log: the format that reads most of its runs, the account of its lines, their shapes."""

    name: str
    sha256: str
    format: str | None
    runs: int
    account: dict[str, int]
    shapes: list[Shape]


@dataclass(frozen=True)
class Subject:
    """All that a report shows of some runs. `names` and `settings` are by run id, `steps` counts those of each run.

    `warnings` are those of reading. `comparison` is a text where it says why there is none; `compared` are its tables.
    """

    runs: list[Row]
    names: dict[str, str]
    settings: dict[str, Row]
    steps: dict[str, int]
    warnings: list[str]
    logs: list[LogLines]
    found: list[Found]
    measured: list[Measured]
    pictures: list[Picture]
    comparison: Comparison | str | None
    compared: list[Measured]

    @property
    def title(self) -> str:
        """What the report is of: the sides, the run, the log, or the first of the logs."""
        if isinstance(self.comparison, Comparison):
            return f"{', '.join(self.comparison.sides[1:])} against {self.comparison.sides[0]}"
        names = list(self.names.values()) if len(self.runs) == 1 else [os.path.basename(one.name) for one in self.logs]
        return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def varying(settings: Sequence[Row]) -> list[str]:
    """The settings in which runs differ, in the order in which they are printed."""
    keys = dict.fromkeys(key for one in settings for key in one)
    return [k for k in keys if len({json.dumps(one.get(k)) for one in settings}) > 1]


_PLACES = ("run", "label", "first_step", "last_step", "first_line", "last_line", "line", "window_first", "window_last")


def telling(columns: Sequence[MetricColumn], rows: Sequence[Row]) -> tuple[MetricColumn, ...]:
    """The columns that have a value, without those that tell the place. What is for machines stands behind."""
    kept = [c for c in columns if c.name not in _PLACES and any(row[c.name] is not None for row in rows)]
    return tuple(sorted(kept, key=lambda c: not c.brief))


def span(first: int, last: int | None) -> str:
    """A range as text."""
    return f"from {first}" if last is None else f"{first}" if first == last else f"{first}–{last}"
