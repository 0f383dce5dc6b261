"""Step times over a run: warm-up, outliers, drift, a cold start that only some runs have."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from perflog.analysis.lint.registry import Finding, rule
from perflog.analysis.lint.view import TIMES, Run, Seen, count, percent, seconds, some
from perflog.metrics.step_series import StepSeries, impossible
from perflog.statistics.samples import mad, median_interval

_MADS = 10  # of the steady steps, above their median: an outlier
_LONGER = 1.02  # and at least this times the median: a quiet run has a small MAD
_DRIFT = 0.01
_COLD, _WARM = 2.0, 1.5  # first step over the steady median


@rule(
    code="time-impossible",
    severity="error",
    title="a printed time cannot be",
    why="It is below zero or not finite, or a step takes no time or decades: a clock jumped, a field overflowed, or "
    "the line was overwritten. Metrics and comparisons leave such times of steps out.",
    action="do not use the number; look at the line and at those beside it",
    needs=(),
)
def time_impossible(seen: Seen) -> Iterator[Finding]:
    """Times of steps, phases and layers that no clock shows."""
    places = [*(("steps", column) for column in TIMES), ("phases", "time_s"), ("layers", "time_s")]
    for run in seen.runs:
        lines: list[int] = []
        said: list[str] = []
        for table, column in places:
            rows = run[table].dropna(subset=[column])
            wrong = rows[impossible(column, rows[column].to_numpy(np.float64))]
            said += [f"{column.removesuffix('_s')} {x:g} s" for x in wrong[column]]
            lines += map(int, wrong["line"])
        if said:
            yield Finding(run.id, f"{count(len(said), 'time')}: {some(said)}", {run.id: lines}, {"times": len(said)})


@rule(
    code="warm-up",
    severity="note",
    title="the run begins with warm-up steps",
    why="The first steps pay for start-up: libraries load, kernels are chosen, memory is allocated. A mean over all "
    "steps holds that cost.",
    action="leave them out, as `perflog analyze` does; `--warmup N` settles how many",
    needs=("steps",),
)
def warm_up(seen: Seen) -> Iterator[Finding]:
    """The leading steps that the series cuts."""
    if seen.options.warmup is not None:
        return
    for s in seen.series("step_time_s").values():
        cut = s.warmup.cut
        if not cut:
            continue
        middle, mean = float(np.median(s.steady)), float(s.values.mean())
        message = (
            f"{s.warmup.reason}: step {s.steps[0]} takes {seconds(s.values[0])}, {s.values[0] / middle:.2f} times the "
            f"steady median {seconds(middle)}; the mean of all steps is {seconds(mean)}, "
            f"{percent(mean / s.steady.mean() - 1, sign=True)} against that of the steady ones"
        )
        yield Finding(s.run, message, {s.run: s.lines[:cut]}, {"cut": cut, "first_over_median": s.values[0] / middle})


@rule(
    code="outliers",
    severity="note",
    title="some steady steps take much longer",
    why="A mean, a maximum and a high percentile are made by such steps; a median is not.",
    action="use the median, and look at what the lines before these steps show",
    needs=("steps",),
)
def outliers(seen: Seen) -> Iterator[Finding]:
    """Steps behind the warm-up beyond median + 10 MAD."""
    for s in seen.series("step_time_s").values():
        steady = s.steady
        if len(steady) < 2:
            continue
        middle = float(np.median(steady))
        far = steady > max(middle + _MADS * mad(steady), _LONGER * middle)
        if not far.any():
            continue
        steps = s.steps[s.warmup.cut :][far]
        pull = float(steady.mean() / steady[~far].mean() - 1)
        message = (
            f"{count(int(far.sum()), 'steady step')} beyond median + {_MADS} MAD ({seconds(middle)} + "
            f"{seconds(_MADS * mad(steady))}): "
            f"{some(f'step {i} {seconds(t)}' for i, t in zip(steps, steady[far], strict=True))}; "
            f"the steady mean with them is {percent(pull, sign=True)}"
        )
        numbers = {"steps": steps.tolist(), "longest": float(steady.max()), "median": middle}
        yield Finding(s.run, message, {s.run: s.lines[s.warmup.cut :][far]}, numbers)


@rule(
    code="drift",
    severity="warning",
    title="the step time drifts within the run",
    why="The run has not one step time: the result depends on where it is cut. Clocks, temperature, memory or the data "
    "change while it runs. A difference between two runs that is not much larger than the drift means nothing.",
    action="run longer, or look for the cause; compare only differences well above the drift",
    needs=("steps",),
)
def drift(seen: Seen) -> Iterator[Finding]:
    """Medians of the two halves of the steady steps more than 1 % apart, their 95 % intervals too."""
    for s in seen.series("step_time_s").values():
        half = len(s.steady) // 2
        one, two = s.steady[:half], s.steady[half:]
        (low_1, high_1), (low_2, high_2) = median_interval(one), median_interval(two)
        if not (high_1 < low_2 or high_2 < low_1):
            continue
        first, last = float(np.median(one)), float(np.median(two))
        moved = last / first - 1
        if abs(moved) <= _DRIFT:
            continue
        at = s.warmup.cut
        message = (
            f"the median is {seconds(first)} over steps {s.steps[at]} to {s.steps[at + half - 1]} and {seconds(last)} "
            f"over steps {s.steps[at + half]} to {s.steps[-1]}: {percent(moved, sign=True)}, and their 95 % intervals "
            "are apart"
        )
        lines = [s.lines[at], s.lines[at + half], s.lines[-1]]
        yield Finding(s.run, message, {s.run: lines}, {"first_half": first, "second_half": last, "drift": moved})


@rule(
    code="cold-start-differs",
    severity="note",
    title="only some runs of a process have a cold first step",
    why="Runs that share a process inherit what an earlier one has loaded and allocated: their first step is warm. "
    "First steps, and means that hold them, cannot be compared.",
    action="leave out the warm-up of all runs alike, or start a process for each run",
    needs=("steps",),
)
def cold_start_differs(seen: Seen) -> Iterator[Finding]:
    """First step over steady median, among the runs of a log that share a start of the processes."""
    shared: dict[tuple[str, int], list[tuple[Run, StepSeries]]] = {}
    for run in seen.runs:
        series = run.series()
        if run.process is not None and series is not None and len(series.steady):
            shared.setdefault((run.log, run.process), []).append((run, series))
    for runs in shared.values():
        ratios = {run.id: float(s.values[0] / np.median(s.steady)) for run, s in runs}
        if len(runs) < 2 or max(ratios.values()) < _COLD or min(ratios.values()) > _WARM:
            continue
        firsts = some((f"{run.name} {seconds(s.values[0])} ({ratios[run.id]:.2f})" for run, s in runs), 8)
        message = (
            f"{len(runs)} runs share one start of the processes, and their first steps (over the steady median) are "
            f"{firsts}"
        )
        yield Finding(runs[0][0].id, message, {run.id: s.lines[:1] for run, s in runs}, {"first_over_median": ratios})
