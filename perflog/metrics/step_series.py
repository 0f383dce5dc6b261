"""Series of one value per step of a run, for metrics, comparison and linter: selection of rows, and the warm-up."""

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

_LONGEST = 1e9  # seconds: no time of a step lasts 31 years
_LARGEST = 1e30  # larger values overflow in sums of squares, if not before


@dataclass(frozen=True)
class StepSeries:
    """One column of `steps` in one run: `values[i]` is the value of step `steps[i]`, printed on line `lines[i]`.

    `order`: the number of the step in the order of the run. It is the step itself, unless the steps start again in each
    epoch. `left_out`: printed steps that are not in the series, with the reason. `averaged`: number of steps that each
    value averages, 0 if it is unknown. If several ranks print a step, the slowest rank (the largest value) counts.
    """

    run: str
    label: str | None
    column: str
    steps: Ints
    order: Ints
    values: Floats
    lines: Ints
    averaged: int
    left_out: tuple[tuple[int, str], ...]
    warmup: Warmup

    @property
    def steady(self) -> Floats:
        """The values after the warm-up."""
        return self.values[self.warmup.cut :]

    @property
    def window(self) -> tuple[int, int] | None:
        """First and last steady step; None if there is none."""
        steps = self.steps[self.warmup.cut :]
        return (int(steps[0]), int(steps[-1])) if len(steps) else None


def step_series(
    tables: Mapping[str, pd.DataFrame], column: str = "step_time_s", warmup: int | None = None
) -> Iterator[StepSeries]:
    """Yield the series of each run that prints the column, in the order of the runs.

    Left out are repeats of a step (`copy` > 1), lines that cover another number of steps than most lines do, and
    values that are `impossible`. The warm-up is detected in `step_time_s` if the run prints it, and the same steps are
    cut from all columns.
    """
    printed = _printed_rows(tables["steps"], column)
    clocks = _printed_rows(tables["steps"], "step_time_s") if warmup is None and column != "step_time_s" else {}
    for run, label in zip(tables["runs"]["run"], tables["runs"]["label"], strict=True):
        if run not in printed:
            continue
        series = _series(run, label, column, printed[run], warmup)
        if not len(series.values):
            continue
        if run in clocks:
            clock = _series(run, label, "step_time_s", clocks[run], None)
            cut = clock.warmup.cut
            if cut:
                cut = int(np.searchsorted(series.order, clock.order[cut - 1], "right"))
            series = replace(series, warmup=Warmup(cut, clock.warmup.reason))
        yield series


def _printed_rows(steps: pd.DataFrame, column: str) -> dict[str, pd.DataFrame]:
    """Rows with a step and a value in the column, by run."""
    rows = steps[["run", "step", "line", "steps_averaged", "copy", column]]
    rows = rows.assign(order=step_order(steps))[rows[column].notna() & rows["step"].notna()]
    rows = rows.fillna({"steps_averaged": 0})
    integers = dict.fromkeys(("step", "order", "line", "steps_averaged", "copy"), np.int64)
    rows = rows.astype({**integers, column: np.float64})  # plain numpy is faster, and a log may have many runs
    return dict(iter(rows.groupby("run", sort=False)))


def step_order(steps: pd.DataFrame) -> pd.Series[int]:
    """Return the number of each row's step in the order of its run; null where the row has no step.

    It is the step, unless steps start again in each epoch: then the steps of an epoch come after those of the epochs
    before it, each as long as the longest.
    """
    if steps["epoch"].isna().all():
        return steps["step"]
    longest = steps.groupby("run")["step"].transform("max") + 1
    return steps["step"] + steps["epoch"].fillna(0) * longest


def impossible(column: str, values: Floats) -> npt.NDArray[np.bool_]:
    """Flag values that no run can have: not finite, huge, a negative or endless time, a step time of 0."""
    flags = ~(np.abs(values) < _LARGEST)
    if column.endswith("_s") and not column.endswith("per_s"):
        flags |= (values < 0) | (values > _LONGEST)
    if column == "step_time_s":
        flags |= values == 0
    return flags


def _series(run: str, label: object, column: str, rows: pd.DataFrame, warmup: int | None) -> StepSeries:
    """Series of the rows of one run."""
    names = ("step", "order", "line", "steps_averaged", column)
    steps, places, lines, covers, values = (rows[name].to_numpy() for name in names)
    numbers, counts = np.unique(covers, return_counts=True)
    averaged = int(numbers[counts.argmax()])
    unusual, repeated = covers != averaged, rows["copy"].to_numpy() > 1
    printed = zip(steps[unusual].tolist(), covers[unusual].tolist(), strict=True)
    left_out = [(step, f"covers {n} steps" if n else "covers an unknown number of steps") for step, n in printed]
    left_out += [(int(s), "printed again") for s in steps[repeated & ~unusual]]
    wrong = impossible(column, values) & ~(unusual | repeated)
    left_out += [(int(s), f"{column} cannot be {x:g}") for s, x in zip(steps[wrong], values[wrong], strict=True)]
    order = np.lexsort((lines, values, places))
    order = order[~(unusual | repeated | wrong)[order]]
    order = order[np.append(np.diff(places[order]) != 0, True)[: len(order)]]  # the slowest of each step
    return StepSeries(
        run=run,
        label=label if isinstance(label, str) else None,
        column=column,
        steps=steps[order],
        order=places[order],
        values=values[order],
        lines=lines[order],
        averaged=averaged,
        left_out=tuple(left_out),
        warmup=warm_up(values[order], warmup),
    )
