"""Rules on step times over a run: impossible times, warm-up, outliers, drift, cold starts that only some runs have."""

from __future__ import annotations

from collections.abc import Container, Iterator

import numpy as np

from perflog.analysis.lint.registry import STEP_TIMES, Finding, LintedRun, LintInput, rule
from perflog.analysis.lint.wording import percent, seconds
from perflog.arrays import Floats, Mask
from perflog.metrics.hasty_steps import hasty_steps
from perflog.metrics.jobs.step_levels import RunLevels, drifted_phases, run_levels
from perflog.metrics.possible import impossible
from perflog.metrics.run_tables import Tables
from perflog.metrics.step_series import StepSeries
from perflog.statistics.effects import rounding
from perflog.statistics.samples import mad, median, median_interval
from perflog.tables.columns import Rows
from perflog.units import count, first_few

_MADS = 10  # an outlier is this many MAD above the median of the steady steps
_LONGER = 1.02  # and at least this times the median: a quiet run has a small MAD
_RATES_OF_WORK = {"tokens_per_s": "tokens/s", "samples_per_s": "samples/s", "tflops": "TFLOP/s"}
"""Units of rates by which a step is slow, since each step does the same work."""
_DERIVED = {
    "line": "step times are the differences of the time stamps of the lines",
    "bar": "step times are the differences of a progress bar's whole seconds, at least 20 s apart",
    "rate": "step times are computed from a printed rate, which may be smoothed",
}
_BY_CLOCK = ("line", "bar")
_SECOND, _ROUNDING = 1.0, 1e-6  # the coarsest unit of a clock, and of differences of floating-point numbers
_DRIFT = 0.01
_COARSE = 0.01  # of the median: a smaller unit of the print hides no change that counts
_FEWEST_ROUNDED = 20  # step times: fewer can be round by chance
_COLD, _WARM = 2.0, 1.5  # first step over the steady median
_FEWEST_STEPS = 6  # the fewest that give the median a 95 % interval


@rule(
    code="time-impossible",
    severity="error",
    title="a printed time is impossible",
    why="The time is negative or not finite, or a step takes no time or decades: a clock jumped, a field overflowed, "
    "or the line was overwritten. Or one of the first steps claims the work of the others in a fraction of their "
    "time: the program did not wait for the device. Metrics and comparisons leave such step times out.",
    action="do not use the number; look at the line and the lines around it",
    needs=(),
)
def time_impossible(data: LintInput) -> Iterator[Finding]:
    """Times of steps, phases and layers that no clock can show, and steps that end before their work is done."""
    yield from _hasty(data)
    columns = [*(("steps", column) for column in STEP_TIMES), ("phases", "time_s"), ("layers", "time_s")]
    flags = {place: _impossible(data.tables.rows(place[0]), place[1]) for place in columns}
    affected = {run.id for (table, _), wrong in flags.items() for run in data.runs_where(table, wrong)}
    for run in (run for run in data.runs if run.id in affected):
        lines: list[int] = []
        times: list[str] = []
        for table, column in columns:
            wrong = run[table].where(_impossible(run[table], column))
            times += [f"{column.removesuffix('_s')} {x:g} s" for x in wrong[column]]
            lines += wrong["line"].tolist()
        message = f"{count(len(times), 'impossible time')}: {first_few(times)}"
        yield Finding(run.id, message, {run.id: lines}, {"times": len(times)})


def _hasty(data: LintInput) -> Iterator[Finding]:
    """Steps at a rate far above the others."""
    steps, flags = data.tables.rows("steps"), hasty_steps(data.tables)
    for run in data.runs_where("steps", flags):
        rows = steps.where(flags & steps.one_of("run", [run.id]))
        others = run["steps"].where(run["steps"].known("step_time_s") & ~np.isin(run["steps"]["line"], rows["line"]))
        usual = median(others["step_time_s"])
        shown = (f"step {step} takes {seconds(time)}" for step, time in rows.records("step", "step_time_s"))
        message = (
            f"{first_few(shown)}, the others {seconds(usual)} (median) for the same work: the program did not wait for "
            "the device"
        )
        times = rows["step_time_s"].tolist()
        yield Finding(run.id, message, {run.id: rows["line"]}, {"times": times, "median": usual})


def _impossible(rows: Rows, column: str) -> Mask:
    return impossible(column, rows[column]) & rows.known(column)


@rule(
    code="few-steps",
    severity="warning",
    title="too few steps to judge warm-up or scatter",
    why="Below six steps no interval of the median is known, and warm-up steps cannot be recognised.",
    action="print or record more steps; until then the step time is valid for these steps only",
    needs=("steps",),
)
def few_steps(data: LintInput) -> Iterator[Finding]:
    """Runs with step times of fewer than six steps."""
    for run in data.runs:
        series = run.series()
        if series is not None and 0 < len(series.steps) < _FEWEST_STEPS:
            message = f"{count(len(series.steps), 'step time')}: neither warm-up nor scatter can be judged"
            yield Finding(run.id, message, {run.id: series.lines}, {"steps": len(series.steps)})


@rule(
    code="warm-up",
    severity="note",
    title="the run starts with warm-up steps",
    why="The first steps pay for start-up: libraries load, kernels are selected, memory is allocated. A mean over all "
    "steps includes that cost.",
    action="leave them out, as `perflog analyze` does; `--warmup N` sets how many",
    needs=("steps",),
)
def warm_up(data: LintInput) -> Iterator[Finding]:
    """The leading steps that the series cuts, unless they are the first level of a speed that changes."""
    if data.options.warmup is not None:
        return
    shifted = run_levels(data.tables, data.options.warmup)
    for s in data.series("step_time_s").values():
        cut = s.warmup.cut
        if not cut or (s.run in shifted and shifted[s.run].levels[0].start < cut):
            continue  # a level before a change of speed is no warm-up
        middle, mean = median(s.steady), float(s.values.mean())
        message = (
            f"{s.warmup.reason}: step {s.steps[0]} takes {seconds(s.values[0])}, {s.values[0] / middle:.2f} times the "
            f"steady median {seconds(middle)}; the mean of all steps, {seconds(mean)}, "
            f"differs by {percent(mean / s.steady.mean() - 1, sign=True)} from the mean of the steady steps"
        )
        yield Finding(s.run, message, {s.run: s.lines[:cut]}, {"cut": cut, "first_over_median": s.values[0] / middle})


@rule(
    code="outliers",
    severity="note",
    title="some steady steps take much longer",
    why="Such steps change a mean, a maximum and a high percentile; they hardly change the median.",
    action="use the median, and look at what the lines before these steps show",
    needs=("steps",),
)
def outliers(data: LintInput) -> Iterator[Finding]:
    """Steps after the warm-up beyond median + 10 MAD and 1.02 times the median; without times, by their rate."""
    shifted = run_levels(data.tables, data.options.warmup)
    for s in data.series("step_time_s").values():
        far, middle, scatter = _far(s.steady, _unit_of_clock(data, s))
        if not far.any() or s.run in shifted:  # of a run with several levels no median tells what is far
            continue
        steps = s.steps[s.warmup.cut :][far]
        effect = float(s.steady.mean() / s.steady[~far].mean() - 1)
        limit = f"median + {_MADS} MAD ({seconds(middle)} + {seconds(scatter)})"
        if _LONGER * middle > middle + scatter:  # some steps may lie between the two
            limit = f"{_LONGER:g} times the median of {seconds(middle)}"
        message = (
            f"{count(int(far.sum()), 'steady step')} beyond {limit}: "
            f"{first_few(f'step {i} {seconds(t)}' for i, t in zip(steps, s.steady[far], strict=True))}; "
            f"effect on the steady mean: {percent(effect, sign=True)}"
        )
        numbers = {"steps": steps.tolist(), "longest": float(s.steady.max()), "median": middle}
        yield Finding(s.run, message, {s.run: s.lines[s.warmup.cut :][far]}, numbers)
    yield from _slow_by_rate(data, shifted)


def _slow_by_rate(data: LintInput, shifted: Container[str]) -> Iterator[Finding]:
    """The same steps of runs that print no step times, by the first rate that they print."""
    reported = set(data.series("step_time_s"))
    for column, unit in _RATES_OF_WORK.items():
        for s in (s for run, s in data.series(column).items() if run not in reported):
            reported.add(s.run)
            with np.errstate(divide="ignore"):
                far, middle, _ = _far(1 / s.steady)
            if not far.any() or not middle > 0 or s.run in shifted:
                continue
            steps, rates = s.steps[s.warmup.cut :][far], s.steady[far]
            slow = first_few(f"step {i} {r:,.5g} {unit}" for i, r in zip(steps, rates, strict=True))
            message = f"{count(int(far.sum()), 'steady step')} far below the median of {1 / middle:,.5g} {unit}: {slow}"
            numbers = {"steps": steps.tolist(), "slowest": float(rates.min()), "median": 1 / middle}
            yield Finding(s.run, message, {s.run: s.lines[s.warmup.cut :][far]}, numbers)


def _far(steady: Floats, unit: float = 0.0) -> tuple[Mask, float, float]:
    """Flag the times far above their median; return also the median, and the scatter that is allowed."""
    if len(steady) < 2:
        return np.zeros(len(steady), np.bool_), 0.0, 0.0
    middle = median(steady)
    scatter = _MADS * mad(steady)
    far: Mask = steady > max(middle + scatter, _LONGER * middle, middle + unit)
    return far, middle, scatter


def _unit_of_clock(data: LintInput, series: StepSeries) -> float:
    """Return by how much times that are differences of a clock may be wrong: its whole seconds over some steps."""
    if data.tables.rows_of("steps", series.run).counts("step_time_by").keys().isdisjoint(_BY_CLOCK):
        return 0.0
    steps = np.diff(np.unique(series.steady))
    steps = steps[steps > _ROUNDING]
    return min(float(steps.min()), _SECOND) + _ROUNDING if len(steps) else 0.0


@rule(
    code="derived-times",
    severity="note",
    title="no step time is printed: it is derived",
    why="The time between two lines includes all that the program did between them: data, evaluations, checkpoints, "
    "and the printing itself. A progress bar shows whole seconds, and its rate is smoothed.",
    action="print the time of each step where small differences matter",
    needs=("steps",),
)
def derived_times(data: LintInput) -> Iterator[Finding]:
    """Step times by difference of time stamps or of a progress bar, or from its rate."""
    for run in data.runs:
        steps = run["steps"].where(run["steps"].known("step_time_s"))
        sources = steps.counts("step_time_by")
        source = next((source for source in _DERIVED if source in sources), None)
        if source is not None:
            lines = steps["line"][steps["step_time_by"] == source]
            yield Finding(run.id, _DERIVED[source], {run.id: lines}, {"steps": len(lines)})


@rule(
    code="drift",
    severity="warning",
    title="the speed changes during the run",
    why="The run has no single step time: the result depends on which steps are taken. Clock rate, temperature, memory "
    "or data change while it runs. A difference between two runs that is not much larger than the drift means nothing.",
    action="find the cause; trust only differences well above the drift",
    needs=("steps",),
)
def drift(data: LintInput) -> Iterator[Finding]:
    """Levels of metric `levels`; else medians of the two halves more than 1 % apart, and 95 % intervals apart."""
    shifted = run_levels(data.tables, data.options.warmup)
    yield from map(_shifted, shifted.values())
    reported = set(shifted)
    for column in ("step_time_s", *_RATES_OF_WORK):
        for s in (s for run, s in data.series(column).items() if run not in reported):
            reported.add(s.run)
            yield from _drifted(s, data.tables)


def _drifted(s: StepSeries, tables: Tables) -> Iterator[Finding]:
    """Yield a finding if the halves of a series differ."""
    half = len(s.steady) // 2
    first_half, second_half = s.steady[:half], s.steady[half:]
    (low_1, high_1), (low_2, high_2) = median_interval(first_half), median_interval(second_half)
    if not (high_1 < low_2 or high_2 < low_1):
        return
    first, second = median(first_half), median(second_half)
    change = second / first - 1
    if abs(change) <= _DRIFT:
        return
    cut, unit = s.warmup.cut, _unit_of(s)
    message = (
        f"{percent(change, sign=True)} from the first half to the second: the median is {_shown(first, unit)} over "
        f"steps {s.steps[cut]} to {s.steps[cut + half - 1]} and {_shown(second, unit)} over steps "
        f"{s.steps[cut + half]} to {s.steps[-1]}; their 95 % intervals do not overlap"
    )
    if s.column == "step_time_s" and (phases := drifted_phases(tables, s)):
        message += f"; with it {', '.join(phases)}"
    lines = [s.lines[cut], s.lines[cut + half], s.lines[-1]]
    yield Finding(s.run, message, {s.run: lines}, {"first_half": first, "second_half": second, "drift": change})


def _unit_of(s: StepSeries) -> str:
    return _RATES_OF_WORK.get(s.column, "s")


def _shown(value: float, unit: str) -> str:
    return seconds(value) if unit == "s" else f"{value:,.5g} {unit}".rstrip()


def _shifted(run: RunLevels) -> Finding:
    s, values = run.series, run.medians
    unit = _RATES_OF_WORK.get(s.column, run.unit)
    parts = [
        f"{_shown(value, unit)} over steps {s.steps[level.start]} to {s.steps[level.stop - 1]}"
        for level, value in zip(run.levels, values, strict=True)
    ]
    change = values[-1] / values[0] - 1
    between = f"{percent(max(values) / min(values) - 1)} between levels"
    since = f"since step {s.steps[run.levels[1].start]}: {percent(change, sign=True)}"
    of = "" if s.column in _RATES_OF_WORK or s.column == "step_time_s" else f" of {s.column}"
    message = f"{since if len(run.levels) == 2 else between}: the median{of} is {', then '.join(parts)}"
    lines = [s.lines[level.start] for level in run.levels]
    return Finding(s.run, message, {s.run: lines}, {"levels": values, "drift": change})


@rule(
    code="coarse-times",
    severity="warning",
    title="step times are printed too coarsely for their median",
    why="A median is one of the printed values or lies between two of them, so it moves by whole units of the last "
    "digit: a change of one unit can be a much smaller change that crossed a rounding boundary. Means and totals "
    "average it out.",
    action="compare means or the total, or print more digits",
    needs=("steps",),
)
def coarse_times(data: LintInput) -> Iterator[Finding]:
    """Steady step times that are all multiples of a unit of at least 1 % of their median."""
    for s in data.series("step_time_s").values():
        steady = s.steady
        if len(steady) < _FEWEST_ROUNDED or (steady == steady[0]).all():
            continue
        unit, middle = rounding(steady), median(steady)
        if unit < _COARSE * middle:
            continue
        message = (
            f"all {len(steady)} steady steps take multiples of {seconds(unit)}, {percent(unit / middle)} of their "
            f"median {seconds(middle)}; their mean is {seconds(float(steady.mean()))}"
        )
        numbers = {"unit": unit, "median": middle, "mean": float(steady.mean())}
        yield Finding(s.run, message, {s.run: s.lines[s.warmup.cut :]}, numbers)


@rule(
    code="cold-start-differs",
    severity="note",
    title="only some runs of a process have a cold first step",
    why="Runs in one process reuse what an earlier run loaded and allocated, so their first step is warm. First steps, "
    "and means that include them, cannot be compared.",
    action="cut the same warm-up from all runs, or start a new process for each run",
    needs=("steps",),
)
def cold_start_differs(data: LintInput) -> Iterator[Finding]:
    """First step over steady median, among the runs of a log that share one start of the processes."""
    shared: dict[tuple[str, int], list[tuple[LintedRun, StepSeries]]] = {}
    for run in data.runs:
        series = run.series()
        if run.process is not None and series is not None and len(series.steady):
            shared.setdefault((run.log, run.process), []).append((run, series))
    for runs in shared.values():
        ratios = {run.id: float(s.values[0] / median(s.steady)) for run, s in runs}
        if len(runs) < 2 or max(ratios.values()) < _COLD or min(ratios.values()) > _WARM:
            continue
        firsts = first_few((f"{run.name}: {seconds(s.values[0])} ({ratios[run.id]:.2f})" for run, s in runs), 8)
        message = (
            f"{len(runs)} runs share one start of the processes; their first steps (in brackets: over the steady "
            f"median) are {firsts}"
        )
        yield Finding(runs[0][0].id, message, {run.id: s.lines[:1] for run, s in runs}, {"first_over_median": ratios})
