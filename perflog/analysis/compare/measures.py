"""What is compared of a run: its figures, each as the values of its steady steps, or as one value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from perflog.analysis.compare import traces
from perflog.analysis.compare.sides import Side
from perflog.metrics.semantics import Meaning, meanings
from perflog.metrics.step_series import Series, series
from perflog.metrics.traces.device_work import Device
from perflog.statistics.samples import Floats

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["step", "device", "phase", "layer", "kernel"]


@dataclass(frozen=True)
class Measure:
    """A figure: its name and kind, base unit, which way is better.

    `derived`: it is computed from another one, so it says nothing of its own. `of`: what its time is part of.
    """

    kind: Kind
    name: str
    unit: str = "s"
    better: Literal["lower", "higher"] = "lower"
    derived: bool = False
    of: str | None = None


STEPS = (
    Measure("step", "step_time"),
    Measure("step", "forward", of="step_time"),
    Measure("step", "backward", of="step_time"),
    Measure("step", "tflops", "TFLOP/s", "higher", derived=True),
    Measure("step", "mfu", "1", "higher", derived=True),
    Measure("step", "tokens_per_s", "1/s", "higher", derived=True),
    Measure("step", "samples_per_s", "1/s", "higher", derived=True),
    Measure("step", "memory", "B"),
)
"""Columns of `steps` that are compared. Rates are computed by the program from the step time."""

ALL = "all"
"""The sum of all layers, or of all kernels."""

_ENDS = {"s": "_s", "B": "_bytes"}
Values = dict[Measure, dict[str, Floats]]


@dataclass
class Found:
    """What a side has: for each measure the values by run."""

    values: Values = field(default_factory=dict)

    def add(self, measure: Measure, run: str, values: Floats) -> None:
        if len(values):
            self.values.setdefault(measure, {})[run] = values

    def of(self, measure: Measure, runs: Sequence[str]) -> list[Floats]:
        """Values of these runs, one array a run; none where the side does not have the measure."""
        have = self.values.get(measure, {})
        return [have[run] for run in runs if run in have]


def warmups(side: Side) -> dict[str, tuple[int, int]]:
    """Steps of warm-up found in each run that prints step times, and how many steps it has."""
    return {one.run: (one.warmup.cut, len(one.values)) for tables in side.tables for one in series(tables)}


def measures(side: Side, cuts: Mapping[str, int]) -> Found:
    """All that the runs of a side show, each without the first steps that `cuts` names."""
    found = Found()
    for tables in side.tables:
        of_run = {name: tables.by_run(name) for name in ("steps", "phases", "layers", "kernels")}
        printed = {m: {one.run: one for one in series(tables, _column(m), 0)} for m in STEPS}
        worlds = tables["runs"].set_index("run")["world_size"].dropna().to_dict()
        means, traced = meanings(tables["runs"]), traces.of_runs(tables)
        for run in (run for run in tables["runs"]["run"] if run in cuts):
            mine = {name: of_run[name].get(run, tables[name][:0]) for name in of_run}
            every = {measure: by_run[run] for measure, by_run in printed.items() if run in by_run}
            first = _step_values(every, mine["steps"], cuts[run], means[run], found)
            for name, of, values in _phases(_steady(mine["phases"], first, cuts[run]), worlds.get(run), means[run]):
                found.add(Measure("phase", name, of=of), run, values)
            for name, values in _layers(_steady(mine["layers"], first, cuts[run])):
                found.add(Measure("layer", name, of=None if name == ALL else ALL), run, values)
            for one, values in _devices(traced.get(run, []), first, cuts[run]):
                found.add(one, run, values)
            for name, values in _kernels(mine["kernels"]):
                found.add(Measure("kernel", name, of=None if name == ALL else ALL), run, values)
    return found


def _devices(members: list[Device], first: int | None, cut: int) -> Iterator[tuple[Measure, Floats]]:
    """What the devices of a run's trace did in its steady steps, and each kernel's time; first that of all."""
    if not members:
        return
    steps = traces.steady(members, first, cut)
    for name, values in traces.states(members, steps):
        if name in traces.SHARES:
            yield Measure("device", name, "1", "higher", derived=name == "busy"), values
        else:
            yield Measure("device", name, of=None if steps is None else "step_time"), values
    times = traces.kernels(members, steps)
    yield Measure("kernel", ALL), np.sum(list(times.values()), axis=0)
    for name, values in times.items():
        yield Measure("kernel", name, of=ALL), values


def _column(measure: Measure) -> str:
    return measure.name + _ENDS.get(measure.unit, "")


def _step_values(
    every: Mapping[Measure, Series], steps: pd.DataFrame, cut: int, means: Meaning, found: Found
) -> int | None:
    """The columns of `steps`; gives the first step that counts, None where no step times are printed."""
    first = None
    for measure, one in every.items():
        steady = one.values[cut:]
        found.add(measure, one.run, steady)
        if measure.name == "step_time" and len(steady):
            first = int(one.steps[cut])
            if "tokens" in means.quantities and steps["tokens_per_s"].isna().all():
                rate = next(m for m in STEPS if m.name == "tokens_per_s")
                found.add(rate, one.run, means.quantities["tokens"] / steady)
    return first


def _steady(rows: pd.DataFrame, first: int | None, cut: int) -> pd.DataFrame:
    """The rows of steady steps. Where the step lines do not say which these are, `cut` steps of the rows go."""
    rows = rows[rows["step"].notna()]
    if first is None:
        steps = np.unique(rows["step"].to_numpy(np.int64))
        first = int(steps[cut]) if cut < len(steps) else None
    return rows[rows["step"] >= first] if first is not None else rows[:0]


def _phases(rows: pd.DataFrame, world: int | None, means: Meaning) -> Iterator[tuple[str, str | None, Floats]]:
    """Name, what it is part of, and time in each step: the mean over ranks of a rank's total.

    Where ranks are not known, `world_size` ranks share the total; where that is not known either, the phase is left
    out. A phase that is part of several wholes counts in each by itself.
    """
    times = list(zip(rows["phase"], rows["occurrence"].tolist(), strict=True))
    parents = {time: means.parent(*time) for time in set(times)}
    place = {time: i for i, time in enumerate(dict.fromkeys(times))}
    rows = rows[["phase", "step", "rank", "time_s"]].assign(whole=[parents[time] for time in times])
    rows = rows.iloc[np.argsort([place[time] for time in times], kind="stable")]
    for (name, whole), group in rows.groupby(["phase", "whole"], sort=False):
        known = bool(group["rank"].notna().all())
        ranks = group["rank"].nunique() if known else world
        if not ranks:
            continue
        declared = means.phase(name)
        several = declared is not None and len(set(declared.of)) > 1
        of = None if declared and declared.hidden else {"step": "step_time"}.get(whole, whole)
        totals = group.groupby("step")["time_s"].sum().to_numpy(np.float64)
        yield f"{name} in {whole}" if several else name, of, totals / ranks


def _layers(rows: pd.DataFrame) -> Iterator[tuple[str, Floats]]:
    """Name and time in each step, summed over the stages that share the layer; first that of all layers."""
    if len(rows):
        yield ALL, rows.groupby("step")["time_s"].sum().to_numpy(np.float64)
    for (layer, direction), group in rows.groupby(["layer", "direction"], sort=False, dropna=False):
        name = f"{layer} {direction}" if isinstance(direction, str) else str(layer)
        yield name, group.groupby("step")["time_s"].sum().to_numpy(np.float64)


def _kernels(rows: pd.DataFrame) -> Iterator[tuple[str, Floats]]:
    """Name and total time of what ran on the GPU, from the rows that are of the whole run (of no range); first all."""
    rows = rows[rows["kind"].isin(["kernel", "memcpy", "memset"]) & rows["range"].isna()]
    if len(rows):
        yield ALL, np.array([rows["time_s"].sum()])
    for name, seconds in rows.groupby("name", sort=False)["time_s"].sum().items():
        yield str(name), np.array([seconds])
