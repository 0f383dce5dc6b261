"""Plots of launches: idle time of devices by cause, and how much launched work waits over the time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perflog.plots.drawing.canvas import MAX_PANELS, Canvas, axis_label, legend, shown_note, unit_of
from perflog.plots.drawing.palette import FILLS, LINES
from perflog.plots.drawing.stacked_bars import MAX_BARS, ShareBar, stacked_shares
from perflog.plots.registry import plot
from perflog.plots.traces.devices import bar_name
from perflog.units import show

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_MAX_LINES = 8
_CAUSES = {
    "host": (FILLS[0], "host-bound"),
    "sync": (FILLS[1], "after a synchronisation"),
    "data": (FILLS[2], "while data is loaded"),
    "launch": (FILLS[3], "while a launch arrives"),
    "waiting": (FILLS[4], "launched work waits"),
    "unknown": (("white", ""), "launch not known"),
}


@plot(
    title="Idle time by cause",
    caption="idle time of each device by cause, as a share of the trace and of each step",
    metric="launches",
    select=lambda rows: rows[rows["span_s"] > 0],
)
def launches(rows: pd.DataFrame, canvas: Canvas) -> Figure:
    """Draw why each device idles, a panel for each run with a bar for each device's trace and steps.

    Example:
        >>> figure = perflog.plots.launches(perflog.read("trace.json"))
        >>> figure.axes[0].get_xlabel()
        'share of the time (%)'
    """
    runs = list(dict.fromkeys(rows["run"]))
    causes = [f"{cause}_s" for cause in _CAUSES]
    shown = {
        run: rows[rows["run"] == run].head(MAX_BARS).fillna(dict.fromkeys(causes, 0.0)) for run in runs[:MAX_PANELS]
    }
    bars = {run: list(map(_bar, run_rows.to_dict("records"))) for run, run_rows in shown.items()}
    note = (
        "A gap in a device's work is divided at the launch of the work that ends it: host-bound before, queued after."
    )
    totals = len(runs), int(rows["run"].isin(bars).sum())
    figure, _, handles = stacked_shares(canvas, bars, _CAUSES, totals, note, is_whole=False)
    legend(figure, handles, title="idle")
    return figure


def _bar(row: dict[str, Any]) -> ShareBar:
    shares = {cause: row[f"{cause}_s"] / row["span_s"] for cause in _CAUSES}
    return ShareBar(bar_name(row), shares, f"{show(row['idle_s'], 's', 3)} of {show(row['span_s'], 's', 3)}")


@plot(
    title="Launch queue",
    caption="launched pieces of work that wait for each device, over the time of the trace",
    metric="launch_queue",
)
def launch_queue(rows: pd.DataFrame, canvas: Canvas) -> Figure:
    """Draw the mean number of pieces of work between launch and begin, a panel for each run, a line for each device.

    Where it is near zero, the device waits for the host.

    Example:
        >>> figure = perflog.plots.launch_queue(perflog.read("trace.json"))
        >>> figure.axes[0].get_ylabel()
        'launched and not begun'
    """
    runs = list(dict.fromkeys(rows["run"]))
    lines = {
        run: list(rows[rows["run"] == run].groupby(["rank", "device", "device_name"], sort=False, dropna=False))
        for run in runs
    }
    most = max(map(len, lines.values()))
    note = "Near zero the device takes work as soon as it is launched: the host is the bottleneck there."
    figure, panels = canvas.panels(runs, [note, shown_note(min(most, _MAX_LINES), most, "devices of a run")])
    unit, factor = unit_of(rows["at_s"], "s")
    handles: dict[str, object] = {}
    for run, axes in panels:
        for (_, device_rows), (colour, style, _) in zip(lines[run][:_MAX_LINES], LINES, strict=False):
            label = bar_name(device_rows.iloc[0].to_dict() | {"part": "trace"}).removesuffix(", trace") or "device"
            (line,) = axes.step(
                device_rows["at_s"] / factor,
                device_rows["queue"],
                where="post",
                color=colour,
                linestyle=style,
                label=label,
            )
            handles.setdefault(label, line)
        axes.set_ylim(bottom=0)
        axes.set_xlabel(axis_label("time", unit))
        axes.set_ylabel("launched and not begun")
        axes.set_title(canvas.run_name(run))
        axes.grid(axis="y")
    if len(handles) > 1:
        legend(figure, handles.values())
    return figure
