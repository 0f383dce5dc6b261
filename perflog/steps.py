"""What needs the steps of a run in a row: repeated printings, intervals, and the windows of printed averages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from perflog.arrow import array, words
from perflog.columnar import Ints
from perflog.declared import SINCE_PREVIOUS
from perflog.runs import Printings, Run
from perflog.schema import column
from perflog.tables import Builder, Rows
from perflog.windows import TAIL, find

if TYPE_CHECKING:
    import pyarrow as pa

SEARCHES = 50
"""Figures of a log for which all windows are searched in vain; after that only those at the end of a run are."""

_DENSE = 1 << 24  # steps below it are counted in an array
_MANY = 255  # printings of a step, from which on they are counted beside it

LEAST = 256
"""Steps of each rank that are kept to look for windows in, however many ranks print."""


def number(runs: Sequence[Run], rows: Sequence[Rows], edges: Ints) -> None:
    """Fill `copy` and `averaged` of the step lines of a stretch, of whatever shapes, in log order.

    Each rank's lines count by themselves: a step that two ranks print is printed once by each.
    """
    at = np.concatenate([r.records.at for r in rows])
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
            printings = run.printings.setdefault(rank, Printings())
            copy[mine] = _copies(printings, steps[mine])
            since = covers[mine] == SINCE_PREVIOUS
            if since.any():
                span[mine[since]] = _spans(printings, steps[mine])[since]
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


def _copies(printings: Printings, steps: Ints) -> Ints:
    """k-th printing of the same step, from 1."""
    out = np.ones(len(steps), np.int64)
    rising = bool((steps[1:] > steps[:-1]).all()) and int(steps[0]) > printings.top
    printings.top = max(printings.top, int(steps.max()))
    if rising and int(steps[-1]) < _DENSE:
        _seen(printings, int(steps[-1]))[steps] = 1
        return out
    for i, step in enumerate(steps.tolist()):
        dense = 0 <= step < _DENSE
        if dense and (seen := _seen(printings, step))[step] < _MANY:
            seen[step] += 1
            out[i] = seen[step]
        else:
            printings.copies[step] = printings.copies.get(step, _MANY if dense else 0) + 1
            out[i] = printings.copies[step]
    return out


def _spans(printings: Printings, steps: Ints) -> Ints:
    """Steps a line covers: all since the step printed before it, counted from 1.

    A counter that goes back to where the run's first line stood (the next epoch) covers what that line did.
    """
    out = np.ones(len(steps), np.int64)
    last, span = printings.last_step, printings.last_span
    for i, step in enumerate(steps.tolist()):
        if printings.first_step is None:
            printings.first_step = step
        if step != last:
            span = step - last if step > last else step if step == printings.first_step else 1
            last = step
        out[i] = span
    printings.last_step, printings.last_span = last, span
    return out


def _seen(printings: Printings, step: int) -> npt.NDArray[np.uint8]:
    """How often each step was printed, as an array long enough for `step`."""
    if step >= len(printings.seen):
        grown = np.zeros(max(2 * len(printings.seen), step + 1, 128), np.uint8)
        grown[: len(printings.seen)] = printings.seen
        printings.seen = grown
    return printings.seen


class Series:
    """The last steps of each run as they were printed, to find the windows of averages in."""

    def __init__(self) -> None:
        self._hints: dict[str, int] = {}
        self._searches = 0

    def add(self, runs: Sequence[Run], rows: Sequence[Rows], edges: Ints) -> None:
        """Remember the numbers of step lines, with their places. Only one printing of each step counts."""
        for row in rows:
            cuts = [*np.searchsorted(row.records.at, edges).tolist(), len(row)]
            for run, (low, high) in zip(runs, pairwise(cuts), strict=True):
                if high > low:
                    self._remember(run, row, low, high)

    def _remember(self, run: Run, row: Rows, low: int, high: int) -> None:
        for rank, which in by_rank(row.ranks.rank[low:high]):
            mine: slice | Ints = slice(low, high) if isinstance(which, slice) else low + which
            if row.copy is not None and not (row.copy[mine] == 1).all():
                mine = np.arange(low, high)[which][row.copy[mine] == 1]
            at, steps = row.records.at[mine].copy(), row.step[mine].copy()
            for f in row.line.template.fields:
                if not f.numeric or f.name == "step" or not column("steps", f.name):
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
        self, run: Run, key: str, rank: int, place: int, printed: float, factor: float
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
        found = find(values, printed, decimals, hint, self._searches < SEARCHES)
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


def summaries(builder: Builder, series: Series, runs: Sequence[Run], rows: list[Rows], edges: Ints) -> pa.Table:
    """The rows of printed figures, each with its window."""
    windows: list[list[Any]] = []
    for row in rows:
        names = [n for n in row.line.template.names if n not in row.line.run and n not in ("rank", "step")]
        owner = np.searchsorted(edges, row.records.at, "right") - 1
        for name in names:
            unit = row.line.unit.get(name)
            for i, value in enumerate(row.records.columns[name].tolist()):
                place, factor = int(row.records.at[i]), unit.factor if unit else 1.0
                found = series.window(runs[owner[i]], name, int(row.ranks.rank[i]), place, value, factor)
                windows.append(list(found or (None, None, None)))
    table = builder.tables(rows)["summaries"]
    known = np.array([w[0] is not None for w in windows], np.bool_)
    for position, name in ((0, "window_first"), (1, "window_last")):
        values = array(np.array([w[position] or 0 for w in windows], np.int64), known)
        table = table.set_column(table.schema.get_field_index(name), table.schema.field(name), values)
    fits = {"exact": 0, "rounding": 1}
    codes = np.array([fits.get(w[2], -1) for w in windows], np.int64)
    index = table.schema.get_field_index("window_fit")
    return table.set_column(index, table.schema.field(index), words(codes, tuple(fits)))
