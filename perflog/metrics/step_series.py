"""One number per step of a run, as metrics, comparison and linter use it: which printed rows count, and the warm-up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from perflog.statistics.samples import Floats
from perflog.statistics.warmup import Warmup, warm_up

if TYPE_CHECKING:
    import pandas as pd

Ints = npt.NDArray[np.int64]

_DECADES = 1e9  # seconds: 31 years
_FINITE = 1e30  # what is larger overflows in sums of squares, if not before


@dataclass(frozen=True)
class StepSeries:
    """A column of `steps` in one run. `values[i]` is step `steps[i]`, printed on line `lines[i]`.

    `left_out` tells of printed steps that are not in it, by step, and why. `averaged`: steps each value is the mean
    of. Where several ranks print a step, its value is that of the slowest (the largest).
    """

    run: str
    label: str | None
    column: str
    steps: Ints
    values: Floats
    lines: Ints
    averaged: int
    left_out: tuple[tuple[int, str], ...]
    warmup: Warmup

    @property
    def steady(self) -> Floats:
        """The values behind the warm-up."""
        return self.values[self.warmup.cut :]

    @property
    def window(self) -> tuple[int, int] | None:
        """First and last steady step."""
        steps = self.steps[self.warmup.cut :]
        return (int(steps[0]), int(steps[-1])) if len(steps) else None


def step_series(
    tables: Mapping[str, pd.DataFrame], column: str = "step_time_s", warmup: int | None = None
) -> Iterator[StepSeries]:
    """The series of each run that prints the column, in the order of the runs.

    A repeated printing of a step (`copy` > 1) is left out; so is a line that covers another number of steps than most
    lines do, and a value that is `impossible`. The warm-up is found in `step_time_s` where that is printed, and cut
    alike from all columns.
    """
    mine = _columns(tables["steps"], column)
    clocks = _columns(tables["steps"], "step_time_s") if warmup is None and column != "step_time_s" else {}
    for run, label in zip(tables["runs"]["run"], tables["runs"]["label"], strict=True):
        if run not in mine:
            continue
        one = _one(run, label, column, mine[run], warmup)
        if not len(one.values):
            continue
        if run in clocks:
            clock = _one(run, label, "step_time_s", clocks[run], None)
            cut = clock.warmup.cut
            if cut:
                cut = int(np.searchsorted(one.steps, clock.steps[cut - 1], "right"))
            one = replace(one, warmup=Warmup(cut, clock.warmup.reason))
        yield one


def _columns(steps: pd.DataFrame, column: str) -> dict[str, pd.DataFrame]:
    """The rows of each run that have a step and a value, by run: those that a series is made of."""
    kept = steps[["run", "step", "line", "steps_averaged", "copy", column]]
    kept = kept[kept[column].notna() & kept["step"].notna()]
    whole = dict.fromkeys(("step", "line", "steps_averaged", "copy"), np.int64)
    kept = kept.astype({**whole, column: np.float64})  # plain numpy: a log may have many runs
    return dict(iter(kept.groupby("run", sort=False)))


def impossible(column: str, values: Floats) -> npt.NDArray[np.bool_]:
    """Which values no run has: what is not finite or nearly so, a time below zero or of decades, a step of no time."""
    wrong = ~(np.abs(values) < _FINITE)
    if column.endswith("_s") and not column.endswith("per_s"):
        wrong |= (values < 0) | (values > _DECADES)
    if column == "step_time_s":
        wrong |= values == 0
    return wrong


def _one(run: str, label: object, column: str, mine: pd.DataFrame, warmup: int | None) -> StepSeries:
    steps, lines, covers, values = (mine[name].to_numpy() for name in ("step", "line", "steps_averaged", column))
    numbers, counts = np.unique(covers, return_counts=True)
    averaged = int(numbers[counts.argmax()])
    odd, again = covers != averaged, mine["copy"].to_numpy() > 1
    left = [(int(s), f"covers {n} steps") for s, n in zip(steps[odd], covers[odd], strict=True)]
    left += [(int(s), "printed again") for s in steps[again & ~odd]]
    wrong = impossible(column, values) & ~(odd | again)
    left += [(int(s), f"{column} cannot be {x:g}") for s, x in zip(steps[wrong], values[wrong], strict=True)]
    order = np.lexsort((lines, values, steps))
    order = order[~(odd | again | wrong)[order]]
    order = order[np.append(np.diff(steps[order]) != 0, True)[: len(order)]]  # the slowest of each step
    return StepSeries(
        run=run,
        label=label if isinstance(label, str) else None,
        column=column,
        steps=steps[order],
        values=values[order],
        lines=lines[order],
        averaged=averaged,
        left_out=tuple(left),
        warmup=warm_up(values[order], warmup),
    )
