"""Plot of the time-loss waterfall: what each run's step or trace is spent on, and what could be won."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perflog.metrics import headroom
from perflog.metrics.step_time.waterfall import NOT_OF_A_STEP
from perflog.plots.drawing.canvas import Canvas, axis_label, legend, plain, unit_of
from perflog.plots.drawing.palette import BLACK, FILLS, RED
from perflog.plots.registry import plot
from perflog.tables.nulls import none_if_null
from perflog.units import show

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WORK = ("work at the peak", "work at plain products", "compute", "mixed")
_UNKNOWN = ("unattributed", *NOT_OF_A_STEP)
_WHOLES = {
    "step": "mean step",
    "traced step": "traced step, mean over devices",
    "trace": "trace, mean over devices",
}
_MOST_GAINS = 2
_LEAST_GAIN = 0.02  # of the whole
_ROOM = 0.65  # of the whole: the text of a bar that ends farther right is on its left


@plot(
    title="Where the time goes, and what could be won",
    caption="time of each run's step or trace: work, then each loss, down to the whole and what it could be at best",
    metric="waterfall",
)
def waterfall(rows: pd.DataFrame, canvas: Canvas) -> Figure:
    """Draw the bars of metric `waterfall` one after the other, a panel for each run, so that they end at the whole.

    A hatched bar is doubted: the metric says why. Marks in the whole: the time that metric `headroom` gives at best if
    one thing were ideal; such gains overlap.

    Example:
        >>> figure = perflog.plots.waterfall(perflog.find_runs("reference:moe_layer.txt#1"))
        >>> figure.axes[0].get_xlabel()
        'mean step (ms)'
    """
    gains = headroom.table(canvas.tables, canvas.options)
    panels: dict[str, pd.DataFrame] = {}
    for (run, of), whole_rows in rows.groupby(["run", "of"], sort=False):
        several = rows.loc[rows["run"] == run, "of"].nunique() > 1
        panels[f"{canvas.run_name(run)}{f', {of}' if several else ''}"] = whole_rows
    most = max(map(len, panels.values()))
    doubted = rows["doubt"].notna().any()
    notes = ["Hatched: less certain than it looks; `perflog analyze RUN waterfall` says why." if doubted else ""]
    figure, drawn = canvas.panels(list(panels), notes, panel_height=0.8 + 0.26 * (most + 1))
    handles: dict[str, object] = {}
    for title, axes in drawn:
        unit, factor = unit_of(panels[title]["whole_s"], "s")
        _draw(axes, panels[title], factor)
        names = panels[title][["run", "of"]].iloc[0]
        best = gains[(gains["run"] == names["run"]) & (gains["of"] == names["of"]) & (gains["gain"] >= _LEAST_GAIN)]
        for k, row in enumerate(best.head(_MOST_GAINS).to_dict("records")):
            style: dict[str, Any] = {"color": RED, "linestyle": ("-", ":")[k], "linewidth": 2, "gid": "headroom"}
            at, place = row["ideal_s"] / factor, len(panels[title])
            (line,) = axes.plot([at, at], [place - 0.36, place + 0.36], label=f"at best, with {row['ideal']}", **style)
            handles.setdefault(str(line.get_label()), line)
        axes.set_title(title)
        axes.set_xlabel(axis_label(_WHOLES.get(names["of"], names["of"]), unit))
    legend(figure, handles.values())
    return figure


def _draw(axes: Axes, rows: pd.DataFrame, factor: float) -> None:
    """Draw the bars of one whole from top to bottom, each from where the one above it ends."""
    whole, start, labels = float(rows["whole_s"].iloc[0]), 0.0, []
    for place, row in enumerate(rows.to_dict("records")):
        bar, width = row["bar"], row["time_s"]
        color = FILLS[0][0] if bar in _WORK else "0.75" if bar in _UNKNOWN else FILLS[1][0]
        hatch = "////" if none_if_null(row["doubt"]) is not None else ""
        axes.barh(place, width / factor, 0.72, start / factor, color=color, hatch=hatch, edgecolor=BLACK, linewidth=0.6)
        start += width
        text = f"{show(width, 's', 3)}, {100 * width / whole:.0f} %"
        left, right = (start - width) / whole, start / whole
        side = "right" if right <= _ROOM else "left" if left >= 1 - _ROOM else "inside"
        at, shift, align = {"right": (right, 3, "left"), "left": (left, -3, "right"), "inside": (left, 3, "left")}[side]
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0} if side == "inside" else None
        axes.annotate(
            text, (at * whole / factor, place), textcoords="offset points", xytext=(shift, 0), ha=align, va="center",
            fontsize=8, bbox=box,
        )  # fmt: skip
        labels.append(plain(bar, 28))
    axes.barh(len(rows), whole / factor, 0.72, color="white", edgecolor=BLACK, linewidth=0.9)
    axes.annotate(
        show(whole, "s", 3), (0, len(rows)), textcoords="offset points", xytext=(3, 0), va="center", fontsize=8
    )
    axes.set_yticks(range(len(rows) + 1), [*labels, "whole"])
    axes.set_ylim(len(rows) + 0.6, -0.6)
    axes.set_xlim(0, whole / factor * 1.02 or 1)
    axes.grid(axis="x")
