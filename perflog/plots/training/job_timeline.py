"""Plot of the timeline of jobs: a strip for each attempt, coloured by what its time was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perflog.metrics import get
from perflog.metrics.jobs.job_intervals import COMPILE, KINDS, RELATIVE, STEPS, TRAINING
from perflog.plots.drawing.canvas import MAX_PANELS, Canvas, axis_label, legend, shown_note, unit_of
from perflog.plots.drawing.palette import FILLS
from perflog.plots.registry import plot
from perflog.units import show

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer
    from matplotlib.figure import Figure

_PARTS = "sum of printed durations; other time is unknown"


def _eventful(rows: pd.DataFrame) -> pd.DataFrame:
    """Leave out all jobs if none has a clock and nothing but steps is known: strips of one colour."""
    tells = ~rows["kind"].isin([TRAINING, COMPILE]) | ~rows["clock"].isin(RELATIVE)
    return rows if tells.any() else rows[:0]


@plot(
    title="Timeline",
    caption="wall time of each job as a strip for each attempt: start-up, training, checkpoints, stalls, time down",
    metric="timeline",
    select=_eventful,
)
def timeline(rows: pd.DataFrame, canvas: Canvas) -> Figure:
    """Draw the intervals of each job over the time since it began, a panel for each job and a strip for each attempt.

    The legend has the seconds of each kind over all attempts; the title of a panel the goodput of the job. Jobs without
    a clock come last: their strips are printed durations, one after the other, and their panels say so.

    Example:
        >>> perflog.plots.timeline.metric
        'timeline'
    """
    clocks = dict(zip(rows["job"], rows["clock"], strict=True))
    jobs = sorted(clocks, key=lambda job: clocks[job] == STEPS)
    shown = jobs[:MAX_PANELS]
    quotients = get("goodput").table(canvas.tables, canvas.options).set_index("run")["goodput"]
    strips = [int(rows.loc[rows["job"] == job, "attempt"].nunique()) for job in shown]
    notes = [shown_note(len(shown), len(jobs), "jobs")]
    height = 1.2 + sum(0.7 + 0.35 * min(n, 24) for n in strips)
    figure, panels = canvas.column_of_panels(10.5, height, [n + 1 for n in strips], notes)
    handles: dict[str, BarContainer] = {}
    for job, axes in zip(shown, panels, strict=True):
        job_rows = rows[rows["job"] == job]
        _draw(axes, job_rows, handles)
        quotient = quotients.get(job)
        known = f"goodput {show(float(quotient), '1')}" if quotient is not None and quotient == quotient else ""
        known = known or (_PARTS if clocks[job] == STEPS else "")
        axes.set_title(": ".join(filter(None, [canvas.run_name(job), known])))
    for kind, handle in handles.items():
        handle.set_label(f"{kind}: {show(float(rows.loc[rows['kind'] == kind, 'time_s'].sum()), 's')}")
    legend(figure, handles.values())
    return figure


def _draw(axes: Axes, rows: pd.DataFrame, handles: dict[str, BarContainer]) -> None:
    begin = (rows["begin_ns"].astype("int64") - int(rows["begin_ns"].min())).to_numpy() / 1e9
    seconds = rows["time_s"].to_numpy(np.float64)
    unit, factor = unit_of([(begin + seconds).max()], "s")
    attempts = rows["attempt"].to_numpy(np.int64)
    for kind in dict.fromkeys(rows["kind"]):
        is_kind = (rows["kind"] == kind).to_numpy()
        color, hatch = FILLS[KINDS.index(kind)]
        bars = axes.barh(
            attempts[is_kind], seconds[is_kind] / factor, 0.7, left=begin[is_kind] / factor, color=color, hatch=hatch,
            edgecolor="black", linewidth=0.3, gid=kind, label=kind,
        )  # fmt: skip
        handles.setdefault(kind, bars)
    numbers = sorted(set(attempts.tolist()))
    axes.set_yticks(numbers, [str(number) for number in numbers])
    axes.set_ylim(max(numbers) + 0.6, min(numbers) - 0.6)
    axes.set_xlim(0, float((begin + seconds).max()) / factor)
    quantity = "printed time" if rows["clock"].iloc[0] == STEPS else "time since the job began"
    axes.set(xlabel=axis_label(quantity, unit), ylabel="attempt")
