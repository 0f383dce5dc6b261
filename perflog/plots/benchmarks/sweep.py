"""Plot of a sweep: step time by the setting that varies between the runs of a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perflog.plots.drawing.canvas import MAX_PANELS, Canvas, axis_label, plain, shown_note, unit_of
from perflog.plots.drawing.palette import BLACK, BLUE, SKY
from perflog.plots.drawing.stacked_bars import name_bars, write_after_bars
from perflog.plots.registry import plot

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAX_BARS = 40


@plot(
    title="Sweep",
    caption="median step time by the setting that varies between runs, with intervals and speed-ups, a panel for each "
    "group of runs",
    metric="sweep",
    select=lambda rows: rows[rows["factor"].notna() & rows["median_s"].notna()],
)
def sweep(rows: pd.DataFrame, canvas: Canvas) -> Figure:
    """Draw the median step times of runs that differ in one setting, a panel for each group of such runs.

    The first run of a group is the base. The other runs have their speed-up over it: base median / median.

    Example:
        >>> figure = perflog.plots.sweep(perflog.find_runs("reference:training_sweep.txt"))
        >>> [panel.get_title(loc="left") for panel in figure.axes][0]
        'by system: model gpt2, experts 16'
    """
    groups = list(rows.groupby(["factor", "base_run", "group"], sort=False, dropna=False))
    shown = groups[:MAX_PANELS]
    sizes = [min(len(group_rows), _MAX_BARS) for _, group_rows in shown]
    notes = [
        (
            f"Bars: median of the steady steps. Black: its {canvas.options.level:.0%} interval. x: speed-up over the "
            "base (the first run of the group), as the ratio of the medians. `perflog compare` tests whether a "
            "difference is significant."
        ),
        shown_note(len(shown), len(groups), "groups"),
        shown_note(sum(sizes), sum(len(group_rows) for _, group_rows in shown), "runs of these groups"),
    ]
    height = 1.1 + sum(0.75 + 0.3 * size for size in sizes)
    figure, panels = canvas.column_of_panels(8.5, height, [size + 1 for size in sizes], notes)
    for ((factor, _, group), group_rows), axes in zip(shown, panels, strict=True):
        _draw_group(axes, group_rows.head(_MAX_BARS))
        axes.set_title(f"by {plain(factor, 30)}" + (f": {plain(group, 80)}" if isinstance(group, str) else ""))
    return figure


def _draw_group(axes: Axes, rows: pd.DataFrame) -> None:
    unit, factor = unit_of(rows["median_s"], "s")
    places = np.arange(len(rows))
    median, low, high = (
        rows[name].to_numpy(np.float64) / factor for name in ("median_s", "median_low_s", "median_high_s")
    )
    base = (rows["run"] == rows["base_run"]).to_numpy()
    axes.barh(
        places, median, 0.66, color=np.where(base, SKY, BLUE).tolist(), edgecolor=BLACK, linewidth=0.6, gid="medians"
    )
    known = np.isfinite(low)
    if known.any():
        arms = [(median - low)[known], (high - median)[known]]
        axes.errorbar(median[known], places[known], xerr=arms, fmt="none", ecolor=BLACK, capsize=3)
    texts = [
        f"{time:.4g} {unit}" + (", base" if is_base else f", {speedup:.3g}x")
        for time, is_base, speedup in zip(median, base, rows["speedup"], strict=True)
    ]
    write_after_bars(axes, texts, np.fmax(median, high).tolist(), 6, 8)
    name_bars(axes, [plain(value, 30) for value in rows["value"]])
    axes.set_xlim(0, np.nanmax([median, high]) * 1.25)
    axes.set_xlabel(axis_label("step time", unit))
