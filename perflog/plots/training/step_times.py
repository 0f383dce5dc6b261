"""Plots of step times: over the steps, and as distributions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.arrays import Floats, Ints, Mask
from perflog.metrics.jobs.step_levels import run_levels
from perflog.metrics.step_series import StepSeries, step_series
from perflog.plots.drawing.canvas import (
    MAX_PANELS,
    Canvas,
    axis_label,
    integer_ticks,
    legend,
    mark_beyond,
    shade_warmup,
    shown_note,
    unit_of,
)
from perflog.plots.drawing.palette import BLACK, BLUE, RED, SKY
from perflog.plots.drawing.sketch import set_lines
from perflog.plots.drawing.stacked_bars import name_bars
from perflog.plots.registry import plot
from perflog.statistics.levels import Level
from perflog.statistics.samples import OUTLIER, modified_z_scores
from perflog.tables.columns import Rows
from perflog.units import count, show

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAX_MARKED_STEPS = 150  # up to this many steps, each has a dot
_FEWEST_STEPS = 5  # of a distribution: fewer have no quartiles and whiskers of their own
_MAX_RUNS = 24
_MAX_DOTS = 4000  # of a run; of more steps, only those beyond the whiskers are drawn


def _steady_step_times(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[(rows["of"] == "step_time") & (rows["part"] == "steady") & rows["median_s"].notna()]


def _distributed_step_times(rows: pd.DataFrame) -> pd.DataFrame:
    rows = _steady_step_times(rows)
    return rows[rows["n"] >= _FEWEST_STEPS]


@plot(
    title="Step times",
    caption="step times over the steps, with warm-up, outliers, the steady median and its interval, and the steps that "
    "printed averages cover",
    metric="steps",
    select=_steady_step_times,
)
def steps(rows: pd.DataFrame, canvas: Canvas) -> Figure:
    """Draw the step times over the steps, a panel for each run.

    Warm-up steps are shaded, outliers are circled, and a line marks the median of the steady steps with its confidence
    interval. A bar at the bottom marks the steps that a printed average covers.

    Example:
        >>> figure = perflog.plots.steps(perflog.read("run.txt"), warmup=1)
        >>> figure.get_suptitle()
        'Step times · run.txt'
    """
    medians = {row["run"]: row for row in rows.to_dict("records")}
    series_of = {series.run: series for series in step_series(canvas.tables, warmup=canvas.options.warmup)}
    levels = {
        run: each
        for run, each in run_levels(canvas.tables, canvas.options.warmup).items()
        if each.series.column == "step_time_s"
    }
    scores = f"Outlier: modified z-score of a steady step beyond {OUTLIER}, in its level."
    note = f"{scores} Interval: {canvas.options.level:.0%} confidence."
    long = max((len(series.values) for series in series_of.values()), default=0) > 2 * canvas.most_points(
        min(len(medians), MAX_PANELS)
    )
    figure, panels = canvas.panels(list(medians), [note, _IN_DETAIL if long and canvas.sketched else ""])
    handles: dict[str, object] = {}
    for run, axes in panels:
        speed = levels.get(run)
        levels_of_run = speed.levels if speed is not None else ()
        most = canvas.most_points(len(panels))
        thin = partial(canvas.thinned, most=most)
        row = medians[run] | ({"warmup": min(medians[run]["warmup"], levels_of_run[0].start)} if levels_of_run else {})
        _draw_steps(axes, series_of[run], levels_of_run, row, thin, handles)
        _draw_windows(axes, canvas.tables.rows_of("summaries", run), handles)
        subtitle = _subtitle(row, speed.medians if speed is not None else [], wide=len(medians) == 1)
        axes.set_title(f"{canvas.run_name(run)}\n{subtitle}")
    legend(figure, handles.values())
    return figure


_IN_DETAIL = (
    "Of many steps, a page holds the smallest and the largest of each group, also when it is zoomed; a page of "
    "perflog serve fetches every step."
)


def _subtitle(row: dict[str, Any], levels: Sequence[float], wide: bool) -> str:
    low, high = row["median_low_s"], row["median_high_s"]
    _, factor = unit_of(row["median_s"], "s")
    interval = "" if np.isnan(low) else f" ({low / factor:.4g}–{high / factor:.4g})"
    reasons = row["left_out"].split("; ") if row["left_out"] else []
    short = reasons[0] if wide and len(reasons) == 1 else count(len(reasons), "step")
    left_out = f"; left out: {short}" if reasons else ""
    means = f"; each line is the mean of {row['steps_averaged']} steps" if row["steps_averaged"] > 1 else ""
    medians = " -> ".join(show(level, "s") for level in levels) or f"{show(row['median_s'], 's')}{interval}"
    return f"median {medians}, warm-up {row['warmup']}{left_out}{means}"


def _outliers(values: Floats, levels: Sequence[tuple[int, int]]) -> Mask:
    """Flag the values that are outliers of their own level."""
    flags: Mask = np.zeros(len(values), np.bool_)
    for begin, end in levels:
        level_values = values[begin:end]
        flags[begin:end] = np.abs(modified_z_scores(level_values, level_values)) > OUTLIER
    return flags


def _draw_steps(
    axes: Axes,
    series: StepSeries,
    levels: Sequence[Level],
    row: dict[str, Any],
    thin: Callable[[Floats, Floats], tuple[Ints, int]],
    handles: dict[str, object],
) -> None:
    unit, factor = unit_of(row["median_s"], "s")
    x, y, cut = series.order.astype(np.float64), series.values / factor, int(row["warmup"])
    shade_warmup(axes, x, cut, handles)
    outlier = _outliers(y, [(level.start, level.stop) for level in levels] or [(cut, len(y))])
    outlier[:cut] = False
    dot = "." if len(x) <= _MAX_MARKED_STEPS else ""
    keep, k = thin(x, y)
    label = "step" if k == 1 else f"step (minimum and maximum of each {k})"
    (line,) = axes.plot(x[keep], y[keep], color=BLUE, marker=dot, markersize=4, label=label)
    set_lines(line, series.lines[keep], k)
    size = 6 if outlier.sum() <= _MAX_MARKED_STEPS else 1.5
    (circles,) = axes.plot(
        x[outlier], y[outlier], "o", mfc="none", mec=RED, markersize=size, label="outlier", gid="outliers"
    )
    style: dict[str, Any] = {"color": BLACK, "linestyle": "--", "label": "median of steady steps"}
    for level in levels:
        part = slice(level.start, level.stop)
        (median,) = axes.plot(x[[level.start, level.stop - 1]], [np.median(y[part])] * 2, gid="level", **style)
    if not levels:
        median = axes.axhline(row["median_s"] / factor, **style)
    if not levels and not np.isnan(row["median_low_s"]):
        low, high = row["median_low_s"] / factor, row["median_high_s"] / factor
        handles.setdefault("interval", axes.axhspan(low, high, color=SKY, alpha=0.6, label="interval of the median"))
    _set_limits(axes, x, y, y[cut:], handles)
    handles |= {"step": handles.get("step", line), "median": handles.get("median", median)}
    if outlier.any():
        handles.setdefault("outlier", circles)
    integer_ticks(axes.xaxis)
    axes.grid(axis="y")
    axes.set(xlabel="step", ylabel=axis_label("step time", unit))


def _set_limits(axes: Axes, x: Floats, y: Floats, steady: Floats, handles: dict[str, object]) -> None:
    """Fit the y-axis to the bulk of the steady steps; steps above it become triangles at its upper edge."""
    smallest, bulk = float(y.min()), float(np.percentile(steady, 99))
    top = _axis_end(float(y.max()), bulk, span := max(bulk - smallest, 0.02 * bulk))
    mark_beyond(axes, x, y, top, handles)
    axes.set_ylim(smallest - 0.25 * span, top)
    axes.set_xlim(x[0] - 0.5 - 0.01 * len(x), x[-1] + 0.5 + 0.01 * len(x))


def _axis_end(largest: float, bulk: float, span: float) -> float:
    """Return the end of an axis: the largest value, unless the bulk would then fill less than a third of the axis."""
    end = largest + 0.15 * span
    return bulk + 1.5 * span if end > bulk + 2.5 * span else end


def _draw_windows(axes: Axes, summaries: Rows, handles: dict[str, object]) -> None:
    """Draw a bar at the bottom along the steps that a printed average covers."""
    windows = summaries.where(summaries.one_of("key", ["step_time"]) & summaries.known("window_first"))
    for first, last in windows.records("window_first", "window_last"):
        (bar,) = axes.plot(
            [first - 0.5, last + 0.5], [0.04, 0.04], color=BLACK, linewidth=3, solid_capstyle="butt", gid="window",
            transform=axes.get_xaxis_transform(), label="steps of the printed average",
        )  # fmt: skip
        handles.setdefault("window", bar)


@plot(
    title="Distribution of step times",
    caption="steady step times of each run: every step, quartiles, and the median with its interval",
    metric="steps",
    select=_distributed_step_times,
)
def distribution(rows: pd.DataFrame, canvas: Canvas) -> Figure:
    """Draw the distribution of the steady step times, a row for each run.

    A row has a box with the quartiles, a dot for each step, and the median with its confidence interval.

    Example:
        >>> figure = perflog.plots.distribution(perflog.find_runs("reference:moe_layer.txt"))
        >>> figure.axes[0].get_xlabel()
        'step time (ms)'
    """
    runs = rows.to_dict("records")[:_MAX_RUNS]
    all_series = {series.run: series for series in step_series(canvas.tables, warmup=canvas.options.warmup)}
    notes = [
        (
            "Box: quartiles. Whiskers: to the last step within 1.5 interquartile ranges of the box. Dots: steps. "
            f"Diamond: median. Bar: its {canvas.options.level:.0%} interval. Warm-up steps are left out."
        ),
        shown_note(len(runs), len(rows), "runs"),
    ]
    figure = canvas.figure(9, 1.9 + 0.55 * len(runs), notes)
    axes = figure.subplots()
    unit, factor = unit_of([row["median_s"] for row in runs], "s")
    samples = [all_series[row["run"]].steady / factor for row in runs]
    for place, row in enumerate(runs):
        series = all_series[row["run"]]
        dots = min(_MAX_DOTS, 2 * canvas.most_points(len(runs)))
        _draw_distribution(axes, place, samples[place], series.lines[series.warmup.cut :], row, factor, dots)
    smallest = min(float(values.min()) for values in samples)
    bulk = max(float(np.percentile(values, 99)) for values in samples)
    end = _axis_end(max(float(values.max()) for values in samples), bulk, span := max(bulk - smallest, 0.02 * bulk))
    _mark_right_of(axes, samples, end)
    axes.set_xlim(smallest - 0.05 * span, end)
    name_bars(axes, [f"{canvas.run_name(row['run'], 36)}\nn = {row['n']}" for row in runs])
    axes.set_xlabel(axis_label("step time", unit))
    return figure


def _mark_right_of(axes: Axes, samples: list[Floats], end: float) -> None:
    """Mark steps right of the axis with a triangle at its edge, their number and the largest."""
    for place, values in enumerate(samples):
        beyond = values[values > end]
        if len(beyond):
            edge = axes.get_yaxis_transform()
            axes.plot(1, place + 0.33, ">", color=RED, markersize=6, transform=edge, clip_on=False, gid=f"far {place}")
            text = f"{len(beyond)} beyond, up to {beyond.max():.4g}"
            axes.annotate(text, (1, place + 0.33), (-8, 0), xycoords=edge, textcoords="offset points", ha="right",
                          va="center", fontsize=7.5, color=RED)  # fmt: skip


def _draw_distribution(
    axes: Axes, place: int, values: Floats, lines: Ints, row: dict[str, Any], factor: float, most: int
) -> None:
    box = axes.boxplot(
        values, positions=[place], orientation="horizontal", widths=0.34, showfliers=False, manage_ticks=False,
        patch_artist=True, boxprops={"facecolor": "0.88"}, medianprops={"color": BLACK},
    )  # fmt: skip
    dots = values
    if len(values) > most:
        whiskers = [line.get_xdata() for line in box["whiskers"]]
        beyond = (values < np.min(whiskers)) | (values > np.max(whiskers))
        dots, lines = values[beyond], lines[beyond]
    heights = 0.27 + 0.13 * np.modf(np.arange(len(dots)) * 0.618034)[0]  # spread evenly, and alike at each drawing
    (steps,) = axes.plot(dots, place + heights, ".", color=BLUE, markersize=3, alpha=0.6, gid=f"steps {place}")
    set_lines(steps, lines)
    median, low, high = (row[name] / factor for name in ("median_s", "median_low_s", "median_high_s"))
    if not np.isnan(low):
        axes.plot([low, high], [place - 0.28] * 2, color=RED, linewidth=4, solid_capstyle="butt", gid="interval")
    axes.plot(median, place - 0.28, "D", mfc="white", mec=BLACK, markersize=4, gid=f"median {place}")
