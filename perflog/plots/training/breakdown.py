"""Plot of where the time goes: a bar for each run, divided into the parts that add up to its whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perflog.metrics.step_time.breakdown import UNTIMED, part_name
from perflog.plots.drawing.canvas import Canvas, axis_label, legend, plain, shown_note, unit_of
from perflog.plots.drawing.palette import FILLS
from perflog.plots.drawing.stacked_bars import MAX_BARS, BarPart, draw_bars
from perflog.plots.registry import plot

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAX_PARTS = 11
_OTHERS = "other parts"
_UNTIMED_FILLS = tuple((color, hatch) for hatch in ("....", "", "//") for color in ("white", "0.85", "0.7"))
_WHOLES = {
    "step": "time in a step",
    "phases": "time of all phases",
    "traced step": "time of the annotated step, mean over devices",
    "trace": "time of the trace, mean over devices",
    "gpu": "GPU time of the profile",
    "api": "time of API calls in the profile",
}


@plot(
    title="Where the time goes",
    caption="time of each run divided into the parts that add up to its step, its trace or its profile",
    metric="breakdown",
)
def breakdown(rows: pd.DataFrame, canvas: Canvas) -> Figure:
    """Draw a bar for each run, divided into its parts; a panel for steps, for phases, for traces and for profiles.

    The largest parts have a fill of their own; white and grey: no inner phase covers
    this time.

    Example:
        >>> figure = perflog.plots.breakdown(perflog.find_runs("reference:moe_layer.txt"))
        >>> figure.axes[0].get_xlabel()
        'time in a step (ms)'
    """
    rows = rows.assign(name=list(map(part_name, rows["of"], rows["part"], rows["kind"])))
    wholes = list(dict.fromkeys(rows["of"]))
    times = {of: _times(rows[rows["of"] == of]) for of in wholes}
    names = dict.fromkeys(name for run_times in times.values() for name in run_times.columns if not _is_untimed(name))
    fills = {name: FILLS[i % len(FILLS)] for i, name in enumerate(names)}
    untimed = dict.fromkeys(name for run_times in times.values() for name in run_times.columns if _is_untimed(name))
    fills |= {name: _UNTIMED_FILLS[i % len(_UNTIMED_FILLS)] for i, name in enumerate(untimed)}
    counts = {of: min(len(run_times), MAX_BARS) for of, run_times in times.items()}
    notes = [
        "White and grey: time of a phase, or of the step, that no phase inside it covers." if untimed else "",
        "n: steps, times that the phases are printed, devices of a trace, or calls of a profile.",
        shown_note(sum(counts.values()), sum(map(len, times.values())), "runs"),
    ]
    heights = [count + 1.8 for count in counts.values()]
    figure, panels = canvas.column_of_panels(10, 1.3 + 0.42 * sum(heights), heights, notes)
    handles: dict[str, object] = {}
    for of, axes in zip(wholes, panels, strict=True):
        shown = times[of].head(MAX_BARS)
        counts_of_runs = rows.drop_duplicates("run").set_index("run")["n"]
        names_of_runs = [f"{canvas.run_name(run, 36)}\nn = {counts_of_runs[run]}" for run in shown.index]
        handles |= _draw_bars(axes, shown, fills, names_of_runs, _WHOLES[of])
    legend(figure, handles.values())
    return figure


def _is_untimed(name: str) -> bool:
    return name.startswith(UNTIMED)


def _times(rows: pd.DataFrame) -> pd.DataFrame:
    """Seconds by run and part: the largest parts, and the sum of the others."""
    runs = list(dict.fromkeys(rows["run"]))
    times = rows.groupby(["run", "name"])["time_s"].sum().unstack(fill_value=0.0).reindex(runs)
    order = times.max().sort_values(ascending=False, kind="stable").index
    times = times[order]
    if len(order) > _MAX_PARTS + 1:
        others = times.iloc[:, _MAX_PARTS:].sum(axis=1)
        times = times.iloc[:, :_MAX_PARTS].assign(**{_OTHERS: others})
    return times


def _draw_bars(
    axes: Axes, times: pd.DataFrame, fills: dict[str, tuple[str, str]], names: list[str], quantity: str
) -> dict[str, object]:
    unit, factor = unit_of(times.sum(axis=1), "s")
    parts = [
        BarPart(name, plain(name, 40), fills[name], (times[name].clip(lower=0) / factor).tolist())
        for name in sorted(times.columns, key=_is_untimed)  # what is timed is together
    ]
    handles, ends = draw_bars(axes, names, parts)
    axes.set_xlim(0, max(ends) * 1.02 or 1)
    axes.set_xlabel(axis_label(quantity, unit))
    return handles
