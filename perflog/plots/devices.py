"""Plot of device time: computing, exposed communication and copies, waiting, idle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perflog.plots.canvas import BLACK, FILLS, MAX_PANELS, Canvas, legend, shown_note
from perflog.plots.registry import plot
from perflog.units import show

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAX_BARS = 40
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
    bars = {run: rows[rows["run"] == run].head(_MAX_BARS) for run in runs[:MAX_PANELS]}
    notes = [
        (
            "Exposed: nothing that comes before it in the legend runs at the same time. Thin bars: all communication; "
            "the part over computing is hidden. Waiting kernels only wait, for an event, the host or a rank. Steps are "
            "timed on the host: device work counts in the step during which it runs."
        ),
        shown_note(len(bars), len(runs), "runs"),
        shown_note(sum(map(len, bars.values())), int(rows["run"].isin(bars).sum()), "bars"),
    ]
    heights = [len(of_run) + 2.5 for of_run in bars.values()]
    figure = canvas.figure(9.5, 1.3 + 0.27 * sum(heights), notes)
    panels = figure.subplots(len(bars), squeeze=False, height_ratios=heights).ravel()
    handles: list[Any] = []
    for (run, of_run), axes in zip(bars.items(), panels, strict=True):
        handles = _draw_bars(axes, of_run.to_dict("records"))
        axes.set_title(canvas.run_name(run))
    legend(figure, handles)
    return figure


def _draw_bars(axes: Axes, rows: list[dict[str, Any]]) -> list[Any]:
    places, left = range(len(rows)), [0.0] * len(rows)
    handles = []
    for name, ((color, hatch), label) in _STATES.items():
        widths = [row[f"{name}_share"] * 100 for row in rows]
        style: dict[str, Any] = {"color": color, "hatch": hatch, "edgecolor": BLACK, "linewidth": 0.6}
        handles.append(axes.barh(places, widths, 0.74, left=left, label=label, gid=name, **style))
        left = [start + width for start, width in zip(left, widths, strict=True)]
    (color, hatch), label = _ALL_COMMUNICATION
    widths = [row["communicating_s"] / row["span_s"] * 100 if row["span_s"] else 0.0 for row in rows]
    ends = [(row["compute_share"] + row["communication_share"]) * 100 for row in rows]
    starts = [end - width for end, width in zip(ends, widths, strict=True)]
    style = {"color": color, "hatch": hatch, "edgecolor": BLACK, "linewidth": 0.4}
    thin_places = [place + 0.28 for place in places]
    handles.append(axes.barh(thin_places, widths, 0.18, left=starts, label=label, gid="all", **style))
    for place, row in zip(places, rows, strict=True):
        axes.annotate(
            show(row["span_s"], "s", 3), (100, place), (3, 0), textcoords="offset points", va="center", fontsize=7
        )
    axes.set_yticks(places, [bar_name(row) for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, 112)
    axes.set_xticks(range(0, 101, 20))
    axes.set_xlabel("share of the time (%)")
    axes.grid(axis="x")
    return handles


def bar_name(row: dict[str, Any]) -> str:
    """Return the device and the period of a row: `rank 3, step 7`."""
    import pandas as pd

    device = [f"{name} {row[name]}" for name in ("rank", "device") if not pd.isna(row[name])]
    device = [*device, *([] if pd.isna(row["device_name"]) else [str(row["device_name"])])][:1]
    period = "trace" if row["part"] == "trace" else f"step {row['step']}"
    return ", ".join((*device, period))
