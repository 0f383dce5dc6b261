"""A metric against what varies between the runs of a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perflog.plots.canvas import BLACK, BLUE, MOST_PANELS, SKY, Canvas, axis, capped, plain, unit_of
from perflog.plots.registry import plot

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_BARS = 40


@plot(
    title="Sweep",
    says="median step time against what varies between runs, with intervals and speed-ups, a panel for each group",
    metric="sweep",
    rows=lambda found: found[found["factor"].notna() & found["median_s"].notna()],
)
def sweep(found: pd.DataFrame, canvas: Canvas) -> Figure:
    """A panel for each group of runs that differ in one thing."""
    groups = list(found.groupby(["factor", "base_run", "group"], sort=False, dropna=False))
    shown = groups[:MOST_PANELS]
    sizes = [min(len(rows), _MOST_BARS) for _, rows in shown]
    notes = [
        (
            f"bars: median of the steady steps; black: its {canvas.options.level:.0%} interval; x: speed-up over "
            "the base, the first run of the group (median / median); `perflog compare` says if it is sound"
        ),
        capped(len(shown), len(groups), "groups"),
        capped(sum(sizes), sum(len(rows) for _, rows in shown), "runs of these groups"),
    ]
    figure = canvas.figure(8.5, 1.1 + sum(0.75 + 0.3 * size for size in sizes), notes)
    panels = figure.subplots(len(shown), squeeze=False, height_ratios=[size + 1 for size in sizes]).ravel()
    for ((factor, _, group), rows), axes in zip(shown, panels, strict=True):
        _group(axes, rows.head(_MOST_BARS))
        axes.set_title(f"by {plain(factor, 30)}" + (f": {plain(group, 80)}" if isinstance(group, str) else ""))
    return figure


def _group(axes: Axes, rows: pd.DataFrame) -> None:
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
        spread = [(median - low)[known], (high - median)[known]]
        axes.errorbar(median[known], places[known], xerr=spread, fmt="none", ecolor=BLACK, capsize=3)
    for place, row in enumerate(rows.to_dict("records")):
        end = np.nanmax([median[place], high[place]])
        said = f"{median[place]:.4g} {unit}" + (", the base" if base[place] else f", {row['speedup']:.3g}x")
        axes.annotate(said, (end, place), (6, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set_yticks(places, [plain(value, 30) for value in rows["value"]])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, np.nanmax([median, high]) * 1.25)
    axes.set_xlabel(axis("step time", unit))
    axes.grid(axis="x")
