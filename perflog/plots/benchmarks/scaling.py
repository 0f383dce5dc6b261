"""Plot of scaling: the speed-up over the number of GPUs, beside the ideal one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.plots.drawing.canvas import Canvas, is_null, legend, plain, shown_note
from perflog.plots.drawing.palette import BLACK, LINES
from perflog.plots.registry import plot

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@plot(
    title="Scaling",
    caption="speed-up over the number of GPUs, a panel for each mode and a line for each study, with what twice the "
    "GPUs would bring",
    metric="scaling",
    select=lambda rows: rows,
)
def scaling(rows: pd.DataFrame, canvas: Canvas) -> Figure:
    """Draw the speed-up over the smallest size of each study, with the ideal one and the prediction for twice the GPUs.

    Both axes are logarithmic: a line that bends from the ideal one loses efficiency. The bar of a prediction is its
    interval, where it has an upper end.

    Example:
        >>> perflog.plots.scaling.metric
        'scaling'
    """
    modes = {_title(mode): mode_rows for mode, mode_rows in rows.groupby("mode", sort=False, dropna=False)}
    most = max(mode_rows["study"].nunique(dropna=False) for mode_rows in modes.values())
    notes = [
        "Hollow: predicted from the measured sizes." if (rows["of"] == "predicted").any() else "",
        shown_note(min(most, len(LINES)), most, "studies of a mode"),
    ]
    figure, panels = canvas.panels(list(modes), notes, panel_height=3.2)
    handles: dict[str, object] = {}
    for title, axes in panels:
        _draw(axes, modes[title], handles)
        axes.set_title(title)
    legend(figure, handles.values())
    return figure


def _title(mode: object) -> str:
    return "scaling" if is_null(mode) else f"{mode} scaling"


def _draw(axes: Axes, rows: pd.DataFrame, handles: dict[str, object]) -> None:
    sizes = np.unique(rows["gpus"].to_numpy(np.float64))
    ideal = sizes / sizes[0]
    (handles["ideal"],) = axes.plot(sizes, ideal, color=BLACK, linewidth=0.8, linestyle=":", label="ideal", gid="ideal")
    for (study, study_rows), (color, style, marker) in zip(
        rows.groupby("study", sort=False, dropna=False), LINES, strict=False
    ):
        start = study_rows["gpus"].iloc[0] / sizes[0]  # a study that begins at more GPUs begins on the ideal line
        measured = study_rows[study_rows["of"] == "measured"]
        x, y = (measured[name].to_numpy(np.float64) for name in ("gpus", "speedup"))
        name = "runs" if is_null(study) or not study else plain(study, 44)
        (line,) = axes.plot(x, y * start, color=color, linestyle=style, marker=marker, label=name, gid="measured")
        handles.setdefault(name, line)
        for row in study_rows[study_rows["of"] == "predicted"].to_dict("records"):
            _draw_prediction(axes, row, start, color, marker)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xticks(sizes, [f"{size:,.0f}" for size in sizes])
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("GPUs")
    axes.set_ylabel("times as fast")
    axes.grid(visible=True)


def _draw_prediction(axes: Axes, row: dict[str, Any], start: float, color: str, marker: str) -> None:
    speedup = float(row["speedup"]) * start
    bars = None
    if not is_null(row["efficiency_high"]):
        low, high = (
            speedup * float(row[name]) / float(row["efficiency"]) for name in ("efficiency_low", "efficiency_high")
        )
        bars = [[speedup - low], [high - speedup]]
    axes.errorbar(
        [float(row["gpus"])], [speedup], yerr=bars, color=color, marker=marker, markerfacecolor="none", capsize=3,
        linestyle="none", gid="predicted",
    )  # fmt: skip
