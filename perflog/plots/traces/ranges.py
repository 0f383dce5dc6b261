"""Plots of ranges: the tree of a profiler's table, and of a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perflog.plots.drawing.canvas import MAX_PANELS, Canvas, axis_label, legend, plain, shown_note, unit_of
from perflog.plots.drawing.palette import BLACK, RED, SKY
from perflog.plots.drawing.sketch import Panel
from perflog.plots.drawing.stacked_bars import write_after_bars
from perflog.plots.registry import plot
from perflog.tables.nulls import none_if_null
from perflog.units import show

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAX_RANGES = 40


@plot(
    title="Nested ranges",
    caption="tree of the profiler's ranges: GPU time with and without nested ranges, and host time",
    metric="ranges",
    select=lambda rows: rows[rows["gpu_s"].notna()],
)
def ranges(rows: pd.DataFrame, canvas: Canvas) -> Figure:
    """Draw the ranges of a profile as a tree, a panel for each run.

    A range is listed below the range that holds it, indented. Bars are GPU time with nested ranges (inclusive) and
    without them (exclusive); a diamond marks the time on the host.

    Example:
        >>> figure = perflog.plots.ranges(perflog.find_runs("reference:nvprof.txt"))
        >>> figure.axes[0].get_xlabel()
        'time (s)'
    """
    note = (
        "Numbers: GPU time of all work that a range launched, whenever the work ran. Ranges nest and overlap, so "
        "their times do not add up. A range is listed below the smallest range that holds all of its work."
    )
    return _figure(rows, canvas, ["run"], note, "GPU, exclusive (upper bound)")


@plot(
    title="GPU time by range and module",
    caption="tree of the ranges and modules of a trace: GPU time of what was launched in them, with and without nested "
    "ranges, and host time",
    metric="device_ranges",
    select=lambda rows: rows[rows["gpu_s"].notna()],
)
def device_ranges(rows: pd.DataFrame, canvas: Canvas) -> Figure:
    """Draw the ranges and modules of traces as a tree, a panel for each run and rank.

    A range is listed below the range that it lies in, indented. Bars are GPU time with nested ranges (inclusive) and
    without them (exclusive); a diamond marks the time on the host.

    Example:
        >>> figure = perflog.plots.device_ranges(perflog.read("trace.json"))
        >>> figure.axes[0].get_xlabel()
        'time (us)'
    """
    note = (
        "Numbers: GPU time of all work that was launched in a range, whenever the work ran. Exclusive times add up to "
        "the time of all work."
    )
    return _figure(rows, canvas, ["run", "rank"], note, "GPU, exclusive")


def _figure(rows: pd.DataFrame, canvas: Canvas, by: list[str], note: str, exclusive: str) -> Figure:
    """A panel for the tree of each group of rows. `exclusive`: name of the bars without nested ranges."""
    groups = [(key, group) for key, group in rows.groupby(by, sort=False, dropna=False)]
    shown = [(key, _longest(group)) for key, group in groups[:MAX_PANELS]]
    drawn, all_of_them = sum(len(tree) for _, tree in shown), sum(len(group) for _, group in groups[:MAX_PANELS])
    notes = [
        note,
        shown_note(len(shown), len(groups), "runs" if by == ["run"] else "ranks"),
        shown_note(drawn, all_of_them, "ranges, the longest,"),
    ]
    heights = [len(tree) + 3 for _, tree in shown]
    figure, panels = canvas.column_of_panels(9.5, 1.3 + 0.2 * sum(heights), heights, notes)
    handles: list[Any] = []
    for ((run, *rank), tree), axes in zip(shown, panels, strict=True):
        handles = _draw_tree(axes, tree, exclusive)
        axes.set_title(
            ", ".join([canvas.run_name(run), *(f"rank {each}" for each in rank if none_if_null(each) is not None)])
        )
    legend(figure, handles)
    return figure


def _longest(tree: pd.DataFrame) -> pd.DataFrame:
    """Return the longest ranges in the order of the tree, with their parents: no range is longer than its parent."""
    chosen = tree["gpu_s"].sort_values(ascending=False, kind="stable").index[:_MAX_RANGES]
    return tree.loc[tree.index.isin(chosen)]


def _draw_tree(axes: Axes, tree: pd.DataFrame, exclusive_name: str) -> list[object]:
    unit, factor = unit_of(tree["gpu_s"], "s")
    places = range(len(tree))
    inclusive, exclusive, host = (tree[name] / factor for name in ("gpu_s", "exclusive_s", "host_s"))
    outer = axes.barh(places, inclusive, 0.78, color=SKY, edgecolor=BLACK, linewidth=0.5, label="GPU, inclusive")
    inner = axes.barh(
        places, exclusive, 0.4, color=RED, hatch="////", edgecolor=BLACK, linewidth=0.5,
        label=exclusive_name,
    )  # fmt: skip
    (diamonds,) = axes.plot(host, places, "D", mfc="white", mec=BLACK, markersize=4, linestyle="", label="host time")
    ends = tree[["gpu_s", "host_s"]].max(axis=1) / factor
    write_after_bars(axes, [show(time, "s", 3) for time in tree["gpu_s"]], ends.tolist(), 7)
    names = ["   " * depth + plain(name, 40) for depth, name in zip(tree["depth"], tree["range"], strict=True)]
    _name_rows(axes, names)
    axes.set_ylim(len(tree) - 0.4, -0.6)
    axes.set_xlim(0, max(float(ends.max()), 1e-12) * 1.12)
    axes.set_xlabel(axis_label("time", unit))
    axes.grid(axis="x")
    return [outer, inner, diamonds]


def _name_rows(axes: Any, names: list[str]) -> None:
    """Write names beside the rows, aligned on the left, so that their depth is seen."""
    axes.set_yticks(range(len(names)), names, fontsize=7.5)
    if not isinstance(axes, Panel):
        for text in axes.get_yticklabels():
            text.set_horizontalalignment("left")
        axes.tick_params(axis="y", pad=_label_width(names))


def _label_width(names: list[str]) -> float:
    """Return the points between an axis and its left-aligned labels: the width of the longest label."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    font = FontProperties(size=7.5)
    return max(float(TextPath((0, 0), name, prop=font).get_extents().x1) for name in names) + 6
