"""Plot of histories: the figures of a program over its versions, with their levels."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.plots.drawing.canvas import Canvas, axis_label, legend, plain, unit_of
from perflog.plots.drawing.palette import BLACK, BLUE, GREEN, ORANGE, RED
from perflog.plots.registry import plot
from perflog.tables.nulls import none_if_null
from perflog.units import show_change

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_QUANTITIES = {"step_time_s": "step time", "tokens_per_s": "tokens", "samples_per_s": "samples", "elapsed_s": "elapsed"}
_LEAST_RANGE = 0.1  # of the largest value: figures that differ by less must not look different
_MOST_TICKS = 8  # of versions that have no date
_LONGEST_TICK = 12  # characters
_MARKS = {"outlier": ("x", ORANGE, "outlier"), "not confirmed": ("D", GREEN, "last version, not confirmed")}


@plot(
    title="History",
    caption="metrics over the versions of a program, with the levels around which they scatter",
    metric="history",
)
def history(rows: pd.DataFrame, canvas: Canvas) -> Figure:
    """Draw each metric over the dates of its versions, a panel for each; metrics that change come first.

    A line shows each level, and its change against the level before. Dotted is a change that came with one of the
    machine. The axis of values covers at least a tenth of the largest one. Versions that have no date are at equal
    distances.

    Example:
        >>> perflog.plots.history.metric
        'history'
    """
    panels = {
        f"{plain(name, 60)}, {figure}": figure_rows
        for (name, figure), figure_rows in rows.groupby(["history", "figure"], sort=False)
    }
    names = sorted(
        panels, key=lambda name: not (panels[name]["change"].notna() | panels[name]["stands_out"].notna()).any()
    )
    figure, drawn = canvas.panels(names, panel_height=2.8)
    handles: dict[str, object] = {}
    for title, axes in drawn:
        _draw(axes, panels[title], handles)
        axes.set_title(plain(panels[title]["history"].iloc[0], 60))
        axes.tick_params(axis="x", rotation=30)
        axes.grid(axis="y")
    legend(figure, handles.values())
    return figure


def _draw(axes: Axes, rows: pd.DataFrame, handles: dict[str, object]) -> None:
    unit, factor = unit_of(rows["value"], rows["unit"].iloc[0])
    at = _places(axes, rows)
    values = rows["value"].to_numpy(np.float64) / factor
    (handles["version"],) = axes.plot(at, values, "o", color=BLUE, markersize=4, gid="version", label="version")
    for kind, (marker, color, label) in _MARKS.items():
        if (chosen := (rows["stands_out"] == kind).to_numpy()).any():
            (handles[kind],) = axes.plot(
                at[chosen], values[chosen], marker, color=color, markersize=8, gid=kind, label=label, fillstyle="none"
            )
    for _, level_rows in rows.assign(at=at).groupby("level"):
        first = level_rows.iloc[0]
        ends = level_rows.iloc[[0, -1]]
        (handles["level"],) = axes.plot(
            ends["at"], ends["level_value"] / factor, "-", color=RED, gid="level", label="mean of a level"
        )
        changed = level_rows[level_rows["change"].notna()]
        if len(changed):
            change = changed.iloc[0]
            text = show_change(change["change"])
            if "machine" in (none_if_null(change["cause"]) or ""):
                text += " (machine)"
                handles["machine"] = axes.axvline(
                    change["at"], color=BLACK, linestyle=":", gid="machine", label="the machine changed"
                )
            axes.annotate(
                text,
                (change["at"], first["level_value"] / factor),
                textcoords="offset points",
                xytext=(0, 6),
                fontsize=8,
            )
    low, high = values.min(), values.max()
    margin = max(_LEAST_RANGE * high - (high - low), 0.1 * (high - low)) / 2
    axes.set_ylim(low - margin, high + 2 * margin)
    name = rows["figure"].iloc[0]
    axes.set_ylabel(plain(axis_label(_QUANTITIES.get(name, name), unit), 40))


def _places(axes: Axes, rows: pd.DataFrame) -> Any:
    """The dates of the versions on the axis; their numbers, with their names as ticks, if they have none."""
    dates = [_date(none_if_null(text)) for text in rows["at"]]
    if all(date is not None for date in dates) and len(set(dates)) > 1:
        axes.set_xlabel("date of the version")
        return np.array(dates)
    ticks = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), _MOST_TICKS)).round().astype(int))
    axes.set_xticks(ticks, [plain(rows["version"].iloc[k], _LONGEST_TICK) for k in ticks])
    axes.set_xlabel("version")
    return np.arange(len(rows))


def _date(text: str | None) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
