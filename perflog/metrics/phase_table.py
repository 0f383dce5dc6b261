"""The phase table of a run: each row of table `phases` with its parent, and figures by step over the ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.metrics.registry import cached
from perflog.metrics.run_rows import RunRows, run_rows
from perflog.tables.nulls import int_or_none

if TYPE_CHECKING:
    import pandas as pd


_KEYS = ("phase", "occurrence", "rank", "rest_by")


def phase_table(run: RunRows) -> pd.DataFrame:
    """Return a run's rows of table `phases` with the facts that are certain about each row.

    New columns:

    - torn: the phase has rows without rank in that step.
    - parent: the phase that contains the row's time; null if it depends on an unknown occurrence.
    - node: the occurrence if it is known for all rows of the phase in the run, else null.

    If a phase comes more than once on a rank, the rows of a torn step lose their rank: it is not known which row is
    missing, and so not which occurrence each row is.
    """
    rows = run.rows.astype({"occurrence": "float64"})
    anonymous = rows["rank"].isna()
    torn = anonymous.groupby([rows["step"], rows["phase"]]).transform("any")
    ever_torn = torn.groupby(rows["phase"]).transform("any")
    often = rows["occurrence"].where(~anonymous).groupby(rows["phase"]).transform("max").fillna(1) > 1
    keys = list(zip(rows["phase"], rows["occurrence"].tolist(), torn.tolist(), strict=True))
    known = run.semantics.known_parent
    parents = {(name, k, lost): known(name, None if lost else int(k)) for name, k, lost in set(keys)}
    return rows.assign(
        rank=rows["rank"].mask(torn & often),
        torn=torn,
        parent=[parents[key] for key in keys],
        node=rows["occurrence"].mask(ever_torn),
    )


def phase_tables(tables: Mapping[str, pd.DataFrame], warmup: int | None) -> list[tuple[RunRows, pd.DataFrame]]:
    """Return the rows of each run that has phases, and its phase table."""
    runs = run_rows(tables, "phases", "time_s", warmup)
    return cached(tables, ("phase tables", warmup), lambda: [(run, phase_table(run)) for run in runs])


def step_figures(rows: pd.DataFrame) -> pd.DataFrame:
    """Return figures (least, median, most, mean, values) of each phase in each step.

    First over all ranks (rank null, occurrence as far as known), then on each rank.
    """
    import pandas as pd

    keys = [key for key in _KEYS if key in rows] + ["step"]
    pooled = rows.assign(occurrence=rows["node"] if "node" in rows else rows["occurrence"], rank=np.nan)
    groups = (some.groupby(keys, dropna=False)["time_s"] for some in (pooled, rows[rows["rank"].notna()]))
    figures = {"least": "min", "median": "median", "most": "max", "mean": "mean", "values": "size"}
    return pd.concat([group.agg(**figures).reset_index() for group in groups], ignore_index=True)


def medians_over_steps(figures: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the medians over the steps of the figures of each step, with n, first_step and last_step."""
    names = ["least", "median", "most", "mean", "values"]
    keys = [key for key in _KEYS if key in figures]
    groups = figures.groupby(keys, dropna=False, sort=False)
    medians = groups[names].median().assign(n=groups.size())
    medians = medians.assign(first_step=groups["step"].min(), last_step=groups["step"].max())
    for row in medians.reset_index().to_dict("records"):
        yield row | {name: int_or_none(row[name]) for name in ("occurrence", "rank")}
