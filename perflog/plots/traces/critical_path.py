"""Plot of the critical path: what the time of each trace and step consists of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from perflog.plots.drawing.canvas import MAX_PANELS, Canvas, legend
from perflog.plots.drawing.palette import FILLS
from perflog.plots.drawing.stacked_bars import MAX_BARS, ShareBar, stacked_shares
from perflog.plots.registry import plot
from perflog.plots.traces.devices import bar_name
from perflog.units import show

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_LEAST = 0.005  # of a bar: smaller parts cannot be seen
_OTHERS = "all other kinds"
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
    windows = 0
    shown = {}
    for run in runs[:MAX_PANELS]:
        run_rows = rows[rows["run"] == run]
        number = run_rows.groupby(_WINDOW, sort=False, dropna=False).ngroup()
        windows += int(number.max()) + 1
        shown[run] = run_rows[number < MAX_BARS]
    sums = rows.groupby("kind", sort=False)["time_s"].sum().sort_values(ascending=False, kind="stable")
    most = rows.groupby("kind", sort=False)["share"].max()
    kinds = [kind for kind in sums.index if most[kind] >= _LEAST][: len(FILLS) - 1]
    note = "Each bar is the longest chain of dependencies, back from the last work; all other time costs nothing."
    parts = {kind: (fill, kind) for kind, fill in zip(kinds, FILLS, strict=False)}
    parts |= {_OTHERS: (("white", ""), _OTHERS)} if len(sums) > len(kinds) else {}
    bars = {run: list(_bars(run_rows, kinds)) for run, run_rows in shown.items()}
    figure, _, handles = stacked_shares(canvas, bars, parts, (len(runs), windows), note)
    legend(figure, handles, title="on the path")
    return figure


def _bars(rows: pd.DataFrame, kinds: list[str]) -> Iterator[ShareBar]:
    """Yield the windows of a run, each with the share of each kind, and of all kinds that have no part of their own."""
    for _, window_rows in rows.groupby(_WINDOW, sort=False, dropna=False):
        shares = dict(zip(window_rows["kind"], window_rows["share"].astype(float), strict=True))
        shares[_OTHERS] = sum(share for kind, share in shares.items() if kind not in kinds)
        window = window_rows.iloc[0]
        yield ShareBar(bar_name(window[_WINDOW].to_dict()), shares, show(window["span_s"], "s", 3))
