"""Measures of a run that are compared, each as the values of the run's steady steps, or as one value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from perflog.analysis.compare import trace_measures
from perflog.analysis.compare.printed_measures import collective_figures, last_values, summary_figures
from perflog.analysis.compare.sides import Side
from perflog.metrics.semantics import RunSemantics, semantics_by_run
from perflog.metrics.step_series import StepSeries, step_series
from perflog.metrics.traces.device_work import TraceDevice
from perflog.statistics.samples import Floats
from perflog.statistics.warmup import Warmup

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Measure:
    """A compared measure: its kind and name, base unit, which way is better.

    `derived`: it is computed from another measure, so it is no further evidence. `of`: the measure whose time it is
    part of.
    """

    kind: Literal["step", "run", "device", "phase", "layer", "kernel", "collective", "summary", "value"]
    name: str
    unit: str = "s"
    better: Literal["lower", "higher"] | None = "lower"
    derived: bool = False
    of: str | None = None


STEP_MEASURES = (
    Measure("step", "step_time"),
    Measure("step", "forward", of="step_time"),
    Measure("step", "backward", of="step_time"),
    Measure("step", "tflops", "TFLOP/s", "higher", derived=True),
    Measure("step", "mfu", "1", "higher", derived=True),
    Measure("step", "tokens_per_s", "1/s", "higher", derived=True),
    Measure("step", "samples_per_s", "1/s", "higher", derived=True),
    Measure("step", "memory", "B"),
)
"""Columns of `steps` that are compared. Programs compute the rates from the step time."""

STEP_TIME = STEP_MEASURES[0]

RUN_TIME = Measure("run", "elapsed")
"""The last reading of a run's clock."""

ALL = "all"
"""Name of the sum of all layers, or of all kernels."""

_TABLES = ("steps", "phases", "layers", "kernels", "collectives", "summaries", "values")
_SUFFIXES = {"s": "_s", "B": "_bytes"}  # of columns, by unit


@dataclass
class SideValues:
    """The values of a side: for each measure, one array per run. `step_times`: whole series, with the warm-up."""

    by_measure: dict[Measure, dict[str, Floats]] = field(default_factory=dict)
    step_times: dict[str, StepSeries] = field(default_factory=dict)

    def add(self, measure: Measure, run: str, values: Floats) -> None:
        """Keep the values of a measure in a run, if there are any."""
        if len(values):
            self.by_measure.setdefault(measure, {})[run] = values

    def of(self, measure: Measure, runs: Sequence[str]) -> list[Floats]:
        """Return the values of these runs, one array per run; empty where the side does not have the measure."""
        by_run = self.by_measure.get(measure, {})
        return [by_run[run] for run in runs if run in by_run]

    def series(self, runs: Sequence[str]) -> list[StepSeries]:
        """Return the step times of these runs with their warm-up, of those that print them."""
        return [self.step_times[run] for run in runs if run in self.step_times]


def warmups(side: Side) -> dict[str, tuple[int, int]]:
    """Return, for each run that prints step times, the number of warm-up steps found and the number of its steps."""
    return {s.run: (s.warmup.cut, len(s.values)) for s in step_series(side.tables)}


def side_values(side: Side, cuts: Mapping[str, int]) -> SideValues:
    """Return all measures of a side's runs, each run without its first steps; `cuts` gives their number by run."""
    values = SideValues()
    tables = side.tables
    by_run = {name: tables.by_run(name) for name in _TABLES}
    printed = {m: {s.run: s for s in step_series(tables, _column(m), 0)} for m in STEP_MEASURES}
    world_sizes = tables["runs"].set_index("run")["world_size"].dropna().to_dict()
    elapsed = {run: np.array([s]) for run, s in tables["runs"].set_index("run")["elapsed_s"].dropna().items()}
    means, devices = semantics_by_run(tables["runs"]), trace_measures.devices_by_run(tables)
    for run in (run for run in tables["runs"]["run"] if run in cuts):
        rows = {name: by_run[name].get(run, tables[name][:0]) for name in by_run}
        of_run = {measure: of_runs[run] for measure, of_runs in printed.items() if run in of_runs}
        first = _add_steps(of_run, rows["steps"], cuts[run], means[run], values)
        values.add(RUN_TIME, run, elapsed.get(run, np.empty(0)))
        phases = _steady(rows["phases"], first, cuts[run])
        for name, whole, times in _phases(phases, world_sizes.get(run), means[run]):
            values.add(Measure("phase", name, of=whole), run, times)
        for name, times in _layers(_steady(rows["layers"], first, cuts[run])):
            values.add(Measure("layer", name, of=None if name == ALL else ALL), run, times)
        for measure, times in _devices(devices.get(run, []), first, cuts[run]):
            values.add(measure, run, times)
        for name, times in _kernels(rows["kernels"]):
            values.add(Measure("kernel", name, of=None if name == ALL else ALL), run, times)
        for measure, figures in _printed(rows["collectives"], rows["summaries"], has_steps=first is not None):
            values.add(measure, run, figures)
        for name, unit, better, figures in last_values(rows["values"], rows["steps"]):
            values.add(Measure("value", name, unit, better), run, figures)
    return values


def _printed(collectives: pd.DataFrame, summaries: pd.DataFrame, has_steps: bool) -> Iterator[tuple[Measure, Floats]]:
    """The measured collectives of a run; the summaries of one that measures neither collectives nor steps."""
    if len(collectives):
        for name, unit, better, values in collective_figures(collectives):
            yield Measure("collective", name, unit, better), values
    else:
        if has_steps:  # averages of steps: these have figures of their own
            of_steps = summaries["window_first"].notna() | summaries["key"].isin([m.name for m in STEP_MEASURES])
            summaries = summaries[~of_steps]
        for name, unit, better, values in summary_figures(summaries):
            yield Measure("summary", name, unit, better), values


def _devices(members: list[TraceDevice], first: int | None, cut: int) -> Iterator[tuple[Measure, Floats]]:
    """The states of the devices in the steady steps of a trace, then the time of all kernels, then of each kernel."""
    if not members:
        return
    steps = trace_measures.steady_steps(members, first, cut)
    for name, values in trace_measures.state_values(members, steps):
        if name in trace_measures.SHARES:
            yield Measure("device", name, "1", "higher", derived=name == "busy"), values
        else:
            yield Measure("device", name, of=None if steps is None else "step_time"), values
    times = trace_measures.kernel_times(members, steps)
    yield Measure("kernel", ALL), np.sum(list(times.values()), axis=0)
    for name, values in times.items():
        yield Measure("kernel", name, of=ALL), values


def _column(measure: Measure) -> str:
    return measure.name + _SUFFIXES.get(measure.unit, "")


def _add_steps(
    printed: Mapping[Measure, StepSeries], steps: pd.DataFrame, cut: int, means: RunSemantics, values: SideValues
) -> int | None:
    """Add the columns of `steps`; return the first steady step, None where no step times are printed."""
    first = None
    for measure, s in printed.items():
        steady = s.values[cut:]
        values.add(measure, s.run, steady)
        if measure == STEP_TIME and len(steady):
            values.step_times[s.run] = s if s.warmup.cut == cut else replace(s, warmup=Warmup(cut, "cut alike"))
            first = int(s.steps[cut])
            if "tokens" in means.quantities and steps["tokens_per_s"].isna().all():
                rate = next(m for m in STEP_MEASURES if m.name == "tokens_per_s")
                values.add(rate, s.run, means.quantities["tokens"] / steady)
    return first


def _steady(rows: pd.DataFrame, first: int | None, cut: int) -> pd.DataFrame:
    """The rows of steady steps. Without a first steady step, the first `cut` steps among the rows are left out."""
    rows = rows[rows["step"].notna()]
    if first is None:
        steps = np.unique(rows["step"].to_numpy(np.int64))
        first = int(steps[cut]) if cut < len(steps) else None
    return rows[rows["step"] >= first] if first is not None else rows[:0]


def _phases(
    rows: pd.DataFrame, world_size: int | None, means: RunSemantics
) -> Iterator[tuple[str, str | None, Floats]]:
    """Yield name and parent of each phase, and its time in each step: the mean over ranks of a rank's total.

    Where ranks are not known, the total is divided by `world_size`; without that either, the phase is left out. A phase
    with several parents counts in each of them separately.
    """
    keys = list(zip(rows["phase"], rows["occurrence"].tolist(), strict=True))
    parents = {key: means.parent(*key) for key in set(keys)}
    order = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    rows = rows[["phase", "step", "rank", "time_s"]].assign(whole=[parents[key] for key in keys])
    rows = rows.iloc[np.argsort([order[key] for key in keys], kind="stable")]
    for (name, whole), group in rows.groupby(["phase", "whole"], sort=False):
        known = bool(group["rank"].notna().all())
        ranks = group["rank"].nunique() if known else world_size
        if not ranks:
            continue
        declared = means.phase(name)
        several = declared is not None and len(set(declared.of)) > 1
        of = None if declared and declared.hidden else {"step": "step_time"}.get(whole, whole)
        totals = group.groupby("step")["time_s"].sum().to_numpy(np.float64)
        yield f"{name} in {whole}" if several else name, of, totals / ranks


def _layers(rows: pd.DataFrame) -> Iterator[tuple[str, Floats]]:
    """Name and time in each step: all layers first, then each layer, summed over the stages that share it."""
    if len(rows):
        yield ALL, rows.groupby("step")["time_s"].sum().to_numpy(np.float64)
    for (layer, direction), group in rows.groupby(["layer", "direction"], sort=False, dropna=False):
        name = f"{layer} {direction}" if isinstance(direction, str) else str(layer)
        yield name, group.groupby("step")["time_s"].sum().to_numpy(np.float64)


def _kernels(rows: pd.DataFrame) -> Iterator[tuple[str, Floats]]:
    """Name and total time of GPU work in a profiler table: all kernels first. Rows of ranges are left out."""
    rows = rows[rows["kind"].isin(["kernel", "memcpy", "memset"]) & rows["range"].isna()]
    if len(rows):
        yield ALL, np.array([rows["time_s"].sum()])
    for name, seconds in rows.groupby("name", sort=False)["time_s"].sum().items():
        yield str(name), np.array([seconds])
