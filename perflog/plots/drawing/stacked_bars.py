"""Bars that are divided into parts: for the trace and the steps of each device, or for each run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from perflog.plots.drawing.canvas import Canvas, shown_note
from perflog.plots.drawing.palette import BLACK

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


class ShareBar(Struct, frozen=True):
    """A bar of a device's trace or step: its name, its parts as shares of the whole, the text after it."""

    name: str
    shares: Mapping[str, float]
    text: str


Parts = Mapping[str, tuple[tuple[str, str], str]]
"""Fill and label of each part of bars, by name."""


def name_bars(axes: Axes, names: Sequence[str]) -> None:
    """Write the names of horizontal bars, the first on top, and draw a grid of the values behind them."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(axis="x")


def draw_bars(axes: Axes, names: Sequence[str], parts: Sequence[BarPart]) -> tuple[dict[str, Any], list[float]]:
    """Draw a bar for each name from its parts, end to end. Return the handles by part, and where the bars end."""
    places, ends = range(len(names)), [0.0] * len(names)
    handles = {}
    for part in parts:
        color, hatch = part.fill
        style: dict[str, Any] = {"color": color, "hatch": hatch, "edgecolor": BLACK, "linewidth": 0.6}
        handles[part.name] = axes.barh(places, part.widths, 0.74, left=ends, label=part.label, gid=part.name, **style)
        ends = [end + width for end, width in zip(ends, part.widths, strict=True)]
    name_bars(axes, names)
    return handles, ends


def write_after_bars(
    axes: Axes, texts: Sequence[str], ends: Sequence[float], gap: float = 3, fontsize: float = 7
) -> None:
    """Write a text after the end of each bar."""
    for place, (text, end) in enumerate(zip(texts, ends, strict=True)):
        axes.annotate(text, (end, place), (gap, 0), textcoords="offset points", va="center", fontsize=fontsize)


def stacked_shares(
    canvas: Canvas,
    bars: Mapping[str, Sequence[ShareBar]],
    parts: Parts,
    totals: tuple[int, int],
    note: str,
    is_whole: bool = True,
) -> tuple[Figure, list[Axes], list[Any]]:
    """Return a figure with a panel for the bars of each run, its panels, and the handles of the parts.

    Args:
        canvas: Makes the figure.
        bars: The bars by run.
        parts: The parts of the bars.
        totals: How many runs and bars there are: notes say how many of them are shown.
        note: A note on the bars.
        is_whole: Whether the parts of a bar are 100 % together.
    """
    shown = len(bars), sum(map(len, bars.values()))
    notes = [note, *(shown_note(*each) for each in zip(shown, totals, ("runs", "bars"), strict=True))]
    heights = [len(run_bars) + 2.5 for run_bars in bars.values()]
    figure, panels = canvas.column_of_panels(9.5, 1.3 + 0.27 * sum(heights), heights, notes)
    handles: dict[str, object] = {}
    for (run, run_bars), axes in zip(bars.items(), panels, strict=True):
        drawn = [
            BarPart(name, label, fill, [100 * bar.shares.get(name, 0.0) for bar in run_bars])
            for name, (fill, label) in parts.items()
        ]
        handles, ends = draw_bars(axes, [bar.name for bar in run_bars], drawn)
        write_after_bars(axes, [bar.text for bar in run_bars], [100] * len(ends) if is_whole else ends)
        axes.set_xlim(0, 112 if is_whole else max(*ends, 1.0) * 1.3)
        if is_whole:
            axes.set_xticks(range(0, 101, 20))
        axes.set_xlabel("share of the time (%)")
        axes.set_title(canvas.run_name(run))
    return figure, panels, list(handles.values())
