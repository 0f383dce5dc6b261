"""Plots that compare ranks: exposed wait, loads, imbalance over the steps."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.arrays import Floats
from perflog.metrics.row_groups import split
from perflog.metrics.skew.imbalance import imbalance_runs, imbalance_steps, load_name
from perflog.metrics.step_time.wait import wait_steps
from perflog.plots.drawing.canvas import (
    MAX_PANELS,
    Canvas,
    envelope,
    integer_ticks,
    is_null,
    legend,
    mark_beyond,
    plain,
    shade_warmup,
    unit_of,
)
from perflog.plots.drawing.heatmaps import heatmaps
from perflog.plots.drawing.palette import LINES
from perflog.plots.registry import plot
from perflog.tables.nulls import none_if_null

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAX_CURVES = 5


@plot(
    title="Exposed wait",
    caption="heatmap of step and rank: the wait that no other work hides",
    metric="wait",
    select=lambda rows: rows[rows["rank"].notna()],
)
def wait(rows: pd.DataFrame, canvas: Canvas) -> Figure:
    """Draw the exposed wait of each rank and step as a heatmap, a panel for each run and wait phase.

    Example:
        >>> figure = perflog.plots.wait(perflog.read("run.txt"))
        >>> figure.axes[0].get_ylabel()
        'rank'
    """
    values = wait_steps(canvas.tables, canvas.options.warmup)
    values = values[values["rank"].notna() & values["run"].isin(rows["run"])]
    grids = {}
    for (run, phase), phase_rows in values.groupby(["run", "phase"], sort=False):
        grids[f"{canvas.run_name(run)}: {plain(phase)}"] = _grid(phase_rows, "rank", "exposed_s")
    steady = values.loc[values["steady"].astype(bool), "exposed_s"].to_numpy(np.float64)
    unit, factor = unit_of(steady, "s")
    return heatmaps(canvas, grids, steady, unit, factor, "exposed wait", "rank")


@plot(
    title="Loads",
    caption="heatmap of step and rank, or step and expert: amount of work",
    metric="imbalance",
    select=lambda rows: rows[rows["of"] == "load"],
)
def loads(rows: pd.DataFrame, canvas: Canvas) -> Figure:
    """Draw the amount of work of each rank or expert and step as a heatmap, a panel for each run and unit of work.

    The amounts are from table `loads`; several amounts of one rank and step add up.

    Example:
        >>> figure = perflog.plots.loads(perflog.find_runs("reference:moe_layer.txt#1"))
        >>> figure.axes[-1].get_ylabel()
        'load (blocks)'
    """
    import pandas as pd

    grids: dict[str, pd.DataFrame] = {}
    values: list[Floats] = []
    left_out = 0
    table = canvas.tables.rows("loads")
    by_name = {}
    for load_rows in split(table.where(table.known("step")), "run", "unit", "layer"):
        ((run, unit, layer),) = load_rows.where(np.array([0])).records("run", "unit", "layer")
        by_name[run, load_name(unit, layer)] = load_rows
    units, members = rows["name"].dropna().unique(), rows["over"].unique()
    for run, unit, member in rows[["run", "name", "over"]].itertuples(index=False, name=None):
        unit_rows = by_name[run, none_if_null(unit)]
        amounts = unit_rows.where(unit_rows.known(member))
        amounts = amounts.where(~amounts.known("expert")) if member == "rank" else amounts
        if len(amounts) and len(grids) == MAX_PANELS:
            left_out += 1
        elif len(amounts):
            grid = _grid(pd.DataFrame({name: amounts[name] for name in ("step", member, "amount")}), member, "amount")
            suffix = f": {plain(unit)} by {member}" if len(units) > 1 or len(members) > 1 else ""
            grids[f"{canvas.run_name(run)}{suffix}"] = grid
            values.append(grid.to_numpy(np.float64).ravel())
    unit = f"{plain(units[0])}s" if len(units) == 1 else ""
    member = members[0] if len(members) == 1 else "member"
    return heatmaps(canvas, grids, np.concatenate(values), unit, 1.0, "load", member, left_out)


def _grid(rows: pd.DataFrame, member: str, value: str) -> pd.DataFrame:
    """Return values by member (rows) and step (columns). Values of one cell add up; NaN where there is none."""
    grid = rows.groupby([member, "step"])[value].sum(min_count=1).unstack()
    return grid.astype("float64").set_axis(grid.columns.astype("int64"), axis=1)


@plot(
    title="Imbalance",
    caption="percent imbalance over the steps, of the loads, stages and phases that lose most time by it",
    metric="imbalance",
)
def imbalance(rows: pd.DataFrame, canvas: Canvas) -> Figure:
    """Draw percent imbalance over the steps, a panel for each run with a curve for each load, stage or phase.

    Percent imbalance is max / mean - 1 over the ranks. At most five curves are drawn, those that lose most time.

    Example:
        >>> figure = perflog.plots.imbalance(perflog.read("run.txt"))
        >>> figure.axes[0].get_ylabel()
        'imbalance (%)'
    """
    runs = imbalance_runs(canvas.tables, canvas.options.warmup)
    values = imbalance_steps(canvas.tables, canvas.options.warmup, runs[:MAX_PANELS])
    values = values.assign(curve=_curve_names(values))
    order = _ordered_curves(rows)
    curves = dict(zip(order, LINES[:_MAX_CURVES], strict=False))
    left_out = len(order) - len(curves)
    notes = [
        (
            "Percent imbalance = max / mean - 1. Loads come first, then phases with known ranks, by max - mean."
            + (f" {left_out} more are in metric `imbalance`." if left_out > 0 else "")
        )
    ]
    figure, panels = canvas.panels(runs, notes)
    handles: dict[str, object] = {}
    for run, axes in panels:
        most = canvas.most_points(len(panels) * len(curves))
        _draw_curves(axes, values[values["run"] == run], curves, most, handles)
        axes.set_title(canvas.run_name(run))
    legend(figure, [handles[name] for name in (*curves, "warmup", "beyond") if name in handles])
    return figure


def _ordered_curves(rows: pd.DataFrame) -> list[str]:
    """Return the curves: loads, then curves with a known slowest member, then others; in each by time lost."""
    known = rows["largest"].notna().to_numpy(np.float64)
    loads = (rows["of"] == "load").to_numpy(np.float64)
    lost = (rows["max"] - rows["mean"]).to_numpy(np.float64)
    order = np.lexsort((-lost, -known, -loads))
    return list(dict.fromkeys(_curve_names(rows.iloc[order])))


def _curve_names(rows: pd.DataFrame) -> list[str]:
    """Return the name of the curve of each row."""
    name = cache(_curve_name)  # few curves have many rows
    return [name(*key) for key in rows[["of", "name", "occurrence", "over"]].itertuples(index=False, name=None)]


def _curve_name(of: str, name: object, occurrence: Any, over: str) -> str:
    """Return the name of a curve: `gather_gemm 2 over ranks`. A first occurrence has no number."""
    name = name if isinstance(name, str) else ""
    if of == "phase":
        number = f" {occurrence}" if not is_null(occurrence) and occurrence > 1 else ""
        return plain(f"{name}{number} over {over}s", 40)
    detail = f" ({name}s)" if name and of == "load" else f" {name}" if name else ""
    return plain(f"{of}{detail} over {over}s", 40)


def _draw_curves(axes: Axes, rows: pd.DataFrame, curves: dict[str, Any], most: int, handles: dict[str, object]) -> None:
    top, x = 0.0, np.array([0.0])
    drawn = []
    for name, (color, line_style, marker) in curves.items():
        curve_rows = rows[rows["curve"] == name].sort_values("step")
        if not len(curve_rows):
            continue
        x, y = curve_rows["step"].to_numpy(np.float64), curve_rows["imbalance"].to_numpy(np.float64) * 100
        steady = curve_rows["steady"].to_numpy(bool)
        top = max(top, float(y[steady].max()) if steady.any() else float(y.max()))
        thin_x, thin_y, _ = envelope(x, y, most)
        every = max(len(thin_x) // 12, 1)
        (curve,) = axes.plot(
            thin_x, thin_y, color=color, linestyle=line_style, marker=marker, markersize=4, markevery=every, label=name
        )
        handles.setdefault(name, curve)
        drawn.append((x, y, steady))
    top = top * 1.15 or 1.0
    for x, y, steady in drawn:
        mark_beyond(axes, x, y, top, handles)
        shade_warmup(axes, x, int(np.argmax(steady)) if steady.any() else len(x), handles)
    axes.set_ylim(0, top)
    integer_ticks(axes.xaxis)
    axes.grid(axis="y")
    axes.set(xlabel="step", ylabel="imbalance (%)")
