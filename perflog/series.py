"""One number per step of a run, as metrics, comparison and linter use it: which printed rows count, and the warm-up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from perflog.stats import Floats, Warmup, warm_up

if TYPE_CHECKING:
    import pandas as pd

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Series:
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


def series(
    tables: Mapping[str, pd.DataFrame], column: str = "step_time_s", warmup: int | None = None
) -> Iterator[Series]:
    """The series of each run that prints the column, in the order of the runs.

    A repeated printing of a step (`copy` > 1) is left out; so is a line that covers another number of steps than most
    lines do. The warm-up is found in `step_time_s` where that is printed, and cut alike from all columns.
    """
    steps = tables["steps"]
    for run, label in zip(tables["runs"]["run"], tables["runs"]["label"], strict=True):
        mine = steps[steps["run"] == run]
        one = _one(run, label, column, mine, warmup)
        if one is None:
            continue
        if warmup is None and column != "step_time_s":
            clock = _one(run, label, "step_time_s", mine, None)
            if clock is not None and clock.warmup.cut:
                last = clock.steps[clock.warmup.cut - 1]
                same = Warmup(int(np.searchsorted(one.steps, last, "right")), clock.warmup.reason)
                one = Series(**{**vars(one), "warmup": same})
            elif clock is not None:
                one = Series(**{**vars(one), "warmup": clock.warmup})
        yield one


def _one(run: str, label: object, column: str, mine: pd.DataFrame, warmup: int | None) -> Series | None:
    mine = mine[mine[column].notna() & mine["step"].notna()]
    if not len(mine):
        return None
    averaged = int(mine["steps_averaged"].mode().iloc[0])
    odd, again = mine["steps_averaged"] != averaged, mine["copy"] > 1
    left = [(int(s), f"covers {n} steps") for s, n in zip(mine["step"][odd], mine["steps_averaged"][odd], strict=True)]
    left += [(int(s), "printed again") for s in mine["step"][again & ~odd]]
    kept = mine[~odd & ~again]
    kept = kept.sort_values(["step", column, "line"]).drop_duplicates("step", keep="last")
    values = kept[column].to_numpy(np.float64)
    return Series(
        run=run,
        label=label if isinstance(label, str) else None,
        column=column,
        steps=kept["step"].to_numpy(np.int64),
        values=values,
        lines=kept["line"].to_numpy(np.int64),
        averaged=averaged,
        left_out=tuple(left),
        warmup=warm_up(values, warmup),
    )
