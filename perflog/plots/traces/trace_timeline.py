"""Plot of the timeline of traces: tracks of spans over the time, for all devices, for one of them, and for a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.metrics.traces.device_work import COMMUNICATION, MEMORY, WAITING
from perflog.metrics.traces.over_time.trace_timeline import DEVICES, IDLE, MIDDLE, RANGE, STEP
from perflog.metrics.traces.replays.path_walk import DEVICE_KINDS, HOST_KINDS
from perflog.plots.drawing.canvas import Canvas, axis_label, is_null, legend, plain, shown_note, unit_of
from perflog.plots.drawing.palette import BLUE, GREEN, ORANGE, PINK, RED, SKY, YELLOW
from perflog.plots.drawing.sketch import set_span_names
from perflog.plots.registry import plot

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAX_RUNS = 4
_TRACK_INCHES, _AROUND_INCHES = 0.28, 1.0
_HEIGHT = 0.8  # of a track
_DENSITIES = ((0.75, 1.0), (0.4, 0.65), (0.0, 0.35))  # share of a span in which its kind runs, and how opaque it is

_COLORS = {
    "compute": BLUE, "matrix products, attention": SKY, "other computation": GREEN, COMMUNICATION: ORANGE,
    MEMORY: YELLOW, WAITING: PINK, "host": RED, "idle": "0.6", "range": "0.78",
}  # fmt: skip
"""Colours of the groups of kinds, in the order of the legend."""


def _group(kind: str) -> str:
    """The group of a kind, which gives its colour."""
    if kind.startswith(IDLE):
        cause = kind.removeprefix(IDLE)
        return "host" if cause in ("host", "data", "sync") else WAITING if cause == WAITING else "idle"
    if kind in HOST_KINDS:
        return "host"
    if kind in DEVICE_KINDS:
        return WAITING if kind == WAITING else "idle"
    products = "matrix products, attention"
    known = {"gemm": products, "attention": products, "memcpy": MEMORY, "memset": MEMORY, "wait": WAITING}
    return known.get(kind, kind if kind in ("compute", COMMUNICATION, MEMORY, WAITING, RANGE) else "other computation")


@plot(
    title="Timeline of the trace",
    caption="what each device did when, with idle time by cause; of one device its streams, the ranges of the host and "
    "the critical path, over the whole trace and in one part of it",
    metric="trace_timeline",
)
def trace_timeline(rows: pd.DataFrame, canvas: Canvas) -> Figure:
    """Draw the tracks of traces over the time, panels for each run: all devices, one device, and a step of it.

    Spans that are too short are merged. A merged span has the colour of the kind that takes most of its time, and is
    pale where that is less than three quarters of it.

    Example:
        >>> figure = perflog.plots.trace_timeline(perflog.read("trace.json"))
        >>> len(figure.axes) >= 1
        True
    """
    runs = list(dict.fromkeys(rows["run"]))
    parts = [
        (run, part, part_rows)
        for run in runs[:_MAX_RUNS]
        for part, part_rows in rows[rows["run"] == run].groupby("part", sort=False)
    ]
    tracks = [list(dict.fromkeys(part_rows["track"])) for _, _, part_rows in parts]  # from the top
    heights = [_TRACK_INCHES * len(names) + _AROUND_INCHES for names in tracks]
    pale = "Pale: events merged, of several kinds or with time between them."
    notes = [_merged_note(rows), pale, shown_note(min(len(runs), _MAX_RUNS), len(runs), "runs")]
    figure, panels = canvas.column_of_panels(10.5, 1.0 + sum(heights), heights, notes)
    handles: dict[str, object] = {}
    whole = rows[~rows["part"].isin((STEP, MIDDLE))]
    begins = whole.groupby("run", sort=False)["begin_s"].min()  # ranges of the host may begin before the first work
    for (run, part, part_rows), names, axes in zip(parts, tracks, panels, strict=True):
        is_step = part in (STEP, MIDDLE) or run not in begins
        _draw(axes, part_rows, names, handles, float(part_rows["begin_s"].min() if is_step else begins[run]))
        axes.set_title(": ".join([canvas.run_name(run)] * (len(runs) > 1) + [_title(part_rows.iloc[0], part)]))
    legend(figure, [handles[group] for group in _COLORS if group in handles])
    return figure


def _merged_note(rows: pd.DataFrame) -> str:
    """How many events there are, and what is merged."""
    grain = float(rows["grain_s"].max())
    if not grain:
        return ""
    unit, factor = unit_of([grain], "s")
    shorter = f"{grain / factor:.3g} {unit}"
    return f"Events shorter than {shorter} are merged with their neighbours; the last part has finer ones."


def _title(row: pd.Series[Any], part: str) -> str:
    if part == DEVICES:
        return "all devices"
    rank = "" if is_null(row["rank"]) else f"rank {row['rank']}"
    device = "" if is_null(row["device"]) else f"device {row['device']}"
    which = ", ".join(filter(None, (rank, device))) or plain(row["device_name"] or "device", 60)
    part_rows = {STEP: f"step {row['step']}", MIDDLE: "the middle of the trace"}
    return f"{which}, {part_rows.get(part, 'the whole trace')}"


def _draw(axes: Axes, rows: pd.DataFrame, names: Sequence[str], handles: dict[str, object], base: float) -> None:
    """Draw the tracks of a part; `base`: time 0 of its axis."""
    ends = rows["begin_s"].to_numpy(np.float64) + rows["span_s"].to_numpy(np.float64)
    unit, factor = unit_of([ends.max() - base], "s")
    places = {name: place for place, name in enumerate(names)}
    groups = [_group(kind) for kind in rows["kind"]]
    shares = (rows["time_s"] / rows["span_s"]).to_numpy(np.float64)
    density = np.select([shares >= least for least, _ in _DENSITIES], list(range(len(_DENSITIES))), 0)
    keys = [rows["track"], groups, density]
    for (track, group, level), spans in rows.groupby(keys, sort=False):
        starts, lengths, times = (spans[name].to_numpy(np.float64) for name in ("begin_s", "span_s", "time_s"))
        drawn = axes.broken_barh(
            list(zip((starts - base) / factor, lengths / factor, strict=True)), (places[track] - _HEIGHT / 2, _HEIGHT),
            facecolors=_COLORS[group], alpha=_DENSITIES[level][1], label=group, gid=group,
        )  # fmt: skip
        set_span_names(drawn, map(_said, spans["kind"], spans["name"]), spans["events"], times / factor)
        if group not in handles or level == 0:
            handles[group] = drawn
    axes.set_yticks(list(places.values()), [plain(name, 30) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(0, (ends.max() - base) / factor)
    is_step = rows["part"].iloc[0] in (STEP, MIDDLE)
    axes.set_xlabel(axis_label("time in this part" if is_step else "time since the first event", unit))


def _said(kind: str, name: object) -> str:
    return plain(kind if is_null(name) else f"{kind}: {name}", 60)
