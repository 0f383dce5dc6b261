"""What a profiler's table says: shares by name, and the tree of ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perflog.plots.canvas import BLACK, FILLS, MOST_PANELS, RED, SKY, Canvas, axis, capped, legend, plain, unit_of
from perflog.plots.registry import plot
from perflog.units import show

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TOP = 12
_NAMED = 44  # characters of a name
_REST = "none of these"


@plot(
    title="Shares of time by name",
    says="profiler's table: share of time of the longest names and of the rest, coloured by what they do",
    metric="kernels",
    rows=lambda found: found[(found["by"] == "name") & found["share"].notna()],
)
def kernels(found: pd.DataFrame, canvas: Canvas) -> Figure:
    """A panel for each table of a run and kind: work of the GPU, API calls."""
    groups = list(found.groupby(["run", "section", "of"], sort=False, dropna=False))
    shown = groups[:MOST_PANELS]
    sizes = [min(len(rows), _TOP + 1) for _, rows in shown]
    notes = [
        (
            "shares of a profiler's table are shares of its sum, neither of the step nor of the time the GPU is "
            "busy; arguments in brackets are left out"
        ),
        capped(len(shown), len(groups), "tables"),
    ]
    figure = canvas.figure(9.5, 1.2 + sum(0.75 + 0.21 * size for size in sizes), notes)
    panels = figure.subplots(len(shown), squeeze=False, height_ratios=[size + 2 for size in sizes]).ravel()
    kinds = [kind for _, rows in shown for kind in rows["category"].head(_TOP)]
    fills = dict(zip(dict.fromkeys(kinds), FILLS, strict=False))
    handles: dict[str, Any] = {}
    for ((run, _, of), rows), axes in zip(shown, panels, strict=True):
        _shares(axes, rows.sort_values("time_s", ascending=False, kind="stable"), fills, handles)
        axes.set_title(f"{canvas.name(run)}: {plain(of).replace('gpu', 'GPU work').replace('api', 'API calls')}")
    legend(figure, handles.values(), title="what it does")
    return figure


def _shares(axes: Axes, rows: pd.DataFrame, fills: dict[str, Any], handles: dict[str, Any]) -> None:
    """Bars, the longest on top; what is not shown by name is the last bar."""
    top, rest = rows.head(_TOP), rows.iloc[_TOP:]
    bars = [(_short(n), s, k, f) for n, s, k, f in top[["name", "share", "category", "first_call_s"]].to_numpy()]
    if len(rest):
        bars.append((f"{len(rest)} more names", rest["share"].sum(), _REST, float("nan")))
    whole = float(rows["denominator_s"].iloc[0])
    for place, (_, share, kind, first) in enumerate(bars):
        color, hatch = fills.get(kind, ("0.8", ""))
        bar = axes.barh(place, share * 100, color=color, hatch=hatch, edgecolor=BLACK, linewidth=0.6, label=plain(kind))
        if kind in fills:
            handles.setdefault(kind, bar)
        said = f"{share * 100:.3g} %" + (f", first call {show(first, 's')}" if first == first else "")
        axes.annotate(said, (share * 100, place), (3, 0), textcoords="offset points", va="center", fontsize=7.5)
    axes.set_yticks(range(len(bars)), [name for name, *_ in bars])
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.set_xlim(0, max(share for _, share, *_ in bars) * 128)
    axes.set_xlabel(f"share of {plain(rows['denominator'].iloc[0])}, {show(whole, 's')} (%)")
    axes.grid(axis="x")


def _short(name: str) -> str:
    """A kernel's name without its arguments."""
    if name.endswith(")") and (start := _opening(name)) > 0:
        name = name[:start].removeprefix("void ")
    return plain(name, _NAMED)


def _opening(name: str) -> int:
    """Where the bracket opens that the last one closes."""
    depth = 0
    for at in range(len(name) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(name[at], 0)
        if depth == 0:
            return at
    return -1


_MOST_RANGES = 40


@plot(
    title="Ranges by what they hold",
    says="tree of the profiler's ranges: GPU time with nested ranges and without, host time",
    metric="ranges",
    rows=lambda found: found[found["gpu_s"].notna()],
)
def ranges(found: pd.DataFrame, canvas: Canvas) -> Figure:
    """A panel for each run; a range stands below the one that holds it, indented."""
    runs = list(dict.fromkeys(found["run"]))
    trees = {run: _largest(found[found["run"] == run]) for run in runs[:MOST_PANELS]}
    notes = [
        (
            "figures: GPU time of all that a range launched, whenever it ran; ranges nest and overlap, so their "
            "times do not add up. A range stands below the smallest range that holds all of its work"
        ),
        capped(len(trees), len(runs), "runs"),
        capped(sum(map(len, trees.values())), int(found["run"].isin(trees).sum()), "ranges, the longest,"),
    ]
    heights = [len(tree) + 3 for tree in trees.values()]
    figure = canvas.figure(9.5, 1.3 + 0.2 * sum(heights), notes)
    panels = figure.subplots(len(trees), squeeze=False, height_ratios=heights).ravel()
    handles: list[Any] = []
    for (run, tree), axes in zip(trees.items(), panels, strict=True):
        handles = _tree(axes, tree)
        axes.set_title(canvas.name(run))
    legend(figure, handles)
    return figure


def _largest(tree: pd.DataFrame) -> pd.DataFrame:
    """The longest ranges in the order of the tree: what holds a range is no shorter, so it is among them."""
    chosen = tree["gpu_s"].sort_values(ascending=False, kind="stable").index[:_MOST_RANGES]
    return tree.loc[tree.index.isin(chosen)]


def _tree(axes: Axes, tree: pd.DataFrame) -> list[Any]:
    unit, factor = unit_of(tree["gpu_s"], "s")
    places = range(len(tree))
    inclusive, exclusive, host = (tree[name] / factor for name in ("gpu_s", "exclusive_s", "host_s"))
    light = axes.barh(places, inclusive, 0.78, color=SKY, edgecolor=BLACK, linewidth=0.5, label="GPU, inclusive")
    dark = axes.barh(
        places, exclusive, 0.4, color=RED, hatch="////", edgecolor=BLACK, linewidth=0.5, label="GPU, exclusive, at most"
    )
    (mark,) = axes.plot(host, places, "D", mfc="white", mec=BLACK, markersize=4, linestyle="", label="host time")
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
    axes.set_xlabel(axis("time", unit))
    axes.grid(axis="x")
    return [light, dark, mark]


def _label_width(names: list[str]) -> float:
    """Points between an axis and left-aligned labels: the width of the longest."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    font = FontProperties(size=7.5)
    return max(float(TextPath((0, 0), name, prop=font).get_extents().x1) for name in names) + 6
