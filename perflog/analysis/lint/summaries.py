"""Rules on printed averages: which steps they cover, and whether two of them can be compared."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from perflog.analysis.lint.registry import Finding, LintedRun, LintInput, Severity, rule
from perflog.analysis.lint.wording import percent, seconds, time_range
from perflog.grouping import grouped
from perflog.metrics.run_tables import cached
from perflog.metrics.step_series import StepSeries
from perflog.statistics.groups import groups_of
from perflog.statistics.samples import median
from perflog.tables.schema import column_for
from perflog.units import count, first_few, show

_FAR = 0.01  # of the steady mean: from here on a summary misleads
_NEARLY_ALL = 0.9  # of the steady steps
_ELAPSED = 0.5  # of the sum of the steps: a shorter total is not the time of the whole run


class _PrintedAverage(Struct, frozen=True):
    """A summary that is the mean of `n` steps of the run; `after` steps follow the last of them."""

    run: LintedRun
    key: str
    line: int
    value: float
    unit: str
    first: int
    last: int
    n: int
    after: int
    series: StepSeries

    @property
    def total(self) -> int:
        """The number of steps of the run."""
        return len(self.series.steps)

    @property
    def covers_all(self) -> bool:
        return self.n == self.total

    @property
    def window(self) -> str:
        """The window in words that fit several runs."""
        if self.covers_all:
            return "all steps"
        return f"the last {count(self.n, 'step')}" if not self.after else f"{self.n} steps, {self.after} before the end"

    @property
    def stated(self) -> tuple[int, int] | None:
        """First and last step that the log states for its averages; without these, all steps after its warm-up."""
        quantities, steps = self.run.semantics.quantities, self.series.steps
        if {"summary_first", "summary_last"} <= quantities.keys():
            return int(quantities["summary_first"]), int(quantities["summary_last"])
        cut = quantities.get("warmup_steps", len(steps))
        return (int(steps[int(cut)]), int(steps[-1])) if 0 <= cut < len(steps) else None

    @property
    def distance(self) -> float:
        """Relative distance from the mean of the steady steps."""
        return self.value / float(self.series.steady.mean()) - 1


def _printed_averages(run: LintedRun) -> list[_PrintedAverage]:
    """The printed averages of a run over known steps."""
    key = ("printed averages", run.id, run.data.options.warmup)
    return cached(run.data.tables, key, lambda: list(_new_averages(run)))


def _new_averages(run: LintedRun) -> Iterator[_PrintedAverage]:
    rows = run["summaries"]
    rows = rows.where(rows.known("window_first", "window_last", "value"))
    for key, line, value, unit, first, last in rows.records(
        "key", "line", "value", "unit", "window_first", "window_last"
    ):
        col = column_for("steps", key)
        series = run.series(col.name) if col else None
        if series is None or not len(series.steady):
            continue
        n = int(((series.steps >= first) & (series.steps <= last)).sum())
        after = int((series.steps > last).sum())
        yield _PrintedAverage(run, key, line, value, unit or "", first, last, n, after, series)


@rule(
    code="summary-window",
    severity="warning",
    title="a printed average covers an unusual window of steps",
    why="Readers take a printed average for the average of the run. This one lacks steady steps or includes warm-up "
    "steps, and the log does not say so. Warning if it is more than 1 % from the mean of the steady steps, else note.",
    action="use the steady steps (`perflog analyze RUN steps`), or say which steps the average covers",
    needs=("steps", "summaries"),
)
def summary_window(data: LintInput) -> Iterator[Finding]:
    """Windows that are neither stated by the log, nor (nearly) all steady steps, nor all steps without much warm-up."""
    for run in data.runs:
        odd = [a for a in _printed_averages(run) if not _is_usual(a)]
        if not odd:
            continue
        first = odd[0]
        listed = [f"{a.key} {show(a.value, a.unit)} ({percent(a.distance, sign=True)})" for a in odd]
        covered = (
            f"all {first.total} steps" if first.covers_all else f"steps {first.first} to {first.last} of {first.total}"
        )
        message = (
            f"{first_few(listed)} {'are the means' if len(odd) > 1 else 'is the mean'} of {covered}; in brackets the "
            f"distance from the mean of the {len(first.series.steady)} steady steps"
        )
        if first.stated is not None:
            message += f". The log says steps {first.stated[0]} to {first.stated[1]}"
        farthest = max(abs(a.distance) for a in odd)
        numbers = {a.key: {"window": [a.first, a.last], "printed": a.value, "off": a.distance} for a in odd}
        severity: Severity = "warning" if farthest > _FAR else "note"
        yield Finding(run.id, message, {run.id: [a.line for a in odd]}, numbers, severity)


def _is_usual(average: _PrintedAverage) -> bool:
    if average.stated == (average.first, average.last):
        return True
    if average.covers_all:
        return abs(average.distance) <= _FAR
    steady = len(average.series.steady)
    return not average.after and _NEARLY_ALL * steady <= average.n <= steady


@rule(
    code="summary-unexplained",
    severity="warning",
    title="a printed average fits no window of steps",
    why="No range of the printed steps has this mean: the average covers other steps or other ranks, or it is "
    "something else than its name says.",
    action="do not compare it with the steps; use the statistics of the steps (`perflog analyze RUN steps`)",
    needs=("steps", "summaries"),
)
def summary_unexplained(data: LintInput) -> Iterator[Finding]:
    """Summaries named like a column of the steps for which no window was found."""
    for run in data.runs:
        rows = run["summaries"]
        rows = rows.where(~rows.known("window_first") & rows.known("value"))
        listed, lines, numbers = [], [], {}
        for key, line, value, unit in rows.records("key", "line", "value", "unit"):
            col = column_for("steps", key)
            series = run.series(col.name) if col else None
            if series is None:
                continue
            middle = median(series.values)
            listed.append(f"{key} {show(value, unit or '')} (median of the steps {show(middle, unit or '')})")
            lines.append(line)
            numbers[key] = {"printed": value, "median": middle}
        if listed:
            message = f"no range of the {len(run['steps'])} printed steps has the mean {first_few(listed)}"
            yield Finding(run.id, message, {run.id: lines}, numbers)


@rule(
    code="windows-differ",
    severity="warning",
    title="printed averages of the runs cover different windows",
    why="Averages over different steps differ even if the runs do not: one leaves out more of the warm-up, or of the "
    "noise, than the other.",
    action="compare the same steady steps of each run (`perflog compare`), not the printed averages",
    needs=("steps", "summaries"),
)
def windows_differ(data: LintInput) -> Iterator[Finding]:
    """The same summary, for example of the last 10 steps in one run and of the last 60 in another."""
    averages = [a for run in data.runs for a in _printed_averages(run)]
    for key in dict.fromkeys(a.key for a in averages):
        key_averages = [a for a in averages if a.key == key]
        windows = dict.fromkeys(a.window for a in key_averages)
        if len(windows) < 2:
            continue
        parts = []
        for window in windows:
            same = [a for a in key_averages if a.window == window]
            values = [a.value for a in same]
            shown = time_range(values) if same[0].unit == "s" else f"{min(values):.4g} to {max(values):.4g}"
            names = first_few((a.run.name for a in same), 2)
            parts.append(f"{window} in {count(len(same), 'run')} ({names}: {shown})")
        lines = grouped((average.run.id, average.line) for average in key_averages)
        message = f"{key} is the mean of {'; of '.join(parts)}. These averages cannot be compared"
        evidence = {"windows": {a.run.id: [a.first, a.last] for a in key_averages}}
        yield Finding(key_averages[0].run.id, message, lines, evidence)
        return  # one summary shows it: the others of the run cover the same windows


@rule(
    code="total-below-steps",
    severity="note",
    title="a printed total is shorter than its steps",
    why="On one clock, the steps of a run cannot take longer than the run. Total and steps were measured on different "
    "ranks, or from different starting points.",
    action="use either the total or the steps, and do not subtract one from the other",
    needs=("steps", "summaries"),
)
def total_below_steps(data: LintInput) -> Iterator[Finding]:
    """A time among the summaries that is somewhat less than the sum of all printed step times."""
    for run in data.runs_where("summaries", data.tables.rows("summaries").one_of("unit", ["s"])):
        steps = run["steps"].where((run["steps"]["copy"] == 1) & run["steps"].known("step_time_s"))
        steps = steps.where(np.sort(groups_of(steps["step"]).first))
        total = float(steps["step_time_s"].sum())
        table = run["summaries"].where(run["summaries"].one_of("unit", ["s"]))
        for key, value, line in table.records("key", "value", "line"):
            if column_for("steps", key) is None and _ELAPSED * total < value < total:
                message = (
                    f"{key} {seconds(value)} is less than the sum of {count(len(steps), 'printed step time')}, "
                    f"{seconds(total)} ({percent(total / value - 1, sign=True)})"
                )
                yield Finding(run.id, message, {run.id: [line]}, {"printed": value, "sum_of_steps": total})
