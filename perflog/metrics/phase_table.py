"""Rows of tables by step and rank as metrics use them: the run's steady steps, and what is sound to say of each row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.formats.model import WHOLES
from perflog.metrics.registry import cached
from perflog.metrics.semantics import RunSemantics, semantics_by_run
from perflog.metrics.step_series import StepSeries, step_series
from perflog.statistics.warmup import warm_up

if TYPE_CHECKING:
    import pandas as pd


_KEYS = ("phase", "occurrence", "rank", "rest_by")


@dataclass(frozen=True)
class RunRows:
    """The rows of one run in a table, all of a known step; ranks are floats, NaN for null. Steps from `first` on are
    steady.

    `step_s` is the median time of a steady step, NaN where none is printed; `world` the number of ranks, if printed.
    """

    run: str
    label: str | None
    rows: pd.DataFrame
    first: int
    step_s: float
    world: int | None
    means: RunSemantics

    @cached_property
    def phase_table(self) -> pd.DataFrame:
        """The rows of table `phases` as `timed` gives them."""
        return phase_table(self)

    @property
    def steady(self) -> pd.DataFrame:
        return self.rows[self.rows["step"] >= self.first]


def run_rows(tables: Mapping[str, pd.DataFrame], name: str, column: str, warmup: int | None) -> list[RunRows]:
    """The rows of each run in a table, in the order of the runs. `column` is what is summed up where the warm-up has
    to be found in the table itself.
    """
    return cached(tables, ("parts", name, column, warmup), lambda: list(_parts(tables, name, column, warmup)))


def _parts(tables: Mapping[str, pd.DataFrame], name: str, column: str, warmup: int | None) -> Iterator[RunRows]:
    import pandas as pd

    runs, table = tables["runs"], tables[name]
    table = table[table["step"].notna() & table[column].notna()]
    table = table.astype({"step": "int64", "rank": "Float64"}).astype({"rank": "float64"})
    by_run = dict(iter(table.groupby("run", sort=False)))
    means, clocks = semantics_by_run(runs), {one.run: one for one in step_series(tables, warmup=warmup)}
    for run, label, world in zip(runs["run"], runs["label"], runs["world_size"], strict=True):
        if run not in by_run:
            continue
        rows = by_run[run]
        ranks = None if pd.isna(world) else int(world)
        if ranks == 1:
            rows = rows.assign(rank=rows["rank"].fillna(0))  # the only one there is
        clock = clocks.get(run)
        first = _first(rows.groupby("step")[column].sum(), clock, warmup)
        step_s = float(np.median(clock.steady)) if clock and len(clock.steady) else np.nan
        yield RunRows(run, label if isinstance(label, str) else None, rows, first, step_s, ranks, means[run])


def _first(totals: pd.Series[float], clock: StepSeries | None, warmup: int | None) -> int:
    """The first steady step. Steps before the first step time that counts are judged by the table's own totals."""
    steps = totals.index.to_numpy(np.int64)
    first = int(steps[0])
    if clock is not None and clock.warmup.cut:
        first = clock.window[0] if clock.window else int(steps[-1]) + 1
    if clock is None or steps[0] < clock.steps[0]:
        cut = warm_up(totals.to_numpy(np.float64), warmup).cut
        first = max(first, int(steps[cut]) if cut < len(steps) else int(steps[-1]) + 1)
    return first


def phase_table(part: RunRows) -> pd.DataFrame:
    """Rows of table `phases` with what is sound to say of them.

    New columns: `torn`: the phase has rows without rank in that step. `parent`: what the row's time is part of, null
    where that depends on an occurrence that is not known. `node`: the occurrence, if that is known for all rows of the
    phase in the run, else null. Of a phase that comes more than once on a rank, the rows of a torn step lose their
    rank: which of them is missing, and so their occurrence, is not known.
    """
    rows = part.rows.astype({"occurrence": "float64"})
    anonymous = rows["rank"].isna()
    torn = anonymous.groupby([rows["step"], rows["phase"]]).transform("any")
    ever = torn.groupby(rows["phase"]).transform("any")
    often = rows["occurrence"].where(~anonymous).groupby(rows["phase"]).transform("max").fillna(1) > 1
    known = list(zip(rows["phase"], rows["occurrence"].tolist(), torn.tolist(), strict=True))
    above = {(name, k, lost): parent(part.means, name, None if lost else int(k)) for name, k, lost in set(known)}
    parents, node = [above[each] for each in known], rows["occurrence"].mask(ever)
    return rows.assign(rank=rows["rank"].mask(torn & often), torn=torn, parent=parents, node=node)


def step_figures(rows: pd.DataFrame) -> pd.DataFrame:
    """Figures of each step, of every phase over all ranks (rank null, occurrence as far as known) and on each rank."""
    import pandas as pd

    keys = [key for key in _KEYS if key in rows] + ["step"]
    pooled = rows.assign(occurrence=rows["node"] if "node" in rows else rows["occurrence"], rank=np.nan)
    ways = (some.groupby(keys, dropna=False)["time_s"] for some in (pooled, rows[rows["rank"].notna()]))
    figures = {"least": "min", "median": "median", "most": "max", "mean": "mean", "values": "size"}
    return pd.concat([way.agg(**figures).reset_index() for way in ways], ignore_index=True)


def medians_over_steps(figures: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Medians over the steps of what was found in each, with n and window."""
    names = ["least", "median", "most", "mean", "values"]
    keys = [key for key in _KEYS if key in figures]
    groups = figures.groupby(keys, dropna=False, sort=False)
    found = groups[names].median().assign(n=groups.size())
    found = found.assign(first_step=groups["step"].min(), last_step=groups["step"].max())
    for row in found.reset_index().to_dict("records"):
        yield row | {name: None if row[name] != row[name] else int(row[name]) for name in ("occurrence", "rank")}


def rank_means(rows: pd.DataFrame, world: int | None) -> tuple[pd.Series[float], pd.Series[int]]:
    """By step, the mean over the ranks of their times, and how many ranks; without steps where one may be missing."""
    steps = rows.groupby("step")
    anonymous = rows["rank"].isna().groupby(rows["step"]).any()
    ranks = steps["rank"].nunique().where(~anonymous, steps.size())
    sound = ~anonymous | (ranks == world)
    return (steps["time_s"].sum() / ranks)[sound], ranks[sound]


def possible_parents(means: RunSemantics, name: str) -> tuple[str, ...]:
    """All that a phase can be part of. A phase that is not declared is part of the step."""
    if name in WHOLES:
        return () if name == "step" else ("step",)
    declared = means.phase(name)
    return declared.of if declared else ("step",)


def parent(means: RunSemantics, name: str, occurrence: int | None) -> str | None:
    """What the k-th time of a phase is part of; None for the step, and where k is not known and it depends on it."""
    of = possible_parents(means, name)
    if len(of) > 1:
        return of[min(occurrence, len(of)) - 1] if occurrence else None
    return of[0] if of else None


def lineage(means: RunSemantics, name: str, occurrence: int | None) -> tuple[str, ...]:
    """The phase and what it is part of, innermost first, as far as that is known."""
    names = [name]
    while (above := parent(means, names[-1], occurrence)) and above not in names:
        names.append(above)
        occurrence = None
    return tuple(names)


def is_hidden(means: RunSemantics, name: str, occurrence: int | None) -> bool:
    """Whether the phase, or one that it is part of, runs beside the step."""
    declared = (means.phase(each) for each in lineage(means, name, occurrence))
    return any(phase.hidden for phase in declared if phase)
