"""What of a whole no phase inside it explains, step by step: exact where whole and phases are known to be of one rank,
else what is sound to say of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import numpy as np

from perflog.metrics.phase_table import RunRows, possible_parents

if TYPE_CHECKING:
    import pandas as pd

_RECORD = ["line", "part"]


def unattributed_times(rows: pd.DataFrame, part: RunRows) -> Iterator[pd.DataFrame]:
    """For each whole of a run that has phases inside, its rest by step and, where known, rank.

    `rows` are those of `timed`. Columns: phase (the whole), occurrence (null), rest_by, step, and either rank and
    time_s, or the figures of the step (least, median, most, mean, values) that are sound.
    """
    rows = rows[[*_RECORD, "step", "rank", "phase", "node", "parent", "time_s"]]
    for name in rows["parent"].dropna().unique():
        within = {phase for phase in rows["phase"].unique() if name in possible_parents(part.means, phase)}
        beside = {phase for phase in within if (p := part.means.phase(phase)) and p.hidden}
        unclear = rows["step"][rows["phase"].isin(within - beside) & rows["parent"].isna()]
        sound = rows[~rows["step"].isin(unclear)]
        whole = sound[sound["phase"] == name]
        inside = sound[(sound["parent"] == name) & ~sound["phase"].isin(beside)]
        if not len(whole) or not len(inside):
            continue
        for way, found in _ways(whole, inside, part.world):
            if len(found):
                yield found.assign(phase=name, occurrence=np.nan, rest_by=way)
                break


def _ways(
    whole: pd.DataFrame, inside: pd.DataFrame, world: int | None
) -> Iterator[tuple[Literal["record", "rank", "mean", "bounds"], pd.DataFrame]]:
    """Ways to find a rest, the most exact first; no rows where a way is not sound."""
    yield "record", _of_records(whole, inside)
    yield "rank", _of_ranks(whole, inside)
    yield "mean", _of_means(whole, inside, world)
    yield "bounds", _of_bounds(whole, inside, world)


def _of_records(whole: pd.DataFrame, inside: pd.DataFrame) -> pd.DataFrame:
    """Whole and phases stand in the same records, so each is of one rank, whichever it is."""
    inner, outer = inside.groupby(_RECORD)["time_s"].sum(), whole.set_index(_RECORD)["time_s"]
    if not outer.index.is_unique or not inner.index.isin(outer.index).all():
        return whole[:0]
    return whole[["step", "rank"]].assign(time_s=(outer - inner.reindex(outer.index, fill_value=0.0)).to_numpy())


def _of_ranks(whole: pd.DataFrame, inside: pd.DataFrame) -> pd.DataFrame:
    """In the steps where all ranks are known."""
    anonymous = {*whole["step"][whole["rank"].isna()], *inside["step"][inside["rank"].isna()]}
    outer, inner = (
        rows[~rows["step"].isin(anonymous)].groupby(["step", "rank"])["time_s"].sum() for rows in (whole, inside)
    )
    return (outer - inner.reindex(outer.index, fill_value=0.0)).reset_index()


def _of_means(whole: pd.DataFrame, inside: pd.DataFrame, world: int | None) -> pd.DataFrame:
    """Where whole and each phase have one value for every rank, their means over the ranks."""
    outer, inner = _nodes(whole, inside)
    ranks = outer["size"]
    each = inner["size"].eq(0) | inner["size"].eq(ranks, axis=0)
    sound = each.all(axis=1) & (ranks == (ranks if world is None else world))
    return _figures(outer.assign(mean=(outer["sum"] - inner["sum"].sum(axis=1)) / ranks)[sound])


def _of_bounds(whole: pd.DataFrame, inside: pd.DataFrame, world: int | None) -> pd.DataFrame:
    """Where each phase has one value for every rank, the least and the most that they can leave of the whole."""
    outer, inner = _nodes(whole, inside)
    least, most = outer["min"] - inner["max"].sum(axis=1), outer["max"] - inner["min"].sum(axis=1)
    return _figures(outer.assign(least=least, most=most)[inner["size"].isin([0, world]).all(axis=1)])


def _nodes(whole: pd.DataFrame, inside: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """By step, figures of the whole, and of each phase and occurrence inside it (0 where it does not come)."""
    figures = ["sum", "min", "max", "size"]
    outer = whole.groupby("step")["time_s"].agg(figures)
    inner = inside.groupby(["step", "phase", inside["node"].fillna(0)])["time_s"].agg(figures)
    return outer, inner.unstack(["phase", "node"]).reindex(outer.index).fillna(0)


def _figures(steps: pd.DataFrame) -> pd.DataFrame:
    columns = {"size": "values"}
    return (
        steps.rename(columns=columns)
        .reindex(columns=["rank", "least", "median", "most", "mean", "values"])
        .reset_index()
    )
