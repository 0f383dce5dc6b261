"""Step times: over the steps, and as distributions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.metrics.step_series import StepSeries, step_series
from perflog.plots.canvas import (
    BLACK,
    BLUE,
    RED,
    SKY,
    Canvas,
    axis,
    beyond,
    capped,
    envelope,
    legend,
    shade,
    unit_of,
    whole,
)  # fmt: skip
from perflog.plots.registry import plot
from perflog.statistics.samples import OUTLIER, Floats, modified_z_scores
from perflog.units import show

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKED = 150  # steps up to which each has a dot
_MOST_ROWS = 24
_MOST_DOTS = 4000  # of a row; of more, only those beyond the whiskers


def _steady(found: pd.DataFrame) -> pd.DataFrame:
    """Of metric `steps`: the steady part of step times."""
    return found[(found["of"] == "step_time") & (found["part"] == "steady") & found["median_s"].notna()]


@plot(
    title="Step times",
    says="step times over steps: warm-up, outliers, steady median with its interval, windows of printed summaries",
    metric="steps",
    rows=_steady,
)
def steps(found: pd.DataFrame, canvas: Canvas) -> Figure:
    """A panel for each run."""
    rows = {row["run"]: row for row in found.to_dict("records")}
    all_series = {one.run: one for one in step_series(canvas.tables, warmup=canvas.options.warmup)}
    note = f"outliers: modified z of the steady steps beyond {OUTLIER}; interval: {canvas.options.level:.0%}"
    figure, panels = canvas.panels(list(rows), [note])
    handles: dict[str, Any] = {}
    for run, axes in panels:
        _steps_panel(axes, all_series[run], rows[run], handles)
        _windows(axes, canvas.tables["summaries"], run, handles)
        axes.set_title(f"{canvas.name(run)}\n{_said(rows[run], len(rows) == 1)}")
    legend(figure, handles.values())
    return figure


def _said(row: dict[str, Any], wide: bool) -> str:
    """The line under a panel's title."""
    low, high = row["median_low_s"], row["median_high_s"]
    _, factor = unit_of(row["median_s"], "s")
    interval = "" if np.isnan(low) else f" ({low / factor:.4g}–{high / factor:.4g})"
    left = row["left_out"].split("; ") if row["left_out"] else []
    some = left[0] if wide and len(left) == 1 else f"{len(left)} step{'s' * (len(left) > 1)}"
    left_out = f"; left out: {some}" if left else ""
    means = f", lines are means of {row['steps_averaged']} steps" if row["steps_averaged"] > 1 else ""
    return f"median {show(row['median_s'], 's')}{interval}, warm-up {row['warmup']}{left_out}{means}"


def _steps_panel(axes: Axes, one: StepSeries, row: dict[str, Any], handles: dict[str, Any]) -> None:
    unit, factor = unit_of(row["median_s"], "s")
    x, y, cut = one.steps.astype(np.float64), one.values / factor, one.warmup.cut
    shade(axes, x, cut, handles)
    outlier = np.abs(modified_z_scores(y, y[cut:])) > OUTLIER
    outlier[:cut] = False
    few = len(x) <= _MARKED
    thin_x, thin_y, k = envelope(x, y)
    label = "step" if k == 1 else f"step (least and largest of each {k})"
    (line,) = axes.plot(thin_x, thin_y, color=BLUE, marker="." if few else "", markersize=4, label=label)
    size = 6 if outlier.sum() <= _MARKED else 1.5
    (odd,) = axes.plot(
        x[outlier], y[outlier], "o", mfc="none", mec=RED, markersize=size, label="outlier", gid="outliers"
    )
    middle = axes.axhline(row["median_s"] / factor, color=BLACK, linestyle="--", label="median of steady steps")
    if not np.isnan(row["median_low_s"]):
        low, high = row["median_low_s"] / factor, row["median_high_s"] / factor
        handles.setdefault("interval", axes.axhspan(low, high, color=SKY, alpha=0.6, label="its interval"))
    _limits(axes, x, y, y[cut:], handles)
    handles |= {"step": handles.get("step", line), "median": handles.get("median", middle)}
    if outlier.any():
        handles.setdefault("outlier", odd)
    whole(axes.xaxis, 6)
    axes.grid(axis="y")
    axes.set(xlabel="step", ylabel=axis("step time", unit))


def _limits(axes: Axes, x: Floats, y: Floats, steady: Floats, handles: dict[str, Any]) -> None:
    """The y-axis fits the bulk of the steady steps; what lies above stands as a triangle at its upper edge."""
    least, bulk = float(y.min()), float(np.percentile(steady, 99))
    top = _end(float(y.max()), bulk, span := max(bulk - least, 0.02 * bulk))
    beyond(axes, x, y, top, handles)
    axes.set_ylim(least - 0.25 * span, top)
    axes.set_xlim(x[0] - 0.5 - 0.01 * len(x), x[-1] + 0.5 + 0.01 * len(x))


def _end(most: float, bulk: float, span: float) -> float:
    """Where an axis ends: at the largest value, unless the bulk would be squeezed into a third of it."""
    end = most + 0.15 * span
    return bulk + 1.5 * span if end > bulk + 2.5 * span else end


def _windows(axes: Axes, summaries: pd.DataFrame, run: str, handles: dict[str, Any]) -> None:
    """A bar along the bottom for the steps that a printed average is the mean of."""
    mine = summaries[(summaries["run"] == run) & (summaries["key"] == "step_time") & summaries["window_first"].notna()]
    for first, last in zip(mine["window_first"], mine["window_last"], strict=True):
        (bar,) = axes.plot(
            [first - 0.5, last + 0.5], [0.04, 0.04], color=BLACK, linewidth=3, solid_capstyle="butt", gid="window",
            transform=axes.get_xaxis_transform(), label="window of the printed average",
        )  # fmt: skip
        handles.setdefault("window", bar)


@plot(
    title="Distribution of step times",
    says="steady step times of each run: every step, box of the quartiles, median with its interval",
    metric="steps",
    rows=_steady,
)
def distribution(found: pd.DataFrame, canvas: Canvas) -> Figure:
    """A row for each run, the first on top."""
    rows = found.to_dict("records")[:_MOST_ROWS]
    values = {one.run: one.steady for one in step_series(canvas.tables, warmup=canvas.options.warmup)}
    notes = [
        (
            "box: quartiles; whiskers: to the last step within 1.5 of the box; dots: steps; "
            f"diamond: median, bar: its {canvas.options.level:.0%} interval. Warm-up left out."
        ),
        capped(len(rows), len(found), "runs"),
    ]
    figure = canvas.figure(9, 1.9 + 0.55 * len(rows), notes)
    axes = figure.subplots()
    unit, factor = unit_of([row["median_s"] for row in rows], "s")
    every = [values[row["run"]] / factor for row in rows]
    for place, row in enumerate(rows):
        _row(axes, place, every[place], row, factor)
    least, bulk = min(float(one.min()) for one in every), max(float(np.percentile(one, 99)) for one in every)
    end = _end(max(float(one.max()) for one in every), bulk, span := max(bulk - least, 0.02 * bulk))
    _right_of(axes, every, end)
    axes.set_xlim(least - 0.05 * span, end)
    names = [f"{canvas.name(row['run'], 36)}\nn = {row['n']}" for row in rows]
    axes.set_yticks(range(len(rows)), names)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlabel(axis("step time", unit))
    axes.grid(axis="x")
    return figure


def _right_of(axes: Axes, every: list[Floats], end: float) -> None:
    """Steps right of the axis as a triangle at its edge, with their number and the largest."""
    for place, values in enumerate(every):
        far = values[values > end]
        if len(far):
            edge = axes.get_yaxis_transform()
            axes.plot(1, place + 0.33, ">", color=RED, markersize=6, transform=edge, clip_on=False, gid=f"far {place}")
            said = f"{len(far)} beyond, to {far.max():.4g}"
            axes.annotate(said, (1, place + 0.33), (-8, 0), xycoords=edge, textcoords="offset points", ha="right",
                          va="center", fontsize=7.5, color=RED)  # fmt: skip


def _row(axes: Axes, place: int, values: Floats, row: dict[str, Any], factor: float) -> None:
    box = axes.boxplot(
        values, positions=[place], orientation="horizontal", widths=0.34, showfliers=False, manage_ticks=False,
        patch_artist=True, boxprops={"facecolor": "0.88"}, medianprops={"color": BLACK},
    )  # fmt: skip
    shown = values
    if len(values) > _MOST_DOTS:
        ends = [line.get_xdata() for line in box["whiskers"]]
        shown = values[(values < np.min(ends)) | (values > np.max(ends))]
    spread = 0.27 + 0.13 * np.modf(np.arange(len(shown)) * 0.618034)[0]  # the same at each drawing, and even
    axes.plot(shown, place + spread, ".", color=BLUE, markersize=3, alpha=0.6, gid=f"steps {place}")
    median, low, high = (row[name] / factor for name in ("median_s", "median_low_s", "median_high_s"))
    if not np.isnan(low):
        axes.plot([low, high], [place - 0.28] * 2, color=RED, linewidth=4, solid_capstyle="butt", gid="interval")
    axes.plot(median, place - 0.28, "D", mfc="white", mec=BLACK, markersize=4, gid=f"median {place}")
