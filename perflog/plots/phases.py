"""What a step is made of: the phases of each rank as a stack, what is hidden beside it, what no phase explains."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perflog.formats.model import WHOLES
from perflog.plots.canvas import BLACK, FILLS, MOST_PANELS, Canvas, axis, capped, legend, null, plain, unit_of
from perflog.plots.registry import plot

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Fills = dict[str, tuple[str, str]]

_MOST_RANKS = 16
_REST = ("white", "....")
_GAP = ("0.93", "")


@dataclass(frozen=True)
class _Node:
    """A row of metric `phases`. `time` is its mean over the ranks where there is one: these add up."""

    part: str
    phase: str
    occurrence: int | None
    rank: int | None
    parent: str | None
    hidden: bool
    time: float


@dataclass(frozen=True)
class Segment:
    """A piece of a stack, in seconds. `phase` is that which it is, or of which it is the rest."""

    phase: str
    rest: bool
    start: float
    time: float


@plot(
    title="Phases of a step",
    says="what a step is made of on each rank: a stack of its phases, hidden ones beside it, the unexplained part",
    metric="phases",
)
def phases(found: pd.DataFrame, canvas: Canvas) -> Figure:
    """A panel for each run, a stack for all ranks together and for each rank."""
    runs = list(dict.fromkeys(found["run"]))
    trees = {run: list(_nodes(found[found["run"] == run])) for run in runs[:MOST_PANELS]}
    ranks = {run: _ranks(tree) for run, tree in trees.items()}
    shown = [(tree, rank) for run, tree in trees.items() for rank in ranks[run]]
    drawn = [piece for tree, rank in shown for piece in (*stack(tree, rank), *beside(tree, rank))]
    names = dict.fromkeys(piece.phase for piece in drawn if not piece.rest)
    fills = {name: FILLS[at % len(FILLS)] for at, name in enumerate(names)}
    notes = [
        (
            "medians over the steady steps; all ranks: of their mean. Step, forward and backward as printed; what"
            " is left blank no phase explains, and on a single rank it also holds the phases of no known rank. "
            "Thin bars: hidden, beside the step"
        ),
        capped(len(trees), len(runs), "runs"),
        capped(_MOST_RANKS, max(map(len, ranks.values())) - 1, "ranks"),
    ]
    heights = [min(len(some), _MOST_RANKS + 1) + 1.6 for some in ranks.values()]
    figure = canvas.figure(10, 1.2 + 0.36 * sum(heights), notes)
    panels = figure.subplots(len(trees), squeeze=False, height_ratios=heights).ravel()
    handles: dict[str, Any] = {}
    unit, factor = unit_of([node.time for tree in trees.values() for node in tree], "s")
    for (run, tree), axes in zip(trees.items(), panels, strict=True):
        _panel(axes, tree, ranks[run][: _MOST_RANKS + 1], factor, fills, handles)
        axes.set_title(canvas.name(run), pad=14)
        axes.set_xlabel(axis("time in the step", unit))
    widest = max(axes.get_xlim()[1] for axes in panels)
    for axes in panels:
        axes.set_xlim(0, widest)
    legend(figure, [handles[name] for name in (*fills, "rest", "gap") if name in handles])
    return figure


def _nodes(rows: pd.DataFrame) -> Iterator[_Node]:
    for row in rows.to_dict("records"):
        mean, median = row["mean_s"], row["median_s"]
        time = mean if mean == mean else median
        if time == time:
            occurrence, rank = (None if null(row[name]) else int(row[name]) for name in ("occurrence", "rank"))
            parent = row["parent"] if isinstance(row["parent"], str) else None
            yield _Node(row["part"], row["phase"], occurrence, rank, parent, bool(row["hidden"]), float(time))


def _ranks(tree: list[_Node]) -> list[int | None]:
    return [None, *sorted({node.rank for node in tree if node.rank is not None and node.part != "whole"})]


def stack(tree: list[_Node], rank: int | None) -> list[Segment]:
    """The phases known of a rank (None: of all) end to end inside forward, backward or step; each divided into its own
    phases where its rest is known, so that the pieces add up. Hidden ones are not in it.
    """
    mine = [node for node in tree if node.rank == rank and node.part != "whole"]
    above = {node.phase: node.parent for node in tree if node.part == "phase"}
    found: list[Segment] = []
    for name, start, _ in wholes(tree):
        at = start
        for node in _inside(mine, name, above):
            if not node.hidden:
                for piece, rest in _pieces(mine, node):
                    found.append(Segment(piece.phase, rest, at, piece.time))
                    at += piece.time
    return found


def beside(tree: list[_Node], rank: int | None) -> list[Segment]:
    """The hidden phases known of a rank, end to end from the start of the step."""
    mine = [node for node in tree if node.rank == rank and node.part != "whole"]
    outer = {node.phase for node in mine if node.hidden}
    found: list[Segment] = []
    at = 0.0
    for node in mine:
        if node.hidden and node.part == "phase" and node.parent not in outer:
            for piece, rest in _pieces(mine, node):
                found.append(Segment(piece.phase, rest, at, piece.time))
                at += piece.time
    return found


def wholes(tree: list[_Node]) -> list[tuple[str, float, float]]:
    """Name, start and time of forward, backward and step, as far as they are printed; forward begins the step."""
    times = {node.phase: node.time for node in tree if node.part == "whole" and node.rank is None}
    begin = {"forward": 0.0, "backward": times.get("forward", 0.0)}
    # phases of the step itself stand behind both
    begin["step"] = sum(times.get(name, 0.0) for name in begin)
    return [(name, begin[name], times.get(name, 0.0)) for name in ("forward", "backward", "step")]


def _inside(mine: list[_Node], whole: str, above: dict[str, str | None]) -> Iterator[_Node]:
    """The outermost phases of a rank inside a whole: what is between may be of no known rank."""
    present = {node.phase for node in mine if node.part == "phase"}
    for node in mine:
        parent = node.parent
        while parent is not None and parent not in WHOLES and parent not in present:
            parent = above.get(parent)
        if node.part == "phase" and parent == whole:
            yield node


def _pieces(mine: list[_Node], node: _Node) -> Iterator[tuple[_Node, bool]]:
    """A phase as its parts and its rest, if that is known; else as it is."""
    rest = [one for one in mine if one.part == "rest" and one.phase == node.phase]
    alone = sum(one.part == "phase" and one.phase == node.phase for one in mine) == 1
    if not rest or not alone or rest[0].time < 0:
        yield node, False
        return
    for inner in mine:
        if inner.part == "phase" and inner.parent == node.phase:
            yield from _pieces(mine, inner)
    yield rest[0], True


def _panel(
    axes: Axes,
    tree: list[_Node],
    ranks: list[int | None],
    factor: float,
    fills: Fills,
    handles: dict[str, Any],
) -> None:
    times = {name: (start / factor, time / factor) for name, start, time in wholes(tree)}
    for place, rank in enumerate(ranks):
        for name in WHOLES:
            start, time = times[name] if name != "step" else (0.0, times[name][1])
            if time:
                gap = axes.barh(place - 0.12, time, 0.52, left=start, color=_GAP[0], edgecolor=BLACK, linewidth=0.8,
                                label="no phase known", gid=f"whole {place} {name}")  # fmt: skip
                handles.setdefault("gap", gap)
        _draw(axes, stack(tree, rank), place - 0.12, 0.52, factor, fills, handles, f"stack {place}")
        _draw(axes, beside(tree, rank), place + 0.28, 0.16, factor, fills, handles, f"beside {place}")
    for name in ("forward", "backward"):
        start, time = times[name]
        if time:
            axes.annotate(name, (start + time / 2, 1), (0, 3), xycoords=("data", "axes fraction"),
                          textcoords="offset points", ha="center", fontsize=7.5, color="0.3")  # fmt: skip
    axes.set_yticks(range(len(ranks)), ["all ranks" if rank is None else f"rank {rank}" for rank in ranks])
    axes.set_ylim(len(ranks) - 0.5, -0.5)
    axes.grid(axis="x")


def _draw(  # noqa: PLR0913
    axes: Axes, pieces: list[Segment], y: float, height: float, factor: float, fills: Fills,
    handles: dict[str, Any], gid: str,
) -> None:  # fmt: skip
    for piece in pieces:
        color, hatch = _REST if piece.rest else fills[piece.phase]
        label = "rest of a phase" if piece.rest else plain(piece.phase, 30)
        bar = axes.barh(y, piece.time / factor, height, left=piece.start / factor, color=color, hatch=hatch,
                        edgecolor=BLACK, linewidth=0.5, label=label, gid=gid)  # fmt: skip
        handles.setdefault("rest" if piece.rest else piece.phase, bar)
