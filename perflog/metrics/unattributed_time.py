"""Unattributed time: parent time minus child phases, in each step.

It is exact if parent and phases are known to be of one rank, else as exact as the log allows: the mean over the ranks,
or bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.metrics.phase_table import worlds_of
from perflog.metrics.run_rows import RunRows
from perflog.statistics.groups import groups_of

if TYPE_CHECKING:
    import pandas as pd

_RECORD = ["line", "part"]


def unattributed_times(rows: pd.DataFrame, runs: Sequence[RunRows]) -> Iterator[pd.DataFrame]:
    """Yield the unattributed time of the parents of runs that have phases inside, by step and, if known, rank.

    `rows` are rows of the `phase_table` of these runs. Columns: place (index of the run), phase (the parent),
    occurrence (null), rest_by (the method), step, and either rank and time_s, or the values of the step (least, median,
    most, mean, values) that are certain.
    """
    import pandas as pd

    place, steps = rows["place"].to_numpy(), rows["step"].to_numpy()
    moments = groups_of(place, steps)  # steps of different runs are different moments
    rows = rows[[*_RECORD, "place", "rank", "phase", "node", "parent", "time_s"]].assign(moment=moments.inverse)
    worlds = pd.Series(worlds_of(runs)[place[moments.first]])
    phases, parents = (rows[name].to_numpy() for name in ("phase", "parent"))
    cases = groups_of(place, pd.factorize(phases)[0])
    declared = [(runs[place[i]].semantics, phases[i]) for i in cases.first.tolist()]
    is_hidden = np.array(
        [bool((phase := meaning.phase(name)) and phase.hidden) for meaning, name in declared], np.bool_
    )
    hidden, orphan = is_hidden[cases.inverse], rows["parent"].isna().to_numpy()
    for parent in rows["parent"].dropna().unique():
        inside = np.array([parent in meaning.possible_parents(name) for meaning, name in declared], np.bool_)
        clear = ~moments.any_of(inside[cases.inverse] & ~hidden & orphan)
        outer, inner = rows[clear & (phases == parent)], rows[clear & (parents == parent) & ~hidden]
        for method, compute in _METHODS.items():
            outer, inner = outer[outer["place"].isin(inner["place"])], inner[inner["place"].isin(outer["place"])]
            if not len(outer):
                break
            times = compute(outer, inner, worlds)
            at = moments.first[times.pop("moment")]
            times = times.assign(place=place[at], step=steps[at], phase=parent, occurrence=np.nan, rest_by=method)
            outer = outer[~outer["place"].isin(times["place"])]
            if len(times):
                yield times


def _by_record(parent: pd.DataFrame, inside: pd.DataFrame, worlds: pd.Series[float]) -> pd.DataFrame:  # noqa: ARG001
    """In runs with parent and phases in the same records, each record belongs to one rank, known or not."""
    keys = ["place", *_RECORD]
    inner, outer = inside.groupby(keys)["time_s"].sum(), parent.set_index(keys)["time_s"]
    others = [outer.index[outer.index.duplicated()], inner.index[~inner.index.isin(outer.index)]]
    parent = parent[~parent["place"].isin({place for index in others for place, *_ in index})]
    outer = parent.set_index(keys)["time_s"]
    return parent[["moment", "rank"]].assign(time_s=(outer - inner.reindex(outer.index, fill_value=0.0)).to_numpy())


def _by_rank(parent: pd.DataFrame, inside: pd.DataFrame, worlds: pd.Series[float]) -> pd.DataFrame:  # noqa: ARG001
    """Rank by rank, in the steps where all ranks are known. Missing phases count as zero."""
    anonymous = {*parent["moment"][parent["rank"].isna()], *inside["moment"][inside["rank"].isna()]}
    outer, inner = (
        rows[~rows["moment"].isin(anonymous)].groupby(["moment", "rank"])["time_s"].sum() for rows in (parent, inside)
    )
    return (outer - inner.reindex(outer.index, fill_value=0.0)).reset_index()


def _mean(parent: pd.DataFrame, inside: pd.DataFrame, worlds: pd.Series[float]) -> pd.DataFrame:
    """Mean over the ranks, in the steps where parent and each phase have one value for every rank."""
    outer, inner = _figures_by_phase(parent, inside)
    ranks, world = outer["size"], worlds[outer.index]
    complete = (inner["size"].eq(0) | inner["size"].eq(ranks, axis=0)).all(axis=1)
    complete &= world.isna() | (ranks == world)
    return _figure_columns(outer.assign(mean=(outer["sum"] - _sum(inner["sum"])) / ranks)[complete])


def _bounds(parent: pd.DataFrame, inside: pd.DataFrame, worlds: pd.Series[float]) -> pd.DataFrame:
    """Least and largest possible time, in the steps where each phase has one value for every rank."""
    outer, inner = _figures_by_phase(parent, inside)
    least, most = outer["min"] - _sum(inner["max"]), outer["max"] - _sum(inner["min"])
    complete = (inner["size"].eq(0) | inner["size"].eq(worlds[outer.index], axis=0)).all(axis=1)
    return _figure_columns(outer.assign(least=least, most=most)[complete])


_METHODS = {"record": _by_record, "rank": _by_rank, "mean": _mean, "bounds": _bounds}
"""How unattributed time is computed, the most exact method first. No rows of a run: the method does not apply to it."""


def _figures_by_phase(parent: pd.DataFrame, inside: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return values by step of the parent, and of each phase and occurrence inside it. Missing phases count as zero."""
    figures = ["sum", "min", "max", "size"]
    outer = parent.groupby("moment")["time_s"].agg(figures)
    inner = inside.groupby(["moment", "phase", inside["node"].fillna(0)])["time_s"].agg(figures)
    return outer, inner.unstack(["phase", "node"]).reindex(outer.index).fillna(0)


def _sum(phases: pd.DataFrame) -> Any:
    """Sum of the columns, one after the other: phases that only other runs have change no digit."""
    return sum(column for _, column in phases.items())


def _figure_columns(steps: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of step statistics; null where a method has no value."""
    names = ["rank", "least", "median", "most", "mean", "values"]
    return steps.rename(columns={"size": "values"}).reindex(columns=names).reset_index()
