"""Plot of the loads of servers: what they give, and how long requests take, over the load of the client."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perflog.arrays import Floats
from perflog.plots.drawing.canvas import Canvas, axis_label, is_null, legend, plain, shown_note, unit_of
from perflog.plots.drawing.palette import BLACK, LINES
from perflog.plots.registry import plot

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DECADE = 10.0
_LATENCIES = {"time to first token": "ttft", "time per output token": "tpot"}


@plot(
    title="Load of servers",
    caption="what servers give, and how long requests take, over the load of the client, a line for each server",
    metric="server_loads",
    select=lambda rows: rows,
)
def server_loads(rows: pd.DataFrame, canvas: Canvas) -> Figure:
    """Draw the rate of servers and the latencies of requests over the load, with medians over the runs of a load.

    Loads are logarithmic, and so are latencies that span more than a decade. The p99 of a latency is dashed. A vertical
    line marks the load from which on the server gives no more, if higher loads were measured.

    Example:
        >>> perflog.plots.server_loads.metric
        'server_loads'
    """
    latencies = {title: name for title, name in _LATENCIES.items() if rows[f"{name}_median_s"].notna().any()}
    rate = str(rows["rate_of"].iloc[0])
    servers = list(rows.groupby("server", sort=False, dropna=False))
    has_tail = any(rows[f"{name}_p99_s"].notna().any() for name in latencies.values())
    notes = ["Dashed: p99." if has_tail else "", shown_note(min(len(servers), len(LINES)), len(servers), "servers")]
    figure, panels = canvas.panels([rate, *latencies], notes, panel_height=2.6)
    handles: dict[str, object] = {}
    setting = str(rows["setting"].iloc[0])
    for title, axes in panels:
        name = latencies.get(title)
        unit, size = unit_of(rows[[f"{name}_median_s", f"{name}_p99_s"]], "s") if name else ("1/s", 1.0)
        for (server, server_rows), (color, _, marker) in zip(servers, LINES, strict=False):
            label = "all runs" if is_null(server) else plain(server, 44)
            columns = {f"{name}_median_s": "-", f"{name}_p99_s": "--"} if name else {"rate": "-"}
            for column, style in columns.items():
                values = server_rows.groupby("load")[column].median().dropna() / size
                if len(values):
                    x, y = values.index.to_numpy(np.float64), values.to_numpy(np.float64)
                    (line,) = axes.plot(x, y, style, marker=marker, color=color, label=label, gid=column)
                    handles.setdefault(label, line)
            _mark_knee(axes, server_rows, color if len(servers) > 1 else BLACK)
        axes.set_xscale("log", base=2)
        loads = np.unique(rows["load"].to_numpy(np.float64))
        axes.set_xticks(loads, [f"{load:,g}" for load in loads])
        if name and _spans_decade(rows[[f"{name}_median_s", f"{name}_p99_s"]].to_numpy(np.float64, na_value=np.nan)):
            axes.set_yscale("log")
        else:
            axes.set_ylim(0)
        axes.set_ylabel(axis_label("time" if name else "rate", unit))
        axes.set_xlabel(setting)
        axes.set_title(title)
        axes.grid(visible=True)
    if len(servers) > 1:
        legend(figure, handles.values())
    return figure


def _spans_decade(values: Floats) -> bool:
    return bool(np.nanmax(values) > _DECADE * np.nanmin(values))


def _mark_knee(axes: Axes, rows: pd.DataFrame, color: str) -> None:
    knee = rows["load"][rows["saturated"]].min()
    if knee < rows["load"].max():
        axes.axvline(float(knee), color=color, linewidth=0.8, linestyle=":", gid="knee")
