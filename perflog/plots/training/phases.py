"""Plot of the phases of a step: a stack for each rank, hidden phases next to it, unattributed time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct, field

from perflog.formats.model import WHOLES
from perflog.plots.drawing.canvas import MAX_PANELS, Canvas, axis_label, is_null, legend, plain, shown_note, unit_of
from perflog.plots.drawing.palette import BLACK, FILLS
from perflog.plots.drawing.sketch import set_mark_name
from perflog.plots.registry import plot

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAX_RANKS = 16
_UNATTRIBUTED_FILL = ("white", "....")
_NO_PHASE_COLOR = "0.93"


class PhaseTime(Struct, frozen=True):
    """A row of metric `phases`. `time` is the mean over the ranks if there is one, because means add up."""

    part: str
    phase: str
    occurrence: int | None
    rank: int | None
    parent: str | None
    hidden: bool
    time: float


class Segment(Struct, frozen=True):
    """A piece of a stack, in seconds: a phase, or the unattributed time of that phase."""

    phase: str
    unattributed: bool
    start: float
    time: float


@plot(
    title="Phases of a step",
    caption="phases of a step as a stack for each rank, with hidden phases as thin bars and the time outside all "
    "phases",
    metric="phases",
)
def phases(rows: pd.DataFrame, canvas: Canvas) -> Figure:
    """Draw what a step consists of, a panel for each run with a stack for all ranks together and for each rank.

    The phases of a stack are inside forward and backward; the printed times of these are the frames. Thin bars are
    phases that other work hides. Dots: unattributed time, which is the time of a phase minus its own phases.

    Example:
        >>> figure = perflog.plots.phases(perflog.read("run.txt"))
        >>> figure.axes[0].get_xlabel()
        'time in the step (ms)'
    """
    runs = list(dict.fromkeys(rows["run"]))
    times = {run: list(_phase_times(rows[rows["run"] == run])) for run in runs[:MAX_PANELS]}
    ranks = {run: _ranks(run_times) for run, run_times in times.items()}
    segments = [
        segment
        for run, run_times in times.items()
        for rank in ranks[run]
        for segment in (*stack(run_times, rank), *hidden_segments(run_times, rank))
    ]
    names = dict.fromkeys(segment.phase for segment in segments if not segment.unattributed)
    fills = {name: FILLS[i % len(FILLS)] for i, name in enumerate(names)}
    notes = [
        (
            "Medians over the steady steps; all ranks: median of the mean over the ranks. Step, forward and backward "
            "are the printed times. Grey: time outside all phases; on a single rank also the phases of unknown rank. "
            "Thin bars: hidden phases, which run at the same time as other work."
        ),
        shown_note(len(times), len(runs), "runs"),
        shown_note(_MAX_RANKS, max(map(len, ranks.values())) - 1, "ranks"),
    ]
    heights = [min(len(run_times), _MAX_RANKS + 1) + 1.6 for run_times in ranks.values()]
    figure, panels = canvas.column_of_panels(10, 1.2 + 0.36 * sum(heights), heights, notes)
    unit, factor = unit_of([row.time for run_times in times.values() for row in run_times], "s")
    drawing = _Drawing(factor, fills)
    for (run, run_times), axes in zip(times.items(), panels, strict=True):
        drawing.draw_run(axes, run_times, ranks[run][: _MAX_RANKS + 1])
        axes.set_title(canvas.run_name(run), pad=14)
        axes.set_xlabel(axis_label("time in the step", unit))
    widest = max(axes.get_xlim()[1] for axes in panels)
    for axes in panels:
        axes.set_xlim(0, widest)
    legend(figure, drawing.legend_handles())
    return figure


def _phase_times(rows: pd.DataFrame) -> Iterator[PhaseTime]:
    for row in rows.to_dict("records"):
        mean, median = row["mean_s"], row["median_s"]
        time = mean if mean == mean else median
        if time == time:
            occurrence, rank = (None if is_null(row[name]) else int(row[name]) for name in ("occurrence", "rank"))
            parent = row["parent"] if isinstance(row["parent"], str) else None
            yield PhaseTime(row["part"], row["phase"], occurrence, rank, parent, bool(row["hidden"]), float(time))


def _ranks(times: list[PhaseTime]) -> list[int | None]:
    """Return None, for all ranks together, and the known ranks."""
    return [None, *sorted({row.rank for row in times if row.rank is not None and row.part != "whole"})]


# --- stacks -------------------------------------------------------------------------------------------------------


def stack(times: list[PhaseTime], rank: int | None) -> list[Segment]:
    """Return the phases of a rank (None: all ranks) end to end inside forward, backward or step, without hidden ones.

    A phase is divided into its own phases if its unattributed time is known, so that the segments add up.
    """
    rank_times = [row for row in times if row.rank == rank and row.part != "whole"]
    parents = {row.phase: row.parent for row in times if row.part == "phase"}
    segments: list[Segment] = []
    for whole, start, _ in wholes(times):
        outermost = (row for row in _outermost_in(whole, rank_times, parents) if not row.hidden)
        segments += _end_to_end(rank_times, outermost, start)
    return segments


def hidden_segments(times: list[PhaseTime], rank: int | None) -> list[Segment]:
    """Return the hidden phases of a rank, end to end from the start of the step."""
    rank_times = [row for row in times if row.rank == rank and row.part != "whole"]
    hidden = {row.phase for row in rank_times if row.hidden}
    outermost = (row for row in rank_times if row.hidden and row.part == "phase" and row.parent not in hidden)
    return _end_to_end(rank_times, outermost, 0.0)


def _end_to_end(rank_times: list[PhaseTime], phases: Iterable[PhaseTime], start: float) -> list[Segment]:
    segments = []
    for phase in phases:
        for row, unattributed in _divided(rank_times, phase):
            segments.append(Segment(row.phase, unattributed, start, row.time))
            start += row.time
    return segments


def wholes(times: list[PhaseTime]) -> list[tuple[str, float, float]]:
    """Return name, start and time of forward, backward and step as printed, 0 if not printed; forward comes first."""
    printed = {row.phase: row.time for row in times if row.part == "whole" and row.rank is None}
    starts = {"forward": 0.0, "backward": printed.get("forward", 0.0)}
    starts["step"] = sum(printed.get(name, 0.0) for name in starts)  # phases of the step itself come after both
    return [(name, starts[name], printed.get(name, 0.0)) for name in ("forward", "backward", "step")]


def _outermost_in(whole: str, rank_times: list[PhaseTime], parents: dict[str, str | None]) -> Iterator[PhaseTime]:
    """Return the outermost phases of a rank inside a whole; a phase between them may have no known rank."""
    present = {row.phase for row in rank_times if row.part == "phase"}
    for row in rank_times:
        parent = row.parent
        while parent is not None and parent not in WHOLES and parent not in present:
            parent = parents.get(parent)
        if row.part == "phase" and parent == whole:
            yield row


def _divided(rank_times: list[PhaseTime], phase: PhaseTime) -> Iterator[tuple[PhaseTime, bool]]:
    """Return the parts of a phase and then its unattributed time (True), or the phase itself if that is not known."""
    unattributed = [row for row in rank_times if row.part == "rest" and row.phase == phase.phase]
    single = sum(row.part == "phase" and row.phase == phase.phase for row in rank_times) == 1
    if not unattributed or not single or unattributed[0].time < 0:
        yield phase, False
        return
    for inner in rank_times:
        if inner.part == "phase" and inner.parent == phase.phase:
            yield from _divided(rank_times, inner)
    yield unattributed[0], True


# --- drawing ------------------------------------------------------------------------------------------------------


class _Drawing(Struct):
    """Draws the stacks of all runs in one unit, with the same fill for a phase everywhere, and collects the legend."""

    factor: float
    fills: dict[str, tuple[str, str]]
    _handles: dict[str, object] = field(default_factory=dict)

    def draw_run(self, axes: Axes, times: list[PhaseTime], ranks: list[int | None]) -> None:
        printed = {name: (start / self.factor, time / self.factor) for name, start, time in wholes(times)}
        for place, rank in enumerate(ranks):
            for name in WHOLES:
                start, time = printed[name] if name != "step" else (0.0, printed[name][1])
                if time:
                    frame = axes.barh(
                        place - 0.12, time, 0.52, left=start, color=_NO_PHASE_COLOR, edgecolor=BLACK, linewidth=0.8,
                        label="outside all phases", gid=f"whole {place} {name}",
                    )  # fmt: skip
                    set_mark_name(frame, name)
                    self._handles.setdefault("frame", frame)
            self._draw_segments(axes, stack(times, rank), (place - 0.12, 0.52), f"stack {place}")
            self._draw_segments(axes, hidden_segments(times, rank), (place + 0.28, 0.16), f"beside {place}")
        for name in ("forward", "backward"):
            start, time = printed[name]
            if time:
                axes.annotate(name, (start + time / 2, 1), (0, 3), xycoords=("data", "axes fraction"),
                              textcoords="offset points", ha="center", fontsize=7.5, color="0.3")  # fmt: skip
        axes.set_yticks(range(len(ranks)), ["all ranks" if rank is None else f"rank {rank}" for rank in ranks])
        axes.set_ylim(len(ranks) - 0.5, -0.5)
        axes.grid(axis="x")

    def _draw_segments(self, axes: Axes, segments: list[Segment], row: tuple[float, float], gid: str) -> None:
        """Draw segments as bars in a row, given by its middle and its height."""
        middle, height = row
        for segment in segments:
            color, hatch = _UNATTRIBUTED_FILL if segment.unattributed else self.fills[segment.phase]
            label = "unattributed time" if segment.unattributed else plain(segment.phase, 30)
            bar = axes.barh(middle, segment.time / self.factor, height, left=segment.start / self.factor, color=color,
                            hatch=hatch, edgecolor=BLACK, linewidth=0.5, label=label, gid=gid)  # fmt: skip
            self._handles.setdefault("unattributed" if segment.unattributed else segment.phase, bar)

    def legend_handles(self) -> list[object]:
        """Handles of the legend: the phases, then unattributed time, then time outside all phases."""
        return [self._handles[name] for name in (*self.fills, "unattributed", "frame") if name in self._handles]
