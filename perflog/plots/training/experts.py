"""Plot of experts: how much of a layer's work each of them does, at the first and the last step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from perflog.arrays import Floats, Ints
from perflog.metrics.skew.hot_experts import ExpertJob, LayerLoads, expert_jobs
from perflog.plots.drawing.canvas import Canvas, plain
from perflog.plots.drawing.heatmaps import coarse, matrix
from perflog.plots.registry import plot

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_TICKS = 16
_LEAST_TOP = 2.0  # times the mean: even loads must not look uneven
_OUTLIERS = 0.995  # of the cells lie below the end of the colour scale


class _Panel(Struct, frozen=True):
    """Loads relative to the mean: a row for each layer or step (`member`) by name, a column for each expert."""

    member: str
    names: Sequence[str]
    experts: Ints
    loads: Floats


@plot(
    title="Loads of experts",
    caption="heatmap of layer and expert: the work of each expert relative to the mean of its layer",
    metric="hot_experts",
)
def hot_experts(rows: pd.DataFrame, canvas: Canvas) -> Figure:  # noqa: ARG001 (all plots take the same)
    """Draw the load of each expert relative to the mean of its layer, at the first and at the last step of each job.

    Of a job with one layer, the panel has a row for each step instead. Even loads are 1. The colour scale is the scale
    of all panels.

    Example:
        >>> perflog.plots.hot_experts.metric
        'hot_experts'
    """
    jobs = expert_jobs(canvas.tables)
    units = len({job.unit for job in jobs}) > 1
    grids = {
        f"{_name(canvas, job)}{f', {job.unit}s' if units else ''}{when}": panel
        for job in jobs
        for when, panel in _grids(job.layers)
    }
    cells = np.concatenate([panel.loads[np.isfinite(panel.loads)] for panel in grids.values()])
    top = max(float(np.quantile(cells, _OUTLIERS)), _LEAST_TOP)
    most = max(len(panel.names) for panel in grids.values())
    holes = any(np.isnan(panel.loads).any() for panel in grids.values())
    notes = [
        "1: the mean of the layer's experts.",
        "Larger loads have the last colour." if cells.max() > top else "",
        "Hatched: the layer has no such expert." if holes else "",
    ]
    figure, panels = canvas.panels(list(grids), notes, panel_height=min(1.3 + 0.11 * most, 3.6))
    image: Any = None
    for title, axes in panels:
        image = _heatmap(axes, grids[title], top)
        axes.set_title(title)
    bar = figure.colorbar(
        image, ax=[axes for _, axes in panels], extend="max" if cells.max() > top else "neither", pad=0.02
    )
    bar.set_label("load / mean")
    return figure


def _name(canvas: Canvas, job: ExpertJob) -> str:
    """The folder of a job of several files, else the run."""
    return canvas.run_name(job.first_run) if job.names.get("run") else plain(job.names["label"], 48)


def _grids(layers: Sequence[LayerLoads]) -> Iterator[tuple[str, _Panel]]:
    """Yield title and content of each panel of a job: its first and its last step, or all steps of its only layer."""
    experts = np.unique(np.concatenate([layer.experts for layer in layers]))
    if len(layers) == 1 and len(layers[0].steps) > 1:
        (layer,) = layers
        of = f", layer {plain(layer.name, 16)}" if layer.name else ""
        yield of, _Panel("step", [f"{step:,}" for step in layer.steps.tolist()], experts, layer.ratios)
        return
    names = [plain(layer.name or "-", 16) for layer in layers]
    for word, place in (("first", 0), ("last", -1)):
        steps = {int(layer.steps[place]) for layer in layers}
        grid = np.full((len(layers), len(experts)), np.nan)
        for row, layer in zip(grid, layers, strict=True):
            row[np.searchsorted(experts, layer.experts)] = layer.ratios[place]
        when = f"step {steps.pop():,}" if len(steps) == 1 else f"{word} step of each layer"
        yield f", {when}", _Panel("layer", names, experts, grid)
        if all(len(layer.steps) == 1 for layer in layers):
            return


def _heatmap(axes: Axes, panel: _Panel, top: float) -> Any:
    cells, per = coarse(panel.loads)
    extent = (-0.5, cells.shape[1] * per[1] - 0.5, cells.shape[0] * per[0] - 0.5, -0.5)
    experts = panel.experts.tolist()
    image = matrix(axes, cells, panel.names, experts, (0.0, top), per, _MOST_TICKS, aspect="auto", extent=extent)
    axes.set(xlabel="expert", ylabel=panel.member)
    return image
