"""Pipeline stages: the time of their layers, and the schedule that a model makes of it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.metrics import Tables, get
from perflog.metrics.pipeline import modelled_timelines
from perflog.plots.canvas import (
    BLACK,
    BLUE,
    CMAP,
    MOST_PANELS,
    ORANGE,
    SKY,
    YELLOW,
    Canvas,
    axis,
    capped,
    legend,
    plain,
    unit_of,
)  # fmt: skip
from perflog.plots.registry import plot
from perflog.units import show

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_FIGURES = 400  # cells with their value in them
_MOST_TICKS = 40


@plot(
    title="Time of layers by stage",
    says="heatmap of pipeline stage and layer: time in a step; beside it the sum of each stage",
    metric="layers",
    rows=lambda found: found[found["stages"].notna()],
)
def layers(found: pd.DataFrame, canvas: Canvas) -> Figure:
    """A panel for each run and direction."""
    groups = list(found.groupby(["run", "direction"], sort=False, dropna=False))
    grids = {(run, of): _grid(canvas, run, of, rows) for (run, of), rows in groups[:MOST_PANELS]}
    every = np.concatenate([grid.to_numpy(np.float64).ravel() for grid in grids.values()])
    unit, factor = unit_of(every, "s")
    tall = [len(grid) for grid in grids.values()]
    notes = [
        (
            "medians over the steady steps of metric `layers`; blank: the stage has no part of the layer. A layer"
            " that is split over stages stands in each with its part"
        ),
        capped(len(grids), len(groups), "panels"),
    ]
    figure = canvas.figure(11, 1.5 + sum(1.2 + 0.3 * min(n, 30) for n in tall), notes)
    panels = figure.subplots(len(grids), squeeze=False, height_ratios=[n + 2 for n in tall]).ravel()
    totals = get("stages").table(canvas.tables, canvas.options)
    image: Any = None
    for ((run, direction), grid), axes in zip(grids.items(), panels, strict=True):
        image = _cells(axes, grid / factor, float(np.nanmin(every)) / factor, float(np.nanmax(every)) / factor)
        mine = totals[(totals["run"] == run) & (totals["direction"] == direction)]
        sums = dict(zip(mine["stage"], mine["time_s"], strict=True))
        names = [f"{stage}  ({show(sums.get(stage), 's', 3)})" for stage in grid.index]
        _ticks(axes.yaxis, names)
        axes.set_title(f"{canvas.name(run)}: {plain(direction or '')}")
        axes.set(xlabel="layer", ylabel="stage (sum)")
    figure.colorbar(image, ax=list(panels), pad=0.02).set_label(axis("time in a step", unit))
    return figure


def _grid(canvas: Canvas, run: str, direction: object, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows: stages; columns: layers; seconds. The metric of each stage by itself, with the warm-up of the run."""
    import pandas as pd

    tables, cut = canvas.tables, replace(canvas.options, warmup=int(rows["warmup"].iloc[0]))
    every = tables["layers"][tables["layers"]["run"] == run]
    runs = tables["runs"][tables["runs"]["run"] == run]
    found = {}
    for stage in sorted(every["stage"].dropna().unique()):
        part = get("layers").table(Tables({"runs": runs, "layers": every[every["stage"] == stage]}), cut)
        part = part[part["direction"] == direction]
        found[int(stage)] = dict(zip(part["layer"], part["time_s"], strict=True))
    return pd.DataFrame.from_dict(found, orient="index", columns=list(rows["layer"]), dtype="float64")


def _cells(axes: Axes, values: pd.DataFrame, low: float, high: float) -> Any:
    grid = np.ma.masked_invalid(values.to_numpy(np.float64))
    image = axes.pcolormesh(grid, cmap=CMAP, vmin=min(low, 0.0), vmax=high, edgecolors="0.85", linewidth=0.4)
    axes.invert_yaxis()
    _ticks(axes.xaxis, [plain(name, 10) for name in values.columns])
    if int(np.ma.count(grid)) <= _MOST_FIGURES and grid.shape[1] <= 40:
        for (row, column), value in np.ndenumerate(grid.filled(np.nan)):
            if value == value:
                dark = (value - min(low, 0.0)) / max(high - min(low, 0.0), 1e-12) < 0.55
                axes.text(column + 0.5, row + 0.5, f"{value:.3g}", ha="center", va="center", fontsize=7,
                          color="white" if dark else "black")  # fmt: skip
    return image


def _ticks(axis: Any, names: list[str]) -> None:
    """A name in the middle of each cell, or of every k-th."""
    every = math.ceil(len(names) / _MOST_TICKS)
    places = range(0, len(names), every)
    long = max(map(len, names), default=0) * len(places) > 130 and axis.axis_name == "x"
    axis.set_ticks([place + 0.5 for place in places], names[::every], rotation=90 if long else 0)


@plot(
    title="Modelled 1F1B timeline (a model, not a measurement)",
    says="when each stage would work on each micro-batch, by the 1F1B model from the stages' times",
    metric="pipeline",
    rows=lambda found: found[found["makespan_s"].notna()],
)
def timeline(found: pd.DataFrame, canvas: Canvas) -> Figure:
    """A panel for each run."""
    slots = dict(modelled_timelines(canvas.tables, canvas.options))
    models = {row["run"]: row for row in found.to_dict("records") if row["run"] in slots}
    shown = list(models)[:MOST_PANELS]
    notes = [
        (
            "each stage takes as long as its layers do as timed; sending costs nothing. What the timers leave out"
            " is not in it, so this is not the pipeline's measured bubble. Blank: idle in the model"
        ),
        capped(len(shown), len(models), "runs"),
    ]
    heights = [int(models[run]["stages"]) + 2 for run in shown]
    figure = canvas.figure(10.5, 1.4 + sum(min(0.3 * h, 8) for h in heights), notes)
    panels = figure.subplots(len(shown), squeeze=False, height_ratios=heights).ravel()
    handles: dict[str, Any] = {}
    for run, axes in zip(shown, panels, strict=True):
        _schedule(axes, slots[run], handles)
        model = models[run]
        said = f"{plain(model['model'])}, {plain(model['of'])}: {model['micro_batches']} micro-batches"
        said += f", makespan {show(model['makespan_s'], 's')}, idle {show(model['idle'], '1')}"
        axes.set_title(f"{canvas.name(run)}\n{said}")
    legend(figure, handles.values())
    return figure


def _schedule(axes: Axes, slots: pd.DataFrame, handles: dict[str, Any]) -> None:
    unit, factor = unit_of(slots["end_s"], "s")
    few = len(slots) <= 160
    for direction, odd, rows in _kinds(slots):
        color, other, hatch = (BLUE, SKY, "") if direction == "forward" else (ORANGE, YELLOW, "///")
        start, width = rows["start_s"] / factor, (rows["end_s"] - rows["start_s"]) / factor
        label = f"{direction}, {'odd' if odd else 'even'} micro-batch"
        bars = axes.barh(
            rows["stage"], width, 0.8, left=start, color=other if odd else color, hatch=hatch, edgecolor=BLACK,
            linewidth=0.4 if len(slots) < 2000 else 0, label=label, gid=label,
        )  # fmt: skip
        handles.setdefault(label, bars)
        if few:
            for stage, batch, x in zip(rows["stage"], rows["micro_batch"], start + width / 2, strict=True):
                axes.text(x, stage, str(batch), ha="center", va="center", fontsize=6,
                          color="white" if color == BLUE and not odd else "black", clip_on=True)  # fmt: skip
    stages = int(slots["stage"].max()) + 1
    axes.set_yticks(range(0, stages, math.ceil(stages / 32)))
    axes.set_ylim(stages - 0.4, -0.6)
    axes.set_xlim(0, float(slots["end_s"].max()) / factor * 1.01)
    axes.set(xlabel=axis("modelled time", unit), ylabel="stage")


def _kinds(slots: pd.DataFrame) -> Iterator[tuple[str, bool, pd.DataFrame]]:
    for (direction, odd), rows in slots.groupby(["direction", slots["micro_batch"] % 2 == 1], sort=False):
        yield direction, bool(odd), rows
