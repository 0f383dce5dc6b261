"""Plot of the roofline: rate of operators over their arithmetic intensity, with the roof of a known GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.metrics.traces.operators.operator_work import CLASSES
from perflog.plots.drawing.canvas import Canvas, axis_label, legend, plain, shown_note
from perflog.plots.drawing.palette import BLACK, BLUE, GREEN, ORANGE, PINK, RED, SKY
from perflog.plots.registry import plot

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKS = dict(zip(CLASSES, zip((BLUE, RED, GREEN, ORANGE, SKY, PINK), "os^vDP", strict=True), strict=True))
_ROOF_STYLES = ("-", "--", "-.", ":")
_LEAST, _MOST = 12.0, 220.0  # areas of points, in points squared
_NAMED = 3  # points with their name
_APART = 3.0  # factor between the rates of two points with names: these are wide
_MOST_POINTS = 400


@plot(
    title="Roofline",
    caption="rate of each operator of a trace over its arithmetic intensity, by class, with the roof of a known GPU",
    metric="operator_efficiency",
    select=lambda rows: rows[(rows["by"] == "shape") & (rows["intensity"] > 0) & (rows["tflops"] > 0)],
)
def roofline(rows: pd.DataFrame, canvas: Canvas) -> Figure:
    """Draw the operators of each run as points with an area that shows their time, a panel for each run.

    With `gpu`, lines are the roofs of the arithmetic in use: below the slope the memory bounds, below the flat part the
    arithmetic.

    Example:
        >>> figure = perflog.plots.roofline(perflog.read("shapes.json"), gpu="H100 SXM")
        >>> figure.axes[0].get_xlabel()
        'arithmetic intensity (FLOP/B)'
    """
    runs = list(dict.fromkeys(rows["run"]))
    impossible = rows["impossible"].eq(True)
    possible = {run: rows[(rows["run"] == run) & ~impossible] for run in runs}
    shown = {run: run_operators.nlargest(_MOST_POINTS, "time_s") for run, run_operators in possible.items()}
    most = max(runs, key=lambda run: len(possible[run]))
    notes = [
        "Bytes are the least: each input is read once, each output written once. The area of a point is its time.",
        shown_note(len(shown[most]), len(possible[most]), "operators of a run"),
        f"Left out: {impossible.sum()} above the peak: the trace has only part of their work." * bool(impossible.any()),
        "" if rows["peak_tbs"].notna().any() else "No roof: the GPU, or the bandwidth of its memory, is not given.",
    ]
    figure, panels = canvas.panels(runs, notes, panel_height=3.4)
    handles: dict[str, object] = {}
    for run, axes in panels:
        _draw_points(axes, shown[run], handles)
        _draw_roofs(axes, shown[run], handles)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel(axis_label("arithmetic intensity", "FLOP/B"))
        axes.set_ylabel(axis_label("rate", "TFLOP/s"))
        axes.set_title(canvas.run_name(run))
        axes.grid(which="major")
    legend(figure, handles.values())
    return figure


def _draw_points(axes: Axes, rows: pd.DataFrame, handles: dict[str, object]) -> None:
    longest = float(rows["time_s"].max())
    for kind, (colour, mark) in _MARKS.items():
        kind_rows = rows[rows["class"] == kind]
        if len(kind_rows):
            areas = np.maximum(_MOST * kind_rows["time_s"].to_numpy(float) / longest, _LEAST)
            style: dict[str, Any] = {"color": colour, "marker": mark, "alpha": 0.55, "label": kind}
            x, y = kind_rows["intensity"], kind_rows["tflops"]
            axes.scatter(x, y, areas, edgecolors=BLACK, linewidths=0.4, gid=kind, **style)
            (handle,) = axes.plot([], [], linestyle="", markeredgecolor=BLACK, markeredgewidth=0.4, **style)
            handles.setdefault(kind, handle)
    named: list[float] = []
    columns = ["operator", "inputs", "intensity", "tflops"]
    for name, inputs, x, y in rows.sort_values("time_s", ascending=False)[columns].to_numpy():
        if len(named) < _NAMED and all(max(y / other, other / y) > _APART for other in named):
            named.append(y)
            text = plain(f"{str(name).rpartition('::')[2]} {inputs}", 40)
            axes.annotate(text, (x, y), (0, 8), textcoords="offset points", ha="center", fontsize=6.5)


def _draw_roofs(axes: Axes, rows: pd.DataFrame, handles: dict[str, object]) -> None:
    """Draw min(peak, intensity x bandwidth) for each precision of products."""
    known = rows[rows["peak_tflops"].notna() & rows["peak_tbs"].notna()]
    roofs = known[["precision", "peak_tflops", "peak_tbs"]].drop_duplicates().sort_values("peak_tflops")
    if not len(roofs):
        return
    ridges = roofs["peak_tflops"] / roofs["peak_tbs"]
    x = np.concatenate([rows["intensity"], ridges]).astype(float)
    first, last = x.min() / 2, x.max() * 4
    for (name, peak, tbs), style in zip(roofs.to_numpy().tolist(), _ROOF_STYLES * len(roofs), strict=False):
        label = f"{name}: {peak:g} TFLOP/s, {tbs:g} TB/s"
        (line,) = axes.plot(
            [first, peak / tbs, last], [first * tbs, peak, peak], color=BLACK, linestyle=style, label=label, gid="roof"
        )
        handles.setdefault(label, line)
