"""Attribution of a difference: the contribution of each part of the step, each layer, range or kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, TypeVar

import numpy as np
from msgspec import Struct

from perflog.analysis.compare.figures import centre_of_runs
from perflog.analysis.compare.measures import SideValues
from perflog.analysis.compare.result_rows import TreeRow
from perflog.analysis.compare.rows import FigureRow, by_measure
from perflog.analysis.compare.sides import Case, Side
from perflog.arrays import Floats
from perflog.grouping import grouped
from perflog.metrics.compared import ALL, Measure
from perflog.metrics.registry import column, columns_of
from perflog.metrics.traces.work_tree import last_of_path
from perflog.statistics.samples import median


class AttributionRow(Struct, frozen=True):
    """What a part adds to the difference of its whole."""

    case: Annotated[str, column("the configuration that the sides share")]
    base: Annotated[str, column("name of the first side")]
    side: Annotated[str, column("name of the side that is compared with the base")]
    kind: Annotated[str, column("step: parts of the step; layer; range; kernel; operator; call")]
    part: Annotated[
        str,
        column(
            "phase, layer, path of a range, kernel, operator; (unexplained): time of the whole that is in none of "
            "its parts"
        ),
    ]
    of: Annotated[str | None, column("the whole that it is part of")]
    depth: Annotated[int, column("0 for the whole, 1 for its parts, and so on")]
    base_s: Annotated[
        float, column("the base: geometric mean over its runs of their medians; 0 where it does not occur", "s")
    ]
    side_s: Annotated[float, column("the same on the side", "s")]
    difference_s: Annotated[float, column("side - base", "s")]
    share: Annotated[
        float | None, column("share of the difference of the whole; null where the whole does not differ", "1")
    ]


COLUMNS = columns_of(AttributionRow)

UNEXPLAINED = "(unexplained)"
LEAST_SHARE = 0.02
"""Smallest share of the difference that a part needs to be shown; of the whole, if that is not known to differ."""

_OFFSET = 1.5  # of the difference: parts that differ more offset one another

_WHOLES = {"step": "step_time", "layer": ALL, "range": ALL, "kernel": ALL, "operator": ALL, "call": ALL}
_KINDS = {
    "step": ("step", "device", "idle", "phase"),
    **{kind: (kind,) for kind in ("layer", "range", "kernel", "operator", "call")},
}

MedianPairs = Mapping[Measure, tuple[float, float]]
"""The medians of base and side, by measure."""


def attribution(
    sides: Sequence[Side], cases: Sequence[Case], values: Sequence[SideValues], rows: Sequence[FigureRow]
) -> list[AttributionRow]:
    """Return what each part adds to the difference of its whole, for each case and side: the largest part first.

    Differences are between medians, which need not add up: `(unexplained)` is the whole minus the parts.
    """
    parts: list[AttributionRow] = []
    for case in cases:
        for k, side in enumerate(sides[1:], 1):
            for kind, whole in _WHOLES.items():
                row = by_measure(rows, case.name, side.name).get((kind, whole))
                if row is None:
                    continue
                pairs = _median_pairs(kind, values[0], values[k], case.runs[0], case.runs[k])
                differs = not row.change_low <= 0 <= row.change_high
                inside = grouped((measure.of, measure) for measure in pairs)
                top = next(m for m in pairs if m.name == whole and m.kind == kind)
                total = pairs[top][1] - pairs[top][0]
                differs &= total * (row.side_value - row.base_value) > 0  # else only the slowest rank does
                place = _Whole(case.name, sides[0].name, side.name, kind, total if differs else None)
                parts += _tree(pairs, inside, top, place)
    return parts


class _Whole(Struct, frozen=True):
    """What is divided: case, base, side, kind, and the difference; None where there surely is none."""

    case: str
    base: str
    side: str
    kind: str
    difference_s: float | None

    def row(self, part: str, of: str | None, depth: int, base: float, side: float) -> AttributionRow:
        """The row of a part."""
        difference = side - base
        share = difference / self.difference_s if self.difference_s else None
        return AttributionRow(
            self.case, self.base, self.side, self.kind, part, of, depth, base, side, difference, share
        )


def _median_pairs(
    kind: str, base: SideValues, side: SideValues, base_runs: Sequence[str], side_runs: Sequence[str]
) -> MedianPairs:
    """Both centres of each time, as the compared figures have them; of the step and its parts, of means over the ranks.

    A layer, range or kernel that one side lacks took no time there. A phase that one side does not print is left out:
    the side may have it too.
    """
    pairs = {}
    for measure in dict.fromkeys([*base.by_measure, *side.by_measure]):
        a, b = base.part_of_step(measure, base_runs), side.part_of_step(measure, side_runs)
        if measure.kind in _KINDS[kind] and measure.unit == "s" and (a and b if kind == "step" else a or b):
            pairs[measure] = (
                _centre(a) if a else 0.0,
                _centre(b) if b else 0.0,
            )
    return pairs


def _centre(runs: Sequence[Floats]) -> float:
    return centre_of_runs(np.array([median(run) for run in runs]))


def _tree(
    pairs: MedianPairs, parts: Mapping[str | None, Sequence[Measure]], top: Measure, whole: _Whole
) -> Iterator[AttributionRow]:
    """The whole, then its parts, each followed by its own parts."""
    open_: list[tuple[Measure, tuple[str, ...]] | AttributionRow] = [(top, ())]  # with the names of what it is part of
    while open_:
        next_ = open_.pop()
        if isinstance(next_, AttributionRow):
            yield next_
            continue
        each, above = next_
        path = (*above, each.name)
        yield whole.row(each.name, each.of, len(above), *pairs[each])
        inside = [m for m in parts.get(each.name, ()) if m.name not in path]
        if inside:
            left = (total - sum(pairs[m][i] for m in inside) for i, total in enumerate(pairs[each]))
            open_.append(whole.row(UNEXPLAINED, each.name, len(path), *left))
            inside.sort(key=lambda m: -abs(pairs[m][1] - pairs[m][0]))
            open_ += [(m, path) for m in reversed(inside)]  # the last one is next


def part_name(part: AttributionRow) -> str:
    """Return the name of a part as shown below its whole: a range without its path, or the time in no part."""
    is_range = part.kind == "range"
    if part.part == UNEXPLAINED:
        return f"{last_of_path(part.of or '')} itself" if is_range else f"{part.of} (untimed)"
    return last_of_path(part.part) if is_range else part.part


_Row = TypeVar("_Row", bound=TreeRow)


def telling_parts(parts: Sequence[_Row], room: int) -> list[_Row]:
    """Return the parts of a whole that differ most, each below what it is part of.

    Args:
        parts: The rows of one case, side and kind; the first is the whole, which is not returned.
        room: Number of parts at most.
    """
    whole = parts[0]
    limit = LEAST_SHARE * abs(whole.base_s if whole.share is None else whole.difference_s)
    chosen: set[int] = set()
    for place in sorted(range(1, len(parts)), key=lambda i: -abs(parts[i].difference_s)):
        path = {place, *_above(parts, place)}
        if abs(parts[place].difference_s) >= limit and len(chosen | path) <= room:
            chosen |= path
    return [parts[place] for place in sorted(chosen)]


def are_offset(parts: Sequence[TreeRow]) -> bool:
    """Return whether a part differs by far more than the whole, so that shares of the difference say nothing."""
    return any(part.share is not None and abs(part.share) > _OFFSET for part in parts)


def _above(parts: Sequence[TreeRow], place: int) -> Iterator[int]:
    """Places of what a part is part of, below the whole."""
    depth = parts[place].depth
    for above in range(place - 1, 0, -1):
        if parts[above].depth < depth:
            depth = parts[above].depth
            yield above
