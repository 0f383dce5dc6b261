"""Heatmap of what each worker of a job costs: replica by stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perflog.arrays import Floats
from perflog.metrics.what_if.step_replay import OPERATIONS
from perflog.plots.drawing.canvas import Canvas, axis_label
from perflog.plots.drawing.heatmaps import matrix
from perflog.plots.registry import plot

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_LEAST_RANGE = 0.1  # slowdowns that differ by less must not look different
_MOST_WRITTEN = 64  # cells with their number


@plot(
    title="Slowdown by worker",
    caption="data-parallel rank by pipeline stage: how much slower the job is for the times of this worker alone",
    metric="whatif",
    select=lambda rows: rows[(rows["of"] == "worker") & (rows["rests_on"] == OPERATIONS)],
)
def whatif(rows: pd.DataFrame, canvas: Canvas) -> Figure:
    """Draw the slowdown of each worker, a panel for each run.

    A column of bright cells is a slow stage, a row a slow replica.
    The colour scale begins at 1, which costs nothing, and covers at least a tenth.

    Example:
        >>> perflog.plots.whatif.metric
        'whatif'
    """
    groups = {canvas.run_name(run): run_rows for run, run_rows in rows.groupby("run", sort=False)}
    most = max(int(run_rows["dp_rank"].max()) + 1 for run_rows in groups.values())
    note = "Of a worker: the smaller slowdown of its replica and its stage, each alone as traced, the others typical."
    figure, panels = canvas.panels(list(groups), [note], panel_height=min(1.6 + 0.2 * most, 4.0))
    for title, axes in panels:
        cells = groups[title]
        replicas, stages = (sorted(map(int, cells[name].unique())) for name in ("dp_rank", "stage"))
        grid: Floats = np.full((len(replicas), len(stages)), np.nan)
        for dp_rank, stage, slowdown in cells[["dp_rank", "stage", "slowdown"]].itertuples(index=False):
            grid[replicas.index(int(dp_rank)), stages.index(int(stage))] = slowdown
        top = max(1 + _LEAST_RANGE, float(np.nanmax(grid)))
        image = matrix(axes, grid, replicas, stages, (1.0, top), aspect="auto")
        if grid.size <= _MOST_WRITTEN:
            for (row, column), value in np.ndenumerate(grid):
                colour = "white" if value < 1 + 0.6 * (top - 1) else "black"
                axes.text(column, row, f"{value:.2f}", ha="center", va="center", color=colour)
        axes.set(title=title, xlabel="stage", ylabel="dp rank")
        figure.colorbar(image, ax=axes, pad=0.02).set_label(axis_label("slowdown", ""))
    return figure
