"""Step times: centre, spread and tails, with and without the warm-up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from perflog.arrays import Floats
from perflog.metrics.compared import STEP_MEASURES, STEP_TIME, TOKENS_PER_S, Sample, Steady
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables
from perflog.metrics.semantics import semantics_by_run
from perflog.metrics.step_series import StepSeries, step_series
from perflog.statistics.samples import NORMAL, mad, median, median_interval

STABLE = 0.02
"""A run is stable below this coefficient of variation (nsight-python)."""

NOISY = 0.10
"""A run is noisy from this coefficient of variation (pyperf)."""

_FOR_P99 = 100  # with fewer values the 99th percentile is only the largest value

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("of", meaning="step_time, forward or backward, as printed"),
    MetricColumn("part", meaning="all: every step; steady: without the warm-up"),
    MetricColumn("n", meaning="number of steps in the part"),
    MetricColumn("first_step", meaning="first step of the part", type="Int64"),
    MetricColumn("last_step", meaning="last step of the part", type="Int64"),
    MetricColumn("median_s", "s", "lower", "median"),
    MetricColumn("median_low_s", "s", None, "lower end of its confidence interval (order statistics, binomial)"),
    MetricColumn("median_high_s", "s", None, "upper end of this interval"),
    MetricColumn("mean_s", "s", "lower", "arithmetic mean"),
    MetricColumn("steps_per_s", "1/s", "higher", "steps of the part / their time", brief=False),
    MetricColumn("min_s", "s", "lower", "smallest value", brief=False),
    MetricColumn("max_s", "s", "lower", "largest value"),
    MetricColumn("p50_s", "s", "lower", "50th percentile (linear, Hyndman-Fan 7)", brief=False),
    MetricColumn("p90_s", "s", "lower", "90th percentile"),
    MetricColumn("p95_s", "s", "lower", "95th percentile"),
    MetricColumn("p99_s", "s", "lower", "99th percentile; null below 100 steps, or if lines average several steps"),
    MetricColumn("sd_s", "s", "lower", "standard deviation, n - 1; null if lines average several steps", brief=False),
    MetricColumn("cv", "1", "lower", "coefficient of variation: sd / mean"),
    MetricColumn("robust_cv", "1", "lower", "1.4826 MAD / median", brief=False),
    MetricColumn("state", meaning="stable: cv < 2 %; fair; noisy: cv >= 10 %"),
    MetricColumn("warmup", meaning="number of steps cut at the start"),
    MetricColumn("warmup_reason", meaning="why these steps are warm-up", brief=False),
    MetricColumn("first_over_median", "", "lower", "first step / steady median", brief=False),
    MetricColumn("steps_averaged", meaning="number of steps that each printed value averages", brief=False),
    MetricColumn("left_out", meaning="printed steps that do not count, with the reason"),
    MetricColumn("first_line", meaning="line of the part's first step", brief=False, type="Int64"),
    MetricColumn("last_line", meaning="line of the part's last step", brief=False, type="Int64"),
)


def _samples(tables: Tables, steady: Steady) -> Iterator[Sample]:
    """The steady values of each column of steps that compares; tokens/s from the step time if the log prints none."""
    means = semantics_by_run(tables.rows("runs"))
    series_by_measure = {
        measure: {s.run: s for s in step_series(tables, measure.column, 0)} for measure in STEP_MEASURES
    }
    for run in (run for run in means if run in steady.cuts):
        tokens = means[run].quantities.get("tokens")
        for measure, series in series_by_measure.items():
            if run not in series:
                continue
            values = series[run].until(steady.last.get(run)).values[steady.cuts[run] :]
            yield measure, run, values
            if measure == STEP_TIME and tokens and not tables.rows_of("steps", run).known("tokens_per_s").any():
                yield TOKENS_PER_S, run, tokens / values


@metric(
    title="step times",
    needs=("steps",),
    columns=_COLUMNS,
    main="median_s",
    formula="median, mean, percentiles and sd/mean of the printed times of a part of the steps",
    source="intervals: benchstat; percentiles: Hyndman and Fan 1996, type 7; stable: nsight-python; noisy: pyperf",
    compares=(_samples,),
)
def steps(tables: Tables, options: Options) -> MetricRows:
    """Step times of each run, over all steps and over the steady steps.

    Example:
        >>> table = perflog.metrics.steps(perflog.read("run.txt"), warmup=1)
        >>> table.query("of == 'step_time'")[["part", "n", "median_s"]].round(5)
             part  n  median_s
        0     all  4   0.02202
        1  steady  3    0.0219
    """
    rows = []
    for column in ("step_time_s", "forward_s", "backward_s"):
        for series in step_series(tables, column, options.warmup):
            for part, cut in (("all", 0), ("steady", series.warmup.cut)):
                rows.append(_row(series, part, cut, options.level))
    order = tables.run_order()
    rows.sort(key=lambda row: order[row["run"]])
    return rows


def _row(series: StepSeries, part: str, cut: int, level: float) -> dict[str, Any]:
    """Row of the metric for the steps from position `cut` on."""
    values, steps, lines = series.values[cut:], series.steps[cut:], series.lines[cut:]
    row: dict[str, Any] = {
        "run": series.run,
        "of": series.column.removesuffix("_s"),
        "part": part,
    }
    row |= {"n": len(values), "warmup": series.warmup.cut, "warmup_reason": series.warmup.reason}
    row |= {"steps_averaged": series.averaged}
    row |= {"left_out": "; ".join(f"step {step}: {reason}" for step, reason in series.left_out)}
    if not len(values):
        return row
    low, high = median_interval(values, level)
    row |= {"first_step": int(steps[0]), "last_step": int(steps[-1])}
    row |= {"first_line": int(lines[0]), "last_line": int(lines[-1])}
    row |= {"median_s": median(values), "median_low_s": low, "median_high_s": high}
    row |= {"steps_per_s": _ratio(1.0, float(values.mean()))}
    row |= {"mean_s": float(values.mean()), "min_s": float(values.min()), "max_s": float(values.max())}
    row |= zip(("p50_s", "p90_s", "p95_s"), np.percentile(values, (50, 90, 95)).tolist(), strict=True)
    row |= {"robust_cv": _ratio(NORMAL * mad(values), median(values))}
    if len(series.steady):
        row["first_over_median"] = _ratio(float(series.values[0]), median(series.steady))
    if series.averaged == 1:
        row |= _spread(values)
    return row


def _spread(values: Floats) -> dict[str, Any]:
    """Columns on spread and tail, which need the times of single steps."""
    row: dict[str, Any] = {}
    if len(values) >= _FOR_P99:
        row["p99_s"] = float(np.percentile(values, 99))
    if len(values) > 1:
        row["sd_s"] = float(values.std(ddof=1))
        cv = row["cv"] = _ratio(row["sd_s"], float(values.mean()))
        row["state"] = None if cv is None else "stable" if cv < STABLE else "noisy" if cv >= NOISY else "fair"
    return row


def _ratio(value: float, over: float) -> float | None:
    """Return the quotient; None if the steps took no time."""
    return value / over if over else None
