"""Printed averages: which steps they average, and whether two of them can be compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from perflog.analysis.lint.registry import Finding, Severity, rule
from perflog.analysis.lint.view import Run, Seen, count, percent, seconds, some, span
from perflog.metrics.step_series import StepSeries
from perflog.tables.schema import column_for
from perflog.units import show

_FAR = 0.01  # of the steady mean: from here on a summary misleads
_NEARLY_ALL = 0.9  # of the steady steps
_ELAPSED = 0.5  # of the sum of the steps: a summed time below this is no time of the whole run


@dataclass(frozen=True)
class _Average:
    """A summary that is the mean of `n` of the run's `of` steps, `behind` of them after its last."""

    run: Run
    key: str
    line: int
    value: float
    unit: str
    first: int
    last: int
    n: int
    behind: int
    series: StepSeries

    @property
    def of(self) -> int:
        return len(self.series.steps)

    @property
    def whole(self) -> bool:
        return self.n == self.of

    @property
    def window(self) -> str:
        if self.whole:
            return "all steps"
        return (
            f"the last {count(self.n, 'step')}" if not self.behind else f"{self.n} steps, {self.behind} before the end"
        )

    @property
    def said(self) -> tuple[int, int] | None:
        """First and last step that the log itself says it averages, or all but the warm-up that it tells of."""
        told, steps = self.run.meaning.quantities, self.series.steps
        if {"summary_first", "summary_last"} <= told.keys():
            return int(told["summary_first"]), int(told["summary_last"])
        cut = told.get("warmup_steps", len(steps))
        return (int(steps[int(cut)]), int(steps[-1])) if 0 <= cut < len(steps) else None

    @property
    def far(self) -> float:
        """Relative distance from the mean of the steady steps."""
        return self.value / float(self.series.steady.mean()) - 1


def _averages(run: Run) -> Iterator[_Average]:
    table = run["summaries"].dropna(subset=["window_first", "window_last", "value"])
    for row in table.to_dict("records"):
        of = column_for("steps", row["key"])
        series = run.series(of.name) if of else None
        if series is None or not len(series.steady):
            continue
        first, last = int(row["window_first"]), int(row["window_last"])
        n = int(((series.steps >= first) & (series.steps <= last)).sum())
        behind = int((series.steps > last).sum())
        unit = row["unit"] if isinstance(row["unit"], str) else ""
        yield _Average(run, row["key"], int(row["line"]), row["value"], unit, first, last, n, behind, series)


@rule(
    code="summary-window",
    severity="warning",
    title="a summary averages an unusual window of steps",
    why="A printed average is read as that of the run. This one leaves out steps that are no warm-up, or takes in the "
    "warm-up, and the log does not say so. It is a warning where the figure is more than 1 % away from the mean of the "
    "steady steps, else a note.",
    action="use the steady steps (`perflog analyze RUN steps`), or say which steps the average covers",
    needs=("steps", "summaries"),
)
def summary_window(seen: Seen) -> Iterator[Finding]:
    """Windows that are neither what the log says, nor all steps, nor (nearly) all steady steps, or that are pulled by
    the warm-up.
    """
    for run in seen.runs:
        odd = [a for a in _averages(run) if not _usual(a)]
        if not odd:
            continue
        first = odd[0]
        said = [f"{a.key} {show(a.value, a.unit)} ({percent(a.far, sign=True)})" for a in odd]
        taken = f"all {first.of} steps" if first.whole else f"steps {first.first} to {first.last} of {first.of}"
        message = (
            f"{some(said)} {'are the means' if len(odd) > 1 else 'is the mean'} of {taken}; in brackets the distance "
            f"from the mean of the {len(first.series.steady)} steady steps"
        )
        if first.said is not None:
            message += f". The log says steps {first.said[0]} to {first.said[1]}"
        far = max(abs(a.far) for a in odd)
        numbers = {a.key: {"window": [a.first, a.last], "printed": a.value, "off": a.far} for a in odd}
        severity: Severity = "warning" if far > _FAR else "note"
        yield Finding(run.id, message, {run.id: [a.line for a in odd]}, numbers, severity)


def _usual(average: _Average) -> bool:
    if average.said == (average.first, average.last):
        return True
    if average.whole:
        return abs(average.far) <= _FAR
    steady = len(average.series.steady)
    return not average.behind and _NEARLY_ALL * steady <= average.n <= steady


@rule(
    code="summary-unexplained",
    severity="warning",
    title="a summary is the mean of no window of steps",
    why="No stretch of the printed steps has this mean: the summary is of other steps, of other ranks, or of something "
    "else than its name says.",
    action="do not compare it with the steps; take their own statistics (`perflog analyze RUN steps`)",
    needs=("steps", "summaries"),
)
def summary_unexplained(seen: Seen) -> Iterator[Finding]:
    """Summaries named like a column of the steps for which no window was found."""
    for run in seen.runs:
        table = run["summaries"]
        said, lines, numbers = [], [], {}
        for row in table[table["window_first"].isna()].dropna(subset=["value"]).to_dict("records"):
            of = column_for("steps", row["key"])
            series = run.series(of.name) if of else None
            if series is None:
                continue
            middle = float(np.median(series.values))
            unit = row["unit"] or ""
            said.append(f"{row['key']} {show(row['value'], unit)} (median {show(middle, unit)})")
            lines.append(row["line"])
            numbers[row["key"]] = {"printed": row["value"], "median": middle}
        if said:
            message = f"no stretch of the {len(run['steps'])} printed steps has the mean {some(said)}"
            yield Finding(run.id, message, {run.id: lines}, numbers)


@rule(
    code="windows-differ",
    severity="warning",
    title="summaries of the runs average different windows",
    why="Averages over different steps differ although nothing else does: one leaves out more of the warm-up, or of "
    "the noise, than the other.",
    action="compare the same steady steps of each run (`perflog compare`), not the printed averages",
    needs=("steps", "summaries"),
)
def windows_differ(seen: Seen) -> Iterator[Finding]:
    """The same summary, of the last 10 steps in one run and of the last 60 in another."""
    found = [a for run in seen.runs for a in _averages(run)]
    for key in dict.fromkeys(a.key for a in found):
        mine = [a for a in found if a.key == key]
        windows = dict.fromkeys(a.window for a in mine)
        if len(windows) < 2:
            continue
        said = []
        for window in windows:
            those = [a for a in mine if a.window == window]
            values = [a.value for a in those]
            shown = span(values) if those[0].unit == "s" else f"{min(values):.4g} to {max(values):.4g}"
            said.append(f"{window} in {count(len(those), 'run')} ({some((a.run.name for a in those), 2)}: {shown})")
        lines: dict[str, list[int]] = {}
        for average in mine:
            lines.setdefault(average.run.id, []).append(average.line)
        message = f"{key}: the mean of {'; of '.join(said)}. These averages cannot be compared as they are"
        yield Finding(mine[0].run.id, message, lines, {"windows": {a.run.id: [a.first, a.last] for a in mine}})
        return  # one summary is enough to tell it


@rule(
    code="total-below-steps",
    severity="note",
    title="a printed total is shorter than its steps",
    why="The steps of a run cannot take longer than the run on one clock: total and steps were taken by different "
    "ranks, or with different begins.",
    action="use either the total or the steps, and do not subtract one from the other",
    needs=("steps", "summaries"),
)
def total_below_steps(seen: Seen) -> Iterator[Finding]:
    """A time among the summaries that is somewhat less than the sum of all printed step times."""
    for run in seen.runs:
        steps = run["steps"]
        steps = steps[(steps["copy"] == 1) & steps["step_time_s"].notna()].drop_duplicates("step")
        sums = float(steps["step_time_s"].sum())
        table = run["summaries"]
        for key, value, line in table[table["unit"] == "s"][["key", "value", "line"]].itertuples(index=False):
            if column_for("steps", key) is None and _ELAPSED * sums < value < sums:
                message = (
                    f"{key} {seconds(value)} is less than the {count(len(steps), 'printed step time')}, "
                    f"{seconds(sums)} in sum ({percent(sums / value - 1, sign=True)})"
                )
                yield Finding(run.id, message, {run.id: [line]}, {"printed": value, "sum_of_steps": sums})
