"""Plot of the critical path: what the time of each trace and step consists of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perflog.plots.canvas import BLACK, FILLS, MAX_PANELS, Canvas, legend, shown_note
from perflog.plots.devices import bar_name
from perflog.plots.registry import plot
from perflog.units import show

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAX_BARS = 40
_LEAST = 0.005  # of a bar: smaller parts cannot be seen
_WINDOW = ["rank", "device", "device_name", "part", "step"]


@plot(
    title="Critical path",
    caption="time on the critical path by kind, as a share of the trace and of each step",
    metric="critical_path",
    select=lambda rows: rows[rows["by"] == "kind"],
)
def critical_path(rows: pd.DataFrame, canvas: Canvas) -> Figure:
    """Draw what the critical path consists of, a panel for each run with a bar for each device's trace and steps.

    Example:
        >>> figure = perflog.plots.critical_path(perflog.read("trace.json"))
        >>> figure.axes[0].get_xlabel()
        'share of the time (%)'
    """
    runs = list(dict.fromkeys(rows["run"]))
    bars, windows = {}, 0
    for run in runs[:MAX_PANELS]:
        of_run = rows[rows["run"] == run]
        number = of_run.groupby(_WINDOW, sort=False, dropna=False).ngroup()
        windows += int(number.max()) + 1
        bars[run] = _bars(of_run[number < _MAX_BARS])
    sums = rows.groupby("kind", sort=False)["time_s"].sum().sort_values(ascending=False, kind="stable")
    most = rows.groupby("kind", sort=False)["share"].max()
    kinds = [kind for kind in sums.index if most[kind] >= _LEAST][: len(FILLS) - 1]
    notes = [
        "Each bar is the longest chain of dependencies, back from the last work; all other time costs nothing.",
        shown_note(len(bars), len(runs), "runs"),
        shown_note(sum(map(len, bars.values())), windows, "bars"),
    ]
    heights = [len(of_run) + 2.5 for of_run in bars.values()]
    figure = canvas.figure(9.5, 1.3 + 0.27 * sum(heights), notes)
    panels = figure.subplots(len(bars), squeeze=False, height_ratios=heights).ravel()
    handles: list[Any] = []
    for (run, of_run), axes in zip(bars.items(), panels, strict=True):
        handles = _draw_bars(axes, of_run, kinds, len(sums) > len(kinds))
        axes.set_title(canvas.run_name(run))
    legend(figure, handles, title="on the path")
    return figure


def _bars(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """The windows of a run, each with the share of each kind."""
    bars = []
    for _, of_window in rows.groupby(_WINDOW, sort=False, dropna=False):
        shares = dict(zip(of_window["kind"], of_window["share"].astype(float), strict=True))
        bars.append({**of_window.iloc[0][[*_WINDOW, "span_s"]].to_dict(), "shares": shares})
    return bars


def _draw_bars(axes: Axes, bars: list[dict[str, Any]], kinds: list[str], has_others: bool) -> list[Any]:
    places, left = range(len(bars)), [0.0] * len(bars)
    handles = []
    others = [sum(share for kind, share in bar["shares"].items() if kind not in kinds) for bar in bars]
    named = zip(kinds, FILLS, strict=False)
    series = [(kind, [bar["shares"].get(kind, 0.0) for bar in bars], fill) for kind, fill in named]
    series += [("all other kinds", others, ("white", ""))] * has_others
    for kind, shares, (color, hatch) in series:
        style: dict[str, Any] = {"color": color, "hatch": hatch, "edgecolor": BLACK, "linewidth": 0.6}
        widths = [share * 100 for share in shares]
        handles.append(axes.barh(places, widths, 0.74, left=left, label=kind, gid=kind, **style))
        left = [start + width for start, width in zip(left, widths, strict=True)]
    for place, bar in enumerate(bars):
        text = show(bar["span_s"], "s", 3)
        axes.annotate(text, (100, place), (3, 0), textcoords="offset points", va="center", fontsize=7)
    axes.set_yticks(places, [bar_name(bar) for bar in bars])
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.set_xlim(0, 112)
    axes.set_xticks(range(0, 101, 20))
    axes.set_xlabel("share of the time (%)")
    axes.grid(axis="x")
    return handles
