"""Plot of pairs of ranks: the bytes from each rank to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.arrays import Floats
from perflog.plots.drawing.canvas import Canvas, axis_label, plain
from perflog.plots.drawing.heatmaps import matrix
from perflog.plots.registry import plot
from perflog.tables.nulls import none_if_null
from perflog.units import scale

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@plot(
    title="Pairs of ranks",
    caption="matrix of ranks: bytes from each to each other, a panel for each job and operation",
    metric="rank_pairs",
    select=lambda rows: rows[rows["bytes"].notna()],
)
def rank_pairs(rows: pd.DataFrame, canvas: Canvas) -> Figure:
    """Draw the bytes from each rank to each other as a matrix, a panel for each job and operation.

    The colours of a panel begin at 0. A hatched cell: the traces print no bytes of this pair.

    Example:
        >>> perflog.plots.rank_pairs.metric
        'rank_pairs'
    """
    groups = {_title(keys, canvas): part for keys, part in rows.groupby(["run", "op"], sort=False, dropna=False)}
    most = max(len({*part["sender"], *part["receiver"]}) for part in groups.values())
    notes = ["Hatched: no bytes of this pair are printed."]
    figure, panels = canvas.panels(list(groups), notes, panel_height=min(1.8 + 0.13 * most, 4.0))
    for title, axes in panels:
        image, unit = _matrix(axes, groups[title])
        figure.colorbar(image, ax=axes, pad=0.02).set_label(axis_label("from sender to receiver", unit))
        axes.set_title(title)
    return figure


def _title(keys: tuple[Any, ...], canvas: Canvas) -> str:
    run, op = keys
    parts = [] if none_if_null(run) is None else [canvas.run_name(run)]
    return ", ".join([*parts, plain(str(op).replace("_", " "))])


def _matrix(axes: Axes, rows: pd.DataFrame) -> tuple[Any, str]:
    """Draw the matrix of one group; return its image and the unit of its colours."""
    ranks = sorted({*rows["sender"], *rows["receiver"]})
    place = {rank: k for k, rank in enumerate(ranks)}
    grid: Floats = np.full((len(ranks), len(ranks)), np.nan)
    for sender, receiver, moved in zip(rows["sender"], rows["receiver"], rows["bytes"].astype(float), strict=True):
        grid[place[sender], place[receiver]] = moved
    unit, factor = scale(float(np.nanmax(grid)), "B")
    image = matrix(axes, grid / factor, ranks, ranks, (0.0, max(float(np.nanmax(grid)) / factor, 1e-9)))
    axes.set(xlabel="receiving rank", ylabel="sending rank")
    return image, unit
