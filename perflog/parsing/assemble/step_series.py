"""What needs the steps of a run in a row: repeated printings, intervals, and the windows of printed averages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.formats.model import SINCE_PREVIOUS
from perflog.parsing.assemble.averages import TAIL, find_window
from perflog.parsing.assemble.rows import LineRows, TableBuilder
from perflog.parsing.assemble.runs import RunState
from perflog.parsing.assemble.step_repeats import StepRepeats
from perflog.parsing.match.numeric import Ints
from perflog.tables.arrow import number_array, word_array
from perflog.tables.schema import column_for

if TYPE_CHECKING:
    import pyarrow as pa

SEARCHES = 50
"""Figures of a log for which all windows are searched in vain; after that only those at the end of a run are."""

LEAST = 256
"""Steps of each rank that are kept to look for windows in, however many ranks print."""


def number(runs: Sequence[RunState], rows: Sequence[LineRows], edges: Ints) -> None:
    """Fill `copy` and `averaged` of the step lines of a stretch, of whatever shapes, in log order.

    Each rank's lines count by themselves: a step that two ranks print is printed once by each.
    """
    at = np.concatenate([r.records.places for r in rows])
    order = np.argsort(at, kind="stable")
    steps = np.concatenate([r.step for r in rows])[order]
    known = np.concatenate([r.step_known for r in rows])[order]
    ranks = np.concatenate([r.ranks.rank for r in rows])[order]
    covers = np.concatenate([np.full(len(r), r.line.covers) for r in rows])[order]
    cuts = [*np.searchsorted(at[order], edges).tolist(), len(at)]
    copy, span = np.ones(len(at), np.int64), np.ones(len(at), np.int64)
    for run, (low, high) in zip(runs, pairwise(cuts), strict=True):
        span[low:high] = np.maximum(covers[low:high], 1)
        told = np.arange(low, high)[known[low:high]]  # a line that tells no step is no second printing of one
        for rank, which in by_rank(ranks[told]) if len(told) else ():
            mine = told[which]
            printings = run.printings.setdefault(rank, StepRepeats())
            copy[mine] = printings.copies_of(steps[mine])
            since = covers[mine] == SINCE_PREVIOUS
            if since.any():
                span[mine[since]] = printings.spans_of(steps[mine])[since]
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    stops = np.cumsum([len(r) for r in rows])
    for row, own in zip(rows, np.split(back, stops[:-1]), strict=True):
        row.copy, row.averaged = copy[own], span[own]


def by_rank(ranks: Ints) -> Iterator[tuple[int, slice | Ints]]:
    """Each rank and where its rows are; -1 where it is not known."""
    if (ranks == ranks[0]).all():
        yield int(ranks[0]), slice(None)
        return
    for rank in np.unique(ranks).tolist():
        yield rank, np.flatnonzero(ranks == rank)


class Series:
    """The last steps of each run as they were printed, to find the windows of averages in."""

    def __init__(self) -> None:
        self._hints: dict[str, int] = {}
        self._searches = 0

    def add(self, runs: Sequence[RunState], rows: Sequence[LineRows], edges: Ints) -> None:
        """Remember the numbers of step lines, with their places. Only one printing of each step counts."""
        for row in rows:
            cuts = [*np.searchsorted(row.records.places, edges).tolist(), len(row)]
            for run, (low, high) in zip(runs, pairwise(cuts), strict=True):
                if high > low:
                    self._remember(run, row, low, high)

    def _remember(self, run: RunState, row: LineRows, low: int, high: int) -> None:
        for rank, which in by_rank(row.ranks.rank[low:high]):
            mine: slice | Ints = slice(low, high) if isinstance(which, slice) else low + which
            if row.copy is not None and not (row.copy[mine] == 1).all():
                mine = np.arange(low, high)[which][row.copy[mine] == 1]
            at, steps = row.records.places[mine].copy(), row.step[mine].copy()
            for f in row.line.template.fields:
                if not f.numeric or f.name == "step" or not column_for("steps", f.name):
                    continue
                unit = row.line.unit.get(f.name)
                decimals = int(f.spec.split(".")[1][:-1]) if "." in f.spec and f.type == "f" else 15
                ranks = run.series.setdefault(f.name, {})
                parts = ranks.setdefault(rank, [])
                values = row.records.columns[f.name][mine].astype(np.float64)
                parts.append((at, steps, values, decimals, unit.factor if unit else 1.0))
                while sum(len(p[0]) for p in parts[1:]) >= _kept(ranks):
                    parts.pop(0)

    def window(
        self, run: RunState, key: str, rank: int, place: int, printed: float, factor: float
    ) -> tuple[int, int, str] | None:
        """First and last step of the window whose mean is the printed figure, and how well it fits.

        Looked for in the steps that `rank` printed; where it printed none, or is not known (-1), in those of each rank.
        """
        ranks = run.series.get(key, {})
        for who in [rank] if rank in ranks else sorted(ranks):
            found = self._window(key, ranks[who], _kept(ranks), place, printed, factor)
            if found is not None:
                return found
        return None

    def _window(
        self, key: str, parts: list[Any], kept: int, place: int, printed: float, factor: float
    ) -> tuple[int, int, str] | None:
        decimals, unit = parts[-1][3], parts[-1][4]
        if unit != factor:
            printed *= factor / unit
        hint = self._hints.get(key)
        at, steps, values = parts[-1][:3]
        if hint is None or len(at) < hint or at[-1] > place:
            at, steps, values = (np.concatenate([p[i] for p in parts]) for i in range(3))
            stop = int(np.searchsorted(at, place))
            steps, values = steps[:stop][-kept:], values[:stop][-kept:]
        found = find_window(values, printed, decimals, hint, self._searches < SEARCHES)
        if found is None or found.last < len(values):
            self._searches += 1  # it took a search of all windows
        if found is None:
            return None
        if found.last == len(values):
            self._hints[key] = found.last - found.first
        return int(steps[found.first]), int(steps[found.last - 1]), "exact" if found.exact else "rounding"


def _kept(ranks: Mapping[int, object]) -> int:
    """Steps of each of so many ranks that are kept: what is kept of a run stays the same."""
    return max(LEAST, TAIL // len(ranks))


def summaries(
    builder: TableBuilder, series: Series, runs: Sequence[RunState], rows: list[LineRows], edges: Ints
) -> pa.Table:
    """The rows of printed figures, each with its window."""
    windows: list[list[Any]] = []
    for row in rows:
        names = [n for n in row.line.template.names if n not in row.line.run and n not in ("rank", "step")]
        owner = np.searchsorted(edges, row.records.places, "right") - 1
        for name in names:
            unit = row.line.unit.get(name)
            for i, value in enumerate(row.records.columns[name].tolist()):
                place, factor = int(row.records.places[i]), unit.factor if unit else 1.0
                found = series.window(runs[owner[i]], name, int(row.ranks.rank[i]), place, value, factor)
                windows.append(list(found or (None, None, None)))
    table = builder.tables(rows)["summaries"]
    known = np.array([w[0] is not None for w in windows], np.bool_)
    for position, name in ((0, "window_first"), (1, "window_last")):
        values = number_array(np.array([w[position] or 0 for w in windows], np.int64), known)
        table = table.set_column(table.schema.get_field_index(name), table.schema.field(name), values)
    fits = {"exact": 0, "rounding": 1}
    codes = np.array([fits.get(w[2], -1) for w in windows], np.int64)
    index = table.schema.get_field_index("window_fit")
    return table.set_column(index, table.schema.field(index), word_array(codes, tuple(fits)))
