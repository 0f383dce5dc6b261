"""The phase table of runs: each row of table `phases` with its parent, and statistics by step over the ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.arrays import Floats
from perflog.metrics.run_rows import RunRows, run_rows
from perflog.metrics.run_tables import cached
from perflog.statistics.groups import groups_of
from perflog.tables.nulls import int_or_none

if TYPE_CHECKING:
    import pandas as pd


_KEYS = ("place", "phase", "occurrence", "rank", "rest_by")


def phase_table(*runs: RunRows) -> pd.DataFrame:
    """Return the rows of some runs in table `phases` with the facts that are certain about each row.

    New columns:

    - place: the index of the row's run among these runs.
    - torn: the phase has rows without rank in that step.
    - parent: the phase that contains the row's time; null if it depends on an unknown occurrence.
    - node: the occurrence if it is known for all rows of the phase in the run, else null.

    If a phase comes more than once on a rank, the rows of a torn step lose their rank: it is not known which row is
    missing, and so not which occurrence each row is.
    """
    import pandas as pd

    rows = pd.concat([run.rows for run in runs], ignore_index=True).astype({"occurrence": "float64"})
    place = np.repeat(np.arange(len(runs)), [len(run.rows) for run in runs])
    phases, names = pd.factorize(rows["phase"])
    occurrences, anonymous = rows["occurrence"].to_numpy(), rows["rank"].isna().to_numpy()
    in_step, in_run = groups_of(place, rows["step"].to_numpy(), phases), groups_of(place, phases)
    torn = in_step.any_of(anonymous)
    ever_torn = in_run.any_of(torn)
    often = in_run.any_of(~anonymous & (occurrences > 1))
    meanings = [run.semantics for run in runs]
    known_occurrences = np.where(torn, 0, occurrences).astype(np.int64)
    cases = groups_of(place, phases, known_occurrences)
    parents = np.array(
        [meanings[place[i]].known_parent(names[phases[i]], int(known_occurrences[i]) or None) for i in cases.first],
        object,
    )
    return rows.assign(
        place=place,
        rank=rows["rank"].mask(torn & often),
        torn=torn,
        parent=parents[cases.inverse],
        node=rows["occurrence"].mask(ever_torn),
    )


def phases_of_runs(tables: Mapping[str, pd.DataFrame], warmup: int | None) -> tuple[list[RunRows], pd.DataFrame | None]:
    """Return the runs that have phases, and their phase table; None if there are none."""
    runs = run_rows(tables, "phases", "time_s", warmup)
    return runs, cached(tables, ("phases of runs", warmup), lambda: phase_table(*runs)) if runs else None


def steady_rows(table: pd.DataFrame, runs: Sequence[RunRows]) -> pd.DataFrame:
    """Return the rows of a phase table of these runs that are in steady steps."""
    first = np.array([run.first for run in runs], np.int64)
    return table[table["step"].to_numpy() >= first[table["place"]]]


def worlds_of(runs: Sequence[RunRows]) -> Floats:
    """Return the number of ranks of each run, NaN where the log does not print it."""
    return np.array([np.nan if run.world is None else run.world for run in runs], np.float64)


def step_figures(rows: pd.DataFrame) -> pd.DataFrame:
    """Return statistics (least, median, most, mean, values) of each phase of a run in each step.

    First over all ranks (rank null, occurrence as far as known), then on each rank.
    """
    import pandas as pd

    keys = [key for key in _KEYS if key in rows] + ["step"]
    pooled = rows.assign(occurrence=rows["node"] if "node" in rows else rows["occurrence"], rank=np.nan)
    groups = (some.groupby(keys, dropna=False)["time_s"] for some in (pooled, rows[rows["rank"].notna()]))
    figures = {"least": "min", "median": "median", "most": "max", "mean": "mean", "values": "size"}
    return pd.concat([group.agg(**figures).reset_index() for group in groups], ignore_index=True)


def medians_over_steps(figures: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the medians over the steps of the statistics of each step, with n, first_step and last_step."""
    names = ["least", "median", "most", "mean", "values"]
    keys = [key for key in _KEYS if key in figures]
    groups = figures.groupby(keys, dropna=False, sort=False)
    medians = groups[names].median().assign(n=groups.size())
    medians = medians.assign(first_step=groups["step"].min(), last_step=groups["step"].max())
    for row in medians.reset_index().to_dict("records"):
        yield row | {name: int_or_none(row[name]) for name in ("occurrence", "rank")}
