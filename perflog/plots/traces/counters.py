"""Plot of hardware counters over the time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perflog.plots.drawing.canvas import Canvas, axis_label, is_null, legend, plain, shown_note, unit_of
from perflog.plots.drawing.palette import LINES
from perflog.plots.registry import plot
from perflog.plots.traces.devices import bar_name

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_MAX_LINES = len(LINES)
_TITLE = 40  # characters of a counter


@plot(
    title="Hardware counters",
    caption="readings of hardware counters over the time, a panel for each counter with a line for each device",
    metric="counter_curve",
)
def counters(rows: pd.DataFrame, canvas: Canvas) -> Figure:
    """Draw the curve of each counter: the mean of each period, and the range of its readings as a band.

    Example:
        >>> perflog.plots.counters(perflog.read("run.txt"))
        Traceback (most recent call last):
        ...
        perflog.errors.UsageError: there is nothing to draw for `counters`: no rows in table `counters`
    """
    groups = dict(list(rows.groupby(["run", "counter", "subject"], sort=False, dropna=False)))
    keys = ["rank", "device", "device_name"]
    devices = {key: list(of.groupby(keys, sort=False, dropna=False)) for key, of in groups.items()}
    most = max(map(len, devices.values()))
    note = "Bands reach from the smallest to the largest reading of a period."
    notes = [note, shown_note(min(most, _MAX_LINES), most, "devices")]
    figure, panels = canvas.panels(list(groups), notes)
    several_runs = rows["run"].nunique() > 1
    time_unit, time_factor = unit_of(rows["at_s"], "s")
    handles: dict[str, object] = {}
    for panel, axes in panels:
        key: Any = panel  # run, counter and subject
        unit, factor = unit_of(groups[key]["max"], "" if is_null(first := groups[key]["unit"].iloc[0]) else first)
        for (_, device_rows), (colour, style, _) in zip(devices[key], LINES, strict=False):
            label = bar_name(device_rows.iloc[0].to_dict() | {"part": "trace"}).removesuffix(", trace") or "device"
            at = device_rows["at_s"] / time_factor
            axes.fill_between(at, device_rows["min"] / factor, device_rows["max"] / factor, color=colour, alpha=0.2)
            (line,) = axes.plot(at, device_rows["mean"] / factor, color=colour, linestyle=style, label=label)
            handles.setdefault(label, line)
        words = [word for word in key[1:] if not is_null(word)] + [canvas.run_name(key[0], 20)] * several_runs
        axes.set_title(plain(", ".join(words), _TITLE))
        axes.set_xlabel(axis_label("time", time_unit))
        axes.set_ylabel(axis_label("reading", unit))
        axes.grid(axis="y")
    if len(handles) > 1:
        legend(figure, handles.values())
    return figure
