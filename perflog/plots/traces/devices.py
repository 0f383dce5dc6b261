"""Plot of device time: computing, exposed communication and copies, waiting, idle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perflog.plots.drawing.canvas import MAX_PANELS, Canvas, legend
from perflog.plots.drawing.palette import BLACK, FILLS
from perflog.plots.drawing.stacked_bars import MAX_BARS, ShareBar, stacked_shares
from perflog.plots.registry import plot
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
    bars = {run: rows[rows["run"] == run].head(MAX_BARS).to_dict("records") for run in runs[:MAX_PANELS]}
    note = (
        "Exposed: nothing that comes before it in the legend runs at the same time. Thin bars: all communication; "
        "the part over computing is hidden. Waiting kernels only wait, for an event, the host or a rank. Steps are "
        "timed on the host: device work counts in the step during which it runs."
    )
    shown = {
        run: [
            ShareBar(bar_name(row), {name: row[f"{name}_share"] for name in _STATES}, show(row["span_s"], "s", 3))
            for row in run_bars
        ]
        for run, run_bars in bars.items()
    }
    figure, panels, handles = stacked_shares(
        canvas, shown, _STATES, (len(runs), int(rows["run"].isin(bars).sum())), note
    )
    thin = [_draw_communication(axes, run_bars) for axes, run_bars in zip(panels, bars.values(), strict=True)]
    legend(figure, [*handles, thin[-1]])
    return figure


def _draw_communication(axes: Axes, rows: list[dict[str, Any]]) -> Any:
    """Draw all communication as thin bars that end where its exposed part ends."""
    (color, hatch), label = _ALL_COMMUNICATION
    widths = [row["communicating_s"] / row["span_s"] * 100 if row["span_s"] else 0.0 for row in rows]
    ends = [(row["compute_share"] + row["communication_share"]) * 100 for row in rows]
    starts = [end - width for end, width in zip(ends, widths, strict=True)]
    style: dict[str, Any] = {"color": color, "hatch": hatch, "edgecolor": BLACK, "linewidth": 0.4}
    places = [place + 0.28 for place in range(len(rows))]
    return axes.barh(places, widths, 0.18, left=starts, label=label, gid="all", **style)


def bar_name(row: dict[str, Any]) -> str:
    """Return the device and the period of a row: `rank 3, step 7`."""
    import pandas as pd

    device = [f"{name} {row[name]}" for name in ("rank", "device") if not pd.isna(row[name])]
    device = [*device, *([] if pd.isna(row["device_name"]) else [str(row["device_name"])])][:1]
    period = "trace" if row["part"] == "trace" else f"step {row['step']}"
    return ", ".join((*device, period))
