"""Measures of a run that are compared, each as the values of the run's steady steps, or as one value."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from perflog.analysis.compare import trace_measures
from perflog.analysis.compare.equal_steps import EqualSteps, series_values
from perflog.analysis.compare.operator_trees import OperatorNode, operator_tree, operators_by_run
from perflog.analysis.compare.printed_measures import collective_figures, summary_figures
from perflog.analysis.compare.sides import Side
from perflog.metrics import Options, Tables, time_to_target
from perflog.metrics.hot_experts import expert_jobs
from perflog.metrics.pauses import pause_rows
from perflog.metrics.semantics import RunSemantics, semantics_by_run
from perflog.metrics.step_series import StepSeries, step_series
from perflog.metrics.traces.device_work import TraceDevice
from perflog.metrics.traces.idle_causes import DeviceIdle
from perflog.metrics.traces.work_tree import WorkTree
from perflog.statistics.groups import groups_of
from perflog.statistics.samples import Floats
from perflog.statistics.warmup import Warmup
from perflog.tables.columns import Ints, Rows

if TYPE_CHECKING:
    import pandas as pd


class Measure(Struct, frozen=True):
    """A compared measure: its kind and name, base unit, which way is better.

    `derived`: it is computed from another measure, so it is no further evidence. `of`: the measure whose time it is
    part of.
    """

    kind: Literal[
        "target",
        "step",
        "run",
        "device",
        "idle",
        "path",
        "phase",
        "layer",
        "range",
        "operator",
        "kernel",
        "rate",
        "call",
        "memory",
        "holder",
        "counter",
        "collective",
        "summary",
        "load",
        "value",
    ]
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
"""Name of the sum of all layers, all kernels, all operators, all API calls, or the work of all ranges."""

STEP, TRACE = "step", "trace"
"""What the times of devices are of: the steady steps, or the whole trace."""

_OF_DEVICES = ("device", "idle", "path", "range", "operator", "kernel")  # kinds
_TABLES = ("steps", "phases", "layers", "kernels", "collectives", "summaries", "values")
_SUFFIXES = {"s": "_s", "B": "_bytes"}  # of columns, by unit


class SideValues(Struct):
    """The values of a side: for each measure, one array per run. `step_times`: whole series, with the warm-up.

    `operators`: those of each run whose trace names some, in its steady steps. `parts`: by run with a trace, what the
    times of its devices are of: STEP, or TRACE where it has no annotated steps.
    """

    by_measure: dict[Measure, dict[str, Floats]] = field(default_factory=dict)
    step_times: dict[str, StepSeries] = field(default_factory=dict)
    operators: dict[str, OperatorNode] = field(default_factory=dict)
    parts: dict[str, str] = field(default_factory=dict)

    def add(self, measure: Measure, run: str, values: Floats) -> None:
        """Keep the values of a measure in a run, if there are any."""
        if len(values):
            self.by_measure.setdefault(measure, {})[run] = values

    def of(self, measure: Measure, runs: Sequence[str]) -> list[Floats]:
        """Return the values of these runs, one array per run; empty where the side does not have the measure."""
        by_run = self.by_measure.get(measure, {})
        return [by_run[run] for run in runs if run in by_run]

    def without_devices(self, run: str) -> None:
        """Leave out the times of the devices of a run."""
        self.operators.pop(run, None)
        for measure in [m for m in self.by_measure if m.kind in _OF_DEVICES]:
            self.by_measure[measure].pop(run, None)
            if not self.by_measure[measure]:
                del self.by_measure[measure]

    def series(self, runs: Sequence[str]) -> list[StepSeries]:
        """Return the step times of these runs with their warm-up, of those that print them."""
        return [self.step_times[run] for run in runs if run in self.step_times]


def warmups(side: Side) -> dict[str, tuple[int, int]]:
    """Return, for each run that prints step times, the number of warm-up steps found and the number of its steps."""
    return {s.run: (s.warmup.cut, len(s.values)) for s in step_series(side.tables)}


def side_values(
    side: Side,
    cuts: Mapping[str, int],
    at: Mapping[str, EqualSteps] | None = None,
    targets: Mapping[str, float] | None = None,
) -> SideValues:
    """Return all measures of a side's runs, each run without its first steps; `cuts` gives their number by run.

    `at`: by run, the steps at which series are compared whose last steps differ. `targets`: values to reach, by series.
    """
    values = SideValues()
    tables = side.tables
    _add_figures(_to_targets(tables, targets), cuts, values)
    printed = {m: {s.run: s for s in step_series(tables, _column(m), 0)} for m in STEP_MEASURES}
    runs = tables.rows("runs")
    world_sizes = dict(runs.where(runs.known("world_size")).records("run", "world_size"))
    elapsed = {run: np.array([s]) for run, s in runs.where(runs.known("elapsed_s")).records("run", "elapsed_s")}
    means, traces = semantics_by_run(runs), _Traces.of(tables)
    for run in (run for run in runs["run"].tolist() if run in cuts):
        rows = {name: tables.rows_of(name, run) for name in _TABLES}
        of_run = {measure: of_runs[run] for measure, of_runs in printed.items() if run in of_runs}
        first = _add_steps(of_run, rows["steps"], cuts[run], means[run], values)
        values.add(RUN_TIME, run, elapsed.get(run, np.empty(0)))
        phases = _steady(rows["phases"], first, cuts[run])
        for name, whole, times in _phases(phases, world_sizes.get(run), means[run]):
            values.add(Measure("phase", name, of=whole), run, times)
        for name, times in _layers(_steady(rows["layers"], first, cuts[run])):
            values.add(Measure("layer", name, of=None if name == ALL else ALL), run, times)
        traces.add_times(run, first, cuts[run], values)
        for measure, times in _profiled(rows["kernels"]):
            values.add(measure, run, times)
        for measure, figures in _printed(rows["collectives"], rows["summaries"], has_steps=first is not None):
            values.add(measure, run, figures)
        series = series_values(rows["values"], rows["steps"], (at or {}).get(run, {}), means[run].either_way)
        for name, unit, better, figures in series:
            values.add(Measure("value", name, unit, better), run, figures)
    _add_figures(_pauses(tables), cuts, values)
    _add_figures(_memory(tables), cuts, values)
    _add_figures(_counters(tables), cuts, values)
    _add_figures(_collectives(tables), cuts, values)
    _add_figures(_rates(tables), cuts, values)
    _add_figures(_operators(tables, traces.devices), cuts, values)
    for job in expert_jobs(tables):
        if job.first_run in cuts:
            name = f"{job.unit or 'load'}s of experts, max/mean"
            values.add(Measure("load", name, ""), job.first_run, np.array(list(job.imbalances().values())))
    return values


def _add_figures(figures: Iterable[tuple[Measure, str, float]], runs: Container[str], values: SideValues) -> None:
    for measure, run, figure in figures:
        if run in runs:
            values.add(measure, run, np.array([figure], np.float64))


def _to_targets(tables: Tables, targets: Mapping[str, float] | None) -> Iterator[tuple[Measure, str, float]]:
    """Time and steps of each run to each target that it reaches."""
    if targets:
        rows = time_to_target.table(tables, Options(targets=targets))
        for column, unit, name in (("time_s", "s", "time"), ("step", "", "steps")):
            for run, key, target, figure in rows[["run", "key", "target", column]].dropna().to_numpy():
                yield Measure("target", f"{name} to {key} {target:g}", unit), run, figure


def _pauses(tables: Tables) -> Iterator[tuple[Measure, str, float]]:
    """The mean time of the validations, checkpoints and other pauses of each run."""
    for row in pause_rows(tables):
        yield Measure("run", f"{row['kind']} pause"), row["run"], row["mean_s"]


def _collectives(tables: Tables) -> Iterator[tuple[Measure, str, float]]:
    """Bandwidths and waits of the collectives of traces."""
    for run, name, unit, figure in trace_measures.collective_figures(tables):
        yield Measure("collective", name, unit, "lower" if unit == "s" else "higher"), run, figure


def _rates(tables: Tables) -> Iterator[tuple[Measure, str, float]]:
    """Rates of the operators of traces by their shapes: computed from the same times as those of kernels."""
    for run, name, unit, figure in trace_measures.operator_rates(tables):
        yield Measure("rate", name, unit, "higher", derived=True), run, figure


def _memory(tables: Tables) -> Iterator[tuple[Measure, str, float]]:
    """The memory of traces: peaks and growth, and who held the peak."""
    for run, name, holder, size in trace_measures.memory_figures(tables):
        if holder is None:
            yield Measure("memory", name, "B"), run, size
        else:
            place = name.partition(" ")[0]  # a holder may have memory of the device and of the host
            yield Measure("holder", f"{holder}, at the peak of {place} memory", "B", of=name), run, size


def _counters(tables: Tables) -> Iterator[tuple[Measure, str, float]]:
    """The mean of each counter of whole devices; nobody knows which way is better."""
    for run, name, unit, mean in trace_measures.counter_means(tables):
        yield Measure("counter", name, unit, None), run, mean


def _operators(tables: Tables, devices: Container[str]) -> Iterator[tuple[Measure, str, float]]:
    """Host time of the operators of traces without a device; calls and bytes of those without times."""
    without = tables.only([run for run in tables.rows("runs")["run"].tolist() if run not in devices])
    for run, name, of, unit, figure in trace_measures.operator_figures(without):
        yield Measure("operator", name, unit, "lower" if unit else None, of=of), run, figure


def _printed(collectives: Rows, summaries: Rows, has_steps: bool) -> Iterator[tuple[Measure, Floats]]:
    """The measured collectives of a run; the summaries of one that measures neither collectives nor steps."""
    if len(collectives):
        for name, unit, better, values in collective_figures(collectives):
            yield Measure("collective", name, unit, better), values
    else:
        if has_steps:  # averages of steps: these have figures of their own
            of_steps = summaries.known("window_first") | summaries.one_of("key", [m.name for m in STEP_MEASURES])
            summaries = summaries.where(~of_steps)
        for name, unit, better, values in summary_figures(summaries):
            yield Measure("summary", name, unit, better), values


class _Traces(Struct, frozen=True):
    """What the traces of a side tell of the times of devices, by run."""

    devices: dict[str, list[TraceDevice]]
    ranges: dict[str, list[WorkTree]]
    idle: dict[str, list[DeviceIdle]]
    paths: dict[str, pd.DataFrame]
    operators: dict[str, list[WorkTree]]

    @classmethod
    def of(cls, tables: Tables) -> _Traces:
        return cls(
            trace_measures.devices_by_run(tables),
            trace_measures.ranges_by_run(tables),
            trace_measures.idle_by_run(tables),
            trace_measures.paths_by_run(tables),
            operators_by_run(tables),
        )

    def add_times(self, run: str, first: int | None, cut: int, values: SideValues) -> None:
        """Add the times of a run in its steady steps; without annotated steps, in the whole trace."""
        if not (members := self.devices.get(run)):
            return
        steps = trace_measures.steady_steps(members, first, cut)
        values.parts[run] = TRACE if steps is None else STEP
        of_devices = _devices(members, self.ranges.get(run, []), self.idle.get(run, []), steps)
        for measure, times in chain(of_devices, _paths(self.paths.get(run), steps)):
            values.add(measure, run, times)
        if run in self.operators and (steps is None or len(steps)):
            values.operators[run] = operator_tree(self.operators[run], members, steps)


def _devices(
    members: list[TraceDevice], ranges: list[WorkTree], idle: list[DeviceIdle], steps: Ints | None
) -> Iterator[tuple[Measure, Floats]]:
    """Times of devices in these steps of a trace: by state and cause, by kernel, by range."""
    for name, values in trace_measures.state_values(members, steps):
        if name in trace_measures.SHARES:
            yield Measure("device", name, "1", "higher", derived=name == "busy"), values
        else:
            yield Measure("device", name, of=None if steps is None else "step_time"), values
    for name, values in trace_measures.idle_times(idle, steps):
        yield Measure("idle", name, of=None if steps is None else "idle"), values
    times = trace_measures.kernel_times(members, steps)
    total = np.sum(list(times.values()), axis=0)
    yield Measure("kernel", ALL), total
    for name, values in times.items():
        yield Measure("kernel", name, of=ALL), values
    if ranges and (steps is None or len(steps)):
        yield Measure("range", ALL), total
        for path, around, values in trace_measures.range_times(ranges, members, steps):
            yield Measure("range", path, of=around or ALL), values


def _paths(rows: pd.DataFrame | None, steps: Ints | None) -> Iterator[tuple[Measure, Floats]]:
    """Times on the critical path in these steps of a trace, by kind."""
    if rows is not None:
        for name, times in trace_measures.path_times(rows, steps):
            yield Measure("path", f"{name} on the critical path"), times


def _column(measure: Measure) -> str:
    return measure.name + _SUFFIXES.get(measure.unit, "")


def _add_steps(
    printed: Mapping[Measure, StepSeries], steps: Rows, cut: int, means: RunSemantics, values: SideValues
) -> int | None:
    """Add the columns of `steps`; return the first steady step, None where no step times are printed."""
    first = None
    for measure, s in printed.items():
        steady = s.values[cut:]
        values.add(measure, s.run, steady)
        if measure == STEP_TIME and len(steady):
            values.step_times[s.run] = s if s.warmup.cut == cut else replace(s, warmup=Warmup(cut, "cut alike"))
            first = int(s.steps[cut])
            if "tokens" in means.quantities and not steps.known("tokens_per_s").any():
                rate = next(m for m in STEP_MEASURES if m.name == "tokens_per_s")
                values.add(rate, s.run, means.quantities["tokens"] / steady)
    return first


def _steady(rows: Rows, first: int | None, cut: int) -> Rows:
    """The rows of steady steps. Without a first steady step, the first `cut` steps among the rows are left out."""
    rows = rows.where(rows.known("step"))
    if first is None:
        steps = np.unique(rows["step"])
        if cut >= len(steps):
            return rows.where(np.zeros(len(rows), np.bool_))
        first = int(steps[cut])
    return rows.where(rows["step"] >= first)


def _phases(rows: Rows, world_size: int | None, means: RunSemantics) -> Iterator[tuple[str, str | None, Floats]]:
    """Yield name and parent of each phase, and its time in each step: the mean over ranks of a rank's total.

    Where ranks are not known, the total is divided by `world_size`; without that either, the phase is left out. A phase
    with several parents counts in each of them separately.
    """
    if not len(rows):
        return
    codes, words = rows.codes("phase")
    keys = groups_of(codes, rows["occurrence"])
    names = [words[code] for code in codes[keys.first].tolist()]
    pairs = [
        (name, means.parent(name, k)) for name, k in zip(names, rows["occurrence"][keys.first].tolist(), strict=True)
    ]
    parts = {pair: place for place, pair in enumerate(dict.fromkeys(pairs[key] for key in np.argsort(keys.first)))}
    part = np.array([parts[pair] for pair in pairs])[keys.of_row]
    ranks, all_known = _numbers_of_ranks(rows, part, len(parts))
    totals = list(_totals_of_steps(rows, part, len(parts)))
    for place, (name, whole) in enumerate(parts):
        divisor = ranks[place] if all_known[place] else world_size
        if not divisor:
            continue
        declared = means.phase(name)
        several = declared is not None and len(set(declared.of)) > 1
        of = None if declared and declared.hidden else {"step": "step_time"}.get(whole, whole)
        yield f"{name} in {whole}" if several else name, of, totals[place] / divisor


def _numbers_of_ranks(rows: Rows, part: Ints, parts: int) -> tuple[list[int], list[bool]]:
    """The number of ranks that print rows of each part, and whether all its rows have a known rank."""
    ranks = groups_of(part, rows["rank"])
    numbers = np.bincount(part[ranks.first], minlength=parts)
    unknown = np.bincount(part[~rows.known("rank")], minlength=parts)
    return numbers.tolist(), (unknown == 0).tolist()


def _totals_of_steps(rows: Rows, part: Ints, parts: int) -> Iterator[Floats]:
    """Yield for each part the sum of its times in each of its steps."""
    steps = groups_of(part, rows["step"])
    sums, of_sums = steps.sums(rows["time_s"]), part[steps.first]
    bounds = np.searchsorted(of_sums, np.arange(parts + 1))
    yield from (sums[start:end] for start, end in pairwise(bounds.tolist()))


def _layers(rows: Rows) -> Iterator[tuple[str, Floats]]:
    """Name and time in each step: all layers first, then each layer, summed over the stages that share it."""
    if not len(rows):
        return
    yield ALL, next(_totals_of_steps(rows, np.zeros(len(rows), np.int64), 1))
    parts: dict[tuple[str, str | None], int] = {}
    part = np.array([parts.setdefault(key, len(parts)) for key in rows.records("layer", "direction")])
    for (layer, direction), times in zip(parts, _totals_of_steps(rows, part, len(parts)), strict=True):
        yield " ".join(filter(None, (layer, direction))) or "-", times


def _profiled(rows: Rows) -> Iterator[tuple[Measure, Floats]]:
    """The total times of a profiler table, that of all rows first: of GPU work, else of API calls; not of ranges."""
    rows = rows.where(~rows.known("range"))
    gpu_work = rows.where(rows.one_of("kind", ["kernel", "memcpy", "memset"]))
    rows = gpu_work if len(gpu_work) else rows.where(rows.one_of("kind", ["api"]))
    kind: Literal["kernel", "call"] = "kernel" if len(gpu_work) else "call"
    if len(rows):
        yield Measure(kind, ALL), np.array([np.nansum(rows["time_s"])])
    for name, of_name in rows.by("name").items():
        yield Measure(kind, name, of=ALL), np.array([np.nansum(of_name["time_s"])])
