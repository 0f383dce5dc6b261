"""Plots of pipeline stages: the time of their layers, and the 1F1B schedule modelled from these times."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.metrics import get
from perflog.metrics.pipelines.pipeline import layers_by_stage, modelled_timelines
from perflog.plots.drawing.canvas import MAX_PANELS, Canvas, axis_label, legend, plain, shown_note, unit_of
from perflog.plots.drawing.palette import BLACK, BLUE, CMAP, ORANGE, SKY, YELLOW
from perflog.plots.drawing.sketch import set_cell_names
from perflog.plots.registry import plot
from perflog.tables.nulls import none_if_null
from perflog.units import show

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAX_NUMBERED_CELLS = 400  # up to this many cells, each has its value in it
_MAX_NUMBERED_COLUMNS = 40
_MAX_TICKS = 40


@plot(
    title="Time of layers by stage",
    caption="heatmap of pipeline stage and layer: time in a step, with the sum of each stage",
    metric="layers",
    select=lambda rows: rows[rows["stages"].notna()],
)
def layers(rows: pd.DataFrame, canvas: Canvas) -> Figure:
    """Draw the time of each pipeline stage and layer as a heatmap, a panel for each run and direction.

    Example:
        >>> figure = perflog.plots.layers(perflog.find_runs("reference:pipeline_layers.txt"))
        >>> figure.axes[0].get_ylabel()
        'stage (sum)'
    """
    groups = list(rows.groupby(["run", "direction"], sort=False, dropna=False))
    grids = {
        (run, direction): _stage_by_layer(canvas, run, direction, group_rows)
        for (run, direction), group_rows in groups[:MAX_PANELS]
    }
    times = np.concatenate([grid.to_numpy(np.float64).ravel() for grid in grids.values()])
    unit, factor = unit_of(times, "s")
    stages = [len(grid) for grid in grids.values()]
    notes = [
        (
            "Medians over the steady steps, as in metric `layers`. Empty: the stage holds no part of the layer. A "
            "layer that is split over stages appears in each of them with its part."
        ),
        shown_note(len(grids), len(groups), "panels"),
    ]
    height = 1.5 + sum(1.2 + 0.3 * min(n, 30) for n in stages)
    figure, panels = canvas.column_of_panels(11, height, [n + 2 for n in stages], notes)
    totals = get("stages").table(canvas.tables, canvas.options)
    image: Any = None
    for ((run, direction), grid), axes in zip(grids.items(), panels, strict=True):
        image = _draw_cells(axes, grid / factor, float(np.nanmin(times)) / factor, float(np.nanmax(times)) / factor)
        group_rows = totals[(totals["run"] == run) & (totals["direction"] == direction)]
        sums = dict(zip(group_rows["stage"], group_rows["time_s"], strict=True))
        _name_cells(axes.yaxis, [f"{stage}  ({show(sums.get(stage), 's', 3)})" for stage in grid.index])
        axes.set_title(f"{canvas.run_name(run)}: {plain(direction or '')}")
        axes.set(xlabel="layer", ylabel="stage (sum)")
    figure.colorbar(image, ax=list(panels), pad=0.02).set_label(axis_label("time in a step", unit))
    return figure


def _stage_by_layer(canvas: Canvas, run: str, direction: object, rows: pd.DataFrame) -> pd.DataFrame:
    """Return seconds by stage (rows) and layer (columns): the metric of each stage alone, with the run's warm-up."""
    import pandas as pd

    options = replace(canvas.options, warmup=int(rows["warmup"].iloc[0]))
    times = layers_by_stage(canvas.tables, run, none_if_null(direction), options)
    return pd.DataFrame.from_dict(times, orient="index", columns=list(rows["layer"]), dtype="float64")


def _draw_cells(axes: Axes, values: pd.DataFrame, low: float, high: float) -> Any:
    grid, low = np.ma.masked_invalid(values.to_numpy(np.float64)), min(low, 0.0)
    image = axes.pcolormesh(grid, cmap=CMAP, vmin=low, vmax=high, edgecolors="0.85", linewidth=0.4)
    set_cell_names(image, values.index, [plain(name) for name in values.columns])
    axes.invert_yaxis()
    _name_cells(axes.xaxis, [plain(name, 10) for name in values.columns])
    if int(np.ma.count(grid)) <= _MAX_NUMBERED_CELLS and grid.shape[1] <= _MAX_NUMBERED_COLUMNS:
        for (row, column), value in np.ndenumerate(grid.filled(np.nan)):
            if value == value:
                dark = (value - low) / max(high - low, 1e-12) < 0.55
                axes.text(column + 0.5, row + 0.5, f"{value:.3g}", ha="center", va="center", fontsize=7,
                          color="white" if dark else "black")  # fmt: skip
    return image


def _name_cells(axis: Any, names: list[str]) -> None:
    """Put a name in the middle of each cell, or of every k-th if there are many."""
    every = math.ceil(len(names) / _MAX_TICKS)
    places = range(0, len(names), every)
    crowded = max(map(len, names), default=0) * len(places) > 130 and axis.axis_name == "x"
    axis.set_ticks([place + 0.5 for place in places], names[::every], rotation=90 if crowded else 0)


@plot(
    title="Modelled 1F1B schedule (a model, not a measurement)",
    caption="modelled 1F1B schedule: when each stage works on each micro-batch, from the measured times of the stages",
    metric="pipeline",
    select=lambda rows: rows[rows["makespan_s"].notna()],
)
def schedule(rows: pd.DataFrame, canvas: Canvas) -> Figure:
    """Draw the modelled 1F1B schedule of a pipeline, a panel for each run.

    It is a model, not a measurement: each stage takes the measured time of its layers, and sending costs nothing.

    Example:
        >>> figure = perflog.plots.schedule(perflog.find_runs("reference:pipeline_layers.txt"))
        >>> figure.axes[0].get_xlabel()
        'modelled time (ms)'
    """
    slots = dict(modelled_timelines(canvas.tables, canvas.options))
    models = {row["run"]: row for row in rows.to_dict("records") if row["run"] in slots}
    shown = list(models)[:MAX_PANELS]
    notes = [
        (
            "Each stage takes the measured time of its layers; sending costs nothing. Time outside the timers is "
            "missing, so this is not the measured bubble of the pipeline. Empty: idle in the model."
        ),
        shown_note(len(shown), len(models), "runs"),
    ]
    heights = [int(models[run]["stages"]) + 2 for run in shown]
    figure, panels = canvas.column_of_panels(10.5, 1.4 + sum(min(0.3 * h, 8) for h in heights), heights, notes)
    handles: dict[str, object] = {}
    for run, axes in zip(shown, panels, strict=True):
        _draw_schedule(axes, slots[run], handles)
        model = models[run]
        subtitle = f"{plain(model['model'])}, {plain(model['of'])}: {model['micro_batches']} micro-batches"
        subtitle += f", makespan {show(model['makespan_s'], 's')}, idle {show(model['idle'], '1')}"
        axes.set_title(f"{canvas.run_name(run)}\n{subtitle}")
    legend(figure, handles.values())
    return figure


@plot(
    title="Pipeline schedules by simulation (models, not measurements)",
    caption="idle share of a pipeline under each schedule, with the micro-batches of the run and twice as many",
    metric="schedules",
)
def schedules(rows: pd.DataFrame, canvas: Canvas) -> Figure:
    """Draw the simulated idle share of six schedules, a panel for each run; beside each bar its memory.

    Example:
        >>> figure = perflog.plots.schedules(perflog.find_runs("reference:pipeline_layers.txt"))
        >>> figure.axes[0].get_xlabel()
        'idle in the simulation (%)'
    """
    runs = list(rows["run"].unique())
    shown = runs[:MAX_PANELS]
    notes = [
        (
            "Holds: the most micro-batches of the run that a device keeps activations of; copies of the parameters, if "
            "more than one. Sending takes no time."
        ),
        shown_note(len(shown), len(runs), "runs"),
    ]
    figure, panels = canvas.column_of_panels(8.5, 1.2 + 2.9 * len(shown), [6] * len(shown), notes)
    handles: dict[str, object] = {}
    for run, axes in zip(shown, panels, strict=True):
        run_rows = rows[rows["run"] == run]
        first = run_rows.iloc[0]
        _draw_schedules(axes, run_rows, handles)
        times = f"{first['stages']} stages, {plain(first['of'])}, {first['micro_batches']:,} micro-batches"
        axes.set_title(f"{canvas.run_name(run)}\n{times}")
    legend(figure, handles.values())
    return figure


def _draw_schedules(axes: Axes, rows: pd.DataFrame, handles: dict[str, object]) -> None:
    names, batches = list(rows["schedule"].unique()), sorted(rows["micro_batches"].unique())
    height = 0.8 / len(batches)
    for k, (number, color, hatch) in enumerate(zip(batches, (BLUE, YELLOW), ("", "///"), strict=False)):
        number_rows = rows[rows["micro_batches"] == number]
        label = "micro-batches of the run" if k == 0 else "twice as many"
        places = [names.index(name) + (k - (len(batches) - 1) / 2) * height for name in number_rows["schedule"]]
        idle = 100 * number_rows["idle"].to_numpy(np.float64)
        bars = axes.barh(
            places, idle, height, color=color, hatch=hatch, edgecolor=BLACK, linewidth=0.6, label=label, gid=label
        )
        handles.setdefault(label, bars)
        for place, end, row in zip(places, idle, number_rows.to_dict("records"), strict=True):
            copies = f", {row['copies']} copies" if row["copies"] > 1 else ""
            text = f"{end:.3g} %, holds {row['activations']:.3g}{copies}"
            axes.annotate(text, (end, place), (3, 0), textcoords="offset points", va="center", fontsize=7)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.35 * max(1.0, 100 * float(rows["idle"].max())))
    axes.set_xlabel("idle in the simulation (%)")
    axes.grid(axis="x")


def _draw_schedule(axes: Axes, slots: pd.DataFrame, handles: dict[str, object]) -> None:
    unit, factor = unit_of(slots["end_s"], "s")
    numbered = len(slots) <= 160
    for (direction, odd), rows in slots.groupby(["direction", slots["micro_batch"] % 2 == 1], sort=False):
        color, odd_color, hatch = (BLUE, SKY, "") if direction == "forward" else (ORANGE, YELLOW, "///")
        start, width = rows["start_s"] / factor, (rows["end_s"] - rows["start_s"]) / factor
        label = f"{direction}, {'odd' if odd else 'even'} micro-batch"
        bars = axes.barh(
            rows["stage"], width, 0.8, left=start, color=odd_color if odd else color, hatch=hatch, edgecolor=BLACK,
            linewidth=0.4 if len(slots) < 2000 else 0, label=label, gid=label,
        )  # fmt: skip
        handles.setdefault(label, bars)
        if numbered:
            for stage, batch, x in zip(rows["stage"], rows["micro_batch"], start + width / 2, strict=True):
                axes.text(x, stage, str(batch), ha="center", va="center", fontsize=6,
                          color="white" if color == BLUE and not odd else "black", clip_on=True)  # fmt: skip
    stages = int(slots["stage"].max()) + 1
    axes.set_yticks(range(0, stages, math.ceil(stages / 32)))
    axes.set_ylim(stages - 0.4, -0.6)
    axes.set_xlim(0, float(slots["end_s"].max()) / factor * 1.01)
    axes.set(xlabel=axis_label("modelled time", unit), ylabel="stage")
