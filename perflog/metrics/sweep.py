"""What varies between the runs of a log, and what it does to the step time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from string import Formatter
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, Options, Tables, metric
from perflog.metrics.semantics import run_semantics
from perflog.metrics.step_series import StepSeries, step_series
from perflog.statistics.samples import median_interval

if TYPE_CHECKING:
    import pandas as pd

_MODEL = "model"  # runs of different models do different work: there is no speed-up from one to the other

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("factor", meaning="the one thing in which the runs of a group differ; null: the run is in no group"),
    MetricColumn("value", meaning="what it is in this run"),
    MetricColumn("group", meaning="what else varies between the runs of the log, and is the same in this group"),
    MetricColumn("n", "", None, "steady steps"),
    MetricColumn("first_step", meaning="first steady step", brief=False),
    MetricColumn("last_step", meaning="last steady step", brief=False),
    MetricColumn("median_s", "s", "lower", "median step time of the steady steps"),
    MetricColumn("median_low_s", "s", None, "its confidence interval (order statistics, binomial)"),
    MetricColumn("median_high_s", "s", None, "its upper end"),
    MetricColumn("base", meaning="label, else id, of the first run of the group"),
    MetricColumn("base_run", meaning="its run id", brief=False),
    MetricColumn("speedup", "", "higher", "median step time of the base / that of this run"),
    MetricColumn(
        "also", meaning="other names in which the run differs from the base, or that only one of the two prints"
    ),
    MetricColumn("warmup", meaning="steps cut at the start", brief=False),
    MetricColumn("first_line", meaning="line of the first steady step", brief=False),
    MetricColumn("last_line", meaning="line of the last", brief=False),
)


@dataclass(frozen=True)
class _SweptRun:
    """A run with step times, and the plain values that its log says of it, by name."""

    name: str
    said: Mapping[str, Any]
    named: frozenset[str]  # names in the label that its format declares
    times: StepSeries


@metric(
    title="sweep",
    needs=("steps",),
    columns=_COLUMNS,
    main="speedup",
    formula="speed-up = median step time of the first run of the group / that of the run",
    source="groups: runs of one log and one model that differ in one factor alone; intervals: benchstat",
)
def sweep(tables: Tables, options: Options) -> pd.DataFrame:
    """Step times of the runs of each log against what varies between them; no rows where nothing varies.

    A factor is a name that every run of the log gives, and not all give alike. Where the label that the format declares
    has such names, they alone are factors: they are what the log's author varied, the rest follows from it. A group is
    the runs of one model that agree in all factors but one; its base is the run that stands first in the log. A run
    has a row for each factor that has a group around it.
    """
    import pandas as pd

    times = {one.run: one for one in step_series(tables, "step_time_s", options.warmup)}
    rows = []
    for _, log in tables["runs"].groupby("log_sha256", sort=False, dropna=False):
        runs = [_run(row, times[row["run"]]) for row in log.to_dict("records") if row["run"] in times]
        rows += list(_of_log(runs, options.level))
    return pd.DataFrame(rows, columns=[c.name for c in _COLUMNS])


def _run(row: Mapping[str, Any], times: StepSeries) -> _SweptRun:
    said = run_semantics(row["format"], row["config"])
    label = said.format.label if said.format else None
    named = frozenset(name for _, name, _, _ in Formatter().parse(label or "") if name)
    plain = {k: v for k, v in said.config.items() if isinstance(v, str | int | float)}
    return _SweptRun(times.label or times.run, plain, named, times)


def _of_log(runs: Sequence[_SweptRun], level: float) -> Iterator[dict[str, Any]]:
    """Rows of one log: those of each factor, then those of runs that are in no group."""
    factors = _factors(runs)
    if not factors:
        return
    alone = {run.times.run: run for run in runs}
    for factor in factors:
        for group in _groups(runs, factor, factors) if factor != _MODEL else ():
            for run in group:
                alone.pop(run.times.run, None)
                yield _row(run, level, factors, factor) | _against(run, group[0], factor)
    for run in alone.values():
        yield _row(run, level, factors, None)


def _factors(runs: Sequence[_SweptRun]) -> list[str]:
    """Names that all runs give, not all alike; where the label has such, only those, and the model."""
    common = [name for name in (runs[0].said if runs else ()) if all(name in run.said for run in runs)]
    varying = [name for name in common if len({run.said[name] for run in runs}) > 1]
    named = varying and runs[0].named.intersection(varying)
    return [name for name in varying if name == _MODEL or name in named] if named else varying


def _groups(runs: Sequence[_SweptRun], factor: str, factors: Sequence[str]) -> Iterator[list[_SweptRun]]:
    """Runs that agree in all factors but one, in which they differ; in the order of the log."""
    rest = [name for name in factors if name != factor]

    def key(run: _SweptRun) -> tuple[str, ...]:
        return tuple(str(run.said.get(name)) for name in rest)

    order = {of: place for place, of in reversed(list(enumerate(map(key, runs))))}
    for _, found in groupby(sorted(runs, key=lambda run: order[key(run)]), key):
        group = list(found)
        if len({run.said[factor] for run in group}) > 1:
            yield group


def _row(run: _SweptRun, level: float, factors: Sequence[str], factor: str | None) -> dict[str, Any]:
    one = run.times
    cut = one.warmup.cut
    rest = [f"{name} {run.said[name]}" for name in factors if name != factor]
    row: dict[str, Any] = {"run": one.run, "label": one.label, "factor": factor, "group": ", ".join(rest) or None}
    row |= {"value": run.said[factor] if factor else None, "warmup": cut, "n": len(one.steady)}
    if len(one.steady) and one.window:
        low, high = median_interval(one.steady, level)
        row |= {"median_s": float(np.median(one.steady)), "median_low_s": low, "median_high_s": high}
        row |= {"first_step": one.window[0], "last_step": one.window[1]}
        row |= {"first_line": int(one.lines[cut]), "last_line": int(one.lines[-1])}
    return row


def _against(run: _SweptRun, base: _SweptRun, factor: str) -> dict[str, Any]:
    names = dict.fromkeys((*base.said, *run.said))
    also = [name for name in names if name != factor and base.said.get(name) != run.said.get(name)]
    row: dict[str, Any] = {"base": base.name, "base_run": base.times.run, "also": ", ".join(also) or None}
    if len(base.times.steady) and len(run.times.steady):
        row["speedup"] = float(np.median(base.times.steady) / np.median(run.times.steady))
    return row
