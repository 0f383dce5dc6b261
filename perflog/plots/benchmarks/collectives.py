"""Plot of collectives: bus bandwidth over message size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.arrays import Floats
from perflog.grouping import grouped
from perflog.metrics.benchmarks.collectives import ALL
from perflog.metrics.row_groups import row_groups, split
from perflog.plots.drawing.canvas import Canvas, axis_label, legend, plain, shown_note
from perflog.plots.drawing.palette import LINES
from perflog.plots.drawing.sketch import Axis
from perflog.plots.registry import plot
from perflog.tables.columns import Rows
from perflog.tables.nulls import none_if_null
from perflog.units import show

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FEWEST = 4  # measurements of a line
_NAMED = 8  # lines with names in the legend
_MAX_LINES = 60  # of a panel


@plot(
    title="Bus bandwidth",
    caption="bus bandwidth of collectives over the message size, a panel for each operation",
    metric="collectives",
    select=lambda rows: rows[
        (rows["buffer"] != ALL) & (rows["n"] >= _FEWEST) & (rows["smallest"] < rows["largest"])
        & rows["peak_busbw"].notna()
    ],
)  # fmt: skip
def collectives(rows: pd.DataFrame, canvas: Canvas) -> Figure:
    """Draw the bus bandwidth of each collective over the size of its messages, a panel for each operation.

    A line is one run, out of place or in place. A size that was measured several times has the median. The axis of
    sizes is logarithmic.

    Example:
        >>> perflog.plots.collectives.metric
        'collectives'
    """
    panels_of = grouped((_title(row), row) for row in rows.to_dict("records"))
    left_out = [shown_note(_MAX_LINES, len(lines), "lines of a panel") for lines in panels_of.values()]
    figure, panels = canvas.panels(list(panels_of), [max(left_out, default="")], panel_height=2.8)
    several = rows["run"].nunique() > 1
    handles: dict[str, object] = {}
    for title, axes in panels:
        for place, row in enumerate(panels_of[title][:_MAX_LINES]):
            label = _label(row, canvas, several)
            colour, style, marker = LINES[list(dict.fromkeys([*handles, label])).index(label) % len(LINES)]
            points = _points(canvas.tables.rows_of("collectives", row["run"]), row)
            (line,) = axes.plot(
                *points, color=colour, linestyle=style, marker=marker,
                markersize=3.5, label=label, alpha=1.0 if place < _NAMED else 0.5,
            )  # fmt: skip
            handles.setdefault(label, line)
        _label_axes(axes)
        axes.set_title(title)
    if 1 < len(handles) <= _NAMED:
        legend(figure, handles.values())
    return figure


def _points(measured: Rows, row: dict[str, object]) -> tuple[Floats, Floats]:
    """Message sizes (bytes) and median bus bandwidths (GB/s) of one collective of a run."""
    names = ("op", "dtype", "ranks", "buffer")
    wanted = {name: none_if_null(row[name]) for name in names}
    measured = next(alike for alike in split(measured, *names) if next(alike.dicts(*names)) == wanted)
    measured = measured.where(measured.known("bytes"))
    sizes = row_groups(measured, "bytes")
    return measured["bytes"][sizes.first].astype(np.float64), sizes.medians(measured["busbw_gbps"])


def _title(row: dict[str, object]) -> str:
    """What a panel is about, as far as the log says."""
    op, dtype, ranks = (none_if_null(row[name]) for name in ("op", "dtype", "ranks"))
    parts = (op and plain(op), f"{ranks:.0f} ranks" if ranks else None, dtype and plain(dtype))
    return ", ".join(part for part in parts if part) or "collective"


def _label(row: dict[str, Any], canvas: Canvas, several: bool) -> str:
    buffer = none_if_null(row["buffer"])
    parts = [canvas.run_name(row["run"])] * several + [plain(str(buffer).replace("_", " "))] * bool(buffer)
    return ", ".join(parts) or canvas.run_name(row["run"])


def _label_axes(axes: Axes) -> None:
    axes.set_xscale("log", base=2)
    axes.set_ylim(bottom=0)
    _write_sizes(axes.xaxis)
    axes.grid(axis="y")
    axes.set(xlabel="message size", ylabel=axis_label("bus bandwidth", "GB/s"))


def _write_sizes(axis: Any) -> None:
    """Write the numbers of an axis as bytes, at powers of two."""
    if isinstance(axis, Axis):
        axis.format = lambda size: show(size, "B", 3)
        return

    from matplotlib.ticker import FuncFormatter, LogLocator

    axis.set_major_locator(LogLocator(2, numticks=8))
    axis.set_major_formatter(FuncFormatter(lambda size, _: show(size, "B", 3)))
