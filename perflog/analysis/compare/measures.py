"""The values of a side: what its metrics declare to compare, by measure and run; and which runs are of one session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from perflog.analysis.compare.operator_trees import OperatorNode, operator_tree, operators_by_run
from perflog.analysis.compare.sides import Side
from perflog.arrays import Floats
from perflog.metrics import METRICS
from perflog.metrics.compared import KINDS, STEP_MEASURES, STEP_TIME, Measure, Steady
from perflog.metrics.run_moments import moments
from perflog.metrics.run_tables import Tables
from perflog.metrics.series.series_ends import EqualSteps, named_value_samples
from perflog.metrics.step_series import StepSeries, means_over_ranks, step_series
from perflog.metrics.traces.steady_work import steady_devices
from perflog.settings.run_settings import Settings, names_machine
from perflog.statistics.warmup import Warmup

_OF_RUNS = ("run", "summary")  # kinds
_OF_DEVICES = ("device", "idle", "path", "range", "operator", "kernel")  # kinds


class SideValues(Struct):
    """The values of a side: for each measure, one array per run. `step_times`: whole series, with the warm-up.

    `parts_of_steps`: of the step time and the columns of steps that are parts of it, the means over ranks, by measure
    and run: the parts of each rank add up to its time, and so do their means.
    `operators`: in steady steps, of each run with a trace that names some. `parts`: by run with a trace, what the
    times of its devices are of: STEP, or TRACE where it has no annotated steps. `sessions`: by run, where it is known.
    """

    by_measure: dict[Measure, dict[str, Floats]] = field(default_factory=dict)
    step_times: dict[str, StepSeries] = field(default_factory=dict)
    parts_of_steps: dict[Measure, dict[str, Floats]] = field(default_factory=dict)
    operators: dict[str, OperatorNode] = field(default_factory=dict)
    parts: dict[str, str] = field(default_factory=dict)
    sessions: dict[str, str] = field(default_factory=dict)

    def add(self, measure: Measure, run: str, values: Floats) -> None:
        """Keep the values of a measure in a run, if there are any."""
        if len(values):
            self.by_measure.setdefault(measure, {})[run] = values

    def of(self, measure: Measure, runs: Sequence[str]) -> list[Floats]:
        """Return the values of these runs, one array per run; empty where the side does not have the measure."""
        return list(self.by_run(measure, runs).values())

    def part_of_step(self, measure: Measure, runs: Sequence[str]) -> list[Floats]:
        """Return the values of these runs as parts of the step: means over ranks."""
        means = self.parts_of_steps.get(measure)
        return self.of(measure, runs) if means is None else [means[run] for run in runs if run in means]

    def by_run(self, measure: Measure, runs: Sequence[str]) -> dict[str, Floats]:
        """Return the values of these runs by run, without the runs that have none."""
        by_run = self.by_measure.get(measure, {})
        return {run: by_run[run] for run in runs if run in by_run}

    def sessions_of(self, runs: Iterable[str]) -> tuple[str, ...]:
        """Return the session of each run; nothing if a session is not known."""
        known = [self.sessions.get(run, "") for run in runs]
        return tuple(known) if all(known) else ()

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
    last: Mapping[str, int] | None = None,
) -> SideValues:
    """Return what the metrics of a side's runs declare, each run without its first steps; `cuts`: their number by run.

    `at`: by run, the steps at which series with different last steps are compared. `targets`: values to reach, by
    series. `last`: by run, the last step that counts; figures of the whole run are left out then.
    """
    tables, values = side.tables, SideValues(sessions=sessions_of(side))
    last = last or {}
    for whole in step_series(tables, warmup=0):
        series = whole.until(last.get(whole.run))
        if len(series.values) > (cut := cuts.get(series.run, len(series.values))):
            values.step_times[series.run] = replace(series, warmup=Warmup(cut, "cut alike")) if cut else series
    first = {run: int(series.steps[series.warmup.cut]) for run, series in values.step_times.items()}
    steady = Steady(cuts, first, at or {}, targets, last)
    samples = [sample for metric in METRICS.values() for sample in metric.samples(tables, steady)]
    for measure, run, figures in sorted(samples, key=lambda sample: KINDS.index(sample[0].kind)):
        if run in cuts and not (measure.kind in _OF_RUNS and run in last):
            values.add(measure, run, figures)
    values.parts_of_steps = _parts_of_steps(tables, cuts, last)
    compared = {run for values_by_run in values.by_measure.values() for run in values_by_run}
    for measure, run, figures in named_value_samples(tables, [run for run in cuts if run not in compared]):
        values.add(measure, run, figures)
    trees = operators_by_run(tables)
    for of in steady_devices(tables, steady):
        values.parts[of.run] = of.part
        if of.run in trees and (of.steps is None or len(of.steps)):
            values.operators[of.run] = operator_tree(trees[of.run], of.devices, of.steps)
    tables.return_freed()
    return values


def _parts_of_steps(
    tables: Tables, cuts: Mapping[str, int], last: Mapping[str, int]
) -> dict[Measure, dict[str, Floats]]:
    """The means over ranks of the step time and of the columns of steps that are parts of it."""
    found: dict[Measure, dict[str, Floats]] = {}
    for measure in (each for each in STEP_MEASURES if each == STEP_TIME or each.of):
        for series in means_over_ranks(tables, measure.column):
            means = series.until(last.get(series.run)).values
            if len(means) > (cut := cuts.get(series.run, len(means))):
                found.setdefault(measure, {})[series.run] = means[cut:]
    return found


# --- sessions --------------------------------------------------------------------------------------------------------
# A session is what the tag `session` names, else one job of a CI system or of Slurm, else one day on one machine.

TAG = "session"
"""Name of the tag that names the session of runs."""

_JOBS = (("ci_url", "ci_job"), ("slurm_job",))
"""Names of provenance that together name a job, if the first of them is known."""


def sessions_of(side: Side) -> dict[str, str]:
    """Return the session of each run of a side, without runs of unknown session."""
    started = moments(side.tables)
    found = {}
    for run, settings in side.settings.items():
        job = _job(settings)
        if job is None and run in started:
            machine = " ".join(value for name, value in sorted(settings.items()) if names_machine(name))
            job = f"{started[run].at:%Y-%m-%d} {machine}"
        if job is not None:
            found[run] = job
    return found


def _job(settings: Settings) -> str | None:
    if TAG in settings:
        return settings[TAG]
    names = next((names for names in _JOBS if names[0] in settings), ())
    return " ".join(settings.get(name, "") for name in names) or None
