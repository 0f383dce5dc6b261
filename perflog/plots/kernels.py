"""Plots of profiler tables: shares of time by kernel and call, and the tree of ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perflog.metrics.kernel_names import short_kernels
from perflog.plots.canvas import (
    BLACK,
    FILLS,
    MAX_PANELS,
    RED,
    SKY,
    Canvas,
    axis_label,
    legend,
    plain,
    shown_note,
    unit_of,
)
from perflog.plots.registry import plot
from perflog.units import show

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

    The last bar of a panel stands for all names that have no bar of their own.

    Example:
        >>> figure = perflog.plots.kernels(perflog.find_runs("reference:nvprof.txt"))
        >>> figure.axes[0].get_xlabel()
        'share of sum of GPU activities, 11.19 s (%)'
    """
    groups = list(rows.groupby(["run", "section", "of"], sort=False, dropna=False))
    shown = groups[:MAX_PANELS]
    sizes = [min(len(of_group), _MAX_NAMES + 1) for _, of_group in shown]
    notes = [
        (
            "A share is of the sum of the profiler's table, not of the step time, and not of the time in which the GPU "
            "is busy. Arguments of kernels are left out of their names."
        ),
        shown_note(len(shown), len(groups), "tables"),
    ]
    figure = canvas.figure(9.5, 1.2 + sum(0.75 + 0.21 * size for size in sizes), notes)
    panels = figure.subplots(len(shown), squeeze=False, height_ratios=[size + 2 for size in sizes]).ravel()
    categories = [category for _, of_group in shown for category in of_group["category"].head(_MAX_NAMES)]
    fills = dict(zip(dict.fromkeys(categories), FILLS, strict=False))
    handles: dict[str, Any] = {}
    for ((run, _, of), of_group), axes in zip(shown, panels, strict=True):
        _draw_shares(axes, of_group.sort_values("time_s", ascending=False, kind="stable"), fills, handles)
        axes.set_title(f"{canvas.run_name(run)}: {plain(of).replace('gpu', 'GPU work').replace('api', 'API calls')}")
    legend(figure, handles.values(), title="category")
    return figure


def _draw_shares(axes: Axes, rows: pd.DataFrame, fills: dict[str, Any], handles: dict[str, Any]) -> None:
    """Draw a bar for each of the longest names, the longest on top, and a last one for all other names."""
    named, others = rows.head(_MAX_NAMES), rows.iloc[_MAX_NAMES:]
    columns = (named[column] for column in ("share", "category", "first_call_s"))
    shorts = short_kernels(named["name"])
    bars = list(zip((plain(shorts[name]) for name in named["name"]), *columns, strict=True))
    if len(others):
        bars.append((f"{len(others)} more names", others["share"].sum(), _NO_CATEGORY, float("nan")))
    whole = float(rows["denominator_s"].iloc[0])
    for place, (_, share, category, first_call) in enumerate(bars):
        color, hatch = fills.get(category, ("0.8", ""))
        bar = axes.barh(
            place, share * 100, color=color, hatch=hatch, edgecolor=BLACK, linewidth=0.6, label=plain(category)
        )
        if category in fills:
            handles.setdefault(category, bar)
        text = f"{share * 100:.3g} %" + (f", first call {show(first_call, 's')}" if first_call == first_call else "")
        axes.annotate(text, (share * 100, place), (3, 0), textcoords="offset points", va="center", fontsize=7.5)
    axes.set_yticks(range(len(bars)), [name for name, *_ in bars])
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.set_xlim(0, max(share for _, share, *_ in bars) * 128)
    axes.set_xlabel(f"share of {plain(rows['denominator'].iloc[0])}, {show(whole, 's')} (%)")
    axes.grid(axis="x")


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
    runs = list(dict.fromkeys(rows["run"]))
    trees = {run: _longest(rows[rows["run"] == run]) for run in runs[:MAX_PANELS]}
    notes = [
        (
            "Numbers: GPU time of all work that a range launched, whenever the work ran. Ranges nest and overlap, so "
            "their times do not add up. A range is listed below the smallest range that holds all of its work."
        ),
        shown_note(len(trees), len(runs), "runs"),
        shown_note(sum(map(len, trees.values())), int(rows["run"].isin(trees).sum()), "ranges, the longest,"),
    ]
    heights = [len(tree) + 3 for tree in trees.values()]
    figure = canvas.figure(9.5, 1.3 + 0.2 * sum(heights), notes)
    panels = figure.subplots(len(trees), squeeze=False, height_ratios=heights).ravel()
    handles: list[Any] = []
    for (run, tree), axes in zip(trees.items(), panels, strict=True):
        handles = _draw_tree(axes, tree)
        axes.set_title(canvas.run_name(run))
    legend(figure, handles)
    return figure


def _longest(tree: pd.DataFrame) -> pd.DataFrame:
    """Return the longest ranges in the order of the tree, with their parents: no range is longer than its parent."""
    chosen = tree["gpu_s"].sort_values(ascending=False, kind="stable").index[:_MAX_RANGES]
    return tree.loc[tree.index.isin(chosen)]


def _draw_tree(axes: Axes, tree: pd.DataFrame) -> list[Any]:
    unit, factor = unit_of(tree["gpu_s"], "s")
    places = range(len(tree))
    inclusive, exclusive, host = (tree[name] / factor for name in ("gpu_s", "exclusive_s", "host_s"))
    outer = axes.barh(places, inclusive, 0.78, color=SKY, edgecolor=BLACK, linewidth=0.5, label="GPU, inclusive")
    inner = axes.barh(
        places, exclusive, 0.4, color=RED, hatch="////", edgecolor=BLACK, linewidth=0.5,
        label="GPU, exclusive (upper bound)",
    )  # fmt: skip
    (diamonds,) = axes.plot(host, places, "D", mfc="white", mec=BLACK, markersize=4, linestyle="", label="host time")
    ends = tree[["gpu_s", "host_s"]].max(axis=1) / factor
    for place, end, time in zip(places, ends, tree["gpu_s"], strict=True):
        axes.annotate(show(time, "s", 3), (end, place), (7, 0), textcoords="offset points", va="center", fontsize=7)
    names = ["   " * depth + plain(name, 40) for depth, name in zip(tree["depth"], tree["range"], strict=True)]
    axes.set_yticks(places, names, fontsize=7.5)
    for text in axes.get_yticklabels():
        text.set_horizontalalignment("left")
    axes.tick_params(axis="y", pad=_label_width(names))
    axes.set_ylim(len(tree) - 0.4, -0.6)
    axes.set_xlim(0, max(float(ends.max()), 1e-12) * 1.12)
    axes.set_xlabel(axis_label("time", unit))
    axes.grid(axis="x")
    return [outer, inner, diamonds]


def _label_width(names: list[str]) -> float:
    """Return the points between an axis and its left-aligned labels: the width of the longest label."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    font = FontProperties(size=7.5)
    return max(float(TextPath((0, 0), name, prop=font).get_extents().x1) for name in names) + 6
