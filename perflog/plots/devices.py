"""What devices do all the time: computing, exposed communication and copies, idle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perflog.plots.canvas import BLACK, FILLS, MOST_PANELS, Canvas, capped, legend
from perflog.plots.registry import plot
from perflog.units import show

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_BARS = 40
_STATES = {
    "compute": (FILLS[0], "computing"),
    "communication": (FILLS[1], "exposed communication"),
    "memory": (FILLS[2], "exposed copies"),
    "idle": (("white", ""), "idle"),
}
_ALL = FILLS[6], "communication, hidden or not"


@plot(
    title="Device time",
    says="what each device does in the whole trace and in each step: computing, exposed communication, copies, idle",
    metric="device_time",
)
def device_time(found: pd.DataFrame, canvas: Canvas) -> Figure:
    """A panel for each run, a bar for each device's trace and step."""
    runs = list(dict.fromkeys(found["run"]))
    shown = {run: found[found["run"] == run].head(_MOST_BARS) for run in runs[:MOST_PANELS]}
    notes = [
        (
            "exposed: nothing that stands before it in the legend runs beside it. Thin bars: all communication; what "
            "of it lies on computing is hidden. Steps are times on the host: work that runs later counts later"
        ),
        capped(len(shown), len(runs), "runs"),
        capped(sum(map(len, shown.values())), int(found["run"].isin(shown).sum()), "bars"),
    ]
    heights = [len(rows) + 2.5 for rows in shown.values()]
    figure = canvas.figure(9.5, 1.3 + 0.27 * sum(heights), notes)
    panels = figure.subplots(len(shown), squeeze=False, height_ratios=heights).ravel()
    handles: list[Any] = []
    for (run, rows), axes in zip(shown.items(), panels, strict=True):
        handles = _bars(axes, rows.to_dict("records"))
        axes.set_title(canvas.name(run))
    legend(figure, handles)
    return figure


def _bars(axes: Axes, rows: list[dict[str, Any]]) -> list[Any]:
    places, left = range(len(rows)), [0.0] * len(rows)
    handles = []
    for name, ((color, hatch), label) in _STATES.items():
        wide = [row[f"{name}_share"] * 100 for row in rows]
        style: dict[str, Any] = {"color": color, "hatch": hatch, "edgecolor": BLACK, "linewidth": 0.6}
        handles.append(axes.barh(places, wide, 0.74, left=left, label=label, gid=name, **style))
        left = [a + b for a, b in zip(left, wide, strict=True)]
    (color, hatch), label = _ALL
    whole = [row["communicating_s"] / row["span_s"] * 100 if row["span_s"] else 0.0 for row in rows]
    start = [
        (row["compute_share"] + row["communication_share"]) * 100 - wide for row, wide in zip(rows, whole, strict=True)
    ]
    low = [place + 0.28 for place in places]
    style = {"color": color, "hatch": hatch, "edgecolor": BLACK, "linewidth": 0.4}
    handles.append(axes.barh(low, whole, 0.18, left=start, label=label, gid="all", **style))
    for place, row in zip(places, rows, strict=True):
        axes.annotate(
            show(row["span_s"], "s", 3), (100, place), (3, 0), textcoords="offset points", va="center", fontsize=7
        )
    axes.set_yticks(places, [_name(row) for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, 112)
    axes.set_xticks(range(0, 101, 20))
    axes.set_xlabel("share of the time (%)")
    axes.grid(axis="x")
    return handles


def _name(row: dict[str, Any]) -> str:
    import pandas as pd

    who = [f"{name} {row[name]}" for name in ("rank", "device") if not pd.isna(row[name])][:1]
    what = "trace" if row["part"] == "trace" else f"step {row['step']}"
    return ", ".join((*who, what))
