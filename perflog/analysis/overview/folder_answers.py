"""Folder answers: what the runs of a folder tell only together, in sentences with figures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from perflog.metrics import Options, Tables, hot_experts

if TYPE_CHECKING:
    import pandas as pd


def folder_answers(tables: Tables, options: Options) -> Iterator[str]:
    """Yield what the files of each job, or the pairs of nodes of a campaign, tell together."""
    rows = hot_experts.table(tables, options)
    for _, of_job in rows[rows["runs"] > 1].groupby(["label", "unit"], sort=False, dropna=False):
        yield from _hot_experts(of_job)


def _hot_experts(rows: pd.DataFrame) -> Iterator[str]:
    steps, layers = (rows[rows["of"] == of] for of in ("step", "layer"))
    first, last = steps.iloc[0], steps.iloc[-1]
    worst = steps.loc[steps["imbalance"].astype(float).idxmax()]
    shown = {int(row["step"]): f"{1 + row['imbalance']:.2f} (step {row['step']:,})" for row in (first, worst, last)}
    over = f", median of {len(layers)} layers" if len(layers) > 1 else ""
    yield f"Largest load of an expert / mean{over}: {', '.join(shown[step] for step in sorted(shown))}."
    hottest = layers[layers["since"].notna()].sort_values("imbalance", ascending=False, kind="stable")
    if len(hottest):
        row = hottest.iloc[0]
        of_layer = "" if row["layer"] is None else f" of layer {row['layer']}"
        yield (
            f"{int(last['hot'])} experts do over twice the mean; expert {int(row['hottest'])}{of_layer} does "
            f"{1 + row['imbalance']:.2f} times, and has been hot since step {int(row['since']):,}."
        )
