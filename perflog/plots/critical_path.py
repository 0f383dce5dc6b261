"""Plot of the critical path: what the time of each trace and step consists of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perflog.plots.canvas import FILLS, MAX_PANELS, Canvas, legend
from perflog.plots.devices import bar_name
from perflog.plots.registry import plot
from perflog.plots.stacked_bars import MAX_BARS, BarPart, draw_bars, panels_of_runs, scale_of_shares, write_after_bars
from perflog.units import show

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
        run_rows = rows[rows["run"] == run]
        number = run_rows.groupby(_WINDOW, sort=False, dropna=False).ngroup()
        windows += int(number.max()) + 1
        bars[run] = _bars(run_rows[number < MAX_BARS])
    sums = rows.groupby("kind", sort=False)["time_s"].sum().sort_values(ascending=False, kind="stable")
    most = rows.groupby("kind", sort=False)["share"].max()
    kinds = [kind for kind in sums.index if most[kind] >= _LEAST][: len(FILLS) - 1]
    note = "Each bar is the longest chain of dependencies, back from the last work; all other time costs nothing."
    figure, panels = panels_of_runs(canvas, bars, len(runs), windows, note)
    handles: list[Any] = []
    for run_rows, axes in zip(bars.values(), panels, strict=True):
        handles = _draw_bars(axes, run_rows, kinds, len(sums) > len(kinds))
    legend(figure, handles, title="on the path")
    return figure


def _bars(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """The windows of a run, each with the share of each kind."""
    bars = []
    for _, window_rows in rows.groupby(_WINDOW, sort=False, dropna=False):
        shares = dict(zip(window_rows["kind"], window_rows["share"].astype(float), strict=True))
        bars.append({**window_rows.iloc[0][[*_WINDOW, "span_s"]].to_dict(), "shares": shares})
    return bars


def _draw_bars(axes: Axes, bars: list[dict[str, Any]], kinds: list[str], has_others: bool) -> list[Any]:
    others = [sum(share for kind, share in bar["shares"].items() if kind not in kinds) for bar in bars]
    named = zip(kinds, FILLS, strict=False)
    series = [(kind, [bar["shares"].get(kind, 0.0) for bar in bars], fill) for kind, fill in named]
    series += [("all other kinds", others, ("white", ""))] * has_others
    parts = [BarPart(kind, kind, fill, [share * 100 for share in shares]) for kind, shares, fill in series]
    handles, _ = draw_bars(axes, [bar_name(bar) for bar in bars], parts)
    write_after_bars(axes, [show(bar["span_s"], "s", 3) for bar in bars], [100] * len(bars))
    scale_of_shares(axes)
    return list(handles.values())
