"""Sweeps over many runs: which configuration is best, and what each setting does on its own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from perflog.grouping import grouped
from perflog.metrics.attempts import jobs
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables, computed_list
from perflog.metrics.semantics import semantics_by_run
from perflog.metrics.settings_by_run import settings_by_run
from perflog.metrics.step_series import steady_medians
from perflog.settings.run_settings import (
    ALIKE,
    Settings,
    incidental_test,
    telling_settings,
    values_in_order,
    varying,
)
from perflog.statistics.effects import mean_of_runs

_TIME = "step_time_s"

LOSS = "loss"
_FEWEST, _LAST = 20, 10  # losses of a run, and the part of them at its end: 1 / 10
_MISSING = "-"  # value of a setting that a run does not print

_SWEEP = (
    *RUN_COLUMNS,
    MetricColumn("sweep", meaning="format, program and model of the runs that are compared"),
    MetricColumn(
        "figure",
        meaning="tokens_per_s, samples_per_s or step_time_s: the first that all runs have; and loss, the mean of the "
        "last tenth of the losses, if all runs end at one step",
    ),
)  # fmt: skip

_CONFIGURATION_COLUMNS = (
    *_SWEEP,
    MetricColumn("rank", meaning="1: the best; null: no run of the configuration has the metric"),
    MetricColumn("configuration", meaning="settings that vary in the sweep, without those that follow from others"),
    MetricColumn("runs", meaning="number of runs with the metric"),
    MetricColumn("failed", meaning="number of runs without it: they failed, or were cut off in the warm-up"),
    MetricColumn("value", meaning="median over the steady steps of a run, geometric mean over the runs"),
    MetricColumn("low", meaning="lower end of its confidence interval over the runs (Student's t); null for one run"),
    MetricColumn("high", meaning="upper end of this interval"),
    MetricColumn("change", "1", None, "value / value of the best - 1"),
)

_FACTOR_COLUMNS = (
    *_SWEEP,
    MetricColumn("factor", meaning="a setting that varies between the runs of the sweep"),
    MetricColumn("value", meaning="its value"),
    MetricColumn("runs", meaning="number of runs with this value"),
    MetricColumn("base", meaning="value that it is compared with: the smallest number, else the first run's"),
    MetricColumn("groups", meaning="number of groups: runs with either value that agree in all other factors"),
    MetricColumn("change", "1", None, "metric at this value / metric at the base - 1: geometric mean over the groups"),
    MetricColumn("change_low", "1", None, "lower end of its confidence interval over the groups; null for one group"),
    MetricColumn("change_high", "1", None, "upper end of this interval"),
    MetricColumn("best_in", meaning="number of groups in which this value is the best of all values"),
    MetricColumn("also", meaning="other settings that differ inside these groups: the change may be theirs"),
)


class Sweep(Struct, frozen=True):
    """Runs of one format, program and model that differ in settings.

    Attributes:
        name: Format, program and model.
        figure: Name of the metric that is compared.
        higher: Whether more is better.
        factors: Settings that vary, without incidental ones and those that follow from others.
        followers: Settings that vary and follow from the factors.
        settings: Settings by run id.
        logs: Logarithm of the metric, by run id.
        failed: Ids of the runs without the metric.
    """

    name: str
    figure: str
    higher: bool
    factors: tuple[str, ...]
    followers: tuple[str, ...]
    settings: Mapping[str, Settings]
    logs: Mapping[str, float]
    failed: tuple[str, ...]

    def groups(self, names: Sequence[str], *, failed: bool = False) -> dict[tuple[str, ...], list[str]]:
        """Return the runs that have the metric, or the failed ones, by their values of some settings."""
        return grouped(
            (tuple(self.settings[run].get(name, _MISSING) for name in names), run)
            for run in (self.failed if failed else self.logs)
        )

    def names_of(self, runs: Sequence[str]) -> dict[str, object]:
        """Columns of the sweep and of the first of some runs."""
        return {"run": runs[0], "sweep": self.name, "figure": self.figure}

    def best(self, values: Mapping[Any, float]) -> Any:
        """The key of the best value."""
        return (max if self.higher else min)(values, key=values.__getitem__)


@metric(
    title="configurations",
    needs=("steps",),
    columns=_CONFIGURATION_COLUMNS,
    main="change",
    formula="value = geometric mean over the runs of a configuration of the median of their steady steps",
    source="runs of one format, program and model; intervals: Student's t of the logarithms",
)
def configurations(tables: Tables, options: Options) -> MetricRows:
    """Configurations of all runs, the best first; no rows where no setting varies.

    The rate of tokens or samples is compared where all runs have one, since step times are not comparable between runs
    with other batches. Runs that differ only in incidental settings (seeds, paths, dates) are repeats.
    Configurations without a run that has the metric come last: their runs failed, for example out of memory.

    Example:
        >>> table = perflog.metrics.configurations(perflog.find_runs("reference:moe_layer.txt"))
        >>> table[["rank", "configuration", "change"]].round(3)
           rank         configuration  change
        ...
    """
    return [row for sweep in sweeps(tables, options.warmup) for row in _configuration_rows(sweep, options.level)]


@metric(
    title="factors",
    needs=("steps",),
    columns=_FACTOR_COLUMNS,
    main="change",
    formula="change = exp(mean over groups of log(metric / metric at base)) - 1; in a group the other factors agree",
    source="matched groups of a factorial design; intervals: Student's t over the groups",
)
def factors(tables: Tables, options: Options) -> MetricRows:
    """What each setting does on its own: its values compared between runs that agree in all other factors.

    A value without groups was never varied alone, so its effect is unknown. Intervals show how much the change differs
    between groups: with a wide one, the effect of the setting depends on the other settings.

    Example:
        >>> table = perflog.metrics.factors(perflog.find_runs("reference:moe_layer.txt"))
        >>> table[["factor", "value", "groups", "change"]].round(3)
                      factor value  groups  change
        ...
    """
    return [
        row
        for sweep in sweeps(tables, options.warmup)
        for factor in sweep.factors
        for row in _factor_rows(sweep, factor, options.level)
    ]


# --- sweeps -------------------------------------------------------------------------------------------------------


@computed_list
def sweeps(tables: Tables, warmup: int | None) -> Iterator[Sweep]:
    """Return the runs that differ in settings, once for each figure. Of a job with several attempts the last counts."""
    earlier = {run for runs in jobs(tables).values() for run in runs[:-1]}
    settings = {run: values for run, values in settings_by_run(tables).items() if run not in earlier}
    figures = _figures(tables, warmup)
    alike = grouped((tuple(values.get(name, "") for name in ALIKE), run) for run, values in settings.items())
    for names, runs in alike.items():
        measured = [run for run in runs if any(run in by_run for by_run in figures.values())]
        figure = next((name for name, by_run in figures.items() if all(run in by_run for run in measured)), _TIME)
        for figure_name, by_run in ((figure, figures[figure]), (LOSS, _losses(tables, runs))):
            logs = {run: math.log(by_run[run]) for run in runs if run in by_run}
            logs = {run: logs[run] for run in _with_settings(settings, list(logs))}
            if len(logs) < 2:
                continue
            printed_by_all = set.intersection(*(set(settings[run]) for run in logs))
            failed = [run for run in runs if run not in logs and printed_by_all.issubset(settings[run])]
            run_settings = [settings[run] for run in (*logs, *failed)]
            telling = telling_settings(run_settings)
            incidental = incidental_test(run_settings)
            followers = (name for name in varying(run_settings) if name not in telling and not incidental(name))
            if telling:
                name, higher = ", ".join(filter(None, names)), figure_name not in (_TIME, LOSS)
                yield Sweep(name, figure_name, higher, tuple(telling), tuple(followers), settings, logs, tuple(failed))


def _losses(tables: Tables, runs: Sequence[str]) -> dict[str, float]:
    """Return the loss of each run at its end, the mean of its last values; empty if some runs end at another step."""
    ends: set[int] = set()
    found: dict[str, float] = {}
    for run in runs:
        rows = tables.rows_of("steps", run)
        rows = rows.where(rows.known("step", "loss"))
        losses = rows["loss"][np.isfinite(rows["loss"])]
        if len(losses) >= _FEWEST:
            ends.add(int(rows["step"].max()))
            found[run] = float(losses[-max(1, len(losses) // _LAST) :].mean())
    return {run: loss for run, loss in found.items() if loss > 0} if len(ends) == 1 else {}


def _with_settings(settings: Mapping[str, Settings], runs: Sequence[str]) -> list[str]:
    """Leave out runs of unknown settings: they print no setting that varies, and not all of the others.

    Their logs may be cut. A run that prints all other settings may be the one without an option.
    """
    telling = telling_settings([settings[run] for run in runs])
    known = [run for run in runs if any(name in settings[run] for name in telling)]
    common: set[str] = set.intersection(*(set(settings[run]) for run in known)) if known else set()
    return [run for run in runs if run in known or settings[run].keys() >= common.difference(telling)]


def _figures(tables: Tables, warmup: int | None) -> dict[str, dict[str, float]]:
    """Return the median over the steady steps of each metric, by run: printed or declared token rates, step times."""
    printed = {name: steady_medians(tables, name, warmup) for name in ("tokens_per_s", "samples_per_s", _TIME)}
    for run, means in semantics_by_run(tables.rows("runs")).items():
        if "tokens" in means.quantities and run in printed[_TIME]:
            printed["tokens_per_s"].setdefault(run, means.quantities["tokens"] / printed[_TIME][run])
    return {name: {run: value for run, value in by_run.items() if value > 0} for name, by_run in printed.items()}


# --- rows ---------------------------------------------------------------------------------------------------------


def _configuration_rows(sweep: Sweep, level: float) -> Iterator[dict[str, object]]:
    groups, failed = sweep.groups(sweep.factors), sweep.groups(sweep.factors, failed=True)
    means = {values: _mean((sweep.logs[run] for run in runs), level) for values, runs in groups.items()}
    ranked = sorted(groups, key=lambda values: means[values][0], reverse=sweep.higher)
    for rank, values in enumerate((*ranked, *(values for values in failed if values not in groups)), 1):
        runs = groups.get(values, [])
        row = sweep.names_of(runs or failed[values]) | {
            "configuration": ", ".join(f"{name} {value}" for name, value in zip(sweep.factors, values, strict=True)),
            "runs": len(runs), "failed": len(failed.get(values, ())),
        }  # fmt: skip
        if runs:
            mean, low, high = means[values]
            row |= {"rank": rank, "value": math.exp(mean), "change": math.expm1(mean - means[ranked[0]][0])}
            row |= {"low": math.exp(low), "high": math.exp(high)}
        yield row


def _factor_rows(sweep: Sweep, factor: str, level: float) -> Iterator[dict[str, object]]:
    by_value = {values[0]: runs for values, runs in sweep.groups([factor]).items() if values[0] != _MISSING}
    if len(by_value) < 2:
        return
    order = values_in_order(by_value)
    matched = _matched(sweep, factor)
    best = [sweep.best(means) for means, _ in matched if len(means) > 1]
    for value in order:
        pairs = [(means, runs) for means, runs in matched if value in means and order[0] in means]
        row = sweep.names_of(by_value[value]) | {
            "factor": factor, "value": value, "base": order[0],
            "runs": len(by_value[value]), "groups": len(pairs), "best_in": best.count(value),
        }  # fmt: skip
        if pairs and value != order[0]:
            changes = _mean((means[value] - means[order[0]] for means, _ in pairs), level)
            row |= dict(zip(("change", "change_low", "change_high"), map(math.expm1, changes), strict=True))
            row["also"] = _also(sweep, factor, pairs)
        yield row


_Group = tuple[dict[str, float], list[str]]
"""Mean logarithm of the metric by value of a factor, and the runs: all other factors agree."""


def _matched(sweep: Sweep, factor: str) -> list[_Group]:
    """The groups of runs that agree in all factors but one."""
    groups = []
    for runs in sweep.groups([name for name in sweep.factors if name != factor]).values():
        by_value = grouped(
            (sweep.settings[run][factor], sweep.logs[run]) for run in runs if factor in sweep.settings[run]
        )
        groups.append(({value: math.fsum(logs) / len(logs) for value, logs in by_value.items()}, runs))
    return groups


def _also(sweep: Sweep, factor: str, groups: Sequence[_Group]) -> str | None:
    """Settings that follow from the factors and differ inside the groups."""
    names: dict[str, None] = {}
    for _, runs in groups:
        run_settings = [sweep.settings[run] for run in runs]
        differing = set(varying(run_settings)) - {factor}
        names |= dict.fromkeys(name for name in sweep.followers if name in differing)
    return ", ".join(names) or None


def _mean(logs: Iterable[float], level: float) -> tuple[float, float, float]:
    """The mean of logarithms, and its confidence interval; NaN for one value."""
    mean = mean_of_runs(np.array(list(logs)))
    return mean.shift, *mean.interval(level)
