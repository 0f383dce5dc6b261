"""The contents of a report as data, independent of its output format."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct

from perflog.analysis.compare import Comparison
from perflog.analysis.diagnosis import Diagnosis
from perflog.analysis.overview import Overview
from perflog.metrics import MetricColumn
from perflog.output.sheets import Quantity
from perflog.parsing.input.log_names import base_name
from perflog.plots.drawing.sketch import Sketch

TableRow = dict[str, Any]

_PLOT_BYTES = 300_000  # of all plots of a page together
_AROUND = 70  # pixels of the title and the axis of a panel


class FigureSource(Struct, frozen=True):
    """The source of a number, as far as known: a run and the lines of its log."""

    run: str
    lines: str


class MetricTable(Struct, frozen=True, dict=True):
    """The rows of a metric or of a comparison, with the formula and the columns that have values.

    `windows` holds the range of steps of each row, `sources` its runs and lines.
    """

    name: str
    title: str
    formula: str
    source: str
    needs: tuple[str, ...] = ()
    columns: tuple[MetricColumn, ...] = ()
    rows: Sequence[TableRow] = ()
    windows: Sequence[str] = ()
    sources: Sequence[tuple[FigureSource, ...]] = ()

    @cached_property
    def first_rows(self) -> dict[str, int]:
        """The index of the first row of each run."""
        rows: dict[str, int] = {}
        for index, sources in enumerate(self.sources):
            for source in sources:
                rows.setdefault(source.run, index)
        return rows


class PlotSketch(Struct, frozen=True, eq=False):
    """A plot as data, which a page draws; its height in CSS pixels is about the height of its panels."""

    name: str
    title: str
    caption: str
    metric: str
    sketch: Sketch

    @property
    def height(self) -> int:
        """The height of all panels, in CSS pixels."""
        rows = self.sketch.axes[:: self.sketch.columns]
        return round(sum(panel.height + _AROUND for panel in rows))


class ShapeSummary(Struct, frozen=True):
    """A line shape: the table of its records (None: no record), its number of lines and of logs, the first of them."""

    status: str
    table: str | None
    count: int
    logs: int
    first_log: str
    first_line: int
    sample: str


class LogSummary(Struct, frozen=True):
    """A log: the format of most of its runs, and its number of lines by status."""

    name: str
    sha256: str
    format: str | None
    runs: int
    lines: dict[str, int]


class ReportData(Struct, frozen=True, dict=True):
    """The contents of a report.

    `diagnoses`: of the jobs; `failures`: the rows of table `failures` that are no notices. Run ids are the
    keys of `names`, `settings` and `steps` (the number of steps). `warnings`: of reading the
    logs. `comparison` is None for a single run or log, and where runs cannot be compared: `not_compared` then says why.
    """

    overview: Overview
    diagnoses: list[Diagnosis]
    failures: list[TableRow]
    runs: list[TableRow]
    names: dict[str, str]
    settings: dict[str, TableRow]
    steps: dict[str, int]
    warnings: list[str]
    logs: list[LogSummary]
    shapes: list[ShapeSummary]
    metrics: list[MetricTable]
    plots: list[PlotSketch]
    comparison: Comparison | None
    comparison_tables: list[MetricTable]
    not_compared: str | None

    def rows_of(self, metric: str) -> Sequence[TableRow]:
        """Return the rows of a metric; none if the runs do not have it."""
        return next((table.rows for table in self.metrics if table.name == metric), ())

    @cached_property
    def light_plots(self) -> list[PlotSketch]:
        """The first plots that are together no heavier than a page may be, without those that are heavier alone."""
        light, size = list[PlotSketch](), 0
        for plot in self.plots:
            if size + plot.sketch.weight <= _PLOT_BYTES:
                light.append(plot)
                size += plot.sketch.weight
        return light

    @cached_property
    def hosts(self) -> set[str]:
        """The runs of other hosts of a job, which are no runs of their own."""
        return {run for group in self.overview.groups for run in group.hosts}

    def in_words(self, runs: int) -> str:
        """Return how many of all runs, or of the logs of hosts, something is about."""
        total = len(self.runs)
        return f"{'all' if runs == total else f'{runs} of {total}'} {'logs' if self.hosts else 'runs'}"

    @cached_property
    def places(self) -> dict[str, int]:
        """The number of each run in `runs`, from 1, by its id."""
        return {run["run"]: place for place, run in enumerate(self.runs, 1)}

    @property
    def title(self) -> str:
        """The sides of the comparison, the name of the only run or log, or the folder of the logs with their number."""
        if self.comparison is not None:
            settings = f"{', '.join(self.comparison.by)}: " if self.comparison.by else ""
            return f"{settings}{', '.join(self.comparison.sides[1:])} against {self.comparison.sides[0]}"
        names = list(self.names.values()) if len(self.runs) == 1 else [base_name(log.name) for log in self.logs]
        if len(names) == 1:
            return names[0]
        return f"{len(names)} logs in {os.path.basename(os.path.abspath(self.overview.names[0]))}"


def differing_settings(settings: Sequence[TableRow]) -> list[str]:
    """Return the names of the settings that differ between runs, in the order in which the logs print them."""
    names = dict.fromkeys(name for values in settings for name in values)
    return [name for name in names if len({json.dumps(values.get(name)) for values in settings}) > 1]


# Reports show these in columns of their own: the run, the steps and the lines of a row.
_SOURCE_COLUMNS = frozenset(
    ("run", "label", "first_step", "last_step", "first_line", "last_line", "line", "window_first", "window_last")
)


def informative_columns(columns: Sequence[MetricColumn], rows: Sequence[TableRow]) -> tuple[MetricColumn, ...]:
    """Return the columns for people that have a value, without the source of a row."""
    shown = [c for c in columns if c.brief and c.name not in _SOURCE_COLUMNS]
    return tuple(c for c in shown if any(row[c.name] is not None for row in rows))


def range_text(first: int, last: int | None) -> str:
    """Return a range of steps or lines as a string: `5`, `5–9`, `from 5`."""
    return f"from {first}" if last is None else f"{first}" if first == last else f"{first}–{last}"


def all_numbers(values: Iterable[object]) -> bool:
    """Return whether all values are numbers; missing values do not count."""
    return all(isinstance(v, int | float | Quantity | None) and not isinstance(v, bool) for v in values)
