"""Bars that are divided into parts: for the trace and the steps of each device, or for each run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from perflog.plots.canvas import BLACK, Canvas, shown_note

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_BARS = 40
"""Bars of a panel; the first are shown."""


class BarPart(Struct, frozen=True):
    """A part of all bars of a panel: its fill (colour and hatch), and its width in each bar."""

    name: str
    label: str
    fill: tuple[str, str]
    widths: Sequence[float]


def draw_bars(axes: Axes, names: Sequence[str], parts: Sequence[BarPart]) -> tuple[dict[str, Any], list[float]]:
    """Draw a bar for each name from its parts, end to end. Return the handles by part, and where the bars end."""
    places, ends = range(len(names)), [0.0] * len(names)
    handles = {}
    for part in parts:
        color, hatch = part.fill
        style: dict[str, Any] = {"color": color, "hatch": hatch, "edgecolor": BLACK, "linewidth": 0.6}
        handles[part.name] = axes.barh(places, part.widths, 0.74, left=ends, label=part.label, gid=part.name, **style)
        ends = [end + width for end, width in zip(ends, part.widths, strict=True)]
    axes.set_yticks(places, names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(axis="x")
    return handles, ends


def write_after_bars(axes: Axes, texts: Sequence[str], ends: Sequence[float]) -> None:
    """Write a text after the end of each bar."""
    for place, (text, end) in enumerate(zip(texts, ends, strict=True)):
        axes.annotate(text, (end, place), (3, 0), textcoords="offset points", va="center", fontsize=7)


def scale_of_shares(axes: Axes) -> None:
    """Give a panel the scale of shares up to 100 %, with room for texts."""
    axes.set_xlim(0, 112)
    axes.set_xticks(range(0, 101, 20))
    axes.set_xlabel("share of the time (%)")


def panels_of_runs(
    canvas: Canvas, bars: Mapping[str, Sequence[Any]], runs: int, total: int, note: str
) -> tuple[Figure, list[Axes]]:
    """Return a figure with a panel for the bars of each run; notes say how many of the runs and bars are shown."""
    notes = [note, shown_note(len(bars), runs, "runs"), shown_note(sum(map(len, bars.values())), total, "bars")]
    heights = [len(run_bars) + 2.5 for run_bars in bars.values()]
    figure, panels = canvas.column_of_panels(9.5, 1.3 + 0.27 * sum(heights), heights, notes)
    for run, axes in zip(bars, panels, strict=True):
        axes.set_title(canvas.run_name(run))
    return figure, panels
