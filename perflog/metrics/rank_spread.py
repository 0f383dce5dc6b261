"""Rank spread: how far the ranks lie apart in each phase of a step, one occurrence of the phase at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perflog.metrics.phase_table import phase_table
from perflog.metrics.run_rows import RunRows

if TYPE_CHECKING:
    import pandas as pd


def rank_spread(run: RunRows, steps: int) -> pd.DataFrame:
    """Return how far the ranks lie apart in each phase, by its parent: times in a step, means over the steady steps.

    Several occurrences in a step add up, as if the ranks waited for one another after each of them. Only steps in which
    no rank is missing count; in a step without the phase it took no time.

    Args:
        run: Rows of phases.
        steps: Number of steady steps of the run.

    Returns:
        Columns phase, parent, fastest_s, mean_s, slowest_s. A phase of which the log prints only the fastest and the
        slowest rank has no mean_s. No rows for phases of a single rank, or of ranks that are not known.
    """
    import pandas as pd

    rows = phase_table(run)
    rows = rows[rows["step"] >= run.first]
    rows = rows.assign(occurrence=rows["occurrence"].where(~rows["torn"], 0))  # without rank it counts all ranks
    ends = rows["min_s"].notna()
    each = [_of_all_ranks(rows[~ends], run.world), _of_two_ranks(rows[ends])]
    in_steps = pd.concat([some for some in each if len(some)] or each[:1])
    keys = ["phase", "parent", "occurrence"]
    means, known = in_steps.groupby(keys).mean(), rows.groupby([*keys, "step"]).size()
    share_of_steps = known.groupby(keys).size().reindex(means.index) / steps
    return means.mul(share_of_steps, axis=0).groupby(["phase", "parent"]).sum(min_count=1).reset_index()


def _of_all_ranks(rows: pd.DataFrame, world: int | None) -> pd.DataFrame:
    """Figures of each phase and step for which every rank has a value."""
    rows = rows[~rows["torn"]] if world is None else rows
    groups = rows.groupby(["phase", "parent", "occurrence", "step"])["time_s"]
    figures = groups.agg(ranks="size", fastest_s="min", mean_s="mean", slowest_s="max")
    ranks = figures["ranks"].groupby("phase").transform("max") if world is None else world
    return figures[(figures["ranks"] == ranks) & (figures["ranks"] > 1)].drop(columns="ranks")


def _of_two_ranks(rows: pd.DataFrame) -> pd.DataFrame:
    """Figures of phases of which the fastest and the slowest rank are printed."""
    groups = rows.groupby(["phase", "parent", "occurrence", "step"])[["min_s", "time_s"]]
    figures = groups.sum().set_axis(["fastest_s", "slowest_s"], axis=1)
    return figures.assign(mean_s=float("nan"))
