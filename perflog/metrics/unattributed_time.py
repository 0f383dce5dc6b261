"""Unattributed time: parent time minus child phases, in each step.

It is exact if parent and phases are known to be of one rank, else as exact as the log allows: the mean over the ranks,
or bounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import numpy as np

from perflog.metrics.run_rows import RunRows

if TYPE_CHECKING:
    import pandas as pd

_RECORD = ["line", "part"]


def unattributed_times(rows: pd.DataFrame, run: RunRows) -> Iterator[pd.DataFrame]:
    """Yield the unattributed time of each parent of a run that has phases inside, by step and, if known, rank.

    `rows` are rows of `phase_table`. Columns: phase (the parent), occurrence (null), rest_by (the method), step, and
    either rank and time_s, or those figures of the step (least, median, most, mean, values) that are certain.
    """
    rows = rows[[*_RECORD, "step", "rank", "phase", "node", "parent", "time_s"]]
    for name in rows["parent"].dropna().unique():
        children = {phase for phase in rows["phase"].unique() if name in run.semantics.possible_parents(phase)}
        hidden = {phase for phase in children if (declared := run.semantics.phase(phase)) and declared.hidden}
        unclear = rows["step"][rows["phase"].isin(children - hidden) & rows["parent"].isna()]
        clear = rows[~rows["step"].isin(unclear)]
        parent = clear[clear["phase"] == name]
        inside = clear[(clear["parent"] == name) & ~clear["phase"].isin(hidden)]
        if not len(parent) or not len(inside):
            continue
        for method, times in _by_all_methods(parent, inside, run.world):
            if len(times):
                yield times.assign(phase=name, occurrence=np.nan, rest_by=method)
                break


def _by_all_methods(
    parent: pd.DataFrame, inside: pd.DataFrame, world: int | None
) -> Iterator[tuple[Literal["record", "rank", "mean", "bounds"], pd.DataFrame]]:
    """Yield the result of each method, the most exact first. No rows: the method does not apply."""
    yield "record", _by_record(parent, inside)
    yield "rank", _by_rank(parent, inside)
    yield "mean", _mean(parent, inside, world)
    yield "bounds", _bounds(parent, inside, world)


def _by_record(parent: pd.DataFrame, inside: pd.DataFrame) -> pd.DataFrame:
    """If parent and phases are in the same records, each record belongs to one rank, known or not."""
    inner, outer = inside.groupby(_RECORD)["time_s"].sum(), parent.set_index(_RECORD)["time_s"]
    if not outer.index.is_unique or not inner.index.isin(outer.index).all():
        return parent[:0]
    return parent[["step", "rank"]].assign(time_s=(outer - inner.reindex(outer.index, fill_value=0.0)).to_numpy())


def _by_rank(parent: pd.DataFrame, inside: pd.DataFrame) -> pd.DataFrame:
    """Rank by rank, in the steps where all ranks are known. Missing phases count as zero."""
    anonymous = {*parent["step"][parent["rank"].isna()], *inside["step"][inside["rank"].isna()]}
    outer, inner = (
        rows[~rows["step"].isin(anonymous)].groupby(["step", "rank"])["time_s"].sum() for rows in (parent, inside)
    )
    return (outer - inner.reindex(outer.index, fill_value=0.0)).reset_index()


def _mean(parent: pd.DataFrame, inside: pd.DataFrame, world: int | None) -> pd.DataFrame:
    """Mean over the ranks, in the steps where parent and each phase have one value for every rank."""
    outer, inner = _figures_by_phase(parent, inside)
    ranks = outer["size"]
    complete = (inner["size"].eq(0) | inner["size"].eq(ranks, axis=0)).all(axis=1)
    complete &= ranks == (ranks if world is None else world)
    return _figure_columns(outer.assign(mean=(outer["sum"] - inner["sum"].sum(axis=1)) / ranks)[complete])


def _bounds(parent: pd.DataFrame, inside: pd.DataFrame, world: int | None) -> pd.DataFrame:
    """Least and largest possible time, in the steps where each phase has one value for every rank."""
    outer, inner = _figures_by_phase(parent, inside)
    least, most = outer["min"] - inner["max"].sum(axis=1), outer["max"] - inner["min"].sum(axis=1)
    return _figure_columns(outer.assign(least=least, most=most)[inner["size"].isin([0, world]).all(axis=1)])


def _figures_by_phase(parent: pd.DataFrame, inside: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Figures by step of the parent, and of each phase and occurrence inside it. Missing phases count as zero."""
    figures = ["sum", "min", "max", "size"]
    outer = parent.groupby("step")["time_s"].agg(figures)
    inner = inside.groupby(["step", "phase", inside["node"].fillna(0)])["time_s"].agg(figures)
    return outer, inner.unstack(["phase", "node"]).reindex(outer.index).fillna(0)


def _figure_columns(steps: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of step figures; null where a method has no value."""
    names = ["rank", "least", "median", "most", "mean", "values"]
    return steps.rename(columns={"size": "values"}).reindex(columns=names).reset_index()
