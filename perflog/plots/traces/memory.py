"""Plot of memory: the curve of each device, divided by who held it, with the peak."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perflog.metrics.traces.over_time.memory import OTHER
from perflog.metrics.traces.over_time.memory_holders import NOT_TRACED
from perflog.plots.drawing.canvas import Canvas, axis_label, is_null, legend, plain, shown_note, unit_of
from perflog.plots.drawing.palette import BLACK, FILLS, RED
from perflog.plots.registry import plot
from perflog.units import show

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAX_NAMED = 14  # holders with a fill of their own
_NAME = 44  # characters of a holder
_DEVICE = ["run", "rank", "memory", "device", "process"]
_LAST = {NOT_TRACED: ("0.75", ""), OTHER: ("white", "")}


@plot(
    title="Memory over time",
    caption="allocated memory of each device over the time of the trace, divided by who held it, with reserved memory "
    "and the peak",
    metric="memory_curve",
)
def memory_curve(rows: pd.DataFrame, canvas: Canvas) -> Figure:
    """Draw the curve of memory as a stack of its holders, a panel for each device, with the peak marked.

    Example:
        >>> figure = perflog.plots.memory_curve(perflog.read("trace.json"))
        >>> figure.axes[0].get_ylabel()
        'memory (MiB)'
    """
    groups = dict(list(rows.groupby(_DEVICE, sort=False, dropna=False)))
    largest = rows.groupby("holder", sort=False)["bytes"].max().sort_values(ascending=False, kind="stable")
    named = [name for name in largest.index if name not in _LAST]
    fills = {NOT_TRACED: _LAST[NOT_TRACED]} | dict(zip(named[:_MAX_NAMED], FILLS, strict=False))
    notes = [
        "Memory belongs to the range and operator in which it was allocated. Each point is the largest of its period.",
        shown_note(min(len(named), _MAX_NAMED), len(named), "holders"),
    ]
    figure, panels = canvas.panels(list(groups), notes, panel_height=3.0)
    factors = unit_of(rows[["allocated", "reserved"]].astype("float64").fillna(0), "B")
    handles: dict[str, object] = {}
    for key, axes in panels:
        _draw(axes, groups[key], fills, factors, handles)
        axes.set_title(_title(canvas, *key))
    order = [*fills, OTHER, "reserved", "peak"]
    legend(figure, [handles[name] for name in order if name in handles])
    return figure


def _draw(
    axes: Axes,
    rows: pd.DataFrame,
    fills: dict[str, tuple[str, str]],
    scale: tuple[str, float],
    handles: dict[str, object],
) -> None:
    unit, factor = scale
    time_unit, time_factor = unit_of(rows["at_s"], "s")
    held = rows.assign(holder=[name if name in fills else OTHER for name in rows["holder"]])
    stack = held.pivot_table("bytes", "at_s", "holder", "sum", sort=True).fillna(0).astype("float64") / factor
    times = stack.index.to_numpy(np.float64) / time_factor
    below = np.zeros(len(stack))
    for name in (*fills, OTHER):
        if name not in stack:
            continue
        colour, hatch = fills.get(name, _LAST[OTHER])
        above = below + stack[name].to_numpy()
        area = axes.fill_between(
            times, below, above, step="post", facecolor=colour, hatch=hatch, edgecolor=BLACK, linewidth=0.3,
            label=plain(name, _NAME), gid=name,
        )  # fmt: skip
        handles.setdefault(name, area)
        below = above
    points = rows.drop_duplicates("at_s").sort_values("at_s")
    if points["reserved"].notna().any():
        reserved = points["reserved"].astype("float64") / factor
        (line,) = axes.step(
            points["at_s"] / time_factor, reserved, where="post", color=BLACK, linestyle="--", label="reserved"
        )
        handles.setdefault("reserved", line)
    peak = points[points["is_peak"].astype(bool)].iloc[0]
    place = float(peak["at_s"]) / time_factor, float(peak["allocated"]) / factor
    mark = axes.scatter(*place, marker="v", s=36, color=RED, edgecolor=BLACK, label="peak", zorder=5, clip_on=False)
    handles.setdefault("peak", mark)
    left = place[0] < (times[0] + times[-1]) / 2
    axes.annotate(
        show(float(peak["allocated"]), "B", 3), place, (7 if left else -7, 5), textcoords="offset points",
        ha="left" if left else "right", fontsize=8, color=RED,
    )  # fmt: skip
    axes.set_ylim(0, max(float(below.max()), *axes.get_ylim(), place[1]) * 1.08)
    axes.set_xlim(times[0], max(times[-1], times[0] + 1e-9))
    axes.set_xlabel(axis_label("time", time_unit))
    axes.set_ylabel(axis_label("memory", unit))
    axes.grid(axis="y")


def _title(canvas: Canvas, run: str, rank: object, memory: str, device: object, process: object) -> str:
    parts = [canvas.run_name(run, 30)]
    parts += [f"rank {rank}"] if not is_null(rank) else [f"process {process}"] if not is_null(process) else []
    return ", ".join([*parts, "host memory" if memory == "host" else f"device {device}"])
