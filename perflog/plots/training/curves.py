"""Plot of curves: losses, evaluation results and other series that runs print by name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec.structs import replace

from perflog.arrays import Floats, Ints
from perflog.metrics.series.curves import PrintedValues, printed_values
from perflog.metrics.series.time_to_target import SAMPLE_COUNTERS
from perflog.plots.drawing.canvas import Canvas, axis_label, integer_ticks, is_null, legend, plain, shown_note, unit_of
from perflog.plots.drawing.palette import LINES
from perflog.plots.drawing.sketch import set_lines, set_mark_name
from perflog.plots.registry import plot
from perflog.statistics.groups import groups_of, positions_in, values_at
from perflog.tables.columns import NULL

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_FEWEST = 3  # values of a curve
_SMOOTHED = 200  # values, from which on a curve has a running mean
_MEANS = 50  # the running mean covers this part of a curve
_DECADES = 2  # the values of a logarithmic axis span more
_FIRST = ("loss", "acc", "eval", "val", "test")  # parts of names that people look for, the most wanted first
_MAX_SERIES = 6
_MAX_LINES = 60  # of a panel
_MOST_CUTS = 50  # of a curve


@plot(
    title="Curves",
    caption="losses, evaluation results and other series that runs print by name, over their steps, a panel for each",
    metric="curves",
    select=lambda rows: rows[(rows["of"] == "curve") & (rows["n"] >= _FEWEST)],
)
def curves(rows: pd.DataFrame, canvas: Canvas) -> Figure:
    """Draw the series that runs print by name, a panel for each name with a line for each run.

    Of many runs, the runs of one folder have one colour. A line of many values is pale, and its running mean is drawn
    over it. An axis is logarithmic if its values span more than two decades. Values without steps stand over the
    samples that their lines print. Counters and series that never change are left out.

    Example:
        >>> figure = perflog.plots.curves(perflog.find_runs("reference:pipeline_layers.txt"))
        >>> figure.axes[0].get_title(loc="left")
        'loss'
    """
    names = rows.drop_duplicates(["key", "unit"]).to_dict("records")
    names.sort(key=lambda row: (_wanted(row["key"]), is_null(row["last_step"])))
    shown = names[:_MAX_SERIES]
    smoothed = f"Bold: mean of a {_MEANS}th of the values around."
    most = int(rows.groupby(["key", "unit"], dropna=False).size().max())
    notes = [
        smoothed if (rows["n"] >= _SMOOTHED).any() else "",
        shown_note(len(shown), len(names), "series"),
        shown_note(min(most, _MAX_LINES), most, "lines of a series"),
    ]
    columns = 1 if len(shown) == 1 else 2
    lines = -(-len(shown) // columns)
    figure = canvas.figure(9.6, 1.0 + 2.4 * lines * (1.4 if len(shown) == 1 else 1), notes)
    panels = figure.subplots(lines, columns, squeeze=False).ravel()
    for unused in panels[len(shown) :]:
        unused.remove()
    counts = printed_values(canvas.tables, SAMPLE_COUNTERS)
    groups = _groups(list(rows["run"].unique()), canvas)
    handles: dict[str, object] = {}
    for row, axes in zip(shown, panels, strict=False):
        unit = row["unit"] if isinstance(row["unit"], str) else ""
        places = rows.loc[(rows["key"] == row["key"]) & (rows["unit"].fillna("") == unit), ["run", "place"]]
        values = printed_values(canvas.tables, [row["key"]])
        values = values.where(values.unit == values.words.index(unit))
        drawn = set(places.fillna("").itertuples(index=False, name=None))
        over, at = _positions(values, counts)
        unit, size = unit_of(values.value, unit) if unit else ("", 1.0)
        values = replace(values, value=values.value / size) if size != 1 else values
        most_points = canvas.most_points(len(shown) * min(most, _MAX_LINES))
        for group, line in _draw_name(axes, values, at, drawn, groups, most_points, canvas).items():
            handles.setdefault(group, line)
        axes.set_xlabel(over)
        axes.set_title(plain(row["key"], 40))
        axes.set_ylabel(axis_label("value", unit) if unit else "value")
    if 1 < len(set(groups.values())) <= len(LINES):
        legend(figure, handles.values())
    return figure


def _positions(values: PrintedValues, counts: PrintedValues) -> tuple[str, Floats | None]:
    """Return over what values are drawn, and their positions: steps, else the samples that their lines print."""
    if (values.step != NULL).all():
        return "step", values.step.astype(np.float64)
    last = groups_of(counts.run, counts.line).last
    found = positions_in((values.run, values.line), (counts.run[last], counts.line[last]))
    samples = values_at(counts.value[last], found)
    return ("printed value", None) if np.isnan(samples).any() else ("samples", samples)


def _wanted(key: str) -> int:
    """The index of a name in the order of the panels."""
    return next((place for place, part in enumerate(_FIRST) if part in key.lower()), len(_FIRST))


def _groups(runs: Sequence[str], canvas: Canvas) -> dict[str, str]:
    """What has a colour: each run, of many runs each folder, or all together if there are many folders too."""
    if len(runs) <= len(LINES):
        return {run: canvas.run_name(run, 40) for run in runs}
    logs = dict(canvas.tables.rows("runs").records("run", "log"))
    folders = {run: plain(os.path.basename(os.path.dirname(logs[run])), 40) for run in runs}
    return folders if len(set(folders.values())) <= len(LINES) else dict.fromkeys(runs, "")


def _draw_name(
    axes: Axes,
    values: PrintedValues,
    at: Floats | None,
    drawn: set[tuple[str, str]],
    groups: Mapping[str, str],
    most: int,
    canvas: Canvas,
) -> dict[str, object]:
    """Draw the lines of one name, for the runs and places in `drawn`, and return one for each group.

    `at`: the position of each value; None: its number.
    """
    handles: dict[str, object] = {}
    styles = {group: LINES[i % len(LINES)] for i, group in enumerate(dict.fromkeys(groups.values()))}
    alpha = 1.0 if len(styles) == len(groups) else 0.4
    runs, series = canvas.tables.rows("runs")["run"], groups_of(values.run, values.place)
    firsts, rows = series.first[series.in_order].tolist(), series.rows
    keys = [(runs[values.run[first]], values.words[values.place[first]]) for first in firsts]
    parts = [(key, rows[group]) for key, group in zip(keys, series.in_order.tolist(), strict=True) if key in drawn]
    for (run, place), part in parts[:_MAX_LINES]:
        y = values.value[part]
        x = np.arange(1, len(y) + 1, dtype=np.float64) if at is None else at[part]
        printed_lines = values.line[part].astype(np.float64)
        if (order := _order(x)) is not None:
            x, y, printed_lines = x[order], y[order], printed_lines[order]
        color, style, _ = styles[groups[run]]
        look = _Look(color, style, alpha, groups[run], most, canvas)
        window = len(y) // _MEANS if len(y) >= _SMOOTHED else 0
        drawn_lines = [
            line for i in _stretches(x) for line in _draw_line(axes, x[i], y[i], printed_lines[i], window, look)
        ]
        for line in drawn_lines:
            set_mark_name(line, ", ".join(filter(None, (canvas.run_name(run, 40), plain(place)))))
        handles.setdefault(groups[run], drawn_lines[-1])
    low, high = np.percentile(np.concatenate([values.value[part] for _, part in parts]), [1, 99])
    if low > 0 and high > low * 10**_DECADES:
        axes.set_yscale("log")
    integer_ticks(axes.xaxis)
    axes.grid(axis="y")
    return handles


def _order(x: Floats) -> Ints | None:
    """Return the order of values that a log lists by something else, such as the worst first; None if there is none.

    Steps that a run repeats stay as they are printed.
    """
    order = np.argsort(x, kind="stable")
    steps = x[order]
    return order if bool((steps[1:] > steps[:-1]).all()) and bool((x[1:] < x[:-1]).any()) else None


def _stretches(x: Floats) -> list[slice]:
    """Return the parts of a curve between which its positions go back, as where a run does steps again."""
    cuts = np.flatnonzero(x[1:] < x[:-1]) + 1
    if len(cuts) > _MOST_CUTS:  # its positions have no order
        return [slice(0, len(x))]
    return [slice(*ends) for ends in pairwise([0, *cuts.tolist(), len(x)])]


class _Look(NamedTuple):
    """How a curve looks: colour, dashes, opacity, label, most points, and on what it is drawn."""

    color: str
    dashes: str
    alpha: float
    label: str
    most: int
    canvas: Canvas


def _draw_line(axes: Axes, x: Floats, y: Floats, lines: Floats, window: int, look: _Look) -> list[Line2D]:
    """Draw a curve, and its mean over `window` values. Return what is drawn; the last line represents it.

    `window`: 0 if the curve has too few values for a mean.
    """
    color, dashes, alpha, label, most, canvas = look
    keep, each = canvas.thinned(x, y, most)
    if not window:
        (line,) = axes.plot(x[keep], y[keep], dashes, color=color, alpha=alpha, label=label, gid="curve")
        set_lines(line, lines[keep], each)
        return [line]
    (pale,) = axes.plot(x[keep], y[keep], "-", color=color, alpha=0.3 * alpha, linewidth=0.8, label=label, gid="curve")
    set_lines(pale, lines[keep], each)
    window = min(window, len(y))
    stride = max((len(y) - window) // (2 * most), 1)  # it is smooth: of a long curve, some of its points are enough
    means = np.lib.stride_tricks.sliding_window_view(y, window)[::stride].mean(axis=1)
    mean_x = x[window // 2 : window // 2 + len(y) - window + 1 : stride]
    (line,) = axes.plot(mean_x, means, dashes, color=color, alpha=alpha, linewidth=1.8, label=label, gid="mean")
    return [pale, line]
