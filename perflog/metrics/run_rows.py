"""Rows of one run in a table by step and rank (phases, loads, layers), with the run's steady steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from perflog.arrays import Floats, Ints
from perflog.metrics.run_tables import Tables, cached
from perflog.metrics.semantics import RunSemantics, semantics_by_run
from perflog.metrics.step_series import StepSeries, step_series
from perflog.statistics.groups import groups_of
from perflog.statistics.samples import median
from perflog.statistics.warmup import warm_up
from perflog.tables.columns import Rows

if TYPE_CHECKING:
    import pandas as pd


class RunRows(Struct, frozen=True):
    """Rows of one run in a table, each with a known step. Ranks are floats, NaN for null.

    `first`: first steady step. `step_s`: median time of a steady step, NaN if the log prints none. `world`: number of
    ranks, None if the log does not print it.
    """

    run: str
    label: str | None
    rows: pd.DataFrame
    first: int
    step_s: float
    world: int | None
    semantics: RunSemantics

    @property
    def steady(self) -> pd.DataFrame:
        """The rows of the steady steps."""
        return self.rows[self.rows["step"] >= self.first]


def run_rows(tables: Mapping[str, pd.DataFrame], name: str, column: str, warmup: int | None) -> list[RunRows]:
    """Return the rows of each run in table `name`, in the order of the runs.

    Only rows with a step and a value in `column` count. The warm-up is taken from the run's step times; for steps
    before the first step time it is detected in the sums of `column`.
    """
    return cached(tables, ("run rows", name, column, warmup), lambda: list(_run_rows(tables, name, column, warmup)))


def _run_rows(tables: Mapping[str, pd.DataFrame], name: str, column: str, warmup: int | None) -> Iterator[RunRows]:
    import pandas as pd

    runs, table = tables["runs"], tables[name]
    table = table[table["step"].notna() & table[column].notna()]
    table = table.astype({"step": "int64", "rank": "Float64"}).astype({"rank": "float64"})
    by_run = dict(iter(table.groupby("run", sort=False)))
    semantics = semantics_by_run(runs)
    clocks = {series.run: series for series in step_series(tables, warmup=warmup)}
    for run, label, world_size in zip(runs["run"], runs["label"], runs["world_size"], strict=True):
        if run not in by_run:
            continue
        rows = by_run[run]
        world = None if pd.isna(world_size) else int(world_size)
        if world == 1:
            rows = rows.assign(rank=rows["rank"].fillna(0))  # there is no other rank
        clock = clocks.get(run)
        totals = rows.groupby("step")[column].sum()
        first = _first_steady_step(totals.index.to_numpy(np.int64), totals.to_numpy(np.float64), clock, warmup)
        step_s = median(clock.steady) if clock and len(clock.steady) else np.nan
        yield RunRows(run, label if isinstance(label, str) else None, rows, first, step_s, world, semantics[run])


def first_steady_steps(tables: Tables, rows: Rows, column: str, warmup: int | None) -> dict[str, int]:
    """Return the first step after the warm-up of each run that has rows, all of them with step and value.

    The warm-up is the warm-up of `run_rows`.
    """
    clocks = {series.run: series for series in step_series(tables, warmup=warmup)}
    codes, words = rows.codes("run")
    groups = groups_of(codes, rows["step"])
    totals, steps, run_codes = groups.sums(rows[column]), rows["step"][groups.first], codes[groups.first]
    starts = np.flatnonzero(np.append(True, np.diff(run_codes) != 0)[: len(run_codes)]).tolist()
    return {
        (run := words[run_codes[start]]): _first_steady_step(
            steps[start:end], totals[start:end], clocks.get(run), warmup
        )
        for start, end in pairwise([*starts, len(run_codes)])
    }


def _first_steady_step(steps: Ints, totals: Floats, clock: StepSeries | None, warmup: int | None) -> int:
    """First step after the warm-up. For steps before the first step time, the totals of the table decide."""
    first = int(steps[0])
    if clock is not None and clock.warmup.cut:
        first = clock.window[0] if clock.window else int(steps[-1]) + 1
    if clock is None or steps[0] < clock.steps[0]:
        cut = warm_up(totals, warmup).cut
        first = max(first, int(steps[cut]) if cut < len(steps) else int(steps[-1]) + 1)
    return first


def rank_means(
    rows: pd.DataFrame, world: float | Floats | None, keys: Sequence[str] = ("step",)
) -> tuple[pd.Series[float], pd.Series[int]]:
    """Return the mean over the ranks of their times, and the number of ranks, by step, without incomplete steps.

    Args:
        rows: Rows of times, NaN as rank where it is not known.
        world: Number of ranks, of the run or of the run of each row; NaN or None if it is not known.
        keys: The columns that identify a step.
    """
    names = list(keys)
    rows = rows.assign(anonymous=rows["rank"].isna(), world=np.asarray(world, np.float64))
    steps = rows.groupby(names if len(names) > 1 else names[0])
    anonymous = steps["anonymous"].any()
    ranks = steps["rank"].nunique().where(~anonymous, steps.size())
    complete = ~anonymous | (ranks == steps["world"].first())
    return (steps["time_s"].sum() / ranks)[complete], ranks[complete]


def totals_of_steps(rows: Rows, part: Ints, parts: int) -> Iterator[Floats]:
    """Yield for each part the sum of its times in each of its steps."""
    steps = groups_of(part, rows["step"])
    sums, sum_parts = steps.sums(rows["time_s"]), part[steps.first]
    bounds = np.searchsorted(sum_parts, np.arange(parts + 1))
    yield from (sums[start:end] for start, end in pairwise(bounds.tolist()))
