"""What the warm-up costs: the time of the steps that are cut at the start of all runs, on each side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import numpy as np
from msgspec import Struct

from perflog.analysis.compare.measures import SideValues
from perflog.analysis.compare.sides import Case, Side
from perflog.metrics.registry import column, columns_of
from perflog.metrics.step_series import StepSeries


class WarmupRow(Struct, frozen=True):
    """The time of the warm-up of a side."""

    case: Annotated[str, column("the configuration that the sides share")]
    side: Annotated[str, column("name of the side")]
    lines: Annotated[int, column("steps, or lines of several steps, that are cut at the start of each run")]
    time_s: Annotated[float, column("their time: mean over the runs", "s", "lower")]
    extra_s: Annotated[float, column("time_s minus the time of as many steady steps", "s", "lower")]
    difference_s: Annotated[
        float | None, column("time_s minus the time on the base; null if other steps are cut there", "s", "lower")
    ]


COLUMNS = columns_of(WarmupRow)


def warmup_costs(sides: Sequence[Side], cases: Sequence[Case], values: Sequence[SideValues]) -> list[WarmupRow]:
    """Return a row per case and side with step times, where steps are cut; the base first."""
    return [row for case in cases for row in _of_case(case, sides, values)]


def _of_case(case: Case, sides: Sequence[Side], values: Sequence[SideValues]) -> Iterator[WarmupRow]:
    series = [side_values.series(runs) for side_values, runs in zip(values, case.runs, strict=True)]
    for side, runs in zip(sides, series, strict=True):
        if not any(run.warmup.cut for run in runs):
            continue
        time = _time(runs)
        steady = float(np.mean([run.warmup.cut * run.steady.mean() * max(run.averaged, 1) for run in runs]))
        is_comparable = side is not sides[0] and series[0] and _same_steps([*series[0], *runs])
        difference = time - _time(series[0]) if is_comparable else None
        yield WarmupRow(case.name, side.name, runs[0].warmup.cut, time, time - steady, difference)


def _same_steps(runs: Sequence[StepSeries]) -> bool:
    """Whether the same steps are cut from all runs."""
    cut = runs[0].warmup.cut
    return all(
        run.averaged == runs[0].averaged and np.array_equal(run.order[:cut], runs[0].order[:cut]) for run in runs
    )


def _time(runs: Sequence[StepSeries]) -> float:
    """The time of the steps that are cut: mean over the runs. A line may be the mean of several steps."""
    return float(np.mean([run.values[: run.warmup.cut].sum() * max(run.averaged, 1) for run in runs]))
