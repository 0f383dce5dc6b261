"""What the warm-up costs: the time of the steps that are cut at the start of all runs, on each side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from perflog.analysis.compare.measures import SideValues
from perflog.analysis.compare.sides import Case, ResultRow, Side
from perflog.metrics import MetricColumn
from perflog.metrics.step_series import StepSeries

COLUMNS = (
    MetricColumn("case", meaning="the configuration that the sides share"),
    MetricColumn("side", meaning="name of the side"),
    MetricColumn("lines", meaning="steps, or lines of several steps, that are cut at the start of each run"),
    MetricColumn("time_s", "s", "lower", meaning="their time: mean over the runs"),
    MetricColumn("extra_s", "s", "lower", meaning="time_s less that of as many steady steps"),
    MetricColumn(
        "difference_s", "s", "lower", meaning="time_s less that of the base; null if other steps are cut there"
    ),
)


def warmup_costs(sides: Sequence[Side], cases: Sequence[Case], values: Sequence[SideValues]) -> list[ResultRow]:
    """Return a row per case and side whose runs have step times, where steps are cut; the base first."""
    rows = [row for case in cases for row in _of_case(case, sides, values)]
    return [{c.name: row.get(c.name) for c in COLUMNS} for row in rows]


def _of_case(case: Case, sides: Sequence[Side], values: Sequence[SideValues]) -> Iterator[ResultRow]:
    series = [of_side.series(runs) for of_side, runs in zip(values, case.runs, strict=True)]
    for side, runs in zip(sides, series, strict=True):
        if not any(run.warmup.cut for run in runs):
            continue
        time = _time(runs)
        steady = float(np.mean([run.warmup.cut * run.steady.mean() * max(run.averaged, 1) for run in runs]))
        row = {"case": case.name, "side": side.name, "lines": runs[0].warmup.cut, "time_s": time}
        row["extra_s"] = time - steady
        if side is not sides[0] and series[0] and _same_steps([*series[0], *runs]):
            row["difference_s"] = time - _time(series[0])
        yield row


def _same_steps(runs: Sequence[StepSeries]) -> bool:
    """Whether the same steps are cut from all runs."""
    cut = runs[0].warmup.cut
    return all(
        run.averaged == runs[0].averaged and np.array_equal(run.order[:cut], runs[0].order[:cut]) for run in runs
    )


def _time(runs: Sequence[StepSeries]) -> float:
    """The time of the steps that are cut: mean over the runs. A line may be the mean of several steps."""
    return float(np.mean([run.values[: run.warmup.cut].sum() * max(run.averaged, 1) for run in runs]))
