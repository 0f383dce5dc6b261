"""Ranks against one another: exposed wait, load, imbalance over the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.metrics.imbalance import imbalance_steps
from perflog.metrics.wait import wait_steps
from perflog.plots.canvas import LINES, Canvas, beyond, envelope, legend, null, plain, shade, unit_of, whole
from perflog.plots.heat import heatmaps
from perflog.plots.registry import plot

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_CURVES = 5


@plot(
    title="Exposed wait",
    says="heatmap of step and rank: time waited that nothing hides",
    metric="wait",
    rows=lambda found: found[found["rank"].notna()],
)
def wait(found: pd.DataFrame, canvas: Canvas) -> Figure:
    """A panel for each run and wait phase."""
    values = wait_steps(canvas.tables, canvas.options.warmup)
    values = values[values["rank"].notna() & values["run"].isin(found["run"])]
    grids = {}
    for (run, phase), rows in values.groupby(["run", "phase"], sort=False):
        grids[f"{canvas.name(run)}: {plain(phase)}"] = _grid(rows, "rank", "exposed_s")
    steady = values.loc[values["steady"].astype(bool), "exposed_s"].to_numpy(np.float64)
    unit, factor = unit_of(steady, "s")
    return heatmaps(canvas, grids, steady, unit, factor, "exposed wait", "rank")


@plot(
    title="Load",
    says="heatmap of step and rank (or expert): amount of work",
    metric="imbalance",
    rows=lambda found: found[found["of"] == "load"],
)
def load(found: pd.DataFrame, canvas: Canvas) -> Figure:
    """A panel for each run, unit of work and kind of member: the rows of table `loads`, summed over repeated ones."""
    loads, grids, values = canvas.tables["loads"], {}, []
    units, members = found["name"].dropna().unique(), found["over"].unique()
    for run, unit, member in found[["run", "name", "over"]].itertuples(index=False, name=None):
        rows = loads[(loads["run"] == run) & loads[member].notna() & loads["step"].notna()]
        rows = rows[rows["unit"].isna() if unit is None else rows["unit"] == unit]
        rows = rows[rows["expert"].isna()] if member == "rank" else rows
        if len(rows):
            grid = _grid(rows, member, "amount")
            kind = f": {plain(unit)}s by {member}" if len(units) > 1 or len(members) > 1 else ""
            grids[f"{canvas.name(run)}{kind}"] = grid
            values.append(grid.to_numpy(np.float64).ravel())
    unit = f"{plain(units[0])}s" if len(units) == 1 else ""
    of = members[0] if len(members) == 1 else "member"
    return heatmaps(canvas, grids, np.concatenate(values), unit, 1.0, "load", of)


def _grid(rows: pd.DataFrame, member: str, value: str) -> pd.DataFrame:
    """Rows: members; columns: steps. Values of the same place add up; where there is none, NaN."""
    grid = rows.groupby([member, "step"])[value].sum(min_count=1).unstack()
    return grid.astype("float64").set_axis(grid.columns.astype("int64"), axis=1)


@plot(
    title="Imbalance",
    says="percent imbalance over steps, of the loads, stages and phases that lose most by it",
    metric="imbalance",
)
def imbalance(found: pd.DataFrame, canvas: Canvas) -> Figure:
    """A panel for each run with the largest differences between slowest and mean."""
    values = imbalance_steps(canvas.tables, canvas.options.warmup)
    values = values.assign(curve=[_curve(row) for row in values[_KEYS].to_dict("records")])
    order = _ordered(found)
    curves = dict(zip(order, LINES[:_MOST_CURVES], strict=False))
    note = "percent imbalance = max / mean - 1; loads first, then phases of known ranks by time above the mean"
    left = len(order) - len(curves)
    note += f"; {left} more in metric `imbalance`" if left > 0 else ""
    figure, panels = canvas.panels(list(dict.fromkeys(values["run"])), [note])
    handles: dict[str, Any] = {}
    for run, axes in panels:
        _panel(axes, values[values["run"] == run], curves, handles)
        axes.set_title(canvas.name(run))
    legend(figure, [handles[name] for name in (*curves, "warmup", "beyond") if name in handles])
    return figure


_KEYS = ["of", "name", "occurrence", "over"]


def _ordered(found: pd.DataFrame) -> list[str]:
    """Curves: loads, then phases whose slowest member is known, then others; in each what loses most time first."""
    named = found["largest"].notna().to_numpy(np.float64)
    loads = (found["of"] == "load").to_numpy(np.float64)
    lost = (found["max"] - found["mean"]).to_numpy(np.float64)
    order = np.lexsort((-lost, -named, -loads))
    return list(dict.fromkeys(_curve(row) for row in found.iloc[order][_KEYS].to_dict("records")))


def _curve(row: dict[str, Any]) -> str:
    """What a curve is called: `gather_gemm 2 over ranks`. A first time is not numbered: it may be the only one."""
    name = row["name"] if isinstance(row["name"], str) else ""
    if row["of"] == "phase":
        again = f" {row['occurrence']}" if not null(row["occurrence"]) and row["occurrence"] > 1 else ""
        return plain(f"{name}{again} over {row['over']}s", 40)
    detail = f" ({name}s)" if name and row["of"] == "load" else f" {name}" if name else ""
    return plain(f"{row['of']}{detail} over {row['over']}s", 40)


def _panel(axes: Axes, rows: pd.DataFrame, curves: dict[str, Any], handles: dict[str, Any]) -> None:
    top, x = 0.0, np.array([0.0])
    drawn = []
    for name, (color, line, marker) in curves.items():
        mine = rows[rows["curve"] == name].sort_values("step")
        if not len(mine):
            continue
        x, y = mine["step"].to_numpy(np.float64), mine["imbalance"].to_numpy(np.float64) * 100
        steady = mine["steady"].to_numpy(bool)
        top = max(top, float(y[steady].max()) if steady.any() else float(y.max()))
        thin_x, thin_y, _ = envelope(x, y)
        every = max(len(thin_x) // 12, 1)
        (curve,) = axes.plot(
            thin_x, thin_y, color=color, linestyle=line, marker=marker, markersize=4, markevery=every, label=name
        )
        handles.setdefault(name, curve)
        drawn.append((x, y, steady))
    top = top * 1.15 or 1.0
    for x, y, steady in drawn:
        beyond(axes, x, y, top, handles)
        shade(axes, x, int(np.argmax(steady)) if steady.any() else len(x), handles)
    axes.set_ylim(0, top)
    whole(axes.xaxis, 6)
    axes.grid(axis="y")
    axes.set(xlabel="step", ylabel="imbalance (%)")
