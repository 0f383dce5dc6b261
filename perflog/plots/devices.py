"""Plot of device time: computing, exposed communication and copies, waiting, idle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perflog.plots.canvas import BLACK, FILLS, MAX_PANELS, Canvas, legend
from perflog.plots.registry import plot
from perflog.plots.stacked_bars import MAX_BARS, BarPart, draw_bars, panels_of_runs, scale_of_shares, write_after_bars
from perflog.units import show

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_STATES = {
    "compute": (FILLS[0], "computing"),
    "communication": (FILLS[1], "exposed communication"),
    "memory": (FILLS[2], "exposed copies"),
    "waiting": (FILLS[3], "waiting kernels"),
    "idle": (("white", ""), "idle"),
}
_ALL_COMMUNICATION = FILLS[6], "communication, hidden or not"


@plot(
    title="Device time",
    caption="share of computing, exposed communication, exposed copies, waiting and idle time on each device, in "
    "the whole trace and in each step",
    metric="device_time",
)
def device_time(rows: pd.DataFrame, canvas: Canvas) -> Figure:
    """Draw what each device does, a panel for each run with a bar for each device's trace and steps.

    Communication and copies are exposed where the device does nothing else at the same time. A thin bar shows all
    communication: where it lies over computing, it is hidden.
    """
    runs = list(dict.fromkeys(rows["run"]))
    bars = {run: rows[rows["run"] == run].head(MAX_BARS) for run in runs[:MAX_PANELS]}
    note = (
        "Exposed: nothing that comes before it in the legend runs at the same time. Thin bars: all communication; "
        "the part over computing is hidden. Waiting kernels only wait, for an event, the host or a rank. Steps are "
        "timed on the host: device work counts in the step during which it runs."
    )
    figure, panels = panels_of_runs(canvas, bars, len(runs), int(rows["run"].isin(bars).sum()), note)
    handles: list[Any] = []
    for run_bars, axes in zip(bars.values(), panels, strict=True):
        handles = _draw_bars(axes, run_bars.to_dict("records"))
    legend(figure, handles)
    return figure


def _draw_bars(axes: Axes, rows: list[dict[str, Any]]) -> list[Any]:
    parts = [
        BarPart(name, label, fill, [row[f"{name}_share"] * 100 for row in rows])
        for name, (fill, label) in _STATES.items()
    ]
    by_part, _ = draw_bars(axes, [bar_name(row) for row in rows], parts)
    (color, hatch), label = _ALL_COMMUNICATION
    widths = [row["communicating_s"] / row["span_s"] * 100 if row["span_s"] else 0.0 for row in rows]
    ends = [(row["compute_share"] + row["communication_share"]) * 100 for row in rows]
    starts = [end - width for end, width in zip(ends, widths, strict=True)]
    style: dict[str, Any] = {"color": color, "hatch": hatch, "edgecolor": BLACK, "linewidth": 0.4}
    thin_places = [place + 0.28 for place in range(len(rows))]
    thin = axes.barh(thin_places, widths, 0.18, left=starts, label=label, gid="all", **style)
    write_after_bars(axes, [show(row["span_s"], "s", 3) for row in rows], [100] * len(rows))
    scale_of_shares(axes)
    return [*by_part.values(), thin]


def bar_name(row: dict[str, Any]) -> str:
    """Return the device and the period of a row: `rank 3, step 7`."""
    import pandas as pd

    device = [f"{name} {row[name]}" for name in ("rank", "device") if not pd.isna(row[name])]
    device = [*device, *([] if pd.isna(row["device_name"]) else [str(row["device_name"])])][:1]
    period = "trace" if row["part"] == "trace" else f"step {row['step']}"
    return ", ".join((*device, period))
