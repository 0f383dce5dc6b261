"""Rank spread: the differences between ranks in each phase of a step, one occurrence of the phase at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from perflog.metrics.breakdown import breakdown
from perflog.metrics.options import Options
from perflog.metrics.phase_table import phase_table
from perflog.metrics.phases import rows_with_wholes
from perflog.metrics.run_rows import RunRows
from perflog.metrics.run_tables import Tables, cached

if TYPE_CHECKING:
    import pandas as pd

_KEYS = ["place", "phase", "parent", "occurrence"]
_FIGURES = ["fastest_s", "mean_s", "slowest_s"]


def rank_spread(tables: Tables, options: Options) -> dict[str, pd.DataFrame]:
    """Return the spread of the ranks in each phase, by its parent: times in a step, means over the steady steps.

    Several occurrences in a step add up, as if the ranks waited for one another after each of them. Only steps in which
    no rank is missing count; in a step without the phase it took no time.

    Returns:
        By id of each run with parts of its step (metric breakdown), columns phase, parent, fastest_s, mean_s,
        slowest_s. A phase with only the fastest and the slowest rank printed has no mean_s. No rows for phases of a
        single rank, or of unknown ranks.
    """
    return cached(tables, ("rank spread", options), lambda: _rank_spread(tables, options))


def _rank_spread(tables: Tables, options: Options) -> dict[str, pd.DataFrame]:
    import pandas as pd

    parts = breakdown.table(tables, options)
    steps = parts[parts["of"] == "step"].groupby("run")["n"].first()
    runs = [run for run in rows_with_wholes(tables, options.warmup) if run.run in steps.index]
    if not runs:
        return {}
    rows = phase_table(*runs)
    rows = rows[rows["step"].to_numpy() >= np.array([run.first for run in runs])[rows["place"]]]
    rows = rows.assign(occurrence=rows["occurrence"].where(~rows["torn"], 0))  # without rank it counts all ranks
    ends = rows["min_s"].notna()
    if not ends.any() and not _may_be_of_several_ranks(rows, runs):
        nothing = pd.DataFrame(columns=["phase", "parent", *_FIGURES]).astype(dict.fromkeys(_FIGURES, "float64"))
        return {run.run: nothing for run in runs}
    each = [_all_rank_times(rows[~ends], runs), _extreme_times(rows[ends])]
    in_steps = pd.concat([some for some in each if len(some)] or each[:1])
    means, known = in_steps.groupby(_KEYS).mean(), rows.groupby([*_KEYS, "step"]).size()
    number = steps[[run.run for run in runs]].to_numpy(np.float64)
    places = means.index.get_level_values("place")
    share_of_steps = known.groupby(_KEYS).size().reindex(means.index) / number[places]
    spread = means.mul(share_of_steps, axis=0).groupby(_KEYS[:3]).sum(min_count=1).reset_index()
    by_place = dict(iter(spread.drop(columns="place").groupby(spread["place"])))
    return {run.run: by_place.get(place, spread[:0].drop(columns="place")) for place, run in enumerate(runs)}


def _may_be_of_several_ranks(rows: pd.DataFrame, runs: Sequence[RunRows]) -> bool:
    rows = _known_rows(rows, runs)
    ranks = rows["rank"].to_numpy(np.float64)
    return len(rows) > 0 and bool(rows["torn"].any() or ranks.min() < ranks.max())


def _known_rows(rows: pd.DataFrame, runs: Sequence[RunRows]) -> pd.DataFrame:
    """Return the rows of known ranks, and the rows of all ranks together if their number is known."""
    world = np.array([run.world or 0 for run in runs])
    return rows[~rows["torn"].to_numpy() | (world[rows["place"]] > 0)]


def _all_rank_times(rows: pd.DataFrame, runs: Sequence[RunRows]) -> pd.DataFrame:
    """Return the times of each phase and step with a value of every rank."""
    world = np.array([run.world or 0 for run in runs])
    rows = _known_rows(rows, runs)
    groups = rows.groupby([*_KEYS, "step"])["time_s"]
    figures = groups.agg(ranks="size", fastest_s="min", mean_s="mean", slowest_s="max")
    ranks = figures["ranks"].groupby(["place", "phase"]).transform("max")
    worlds = world[figures.index.get_level_values("place")]
    ranks = ranks.where(worlds == 0, worlds)
    return figures[(figures["ranks"] == ranks) & (figures["ranks"] > 1)].drop(columns="ranks")


def _extreme_times(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the times of phases that are printed only for the fastest and the slowest rank."""
    groups = rows.groupby([*_KEYS, "step"])[["min_s", "time_s"]]
    figures = groups.sum().set_axis(["fastest_s", "slowest_s"], axis=1)
    return figures.assign(mean_s=float("nan"))
