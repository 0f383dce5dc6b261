"""Sweeps: what varies between the runs of a log, or of logs of one run each, and its effect on the step time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from string import Formatter
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables
from perflog.metrics.semantics import run_semantics
from perflog.metrics.step_series import StepSeries, step_series
from perflog.settings.run_settings import incidental_test, outcomes_of, varying
from perflog.statistics.samples import median_interval

_MODEL = "model"  # runs of different models do different work: a speed-up between them means nothing

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("factor", meaning="the only setting in which the runs of a group differ; null: the run has no group"),
    MetricColumn("value", meaning="value of the factor in this run"),
    MetricColumn("group", meaning="other settings that vary between the runs; equal inside the group"),
    MetricColumn("n", "", None, "number of steady steps"),
    MetricColumn("first_step", meaning="first steady step", brief=False),
    MetricColumn("last_step", meaning="last steady step", brief=False),
    MetricColumn("median_s", "s", "lower", "median step time of the steady steps"),
    MetricColumn("median_low_s", "s", None, "lower end of its confidence interval (order statistics, binomial)"),
    MetricColumn("median_high_s", "s", None, "upper end of this interval"),
    MetricColumn("base", meaning="label, else run id, of the first run of the group"),
    MetricColumn("base_run", meaning="run id of the base", brief=False),
    MetricColumn("speedup", "", "higher", "median step time of the base / median step time of this run"),
    MetricColumn("best", meaning="whether the run has the shortest median of its group"),
    MetricColumn("also", meaning="other settings that differ from the base, or that only one of the two runs prints"),
    MetricColumn("warmup", meaning="number of steps cut at the start", brief=False),
    MetricColumn("first_line", meaning="line of the first steady step", brief=False),
    MetricColumn("last_line", meaning="line of the last steady step", brief=False),
)


class _SweptRun(Struct, frozen=True):
    """A run with step times and its settings: the plain values that its log prints about it.

    `label_names`: settings that the label contains, as its format declares it.
    """

    name: str
    format: str
    settings: Mapping[str, Any]
    label_names: frozenset[str]
    series: StepSeries


@metric(
    title="sweep",
    needs=("steps",),
    columns=_COLUMNS,
    main="speedup",
    formula="speed-up = median step time of the first run of the group / median step time of the run",
    source="groups: runs of one log and model that differ in one factor only; intervals: benchstat",
)
def sweep(tables: Tables, options: Options) -> MetricRows:
    """Step times of the runs of each log against the settings that vary; no rows if nothing varies.

    Logs of one run each and one format count as one log: a sweep that wrote a log for each run. A factor is a setting
    that every run prints, with different values, and that is not incidental (a seed, a path, a date). If the label that
    the format declares contains factors, only these count: the author of the log varied them, and the others follow. A
    group is the runs of one model that agree in all factors but one; its base is its first run. A run has a row for
    each factor in which it is in a group. `configurations` and `factors` show the same of many runs in few rows.

    Example:
        >>> table = perflog.metrics.sweep(perflog.find_runs("reference:training_sweep.txt"))
        >>> table[["label", "factor", "value", "speedup"]].head(2).round(3)
                         label ...
        ...
    """
    series = {s.run: s for s in step_series(tables, "step_time_s", options.warmup)}
    rows = []
    table = list(tables.rows("runs").dicts("run", "log_sha256", "format", "config", "outcomes"))
    runs_in_log = Counter(row["log_sha256"] for row in table)
    logs: dict[str | None, list[_SweptRun]] = {}
    for row in table:
        log = row["log_sha256"]
        alike = logs.setdefault(log if runs_in_log[log] > 1 else row["format"], [])
        if row["run"] in series:
            alike.append(_swept_run(row, series[row["run"]]))
    for runs in logs.values():
        rows += list(_rows_of_log(_without_incidental(runs), options.level))
    return rows


def _swept_run(row: Mapping[str, Any], series: StepSeries) -> _SweptRun:
    """The run of a row of table `runs`."""
    semantics = run_semantics(row["format"], row["config"])
    label = semantics.format.label if semantics.format else None
    label_names = frozenset(name for _, name, _, _ in Formatter().parse(label or "") if name)
    plain = {k: v for k, v in semantics.config.items() if isinstance(v, str | int | float)}
    outcomes = outcomes_of(row)
    settings = {name: value for name, value in plain.items() if name not in outcomes}
    return _SweptRun(series.label or series.run, row["format"] or "", settings, label_names, series)


def _without_incidental(runs: Sequence[_SweptRun]) -> list[_SweptRun]:
    """Return the runs with only the settings that determine what they computed."""
    texts = [{name: str(value) for name, value in run.settings.items()} | {"format": run.format} for run in runs]
    is_incidental = incidental_test(texts)
    left_out = {name for name in varying(texts) if is_incidental(name)}
    return [replace(run, settings={k: v for k, v in run.settings.items() if k not in left_out}) for run in runs]


def _rows_of_log(runs: Sequence[_SweptRun], level: float) -> Iterator[dict[str, object]]:
    """Yield the rows of one log: of each factor, then of runs without a group."""
    factors = _factors(runs)
    if not factors:
        return
    ungrouped = {run.series.run: run for run in runs}
    for factor in factors:
        for group in _groups(runs, factor, factors) if factor != _MODEL else ():
            fastest = min(group, key=_median)
            for run in group:
                ungrouped.pop(run.series.run, None)
                yield _row(run, level, factors, factor) | _in_group(run, group[0], fastest, factor)
    for run in ungrouped.values():
        yield _row(run, level, factors, None)


def _factors(runs: Sequence[_SweptRun]) -> list[str]:
    """Settings that all runs print with different values; if the label contains any, only those, and the model."""
    common = [name for name in (runs[0].settings if runs else ()) if all(name in run.settings for run in runs)]
    varying = [name for name in common if len({run.settings[name] for run in runs}) > 1]
    in_label = varying and runs[0].label_names.intersection(varying)
    return [name for name in varying if name == _MODEL or name in in_label] if in_label else varying


def _groups(runs: Sequence[_SweptRun], factor: str, factors: Sequence[str]) -> Iterator[list[_SweptRun]]:
    """Runs that differ in one factor and agree in all others, in the order of the log."""
    others = [name for name in factors if name != factor]

    def key(run: _SweptRun) -> tuple[str, ...]:
        return tuple(str(run.settings.get(name)) for name in others)

    order = {of: place for place, of in reversed(list(enumerate(map(key, runs))))}
    for _, group in groupby(sorted(runs, key=lambda run: order[key(run)]), key):
        members = list(group)
        if len({run.settings[factor] for run in members}) > 1:
            yield members


def _row(run: _SweptRun, level: float, factors: Sequence[str], factor: str | None) -> dict[str, Any]:
    series = run.series
    cut = series.warmup.cut
    others = [f"{name} {run.settings[name]}" for name in factors if name != factor]
    row: dict[str, Any] = {"run": series.run, "factor": factor}
    row |= {"group": ", ".join(others) or None}
    row |= {"value": run.settings[factor] if factor else None, "warmup": cut, "n": len(series.steady)}
    if len(series.steady) and series.window:
        low, high = median_interval(series.steady, level)
        row |= {"median_s": float(np.median(series.steady)), "median_low_s": low, "median_high_s": high}
        row |= {"first_step": series.window[0], "last_step": series.window[1]}
        row |= {"first_line": int(series.lines[cut]), "last_line": int(series.lines[-1])}
    return row


def _in_group(run: _SweptRun, base: _SweptRun, fastest: _SweptRun, factor: str) -> dict[str, object]:
    """Columns that compare a run with the base of its group, and with the fastest one."""
    names = dict.fromkeys((*base.settings, *run.settings))
    also = [name for name in names if name != factor and base.settings.get(name) != run.settings.get(name)]
    row: dict[str, Any] = {"base": base.name, "base_run": base.series.run, "also": ", ".join(also) or None}
    if len(base.series.steady) and len(run.series.steady):
        row["speedup"] = float(np.median(base.series.steady) / np.median(run.series.steady))
        row["best"] = run is fastest
    return row


def _median(run: _SweptRun) -> float:
    """Median step time of the steady steps; infinite without steps."""
    return float(np.median(run.series.steady)) if len(run.series.steady) else math.inf
