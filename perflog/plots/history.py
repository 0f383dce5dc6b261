"""Plot of histories: the figures of like runs over the time at which they started, with their levels."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.plots.canvas import BLUE, RED, Canvas, axis_label, is_null, legend, plain, unit_of
from perflog.plots.registry import plot

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_QUANTITIES = {"step_time_s": "step time", "tokens_per_s": "tokens", "samples_per_s": "samples", "elapsed_s": "elapsed"}
_LEAST_RANGE = 0.1  # of the largest value: figures that differ by less must not look different


@plot(
    title="History",
    caption="figures of like runs over the time at which they started, with the levels around which they scatter",
    metric="history",
)
def history(rows: pd.DataFrame, canvas: Canvas) -> Figure:
    """Draw each figure of a history over the time at which the runs started, a panel for each.

    A line shows each level, and its change against the level before. The axis of values covers at least a tenth of the
    largest one.

    Example:
        >>> perflog.plots.history.metric
        'history'
    """
    panels = {
        f"{plain(name, 60)}, {figure}": of_figure
        for (name, figure), of_figure in rows.groupby(["history", "figure"], sort=False)
    }
    figure, drawn = canvas.panels(list(panels), panel_height=2.8)
    handles: dict[str, Any] = {}
    for title, axes in drawn:
        _draw(axes, panels[title], handles)
        axes.set_title(panels[title]["history"].iloc[0])
        axes.tick_params(axis="x", rotation=30)
        axes.grid(axis="y")
    legend(figure, handles.values())
    return figure


def _draw(axes: Axes, rows: pd.DataFrame, handles: dict[str, Any]) -> None:
    unit, factor = unit_of(rows["value"], rows["unit"].iloc[0])
    at = np.array([datetime.fromisoformat(text) for text in rows["at"]])
    values = rows["value"].to_numpy(np.float64) / factor
    (handles["run"],) = axes.plot(at, values, "o", color=BLUE, markersize=4, gid="run", label="run")
    for _, of_level in rows.assign(at=at).groupby("level"):
        first = of_level.iloc[0]
        mean, ends = first["level_value"] / factor, [of_level["at"].iloc[0], of_level["at"].iloc[-1]]
        (handles["level"],) = axes.plot(ends, [mean, mean], "-", color=RED, gid="level", label="mean of a level")
        if not is_null(first["change"]):
            text = f"{100 * first['change']:+.1f} %"
            axes.annotate(text, (ends[0], mean), textcoords="offset points", xytext=(0, 6), fontsize=8)
    low, high = values.min(), values.max()
    margin = max(_LEAST_RANGE * high - (high - low), 0.1 * (high - low)) / 2
    axes.set_ylim(low - margin, high + 2 * margin)
    quantity = _QUANTITIES.get(rows["figure"].iloc[0], rows["figure"].iloc[0])
    axes.set_ylabel(axis_label(quantity, unit))
    axes.set_xlabel("start of the run")
