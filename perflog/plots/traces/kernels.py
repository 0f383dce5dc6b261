"""Plot of profiler tables: shares of time by kernel and call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perflog.metrics.profiles.kernel_names import short_kernels
from perflog.plots.drawing.canvas import MAX_PANELS, Canvas, legend, plain, shown_note
from perflog.plots.drawing.palette import BLACK, FILLS
from perflog.plots.drawing.stacked_bars import name_bars, write_after_bars
from perflog.plots.registry import plot
from perflog.units import count, show

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAX_NAMES = 12
_NO_CATEGORY = "none of these"


@plot(
    title="Share of time by kernel and call",
    caption="share of time of the longest kernels and API calls of a profiler's table, coloured by category, and of "
    "all others together",
    metric="kernels",
    select=lambda rows: rows[(rows["by"] == "name") & rows["share"].notna()],
)
def kernels(rows: pd.DataFrame, canvas: Canvas) -> Figure:
    """Draw the shares of a profiler's table, a panel for each run and kind of row: GPU work, API calls.

    The last bar of a panel sums all names that have no bar of their own.

    Example:
        >>> figure = perflog.plots.kernels(perflog.find_runs("reference:nvprof.txt"))
        >>> figure.axes[0].get_xlabel()
        'share of sum of GPU activities, 11.19 s (%)'
    """
    groups = list(rows.groupby(["run", "section", "of"], sort=False, dropna=False))
    shown = groups[:MAX_PANELS]
    sizes = [min(len(group_rows), _MAX_NAMES + 1) for _, group_rows in shown]
    notes = [
        (
            "A share is of the sum of the profiler's table, not of the step time, and not of the time in which the GPU "
            "is busy. Arguments of kernels are left out of their names."
        ),
        shown_note(len(shown), len(groups), "tables"),
    ]
    height = 1.2 + sum(0.75 + 0.21 * size for size in sizes)
    figure, panels = canvas.column_of_panels(9.5, height, [size + 2 for size in sizes], notes)
    categories = [category for _, group_rows in shown for category in group_rows["category"].head(_MAX_NAMES)]
    fills = dict(zip(dict.fromkeys(categories), FILLS, strict=False))
    handles: dict[str, object] = {}
    for ((run, _, of), group_rows), axes in zip(shown, panels, strict=True):
        _draw_shares(axes, group_rows.sort_values("time_s", ascending=False, kind="stable"), fills, handles)
        axes.set_title(f"{canvas.run_name(run)}: {plain(of).replace('gpu', 'GPU work').replace('api', 'API calls')}")
    legend(figure, handles.values(), title="category")
    return figure


def _draw_shares(axes: Axes, rows: pd.DataFrame, fills: dict[str, Any], handles: dict[str, object]) -> None:
    """Draw a bar for each of the longest names, the longest on top, and a last one for all other names."""
    named, others = rows.head(_MAX_NAMES), rows.iloc[_MAX_NAMES:]
    columns = (named[column] for column in ("share", "category", "first_call_s"))
    shorts = short_kernels(named["name"])
    bars = list(zip((plain(shorts[name]) for name in named["name"]), *columns, strict=True))
    if len(others):
        bars.append((count(len(others), "more name"), others["share"].sum(), _NO_CATEGORY, float("nan")))
    whole = float(rows["denominator_s"].iloc[0])
    for place, (_, share, category, _) in enumerate(bars):
        color, hatch = fills.get(category, ("0.8", ""))
        bar = axes.barh(
            place, share * 100, color=color, hatch=hatch, edgecolor=BLACK, linewidth=0.6, label=plain(category)
        )
        if category in fills:
            handles.setdefault(category, bar)
    texts = [
        f"{share * 100:.3g} %" + (f", first call {show(first_call, 's')}" if first_call == first_call else "")
        for _, share, _, first_call in bars
    ]
    write_after_bars(axes, texts, [share * 100 for _, share, *_ in bars], fontsize=7.5)
    name_bars(axes, [name for name, *_ in bars])
    axes.set_xlim(0, max(share for _, share, *_ in bars) * 128)
    axes.set_xlabel(f"share of {plain(rows['denominator'].iloc[0])}, {show(whole, 's')} (%)")
